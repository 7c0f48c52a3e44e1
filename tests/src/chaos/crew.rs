//! The workers of a run: started, killed, frozen, stopped, and looked at.
//!
//! Must not be here: when and why.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clickhouse_sink_crds::worker_config::WorkerConfig;
use rustix::process::Signal;

use super::plan::MOST_WORKERS;
use super::scene::{Scene, worker_config};
use super::{Options, tally::Tally};
use crate::metrics::Metrics;
use crate::programs::WorkerProcess;
use crate::proxy::{ClickHouseProxy, KafkaProxy};

/// A stop that takes longer than this did not keep its budget.
const STOP_WITHIN: Duration = Duration::from_secs(40);

/// What a worker is doing as far as we caused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Runs,
    Frozen,
    /// SIGTERM was sent then.
    Stops(Instant),
}

/// One process.
#[derive(Debug)]
struct Life {
    number: u64,
    process: WorkerProcess,
    mode: Mode,
    /// It has answered once: it handles signals by now.
    answered: bool,
    /// Partitions that it said to own when it was looked at last.
    owned: BTreeSet<usize>,
    in_flight: u64,
}

/// A place for a worker, with a way to Kafka of its own.
#[derive(Debug)]
struct Slot {
    name: String,
    kafka: KafkaProxy,
    config: WorkerConfig,
    life: Option<Life>,
}

/// All workers.
#[derive(Debug)]
pub(crate) struct Crew {
    dir: PathBuf,
    slots: Vec<Slot>,
    lives: u64,
}

impl Crew {
    pub(crate) fn new(
        scene: &Scene,
        fault_ports: &std::path::Path,
        clickhouse: &ClickHouseProxy,
        options: &Options,
    ) -> Result<Self> {
        let slot = |index: usize| {
            let kafka = KafkaProxy::start(fault_ports)?;
            let config = worker_config(kafka.bootstrap(), &clickhouse.url(), options)?;
            Ok(Slot {
                name: format!("worker_{index}"),
                kafka,
                config,
                life: None,
            })
        };
        Ok(Self {
            dir: scene.dir.clone(),
            slots: (0..MOST_WORKERS).map(slot).collect::<Result<_>>()?,
            lives: 0,
        })
    }

    fn slot(&mut self, slot: usize) -> Result<&mut Slot> {
        self.slots.get_mut(slot).context("no such worker")
    }

    fn life(&mut self, slot: usize) -> Result<&mut Life> {
        let life = self.slot(slot)?.life.as_mut();
        life.context("the worker does not run")
    }

    /// The way to Kafka of a slot.
    pub(crate) fn kafka(&self, slot: usize) -> Option<&KafkaProxy> {
        self.slots.get(slot).map(|slot| &slot.kafka)
    }

    /// Slots whose worker does this; with `None` those without a worker.
    pub(crate) fn slots_in(&self, mode: Option<Mode>) -> Vec<usize> {
        let slots = self.slots.iter().enumerate();
        slots
            .filter(|(_, slot)| slot.life.as_ref().map(|life| life.mode) == mode)
            .map(|(index, _)| index)
            .collect()
    }

    /// Starts a worker in a slot that has none.
    pub(crate) fn start(&mut self, slot: usize, tally: &mut Tally) -> Result<()> {
        self.lives += 1;
        let (number, dir) = (self.lives, self.dir.clone());
        let slot = self.slot(slot)?;
        if slot.life.is_some() {
            return Ok(());
        }
        let process = WorkerProcess::start(&dir, &slot.name, &slot.config)?;
        slot.life = Some(Life {
            number,
            process,
            mode: Mode::Runs,
            answered: false,
            owned: BTreeSet::new(),
            in_flight: 0,
        });
        tally.started += 1;
        Ok(())
    }

    /// SIGKILL; gives what it owned.
    pub(crate) fn kill(&mut self, slot: usize, tally: &mut Tally) -> Result<BTreeSet<usize>> {
        self.look_at(slot, tally);
        let mut life = self.slot(slot)?.life.take().context("nobody to kill")?;
        life.process
            .program
            .kill()
            .context("a worker ended before it was killed")?;
        Ok(life.owned)
    }

    /// SIGSTOP; gives what it owned.
    pub(crate) fn freeze(&mut self, slot: usize, tally: &mut Tally) -> Result<BTreeSet<usize>> {
        self.look_at(slot, tally);
        let life = self.life(slot)?;
        life.process.program.stop_hang()?;
        life.mode = Mode::Frozen;
        Ok(life.owned.clone())
    }

    /// SIGCONT of a frozen worker.
    pub(crate) fn resume(&mut self, slot: usize) -> Result<()> {
        let life = self.life(slot)?;
        if life.mode == Mode::Frozen {
            life.process.program.resume()?;
            life.mode = Mode::Runs;
        }
        Ok(())
    }

    /// SIGTERM; gives what it owned. [`Self::reap`] tells when it has ended.
    pub(crate) fn term(&mut self, slot: usize, tally: &mut Tally) -> Result<BTreeSet<usize>> {
        self.look_at(slot, tally);
        let life = self.life(slot)?;
        life.process.program.term()?;
        life.mode = Mode::Stops(Instant::now());
        Ok(life.owned.clone())
    }

