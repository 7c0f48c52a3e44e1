//! A table of the test's own, rows as the worker decodes them, and the worker's own way to send and to verify them.
//!
//! Must not be here: what a test expects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clickhouse::Client;
use clickhouse_sink_crds::commit::{Epoch, Range, range_token};
use clickhouse_sink_crds::table::{Engine, TableDefinition};
use clickhouse_sink_crds::worker_config::{
    ClickHouseTarget, ColumnMapping, Compression, OnError, OnMissing, RecordFormat, TargetTable,
    Tombstones, UnknownFields,
};
use clickhouse_sink_tests::clickhouse::{ClickHouseClient, Database};
use clickhouse_sink_tests::env::Env;
use clickhouse_sink_worker::batch::{OffsetRuns, Rows};
use clickhouse_sink_worker::compress::compress_body;
use clickhouse_sink_worker::decode::{Decoder, RecordPosition};
use clickhouse_sink_worker::insert::client::{Request, build_client, send_once};
use clickhouse_sink_worker::insert::settings::plan_settings;
use clickhouse_sink_worker::native::{Block, BlockBuilder};
use clickhouse_sink_worker::schema::Schema;
use clickhouse_sink_worker::verify::{TableName, Verdict, VerifyRequest, verify_range};

pub(crate) const TOPIC: &str = "events.of-a_shop";
pub(crate) const PARTITION: i32 = 3;
/// Timestamp of the record at offset 0; each record is a millisecond later.
pub(crate) const FIRST_MS: i64 = 1_700_000_000_123;
/// The range that is verified begins here; what is before it was acknowledged.
pub(crate) const START: i64 = 1000;

const METADATA: &str = "_topic LowCardinality(String), _partition UInt32, _offset UInt64, \
    _timestamp DateTime64(3, 'UTC')";

/// A table and the mapping of its columns, each from the field of its name.
pub(crate) struct Case {
    pub(crate) database: Database,
    pub(crate) client: Client,
    pub(crate) known_settings: BTreeSet<String>,
    pub(crate) table: String,
    columns: Vec<(String, String)>,
    schema: Arc<Schema>,
    pub(crate) epoch: Epoch,
    pub(crate) declared_at_s: Option<u64>,
}

impl Case {
    /// A table of `columns` (name, type) and what stands behind them: engine, keys, settings.
    pub(crate) fn new(what: &str, columns: &[(&str, &str)], engine: &str) -> Self {
        let database = Env::get().unwrap().database(what).unwrap();
        Self::named(database, "events", columns, engine)
    }

    pub(crate) fn named(
        database: Database,
        table: &str,
        columns: &[(&str, &str)],
        engine: &str,
    ) -> Self {
        let defined: Vec<String> = columns
            .iter()
            .map(|(name, type_text)| format!("`{name}` {type_text}"))
            .collect();
        let defined = defined.join(", ");
        database
            .client()
            .query(&format!(
                "CREATE TABLE {} ({defined}, {METADATA}) {engine}",
                quote(table)
            ))
            .unwrap();
        let columns: Vec<(String, String)> = columns
            .iter()
            .map(|(name, type_text)| ((*name).to_owned(), (*type_text).to_owned()))
            .collect();
        let known = database
            .client()
            .query("SELECT name FROM system.settings")
            .unwrap();
        Self {
            client: worker_client(database.client(), database.name()),
            known_settings: known.lines().map(str::to_owned).collect(),
            table: table.to_owned(),
            schema: compile(&columns, true),
            columns,
            epoch: Epoch::new("0123456789abcdef", false).unwrap(),
            declared_at_s: Some(
                database
                    .client()
                    .scalar("SELECT toUnixTimestamp(now())")
                    .unwrap(),
            ),
            database,
        }
    }

    /// The same case with rows that carry no metadata.
    pub(crate) fn without_metadata(mut self) -> Self {
        self.schema = compile(&self.columns, false);
        self
    }

    /// A range from [`START`] on, as long as the rows are.
    pub(crate) fn range(&self, rows: &Rows) -> Range {
        let last = rows.offsets.offset_of(rows.offsets.len() - 1).unwrap();
        Range {
            topic_id: "4Vb0wGDoSXa5yMLM3CbKfQ".into(),
            partition: PARTITION,
            epoch: self.epoch.clone(),
            start: START,
            end: last + 1,
        }
    }

    /// Rows of these records from an offset on, with every third offset missing.
    pub(crate) fn rows_from(&self, start: i64, records: impl IntoIterator<Item = String>) -> Rows {
        let mut decoder = Decoder::new(Arc::clone(&self.schema));
        let mut builder = BlockBuilder::new(Arc::clone(&self.schema));
        let mut offsets = OffsetRuns::default();
        let with_holes = (start..).filter(|offset| offset % 3 != 2);
        for (offset, record) in with_holes.zip(records) {
            let at = RecordPosition {
                topic: TOPIC,
                partition: PARTITION,
                offset,
                timestamp_ms: FIRST_MS + offset,
            };
            decoder
                .decode(record.as_bytes(), &at, &mut builder)
                .unwrap_or_else(|rejection| panic!("{rejection:?}: {record}"));
            offsets.push(offset);
        }
        Rows {
            block: Arc::new(builder.finish()),
            offsets,
        }
    }

