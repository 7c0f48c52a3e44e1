//! The plan of a run, drawn from its seed alone: what is done, in which order, after which pauses.
//!
//! Must not be here: who is hit (that depends on who lives), how it is done.

use std::collections::BTreeMap;
use std::time::Duration;

use super::random::Random;

/// Most workers at a time.
pub(crate) const MOST_WORKERS: usize = 5;
/// Workers at the start.
pub(crate) const FIRST_WORKERS: usize = 3;
/// Kills that a step with the window counts for: all workers of the start die.
const WINDOW_KILLS: usize = FIRST_WORKERS;

/// What is killed or stopped, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kill {
    /// SIGKILL of a worker, which is started again.
    Worker,
    /// SIGSTOP of a worker until its session has ended, then SIGCONT.
    Freeze,
    /// SIGTERM of a worker, which is started again.
    Term,
    /// SIGKILL of all workers; those that follow find that the deduplication window has forgotten.
    Window,
    /// SIGKILL of `ClickHouse`, which is started again.
    ClickHouse,
    /// SIGKILL of Kafka, which is started again.
    Kafka,
}

impl Kill {
    /// All kinds.
    pub(crate) const ALL: [Self; 6] = [
        Self::Worker,
        Self::Freeze,
        Self::Term,
        Self::Window,
        Self::ClickHouse,
        Self::Kafka,
    ];

    /// For people.
    #[must_use]
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Worker => "worker SIGKILL",
            Self::Freeze => "worker SIGSTOP beyond its session",
            Self::Term => "worker SIGTERM",
            Self::Window => "worker SIGKILL, window forgotten",
            Self::ClickHouse => "ClickHouse SIGKILL",
            Self::Kafka => "Kafka SIGKILL",
        }
    }

    const fn counts_for(self) -> usize {
        match self {
            Self::Window => WINDOW_KILLS,
            _ => 1,
        }
    }
}

/// What is done to the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Trouble {
    /// A worker's commits reach the broker, their answers get lost.
    CommitRepliesLost,
    /// A worker's commits are late.
    CommitsLate,
    /// A worker's connections to Kafka are closed.
    KafkaCut,
    /// Nothing passes between a worker and Kafka.
    KafkaHangs,
    /// All connections to `ClickHouse` are closed, new ones too.
    ClickHouseCut,
    /// The server stands still (SIGSTOP) and answers later.
    ClickHouseHangs,
    /// Every INSERT's answer gets lost.
    RepliesLost,
}

impl Trouble {
    const ALL: [Self; 7] = [
        Self::CommitRepliesLost,
        Self::CommitsLate,
        Self::KafkaCut,
        Self::KafkaHangs,
        Self::ClickHouseCut,
        Self::ClickHouseHangs,
        Self::RepliesLost,
    ];

    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::CommitRepliesLost => "answers to commits lost",
            Self::CommitsLate => "commits late",
            Self::KafkaCut => "Kafka connections cut",
            Self::KafkaHangs => "Kafka connections hang",
            Self::ClickHouseCut => "ClickHouse connections cut",
            Self::ClickHouseHangs => "ClickHouse stands still",
            Self::RepliesLost => "all answers to INSERTs lost",
        }
    }
}

/// One thing that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Kill(Kill),
    /// From now on so many workers.
    Scale(usize),
    Trouble(Trouble),
}

/// What is done, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Pause before it.
    pub(crate) after: Duration,
    pub(crate) action: Action,
    /// How long what is hit stays away, or the trouble lasts.
    pub(crate) lasting: Duration,
    /// Draws the one that is hit among those that can be.
    pub(crate) pick: u64,
}

/// The steps of a run with so many kills.
pub(crate) fn make_plan(seed: u64, kills: usize) -> Vec<Step> {
    let mut random = Random::new(seed);
    let mut deck = make_deck(kills);
    random.shuffle(&mut deck);
    let mut steps = Vec::new();
    for (index, kill) in deck.into_iter().enumerate() {
        if random.chance(40) {
            steps.push(draw_trouble(&mut random));
        }
        if index % 8 == 5 {
            steps.push(draw_scale(&mut random));
        }
        steps.push(draw_kill(kill, &mut random));
    }
    steps
}

