//! `ClickHouse` is away and the cameras keep sending.
//!
//! Must not be here: what a single failed INSERT means.

use std::time::{Duration, Instant};

use clickhouse_sink_tests::programs::WorkerProcess;
use clickhouse_sink_tests::proxy::Fault;

use crate::support::{SOON, Scene, metric, pause, properties, records_read};

/// Longer than `max.poll.interval.ms` below, more than twice.
const OUTAGE: Duration = Duration::from_secs(10);

/// Rows that a worker of `batch.maxRows: 4` may hold: one set in flight, one filled.
const CEILING_ROWS: u64 = 8;

/// Gives the bytes that are buffered.
fn look_during_outage(scene: &Scene, worker: &WorkerProcess) -> u64 {
    assert_eq!(scene.committed(), [Some(0), Some(0)]);
    let read = records_read(worker).unwrap();
    assert!(
        read <= CEILING_ROWS,
        "expected at most {CEILING_ROWS} records to be buffered, found {read}"
    );
    let state = worker.state().unwrap();
    let bytes = |name: &str| state[name].as_u64().unwrap();
    assert!(
        bytes("buffered_bytes") <= bytes("memory_budget_bytes"),
        "{state}"
    );
    assert_eq!(
        scene.env.kafka().group_members(&scene.group).unwrap().len(),
        1
    );
    bytes("buffered_bytes")
}

/// The night shift, then three ticks of four stat events for each camera.
fn trickle(scene: &Scene, tick: u64) {
    match tick {
        0 => scene.produce_night_shift(),
        1..=3 => {
            (0..2).for_each(|partition| scene.produce_stats(partition, 4 * (tick - 1), 4 * tick));
        }
        _ => {}
    }
}

#[test]
fn in_an_outage_the_backlog_waits_in_kafka_under_a_ceiling_of_rows_and_drains_by_itself() {
    let scene = Scene::new("outage", 2);
    let sink = scene
        .sink()
        .set("batch.maxRows", 4)
        .set("batch.lingerMilliseconds", 0);
    let sink = sink.set(
        "kafka.properties",
        properties(&[("max.poll.interval.ms", "4000")]),
    );
    scene.make_table(&sink);
    let mut worker = scene.worker("worker", &sink);
    scene.wait_committed(&[0, 0]);
    let rebalances = metric(&worker, "rebalances_total").unwrap();
    scene.proxy.set(Fault::Cut);
    let began = Instant::now();
    let (mut lags, mut buffered) = (Vec::new(), Vec::new());
    for tick in 0.. {
        trickle(&scene, tick);
        buffered.push(look_during_outage(&scene, &worker));
        lags.push(scene.lags());
        if tick >= 4 && began.elapsed() >= OUTAGE {
            break;
        }
        pause(Duration::from_millis(500));
    }
    assert_eq!(lags[..4], [[3, 3], [7, 7], [11, 11], [15, 15]]);
    assert_eq!(lags.last(), Some(&vec![15, 15]));
    assert!(buffered.last() > Some(&0), "{buffered:?}");
    assert!(
        metric(&worker, "insert_retries_total").unwrap() > 1,
        "the INSERT was tried once only"
    );
    assert_eq!(scene.rows(), (0, 0));
    scene.proxy.pass();
    scene.wait_committed(&[15, 15]);
    assert_eq!(scene.rows(), (30, 29));
    assert!(
        metric(&worker, "inserts_total").unwrap() >= 8,
        "30 rows in sets of at most 4"
    );
    assert_eq!(
        metric(&worker, "rebalances_total").unwrap(),
        rebalances,
        "the member has left the group"
    );
    assert_eq!(worker.program.term_and_wait(SOON).unwrap(), 0);
}
