//! What Kafka has lost, as a hold or as recorded gaps.
//!
//! Pure. Must not be here: positions that lost nothing.

use clickhouse_sink_crds::commit::CommitMetadata;
use clickhouse_sink_crds::worker_config::OnDataLoss;

use super::{Gap, Known, Start, create, resume};

/// What is lost.
pub(super) enum Loss<'a> {
    /// The log now starts behind the position.
    RetentionPassed {
        offset: i64,
        metadata: Option<&'a CommitMetadata>,
    },
    /// The log ends before the position, or before a declared range.
    OffsetBeyondEnd { offset: i64, end: i64 },
    /// The topic was deleted and made again.
    TopicRecreated {
        metadata: Option<&'a CommitMetadata>,
    },
    /// The group had positions once, and has none now.
    OffsetsGone,
}

/// What is lost of a position of ours, if anything.
pub(super) fn check_position<'a>(
    known: &Known<'_>,
    metadata: &'a CommitMetadata,
) -> Option<Loss<'a>> {
    let end = metadata.ends.last().copied().unwrap_or(metadata.offset);
    let metadata = Some(metadata);
    match metadata {
        Some(ours) if ours.topic_id != known.topic_id => Some(Loss::TopicRecreated { metadata }),
        Some(ours) if end > known.high => Some(Loss::OffsetBeyondEnd {
            offset: ours.offset,
            end,
        }),
        Some(ours) if ours.offset < known.low => Some(Loss::RetentionPassed {
            offset: ours.offset,
            metadata,
        }),
        _ => None,
    }
}

/// What is lost of a position that somebody's tool has set.
pub(super) fn check_offset<'a>(known: &Known<'_>, offset: i64) -> Option<Loss<'a>> {
    let metadata = None;
    if offset < known.low {
        return Some(Loss::RetentionPassed { offset, metadata });
    }
    (offset > known.high).then_some(Loss::OffsetBeyondEnd {
        offset,
        end: offset,
    })
}

impl Loss<'_> {
    /// Holds, or goes on behind the loss with its gaps.
    pub(super) fn decide(&self, known: &Known<'_>) -> Start {
        match known.on_loss {
            OnDataLoss::Hold => Start::Hold {
                reason: self.reason(),
                about: self.about(known),
                message: self.message(known),
            },
            OnDataLoss::SkipAndRecord => self.skip(known),
        }
    }

    const fn reason(&self) -> &'static str {
        match self {
            Self::RetentionPassed { .. } => "RetentionPassed",
            Self::OffsetBeyondEnd { .. } => "OffsetBeyondEnd",
            Self::TopicRecreated { .. } => "TopicRecreated",
            Self::OffsetsGone => "OffsetsGone",
        }
    }

    /// The log's start moves on by itself, so it is no part of what names the hold.
    fn about(&self, known: &Known<'_>) -> String {
        match self {
            Self::RetentionPassed { offset, .. } => format!("{}:{offset}", known.topic_id),
            Self::OffsetBeyondEnd { end, .. } => format!("{}:{end}", known.topic_id),
            Self::TopicRecreated { .. } | Self::OffsetsGone => known.topic_id.to_owned(),
        }
    }

    fn message(&self, known: &Known<'_>) -> String {
        let (low, high, answer) = (
            known.low,
            known.high,
            "answer with `SkipAndRecord` in `spec.resolutions`",
        );
        match self {
            Self::RetentionPassed { offset, .. } => format!(
                "the position is {offset}, but Kafka's first record is {low}: records {offset} to {} are gone; {answer} to go on \
                 without them, recorded as a gap",
                low - 1
            ),
            Self::OffsetBeyondEnd { end, .. } => format!(
                "the position reaches to {end}, but the log ends at {high}: it was cut off, or another cluster answers; check the \
                 topic, then {answer} to go on from {high}"
            ),
            Self::TopicRecreated { metadata } => format!(
                "the position{} belongs to another topic than {}, the id that `{}` has now: it was deleted and made again; {answer} \
                 to read the new topic from its start",
                metadata.map_or_else(String::new, |ours| format!(
                    " {} of topic id {}",
                    ours.offset, ours.topic_id
                )),
                known.topic_id,
                known.topic
            ),
            Self::OffsetsGone => format!(
                "the consumer group has no positions on `{}`, which this sink has read before: they expired, or were deleted; set \
                 them with Kafka's own tools, or {answer} to read the topic again from {low}",
                known.topic
            ),
        }
    }

    fn skip(&self, known: &Known<'_>) -> Start {
        match self {
            Self::RetentionPassed {
                offset,
                metadata: Some(ours),
            } => resume(ours, known.low, passed_gaps(ours, *offset, known.low)),
            Self::RetentionPassed {
                offset,
                metadata: None,
            } => create(
                known,
                known.low,
                true,
                vec![gap_of(known, "RetentionPassed", *offset, known.low)],
            ),
            Self::OffsetBeyondEnd { offset, end } => skip_beyond_end(known, *offset, *end),
            Self::TopicRecreated { metadata } => {
                let old = metadata.map(recreated_gap).into_iter();
                let new = gap_between(known, "TopicRecreated", 0, known.low);
                create(known, known.low, true, old.chain(new).collect())
            }
            Self::OffsetsGone => {
                let gone = gap_between(known, "OffsetsGone", 0, known.low);
                create(known, known.low, true, gone.into_iter().collect())
            }
        }
    }
}

/// What is left of the records that nobody has acknowledged is read, again where it was declared.
fn skip_beyond_end(known: &Known<'_>, offset: i64, end: i64) -> Start {
    let cause = "OffsetBeyondEnd";
    let before = gap_between(known, cause, offset, known.low.min(end));
    let behind = gap_between(known, cause, known.high, end);
    let start = offset.min(known.high).max(known.low);
    create(
        known,
        start,
        true,
        before.into_iter().chain(behind).collect(),
    )
}

fn gap_between(known: &Known<'_>, cause: &'static str, start: i64, end: i64) -> Option<Gap> {
    (start < end).then(|| gap_of(known, cause, start, end))
}

/// A gap of which nothing is known but its place; no position of ours names it.
fn gap_of(known: &Known<'_>, cause: &'static str, start: i64, end: i64) -> Gap {
    Gap {
        topic_id: known.topic_id.to_owned(),
        epoch: String::new(),
        start,
        end,
        cause,
        maybe_inserted: true,
    }
}

/// What a declared range held may have been inserted; what lies behind the plan was not.
fn passed_gaps(ours: &CommitMetadata, offset: i64, low: i64) -> Vec<Gap> {
    let planned = ours.ends.last().copied().unwrap_or(offset).min(low);
    let gap = |start: i64, end: i64, maybe_inserted: bool| {
        (start < end).then(|| Gap {
            topic_id: ours.topic_id.clone(),
            epoch: ours.epoch.to_string(),
            start,
            end,
            cause: "RetentionPassed",
            maybe_inserted,
        })
    };
    [gap(offset, planned, true), gap(planned, low, false)]
        .into_iter()
        .flatten()
        .collect()
}

/// How far the old topic went is not known any more: the gap has no end of its own.
fn recreated_gap(ours: &CommitMetadata) -> Gap {
    let end = ours.ends.last().copied().unwrap_or(ours.offset);
    Gap {
        topic_id: ours.topic_id.clone(),
        epoch: ours.epoch.to_string(),
        start: ours.offset,
        end: end.max(ours.offset + 1),
        cause: "TopicRecreated",
        maybe_inserted: true,
    }
}
