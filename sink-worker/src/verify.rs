//! Asks the table which rows of a declared range it has, where the server may have forgotten the range's token.
//!
//! Every function asks and changes nothing. Whoever calls has made sure that every earlier attempt has ended. Must not
//! be here: sending what is missing, holds, the age of a range (`window.rs`).

use std::collections::BTreeSet;
use std::time::Duration;

use clickhouse::Client;
use clickhouse_sink_crds::commit::Range;

use self::ask::Asker;
use self::judge::{Matched, match_rows, plan_send};
use crate::batch::Rows;
use crate::insert::class::Failure;
use crate::window::WindowUse;

mod ask;
mod doubt;
mod judge;
mod key;
mod sql;
mod usage;

/// A verification that takes longer counts as no answer: the table is read without an index.
const ANSWER_WITHIN: Duration = Duration::from_mins(10);

/// A table, by names as they are (not quoted).
#[derive(Clone, Copy, Debug)]
pub struct TableName<'a> {
    /// Database.
    pub database: &'a str,
    /// Table.
    pub table: &'a str,
}

/// A declared range of an earlier session, with the rows that Kafka gives for it now.
#[derive(Clone, Copy, Debug)]
pub struct VerifyRequest<'a> {
    /// The table that the rows go to.
    pub table: TableName<'a>,
    /// Topic of the partition.
    pub topic: &'a str,
    /// The range as it was declared, epoch included.
    pub range: &'a Range,
    /// The rows read again, in offset order, none missing.
    pub rows: &'a Rows,
    /// When the range was first declared, in seconds since 1970 of the server's clock; `None`: not known.
    pub declared_at_s: Option<u64>,
    /// Settings that the server knows ([`crate::table_watch::TableReport::known_settings`]).
    pub known_settings: &'a BTreeSet<String>,
}

/// What the table says about a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every row is there, or its table partition has rows of the same INSERT: there is nothing to send.
    AllThere,
    /// Send [`crate::native::Block::pick`] of exactly these rows, under the range's original token.
    Send {
        /// Indices of rows in the block, ascending: all rows of the table partitions of which nothing is there.
        rows: Vec<usize>,
    },
    /// Rows are not there, and it cannot be told whether they ever were: `Held(WindowExceeded)`.
    Unprovable {
        /// Rows of the declared range.
        declared: u64,
        /// Rows of it that the table has.
        found: u64,
        /// Rows of table partitions of which the table has nothing.
        missing: u64,
        /// What was declared, found and missing, why it proves nothing, what to do.
        message: String,
    },
}

/// Asks the table for the rows of a range, and decides what of it may be sent.
///
/// Needs `SELECT` on the table, `system.mutations` and `system.parts`.
///
/// # Errors
/// No answer, or a refusal: ask again. A table that is not there fails as a table check.
pub async fn verify_range(
    client: &Client,
    request: &VerifyRequest<'_>,
) -> Result<Verdict, Failure> {
    within(verify(client, request)).await
}

/// Rows of the offsets `[start, end)` of a partition that the table has, whatever their timestamps.
///
/// 0 is no proof that they never were there: see [`Verdict::Unprovable`], and ask [`verify_range`] for that.
///
/// # Errors
/// As [`verify_range`].
pub async fn count_rows_of(
    client: &Client,
    table: TableName<'_>,
    known_settings: &BTreeSet<String>,
    topic: &str,
    partition: i32,
    (start, end): (i64, i64),
) -> Result<u64, Failure> {
    let question = async {
        let asker = Asker::new(client, table, known_settings);
        let facts = asker.fetch_facts().await?;
        let asker = asker.for_engine(&facts.engine);
        asker.check_caught_up(&facts.engine).await?;
        asker.count(topic, partition, (start, end)).await
    };
    within(question).await
}

