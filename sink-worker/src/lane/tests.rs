//! Ranges off a lane: what a fresh one covers, and replays that end exactly where they ended once.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;

use clickhouse_sink_crds::commit::Epoch;
use clickhouse_sink_crds::table::{Engine, TableDefinition};
use clickhouse_sink_crds::worker_config::{
    ColumnMapping, OnError, OnMissing, RecordFormat, TargetTable, UnknownFields,
};

use super::*;
use crate::schema::Schema;

fn mapping() -> Arc<Mapping> {
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
        data_type: "UInt64".into(),
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
        metadata_columns: false,
    };
    let format = RecordFormat {
        unknown_fields: UnknownFields::Ignore,
        max_record_bytes: 1000,
        tombstones: Tombstones::Skip,
    };
    Arc::new(Mapping {
        hash: "ab12cd34".into(),
        schema: Arc::new(Schema::compile(&table, &format).unwrap()),
        insert_sql: "INSERT INTO t".into(),
    })
}

struct Bench {
    lane: Lane,
    decoder: Decoder,
    now: Instant,
}

impl Bench {
    fn new(start: i64, from: i64, ends: &[i64]) -> Self {
        let mapping = mapping();
        let identity = Identity {
            topic_id: "topic-id".into(),
            epoch: Epoch::from_random(0xab, false),
            first_partitions: 1,
        };
        let reading = Reading {
            start,
            from,
            ends: ends.to_vec(),
        };
        let decoder = Decoder::new(Arc::clone(&mapping.schema));
        let lane = Lane::new(
            &TopicPartition::new("orders", 3),
            identity,
            mapping,
            &reading,
        );
        Self {
            lane,
            decoder,
            now: Instant::now(),
        }
    }

    fn record(&mut self, offset: i64, payload: Option<&str>) {
        let record = Record {
            offset,
            timestamp_ms: 1,
            key: None,
            payload: payload.map(str::as_bytes),
            headers: Headers::none(),
        };
        self.lane
            .on_record(&record, &mut self.decoder, Tombstones::Skip, self.now);
    }

    fn rows(&mut self, offsets: impl IntoIterator<Item = i64>) {
        for offset in offsets {
            self.record(offset, Some(&format!("{{\"n\":{offset}}}")));
        }
    }

    fn end(&mut self, offset: i64) {
        self.lane.on_end(offset, self.now);
    }

    /// Every range that was read to its end, with its rows' offsets.
    fn ready(&mut self) -> Vec<(i64, i64, Vec<i64>)> {
        std::iter::from_fn(|| self.lane.take_ready())
            .map(|part| (part.range.start, part.range.end, offsets(&part)))
            .collect()
    }
}

fn offsets(part: &Part) -> Vec<i64> {
    let Some(rows) = &part.rows else {
        return Vec::new();
    };
    assert_eq!(rows.block.rows(), rows.offsets.len());
    (0..rows.offsets.len())
        .map(|row| rows.offsets.offset_of(row).unwrap())
        .collect()
}

#[test]
fn a_fresh_range_covers_all_that_was_read_holes_included() {
    let mut bench = Bench::new(10, 10, &[]);
    assert!(bench.lane.cut().is_none(), "nothing was read");
    bench.rows([10, 12]);
    bench.end(20);
    let part = bench.lane.cut().unwrap();
    assert_eq!((part.range.start, part.range.end), (10, 20));
    assert_eq!(offsets(&part), [10, 12]);
    assert_eq!(part.range.epoch, Epoch::from_random(0xab, false));
    assert!(bench.lane.cut().is_none());
    bench.rows([20]);
    assert_eq!(bench.lane.cut().unwrap().range.start, 20);
}

#[test]
fn a_replay_cuts_exactly_at_the_given_ends() {
    let mut bench = Bench::new(10, 10, &[13, 15, 20]);
    bench.rows(10..14);
    assert_eq!(bench.ready(), [(10, 13, vec![10, 11, 12])]);
    bench.rows(14..21);
    assert_eq!(
        bench.ready(),
        [(13, 15, vec![13, 14]), (15, 20, (15..20).collect())]
    );
    assert!(bench.lane.is_replayed());
}

#[test]
fn a_range_of_a_replay_is_complete_when_a_record_behind_it_was_seen_even_across_holes() {
    let mut bench = Bench::new(10, 10, &[13, 15, 20]);
    bench.rows([10]);
    assert_eq!(bench.ready(), []);
    bench.rows([17]);
    assert_eq!(
        bench.ready(),
        [(10, 13, vec![10]), (13, 15, vec![])],
        "the second one was compacted away as a whole"
    );
    assert!(!bench.lane.is_replayed());
    bench.rows([25]);
    assert_eq!(bench.ready(), [(15, 20, vec![17])]);
}

#[test]
fn a_range_of_a_replay_is_complete_at_the_end_of_the_partition() {
    let mut bench = Bench::new(10, 10, &[13, 18]);
    bench.rows([10, 11]);
    bench.end(12);
    assert_eq!(bench.ready(), [], "the log does not reach to its end yet");
    bench.end(13);
    assert_eq!(bench.ready(), [(10, 13, vec![10, 11])]);
    bench.end(18);
    assert_eq!(bench.ready(), [(13, 18, vec![])]);
    assert!(bench.lane.is_replayed());
}

#[test]
fn records_behind_the_plan_are_not_used() {
    let mut bench = Bench::new(10, 10, &[12]);
    bench.rows([10, 11, 12, 13, 14]);
    bench.end(15);
    assert_eq!(bench.ready(), [(10, 12, vec![10, 11])]);
    assert!(bench.lane.is_replayed() && bench.lane.cut().is_none());
    assert_eq!((bench.lane.fill().rows, bench.lane.fill().covered), (0, 0));
}

#[test]
fn what_retention_took_leaves_the_token_of_the_range_as_it_was() {
    let mut bench = Bench::new(10, 14, &[16, 18]);
    bench.rows([14, 15, 16, 17, 18]);
    assert_eq!(
        bench.ready(),
        [(10, 16, vec![14, 15]), (16, 18, vec![16, 17])]
    );
}

#[test]
fn a_record_that_comes_again_is_taken_once() {
    let mut bench = Bench::new(10, 10, &[]);
    bench.rows([8, 9, 10, 10, 11, 10]);
    assert_eq!(offsets(&bench.lane.cut().unwrap()), [10, 11]);
}

#[test]
fn rejects_and_tombstones_stay_with_their_range() {
    let mut bench = Bench::new(10, 10, &[12, 14]);
    bench.record(10, Some("{\"n\":-1}"));
    bench.record(11, None);
    bench.rows([12, 13, 14]);
    let first = bench.lane.take_ready().unwrap();
    let second = bench.lane.take_ready().unwrap();
    let rejected: Vec<i64> = first.rejected.iter().map(|record| record.offset).collect();
    assert_eq!((rejected, first.skipped), (vec![10], 1));
    assert!(first.rows.is_none());
    assert_eq!((second.rejected.len(), second.skipped), (0, 0));
    assert_eq!(offsets(&second), [12, 13]);
}

#[test]
fn what_waits_to_be_handed_over_counts_for_the_budget() {
    let mut bench = Bench::new(10, 10, &[12, 14]);
    bench.rows([10, 11, 12]);
    let held = bench.lane.fill().bytes;
    assert!(held >= 3 * 8, "{held}");
    assert_eq!(bench.ready().len(), 1);
    assert!(bench.lane.fill().bytes < held);
}
