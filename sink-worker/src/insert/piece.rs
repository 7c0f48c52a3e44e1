//! Rows that travel under one token, how they are halved, and their bytes.
//!
//! Must not be here: sending.

use std::sync::Arc;

use bytes::Bytes;
use clickhouse_sink_crds::commit::Range;
use clickhouse_sink_crds::worker_config::Compression;
use tokio::task::JoinHandle;

use crate::batch::{OffsetRuns, Part};
use crate::compress::compress_body;
use crate::native::Block;

/// Rows of one partition that travel together.
#[derive(Clone, Debug)]
pub(super) struct Piece<'a> {
    pub(super) part: &'a Part,
    pub(super) range: Range,
    pub(super) block: Arc<Block>,
    offsets: Arc<OffsetRuns>,
    first_row: usize,
}

impl<'a> Piece<'a> {
    /// All rows of a part; `None` where it has none.
    pub(super) fn whole(part: &'a Part) -> Option<Self> {
        let rows = part.rows.as_ref()?;
        Some(Self {
            part,
            range: part.range.clone(),
            block: Arc::clone(&rows.block),
            offsets: Arc::new(rows.offsets.clone()),
            first_row: 0,
        })
    }

    /// Only these rows, of the same range.
    pub(super) fn pick(&self, rows: &[usize]) -> Self {
        let mut offsets = OffsetRuns::default();
        for row in rows {
            if let Some(offset) = self.offset_of(*row) {
                offsets.push(offset);
            }
        }
        Self {
            block: Arc::new(self.block.pick(rows)),
            offsets: Arc::new(offsets),
            first_row: 0,
            ..self.clone()
        }
    }

    /// First offset and the one behind the last.
    pub(super) const fn interval(&self) -> (i64, i64) {
        (self.range.start, self.range.end)
    }

    /// Offset of a row, counted from the first of the piece.
    pub(super) fn offset_of(&self, row: usize) -> Option<i64> {
        self.offsets.offset_of(self.first_row + row)
    }

    /// Both halves, split before the middle row; `None` where there is only one row.
    pub(super) fn halves(&self) -> Option<(Self, Self)> {
        let rows = self.block.rows();
        let middle = rows / 2;
        let at = self.offset_of(middle).filter(|_| middle > 0)?;
        let (mut left, mut right) = (self.clone(), self.clone());
        left.block = Arc::new(self.block.slice(0..middle));
        left.range.end = at;
        right.block = Arc::new(self.block.slice(middle..rows));
        right.range.start = at;
        right.first_row += middle;
        Some((left, right))
    }
}

/// The bytes of some blocks, being made on a thread of their own.
pub(super) struct Encoding(JoinHandle<Vec<u8>>);

impl Encoding {
    /// One Native block each.
    pub(super) fn start(pieces: &[Piece<'_>], compression: Compression) -> Self {
        let blocks: Vec<Arc<Block>> = pieces
            .iter()
            .map(|piece| Arc::clone(&piece.block))
            .collect();
        Self(tokio::task::spawn_blocking(move || {
            encode_blocks(&blocks, compression)
        }))
    }

    pub(super) async fn finish(self) -> Bytes {
        // A panic while encoding is a bug; passing it on ends the task, and the ranges are replayed by the next process.
        let body = self
            .0
            .await
            .unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        Bytes::from(body)
    }
}

fn encode_blocks(blocks: &[Arc<Block>], compression: Compression) -> Vec<u8> {
    let mut native =
        Vec::with_capacity(blocks.iter().map(|block| block.bytes()).max().unwrap_or(0) + 4096);
    let mut body = Vec::new();
    for block in blocks {
        native.clear();
        block.write_native(&mut native);
        body.extend_from_slice(&compress_body(&native, compression));
    }
    body
}
