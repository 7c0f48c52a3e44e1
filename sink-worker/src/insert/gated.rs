//! One declared range, until it is acknowledged, stopped, or no longer ours: every attempt asks the gate first.
//!
//! Must not be here: INSERTs that partitions share (`run.rs`), what a failure means (`class.rs`).

use std::sync::Arc;

use bytes::Bytes;
use clickhouse_sink_crds::commit::{Range, range_token};
use tokio::sync::watch;

use super::Report;
use super::class::{Failure, FailureClass};
use super::client::Request;
use super::rejects::{Owner, send_refused, send_rejected};
use super::run::{
    InsertContext, attempt, check_again, encode_blocks, needs_check, note, pause, pin_settings,
    settle, wait_for_table,
};
use crate::batch::{Batch, Part, Rows};
use crate::boot::boot_now;
use crate::kafka::TopicPartition;
use crate::native::Block;
use crate::session::gate::{GateView, MaySend};
use crate::verify::{TableName, Verdict, VerifyRequest, count_rows_of, verify_range};
use crate::window::ReplayMode;

/// Why a range has ended without an acknowledgement.
enum Stop {
    /// The gate is closed.
    Closed,
    /// It cannot go on by itself.
    Held {
        range: Range,
        reason: &'static str,
        message: String,
    },
}

/// A range, or a half of one, on its way.
struct Leaf {
    range: Range,
    block: Option<Arc<Block>>,
    first_row: usize,
}

/// What became of a leaf.
enum Sent {
    Acknowledged,
    /// A record is at fault; none of the leaf's rows is in the table.
    Refused(Failure),
}

struct Task<'a> {
    context: &'a Arc<InsertContext>,
    batch: &'a Batch,
    part: &'a Part,
    gate: watch::Receiver<GateView>,
    report: &'a (dyn Fn(Report) + Send + Sync),
}

/// Sends the one range of a gated batch, and reports what becomes of it.
pub(super) async fn run_gated(
    context: &Arc<InsertContext>,
    batch: &Batch,
    report: &(dyn Fn(Report) + Send + Sync),
) {
    let (Some(part), Some(gate)) = (batch.parts.first(), &batch.gate) else {
        return;
    };
    let mut task = Task {
        context,
        batch,
        part,
        gate: gate.clone(),
        report,
    };
    let ended = task.run().await;
    settle(context, batch.id);
    match ended {
        Ok(()) => {}
        Err(Stop::Closed) => report(Report::Dropped { batch: batch.id }),
        Err(Stop::Held {
            range,
            reason,
            message,
        }) => report(Report::Held {
            batch: batch.id,
            partition: task.partition(),
            start: range.start,
            end: range.end,
            reason,
            message,
        }),
    }
}

