//! Growing columns whose buffers are already what goes on the wire.
//!
//! A column appends one value at a time, can be taken back to its last mark (one value), and can copy rows of its
//! like. Must not be here: reading records, the Native block around the columns, anything about tables.

pub(crate) mod dictionary;
mod pick;
pub(crate) mod text;

use std::ops::Range;

use dictionary::Dictionary;
use text::TextColumn;

/// One column of any nesting.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Column {
    /// Values of one width, little-endian, back to back.
    Fixed(FixedColumn),
    /// Strings with their lengths before them.
    Text(TextColumn),
    /// `LowCardinality`.
    Dictionary(Box<Dictionary>),
    /// Null map and values.
    Nullable(Box<NullableColumn>),
    /// `Array`, and `Map` as an array of pairs.
    Array(Box<ArrayColumn>),
    /// One column per element.
    Tuple(Vec<Column>),
}

/// Values of one width.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FixedColumn {
    pub(crate) width: usize,
    pub(crate) data: Vec<u8>,
    mark: usize,
}

/// A null map (1 = NULL) and a column of the same length.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NullableColumn {
    pub(crate) nulls: FixedColumn,
    pub(crate) inner: Column,
}

/// Ends of the rows in `inner`, counted in elements.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ArrayColumn {
    pub(crate) offsets: FixedColumn,
    pub(crate) inner: Column,
}

impl FixedColumn {
    pub(crate) fn new(width: usize) -> Self {
        Self {
            width,
            data: Vec::new(),
            mark: 0,
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.data.len() / self.width
    }

    pub(crate) fn push_zero(&mut self) {
        self.data.resize(self.data.len() + self.width, 0);
    }

    #[inline]
    pub(crate) fn mark(&mut self) {
        self.mark = self.data.len();
    }

    /// Appends the low bytes of a number, for columns of at most 8 bytes.
    #[inline]
    pub(crate) fn push_low_bytes(&mut self, value: u64) {
        let bytes = value.to_le_bytes();
        match self.width {
            1 => self.data.push(bytes[0]),
            2 => self.data.extend_from_slice(&bytes[..2]),
            4 => self.data.extend_from_slice(&bytes[..4]),
            _ => self.data.extend_from_slice(&bytes),
        }
    }

    /// The bytes of some rows.
    pub(crate) fn bytes_of(&self, rows: Range<usize>) -> &[u8] {
        self.data
            .get(rows.start * self.width..rows.end * self.width)
            .unwrap_or_default()
    }

    fn append(&mut self, other: &Self, rows: Range<usize>) {
        self.data.extend_from_slice(other.bytes_of(rows));
    }

    fn fresh(&self, most_bytes: usize) -> Self {
        Self {
            width: self.width,
            data: Vec::with_capacity(self.data.len().min(most_bytes)),
            mark: 0,
        }
    }
}

impl ArrayColumn {
    /// Closes the row: its elements are those appended since the last one.
    pub(crate) fn end_row(&mut self) {
        let end = self.inner.rows() as u64;
        self.offsets.data.extend_from_slice(&end.to_le_bytes());
    }

    /// Where row `row` ends, in elements.
    fn end_of(&self, row: usize) -> usize {
        let bytes = self.offsets.bytes_of(row..row + 1);
        bytes.first_chunk().map_or(0, |end| {
            usize::try_from(u64::from_le_bytes(*end)).unwrap_or(usize::MAX)
        })
    }

    fn start_of(&self, row: usize) -> usize {
        row.checked_sub(1).map_or(0, |before| self.end_of(before))
    }

    fn append(&mut self, other: &Self, rows: Range<usize>) {
        let first = other.start_of(rows.start);
        let last = other.start_of(rows.end);
        let shift = self.inner.rows();
        for row in rows {
            let end = (shift + other.end_of(row) - first) as u64;
            self.offsets.data.extend_from_slice(&end.to_le_bytes());
        }
        self.inner.append(&other.inner, first..last);
    }
}

impl Column {
    /// A column of values that are `width` bytes each.
    pub(crate) fn fixed(width: usize) -> Self {
        Self::Fixed(FixedColumn::new(width))
    }

    /// A column that may hold NULL.
    pub(crate) fn nullable(inner: Self) -> Self {
        Self::Nullable(Box::new(NullableColumn {
            nulls: FixedColumn::new(1),
            inner,
        }))
    }

    /// A column of arrays.
    pub(crate) fn array(inner: Self) -> Self {
        Self::Array(Box::new(ArrayColumn {
            offsets: FixedColumn::new(8),
            inner,
        }))
    }

    /// Values in the column.
    pub(crate) fn rows(&self) -> usize {
        match self {
            Self::Fixed(column) => column.rows(),
            Self::Text(column) => column.rows(),
            Self::Dictionary(column) => column.rows(),
            Self::Nullable(column) => column.nulls.rows(),
            Self::Array(column) => column.offsets.rows(),
            Self::Tuple(elements) => elements.first().map_or(0, Self::rows),
        }
    }

