//! `LowCardinality`: a dictionary that is built as rows come, and one index per row.
//!
//! Entries keep the order of their first row, so the same rows always make the same bytes. Must not be here: what
//! makes a value valid, the bytes around dictionary and indexes on the wire.

use std::ops::Range;

use super::text::write_text;

const EMPTY: u32 = u32::MAX;
const FEWEST_SLOTS: usize = 16;

/// Which values the entries are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryShape {
    /// Strings with their lengths.
    Text,
    /// Values of so many bytes.
    Fixed(usize),
}

/// Dictionary and indexes.
#[derive(Clone, Debug)]
pub(crate) struct Dictionary {
    shape: EntryShape,
    /// Entry 0 stands for NULL.
    pub(crate) nullable: bool,
    /// The entries as they go on the wire.
    pub(crate) entries: Vec<u8>,
    /// Where each entry's value is in `entries`, without its length.
    spans: Vec<Range<usize>>,
    /// Index of each row's value.
    pub(crate) indexes: Vec<u32>,
    /// Open addressing over the entries, a power of two; `EMPTY` or an entry with some bits of its hash.
    slots: Vec<Slot>,
    last: u32,
    mark: Mark,
    /// Where a value that is not text is put together before it is looked up.
    pub(crate) scratch: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    entry: u32,
    hash: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    rows: usize,
    entries: usize,
    bytes: usize,
}

impl PartialEq for Dictionary {
    fn eq(&self, other: &Self) -> bool {
        (self.shape, self.nullable) == (other.shape, other.nullable)
            && self.entries == other.entries
            && self.indexes == other.indexes
    }
}

impl Dictionary {
    pub(crate) fn new(shape: EntryShape, nullable: bool) -> Self {
        let mut dictionary = Self {
            shape,
            nullable,
            entries: Vec::new(),
            spans: Vec::new(),
            indexes: Vec::new(),
            slots: Vec::new(),
            last: EMPTY,
            mark: Mark::default(),
            scratch: Vec::new(),
        };
        dictionary.add_null_entry();
        dictionary.mark();
        dictionary
    }

    /// The wire wants entry 0 of a nullable dictionary to be the type's zero; it is never looked up.
    fn add_null_entry(&mut self) {
        if !self.nullable {
            return;
        }
        match self.shape {
            EntryShape::Text => self.entries.push(0),
            EntryShape::Fixed(width) => self.entries.resize(width, 0),
        }
        self.spans.push(0..0);
    }

    pub(crate) fn rows(&self) -> usize {
        self.indexes.len()
    }

    /// How many entries the dictionary has.
    pub(crate) fn entry_count(&self) -> usize {
        self.spans.len()
    }

    pub(crate) fn allocated_bytes(&self) -> usize {
        self.entries.capacity() + 4 * self.indexes.capacity() + 16 * self.spans.capacity() + 8 * self.slots.capacity()
    }

    #[inline]
    pub(crate) fn mark(&mut self) {
        self.mark = Mark { rows: self.indexes.len(), entries: self.spans.len(), bytes: self.entries.len() };
    }

    #[inline]
    pub(crate) fn growth(&self) -> usize {
        self.entries.len() - self.mark.bytes + 4 * (self.indexes.len() - self.mark.rows)
    }

    /// Back to the mark. Entries leave in the reverse of the order they came in, so no probe sequence is broken.
    pub(crate) fn rollback(&mut self) {
        self.indexes.truncate(self.mark.rows);
        while self.spans.len() > self.mark.entries {
            self.forget_newest_entry();
        }
        self.entries.truncate(self.mark.bytes);
        self.last = EMPTY;
    }

    fn forget_newest_entry(&mut self) {
        let newest = self.spans.len() - 1;
        if let Some(span) = self.spans.pop() {
            let hash = hash_of(self.entries.get(span).unwrap_or_default());
            let mut at = self.home_of(hash);
            while self.slots[at].entry as usize != newest {
                at = (at + 1) & (self.slots.len() - 1);
            }
            self.slots[at].entry = EMPTY;
        }
    }

    /// Appends NULL (or, where the dictionary has none, the entry that stands first).
    pub(crate) fn push_null(&mut self) {
        self.indexes.push(0);
    }

    /// Appends a value.
    #[inline]
    pub(crate) fn push(&mut self, value: &[u8]) {
        if self.last != EMPTY && self.value_of(self.last) == value {
            self.indexes.push(self.last);
            return;
        }
        let index = self.intern(value);
        self.last = index;
        self.indexes.push(index);
    }

    /// Appends the value in `scratch`.
    pub(crate) fn push_scratch(&mut self) {
        let value = std::mem::take(&mut self.scratch);
        self.push(&value);
        self.scratch = value;
    }

    #[inline]
    fn value_of(&self, index: u32) -> &[u8] {
        let span = self.spans.get(index as usize).cloned().unwrap_or_default();
        self.entries.get(span).unwrap_or_default()
    }

    #[inline]
    fn home_of(&self, hash: u32) -> usize {
        hash as usize & (self.slots.len() - 1)
    }

