//! `cargo xtask chaos`: workers, ClickHouse, Kafka and the network fail at random while records flow, and at the end each
//! record must be in the table once.
//!
//! Pure: the plan (`plan`), the counts (`tally`), what must be true (`verdict`). Must not be here: what a worker does.
#![allow(clippy::print_stdout, reason = "a person watches the run go by")]

mod crew;
mod finish;
mod flow;
mod hits;
mod network;
mod plan;
mod random;
pub(crate) mod scene;
mod server;
mod storm;
mod tally;
mod verdict;
mod watch;
mod window;

use std::time::{Duration, Instant};

use anyhow::Result;
use clickhouse_sink_crds::worker_config::{GroupProtocol, Guarantee};

use self::crew::Crew;
use self::network::Network;
use self::scene::{Scene, Servers};
use self::storm::Storm;
use crate::proxy::ClickHouseProxy;

/// Session of a member in the classic protocol; shorter than a sink's default, so that a run has more kills an hour.
const CLASSIC_SESSION: Duration = Duration::from_secs(4);
/// Session that the harness's broker gives members of the other protocol.
const CONSUMER_SESSION: Duration = Duration::from_secs(6);
/// A window that has forgotten a range by the time its next owner comes.
const SMALL_WINDOW: u32 = 10;
/// The backlog is worked off within this time.
const DRAIN_WITHIN: Duration = Duration::from_mins(10);

/// What a run is to be like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Records to produce.
    pub records: u64,
    /// Processes to kill or stop.
    pub kills: usize,
    /// Draws the plan.
    pub seed: u64,
    /// How the workers share the partitions.
    pub protocol: GroupProtocol,
    /// What the workers promise.
    pub guarantee: Guarantee,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            records: 500_000,
            kills: 40,
            seed: 1,
            protocol: GroupProtocol::Classic,
            guarantee: Guarantee::ExactlyOnce,
        }
    }
}

impl Options {
    fn session(&self) -> Duration {
        match self.protocol {
            GroupProtocol::Classic => CLASSIC_SESSION,
            GroupProtocol::Consumer => CONSUMER_SESSION,
        }
    }
}

/// Runs the chaos and prints its figures; true where everything is as promised.
///
/// # Errors
/// Where a server, a worker or the producer cannot do its part, or the backlog is not worked off in time.
pub fn run(options: &Options) -> Result<bool> {
    let steps = plan::make_plan(options.seed, options.kills);
    println!(
        "Chaos: {:?}, {:?} protocol, {} records, seed {}: {}",
        options.guarantee,
        options.protocol,
        options.records,
        options.seed,
        plan::describe(&steps)
    );
    let servers = Servers::start()?;
    println!("  logs: {}", servers.run_dir.display());
    let scene = Scene::prepare(&servers)?;
    let proxy = ClickHouseProxy::start(&servers.clickhouse.address())?;
    let crew = Crew::new(&scene, &servers.kafka.fault_ports_file(), &proxy, options)?;
    let network = Network::new(proxy, options.seed);
    let started = Instant::now();
    let mut storm = Storm::new(options, servers, scene, crew, network)?;
    storm.run(&steps)?;
    finish(storm, started)
}

fn finish(mut storm: Storm<'_>, started: Instant) -> Result<bool> {
    let produced = storm.finish_flow()?;
    println!("  all is produced and nothing is broken any more; the backlog drains");
    storm.pump_until(DRAIN_WITHIN, "everything is committed", |storm| {
        finish::is_done(&storm.watch)
    })?;
    storm.look_at_all();
    let figures = finish::read_figures(&storm.scene, produced, started)?;
    let faults = verdict::judge(storm.options.guarantee, &figures, &storm.tally);
    print!(
        "{}",
        verdict::render(storm.options.seed, &figures, &storm.tally)
    );
    for fault in &faults {
        println!("  FAULT: {fault}");
    }
    if figures.rows != figures.places && storm.options.guarantee == Guarantee::ExactlyOnce {
        println!("{}", finish::describe_wrong(&storm.scene)?);
    }
    println!(
        "chaos: {}",
        if faults.is_empty() {
            "as promised"
        } else {
            "NOT AS PROMISED"
        }
    );
    Ok(faults.is_empty())
}
