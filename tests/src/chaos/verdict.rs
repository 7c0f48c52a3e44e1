//! What must be true at the end of a run, and its figures as text.
//!
//! Must not be here: how the figures are found.

use std::fmt::Write;
use std::time::Duration;

use clickhouse_sink_crds::worker_config::Guarantee;

use super::plan::Kill;
use super::tally::Tally;

/// What the table, the view and the producers say at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// Records that were produced and not aborted.
    pub(crate) produced: u64,
    /// Records in aborted transactions.
    pub(crate) aborted: u64,
    /// Sum of the hashes of the ids that were produced.
    pub(crate) produced_checksum: u64,
    /// `count()` of the table.
    pub(crate) rows: u64,
    /// `uniqExact(_partition, _offset)`.
    pub(crate) places: u64,
    /// `uniqExact(id)`.
    pub(crate) ids: u64,
    /// Rows of aborted records.
    pub(crate) aborted_rows: u64,
    /// Sum of the hashes of the ids of all rows.
    pub(crate) checksum: u64,
    /// The same over distinct ids.
    pub(crate) distinct_checksum: u64,
    /// Records and sum of hashes that the view has summed.
    pub(crate) view: (u64, u64),
    /// Rows of the rejected table.
    pub(crate) rejected: u64,
    /// From the first record to the last commit.
    pub(crate) took: Duration,
}

/// Everything that is not as promised; none: the run is good.
pub(crate) fn judge(guarantee: Guarantee, figures: &Figures, tally: &Tally) -> Vec<String> {
    let mut faults = Faults(Vec::new());
    judge_nothing_lost(&mut faults, figures);
    judge_conduct(&mut faults, tally);
    match guarantee {
        Guarantee::ExactlyOnce => judge_once(&mut faults, figures, tally),
        Guarantee::AtLeastOnce => {
            let copies = figures.rows > figures.produced;
            faults.unless(
                copies,
                "the control run shows no copies: this chaos is too weak to prove anything",
            );
        }
    }
    faults.0
}

struct Faults(Vec<String>);

impl Faults {
    fn unless(&mut self, good: bool, fault: &str) {
        if !good {
            self.0.push(fault.to_owned());
        }
    }

    fn unless_equal<T: PartialEq + std::fmt::Debug>(
        &mut self,
        what: &str,
        found: &T,
        expected: &T,
    ) {
        if found != expected {
            self.0
                .push(format!("expected {what} = {expected:?}, found {found:?}"));
        }
    }
}

fn judge_nothing_lost(faults: &mut Faults, figures: &Figures) {
    faults.unless(figures.produced > 0, "nothing was produced");
    faults.unless(figures.aborted > 0, "no record was aborted");
    faults.unless_equal(
        "uniqExact(_partition, _offset)",
        &figures.places,
        &figures.produced,
    );
    faults.unless_equal("uniqExact(id)", &figures.ids, &figures.produced);
    faults.unless_equal("rows of aborted records", &figures.aborted_rows, &0);
    faults.unless_equal(
        "the checksum of the distinct ids",
        &figures.distinct_checksum,
        &figures.produced_checksum,
    );
    faults.unless_equal("rejected records", &figures.rejected, &0);
}

fn judge_conduct(faults: &mut Faults, tally: &Tally) {
    for kind in Kill::ALL {
        let done = tally.kills.get(&kind).copied().unwrap_or(0);
        faults.unless(done > 0, &format!("no kill of the kind: {}", kind.label()));
    }
    faults.unless_equal(
        "ends of workers that nobody asked for",
        &tally.odd_ends,
        &Vec::new(),
    );
    faults.unless_equal(
        "committed offsets that went back",
        &tally.went_back,
        &Vec::new(),
    );
}

fn judge_once(faults: &mut Faults, figures: &Figures, tally: &Tally) {
    faults.unless_equal("count()", &figures.rows, &figures.produced);
    faults.unless_equal(
        "the checksum of all rows",
        &figures.checksum,
        &figures.produced_checksum,
    );
    faults.unless_equal(
        "the view's total (records, checksum)",
        &figures.view,
        &(figures.produced, figures.produced_checksum),
    );
    let (declared, kills) = (tally.kills_on_declared, tally.kill_count());
    faults.unless(
        declared * 2 >= kills,
        &format!(
            "expected at least half of {kills} kills to hit a declared range, found {declared}"
        ),
    );
    faults.unless(tally.replayed.sum() > 0, "no range was replayed");
    faults.unless(tally.verified.sum() > 0, "no range was verified");
    faults.unless(
        tally.duplicated_blocks.sum() > 0,
        "the server has dropped no block: no replay met a range that had landed",
    );
}

