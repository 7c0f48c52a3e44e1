//! What a decoder keeps between values and records: buffers, memories, the mode it reads in.
//!
//! Must not be here: decisions about values.

use super::keyset::{Count, KeySet};
use super::number::Rounding;
use super::time::DateCache;
use crate::schema::Schema;
use crate::schema::keys::NOWHERE;

/// A decoder's memory; nothing in it changes what a record becomes.
#[derive(Debug)]
pub(crate) struct State {
    /// Where strings with escapes are put together.
    pub(crate) unescaped: Vec<u8>,
    pub(crate) keys: KeySet,
    pub(crate) dates: DateCache,
    /// [`Rounding::Nearest`] only while a value is read again under `onError: Clamp`.
    pub(crate) rounding: Rounding,
    pub(crate) reject_unknown: bool,
    /// Values of this record that were replaced under `onError`.
    pub(crate) fallbacks: u32,
    /// Bytes that this record added to the columns.
    pub(crate) grown: usize,
    /// The column whose value is being read.
    pub(crate) column: Option<usize>,
    /// One bit per edge of the key tree that this record has had; the columns of such an edge are marked.
    pub(crate) seen: Vec<u64>,
    /// For each key, the one that came after it the last time.
    pub(crate) next: Vec<u32>,
}

impl State {
    pub(crate) fn new(schema: &Schema) -> Self {
        Self {
            seen: vec![0; schema.all_edges.len()],
            next: vec![NOWHERE; schema.places],
            reject_unknown: schema.reject_unknown,
            ..Self::for_defaults()
        }
    }

    /// For reading a column's default, outside of any record.
    pub(crate) fn for_defaults() -> Self {
        Self {
            unescaped: Vec::new(),
            keys: KeySet::default(),
            dates: DateCache::default(),
            rounding: Rounding::Refuse,
            reject_unknown: true,
            fallbacks: 0,
            grown: 0,
            column: None,
            seen: Vec::new(),
            next: Vec::new(),
        }
    }

    pub(crate) fn start_record(&mut self) {
        self.seen.fill(0);
        self.keys.back_to(Count::default());
        self.fallbacks = 0;
        self.grown = 0;
        self.column = None;
        self.rounding = Rounding::Refuse;
    }

    /// Notes that an edge was met; true where it had been before.
    #[inline]
    pub(crate) fn see(&mut self, edge: usize) -> bool {
        let bit = 1 << (edge % 64);
        let word = &mut self.seen[edge / 64];
        let before = *word & bit != 0;
        *word |= bit;
        before
    }

    #[inline]
    pub(crate) fn has_seen(&self, edge: usize) -> bool {
        self.seen[edge / 64] & (1 << (edge % 64)) != 0
    }
}