impl Task<'_> {
    fn partition(&self) -> TopicPartition {
        TopicPartition::new(Arc::clone(&self.part.topic), self.part.range.partition)
    }

    async fn run(&mut self) -> Result<(), Stop> {
        let owner = Owner {
            context: self.context,
            batch: self.batch,
            part: self.part,
            gate: Some(&self.gate),
        };
        // Rejects first: whatever mapping replays the range, a record is in the table or among them.
        if !self.part.rejected.is_empty() && !send_rejected(&owner, &self.part.rejected).await {
            return Err(Stop::Closed);
        }
        let whole = Leaf {
            range: self.part.range.clone(),
            block: self.part.rows.as_ref().map(|rows| Arc::clone(&rows.block)),
            first_row: 0,
        };
        let whole = self.verified(whole).await?;
        self.send_leaves(whole).await?;
        self.count();
        Ok(())
    }

    fn count(&self) {
        let metrics = &self.context.metrics;
        metrics.records_skipped.inc_by(self.part.skipped);
        if self.batch.replay.is_some() {
            metrics.ranges_replayed.inc();
        }
        let rows = i64::try_from(self.batch.rows()).unwrap_or(i64::MAX);
        metrics
            .batch_rows
            .observe(crate::metrics::gauge_value(rows));
    }

    /// Waits until the range may be sent.
    async fn pass(&mut self, range: &Range) -> Result<(), Stop> {
        loop {
            let answer = self
                .gate
                .borrow_and_update()
                .may_send(range.start, range.end, boot_now());
            match answer {
                MaySend::Yes => return Ok(()),
                MaySend::Never => return Err(Stop::Closed),
                MaySend::NotYet => {}
            }
            if self.gate.changed().await.is_err() {
                return Err(Stop::Closed);
            }
        }
    }

    /// Leaves out what the table has already, where the server may have forgotten the range's token.
    async fn verified(&mut self, leaf: Leaf) -> Result<Leaf, Stop> {
        if self.batch.replay != Some(ReplayMode::Verify) {
            return Ok(leaf);
        }
        let Some(rows) = &self.part.rows else {
            return Ok(leaf);
        };
        self.pass(&leaf.range).await?;
        self.context.metrics.ranges_verified.inc();
        let block = match self.ask_verdict(rows, &leaf.range).await? {
            Verdict::AllThere => None,
            Verdict::Send { rows: missing } => Some(Arc::new(rows.block.pick(&missing))),
            Verdict::Unprovable { message, .. } => {
                let message = format!(
                    "{message}; answer with `InsertAgain` or `SkipAndRecord` in `spec.resolutions`"
                );
                return Err(Self::held(&leaf.range, "WindowExceeded", message));
            }
        };
        Ok(Leaf { block, ..leaf })
    }

    async fn ask_verdict(&mut self, rows: &Rows, range: &Range) -> Result<Verdict, Stop> {
        let mut failures = 0;
        loop {
            self.pass(range).await?;
            let report = self.context.table.report();
            let request = VerifyRequest {
                table: self.table(),
                topic: &self.part.topic,
                range,
                rows,
                declared_at_s: self.batch.declared_at_s,
                known_settings: &report.known_settings,
            };
            match verify_range(&self.context.client, &request).await {
                Ok(verdict) => return Ok(verdict),
                Err(failure) => {
                    failures += 1;
                    self.wait_after(&failure, failures).await;
                }
            }
        }
    }

    fn table(&self) -> TableName<'_> {
        TableName {
            database: &self.context.database,
            table: &self.context.table_name,
        }
    }

    fn held(range: &Range, reason: &'static str, message: String) -> Stop {
        Stop::Held {
            range: range.clone(),
            reason,
            message,
        }
    }

    /// Sends a leaf; one with a refused record is halved, the left half first.
    async fn send_leaves(&mut self, whole: Leaf) -> Result<(), Stop> {
        let mut waiting = vec![whole];
        while let Some(leaf) = waiting.pop() {
            if let Sent::Refused(failure) = self.send_leaf(&leaf).await? {
                if let Some((left, right)) = self.halves(&leaf) {
                    self.context.metrics.ranges_split.inc();
                    (self.report)(Report::Split {
                        partition: self.partition(),
                        start: leaf.range.start,
                        end: leaf.range.end,
                        at: right.range.start,
                    });
                    waiting.extend([right, left]);
                    continue;
                }
                self.reject(&leaf, &failure).await?;
            }
            self.acknowledge(&leaf, waiting.is_empty());
        }
        Ok(())
    }

    fn acknowledge(&self, leaf: &Leaf, last: bool) {
        (self.report)(Report::Acknowledged {
            batch: self.batch.id,
            ranges: vec![(self.partition(), leaf.range.start, leaf.range.end)],
            last,
        });
    }

    fn halves(&self, leaf: &Leaf) -> Option<(Leaf, Leaf)> {
        let block = leaf.block.as_ref().filter(|block| block.rows() > 1)?;
        let middle = block.rows() / 2;
        let at = self.offset_of(leaf.first_row + middle)?;
        let half = |rows: std::ops::Range<usize>, start: i64, end: i64| Leaf {
            first_row: leaf.first_row + rows.start,
            block: Some(Arc::new(block.slice(rows))),
            range: Range {
                start,
                end,
                ..leaf.range.clone()
            },
        };
        let left = half(0..middle, leaf.range.start, at);
        Some((left, half(middle..block.rows(), at, leaf.range.end)))
    }

    fn offset_of(&self, row: usize) -> Option<i64> {
        self.part.rows.as_ref()?.offsets.offset_of(row)
    }

    /// The leaf's one record goes to the dead letters.
    async fn reject(&self, leaf: &Leaf, failure: &Failure) -> Result<(), Stop> {
        let Some(offset) = self.offset_of(leaf.first_row) else {
            return Ok(());
        };
        let owner = Owner {
            context: self.context,
            batch: self.batch,
            part: self.part,
            gate: Some(&self.gate),
        };
        let written = send_refused(&owner, offset, failure).await;
        written.then_some(()).ok_or(Stop::Closed)
    }

    /// The same bytes under the same token, until they are there or a record in them is refused.
    async fn send_leaf(&mut self, leaf: &Leaf) -> Result<Sent, Stop> {
        let Some(block) = &leaf.block else {
            self.pass(&leaf.range).await?;
            return Ok(Sent::Acknowledged);
        };
        // Encoded while the declaration is on its way.
        let request = self.encode(block, &leaf.range).await;
        let mut failures = 0;
        let mut certain = self.batch.replay.is_none();
        loop {
            let report = wait_for_table(self.context, self.batch.id, &[self.part]).await;
            self.pass(&leaf.range).await?;
            let Err(failure) = attempt(self.context, &pin_settings(self.context, &request)).await
            else {
                settle(self.context, self.batch.id);
                self.context
                    .metrics
                    .rows_inserted
                    .inc_by(block.rows() as u64);
                return Ok(Sent::Acknowledged);
            };
            failures += 1;
            certain &= failure.is_definite();
            self.context.table.check_now();
            let declared = needs_check(failure.class)
                && check_again(self.context, report.sequence)
                    .await
                    .is_as_declared();
            if declared && failure.class == FailureClass::RecordFault {
                self.check_not_landed(leaf, certain).await?;
                return Ok(Sent::Refused(failure));
            }
            self.wait_after(&failure, failures).await;
        }
    }

    /// A range may be redrawn only if no attempt under it can have landed.
    async fn check_not_landed(&mut self, leaf: &Leaf, certain: bool) -> Result<(), Stop> {
        if certain {
            return Ok(());
        }
        let mut failures = 0;
        let rows = loop {
            self.pass(&leaf.range).await?;
            match self.count_rows(&leaf.range).await {
                Ok(rows) => break rows,
                Err(failure) => {
                    failures += 1;
                    self.wait_after(&failure, failures).await;
                }
            }
        };
        if rows == 0 {
            return Ok(());
        }
        let Range { start, end, .. } = leaf.range;
        let message = format!(
            "a record in offsets {start} to {} is refused by the table, but {rows} rows of them are there from an earlier attempt, so \
             the range cannot be split; drop the constraint for a moment, or answer with `SkipAndRecord` in `spec.resolutions`",
            end - 1
        );
        Err(Self::held(&leaf.range, "WindowExceeded", message))
    }

    async fn count_rows(&self, range: &Range) -> Result<u64, Failure> {
        let report = self.context.table.report();
        count_rows_of(
            &self.context.client,
            self.table(),
            &report.known_settings,
            &self.part.topic,
            range.partition,
            (range.start, range.end),
        )
        .await
    }

    async fn encode(&self, block: &Arc<Block>, range: &Range) -> Request {
        let (block, compression) = (Arc::clone(block), self.context.compression);
        let encoded =
            tokio::task::spawn_blocking(move || encode_blocks(&[block], compression)).await;
        // A panic while encoding is a bug; passing it on ends the process, and the range is replayed.
        let body = encoded.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        let token = range_token(&self.context.group_id, &self.batch.cluster_id, range);
        Request {
            sql: self.batch.mapping.insert_sql.clone(),
            settings: vec![("insert_deduplication_token".into(), token)],
            body: Bytes::from(body),
        }
    }

    async fn wait_after(&mut self, failure: &Failure, failures: u32) {
        note(
            self.context,
            self.batch.id,
            &[self.part],
            failure,
            failure.class.reason(),
        );
        let mut gate = self.gate.clone();
        tokio::select! {
            () = pause(failures) => {}
            _ = gate.wait_for(|gate| !gate.open) => {}
        }
    }
}