/// The figures for people.
pub(crate) fn render(seed: u64, figures: &Figures, tally: &Tally) -> String {
    let mut text = String::new();
    let mut line = |label: &str, value: &dyn std::fmt::Display| {
        let _ = writeln!(text, "  {label:<44} {value:>12}");
    };
    line("seed", &seed);
    for (kill, count) in &tally.kills {
        line(kill.label(), count);
    }
    line("kills", &tally.kill_count());
    line("kills on a declared range", &tally.kills_on_declared);
    line("ranges declared by those that were hit", &tally.ranges_hit);
    for (label, count) in &tally.troubles {
        line(label, count);
    }
    line("workers asked to go (scaled down)", &tally.scaled_down);
    line("workers started", &tally.started);
    line("INSERT attempts that failed", &tally.insert_retries.sum());
    line("ranges replayed", &tally.replayed.sum());
    line("ranges verified", &tally.verified.sum());
    line("DuplicatedInsertedBlocks", &tally.duplicated_blocks.sum());
    line("records produced", &figures.produced);
    line("records aborted", &figures.aborted);
    line("rows acknowledged to workers", &tally.rows_inserted.sum());
    line("count()", &figures.rows);
    line("uniqExact(_partition, _offset)", &figures.places);
    line("rows of aborted records", &figures.aborted_rows);
    line("checksum", &figures.checksum);
    line("checksum of what was produced", &figures.produced_checksum);
    line("the view's records", &figures.view.0);
    line("the view's checksum", &figures.view.1);
    line("seconds", &figures.took.as_secs());
    line("rows/s", &(figures.rows / figures.took.as_secs().max(1)));
    for (reason, message) in &tally.holds {
        let _ = writeln!(text, "  seen on the way: {reason}: {message}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::tally::Lives;

    fn lives(value: u64) -> Lives {
        let mut lives = Lives::default();
        lives.note(1, value);
        lives
    }

    fn good_tally() -> Tally {
        let mut tally = Tally {
            replayed: lives(3),
            verified: lives(1),
            duplicated_blocks: lives(2),
            ..Tally::default()
        };
        for kind in Kill::ALL {
            tally.killed(kind, 1);
        }
        tally
    }

    fn good_figures() -> Figures {
        Figures {
            produced: 10,
            aborted: 2,
            produced_checksum: 77,
            rows: 10,
            places: 10,
            ids: 10,
            checksum: 77,
            distinct_checksum: 77,
            view: (10, 77),
            ..Figures::default()
        }
    }

    fn faults(figures: &Figures, tally: &Tally) -> Vec<String> {
        judge(Guarantee::ExactlyOnce, figures, tally)
    }

    #[test]
    fn a_good_run_has_no_faults() {
        assert_eq!(faults(&good_figures(), &good_tally()), Vec::<String>::new());
    }

    #[test]
    fn each_figure_that_is_wrong_is_told_by_itself() {
        let good = good_figures;
        let wrong = [
            Figures { rows: 11, ..good() },
            Figures {
                places: 9,
                ..good()
            },
            Figures { ids: 9, ..good() },
            Figures {
                aborted_rows: 1,
                ..good()
            },
            Figures {
                aborted: 0,
                ..good()
            },
            Figures {
                checksum: 78,
                ..good()
            },
            Figures {
                distinct_checksum: 78,
                ..good()
            },
            Figures {
                view: (11, 77),
                ..good()
            },
            Figures {
                rejected: 1,
                ..good()
            },
        ];
        for figures in wrong {
            assert_eq!(faults(&figures, &good_tally()).len(), 1, "{figures:?}");
        }
    }

    #[test]
    fn a_chaos_that_did_not_do_its_work_fails_though_every_row_is_right() {
        let good = good_tally;
        let weak = [
            Tally {
                replayed: lives(0),
                ..good()
            },
            Tally {
                verified: lives(0),
                ..good()
            },
            Tally {
                duplicated_blocks: lives(0),
                ..good()
            },
            Tally {
                kills_on_declared: 2,
                ..good()
            },
            Tally {
                odd_ends: vec!["w exited with 1".into()],
                ..good()
            },
            Tally {
                went_back: vec!["0: 5 to 4".into()],
                ..good()
            },
        ];
        for tally in weak {
            assert_eq!(faults(&good_figures(), &tally).len(), 1, "{tally:?}");
        }
        let mut one_kind_less = good();
        one_kind_less.kills.remove(&Kill::Kafka);
        assert_eq!(faults(&good_figures(), &one_kind_less).len(), 1);
    }

    #[test]
    fn a_control_run_must_show_copies_and_lose_nothing() {
        let control = |rows, places| {
            let figures = Figures {
                rows,
                places,
                checksum: 5,
                view: (1, 1),
                ..good_figures()
            };
            judge(Guarantee::AtLeastOnce, &figures, &good_tally()).len()
        };
        assert_eq!(control(12, 10), 0);
        assert_eq!(control(10, 10), 1);
        assert_eq!(control(12, 9), 1);
    }
}
