//! The topic: records by offset, with the holes that compaction, transactions and retention leave.
//!
//! Must not be here: the group, rows.

use super::random::Random;

/// What stands at an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// A control record or a record of an aborted transaction: nobody sees it.
    Hole,
    /// Was a row; compaction has taken it.
    Compacted,
    /// Becomes a row.
    Row,
    /// Rejected under every mapping.
    Bad,
    /// Rejected under the first mapping, a row under the mended ones.
    Broken,
    /// Becomes a row that the server refuses.
    Poison,
}

/// One partition of the topic.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    pub(super) low: i64,
    /// How often its end was cut off.
    pub(super) version: u8,
    pub(super) records: Vec<Record>,
}

/// The topic, in its present life.
#[derive(Clone, Debug)]
pub(super) struct Topic {
    /// How many lives it has had before.
    pub(super) life: u8,
    /// Partitions when the sink first started.
    pub(super) first_partitions: usize,
    pub(super) logs: Vec<Log>,
}

/// Rows and rejects of a range, as bits counted from its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) rows: u64,
    pub(super) rejected: u64,
    pub(super) poison: u64,
}

impl Log {
    pub(super) const fn high(&self) -> i64 {
        self.records.len() as i64
    }

    pub(super) fn record(&self, offset: i64) -> Record {
        self.records
            .get(offset as usize)
            .copied()
            .unwrap_or(Record::Hole)
    }

    /// What a worker with this mapping makes of `[start, end)` when it reads from `from` on.
    pub(super) fn read(&self, start: i64, end: i64, from: i64, mapping: usize) -> Block {
        let mut block = Block::default();
        for offset in from.max(start)..end {
            let bit = 1_u64 << (offset - start);
            match self.record(offset) {
                Record::Hole | Record::Compacted => {}
                Record::Row => block.rows |= bit,
                Record::Broken if mapping > 0 => block.rows |= bit,
                Record::Bad | Record::Broken => block.rejected |= bit,
                Record::Poison => {
                    block.rows |= bit;
                    block.poison |= bit;
                }
            }
        }
        block
    }

    pub(super) fn append(&mut self, random: &mut Random, count: u64, faulty: bool) {
        for _ in 0..count {
            let record = match random.below(100) {
                0..10 => Record::Hole,
                10..13 if faulty => Record::Bad,
                13..18 if faulty => Record::Broken,
                18..21 if faulty => Record::Poison,
                _ => Record::Row,
            };
            self.records.push(record);
        }
    }
}

/// The table partition of a record: one more than this mapping's predecessor puts some of them elsewhere.
pub(super) const fn table_partition(offset: i64, mapping: usize, table_partitions: u8) -> u8 {
    ((offset + (mapping as i64) * (offset / 2)) % table_partitions as i64) as u8
}

/// Bits of a block that belong to one table partition.
pub(super) fn rows_of(rows: u64, start: i64, mapping: usize, partition: u8, partitions: u8) -> u64 {
    let mut left = rows;
    let mut own = 0;
    while left != 0 {
        let bit = left.trailing_zeros();
        left &= left - 1;
        if table_partition(start + i64::from(bit), mapping, partitions) == partition {
            own |= 1 << bit;
        }
    }
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_what_can_be_read_of_its_range() {
        let log = Log {
            low: 0,
            version: 0,
            records: vec![
                Record::Row,
                Record::Hole,
                Record::Broken,
                Record::Poison,
                Record::Row,
            ],
        };
        let block = log.read(1, 4, 1, 0);
        assert_eq!(
            (block.rows, block.rejected, block.poison),
            (0b100, 0b010, 0b100)
        );
        assert_eq!(log.read(1, 4, 1, 1).rows, 0b110);
        assert_eq!(log.read(0, 4, 3, 0).rows, 0b1000);
    }

    #[test]
    fn table_partitions_share_out_all_rows() {
        let all = (0..3).map(|partition| rows_of(0b1_1111, 10, 1, partition, 3));
        assert_eq!(all.sum::<u64>(), 0b1_1111);
    }
}
