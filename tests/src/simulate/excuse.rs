//! What a history may do that the promises do not cover: each a narrow exception, with its reason.
//!
//! Must not be here: the promises (`check.rs`).

use super::table::Place;
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

/// The end of a log was cut off, and with it records behind the position, or of declared ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// Counts the rows since then.
    pub(super) load: u16,
    /// Where the log ended then.
    pub(super) at: i64,
    /// How far the position or its plan reached.
    pub(super) end: i64,
    /// It had grown past `end` again before anybody looked: an offset alone does not show that other records are there.
    pub(super) unseen: bool,
}

impl Cut {
    /// Records before the cut are the same as before.
    const fn is_before(&self, place: Place, offset: i64) -> bool {
        place.load == self.load && offset < self.at
    }

    /// The documented limit (crash point 20): other records stand where those were that the position names.
    pub(super) const fn replaced(&self, load: u16, offset: i64) -> bool {
        self.unseen && load == self.load && self.at <= offset && offset < self.end
    }

    /// A part may be dropped as a copy of what the load before, or after, has brought of the same records; of others only
    /// within the limit.
    pub(super) const fn may_drop(&self, one: u16, two: u16, end: i64) -> bool {
        let (low, high) = if one < two { (one, two) } else { (two, one) };
        high == self.load && low + 1 == high && (end <= self.at || (self.unseen && end <= self.end))
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
        let Some(cut) = &self.cuts[place.partition] else {
            return false;
        };
        let before = || Place {
            load: place.load - 1,
            ..place
        };
        let brought = cut.is_before(place, offset)
            && (self.table.count(before(), offset) > 0 || self.table.is_dead(before(), offset));
        brought || cut.replaced(place.load, offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CUT: Cut = Cut {
        load: 3,
        at: 10,
        end: 14,
        unseen: true,
    };

    #[test]
    fn only_offsets_between_the_cut_and_the_position_are_excused_and_only_where_nobody_could_see_it()
     {
        let excused = |cut: Cut, load| {
            let offsets = (0..20).filter(|offset| cut.replaced(load, *offset));
            offsets.collect::<Vec<i64>>()
        };
        assert_eq!(excused(CUT, 3), [10, 11, 12, 13]);
        let seen = Cut {
            unseen: false,
            ..CUT
        };
        for (cut, load) in [(CUT, 2), (CUT, 4), (seen, 3)] {
            assert_eq!(excused(cut, load), Vec::<i64>::new());
        }
    }

    #[test]
    fn a_copy_of_the_load_before_the_cut_is_one_only_of_the_same_records() {
        let seen = Cut {
            unseen: false,
            ..CUT
        };
        assert!(seen.may_drop(2, 3, 10) && seen.may_drop(3, 2, 10));
        assert!(!seen.may_drop(2, 3, 11) && CUT.may_drop(2, 3, 14));
        assert!(!CUT.may_drop(2, 3, 15) && !CUT.may_drop(1, 3, 10) && !CUT.may_drop(3, 4, 10));
    }
}
