//! What the histories of a run have met: crash points, and faults in each state of a session.
//!
//! Must not be here: the histories.

use std::fmt::Write;

use clickhouse_sink_worker::session::State;

/// Crash points of the design: the rows of its table, and the one with dead letters.
pub const CRASH_POINTS: [&str; 26] = [
    "cut, not declared",
    "declared, answer lost, alive",
    "declared, not sent",
    "sent",
    "acknowledged, not committed",
    "committed",
    "several in flight, some landed",
    "dies while replaying",
    "zombie sends after the replay",
    "zombie and owner send at once",
    "commit of a revoked session",
    "answer to an old session",
    "lost while the group is empty",
    "coordinator loses a commit",
    "admin moves the position",
    "retention within a range",
    "compaction within a range",
    "topic made again",
    "offsets expired",
    "log cut off",
    "mapping changed before a replay",
    "batch settings changed before a replay",
    "replay after the window",
    "broker drops metadata",
    "partition added",
    "dead letter, crash, mapping mended",
];

/// Faults that a session meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Crash,
    Freeze,
    Stop,
    Revoke,
    Lost,
    KafkaCut,
    AnswerLost,
    ClickHouseDown,
}

const FAULTS: [&str; 8] = [
    "crash",
    "freeze",
    "stop",
    "revoke",
    "lost",
    "Kafka cut off",
    "answer lost",
    "ClickHouse down",
];
const STATES: [&str; 8] = [
    "Fetching",
    "Recording",
    "Creating",
    "Checking",
    "Replaying",
    "Running",
    "Draining",
    "Held",
];

/// What is being given up already is not revoked once more.
fn cannot_be(state: &str, fault: &str) -> bool {
    (state, fault) == ("Draining", "revoke")
}

/// Counts of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    crash_points: [u64; 26],
    states: [[u64; 8]; 8],
    holds: std::collections::BTreeMap<&'static str, u64>,
}

impl Coverage {
    /// A row of the design's table, from 1.
    pub(super) const fn crash_point(&mut self, row: usize) {
        self.crash_points[row - 1] += 1;
    }

    pub(super) fn state(&mut self, state: &State, fault: Fault) {
        if let Some(index) = STATES.iter().position(|name| *name == state.name()) {
            self.states[index][fault as usize] += 1;
        }
    }

    pub(super) fn hold(&mut self, reason: &'static str) {
        *self.holds.entry(reason).or_default() += 1;
    }

    /// Adds what another thread has met.
    pub(crate) fn add(&mut self, other: &Self) {
        for (sum, count) in self.crash_points.iter_mut().zip(other.crash_points) {
            *sum += count;
        }
        for (row, others) in self.states.iter_mut().zip(other.states) {
            for (sum, count) in row.iter_mut().zip(others) {
                *sum += count;
            }
        }
        for (reason, count) in &other.holds {
            *self.holds.entry(reason).or_default() += count;
        }
    }

    /// Names of what was met less often than it has to be.
    #[must_use]
    pub fn missing(&self, crash_points: u64, states: u64) -> Vec<String> {
        let rows = self.crash_points.iter().zip(CRASH_POINTS).enumerate();
        let few = rows.filter(|(_, (count, _))| **count < crash_points);
        let mut missing: Vec<String> = few
            .map(|(row, (count, name))| {
                format!(
                    "crash point {} ({name}): {count} of {crash_points}",
                    row + 1
                )
            })
            .collect();
        for (state, counts) in STATES.iter().zip(self.states) {
            let few = FAULTS
                .iter()
                .zip(counts)
                .filter(|(fault, count)| *count < states && !cannot_be(state, fault));
            missing.extend(
                few.map(|(fault, count)| format!("{state} x {fault}: {count} of {states}")),
            );
        }
        missing
    }

    /// Tables for people.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = String::from("Crash points\n");
        for (row, (name, count)) in CRASH_POINTS.iter().zip(self.crash_points).enumerate() {
            let _ = writeln!(text, "  {:>2} {name:<42} {count:>9}", row + 1);
        }
        let _ = write!(text, "State x fault\n  {:<10}", "");
        for fault in FAULTS {
            let _ = write!(text, " {fault:>15}");
        }
        for (state, counts) in STATES.iter().zip(self.states) {
            let _ = write!(text, "\n  {state:<10}");
            for count in counts {
                let _ = write!(text, " {count:>15}");
            }
        }
        text.push_str("\nHolds\n");
        for (reason, count) in &self.holds {
            let _ = writeln!(text, "  {reason:<45} {count:>9}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_met_too_seldom_is_named() {
        let mut coverage = Coverage::default();
        for row in 1..=26 {
            coverage.crash_point(row);
        }
        assert_eq!(coverage.missing(1, 0), Vec::<String>::new());
        let mut sum = Coverage::default();
        sum.add(&coverage);
        sum.add(&coverage);
        assert_eq!(sum.missing(3, 0).len(), 26);
        assert_eq!(coverage.missing(0, 1).len(), 63);
        assert!(
            coverage
                .render()
                .contains("dead letter, crash, mapping mended")
        );
    }
}
