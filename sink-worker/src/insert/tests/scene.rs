//! One inserter with a scripted server and table, a gate in the test's hand, and its reports.
//!
//! Must not be here: what is expected of them.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clickhouse_sink_crds::commit::{Epoch, Range};
use clickhouse_sink_crds::table::{Engine, TableDefinition};
use clickhouse_sink_crds::worker_config::{
    ColumnMapping, Compression, OnError, OnMissing, RecordFormat, TargetTable, Tombstones,
    UnknownFields,
};
use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};

use super::server::{Answer, Seen, Server, serve};
use crate::batch::{Batch, OffsetRuns, Part, Rows};
use crate::dead_letter::Rejected;
use crate::decode::{Decoder, RecordPosition};
use crate::insert::class::Failure;
use crate::insert::questions::TableQuestions;
use crate::insert::run::{InsertContext, RecordSource};
use crate::insert::{Inserter, Report, WindowAnswers};
use crate::kafka::Waker;
use crate::mapping::Mapping;
use crate::metrics::Metrics;
use crate::native::BlockBuilder;
use crate::schema::Schema;
use crate::session::gate::{Declared, GateView};
use crate::table_watch::TableWatch;
use crate::verify::Verdict;

/// Everything that must happen happens within this.
const SOON: Duration = Duration::from_secs(10);
/// What must not happen would have happened within this.
const WHILE: Duration = Duration::from_millis(150);

/// What the table says.
#[derive(Default)]
pub(super) struct Table {
    pub(super) verdict: Mutex<Option<Verdict>>,
    pub(super) count: Mutex<u64>,
    pub(super) counted: Mutex<Vec<(i64, i64)>>,
}

impl TableQuestions for Table {
    fn verify<'a>(
        &'a self,
        _batch: &'a Batch,
        _part: &'a Part,
    ) -> BoxFuture<'a, Result<Verdict, Failure>> {
        let verdict = self.verdict.lock().unwrap().clone();
        Box::pin(async move { Ok(verdict.unwrap()) })
    }

    fn count<'a>(
        &'a self,
        _part: &'a Part,
        range: &'a Range,
    ) -> BoxFuture<'a, Result<u64, Failure>> {
        self.counted.lock().unwrap().push((range.start, range.end));
        let count = *self.count.lock().unwrap();
        Box::pin(async move { Ok(count) })
    }
}

struct Kafka;

impl RecordSource for Kafka {
    fn read(&self, _: &str, _: i32, offset: i64) -> Result<Option<Rejected>, String> {
        let payload = format!("payload of {offset}");
        Ok(Some(rejected(offset, &payload)))
    }
}

pub(super) fn rejected(offset: i64, payload: &str) -> Rejected {
    Rejected {
        offset,
        timestamp_ms: 1,
        key: None,
        payload: payload.into(),
        headers: Vec::new(),
        column: String::new(),
        code: "NotJson",
        reason: "test".into(),
    }
}

pub(super) struct Scene {
    server: Arc<Server>,
    pub(super) table: Arc<Table>,
    pub(super) gate: watch::Sender<GateView>,
    pub(super) places: Arc<Semaphore>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) inserter: Inserter,
    mapping: Arc<Mapping>,
    reports: Receiver<Report>,
}

impl Scene {
    pub(super) async fn start() -> Self {
        let server = Arc::<Server>::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = axum::Router::new()
            .fallback(serve)
            .with_state(Arc::clone(&server));
        tokio::spawn(async move { axum::serve(listener, router).await });
        let (table, places, metrics) = (
            Arc::<Table>::default(),
            Arc::new(Semaphore::new(16)),
            Arc::<Metrics>::default(),
        );
        let context = InsertContext {
            shard: 0,
            client: clickhouse::Client::default()
                .with_url(url)
                .with_compression(clickhouse::Compression::None),
            rejected_sql: "INSERT INTO rejected FORMAT RowBinaryWithNamesAndTypes".into(),
            database: "d".into(),
            table_name: "t".into(),
            group_id: "g".into(),
            compression: Compression::Lz4,
            timeout: Duration::from_secs(5),
            attempt_ends_after: Duration::from_millis(100),
            earlier_attempts_end_after: Duration::from_millis(200),
            table: TableWatch::always_as_declared(),
            window_answers: WindowAnswers::default(),
            questions: Arc::clone(&table) as Arc<dyn TableQuestions>,
            places: Arc::clone(&places),
            troubles: Arc::default(),
            metrics: Arc::clone(&metrics),
            records: Arc::new(Kafka),
        };
        let (sender, reports) = channel();
        let waker = Waker::for_current_thread();
        Self {
            server,
            table,
            gate: watch::Sender::new(GateView::shut()),
            places,
            metrics,
            inserter: Inserter::new(Arc::new(context), Handle::current(), sender, waker),
            mapping: Arc::new(mapping()),
            reports,
        }
    }

    /// Scripts the next INSERTs.
    pub(super) fn on_inserts(&self, answers: impl IntoIterator<Item = Answer>) {
        self.server.inserts.lock().unwrap().extend(answers);
    }

    /// Scripts the next writes to the rejected table.
    pub(super) fn on_rejects(&self, answers: impl IntoIterator<Item = Answer>) {
        self.server.rejects.lock().unwrap().extend(answers);
    }

    /// A commit that was acknowledged a moment ago declares these ranges.
    pub(super) fn declare(&self, ranges: &[(i64, i64)]) {
        self.publish(ranges, Duration::MAX);
    }

