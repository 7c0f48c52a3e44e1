//! A declared range of one partition, until it is acknowledged, held, or its gate is closed.
//!
//! Dead letters first; then the INSERT, once a young commit declares the range; for a record's fault the range is
//! replaced by its halves, each declared before it is sent. Must not be here: declaring, what may be sent when.

use std::time::Instant;

use clickhouse_sink_crds::commit::range_token;

use super::Report;
use super::class::Failure;
use super::client::Request;
use super::gate::Closed;
use super::job::{Doubt, Job, Settled};
use super::piece::{Encoding, Piece};
use super::rejects::{send_refused, send_rejects};
use super::run::{Reporter, count_batch, partition_of};
use crate::batch::{Batch, Part};
use crate::session::ReplayMode;
use crate::verify::Verdict;

/// Reason of a hold where the table cannot tell what is in it.
const WINDOW_EXCEEDED: &str = "WindowExceeded";

/// Why a range cannot go on by itself, in words.
struct Hold(String);

/// Rows on their way under one token.
struct Leaf<'a> {
    piece: Piece<'a>,
    encoding: Option<Encoding>,
    doubt: Doubt,
}

struct Run<'a> {
    job: &'a Job,
    batch: &'a Batch,
    part: &'a Part,
    reporter: &'a Reporter,
}

/// Sends the rejects, then the rows; reports how each range ended.
pub(super) async fn run_gated(
    job: &Job,
    batch: &Batch,
    part: &Part,
    reporter: &Reporter,
) -> Result<(), Closed> {
    let run = Run {
        job,
        batch,
        part,
        reporter,
    };
    let interval = (part.range.start, part.range.end);
    let whole = run.first_leaf();
    send_rejects(job, &batch.mapping, part, &part.rejected).await?;
    job.gate.opened(interval).await?;
    let leaf = match whole {
        Some(leaf) if run.verifies() => run.verify(leaf).await?,
        leaf => Ok(leaf),
    };
    match leaf {
        Ok(Some(leaf)) => run.send(leaf).await?,
        Ok(None) => run.acknowledge(interval, true),
        Err(hold) => run.hold(interval, &hold, &[]),
    }
    Ok(())
}

impl<'a> Run<'a> {
    fn verifies(&self) -> bool {
        self.batch.replay == Some(ReplayMode::Verify)
    }

