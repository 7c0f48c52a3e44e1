//! The way back of rejected records: read from the rejected table, decoded with the present mapping, inserted, marked.
//!
//! One record, one INSERT, one token: killed in the middle and run again, each row is in the table once. Must not be here:
//! Kafka's records (what was rejected is kept whole), offsets, commits.

mod ask;
mod group;
mod send;
mod sql;

use std::fmt;
use std::time::{Duration, Instant};

use clickhouse_sink_crds::worker_config::WorkerConfig;

use self::ask::{Asker, Cursor};
use self::group::{Group, split_groups};
use self::send::Sender;
use crate::insert::class::Failure;
use crate::insert::client::{CredentialsError, build_client};
use crate::kafka::{KafkaError, fetch_cluster_id};
use crate::mapping::Mappings;
use crate::pipeline::render_client_settings;
use crate::schema::SchemaError;
use crate::table_watch::{TableWatch, run_table_watch};

/// How long the table and Kafka may take to answer at the start.
const START_WITHIN: Duration = Duration::from_secs(30);

/// Which rejected records are tried again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only those with this code (`BadTimestamp`, …).
    pub code: Option<String>,
    /// Only those that were rejected at or after this time, milliseconds since 1970.
    pub since_ms: Option<i64>,
}

/// What became of the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Inserted now.
    pub replayed: u64,
    /// In the table before.
    pub already_there: u64,
    /// Without payload, and such records now make no row.
    pub skipped: u64,
    /// Still no row.
    pub still_rejected: u64,
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            replayed,
            already_there,
            skipped,
            still_rejected,
        } = self;
        write!(
            f,
            "{replayed} replayed, {already_there} already there, {still_rejected} still rejected"
        )?;
        if *skipped > 0 {
            write!(f, ", {skipped} tombstones skipped")?;
        }
        Ok(())
    }
}

/// Why a replay ended early; what was done stays done, and the next one goes on.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The mapping does not compile.
    #[error("the mapping cannot be used: {0}")]
    Schema(#[from] SchemaError),
    /// The credentials cannot be read.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// Kafka does not tell its cluster's id, which is a part of the tokens.
    #[error(
        "expected the id of the Kafka cluster, found none: {0}; check `kafka.bootstrapServers`"
    )]
    Kafka(#[from] KafkaError),
    /// The table is not as declared, or cannot be looked at.
    #[error("{reason}: {message}; mend it, then replay again")]
    Table {
        /// Why.
        reason: &'static str,
        /// In words.
        message: String,
    },
    /// Nothing tells which records the table has.
    #[error(
        "expected metadata columns, found `metadataColumns.mode: None` and {0} rejected records: without `_topic`, \
         `_partition` and `_offset` nobody can tell which of them the table has; insert them by hand from the rejected table"
    )]
    NoMetadataColumns(u64),
    /// ClickHouse refuses, or does not answer.
    #[error("{reason}: {message}; what was replayed so far stays, mend it and replay again", reason = .0.class.reason(), message = .0.message)]
    ClickHouse(Failure),
}

impl From<Failure> for ReplayError {
    fn from(failure: Failure) -> Self {
        Self::ClickHouse(failure)
    }
}

/// Replays what the filter names, oldest offsets first.
///
/// # Errors
/// Why it ended early.
pub async fn run_replay(config: &WorkerConfig, filter: &Filter) -> Result<Totals, ReplayError> {
    let client = build_client(&config.clickhouse)?;
    let mapping = Mappings::compile(config)?.current().clone();
    let table = run_table_watch(client.clone(), config.table.clone(), &config.delivery);
    wait_for_table(&table).await?;
    let asker = Asker::new(client.clone(), config);
    let open = asker.count_open(filter).await?;
    if open > 0 && !config.table.metadata_columns {
        return Err(ReplayError::NoMetadataColumns(open));
    }
    let mut totals = Totals::default();
    if open == 0 {
        return Ok(totals);
    }
    let cluster_id = ask_cluster_id(config).await?;
    let mut sender = Sender::new(client, config, mapping, table, cluster_id);
    let mut cursor = Cursor::default();
    loop {
        let page = asker.fetch_page(filter, &cursor).await?;
        let Some(last) = page.last() else {
            return Ok(totals);
        };
        cursor = Cursor::behind(last);
        for group in split_groups(page) {
            replay_group(&asker, &mut sender, &group, &mut totals).await?;
        }
    }
}

/// One partition's records of one epoch: what is there is only marked, the others are sent one by one, then marked.
async fn replay_group(
    asker: &Asker,
    sender: &mut Sender,
    group: &Group,
    totals: &mut Totals,
) -> Result<(), ReplayError> {
    let there = asker.fetch_there(group).await?;
    let outcome = sender.send_missing(group, &there).await?;
    asker.mark_replayed(group, &outcome.done).await?;
    for (cause, offsets) in &outcome.rejected {
        asker.mark_rejected(group, cause, offsets).await?;
    }
    totals.replayed += outcome.replayed;
    totals.already_there += outcome.already_there;
    totals.skipped += outcome.skipped;
    totals.still_rejected += outcome.still_rejected;
    Ok(())
}

async fn wait_for_table(table: &TableWatch) -> Result<(), ReplayError> {
    let mut reports = table.subscribe();
    let looked = reports.wait_for(|report| report.sequence > 0);
    let looked = tokio::time::timeout(START_WITHIN, looked).await;
    let report = table.report();
    if matches!(looked, Ok(Ok(_))) && report.is_as_declared() {
        return Ok(());
    }
    Err(ReplayError::Table {
        reason: report.reason(),
        message: report.message(),
    })
}

async fn ask_cluster_id(config: &WorkerConfig) -> Result<String, ReplayError> {
    let settings = render_client_settings(config);
    let deadline = Instant::now() + START_WITHIN;
    let asked = tokio::task::spawn_blocking(move || fetch_cluster_id(&settings, deadline)).await;
    // A panic there is a bug; nothing was done yet.
    Ok(asked.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_name_tombstones_only_where_there_are_some() {
        let totals = Totals {
            replayed: 3,
            already_there: 2,
            skipped: 0,
            still_rejected: 1,
        };
        assert_eq!(
            totals.to_string(),
            "3 replayed, 2 already there, 1 still rejected"
        );
        let skipped = Totals {
            skipped: 4,
            ..totals
        };
        assert!(skipped.to_string().ends_with(", 4 tombstones skipped"));
    }
}
