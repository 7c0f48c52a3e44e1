//! Whether an object has a key twice, for keys that no table knows.
//!
//! Known keys are told by their number alone; this is for the rest (unknown fields, keys of a Map). Exact: a quick
//! filter says "surely new" for nearly all, the others are compared. Must not be here: what a key leads to.

use super::fault::Fault;
use crate::column::dictionary::{home_of, is_short_word, word_of};

/// Keys seen so far, for all objects that are open, the innermost last.
#[derive(Debug, Default)]
pub(crate) struct KeySet {
    /// Short keys wholly, longer ones by length and hash.
    words: Vec<u128>,
    /// The text of the longer ones.
    text: Vec<u8>,
    ends: Vec<usize>,
}

/// How many keys there were at some moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count {
    words: usize,
    texts: usize,
}

/// The keys of one open object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    first: Count,
    filter: [u64; 4],
}

impl KeySet {
    /// How many keys are held; see [`Self::back_to`].
    #[inline]
    pub(crate) fn count(&self) -> Count {
        Count {
            words: self.words.len(),
            texts: self.ends.len(),
        }
    }

    /// Forgets keys that came after there were so many.
    #[inline]
    pub(crate) fn back_to(&mut self, count: Count) {
        self.words.truncate(count.words);
        self.ends.truncate(count.texts);
        self.text.truncate(self.ends.last().copied().unwrap_or(0));
    }

    /// Starts an object.
    #[inline]
    pub(crate) fn open(&self) -> Frame {
        Frame {
            first: self.count(),
            filter: [0; 4],
        }
    }

    /// Ends the innermost object.
    #[inline]
    pub(crate) fn close(&mut self, frame: &Frame) {
        self.back_to(frame.first);
    }

    /// Adds a key of the innermost object.
    pub(crate) fn add(&mut self, frame: &mut Frame, key: &[u8]) -> Result<(), Fault> {
        let word = word_of(key);
        if is_short_word(word) {
            return if self.add_short(frame, word) {
                Ok(())
            } else {
                Err(Fault::DuplicateKey)
            };
        }
        if (frame.first.texts..self.ends.len()).any(|index| self.key(index) == key) {
            return Err(Fault::DuplicateKey);
        }
        self.text.extend_from_slice(key);
        self.ends.push(self.text.len());
        Ok(())
    }

    /// Adds a short key; false, and nothing is added, where the object has it already.
    #[inline]
    pub(crate) fn add_short(&mut self, frame: &mut Frame, word: u128) -> bool {
        let home = home_of(word);
        let filter = &mut frame.filter[home & 3];
        let bit = 1 << (home >> 2 & 63);
        if *filter & bit != 0
            && self
                .words
                .get(frame.first.words..)
                .unwrap_or_default()
                .contains(&word)
        {
            return false;
        }
        *filter |= bit;
        self.words.push(word);
        true
    }

    fn key(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.text.get(start..self.ends[index]).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_duplicate_only_within_its_own_object() {
        for [a, b] in [
            ["a", "b"],
            [
                "a key that is longer than a word",
                "another key that is longer than a word",
            ],
        ] {
            let (a, b) = (a.as_bytes(), b.as_bytes());
            let mut keys = KeySet::default();
            let mut outer = keys.open();
            assert_eq!(keys.add(&mut outer, a), Ok(()));
            let mut inner = keys.open();
            assert_eq!(keys.add(&mut inner, a), Ok(()));
            assert_eq!(keys.add(&mut inner, a), Err(Fault::DuplicateKey));
            keys.close(&inner);
            assert_eq!(keys.add(&mut outer, b), Ok(()));
            assert_eq!(keys.add(&mut outer, a), Err(Fault::DuplicateKey));
        }
    }

    #[test]
    fn a_thousand_keys_are_told_apart() {
        for padding in [0, 20] {
            let key = |n: usize| format!("key {n}{}", "x".repeat(padding));
            let mut keys = KeySet::default();
            let mut frame = keys.open();
            (0..1000).for_each(|n| assert_eq!(keys.add(&mut frame, key(n).as_bytes()), Ok(())));
            assert_eq!(
                keys.add(&mut frame, key(999).as_bytes()),
                Err(Fault::DuplicateKey)
            );
        }
    }
}
