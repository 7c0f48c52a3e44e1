//! ClickHouse: rows, the deduplication window, dead letters.
//!
//! A plain MergeTree: an INSERT is atomic for each table partition, and each part takes one entry of the window. Rows
//! are counted for each load: the records that one life of a position (between two moves by somebody else) has to bring.
//! Must not be here: when an INSERT arrives (`deliver.rs`).

use super::log::rows_of;

/// Which rows: a life of the topic, a partition, a load of its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) life: u8,
    pub(super) partition: usize,
    pub(super) load: u16,
}

/// Rows and dead letters of one place.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    pub(super) place: Place,
    /// Rows by offset.
    pub(super) counts: Vec<u8>,
    /// Offsets in the dead letters.
    pub(super) dead: Vec<bool>,
}

/// An INSERT on its way.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) id: u32,
    pub(super) task: u32,
    pub(super) session: u32,
    pub(super) worker: usize,
    pub(super) process: u32,
    pub(super) place: Place,
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) rows: u64,
    pub(super) poison: u64,
    pub(super) mapping: usize,
    pub(super) token: u64,
    /// The version of the log that its records were read from.
    pub(super) version: u8,
    /// Records of a topic that was made again, sent under the identity of the one before: its id was not seen yet. The
    /// session of the new topic reads them once more.
    pub(super) stale: bool,
    /// It arrives between these two.
    pub(super) due: u64,
    pub(super) expires: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    token: u64,
    table_partition: u8,
    sequence: u64,
    place: Place,
    version: u8,
}

/// Records of Kafka that were recorded as lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct LostGap {
    pub(super) life: u8,
    pub(super) partition: usize,
    pub(super) start: i64,
    pub(super) end: i64,
    /// A person has given them up in this load; the records are still there for another one.
    pub(super) only: Option<u16>,
}

/// What landed of an attempt.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Landed {
    /// Parts written or dropped as duplicates.
    pub(super) parts: usize,
    /// Parts dropped as duplicates.
    pub(super) dropped: usize,
    /// An offset that is now there twice.
    pub(super) twice: Option<i64>,
    /// Where the rows belong of which a part was dropped as a copy, where that is not the attempt's own place.
    pub(super) swallowed: Option<Place>,
    /// Those rows, and the version of the log that they are of.
    pub(super) hidden: (u64, u8),
}

/// The server.
#[derive(Debug)]
pub(super) struct Table {
    partitions: u8,
    window: u64,
    sequence: u64,
    /// Sequence at the begin of each second with entries.
    history: Vec<(u64, u64)>,
    entries: Vec<Entry>,
    pub(super) rows: Vec<Rows>,
    pub(super) gaps: Vec<LostGap>,
    pub(super) inbox: Vec<Attempt>,
    pub(super) down_until: u64,
    /// False while a row policy hides everything.
    pub(super) visible: bool,
}

impl Table {
    pub(super) fn new(partitions: u8, window: u64) -> Self {
        Self {
            partitions,
            window,
            sequence: 0,
            history: Vec::with_capacity(32),
            entries: Vec::with_capacity(64),
            rows: Vec::with_capacity(8),
            gaps: Vec::new(),
            inbox: Vec::with_capacity(8),
            down_until: 0,
            visible: true,
        }
    }

    /// Other writers of the table use entries, too.
    pub(super) fn use_entries(&mut self, count: u64, now_s: u64) {
        if self
            .history
            .last()
            .is_none_or(|(second, _)| *second < now_s)
        {
            self.history.push((now_s, self.sequence));
        }
        self.sequence += count;
    }

    /// Entries used since the begin of a second.
    pub(super) fn used_since(&self, second: u64) -> u64 {
        let first = self.history.iter().find(|(at, _)| *at >= second);
        first.map_or(0, |(_, sequence)| self.sequence - sequence)
    }

    pub(super) fn rows_at(&mut self, place: Place) -> &mut Rows {
        let found = self.rows.iter().position(|rows| rows.place == place);
        let index = found.unwrap_or_else(|| {
            self.rows.push(Rows {
                place,
                counts: Vec::with_capacity(64),
                dead: Vec::new(),
            });
            self.rows.len() - 1
        });
        &mut self.rows[index]
    }

    fn knows(&self, token: u64, table_partition: u8) -> Option<&Entry> {
        self.entries.iter().rev().find(|entry| {
            entry.token == token
                && entry.table_partition == table_partition
                && entry.sequence + self.window > self.sequence
        })
    }

    /// True where a part with this token was dropped now.
    pub(super) fn knows_token(&self, token: u64) -> bool {
        (0..self.partitions).any(|partition| self.knows(token, partition).is_some())
    }

    /// Writes at most `most` parts of an attempt.
    pub(super) fn land(&mut self, attempt: &Attempt, most: usize, now_s: u64) -> Landed {
        let mut landed = Landed::default();
        for partition in 0..self.partitions {
            let rows = rows_of(
                attempt.rows,
                attempt.start,
                attempt.mapping,
                partition,
                self.partitions,
            );
            if rows == 0 {
                continue;
            }
            if landed.parts == most {
                break;
            }
            landed.parts += 1;
            match self.knows(attempt.token, partition) {
                Some(entry) => {
                    landed.dropped += 1;
                    let other = Some(entry.place).filter(|place| *place != attempt.place);
                    if let Some(place) = other {
                        landed.hidden = (landed.hidden.0 | rows, entry.version);
                        landed.swallowed.get_or_insert(place);
                    }
                }
                None => landed.twice = landed.twice.or(self.write(attempt, partition, rows, now_s)),
            }
        }
        landed
    }

