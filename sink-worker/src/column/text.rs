//! A column of strings, each with its length before it, as the Native format has them.
//!
//! Must not be here: what makes a string valid.

use std::ops::Range;

/// What [`TextColumn::push_short`] copies at once.
const SHORT_ITEM: usize = 17;

/// Strings as one buffer of `length, bytes`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TextColumn {
    pub(crate) data: Vec<u8>,
    rows: usize,
    mark: (usize, usize),
}

impl TextColumn {
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    #[inline]
    pub(crate) fn push(&mut self, text: &[u8]) {
        write_text(&mut self.data, text);
        self.rows += 1;
    }

    /// Appends the first `length` (at most 15) bytes of a little-endian word: copying all 16 and cutting is quicker than copying just as many.
    #[inline]
    pub(crate) fn push_short(&mut self, padded: u128, length: usize) {
        let before = self.data.len();
        let mut item = [low_seven(length); SHORT_ITEM];
        item[1..].copy_from_slice(&padded.to_le_bytes());
        self.data.extend_from_slice(&item);
        self.data.truncate(before + 1 + length);
        self.rows += 1;
    }

    #[inline]
    pub(crate) fn mark(&mut self) {
        self.mark = (self.data.len(), self.rows);
    }

    pub(crate) fn rollback(&mut self) {
        self.data.truncate(self.mark.0);
        self.rows = self.mark.1;
    }

    #[inline]
    pub(crate) fn growth(&self) -> usize {
        self.data.len() - self.mark.0
    }

    /// Where a row starts; this walks the lengths from the first row on.
    fn start_of(&self, row: usize) -> usize {
        (0..row).fold(0, |at, _| {
            let (length, next) = read_length(&self.data, at);
            next + length
        })
    }

    /// The strings in order, without their lengths.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &[u8]> {
        let mut at = 0;
        (0..self.rows).map(move |_| {
            let (length, start) = read_length(&self.data, at);
            at = start + length;
            self.data.get(start..at).unwrap_or_default()
        })
    }

    pub(crate) fn append(&mut self, other: &Self, rows: Range<usize>) {
        let start = other.start_of(rows.start);
        let end = if rows.end == other.rows {
            other.data.len()
        } else {
            other.start_of(rows.end)
        };
        self.data
            .extend_from_slice(other.data.get(start..end).unwrap_or_default());
        self.rows += rows.len();
    }

    pub(crate) fn fresh(&self, most_bytes: usize) -> Self {
        let room = if most_bytes == 0 {
            0
        } else {
            self.data.len().min(most_bytes) + SHORT_ITEM
        };
        Self {
            data: Vec::with_capacity(room),
            ..Self::default()
        }
    }
}

/// Appends a length (LEB128) and the bytes.
#[inline]
pub(crate) fn write_text(out: &mut Vec<u8>, text: &[u8]) {
    write_length(out, text.len());
    out.extend_from_slice(text);
}

/// Appends an unsigned LEB128 number.
#[inline]
pub(crate) fn write_length(out: &mut Vec<u8>, length: usize) {
    let mut rest = length;
    while rest >= 0x80 {
        out.push(low_seven(rest) | 0x80);
        rest >>= 7;
    }
    out.push(low_seven(rest));
}

#[inline]
fn low_seven(value: usize) -> u8 {
    value.to_le_bytes()[0] & 0x7f
}

/// Reads a LEB128 number that this module wrote; answers it and the position after it.
fn read_length(data: &[u8], mut at: usize) -> (usize, usize) {
    let (mut value, mut shift) = (0, 0);
    while let Some(&byte) = data.get(at) {
        at += 1;
        value |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
        shift += 7;
    }
    (value, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_every_size_are_read_back() {
        for length in [0, 1, 127, 128, 16_383, 16_384, 5_000_000_000] {
            let mut out = vec![9];
            write_length(&mut out, length);
            assert_eq!(read_length(&out, 1), (length, out.len()));
        }
    }

    #[test]
    fn a_slice_holds_exactly_its_rows() {
        let mut all = TextColumn::default();
        for text in ["a", "", "ccc", "dd"] {
            all.push(text.as_bytes());
        }
        let mut part = TextColumn::default();
        part.append(&all, 1..3);
        assert_eq!(
            (part.rows(), part.data.as_slice()),
            (2, b"\x00\x03ccc".as_slice())
        );
    }
}