    /// Rows of the range that is verified.
    pub(crate) fn rows(&self, records: impl IntoIterator<Item = String>) -> Rows {
        self.rows_from(START, records)
    }

    /// Puts a row into the table that was acknowledged before the range.
    pub(crate) async fn acknowledge_before(&self, record: String) {
        let rows = self.rows_from(START - 10, [record]);
        self.send(&rows.block, "cs1/before").await;
    }

    /// One INSERT under a token, with the settings that the worker pins.
    pub(crate) async fn send(&self, block: &Block, token: &str) {
        let mut native = Vec::new();
        block.write_native(&mut native);
        let names: Vec<String> = self
            .schema
            .insert_columns()
            .into_iter()
            .map(|(name, _)| format!("`{name}`"))
            .collect();
        let mut settings = plan_settings(&self.known_settings, 30, false);
        settings.push(("insert_deduplication_token".into(), token.into()));
        let request = Request {
            sql: format!(
                "INSERT INTO {} ({}) FORMAT Native",
                quote(&self.table),
                names.join(", ")
            ),
            settings,
            body: Bytes::from(compress_body(&native, Compression::Lz4)),
        };
        let query_id = Env::get().unwrap().unique("window");
        send_once(&self.client, &request, query_id, Duration::from_mins(1))
            .await
            .unwrap_or_else(|failure| panic!("{failure:?}"));
    }

    /// Sends rows of the range, under its token.
    pub(crate) async fn send_rows(&self, rows: &Rows, picked: &[usize]) {
        let token = range_token("group", "cluster", &self.range(rows));
        self.send(&rows.block.pick(picked), &token).await;
    }

    pub(crate) fn name(&self) -> TableName<'_> {
        TableName {
            database: self.database.name(),
            table: &self.table,
        }
    }

    pub(crate) async fn verify(&self, rows: &Rows) -> Verdict {
        self.verify_as(&self.client, rows).await
    }

    pub(crate) async fn verify_as(&self, client: &Client, rows: &Rows) -> Verdict {
        let range = self.range(rows);
        let request = VerifyRequest {
            table: self.name(),
            topic: TOPIC,
            range: &range,
            rows,
            declared_at_s: self.declared_at_s,
            known_settings: &self.known_settings,
        };
        verify_range(client, &request)
            .await
            .unwrap_or_else(|failure| panic!("{failure:?}"))
    }

    /// Rows of the range in the table, and how many of them are different.
    pub(crate) fn stored(&self) -> (usize, usize) {
        let of_range = format!("{} WHERE _offset >= {START}", quote(&self.table));
        let client = self.database.client();
        let count = |what: &str| {
            client
                .scalar(&format!("SELECT {what} FROM {of_range}"))
                .unwrap()
        };
        (count("count()"), count("uniqExact(_offset)"))
    }

    /// Runs a statement about the table, written as `{}`.
    pub(crate) fn run(&self, sql: &str) {
        let sql = sql.replace("{}", &quote(&self.table));
        self.database.client().query(&sql).unwrap();
    }
}

/// The worker's client of a server.
pub(crate) fn worker_client(client: &ClickHouseClient, database: &str) -> Client {
    let target = ClickHouseTarget {
        url: format!("http://{}", client.address()),
        database: database.to_owned(),
        credentials_dir: None,
    };
    build_client(&target).unwrap()
}

pub(crate) fn quote(name: &str) -> String {
    clickhouse_sink_worker::mapping::quote_identifier(name)
}

/// The rows and message of a verdict that proves nothing.
pub(crate) fn unprovable(verdict: Verdict) -> (u64, u64, u64, String) {
    match verdict {
        Verdict::Unprovable {
            declared,
            found,
            missing,
            message,
        } => (declared, found, missing, message),
        other => panic!("expected a verdict that proves nothing, found {other:?}"),
    }
}

fn compile(columns: &[(String, String)], metadata_columns: bool) -> Arc<Schema> {
    let mapping = columns
        .iter()
        .map(|(name, type_text)| ColumnMapping {
            column: name.clone(),
            data_type: type_text.clone(),
            path: vec![name.clone()],
            on_missing: OnMissing::Default,
            on_error: OnError::Reject,
            unit: None,
            default_json: None,
        })
        .collect();
    let target = TargetTable {
        expected: TableDefinition {
            database: String::new(),
            name: String::new(),
            engine: Engine::MergeTree,
            columns: Vec::new(),
            order_by: Vec::new(),
            indexes: Vec::new(),
            cluster: None,
            partition_by: None,
            ttl: None,
            settings: BTreeMap::new(),
        },
        check: false,
        recheck_period_seconds: 60,
        mapping,
        metadata_columns,
    };
    let format = RecordFormat {
        unknown_fields: UnknownFields::Reject,
        max_record_bytes: 1 << 20,
        tombstones: Tombstones::Skip,
    };
    Arc::new(Schema::compile(&target, &format).unwrap())
}