    /// Bytes of memory reserved, free space included.
    pub(crate) fn allocated_bytes(&self) -> usize {
        match self {
            Self::Fixed(column) => column.data.capacity(),
            Self::Text(column) => column.data.capacity(),
            Self::Dictionary(column) => column.allocated_bytes(),
            Self::Nullable(column) => column.nulls.data.capacity() + column.inner.allocated_bytes(),
            Self::Array(column) => column.offsets.data.capacity() + column.inner.allocated_bytes(),
            Self::Tuple(elements) => elements.iter().map(Self::allocated_bytes).sum(),
        }
    }

    /// Remembers this state for [`Self::rollback`] and [`Self::growth`].
    #[inline]
    pub(crate) fn mark(&mut self) {
        match self {
            Self::Fixed(column) => column.mark(),
            Self::Text(column) => column.mark(),
            Self::Dictionary(column) => column.mark(),
            Self::Nullable(column) => {
                column.nulls.mark();
                column.inner.mark();
            }
            Self::Array(column) => {
                column.offsets.mark();
                column.inner.mark();
            }
            Self::Tuple(elements) => elements.iter_mut().for_each(Self::mark),
        }
    }

    /// Back to the state at the last mark.
    pub(crate) fn rollback(&mut self) {
        match self {
            Self::Fixed(column) => column.data.truncate(column.mark),
            Self::Text(column) => column.rollback(),
            Self::Dictionary(column) => column.rollback(),
            Self::Nullable(column) => {
                column.nulls.data.truncate(column.nulls.mark);
                column.inner.rollback();
            }
            Self::Array(column) => {
                column.offsets.data.truncate(column.offsets.mark);
                column.inner.rollback();
            }
            Self::Tuple(elements) => elements.iter_mut().for_each(Self::rollback),
        }
    }

    /// Bytes appended since the last mark, or since the column was made.
    #[inline]
    pub(crate) fn growth(&self) -> usize {
        match self {
            Self::Fixed(column) => column.data.len() - column.mark,
            Self::Text(column) => column.growth(),
            Self::Dictionary(column) => column.growth(),
            Self::Nullable(column) => {
                column.nulls.data.len() - column.nulls.mark + column.inner.growth()
            }
            Self::Array(column) => {
                column.offsets.data.len() - column.offsets.mark + column.inner.growth()
            }
            Self::Tuple(elements) => elements.iter().map(Self::growth).sum(),
        }
    }

    /// Appends rows of a column of the same type.
    pub(crate) fn append(&mut self, other: &Self, rows: Range<usize>) {
        match (self, other) {
            (Self::Fixed(to), Self::Fixed(from)) => to.append(from, rows),
            (Self::Text(to), Self::Text(from)) => to.append(from, rows),
            (Self::Dictionary(to), Self::Dictionary(from)) => to.append(from, rows),
            (Self::Nullable(to), Self::Nullable(from)) => {
                to.nulls.append(&from.nulls, rows.clone());
                to.inner.append(&from.inner, rows);
            }
            (Self::Array(to), Self::Array(from)) => to.append(from, rows),
            (Self::Tuple(to), Self::Tuple(from)) => {
                to.iter_mut()
                    .zip(from)
                    .for_each(|(to, from)| to.append(from, rows.clone()));
            }
            _ => debug_assert!(false, "columns of one schema have one shape"),
        }
    }

    /// An empty column of the same shape, with room for as much as this one holds, at most `most_bytes` a buffer.
    pub(crate) fn fresh(&self, most_bytes: usize) -> Self {
        match self {
            Self::Fixed(column) => Self::Fixed(column.fresh(most_bytes)),
            Self::Text(column) => Self::Text(column.fresh(most_bytes)),
            Self::Dictionary(column) => Self::Dictionary(Box::new(column.fresh(most_bytes))),
            Self::Nullable(column) => Self::Nullable(Box::new(NullableColumn {
                nulls: column.nulls.fresh(most_bytes),
                inner: column.inner.fresh(most_bytes),
            })),
            Self::Array(column) => Self::Array(Box::new(ArrayColumn {
                offsets: column.offsets.fresh(most_bytes),
                inner: column.inner.fresh(most_bytes),
            })),
            Self::Tuple(elements) => Self::Tuple(
                elements
                    .iter()
                    .map(|element| element.fresh(most_bytes))
                    .collect(),
            ),
        }
    }

    /// Some rows as a column of their own.
    pub(crate) fn slice(&self, rows: Range<usize>) -> Self {
        let mut part = self.fresh(0);
        part.append(self, rows);
        part
    }
}
