//! What one look at the table asks the server.
//!
//! Must not be here: judging the answers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use clickhouse::{Client, Row};
use clickhouse_sink_crds::check::EngineText;
use clickhouse_sink_crds::table::{ObservedColumn, ObservedTable};
use serde::Deserialize;

use crate::clock::ServerClock;
use crate::insert::class::Failure;
use crate::window::{WINDOW_SETTINGS, is_replicated};

#[derive(Row, Deserialize)]
struct TableRow {
    uuid: String,
    engine: String,
    engine_full: String,
    sorting_key: String,
    partition_key: String,
    comment: String,
    server_now_s: u32,
}

#[derive(Row, Deserialize)]
struct ColumnRow {
    name: String,
    data_type: String,
    default_kind: String,
    default_expression: String,
    comment: String,
}

const TABLE_SQL: &str = "SELECT toString(uuid) AS uuid, engine, engine_full, sorting_key, partition_key, comment, \
     toUnixTimestamp(now()) AS server_now_s \
     FROM system.tables WHERE database = ? AND name = ?";
const COLUMNS_SQL: &str = "SELECT name, type AS data_type, default_kind, default_expression, comment \
     FROM system.columns WHERE database = ? AND table = ? ORDER BY position";

/// The table and the server's clock; `None` where there is no such table, or no right to see it.
pub(super) async fn fetch_table(
    client: &Client,
    database: &str,
    name: &str,
) -> Result<Option<(ObservedTable, ServerClock)>, Failure> {
    let asked_at = Instant::now();
    let table = client
        .query(TABLE_SQL)
        .bind(database)
        .bind(name)
        .fetch_optional::<TableRow>()
        .await
        .map_err(failed)?;
    let Some(table) = table else {
        return Ok(None);
    };
    let clock = ServerClock::answered(u64::from(table.server_now_s), asked_at);
    let columns = client
        .query(COLUMNS_SQL)
        .bind(database)
        .bind(name)
        .fetch_all::<ColumnRow>()
        .await
        .map_err(failed)?;
    let observed = ObservedTable {
        uuid: table.uuid,
        engine: table.engine,
        engine_full: table.engine_full,
        sorting_key: table.sorting_key,
        partition_key: table.partition_key,
        comment: table.comment,
        columns: columns.into_iter().map(observed_column).collect(),
        // Neither ever stops writes, and each look is cheap without them.
        indexes: Vec::new(),
        views: Vec::new(),
    };
    Ok(Some((observed, clock)))
}

fn observed_column(row: ColumnRow) -> ObservedColumn {
    ObservedColumn {
        name: row.name,
        data_type: row.data_type,
        default_kind: row.default_kind,
        default_expression: row.default_expression,
        comment: row.comment,
        compression_codec: String::new(),
    }
}

/// Names of the settings that the server knows.
pub(super) async fn fetch_settings(client: &Client) -> Result<BTreeSet<String>, Failure> {
    let names = client
        .query("SELECT name FROM system.settings")
        .fetch_all::<String>()
        .await
        .map_err(failed)?;
    Ok(names.into_iter().collect())
}

/// The server's own values of the settings that make the window; empty where the table has them all, or where the
/// server does not tell.
pub(super) async fn fetch_window_defaults(
    client: &Client,
    engine: &str,
    text: &EngineText,
) -> BTreeMap<String, u64> {
    let replicated = is_replicated(engine);
    let mut wanted = WINDOW_SETTINGS
        .iter()
        .filter(|name| name.starts_with("replicated") == replicated);
    if wanted.all(|name| text.setting(name).is_some()) {
        return BTreeMap::new();
    }
    let source = if replicated {
        "replicated_merge_tree_settings"
    } else {
        "merge_tree_settings"
    };
    let sql =
        format!("SELECT name, toUInt64OrZero(value) AS value FROM system.{source} WHERE name IN ?");
    let rows = client
        .query(&sql)
        .bind(WINDOW_SETTINGS.as_slice())
        .fetch_all::<(String, u64)>()
        .await;
    rows.unwrap_or_default().into_iter().collect()
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "the shape that `map_err` takes"
)]
fn failed(error: clickhouse::error::Error) -> Failure {
    crate::insert::client::classify_error(&error)
}
