//! The questions of a verification, sent and read.
//!
//! Must not be here: their text (`sql.rs`), what the answers mean (`judge.rs`, `doubt.rs`).

use std::collections::BTreeSet;
use std::ops::Range as Span;

use clickhouse::query::Query;
use clickhouse::{Client, Row};
use clickhouse_sink_crds::commit::Range;
use serde::Deserialize;

use super::judge::Found;
use super::key::KeyPlan;
use super::{TableName, sql};
use crate::insert::class::{Failure, FailureClass};
use crate::insert::client::classify_error;
use crate::window::is_replicated;

/// Rows whose table partitions are asked for at once: a question of a few megabytes.
const ROWS_PER_QUESTION: usize = 50_000;

/// What the server says about the table at this moment.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// Engine without arguments.
    pub(super) engine: String,
    /// Engine with everything behind it.
    pub(super) engine_full: String,
    /// Partition key as the server prints it.
    pub(super) partition_key: String,
    /// Names and types of the columns in it.
    pub(super) key_columns: Vec<(String, String)>,
}

/// Asks about one table.
pub(super) struct Asker<'a> {
    client: Client,
    pub(super) table: TableName<'a>,
    known_settings: &'a BTreeSet<String>,
}

#[derive(Row, Deserialize)]
struct FoundRow<'a> {
    row_offset: u64,
    timestamp_ms: i64,
    table_partition: &'a str,
}

/// A table partition, and which of the rows asked about are in it.
#[derive(Row, Deserialize)]
struct PartitionRow {
    id: String,
    members: Vec<u64>,
}

impl<'a> Asker<'a> {
    pub(super) fn new(
        client: &Client,
        table: TableName<'a>,
        known_settings: &'a BTreeSet<String>,
    ) -> Self {
        Self {
            client: with_settings(client, known_settings, false),
            table,
            known_settings,
        }
    }

    /// The same with what reading from that engine needs.
    pub(super) fn for_engine(self, engine: &str) -> Self {
        Self {
            client: with_settings(&self.client, self.known_settings, is_replicated(engine)),
            ..self
        }
    }

    /// A question about the table by name.
    pub(super) fn about_table(&self, sql: &str) -> Query {
        self.client
            .query_raw(sql)
            .param("database", self.table.database)
            .param("table", self.table.table)
    }

    /// A question about offsets of a partition.
    pub(super) fn about_range(
        &self,
        sql: &str,
        topic: &str,
        partition: i32,
        (start, end): (i64, i64),
    ) -> Query {
        self.client
            .query_raw(sql)
            .param("topic", topic)
            .param("partition", partition)
            .param("start", start)
            .param("end", end)
    }

    /// A question with nothing to fill in.
    pub(super) fn plain(&self, sql: &str) -> Query {
        self.client.query_raw(sql)
    }

    pub(super) async fn fetch_facts(&self) -> Result<Facts, Failure> {
        let table = self
            .about_table(sql::FACTS)
            .fetch_optional::<(String, String, String)>()
            .await
            .map_err(failed)?;
        let Some((engine, engine_full, partition_key)) = table else {
            return Err(self.missing_table());
        };
        let key_columns = self
            .about_table(sql::KEY_COLUMNS)
            .fetch_all::<(String, String)>()
            .await
            .map_err(failed)?;
        Ok(Facts {
            engine,
            engine_full,
            partition_key,
            key_columns,
        })
    }

    fn missing_table(&self) -> Failure {
        Failure {
            class: FailureClass::TableCheck,
            code: None,
            message: format!(
                "expected the table {}, found none, or no right to see it; create it, or grant SHOW TABLES on it",
                sql::render_name(self.table)
            ),
        }
    }

    /// A replica that lags must not be asked: what it lacks may be on another one.
    pub(super) async fn check_caught_up(&self, engine: &str) -> Result<(), Failure> {
        if !engine.starts_with("Replicated") {
            return Ok(());
        }
        let caught_up = self
            .about_table(sql::CAUGHT_UP)
            .fetch_optional::<u8>()
            .await
            .map_err(failed)?;
        if caught_up == Some(1) {
            return Ok(());
        }
        Err(Failure {
            class: FailureClass::Retry,
            code: None,
            message: "this replica does not have everything that was written to others yet; it is asked again".into(),
        })
    }

    /// Rows of the range that the table has.
    pub(super) async fn fetch_found(&self, topic: &str, range: &Range) -> Result<Found, Failure> {
        let sql = sql::render_found(self.table);
        let offsets = (range.start, range.end);
        let question = self.about_range(&sql, topic, range.partition, offsets);
        let mut cursor = question.fetch::<FoundRow<'_>>().map_err(failed)?;
        let mut found = Found::default();
        while let Some(row) = cursor.next().await.map_err(failed)? {
            found.push(row.row_offset, row.timestamp_ms, row.table_partition);
        }
        Ok(found)
    }

    pub(super) async fn count(
        &self,
        topic: &str,
        partition: i32,
        offsets: (i64, i64),
    ) -> Result<u64, Failure> {
        let sql = sql::render_count(self.table);
        let question = self.about_range(&sql, topic, partition, offsets);
        question.fetch_one::<u64>().await.map_err(failed)
    }

    /// The table partition of every row, computed by the server.
    pub(super) async fn fetch_table_partitions(
        &self,
        key: &KeyPlan<'_>,
    ) -> Result<Vec<String>, Failure> {
        let mut partitions = vec![String::new(); key.rows()];
        for start in (0..key.rows()).step_by(ROWS_PER_QUESTION) {
            let rows = start..key.rows().min(start + ROWS_PER_QUESTION);
            for group in self.fetch_some_partitions(key, rows).await? {
                for member in group.members {
                    let row = usize::try_from(member).ok().map(|member| start + member);
                    if let Some(place) = row.and_then(|row| partitions.get_mut(row)) {
                        place.clone_from(&group.id);
                    }
                }
            }
        }
        Ok(partitions)
    }

    async fn fetch_some_partitions(
        &self,
        key: &KeyPlan<'_>,
        rows: Span<usize>,
    ) -> Result<Vec<PartitionRow>, Failure> {
        let sql = key.render(rows);
        let longest = (sql.len() + 1).to_string();
        self.plain(&sql)
            .with_setting("max_query_size", longest)
            .fetch_all::<PartitionRow>()
            .await
            .map_err(failed)
    }
}

fn with_settings(client: &Client, known: &BTreeSet<String>, replicated: bool) -> Client {
    sql::plan_read_settings(known, replicated).fold(client.clone(), |client, (name, value)| {
        client.with_setting(name, value)
    })
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "the shape that `map_err` takes"
)]
pub(super) fn failed(error: clickhouse::error::Error) -> Failure {
    classify_error(&error)
}
