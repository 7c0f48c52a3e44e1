//! Rows on their way to the server: a growing builder, and the immutable block in ClickHouse's Native format.
//!
//! Must not be here: when a block is cut, compression, sending.

mod wire;

use std::ops::Range;
use std::sync::Arc;

use crate::column::Column;
use crate::decode::RecordPosition;
use crate::schema::Schema;

/// Room that a new builder reserves per buffer at most, in bytes; beyond it buffers grow by doubling.
const MOST_RESERVED_BYTES: usize = 1024 * 1024;
/// Partition, offset, timestamp and the topic's index.
const METADATA_ROW_BYTES: usize = 4 + 8 + 8 + 4;

/// Rows that are still being added to.
#[derive(Debug)]
pub struct BlockBuilder {
    schema: Arc<Schema>,
    columns: Vec<Column>,
    rows: usize,
    bytes: usize,
}

/// Rows that are complete: one Native block, names and types included.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    schema: SchemaRef,
    columns: Vec<Column>,
    rows: usize,
    bytes: usize,
}

/// Blocks are equal when their rows are; the schema is only carried along.
#[derive(Clone, Debug)]
struct SchemaRef(Arc<Schema>);

impl PartialEq for SchemaRef {
    fn eq(&self, other: &Self) -> bool {
        self.0.wire_columns().eq(other.0.wire_columns())
    }
}

impl BlockBuilder {
    /// An empty builder.
    #[must_use]
    pub fn new(schema: Arc<Schema>) -> Self {
        Self {
            columns: schema.empty_columns(),
            schema,
            rows: 0,
            bytes: 0,
        }
    }

    /// Rows so far.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of the values so far, about what the block takes before compression. Costs nothing to ask.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of memory reserved, free space included. Walks over the columns.
    #[must_use]
    pub fn allocated_bytes(&self) -> usize {
        self.columns.iter().map(Column::allocated_bytes).sum()
    }

    /// The rows as a block; the builder is empty again and keeps some of its room.
    pub fn finish(&mut self) -> Block {
        let fresh = self
            .columns
            .iter()
            .map(|column| column.fresh(MOST_RESERVED_BYTES))
            .collect();
        Block {
            schema: SchemaRef(Arc::clone(&self.schema)),
            columns: std::mem::replace(&mut self.columns, fresh),
            rows: std::mem::take(&mut self.rows),
            bytes: std::mem::take(&mut self.bytes),
        }
    }

    pub(crate) fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    #[inline]
    pub(crate) fn mapped_columns(&mut self) -> &mut [Column] {
        let mapped = self.schema.columns.len();
        self.columns.get_mut(..mapped).unwrap_or_default()
    }

    /// Completes a row whose mapped columns are filled.
    #[inline]
    pub(crate) fn end_row(&mut self, at: &RecordPosition<'_>, grown: usize) {
        self.rows += 1;
        self.bytes += grown;
        if !self.schema.metadata_columns {
            return;
        }
        self.bytes += METADATA_ROW_BYTES;
        let mapped = self.schema.columns.len();
        if let Some(
            [
                Column::Dictionary(topic),
                Column::Fixed(partition),
                Column::Fixed(offset),
                Column::Fixed(timestamp),
            ],
        ) = self.columns.get_mut(mapped..)
        {
            topic.push_repeated(at.topic.as_bytes());
            partition
                .data
                .extend_from_slice(&at.partition.to_le_bytes());
            offset.data.extend_from_slice(&at.offset.to_le_bytes());
            timestamp
                .data
                .extend_from_slice(&at.timestamp_ms.to_le_bytes());
        }
    }
}

impl Block {
    /// Rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of the values, about what the block takes before compression.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Some of the rows as a block of their own, byte for byte what decoding only those records would have made.
    #[must_use]
    pub fn slice(&self, rows: Range<usize>) -> Self {
        let end = rows.end.min(self.rows);
        let rows = rows.start.min(end)..end;
        let columns: Vec<Column> = self
            .columns
            .iter()
            .map(|column| column.slice(rows.clone()))
            .collect();
        let bytes = columns.iter().map(Column::growth).sum();
        Self {
            schema: self.schema.clone(),
            columns,
            rows: rows.len(),
            bytes,
        }
    }

    /// Some of the rows as a block of their own, in the order given, byte for byte what decoding only those records
    /// would have made; rows past the end are left out.
    #[must_use]
    pub fn pick(&self, rows: &[usize]) -> Self {
        let rows: Vec<usize> = rows
            .iter()
            .copied()
            .filter(|row| *row < self.rows)
            .collect();
        let columns: Vec<Column> = self
            .columns
            .iter()
            .map(|column| column.pick(&rows))
            .collect();
        let bytes = columns.iter().map(Column::growth).sum();
        Self {
            schema: self.schema.clone(),
            columns,
            rows: rows.len(),
            bytes,
        }
    }

    /// The records' timestamps in milliseconds, row by row; `None` without metadata columns.
    pub(crate) fn timestamps_ms(&self) -> Option<Vec<i64>> {
        let (_, column) = self
            .column("_timestamp")
            .filter(|_| self.schema.0.metadata_columns)?;
        let values = column.values()?;
        values
            .into_iter()
            .map(|value| Some(i64::from_le_bytes(*value?.first_chunk()?)))
            .collect()
    }

    /// Type and values of a column.
    pub(crate) fn column(&self, name: &str) -> Option<(&str, &Column)> {
        self.schema
            .0
            .wire_columns()
            .zip(&self.columns)
            .find_map(|((other, type_text), column)| (other == name).then_some((type_text, column)))
    }

    /// Appends the block as ClickHouse's Native format has it.
    pub fn write_native(&self, out: &mut Vec<u8>) {
        wire::write_block(self.schema.0.wire_columns(), &self.columns, self.rows, out);
    }
}
