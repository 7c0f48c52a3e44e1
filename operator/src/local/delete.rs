//! What becomes of the tables of a sink that is gone from the files.
//!
//! Must not be here: which they are (`ownership/deletion.rs`).

use std::time::Duration;

use clickhouse_sink_crds::api::DeletionPolicy;
use tokio::time::{sleep, timeout};

use crate::controller::declaration::Declaration;
use crate::controller::observe::fetch_server;
use crate::local::build_warehouse;
use crate::ownership::deletion::plan_deletion;
use crate::warehouse::{Warehouse, WarehouseError};

/// A server that cannot be reached for so long keeps the tables.
const GIVE_UP: Duration = Duration::from_secs(30);
/// Wait between two attempts.
const PAUSE: Duration = Duration::from_secs(1);

/// Drops what the sink made, where it says so; gives up after a while, so that a sink can always be removed.
pub async fn delete_tables(declaration: &Declaration) {
    if declaration.sink.spec.deletion_policy == DeletionPolicy::Retain {
        return;
    }
    let sink = declaration.qualified_name();
    if timeout(GIVE_UP, delete_until_done(declaration))
        .await
        .is_err()
    {
        let table = format!(
            "{}.{}",
            declaration.expected.database, declaration.expected.name
        );
        tracing::warn!(
            sink,
            table,
            seconds = GIVE_UP.as_secs(),
            "ClickHouse could not be used: what this sink made is left, drop it by hand."
        );
    }
}

async fn delete_until_done(declaration: &Declaration) {
    let warehouse = build_warehouse(declaration);
    while let Err(error) = delete_once(&warehouse, declaration).await {
        let sink = declaration.qualified_name();
        tracing::warn!(sink, %error, "What this sink made is not dropped yet.");
        sleep(PAUSE).await;
    }
}

async fn delete_once<W: Warehouse>(
    warehouse: &W,
    declaration: &Declaration,
) -> Result<(), WarehouseError> {
    let sink = declaration.qualified_name();
    let plan = plan_deletion(declaration, &fetch_server(warehouse, declaration).await?);
    for statement in &plan.drops {
        warehouse.apply_statement(statement).await?;
        tracing::info!(sink, statement, "What this sink made was dropped.");
    }
    for left in &plan.left {
        tracing::warn!(sink, left, "A table is left.");
    }
    Ok(())
}
