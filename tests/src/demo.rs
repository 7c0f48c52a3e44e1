//! What `cargo xtask demo` shows: a night shift, then a stream with a killed worker and a ClickHouse outage on the way.
//!
//! Must not be here: building, starting the stack (`tasks::demo`).
#![allow(
    clippy::print_stdout,
    reason = "the demo is for the person at the terminal"
)]

mod live;
mod report;
mod sink;
mod stream;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use self::live::Live;
use self::sink::Demo;
use self::stream::Stream;
use crate::produce::{Producer, produce_night_shift};
use crate::programs::LocalProcess;
use crate::stack::Stack;
use crate::tasks::demo::DemoArgs;
use crate::wait::eventually_eq;

/// A step of the story takes at most this long on a slow machine.
const PATIENCE: Duration = Duration::from_mins(3);
/// How long ClickHouse is away.
const OUTAGE: Duration = Duration::from_secs(10);

/// Runs the demo on a stack that is ready.
///
/// # Errors
/// Where something is not as promised.
pub fn run(args: &DemoArgs, stack: &mut Stack) -> Result<ExitCode> {
    let demo = Demo::prepare(stack)?;
    println!(
        "\nThe sink, as declared in {}:\n\n{}",
        sink::EXAMPLE_PATH,
        demo.yaml
    );
    let local = LocalProcess::start(stack.run_dir(), "demo", &demo.yaml, &[])?;
    local.wait_workers(2, PATIENCE)?;
    show_night_shift(&demo)?;
    let produced = show_stream(args.records, &demo, &local, stack)?;
    let good = report::show(&demo, produced)?;
    if args.keep {
        keep(stack);
    }
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn show_night_shift(demo: &Demo) -> Result<()> {
    println!("Night shift: six messages of two cameras; evt-a1 is raised, then acknowledged.");
    produce_night_shift(&Producer::new(&demo.brokers)?, &demo.topic)?;
    eventually_eq(PATIENCE, "the night shift is in the table", &6, || {
        demo.count("")
    })?;
    let status: String = demo.clickhouse.scalar(&format!(
        "SELECT status FROM {} FINAL WHERE event_id = 'evt-a1'",
        demo.table
    ))?;
    println!(
        "  count() = {}, with FINAL = {}, evt-a1 is {status}\n",
        demo.count("")?,
        demo.count("FINAL")?
    );
    Ok(())
}

/// The stream with its two accidents; gives the number of records produced in all.
fn show_stream(records: u64, demo: &Demo, local: &LocalProcess, stack: &mut Stack) -> Result<u64> {
    println!(
        "Stream: {records} events. On the way a worker is killed and ClickHouse goes away for ten seconds."
    );
    let stream = Stream::start(demo, records)?;
    let mut live = Live::new(demo, records);
    live.watch_until(|produced, _| produced >= records * 3 / 10, &stream)?;
    kill_a_worker(local, &mut live)?;
    live.watch_until(|produced, _| produced >= records * 6 / 10, &stream)?;
    take_clickhouse_away(stack, &mut live, &stream)?;
    live.watch_until(|produced, _| produced >= records, &stream)?;
    stream.finish()?;
    live.note("All is produced; the rest drains.");
    let produced = records + report::NIGHT_SHIFT.0;
    live.drain(produced, report::distinct_events(produced), PATIENCE)?;
    Ok(produced)
}

fn kill_a_worker(local: &LocalProcess, live: &mut Live<'_>) -> Result<()> {
    let workers = local.workers();
    let victim = workers.first().context("no worker runs")?;
    ensure!(victim.signal(Signal::KILL), "the worker is gone already");
    live.note("A worker was killed (SIGKILL). Its partition is taken over once its session ends.");
    Ok(())
}

fn take_clickhouse_away(stack: &mut Stack, live: &mut Live<'_>, stream: &Stream) -> Result<()> {
    let Some(clickhouse) = stack.clickhouse() else {
        live.note("ClickHouse is your own, so it is left alone: no outage.");
        return Ok(());
    };
    clickhouse.kill();
    live.note("ClickHouse was killed. The backlog stays in Kafka.");
    live.watch_for(OUTAGE, stream)?;
    clickhouse.restart()?;
    live.note("ClickHouse is back.");
    Ok(())
}

/// Until Ctrl-C, which ends everything.
fn keep(stack: &Stack) {
    println!(
        "\nEverything stays up until Ctrl-C. Logs: {}",
        stack.run_dir().display()
    );
    loop {
        std::thread::park();
    }
}
