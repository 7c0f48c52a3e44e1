//! What the ClickHouse server counts; its counters start anew with each of its lives.
//!
//! Must not be here: what workers count.

use anyhow::Result;

use super::tally::Tally;
use crate::clickhouse::ClickHouseClient;

/// Reads the server's counter of dropped blocks in its present life.
pub(crate) fn look(client: &ClickHouseClient, life: u64, tally: &mut Tally) -> Result<()> {
    let text =
        client.query("SELECT value FROM system.events WHERE event = 'DuplicatedInsertedBlocks'")?;
    // An event that never happened has no row.
    tally
        .duplicated_blocks
        .note(life, text.trim().parse().unwrap_or(0));
    Ok(())
}

/// INSERTs that began before so many seconds and still run.
pub(crate) fn count_older_inserts(client: &ClickHouseClient, seconds: f64) -> Result<u64> {
    client.scalar(&format!(
        "SELECT count() FROM system.processes WHERE query_kind = 'Insert' AND elapsed > {seconds:.3}"
    ))
}
