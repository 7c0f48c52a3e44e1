//! The simulation: sessions of several workers against a scripted broker and a scripted ClickHouse, step by step.
//!
//! Everything follows from a seed: which of all possible steps is next, what is lost, late, killed or stopped. The
//! sessions are the worker's own; around them is the little that a shard does. Every step is checked against what the
//! design promises, and at the end, when nothing fails any more, every record must be there once.
//! Must not be here: threads, the command line (`tasks/simulate.rs`).

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "offsets, sizes and times of a history are small"
)]

mod broker;
mod check;
mod client;
mod coverage;
mod deliver;
mod doubt;
mod excuse;
mod faults;
mod group;
mod log;
mod random;
mod rare;
mod scenario;
mod shard;
mod start;
mod step;
mod table;
mod task;
mod token;
mod worker;
mod world;

pub use self::coverage::{CRASH_POINTS, Coverage};
pub use self::scenario::Bug;
use self::world::World;

/// How one history went.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The seed that repeats it.
    pub seed: u64,
    /// Steps that it took.
    pub steps: u32,
    /// What must not have been, if anything.
    pub violation: Option<String>,
    /// What happened, where it was asked for.
    pub trace: Vec<String>,
}

impl Outcome {
    /// A number that two histories have in common only where each of their steps is the same; 0 without a trace.
    #[must_use]
    pub fn trace_hash(&self) -> u64 {
        let bytes = self
            .trace
            .iter()
            .flat_map(|line| line.bytes().chain([b'\n']));
        bytes.fold(0, |hash, byte| {
            (hash ^ u64::from(byte))
                .wrapping_mul(0x0100_0000_01b3)
                .rotate_left(5)
        })
    }
}

/// Plays the history of one seed.
pub fn simulate(seed: u64, bug: Option<Bug>, trace: bool, coverage: &mut Coverage) -> Outcome {
    let mut world = World::new(seed, bug, trace, coverage);
    let scenario = trace.then(|| format!("{:?}", world.scenario));
    world.play_all();
    let (steps, violation) = (world.steps, world.violation.take());
    let told = world.trace.take().unwrap_or_default();
    Outcome {
        seed,
        steps,
        violation,
        trace: scenario.into_iter().chain(told).collect(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_history() {
        for seed in 0..20 {
            let one = simulate(seed, None, true, &mut Coverage::default());
            let two = simulate(seed, None, true, &mut Coverage::default());
            assert!(one.trace_hash() != 0 && one.trace_hash() == two.trace_hash());
            assert_eq!((one.steps, &one.trace), (two.steps, &two.trace));
            let other = simulate(seed + 1, None, true, &mut Coverage::default());
            assert!(one.trace_hash() != other.trace_hash());
        }
    }

    #[test]
    fn histories_keep_what_the_design_promises() {
        let mut coverage = Coverage::default();
        for seed in 0..300 {
            let outcome = simulate(seed, None, false, &mut coverage);
            assert_eq!(outcome.violation, None, "seed {seed}");
        }
    }

    #[test]
    fn a_planted_bug_is_found() {
        let found = (0..2_000).any(|seed| {
            let outcome = simulate(
                seed,
                Some(Bug::CommitBeforeInsert),
                false,
                &mut Coverage::default(),
            );
            outcome.violation.is_some()
        });
        assert!(found);
    }
}
