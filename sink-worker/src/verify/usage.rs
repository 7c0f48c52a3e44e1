//! How much of the deduplication window was used since a moment.
//!
//! Must not be here: what follows from it (`window.rs`).

use clickhouse::Client;

use super::ask::failed;
use super::{TableName, sql};
use crate::clock::age_s;
use crate::insert::class::Failure;
use crate::window::WindowUse;

/// The log is not kept, is of another version, or may not be read.
const NO_LOG: [u32; 4] = [47, 60, 81, 497];

pub(super) async fn fetch_window_use(
    client: &Client,
    table: TableName<'_>,
    since_unix_s: u64,
) -> Result<WindowUse, Failure> {
    let now = client.query_raw(sql::SERVER_NOW).fetch_one::<u64>();
    let seconds = age_s(now.await.map_err(failed)?, since_unix_s);
    if seconds.is_none() {
        return Ok(WindowUse::default());
    }
    let question = client
        .query_raw(sql::ENTRIES)
        .param("database", table.database)
        .param("table", table.table)
        .param("since", since_unix_s);
    let counted = match question.fetch_one::<(u8, u64)>().await.map_err(failed) {
        Ok((reaches, entries)) => (reaches == 1).then_some(entries),
        Err(failure) if failure.code.is_some_and(|code| NO_LOG.contains(&code)) => None,
        Err(failure) => return Err(failure),
    };
    let entries = match counted {
        Some(entries) => Some(entries),
        None => fetch_ever(client, table).await?,
    };
    Ok(WindowUse { entries, seconds })
}

/// Where nobody counted since then: no more than was ever used.
async fn fetch_ever(client: &Client, table: TableName<'_>) -> Result<Option<u64>, Failure> {
    let question = client
        .query_raw(sql::EVER)
        .param("database", table.database)
        .param("table", table.table);
    match question.fetch_optional::<u64>().await.map_err(failed) {
        Err(failure) if failure.code.is_some_and(|code| NO_LOG.contains(&code)) => Ok(None),
        answer => answer,
    }
}
