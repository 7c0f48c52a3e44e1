//! `LowCardinality`: a dictionary that is built as rows come, and one index per row.
//!
//! Entries keep the order of their first row, so the same rows always make the same bytes. Must not be here: what
//! makes a value valid, the bytes around dictionary and indexes on the wire.

use std::ops::Range;

use super::text::write_text;

pub(crate) use words::{home_of, is_short_word, short_word, word_of};

use words::SHORT;

mod words;

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
    /// Open addressing over the entries, a power of two.
    slots: Vec<Slot>,
    /// The slot that was found last.
    last: Slot,
    mark: Mark,
    /// Where a value that is not text is put together before it is looked up.
    pub(crate) scratch: Vec<u8>,
}

/// An entry and what tells it from others.
#[derive(Clone, Copy, Debug)]
struct Slot {
    word: u128,
    entry: u32,
}

const NO_SLOT: Slot = Slot {
    word: 0,
    entry: EMPTY,
};

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
            last: NO_SLOT,
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

    /// True where the values are strings.
    #[inline]
    pub(crate) fn is_text(&self) -> bool {
        self.shape == EntryShape::Text
    }

    pub(crate) fn rows(&self) -> usize {
        self.indexes.len()
    }

    /// How many entries the dictionary has.
    pub(crate) fn entry_count(&self) -> usize {
        self.spans.len()
    }

    pub(crate) fn allocated_bytes(&self) -> usize {
        self.entries.capacity()
            + size_of::<u32>() * self.indexes.capacity()
            + size_of::<Range<usize>>() * self.spans.capacity()
            + size_of::<Slot>() * self.slots.capacity()
    }

    #[inline]
    pub(crate) fn mark(&mut self) {
        self.mark = Mark {
            rows: self.indexes.len(),
            entries: self.spans.len(),
            bytes: self.entries.len(),
        };
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
        self.last = NO_SLOT;
    }

    fn forget_newest_entry(&mut self) {
        let newest = self.spans.len() - 1;
        let Some(span) = self.spans.pop() else {
            return;
        };
        let mut at = home_of(word_of(self.entries.get(span).unwrap_or_default()));
        let mask = self.slots.len() - 1;
        while self.slots[at & mask].entry as usize != newest {
            at += 1;
        }
        self.slots[at & mask] = NO_SLOT;
    }

    /// Appends NULL.
    pub(crate) fn push_null(&mut self) {
        self.indexes.push(0);
    }

    /// Appends a value.
    pub(crate) fn push(&mut self, value: &[u8]) {
        let word = word_of(value);
        let entry = self.find_or_insert(word, value);
        self.indexes.push(entry);
    }

    /// Appends the first `length` (at most 15) bytes of a little-endian word; answers by how many bytes it grew.
    #[inline]
    pub(crate) fn push_short(&mut self, padded: u128, length: usize) -> usize {
        let word = short_word(padded, length);
        if word == self.last.word && self.last.entry != EMPTY {
            self.indexes.push(self.last.entry);
            return 4;
        }
        let entry =
            self.find_or_insert(word, padded.to_le_bytes().get(..length).unwrap_or_default());
        self.last = Slot { word, entry };
        self.indexes.push(entry);
        self.growth()
    }

    /// Appends a value that is mostly the one of the row before.
    #[inline]
    pub(crate) fn push_repeated(&mut self, value: &[u8]) {
        if self.last.entry != EMPTY && self.value_of(self.last.entry) == value {
            self.indexes.push(self.last.entry);
            return;
        }
        let word = word_of(value);
        self.last = Slot {
            word,
            entry: self.find_or_insert(word, value),
        };
        self.indexes.push(self.last.entry);
    }

    /// Appends the value in `scratch`.
    pub(crate) fn push_scratch(&mut self) {
        let value = std::mem::take(&mut self.scratch);
        self.push(&value);
        self.scratch = value;
    }

    /// The value of a row; `None` for NULL.
    pub(crate) fn value_at(&self, row: usize) -> Option<&[u8]> {
        let index = self.indexes.get(row).copied().unwrap_or(0);
        (index != 0 || !self.nullable).then(|| self.value_of(index))
    }

    fn value_of(&self, entry: u32) -> &[u8] {
        let span = self.spans.get(entry as usize).cloned().unwrap_or_default();
        self.entries.get(span).unwrap_or_default()
    }

    #[inline]
    fn find_or_insert(&mut self, word: u128, value: &[u8]) -> u32 {
        let mut at = home_of(word);
        loop {
            let mask = self.slots.len().wrapping_sub(1);
            let slot = self.slots.get(at & mask).copied().unwrap_or(NO_SLOT);
            if slot.entry == EMPTY {
                return self.insert(word, value);
            }
            if slot.word == word && (value.len() <= SHORT || self.value_of(slot.entry) == value) {
                return slot.entry;
            }
            at += 1;
        }
    }

    #[cold]
    fn insert(&mut self, word: u128, value: &[u8]) -> u32 {
        if (self.spans.len() + 1) * 2 > self.slots.len() {
            self.grow();
        }
        let entry = u32::try_from(self.spans.len()).unwrap_or(EMPTY - 1);
        match self.shape {
            EntryShape::Text => write_text(&mut self.entries, value),
            EntryShape::Fixed(_) => self.entries.extend_from_slice(value),
        }
        self.spans
            .push(self.entries.len() - value.len()..self.entries.len());
        self.settle(Slot { word, entry });
        entry
    }

    /// Puts an entry into the first free slot of its probe sequence.
    fn settle(&mut self, slot: Slot) {
        let mask = self.slots.len() - 1;
        let mut at = home_of(slot.word);
        while self.slots[at & mask].entry != EMPTY {
            at += 1;
        }
        self.slots[at & mask] = slot;
    }

    fn grow(&mut self) {
        let wanted = (self.slots.len() * 2).max(FEWEST_SLOTS);
        self.slots.clear();
        self.slots.resize(wanted, NO_SLOT);
        for entry in u32::from(self.nullable)..u32::try_from(self.spans.len()).unwrap_or(EMPTY - 1)
        {
            let word = word_of(self.value_of(entry));
            self.settle(Slot { word, entry });
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
        fresh
            .indexes
            .reserve(self.indexes.len().min(most_bytes / size_of::<u32>()));
        fresh.scratch.reserve(self.scratch.capacity());
        if self.slots.len() * size_of::<Slot>() <= most_bytes {
            fresh.slots.resize(self.slots.len(), NO_SLOT);
            fresh.spans.reserve(self.spans.len());
            fresh.entries.reserve(self.entries.len());
        }
        fresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&str]) -> Dictionary {
        let mut dictionary = Dictionary::new(EntryShape::Text, false);
        for value in values {
            dictionary.push(value.as_bytes());
        }
        dictionary
    }

    #[test]
    fn equal_values_share_one_entry_in_the_order_of_their_first_row() {
        let dictionary = of(&[
            "b",
            "a",
            "b",
            "",
            "a",
            "a value longer than a word",
            "b",
            "a value longer than a word",
        ]);
        assert_eq!(dictionary.indexes, [0, 1, 0, 2, 1, 3, 0, 3]);
        assert_eq!(
            dictionary.entries,
            b"\x01b\x01a\x00\x1aa value longer than a word"
        );
    }

    #[test]
    fn values_that_differ_only_in_length_or_in_zero_bytes_are_told_apart() {
        let zeros = "\0".repeat(20);
        let values: Vec<&str> = (0..=20).map(|length| &zeros[..length]).collect();
        assert_eq!(of(&values).entry_count(), 21);
    }

    #[test]
    fn a_short_push_is_the_same_as_any_other() {
        let mut dictionary = of(&["abc", ""]);
        dictionary.push_short(u128::from_le_bytes(*b"abc\"rest of this"), 3);
        dictionary.push_short(u128::from_le_bytes(*b"\"the rest of thi"), 0);
        dictionary.push_short(u128::from_le_bytes(*b"abcdefghijklmno\""), 15);
        dictionary.push_repeated(b"abcdefghijklmno");
        assert_eq!(
            dictionary,
            of(&["abc", "", "abc", "", "abcdefghijklmno", "abcdefghijklmno"])
        );
    }

    #[test]
    fn a_rolled_back_entry_is_gone_and_the_others_are_still_found() {
        let mut dictionary = of(&[]);
        for round in 0..200 {
            dictionary.push(format!("kept {round}").as_bytes());
            let before = dictionary.clone();
            dictionary.mark();
            (0..7)
                .for_each(|item| dictionary.push(format!("taken back {round} {item}").as_bytes()));
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
