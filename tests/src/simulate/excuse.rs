//! What a history may do that the promises do not cover: each a narrow exception, with its reason.
//!
//! Must not be here: the promises (`check.rs`).

use clickhouse_sink_worker::session::position::Start;

use super::table::{Attempt, Place};
use super::world::World;

/// Rows that may be there more than once.
///
/// A person wanted a range inserted again; a coordinator has lost the commit that declared it; `AtLeastOnce` sends
/// without declaring; or records of a topic that was made again were read before its new id was seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Excused {
    pub(super) life: u8,
    pub(super) partition: usize,
    pub(super) start: i64,
    pub(super) end: i64,
}

/// The end of a log was cut off, and with it records before the position, or of declared ranges.
///
/// The documented limit of crash point 20: an offset alone does not show that another record stands there now. Where the
/// log has grown again before anybody looked at it, what was written before the position is not read, and a token of
/// before hides what it is sent for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// Counts the rows since then.
    pub(super) load: u16,
    /// Where the log ended then.
    pub(super) at: i64,
    /// How far the position or its plan reached.
    pub(super) end: i64,
    /// Up to here there may be tokens of before: the end of the plan, and further where nothing is declared.
    pub(super) tokens: i64,
    /// Up to here nobody could see that other records are there.
    pub(super) unseen: i64,
    /// The tokens of before go on.
    pub(super) resumed: bool,
}

impl Cut {
    /// What the position that a session begins with hides. A log that still ends before the old position shows that it
    /// was cut off, but not where: what is there now is taken for what was there.
    pub(super) fn begin(&mut self, start: &Start, high: i64) {
        match start {
            Start::Resume { .. } if high >= self.end => {
                (self.unseen, self.resumed) = (self.end, true);
            }
            Start::Create { offset, .. } => self.unseen = (*offset).min(self.end),
            Start::Resume { .. } | Start::Hold { .. } => {}
        }
    }

    const fn replaced(&self, load: u16, offset: i64) -> bool {
        load == self.load && self.at <= offset && offset < self.unseen
    }

    /// True for the loads before and after it.
    const fn touches(&self, one: u16, two: u16) -> bool {
        let (low, high) = if one < two { (one, two) } else { (two, one) };
        high == self.load && low + 1 == high
    }

    /// A part may be dropped as a copy of one from before the cut where it is of the same records; where it is of others
    /// only if the tokens of before go on.
    const fn may_drop(&self, end: i64) -> bool {
        end <= self.at || (self.resumed && end <= self.tokens)
    }
}

impl World<'_> {
    pub(super) fn excuse(&mut self, life: u8, partition: usize, start: i64, end: i64) {
        self.excused.push(Excused {
            life,
            partition,
            start,
            end,
        });
    }

    pub(super) fn is_excused(&self, life: u8, partition: usize, offset: i64) -> bool {
        self.excused.iter().any(|one| {
            one.life == life
                && one.partition == partition
                && one.start <= offset
                && offset < one.end
        })
    }

    /// A log was cut off: what was brought before that counts, and what nobody can see to be another record is excused.
    pub(super) fn is_left_of_cut(&self, place: Place, offset: i64) -> bool {
        let Some(cut) = self.cuts[place.partition].filter(|cut| cut.load == place.load) else {
            return false;
        };
        let before = Place {
            load: place.load - 1,
            ..place
        };
        let same = offset < cut.at
            && (self.table.count(before, offset) > 0 || self.table.is_dead(before, offset));
        same || cut.replaced(place.load, offset)
    }

    /// A part was dropped as a copy of what another load has brought; true where that is right, or within the limit.
    pub(super) fn settle_copy(&mut self, attempt: &Attempt, of: Place, hidden: (u64, u8)) -> bool {
        let Some(cut) = &mut self.cuts[attempt.place.partition] else {
            return false;
        };
        if of.life != attempt.place.life || !cut.touches(of.load, attempt.place.load) {
            return false;
        }
        // A session of before has read what was written after the cut: the same records.
        if hidden.1 == attempt.version && attempt.version > 0 {
            self.table.count_as_brought(attempt, hidden.0);
            return true;
        }
        let may = cut.may_drop(attempt.end);
        if may && cut.resumed {
            cut.unseen = cut.unseen.max(attempt.end);
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use clickhouse_sink_crds::commit::Epoch;
    use clickhouse_sink_worker::session::position::Identity;

    use super::*;

    const CUT: Cut = Cut {
        load: 3,
        at: 10,
        end: 14,
        tokens: 14,
        unseen: 10,
        resumed: false,
    };

    fn excused(cut: Cut, load: u16) -> Vec<i64> {
        let offsets = (0..20).filter(|offset| cut.replaced(load, *offset));
        offsets.collect()
    }

    fn begun(offset: i64) -> Cut {
        let identity = Identity {
            topic_id: String::new(),
            epoch: Epoch::from_random(1, true),
            first_partitions: 1,
        };
        let start = Start::Create {
            offset,
            identity,
            gaps: Vec::new(),
        };
        let mut cut = CUT;
        cut.begin(&start, offset);
        cut
    }

    #[test]
    fn only_what_was_written_between_the_cut_and_the_look_below_the_position_is_excused() {
        assert_eq!(excused(CUT, 3), Vec::<i64>::new());
        assert_eq!(excused(begun(10), 3), Vec::<i64>::new());
        assert_eq!(excused(begun(12), 3), [10, 11]);
        assert_eq!(excused(begun(19), 3), [10, 11, 12, 13]);
        for load in [2, 4] {
            assert_eq!(excused(begun(19), load), Vec::<i64>::new());
        }
    }

    #[test]
    fn a_copy_of_the_load_before_the_cut_is_one_only_of_the_same_records() {
        let resumed = Cut {
            resumed: true,
            ..CUT
        };
        assert!(CUT.may_drop(10) && !CUT.may_drop(11));
        assert!(resumed.may_drop(14) && !resumed.may_drop(15));
        assert!(CUT.touches(2, 3) && CUT.touches(3, 2));
        assert!(!CUT.touches(1, 3) && !CUT.touches(3, 4));
    }
}