    fn write(
        &mut self,
        attempt: &Attempt,
        table_partition: u8,
        rows: u64,
        now_s: u64,
    ) -> Option<i64> {
        self.use_entries(1, now_s);
        self.entries.push(Entry {
            token: attempt.token,
            table_partition,
            sequence: self.sequence,
            place: attempt.place,
            version: attempt.version,
        });
        let counts = &mut self.rows_at(attempt.place).counts;
        if counts.len() < attempt.end as usize {
            counts.resize(attempt.end as usize, 0);
        }
        let mut twice = None;
        for offset in offsets(rows, attempt.start) {
            let count = &mut counts[offset as usize];
            *count = count.saturating_add(1);
            if *count > 1 {
                twice = twice.or(Some(offset));
            }
        }
        twice
    }

    /// The same records are there already, brought under another load.
    pub(super) fn count_as_brought(&mut self, attempt: &Attempt, rows: u64) {
        let counts = &mut self.rows_at(attempt.place).counts;
        if counts.len() < attempt.end as usize {
            counts.resize(attempt.end as usize, 0);
        }
        for offset in offsets(rows, attempt.start) {
            counts[offset as usize] = counts[offset as usize].max(1);
        }
    }

    /// Rows that a query by topic, partition and offset finds, as bits from `start`; of any load.
    pub(super) fn find(&self, life: u8, partition: usize, start: i64, rows: u64) -> u64 {
        if !self.visible {
            return 0;
        }
        let of_log = self
            .rows
            .iter()
            .filter(|rows| rows.place.life == life && rows.place.partition == partition);
        let mut found = 0;
        for place in of_log {
            for offset in offsets(rows, start).filter(|offset| count_at(&place.counts, *offset) > 0)
            {
                found |= 1 << (offset - start);
            }
        }
        found
    }

    /// True where the same query sees rows before `start`.
    pub(super) fn sees_before(&self, life: u8, partition: usize, start: i64) -> bool {
        let mut of_log = self
            .rows
            .iter()
            .filter(|rows| rows.place.life == life && rows.place.partition == partition);
        self.visible
            && of_log.any(|rows| (0..start).any(|offset| count_at(&rows.counts, offset) > 0))
    }

    pub(super) fn add_dead(&mut self, place: Place, start: i64, bits: u64) {
        let dead = &mut self.rows_at(place).dead;
        for offset in offsets(bits, start) {
            if dead.len() <= offset as usize {
                dead.resize(offset as usize + 1, false);
            }
            dead[offset as usize] = true;
        }
    }

    /// True where all of these are in the dead letters.
    pub(super) fn has_dead(&self, place: Place, start: i64, bits: u64) -> bool {
        offsets(bits, start).all(|offset| self.is_dead(place, offset))
    }

    pub(super) fn is_dead(&self, place: Place, offset: i64) -> bool {
        self.place(place)
            .is_some_and(|rows| rows.dead.get(offset as usize).copied().unwrap_or(false))
    }

    pub(super) fn count(&self, place: Place, offset: i64) -> u8 {
        self.place(place)
            .map_or(0, |rows| count_at(&rows.counts, offset))
    }

    fn place(&self, place: Place) -> Option<&Rows> {
        self.rows.iter().find(|rows| rows.place == place)
    }

    pub(super) fn in_gap(&self, place: Place, offset: i64) -> bool {
        self.gaps.iter().any(|gap| {
            gap.life == place.life
                && gap.partition == place.partition
                && gap.only.is_none_or(|load| load == place.load)
                && gap.start <= offset
                && offset < gap.end
        })
    }
}

fn count_at(counts: &[u8], offset: i64) -> u8 {
    counts.get(offset as usize).copied().unwrap_or(0)
}

/// Offsets of the bits of a block.
pub(super) fn offsets(bits: u64, start: i64) -> impl Iterator<Item = i64> {
    let mut left = bits;
    std::iter::from_fn(move || {
        let bit = (left != 0).then(|| left.trailing_zeros())?;
        left &= left - 1;
        Some(start + i64::from(bit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = Place {
        life: 0,
        partition: 0,
        load: 0,
    };

    fn attempt(token: u64) -> Attempt {
        Attempt {
            id: 1,
            task: 1,
            session: 1,
            worker: 0,
            process: 1,
            place: PLACE,
            start: 0,
            end: 4,
            rows: 0b1111,
            poison: 0,
            mapping: 0,
            token,
            version: 0,
            stale: false,
            due: 0,
            expires: 0,
        }
    }

    #[test]
    fn the_parts_of_a_half_landed_insert_are_told_apart_by_its_token() {
        let mut table = Table::new(2, 100);
        assert_eq!(table.land(&attempt(7), 1, 10).parts, 1);
        let again = table.land(&attempt(7), 9, 10);
        assert_eq!((again.parts, again.dropped, again.twice), (2, 1, None));
        assert!((0..4).all(|offset| table.count(PLACE, offset) == 1));
        assert_eq!(table.land(&attempt(8), 9, 10).twice, Some(0));
    }

    #[test]
    fn a_token_is_forgotten_when_the_window_has_passed() {
        let mut table = Table::new(1, 10);
        table.land(&attempt(7), 9, 10);
        table.use_entries(9, 20);
        assert!(table.knows_token(7));
        assert_eq!((table.used_since(10), table.used_since(11)), (10, 9));
        table.use_entries(1, 20);
        assert!(!table.knows_token(7));
    }
}