    pub(super) fn publish(&self, ranges: &[(i64, i64)], valid_until: Duration) {
        self.gate.send_replace(GateView {
            open: true,
            declared: Some(Declared {
                ranges: ranges.to_vec(),
                valid_until,
            }),
        });
    }

    pub(super) fn close(&self) {
        self.gate.send_replace(GateView::closed());
    }

    /// A range of partition 0 with rows at these offsets.
    pub(super) fn part(&self, (start, end): (i64, i64), offsets: &[i64]) -> Part {
        let rows = Rows {
            block: Arc::new(block(&self.mapping.schema, offsets)),
            offsets: runs(offsets),
        };
        Part {
            topic: "t".into(),
            range: Range {
                topic_id: "id".into(),
                partition: 0,
                epoch: Epoch::from_random(7, false),
                start,
                end,
            },
            rows: (!offsets.is_empty()).then_some(rows),
            rejected: Vec::new(),
            skipped: 0,
        }
    }

    pub(super) fn batch(&self, parts: Vec<Part>) -> Batch {
        Batch {
            id: 1,
            cluster_id: "c".into(),
            mapping: Arc::clone(&self.mapping),
            parts,
            gate: Some(self.gate.subscribe()),
            replay: None,
            declared_at_s: None,
        }
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.server.seen.lock().unwrap().clone()
    }

    /// Tokens of the INSERTs seen, without what all have in common.
    pub(super) fn ranges_seen(&self) -> Vec<String> {
        let seen = self.seen();
        let tokens = seen.iter().filter_map(|seen| seen.token.as_deref());
        tokens
            .map(|token| token.rsplit('/').next().unwrap().to_owned())
            .collect()
    }

    pub(super) async fn wait_seen(&self, count: usize) {
        let deadline = Instant::now() + SOON;
        while self.seen().len() < count {
            assert!(Instant::now() < deadline, "{:?}", self.seen());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Nothing more reaches the server or the shard for a while.
    pub(super) async fn expect_quiet(&self) {
        let before = self.seen();
        tokio::time::sleep(WHILE).await;
        assert_eq!(self.seen(), before);
        assert!(self.reports.try_recv().is_err());
    }

    pub(super) async fn report(&self) -> Report {
        let deadline = Instant::now() + SOON;
        loop {
            if let Ok(report) = self.reports.try_recv() {
                return report;
            }
            assert!(
                Instant::now() < deadline,
                "no report; seen {:?}",
                self.ranges_seen()
            );
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// The next report acknowledges exactly this.
    pub(super) async fn expect_acknowledged(&self, range: (i64, i64), is_last: bool) {
        match self.report().await {
            Report::Acknowledged { ranges, last, .. } => {
                let ranges: Vec<_> = ranges.iter().map(|range| (range.1, range.2)).collect();
                assert_eq!((ranges, last), (vec![range], is_last));
            }
            other => panic!("{other:?}"),
        }
    }

    /// The next report asks for exactly this split.
    pub(super) async fn expect_split(&self, range: (i64, i64), expected: i64) {
        match self.report().await {
            Report::Split { start, end, at, .. } => {
                assert_eq!((start, end, at), (range.0, range.1, expected));
            }
            other => panic!("{other:?}"),
        }
    }

    /// The next report holds exactly this; its message.
    pub(super) async fn expect_held(&self, range: (i64, i64)) -> String {
        match self.report().await {
            Report::Held {
                start,
                end,
                reason: "WindowExceeded",
                message,
                ..
            } => {
                assert_eq!((start, end), range);
                message
            }
            other => panic!("{other:?}"),
        }
    }
}

fn runs(offsets: &[i64]) -> OffsetRuns {
    let mut runs = OffsetRuns::default();
    for offset in offsets {
        runs.push(*offset);
    }
    runs
}

fn block(schema: &Arc<Schema>, offsets: &[i64]) -> crate::native::Block {
    let (mut decoder, mut builder) = (
        Decoder::new(Arc::clone(schema)),
        BlockBuilder::new(Arc::clone(schema)),
    );
    for &offset in offsets {
        let at = RecordPosition {
            topic: "t",
            partition: 0,
            offset,
            timestamp_ms: 1000,
        };
        let record = format!("{{\"n\": {offset}}}");
        decoder
            .decode(record.as_bytes(), &at, &mut builder)
            .unwrap();
    }
    builder.finish()
}

fn mapping() -> Mapping {
    let expected = TableDefinition {
        database: "d".into(),
        name: "t".into(),
        engine: Engine::MergeTree,
        columns: Vec::new(),
        order_by: Vec::new(),
        indexes: Vec::new(),
        cluster: None,
        partition_by: None,
        ttl: None,
        settings: BTreeMap::new(),
    };
    let column = ColumnMapping {
        column: "n".into(),
        data_type: "UInt32".into(),
        path: vec!["n".into()],
        on_missing: OnMissing::Reject,
        on_error: OnError::Reject,
        unit: None,
        default_json: None,
    };
    let table = TargetTable {
        expected,
        check: false,
        recheck_period_seconds: 60,
        mapping: vec![column],
        metadata_columns: true,
    };
    let format = RecordFormat {
        unknown_fields: UnknownFields::Ignore,
        max_record_bytes: 1000,
        tombstones: Tombstones::Skip,
    };
    Mapping {
        hash: "00000000".into(),
        schema: Arc::new(Schema::compile(&table, &format).unwrap()),
        insert_sql: "INSERT INTO t FORMAT Native".into(),
    }
}
