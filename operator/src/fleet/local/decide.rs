//! Which worker process is started, stopped or killed next: pure decisions about values.
//!
//! Must not be here: processes, clocks (milliseconds are passed in), files.

/// Wait before the first restart, in milliseconds.
const FIRST_BACKOFF_MS: u64 = 1_000;
/// Longest wait before a restart, in milliseconds.
const MAX_BACKOFF_MS: u64 = 30_000;
/// A worker that was ready for this long before it ended starts its back-off anew, in milliseconds.
const HEALTHY_MS: u64 = 60_000;

/// Where a slot for one worker stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Slot {
    /// No process.
    Empty {
        /// Ends in a row that nobody asked for.
        failures: u32,
        /// When it may start again; 0: at once.
        restart_at_ms: u64,
    },
    /// A process runs.
    Running {
        /// What it runs on.
        revision: String,
        /// Ends in a row before this start.
        failures: u32,
        /// Ready without a break since then; none: not ready now.
        ready_since_ms: Option<u64>,
    },
    /// A process was asked to stop.
    Draining {
        /// When it was asked.
        since_ms: u64,
        /// True once it was killed.
        killed: bool,
    },
}

impl Slot {
    /// A slot that may start at once.
    pub const NEW: Self = Self::Empty {
        failures: 0,
        restart_at_ms: 0,
    };

    const fn is_ready(&self) -> bool {
        matches!(
            self,
            Self::Running {
                ready_since_ms: Some(_),
                ..
            }
        )
    }
}

/// What must be done with one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Start a process on the wanted revision.
    Start,
    /// Ask it to stop (SIGTERM).
    Terminate,
    /// End it (SIGKILL): its time is over.
    Kill,
    /// Nothing now.
    Wait,
}

/// What the fleet should be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Revision of the configuration.
    pub revision: String,
    /// How many workers.
    pub replicas: u32,
    /// Time from SIGTERM to SIGKILL, in milliseconds.
    pub grace_ms: u64,
}

/// One action for each slot. Of the slots on an older revision those that are not ready are drained at once, and a
/// ready one only while every other slot that is wanted is ready: a roll goes one by one and stops where it fails.
#[must_use]
pub fn decide_fleet(slots: &[Slot], wanted: &Wanted, now_ms: u64) -> Vec<Action> {
    let mut rolling = false;
    (0..slots.len())
        .map(|index| {
            let may_roll = !rolling && others_are_ready(slots, index, wanted);
            let action = decide_slot(
                &slots[index],
                is_wanted(index, wanted),
                may_roll,
                wanted,
                now_ms,
            );
            rolling |= action == Action::Terminate && is_wanted(index, wanted);
            action
        })
        .collect()
}

/// True where the fleet is what is wanted: every wanted slot ready on the wanted revision, and no other process there.
#[must_use]
pub fn is_settled(slots: &[Slot], wanted: &Wanted) -> bool {
    let is_as_wanted = |(index, slot): (usize, &Slot)| match slot {
        Slot::Running { revision, .. } => {
            is_wanted(index, wanted) && slot.is_ready() && *revision == wanted.revision
        }
        Slot::Empty { .. } => !is_wanted(index, wanted),
        Slot::Draining { .. } => false,
    };
    slots.iter().enumerate().all(is_as_wanted) && slots.len() >= wanted.replicas as usize
}

fn is_wanted(index: usize, wanted: &Wanted) -> bool {
    u32::try_from(index).is_ok_and(|index| index < wanted.replicas)
}

fn others_are_ready(slots: &[Slot], index: usize, wanted: &Wanted) -> bool {
    slots
        .iter()
        .enumerate()
        .all(|(other, slot)| other == index || !is_wanted(other, wanted) || slot.is_ready())
}

fn decide_slot(
    slot: &Slot,
    is_wanted: bool,
    may_roll: bool,
    wanted: &Wanted,
    now_ms: u64,
) -> Action {
    match slot {
        Slot::Empty { restart_at_ms, .. } if is_wanted && *restart_at_ms <= now_ms => Action::Start,
        Slot::Running { .. } if !is_wanted => Action::Terminate,
        Slot::Running { revision, .. } if *revision == wanted.revision => Action::Wait,
        Slot::Running {
            ready_since_ms: None,
            ..
        } => Action::Terminate,
        Slot::Running { .. } if may_roll => Action::Terminate,
        Slot::Draining {
            since_ms,
            killed: false,
        } if since_ms + wanted.grace_ms <= now_ms => Action::Kill,
        Slot::Empty { .. } | Slot::Running { .. } | Slot::Draining { .. } => Action::Wait,
    }
}

/// The slot after its process ended: at once where it was asked to, else after a back-off.
#[must_use]
pub fn decide_after_end(slot: &Slot, now_ms: u64) -> Slot {
    let Slot::Running {
        failures,
        ready_since_ms,
        ..
    } = slot
    else {
        return Slot::NEW;
    };
    let was_healthy = ready_since_ms.is_some_and(|since_ms| since_ms + HEALTHY_MS <= now_ms);
    let failures = if was_healthy {
        1
    } else {
        failures.saturating_add(1)
    };
    Slot::Empty {
        failures,
        restart_at_ms: now_ms + decide_backoff_ms(failures),
    }
}