    /// Looks for workers that have ended, well or not; gives their slots.
    pub(crate) fn reap(&mut self, tally: &mut Tally) -> Result<Vec<usize>> {
        let mut ended = Vec::new();
        for (index, slot) in self.slots.iter_mut().enumerate() {
            let Some(life) = &mut slot.life else { continue };
            let runs = life.process.program.is_running();
            let is_over = matches!(life.mode, Mode::Stops(since) if since.elapsed() > STOP_WITHIN);
            let late = runs && is_over;
            if runs && !late {
                continue;
            }
            let note = if late {
                life.process.program.kill()?;
                Some(format!("did not stop within {} s", STOP_WITHIN.as_secs()))
            } else {
                let status = life.process.program.wait_exit(Duration::ZERO)?;
                let asked = matches!(life.mode, Mode::Stops(_));
                (!is_fine(status, asked, life.answered)).then(|| format!("ended with {status}"))
            };
            let name = &slot.name;
            tally
                .odd_ends
                .extend(note.map(|note| format!("{name} {note}")));
            slot.life = None;
            ended.push(index);
        }
        Ok(ended)
    }

    /// Asks every worker that can answer what it owns and has counted.
    pub(crate) fn look(&mut self, tally: &mut Tally) {
        for slot in 0..self.slots.len() {
            self.look_at(slot, tally);
        }
    }

    fn look_at(&mut self, slot: usize, tally: &mut Tally) {
        let Some(life) = self.slots.get_mut(slot).and_then(|slot| slot.life.as_mut()) else {
            return;
        };
        if life.mode == Mode::Frozen {
            return;
        }
        // A worker that starts or ends does not answer: what it said last stays.
        if let Ok(state) = life.process.state() {
            life.answered = true;
            life.owned = read_owned(&state);
            life.in_flight = state["in_flight"].as_u64().unwrap_or(0);
            note_holds(&state, tally);
        }
        if let Ok(metrics) = life.process.metrics() {
            note_metrics(life.number, &metrics, tally);
        }
    }

    /// Places for workers.
    pub(crate) const fn size(&self) -> usize {
        self.slots.len()
    }

    /// Workers that were asked to go.
    pub(crate) fn count_leaving(&self) -> usize {
        let lives = self.slots.iter().filter_map(|slot| slot.life.as_ref());
        lives
            .filter(|life| matches!(life.mode, Mode::Stops(_)))
            .count()
    }

    /// Running workers with what they owned and had in flight when they were looked at last.
    pub(crate) fn owners(&self) -> Vec<(usize, &BTreeSet<usize>, u64)> {
        let slots = self.slots.iter().enumerate();
        slots
            .filter_map(|(index, slot)| {
                let life = slot.life.as_ref()?;
                (life.mode == Mode::Runs).then_some((index, &life.owned, life.in_flight))
            })
            .collect()
    }
}

/// Whether an end is one that was to be expected.
fn is_fine(status: ExitStatus, asked: bool, answered: bool) -> bool {
    // 3: the budget was over before all was acknowledged.
    let drained = matches!(status.code(), Some(0 | 3));
    let too_early = !answered && status.signal() == Some(Signal::TERM.as_raw());
    asked && (drained || too_early)
}

/// Partitions with a session that has begun.
fn read_owned(state: &serde_json::Value) -> BTreeSet<usize> {
    let sessions = state["sessions"].as_array().into_iter().flatten();
    sessions
        .filter(|session| session["state"] != "Unowned")
        .filter_map(|session| usize::try_from(session["partition"].as_u64()?).ok())
        .collect()
}

fn note_holds(state: &serde_json::Value, tally: &mut Tally) {
    for hold in state["holds"].as_array().into_iter().flatten() {
        let text = |name: &str| hold[name].as_str().unwrap_or_default().to_owned();
        tally
            .holds
            .entry(text("reason"))
            .or_insert_with(|| text("message"));
    }
}

fn note_metrics(life: u64, metrics: &Metrics, tally: &mut Tally) {
    let read = |name: &str| {
        let sum = metrics.sum(&format!("clickhouse_sink_worker_{name}_total"), &[]);
        // Counts are far below the limit of whole numbers in a float.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let count = sum.unwrap_or(0.0) as u64;
        count
    };
    tally.replayed.note(life, read("ranges_replayed"));
    tally.verified.note(life, read("ranges_verified"));
    tally.rows_inserted.note(life, read("rows_inserted"));
    tally.insert_retries.note(life, read("insert_retries"));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_end_is_fine_only_where_it_was_asked_for() {
        let exited = |code: i32| ExitStatus::from_raw(code << 8);
        let by_term = ExitStatus::from_raw(15);
        assert!(is_fine(exited(0), true, true) && is_fine(exited(3), true, true));
        assert!(!is_fine(exited(0), false, true) && !is_fine(exited(1), true, true));
        assert!(is_fine(by_term, true, false) && !is_fine(by_term, true, true));
    }

    #[test]
    fn a_page_of_metrics_and_a_state_are_read() {
        let mut tally = Tally::default();
        let page = "clickhouse_sink_worker_ranges_replayed_total 3\n\
            clickhouse_sink_worker_insert_retries_total{class=\"Network\"} 2\n\
            clickhouse_sink_worker_insert_retries_total{class=\"Overload\"} 1\n";
        note_metrics(1, &Metrics::parse(page), &mut tally);
        assert_eq!((tally.replayed.sum(), tally.insert_retries.sum()), (3, 3));
        let state = json!({
            "sessions": [
                { "partition": 2, "state": "Running" },
                { "partition": 3, "state": "Unowned" },
                { "partition": 5, "state": "Replaying" },
            ],
            "holds": [{ "reason": "WindowExceeded", "message": "m" }],
        });
        assert_eq!(read_owned(&state), BTreeSet::from([2, 5]));
        note_holds(&state, &mut tally);
        assert_eq!(tally.holds.keys().collect::<Vec<_>>(), ["WindowExceeded"]);
    }
}