    #[inline]
    fn intern(&mut self, value: &[u8]) -> u32 {
        if self.spans.len() * 2 >= self.slots.len() {
            self.grow();
        }
        let hash = hash_of(value);
        let mut at = self.home_of(hash);
        loop {
            let slot = self.slots[at];
            if slot.entry == EMPTY {
                return self.insert(at, hash, value);
            }
            if slot.hash == hash && self.value_of(slot.entry) == value {
                return slot.entry;
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    #[cold]
    fn insert(&mut self, at: usize, hash: u32, value: &[u8]) -> u32 {
        let entry = u32::try_from(self.spans.len()).unwrap_or(EMPTY - 1);
        match self.shape {
            EntryShape::Text => write_text(&mut self.entries, value),
            EntryShape::Fixed(_) => self.entries.extend_from_slice(value),
        }
        self.spans.push(self.entries.len() - value.len()..self.entries.len());
        self.slots[at] = Slot { entry, hash };
        entry
    }

    #[cold]
    fn grow(&mut self) {
        let wanted = (self.slots.len() * 2).max(FEWEST_SLOTS);
        self.slots.clear();
        self.slots.resize(wanted, Slot { entry: EMPTY, hash: 0 });
        for entry in usize::from(self.nullable)..self.spans.len() {
            let hash = hash_of(self.entries.get(self.spans[entry].clone()).unwrap_or_default());
            let mut at = self.home_of(hash);
            while self.slots[at].entry != EMPTY {
                at = (at + 1) & (self.slots.len() - 1);
            }
            self.slots[at] = Slot { entry: u32::try_from(entry).unwrap_or(EMPTY - 1), hash };
        }
    }

    pub(crate) fn append(&mut self, other: &Self, rows: Range<usize>) {
        for &index in other.indexes.get(rows).unwrap_or_default() {
            if index == 0 && other.nullable {
                self.push_null();
            } else {
                self.push(other.value_of(index));
            }
        }
    }

    pub(crate) fn fresh(&self, most_bytes: usize) -> Self {
        let mut fresh = Self::new(self.shape, self.nullable);
        fresh.indexes.reserve(self.indexes.len().min(most_bytes / 4));
        fresh.scratch.reserve(self.scratch.capacity());
        if most_bytes > 0 && self.slots.len() <= most_bytes / 8 {
            fresh.slots.resize(self.slots.len(), Slot { entry: EMPTY, hash: 0 });
            fresh.spans.reserve(self.spans.len());
            fresh.entries.reserve(self.entries.len().min(most_bytes));
        }
        fresh
    }
}

const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// Spreads the bytes of a value over 32 bits; the same on every machine, not meant against an attacker.
#[inline]
pub(crate) fn hash_of(value: &[u8]) -> u32 {
    let mut hash = (value.len() as u64).wrapping_mul(FACTOR);
    let (words, rest) = value.as_chunks::<8>();
    for word in words {
        hash = mix(hash, u64::from_le_bytes(*word));
    }
    hash = mix(hash, tail_of(rest));
    u32::from_le_bytes((hash >> 32).to_le_bytes()[..4].try_into().unwrap_or_default())
}

#[inline]
fn mix(hash: u64, word: u64) -> u64 {
    let mixed = (hash ^ word).wrapping_mul(FACTOR);
    mixed ^ (mixed >> 29)
}

/// Fewer than eight bytes as a number.
#[inline]
fn tail_of(rest: &[u8]) -> u64 {
    if let (Some(first), Some(last)) = (rest.first_chunk::<4>(), rest.last_chunk::<4>()) {
        return u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32;
    }
    rest.iter().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&str]) -> Dictionary {
        let mut dictionary = Dictionary::new(EntryShape::Text, false);
        values.iter().for_each(|value| dictionary.push(value.as_bytes()));
        dictionary
    }

    #[test]
    fn equal_values_share_one_entry_in_the_order_of_their_first_row() {
        let dictionary = of(&["b", "a", "b", "", "a"]);
        assert_eq!(dictionary.indexes, [0, 1, 0, 2, 1]);
        assert_eq!(dictionary.entries, b"\x01b\x01a\x00");
    }

    #[test]
    fn a_rolled_back_entry_is_gone_and_the_others_are_still_found() {
        let mut dictionary = of(&[]);
        for round in 0..200 {
            dictionary.push(format!("kept {round}").as_bytes());
            let before = dictionary.clone();
            dictionary.mark();
            (0..7).for_each(|item| dictionary.push(format!("taken back {round} {item}").as_bytes()));
            dictionary.rollback();
            assert_eq!(dictionary, before);
        }
        (0..200).for_each(|round| dictionary.push(format!("kept {round}").as_bytes()));
        assert_eq!(dictionary.entry_count(), 200);
    }

    #[test]
    fn a_slice_has_only_the_entries_that_its_rows_use() {
        let mut part = of(&[]);
        part.append(&of(&["a", "b", "c", "b"]), 1..4);
        assert_eq!(part, of(&["b", "c", "b"]));
    }
}