/// 1 s, doubled with each failure in a row, at most 30 s.
#[must_use]
pub fn decide_backoff_ms(failures: u32) -> u64 {
    let doublings = failures.saturating_sub(1).min(16);
    (FIRST_BACKOFF_MS << doublings).min(MAX_BACKOFF_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE_MS: u64 = 30_000;

    fn wanted(revision: &str, replicas: u32) -> Wanted {
        Wanted {
            revision: revision.to_owned(),
            replicas,
            grace_ms: GRACE_MS,
        }
    }

    fn running(revision: &str, ready_since_ms: Option<u64>) -> Slot {
        Slot::Running {
            revision: revision.to_owned(),
            failures: 0,
            ready_since_ms,
        }
    }

    #[test]
    fn a_new_fleet_starts_all_at_once() {
        let slots = [Slot::NEW, Slot::NEW];
        assert_eq!(
            decide_fleet(&slots, &wanted("a", 2), 5),
            [Action::Start, Action::Start]
        );
    }

    #[test]
    fn a_ready_fleet_rolls_one_by_one() {
        let both = [running("a", Some(0)), running("a", Some(0))];
        assert_eq!(
            decide_fleet(&both, &wanted("b", 2), 5),
            [Action::Terminate, Action::Wait]
        );
        let first_drains = [
            Slot::Draining {
                since_ms: 5,
                killed: false,
            },
            running("a", Some(0)),
        ];
        assert_eq!(
            decide_fleet(&first_drains, &wanted("b", 2), 6),
            [Action::Wait, Action::Wait]
        );
        let first_is_new = [running("b", None), running("a", Some(0))];
        assert_eq!(
            decide_fleet(&first_is_new, &wanted("b", 2), 7),
            [Action::Wait, Action::Wait]
        );
        let first_is_ready = [running("b", Some(8)), running("a", Some(0))];
        assert_eq!(
            decide_fleet(&first_is_ready, &wanted("b", 2), 9),
            [Action::Wait, Action::Terminate]
        );
    }

    #[test]
    fn workers_that_are_not_ready_hold_up_no_roll() {
        let slots = [running("a", None), running("a", None)];
        assert_eq!(
            decide_fleet(&slots, &wanted("b", 2), 5),
            [Action::Terminate, Action::Terminate]
        );
    }

    #[test]
    fn fewer_replicas_drain_the_last_and_none_drains_all() {
        let slots = [running("a", Some(0)), running("a", None)];
        assert_eq!(
            decide_fleet(&slots, &wanted("a", 1), 5),
            [Action::Wait, Action::Terminate]
        );
        assert_eq!(
            decide_fleet(&slots, &wanted("a", 0), 5),
            [Action::Terminate, Action::Terminate]
        );
    }

    #[test]
    fn a_draining_worker_is_killed_only_after_its_grace_and_only_once() {
        let slot = |killed| {
            [Slot::Draining {
                since_ms: 100,
                killed,
            }]
        };
        assert_eq!(
            decide_fleet(&slot(false), &wanted("a", 0), 99 + GRACE_MS),
            [Action::Wait]
        );
        assert_eq!(
            decide_fleet(&slot(false), &wanted("a", 0), 100 + GRACE_MS),
            [Action::Kill]
        );
        assert_eq!(
            decide_fleet(&slot(true), &wanted("a", 0), 100 + GRACE_MS),
            [Action::Wait]
        );
    }

    #[test]
    fn a_crashed_worker_waits_longer_each_time_and_never_over_half_a_minute() {
        let waits: Vec<_> = (1..=7).map(decide_backoff_ms).collect();
        assert_eq!(waits, [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
        assert_eq!(decide_backoff_ms(u32::MAX), 30_000);
        let slot = Slot::Empty {
            failures: 1,
            restart_at_ms: 1_000,
        };
        assert_eq!(
            decide_fleet(std::slice::from_ref(&slot), &wanted("a", 1), 999),
            [Action::Wait]
        );
        assert_eq!(
            decide_fleet(&[slot], &wanted("a", 1), 1_000),
            [Action::Start]
        );
    }

    #[test]
    fn a_minute_of_health_forgives_earlier_crashes() {
        let slot = |ready_since_ms| Slot::Running {
            revision: "a".to_owned(),
            failures: 4,
            ready_since_ms,
        };
        let after = |slot, now_ms| decide_after_end(&slot, now_ms);
        assert_eq!(
            after(slot(Some(0)), 60_000),
            Slot::Empty {
                failures: 1,
                restart_at_ms: 61_000
            }
        );
        assert_eq!(
            after(slot(Some(1)), 60_000),
            Slot::Empty {
                failures: 5,
                restart_at_ms: 76_000
            }
        );
        assert_eq!(
            after(slot(None), 60_000),
            Slot::Empty {
                failures: 5,
                restart_at_ms: 76_000
            }
        );
    }

    #[test]
    fn a_worker_that_was_asked_to_stop_may_start_again_at_once() {
        assert_eq!(
            decide_after_end(
                &Slot::Draining {
                    since_ms: 1,
                    killed: true
                },
                9
            ),
            Slot::NEW
        );
    }
}