/// What was used of the table's window since a moment, in seconds since 1970 of the server's clock (0: not known).
///
/// Entries are counted in `system.part_log`, completed by the parts that are not logged yet; they are `None` where
/// that log is not kept, does not reach back so far, or may not be read.
///
/// # Errors
/// No answer, or a refusal: ask again.
pub async fn fetch_window_use(
    client: &Client,
    table: TableName<'_>,
    since_unix_s: u64,
) -> Result<WindowUse, Failure> {
    within(usage::fetch_window_use(client, table, since_unix_s)).await
}

async fn within<T>(question: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::time::timeout(ANSWER_WITHIN, question)
        .await
        .unwrap_or_else(|_| {
            Err(Failure::no_answer(
                "no answer to a question within 10 minutes",
            ))
        })
}

async fn verify(client: &Client, request: &VerifyRequest<'_>) -> Result<Verdict, Failure> {
    let block = &request.rows.block;
    if block.rows() == 0 {
        return Ok(Verdict::AllThere);
    }
    let asker = Asker::new(client, request.table, request.known_settings);
    let facts = asker.fetch_facts().await?;
    let asker = asker.for_engine(&facts.engine);
    let Some(timestamps) = block.timestamps_ms() else {
        return Ok(unprovable(
            request,
            0,
            block.rows(),
            "the table has no metadata columns to look for",
        ));
    };
    if !facts.engine.ends_with("MergeTree") {
        let doubt = format!("the engine {} has no table partitions", facts.engine);
        return Ok(unprovable(request, 0, block.rows(), &doubt));
    }
    asker.check_caught_up(&facts.engine).await?;
    let offsets: Vec<i64> = (0..block.rows())
        .filter_map(|row| request.rows.offsets.offset_of(row))
        .collect();
    let found = asker.fetch_found(request.topic, request.range).await?;
    let matched = match_rows(&offsets, &timestamps, &found);
    let missing = match find_missing(&asker, request, &facts, &matched).await? {
        Ok(missing) => missing,
        Err(doubt) => {
            let missing = block.rows() - matched.found();
            return Ok(unprovable(request, matched.found(), missing, &doubt));
        }
    };
    if missing.is_empty() {
        return Ok(Verdict::AllThere);
    }
    let doubts = doubt::fetch_doubts(&asker, request, &facts).await?;
    if doubts.is_empty() {
        return Ok(Verdict::Send { rows: missing });
    }
    Ok(unprovable(
        request,
        matched.found(),
        missing.len(),
        &doubts.join("; "),
    ))
}

/// Rows of the table partitions of which nothing is there; a text where they cannot be told.
async fn find_missing(
    asker: &Asker<'_>,
    request: &VerifyRequest<'_>,
    facts: &ask::Facts,
    matched: &Matched,
) -> Result<Result<Vec<usize>, String>, Failure> {
    let rows = request.rows.block.rows();
    if matched.found() == rows {
        return Ok(Ok(Vec::new()));
    }
    if matched.found() == 0 {
        return Ok(Ok((0..rows).collect()));
    }
    let key = match key::plan_key(
        &facts.partition_key,
        &facts.key_columns,
        &request.rows.block,
    ) {
        Ok(Some(key)) => key,
        // One table partition, and some of its rows are there.
        Ok(None) => return Ok(Ok(Vec::new())),
        Err(doubt) => return Ok(Err(doubt)),
    };
    let table_partitions = asker.fetch_table_partitions(&key).await?;
    Ok(plan_send(matched, &table_partitions))
}

fn unprovable(request: &VerifyRequest<'_>, found: usize, missing: usize, doubt: &str) -> Verdict {
    let declared = request.rows.block.rows();
    let Range {
        partition,
        start,
        end,
        ..
    } = request.range;
    let message = format!(
        "expected the {declared} rows of {}/{partition} offsets {start} to {} in the table, found {found}; {missing} \
         are in table partitions that have none of them, and it cannot be told whether they were there before: {doubt}",
        request.topic,
        end - 1,
    );
    Verdict::Unprovable {
        declared: declared as u64,
        found: found as u64,
        missing: missing as u64,
        message,
    }
}