/// Kills of each kind, so that each is there at all.
fn make_deck(kills: usize) -> Vec<Kill> {
    let share = |one_in: usize, most: usize| (kills / one_in).clamp(1, most);
    let mut deck = Vec::new();
    let mut add = |kill, count| deck.extend(std::iter::repeat_n(kill, count));
    // Kafka takes ten seconds to come back.
    add(Kill::Kafka, share(30, 20));
    add(Kill::Window, share(25, 20));
    add(Kill::ClickHouse, share(12, usize::MAX));
    add(Kill::Freeze, share(9, usize::MAX));
    add(Kill::Term, share(12, usize::MAX));
    let taken: usize = deck.iter().map(|kill| kill.counts_for()).sum();
    let rest = kills.saturating_sub(taken);
    deck.extend(std::iter::repeat_n(Kill::Worker, rest.max(1)));
    deck
}

fn draw_kill(kill: Kill, random: &mut Random) -> Step {
    let (low, high) = match kill {
        Kill::Worker | Kill::Term => (0, 800),
        // Added to the session's timeout.
        Kill::Freeze => (500, 3_000),
        Kill::Window => (0, 1),
        Kill::ClickHouse => (200, 2_500),
        Kill::Kafka => (0, 500),
    };
    // Some follow at once, so that they meet the one before; the others let the group come together again.
    let hurried = random.chance(35);
    let (soon, late) = if hurried { (50, 400) } else { (1_000, 4_500) };
    Step {
        after: milliseconds(random.between(soon, late)),
        action: Action::Kill(kill),
        lasting: milliseconds(random.between(low, high)),
        pick: random.next(),
    }
}

fn draw_trouble(random: &mut Random) -> Step {
    let trouble = random
        .pick(&Trouble::ALL)
        .copied()
        .unwrap_or(Trouble::KafkaCut);
    Step {
        after: milliseconds(random.between(0, 500)),
        action: Action::Trouble(trouble),
        lasting: milliseconds(random.between(200, 2_000)),
        pick: random.next(),
    }
}

fn draw_scale(random: &mut Random) -> Step {
    let most = u64::try_from(MOST_WORKERS).unwrap_or(1);
    let workers = usize::try_from(random.between(1, most + 1)).unwrap_or(1);
    Step {
        after: milliseconds(random.between(0, 500)),
        action: Action::Scale(workers),
        lasting: Duration::ZERO,
        pick: random.next(),
    }
}

const fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Steps of each kind, for the run's first lines.
pub(crate) fn describe(steps: &[Step]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for step in steps {
        let label = match step.action {
            Action::Kill(kill) => kill.label(),
            Action::Scale(_) => "scale",
            Action::Trouble(trouble) => trouble.label(),
        };
        *counts.entry(label).or_default() += 1;
    }
    let parts: Vec<String> = counts
        .iter()
        .map(|(label, count)| format!("{count} × {label}"))
        .collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kills_of(steps: &[Step]) -> Vec<Kill> {
        let kill = |step: &Step| match step.action {
            Action::Kill(kill) => Some(kill),
            _ => None,
        };
        steps.iter().filter_map(kill).collect()
    }

    #[test]
    fn a_seed_repeats_its_plan_and_another_one_gives_another() {
        assert_eq!(make_plan(42, 40), make_plan(42, 40));
        assert_ne!(make_plan(42, 40), make_plan(43, 40));
    }

    #[test]
    fn a_plan_has_as_many_kills_as_asked_for_and_every_kind_of_them() {
        for count in [15, 40, 1000] {
            let kills = kills_of(&make_plan(1, count));
            let counted: usize = kills.iter().map(|kill| kill.counts_for()).sum();
            assert_eq!(counted, count);
            assert!(Kill::ALL.iter().all(|kind| kills.contains(kind)), "{count}");
        }
    }

    #[test]
    fn most_kills_are_of_workers_that_may_have_a_declared_range() {
        for count in [15, 40, 1000] {
            let kills = kills_of(&make_plan(1, count));
            let hits = |kill: &&Kill| matches!(kill, Kill::Worker | Kill::Freeze | Kill::Window);
            let on_range: usize = kills
                .iter()
                .filter(hits)
                .map(|kill| kill.counts_for())
                .sum();
            assert!(on_range * 10 >= count * 7, "{on_range} of {count}");
        }
    }

    #[test]
    fn workers_stay_between_one_and_the_most() {
        let scales = make_plan(3, 1000)
            .into_iter()
            .filter_map(|step| match step.action {
                Action::Scale(workers) => Some(workers),
                _ => None,
            });
        let scales: Vec<usize> = scales.collect();
        assert!(scales.len() > 50 && scales.contains(&1) && scales.contains(&MOST_WORKERS));
        assert!(scales.iter().all(|it| (1..=MOST_WORKERS).contains(it)));
    }
}
