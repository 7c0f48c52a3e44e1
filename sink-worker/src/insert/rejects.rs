//! Writing to the rejected table: records that made no row, records that the table refuses, gaps.
//!
//! Must not be here: the bytes of a row (`dead_letter.rs`), what is rejected or lost.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use super::class::Failure;
use super::client::Request;
use super::gate::Closed;
use super::job::Job;
use super::piece::Piece;
use super::run::InsertContext;
use crate::batch::Part;
use crate::dead_letter::{Origin, Rejected, render_gap, render_header, render_row};
use crate::decode::RejectCode;
use crate::kafka::TopicPartition;
use crate::mapping::Mapping;
use crate::session::position::Gap;

/// Reason while the rejected table does not take rows.
const UNAVAILABLE: &str = "DeadLetterUnavailable";

/// Writes dead letters, for as long as it takes.
pub(super) async fn send_rejects(
    job: &Job,
    mapping: &Mapping,
    part: &Part,
    rejected: &[Rejected],
) -> Result<(), Closed> {
    if rejected.is_empty() {
        return Ok(());
    }
    let origin = Origin {
        topic: Arc::clone(&part.topic),
        topic_id: part.range.topic_id.clone(),
        partition: part.range.partition,
        epoch: part.range.epoch.to_string(),
        mapping: mapping.hash.clone(),
    };
    let now_ms = unix_ms();
    let mut body = render_header();
    for record in rejected {
        render_row(&mut body, &origin, record, now_ms);
    }
    write(job, body).await?;
    for record in rejected {
        job.context.metrics.rejected(record.code);
    }
    Ok(())
}

/// Writes gaps, for as long as it takes.
pub(super) async fn send_gaps(
    job: &Job,
    partition: &TopicPartition,
    gaps: &[Gap],
) -> Result<(), Closed> {
    let now_ms = unix_ms();
    let mut body = render_header();
    for gap in gaps {
        let origin = Origin {
            topic: Arc::clone(&partition.topic),
            topic_id: gap.topic_id.clone(),
            partition: partition.partition,
            epoch: gap.epoch.clone(),
            mapping: String::new(),
        };
        render_gap(&mut body, &origin, gap, now_ms);
    }
    write(job, body).await
}

async fn write(job: &Job, body: Vec<u8>) -> Result<(), Closed> {
    let request = rejected_request(&job.context, body);
    let mut failures = 0;
    while let Err(failure) = job.attempt(&request, None).await? {
        failures += 1;
        let held = Failure {
            message: format!("the rejected table refuses: {}", failure.message),
            ..failure
        };
        job.wait_after(&held, UNAVAILABLE, failures).await?;
    }
    job.went_through();
    Ok(())
}

fn rejected_request(context: &InsertContext, body: Vec<u8>) -> Request {
    let settings = context
        .table
        .settings()
        .into_iter()
        .filter(|(name, _)| name != "decompress");
    Request {
        sql: context.rejected_sql.clone(),
        settings: settings.collect(),
        body: Bytes::from(body),
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "rejected_at is wall time, for people; nothing is decided by it"
)]
fn unix_ms() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// A record that the table refuses, the only one of a piece: its payload is read again and goes to the dead letters.
pub(super) async fn send_refused(
    job: &Job,
    mapping: &Mapping,
    piece: &Piece<'_>,
    failure: &Failure,
) -> Result<(), Closed> {
    let Some(offset) = piece.offset_of(0) else {
        return Ok(());
    };
    let mut record = read_again(job, piece.part, offset).await?;
    record.code = RejectCode::RefusedByServer.as_str();
    record.reason.clone_from(&failure.message);
    send_rejects(job, mapping, piece.part, &[record]).await
}

async fn read_again(job: &Job, part: &Part, offset: i64) -> Result<Rejected, Closed> {
    let question = || async {
        let (records, topic, partition) = (
            Arc::clone(&job.context.records),
            Arc::clone(&part.topic),
            part.range.partition,
        );
        let read = tokio::task::spawn_blocking(move || records.read(&topic, partition, offset));
        let answer = read.await.unwrap_or_else(|error| Err(error.to_string()));
        answer.map_err(|text| Failure::no_answer(&text))
    };
    let record = job.ask(question).await?;
    Ok(record.unwrap_or_else(|| gone(offset)))
}

/// A refused record that Kafka no longer has: what is known of it is kept.
const fn gone(offset: i64) -> Rejected {
    Rejected {
        offset,
        timestamp_ms: 0,
        key: None,
        payload: Vec::new(),
        headers: Vec::new(),
        column: String::new(),
        code: "",
        reason: String::new(),
    }
}
