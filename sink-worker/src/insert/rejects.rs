//! Rejected records and gaps, into the rejected table, for as long as it takes.
//!
//! Must not be here: what is rejected and why, rows of the sink's table.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tokio::sync::watch;

use super::class::Failure;
use super::client::Request;
use super::run::{InsertContext, attempt, note, pause, settle};
use crate::batch::{Batch, Part};
use crate::dead_letter::{self, Origin, Rejected};
use crate::decode::RejectCode;
use crate::kafka::TopicPartition;
use crate::session::gate::GateView;
use crate::session::position::Gap;

/// Whose records they are.
pub(super) struct Owner<'a> {
    pub context: &'a Arc<InsertContext>,
    pub batch: &'a Batch,
    pub part: &'a Part,
    /// The gate of the partition, where it has one: nothing is tried on once it is closed.
    pub gate: Option<&'a watch::Receiver<GateView>>,
}

impl Owner<'_> {
    fn is_closed(&self) -> bool {
        self.gate.is_some_and(|gate| !gate.borrow().open)
    }
}

/// Writes dead letters; false where the gate has closed.
pub(super) async fn send_rejected(owner: &Owner<'_>, rejected: &[Rejected]) -> bool {
    let (context, batch) = (owner.context, owner.batch.id);
    let request = rejected_request(owner, rejected);
    let mut failures = 0;
    loop {
        if owner.is_closed() {
            return false;
        }
        let Err(failure) = attempt(context, &request).await else {
            break;
        };
        failures += 1;
        let held = Failure {
            message: format!("the rejected table refuses: {}", failure.message),
            ..failure
        };
        note(
            context,
            batch,
            &[owner.part],
            &held,
            "DeadLetterUnavailable",
        );
        pause(failures).await;
    }
    settle(context, batch);
    for record in rejected {
        context.metrics.rejected(record.code);
    }
    true
}

/// A record that the table refuses: its payload is read again and goes to the dead letters. False: the gate has closed.
pub(super) async fn send_refused(owner: &Owner<'_>, offset: i64, failure: &Failure) -> bool {
    let Some(mut record) = read_again(owner, offset).await else {
        return false;
    };
    record.code = RejectCode::RefusedByServer.as_str();
    record.reason.clone_from(&failure.message);
    send_rejected(owner, &[record]).await
}

async fn read_again(owner: &Owner<'_>, offset: i64) -> Option<Rejected> {
    let mut failures = 0;
    while !owner.is_closed() {
        let (records, topic, partition) = (
            Arc::clone(&owner.context.records),
            Arc::clone(&owner.part.topic),
            owner.part.range.partition,
        );
        let read =
            tokio::task::spawn_blocking(move || records.read(&topic, partition, offset)).await;
        match read.unwrap_or_else(|error| Err(error.to_string())) {
            Ok(record) => return Some(record.unwrap_or_else(|| gone(offset))),
            Err(text) => {
                failures += 1;
                let failure = Failure::no_answer(&text);
                let reason = failure.class.reason();
                note(
                    owner.context,
                    owner.batch.id,
                    &[owner.part],
                    &failure,
                    reason,
                );
                pause(failures).await;
            }
        }
    }
    None
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

fn rejected_request(owner: &Owner<'_>, rejected: &[Rejected]) -> Request {
    let origin = Origin {
        topic: Arc::clone(&owner.part.topic),
        topic_id: owner.part.range.topic_id.clone(),
        partition: owner.part.range.partition,
        epoch: owner.part.range.epoch.to_string(),
        mapping: owner.batch.mapping.hash.clone(),
    };
    let now_ms = unix_ms();
    let mut body = dead_letter::render_header();
    for record in rejected {
        dead_letter::render_row(&mut body, &origin, record, now_ms);
    }
    request(owner.context, body)
}

fn request(context: &InsertContext, body: Vec<u8>) -> Request {
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

/// Writes the gaps of a partition.
pub(super) async fn send_gaps(
    context: &Arc<InsertContext>,
    partition: &TopicPartition,
    gaps: &[Gap],
) {
    let now_ms = unix_ms();
    let mut body = dead_letter::render_header();
    for gap in gaps {
        let origin = Origin {
            topic: Arc::clone(&partition.topic),
            topic_id: gap.topic_id.clone(),
            partition: partition.partition,
            epoch: gap.epoch.clone(),
            mapping: String::new(),
        };
        dead_letter::render_gap(&mut body, &origin, gap, now_ms);
    }
    let request = request(context, body);
    let mut failures = 0;
    while let Err(failure) = attempt(context, &request).await {
        failures += 1;
        tracing::warn!(topic = %partition.topic, partition = partition.partition, error = %failure.message, "A gap cannot be recorded yet and is tried again.");
        pause(failures).await;
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