    /// All rows, encoded while the range is being declared; where the table is asked first, what it lacks is encoded.
    fn first_leaf(&self) -> Option<Leaf<'a>> {
        let piece = Piece::whole(self.part)?;
        let earlier_end = Instant::now() + self.job.context.earlier_attempts_end_after;
        Some(Leaf {
            encoding: (!self.verifies()).then(|| self.encode(&piece)),
            doubt: self.batch.replay.map(|_| earlier_end),
            piece,
        })
    }

    fn encode(&self, piece: &Piece<'_>) -> Encoding {
        Encoding::start(std::slice::from_ref(piece), self.job.context.compression)
    }

    /// Only what the table does not have.
    async fn verify(&self, leaf: Leaf<'a>) -> Result<Result<Option<Leaf<'a>>, Hold>, Closed> {
        let questions = &self.job.context.questions;
        let question = || questions.verify(self.batch, self.part);
        Ok(match self.job.ask(question).await? {
            Verdict::AllThere => Ok(None),
            Verdict::Send { rows } => Ok(Some(Leaf {
                piece: leaf.piece.pick(&rows),
                ..leaf
            })),
            Verdict::Unprovable { message, .. } => Err(Hold(format!(
                "{message}; answer with `InsertAgain` or `SkipAndRecord` in `spec.resolutions`"
            ))),
        })
    }

    /// Sends a range; a refused record is searched for from left to right.
    async fn send(&self, first: Leaf<'a>) -> Result<(), Closed> {
        let mut waiting = vec![first];
        while let Some(mut leaf) = waiting.pop() {
            let interval = leaf.piece.interval();
            match self.settle(&mut leaf).await? {
                Settled::Landed => {
                    let rows = leaf.piece.block.rows() as u64;
                    self.job.context.metrics.rows_inserted.inc_by(rows);
                }
                Settled::RecordFault(failure) => {
                    let Some((left, right)) = leaf.piece.halves() else {
                        send_refused(self.job, &self.batch.mapping, &leaf.piece, &failure).await?;
                        self.acknowledge(interval, waiting.is_empty());
                        continue;
                    };
                    if let Some(hold) = self.find_landed(&leaf, &failure).await? {
                        self.hold(interval, &hold, &waiting);
                        return Ok(());
                    }
                    self.split(interval, left.range.end);
                    waiting.extend([right, left].map(Leaf::refined));
                    continue;
                }
            }
            self.acknowledge(interval, waiting.is_empty());
        }
        Ok(())
    }

    /// Every attempt has the same bytes and the same token.
    async fn settle(&self, leaf: &mut Leaf<'_>) -> Result<Settled, Closed> {
        let encoding = leaf.encoding.take();
        let encoding = encoding.unwrap_or_else(|| self.encode(&leaf.piece));
        let group = &self.job.context.group_id;
        let token = range_token(group, &self.batch.cluster_id, &leaf.piece.range);
        let request = Request {
            sql: self.batch.mapping.insert_sql.clone(),
            settings: vec![("insert_deduplication_token".into(), token)],
            body: encoding.finish().await,
        };
        let interval = leaf.piece.interval();
        self.job
            .settle(&request, Some(interval), &mut leaf.doubt)
            .await
    }

    /// A range may be split only if no attempt under it has landed: where that is not sure, the table is asked, once
    /// every such attempt has ended.
    async fn find_landed(
        &self,
        leaf: &Leaf<'_>,
        failure: &Failure,
    ) -> Result<Option<Hold>, Closed> {
        let Some(ended_at) = leaf.doubt else {
            return Ok(None);
        };
        if !self.batch.mapping.schema.metadata_columns {
            let found = "the table has no metadata columns to look for";
            return Ok(Some(self.landed(leaf, failure, found)));
        }
        let wait = ended_at.saturating_duration_since(Instant::now());
        self.job.pause(wait).await?;
        let questions = &self.job.context.questions;
        let question = || questions.count(self.part, &leaf.piece.range);
        let found = self.job.ask(question).await?;
        Ok((found > 0).then(|| self.landed(leaf, failure, &format!("found {found}"))))
    }

    fn landed(&self, leaf: &Leaf<'_>, failure: &Failure, found: &str) -> Hold {
        let (start, end) = leaf.piece.interval();
        Hold(format!(
            "a record of {}/{} offsets {start} to {} is refused ({}), and an attempt under this range may have landed: expected none \
             of its {} rows in the table, {found}; take away what refuses the record, or answer with `SkipAndRecord` in \
             `spec.resolutions`",
            self.part.topic,
            self.part.range.partition,
            end - 1,
            failure.message,
            leaf.piece.block.rows(),
        ))
    }

    fn split(&self, (start, end): (i64, i64), at: i64) {
        self.job.context.metrics.ranges_split.inc();
        self.reporter.tell(Report::Split {
            partition: partition_of(self.part),
            start,
            end,
            at,
        });
    }

    fn acknowledge(&self, (start, end): (i64, i64), last: bool) {
        if last {
            self.count();
        }
        self.reporter.tell(Report::Acknowledged {
            batch: self.batch.id,
            ranges: vec![(partition_of(self.part), start, end)],
            last,
        });
    }

    fn count(&self) {
        let metrics = &self.job.context.metrics;
        count_batch(metrics, self.batch);
        if self.batch.replay.is_some() {
            metrics.ranges_replayed.inc();
        }
        if self.verifies() {
            metrics.ranges_verified.inc();
        }
    }

    /// The task ends: the ranges that wait behind this one stop with it. The cause is told last, as the hold's own.
    fn hold(&self, cause: (i64, i64), hold: &Hold, waiting: &[Leaf<'_>]) {
        let behind = waiting.iter().map(|leaf| leaf.piece.interval());
        for (start, end) in behind.chain([cause]) {
            self.reporter.tell(Report::Held {
                batch: self.batch.id,
                partition: partition_of(self.part),
                start,
                end,
                reason: WINDOW_EXCEEDED,
                message: hold.0.clone(),
            });
        }
    }
}

impl<'a> Leaf<'a> {
    /// Half of a range of which nothing has landed; nothing was tried under its own token.
    const fn refined(piece: Piece<'a>) -> Self {
        Self {
            piece,
            encoding: None,
            doubt: None,
        }
    }
}
