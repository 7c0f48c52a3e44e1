//! Whether an object has a key twice, for keys that no table knows.
//!
//! Known keys are told by their number alone; this is for the rest (unknown fields, keys of a Map). Exact: a quick
//! filter says "surely new" for nearly all, the others are compared. Must not be here: what a key leads to.

use super::fault::Fault;
use crate::column::dictionary::hash_of;

/// Keys seen so far, for all objects that are open, the innermost last.
#[derive(Debug, Default)]
pub(crate) struct KeySet {
    text: Vec<u8>,
    ends: Vec<usize>,
}

/// The keys of one open object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    first: usize,
    filter: [u64; 4],
}

impl KeySet {
    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }

    /// Starts an object.
    pub(crate) fn open(&self) -> Frame {
        Frame { first: self.ends.len(), filter: [0; 4] }
    }

    /// Adds a key of the innermost object.
    #[inline]
    pub(crate) fn add(&mut self, frame: &mut Frame, key: &[u8]) -> Result<(), Fault> {
        let hash = hash_of(key);
        let word = &mut frame.filter[hash as usize & 3];
        let bit = 1 << (hash >> 26);
        if *word & bit != 0 && self.holds(frame.first, key) {
            return Err(Fault::DuplicateKey);
        }
        *word |= bit;
        self.text.extend_from_slice(key);
        self.ends.push(self.text.len());
        Ok(())
    }

    fn holds(&self, first: usize, key: &[u8]) -> bool {
        (first..self.ends.len()).any(|index| self.key(index) == key)
    }

    fn key(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.text.get(start..self.ends[index]).unwrap_or_default()
    }

    /// How many keys are held; see [`Self::back_to`].
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.ends.len()
    }

    /// Forgets keys that came after there were so many.
    pub(crate) fn back_to(&mut self, count: usize) {
        self.text.truncate(count.checked_sub(1).map_or(0, |before| self.ends[before]));
        self.ends.truncate(count);
    }

    /// Ends the innermost object.
    pub(crate) fn close(&mut self, frame: Frame) {
        self.back_to(frame.first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_duplicate_only_within_its_own_object() {
        let mut keys = KeySet::default();
        let mut outer = keys.open();
        assert_eq!(keys.add(&mut outer, b"a"), Ok(()));
        let mut inner = keys.open();
        assert_eq!(keys.add(&mut inner, b"a"), Ok(()));
        assert_eq!(keys.add(&mut inner, b"a"), Err(Fault::DuplicateKey));
        keys.close(inner);
        assert_eq!(keys.add(&mut outer, b"b"), Ok(()));
        assert_eq!(keys.add(&mut outer, b"a"), Err(Fault::DuplicateKey));
    }

    #[test]
    fn a_thousand_keys_are_told_apart() {
        let mut keys = KeySet::default();
        let mut frame = keys.open();
        (0..1000).for_each(|n| assert_eq!(keys.add(&mut frame, format!("key {n}").as_bytes()), Ok(())));
        assert_eq!(keys.add(&mut frame, b"key 999"), Err(Fault::DuplicateKey));
    }
}
