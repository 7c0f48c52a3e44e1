//! What a replay asks the two tables, and what it writes down in the rejected one.
//!
//! Must not be here: the statements' text (`sql.rs`), rows of the sink's table (`send.rs`).

use std::collections::BTreeSet;

use clickhouse::query::Query;
use clickhouse::{Client, Row};
use clickhouse_sink_crds::worker_config::WorkerConfig;
use serde::Deserialize;

use super::group::{Cause, Group, Open, Place};
use super::{Filter, sql};
use crate::insert::class::Failure;
use crate::insert::client::classify_error;

/// Most records that are held at once.
const PAGE_ROWS: u64 = 1_000;
/// Most payload that is held at once, in bytes; one record may be larger.
const PAGE_BYTES: usize = 32 << 20;
/// Settings that a profile may have set and that would change what is read or written.
const SETTINGS: [(&str, &str); 6] = [
    ("max_result_rows", "0"),
    ("max_rows_to_read", "0"),
    ("max_execution_time", "0"),
    ("async_insert", "0"),
    ("optimize_on_insert", "0"),
    ("select_sequential_consistency", "1"),
];

/// The last record that was seen; the default stands before all.
#[derive(Clone, Debug, Default)]
pub(super) struct Cursor {
    place: Place,
    offset: u64,
}

impl Cursor {
    /// Behind this record.
    pub(super) fn behind(record: &Open) -> Self {
        Self {
            place: record.place.clone(),
            offset: record.offset,
        }
    }
}

/// Asks and marks.
pub(super) struct Asker {
    client: Client,
    table: String,
    rejected: String,
}

#[derive(Row, Deserialize)]
#[allow(
    clippy::struct_field_names,
    reason = "a name of the table's own would hide the column from WHERE"
)]
struct OpenRow<'a> {
    record_topic: &'a str,
    record_topic_id: &'a str,
    record_partition: u32,
    record_epoch: &'a str,
    record_offset: u64,
    record_timestamp_ms: i64,
    record_payload: &'a [u8],
    record_column: &'a str,
    record_reason: &'a str,
    record_code: &'a str,
    record_mapping: &'a str,
}

impl OpenRow<'_> {
    fn to_open(&self) -> Open {
        Open {
            place: Place {
                topic: self.record_topic.to_owned(),
                topic_id: self.record_topic_id.to_owned(),
                partition: self.record_partition,
                epoch: self.record_epoch.to_owned(),
            },
            offset: self.record_offset,
            timestamp_ms: self.record_timestamp_ms,
            payload: self.record_payload.to_vec(),
            cause: Cause {
                column: self.record_column.to_owned(),
                reason: self.record_reason.to_owned(),
                code: self.record_code.to_owned(),
                mapping: self.record_mapping.to_owned(),
            },
        }
    }
}

impl Asker {
    pub(super) fn new(client: Client, config: &WorkerConfig) -> Self {
        let database = &config.clickhouse.database;
        Self {
            client: SETTINGS.iter().fold(client, |client, (name, value)| {
                client.with_setting(*name, *value)
            }),
            table: sql::render_name(&config.table.expected.database, &config.table.expected.name),
            rejected: sql::render_name(database, &config.dead_letter.table),
        }
    }

    fn about(&self, sql: &str, filter: &Filter) -> Query {
        self.client
            .query_raw(sql)
            .param("code", filter.code.as_deref().unwrap_or_default())
            .param("since", filter.since_ms.unwrap_or(i64::MIN))
    }

    fn about_group(&self, sql: &str, place: &Place, offsets: &[u64]) -> Query {
        self.client
            .query_raw(sql)
            .param("topic", &place.topic)
            .param("topic_id", &place.topic_id)
            .param("partition", place.partition)
            .param("epoch", &place.epoch)
            .param("offsets", offsets)
    }

    /// How many records are open.
    pub(super) async fn count_open(&self, filter: &Filter) -> Result<u64, Failure> {
        let query = self.about(&sql::render_count(&self.rejected), filter);
        query.fetch_one::<u64>().await.map_err(failed)
    }

    /// The next open records.
    pub(super) async fn fetch_page(
        &self,
        filter: &Filter,
        cursor: &Cursor,
    ) -> Result<Vec<Open>, Failure> {
        let query = self
            .about(&sql::render_page(&self.rejected), filter)
            .param("topic", &cursor.place.topic)
            .param("topic_id", &cursor.place.topic_id)
            .param("partition", cursor.place.partition)
            .param("offset", cursor.offset)
            .param("epoch", &cursor.place.epoch)
            .param("limit", PAGE_ROWS);
        let mut rows = query.fetch::<OpenRow<'_>>().map_err(failed)?;
        let (mut page, mut bytes) = (Vec::new(), 0);
        while bytes < PAGE_BYTES {
            let Some(row) = rows.next().await.map_err(failed)? else {
                break;
            };
            bytes += row.record_payload.len();
            page.push(row.to_open());
        }
        Ok(page)
    }

    /// Offsets and timestamps of the group's records that the table has.
    pub(super) async fn fetch_there(&self, group: &Group) -> Result<BTreeSet<(u64, i64)>, Failure> {
        let offsets: Vec<u64> = group.records.iter().map(|record| record.offset).collect();
        let query = self
            .client
            .query_raw(&sql::render_there(&self.table))
            .param("topic", &group.place.topic)
            .param("partition", group.place.partition)
            .param("offsets", offsets);
        let found = query.fetch_all::<(u64, i64)>().await.map_err(failed)?;
        Ok(found.into_iter().collect())
    }

    /// Marks records as replayed.
    pub(super) async fn mark_replayed(
        &self,
        group: &Group,
        offsets: &[u64],
    ) -> Result<(), Failure> {
        if offsets.is_empty() {
            return Ok(());
        }
        let sql = sql::render_mark(&self.rejected);
        self.about_group(&sql, &group.place, offsets)
            .execute()
            .await
            .map_err(failed)
    }

    /// Gives records their new reason.
    pub(super) async fn mark_rejected(
        &self,
        group: &Group,
        cause: &Cause,
        offsets: &[u64],
    ) -> Result<(), Failure> {
        let sql = sql::render_reject(&self.rejected);
        self.about_group(&sql, &group.place, offsets)
            .param("new_column", &cause.column)
            .param("new_reason", &cause.reason)
            .param("new_code", &cause.code)
            .param("new_mapping", &cause.mapping)
            .execute()
            .await
            .map_err(failed)
    }
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "the shape that `map_err` takes"
)]
fn failed(error: clickhouse::error::Error) -> Failure {
    classify_error(&error)
}
