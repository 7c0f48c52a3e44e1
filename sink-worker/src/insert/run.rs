//! One batch, until it is acknowledged: waiting for the table, retrying, splitting down to a refused record.
//!
//! Must not be here: what a code means (`class.rs`), how long to wait (`backoff.rs`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clickhouse::Client;
use clickhouse_sink_crds::commit::{Range, set_token};
use clickhouse_sink_crds::worker_config::Compression;
use tokio::sync::watch;

use super::backoff::decide_backoff;
use super::class::{Failure, FailureClass};
use super::client::{Request, send_once};
use super::rejects::{Owner, send_refused, send_rejected};
use super::trouble::Troubles;
use crate::batch::{Batch, Part};
use crate::compress::compress_body;
use crate::dead_letter::Rejected;
use crate::metrics::{ClassLabel, Metrics, gauge_value};
use crate::native::Block;
use crate::table_watch::{TableReport, TableWatch};

/// Everything that sending a batch needs; one per shard.
pub struct InsertContext {
    /// Number of the shard.
    pub shard: usize,
    /// Client of the server.
    pub client: Client,
    /// `INSERT INTO db.rejected (columns) FORMAT RowBinaryWithNamesAndTypes`.
    pub rejected_sql: String,
    /// Database of the table.
    pub database: String,
    /// Name of the table.
    pub table_name: String,
    /// The consumer group, for tokens.
    pub group_id: String,
    /// Compression of the body.
    pub compression: Compression,
    /// An attempt ends after this long.
    pub timeout: Duration,
    /// The table's state, and the way to have it looked at.
    pub table: TableWatch,
    /// What is told to people.
    pub troubles: Arc<Troubles>,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// Reads a record again where its payload is needed after the fact.
    pub records: Arc<dyn RecordSource>,
}

/// Reads one record of Kafka again.
pub trait RecordSource: Send + Sync {
    /// The record at an offset as a dead letter without a reason; `None` where Kafka no longer has it.
    ///
    /// # Errors
    /// In words, where Kafka does not answer.
    fn read(&self, topic: &str, partition: i32, offset: i64) -> Result<Option<Rejected>, String>;
}

/// Rows of one partition that travel together under one token.
struct Piece<'a> {
    part: &'a Part,
    block: Arc<Block>,
    first_row: usize,
    range: Range,
}

/// Sends the rejects, then the rows; returns when all of it is acknowledged.
pub async fn run_batch(context: &Arc<InsertContext>, batch: &Batch) {
    for part in batch.parts.iter().filter(|part| !part.rejected.is_empty()) {
        send_rejected(&owner(context, batch, part), &part.rejected).await;
    }
    let pieces: Vec<Piece<'_>> = batch.parts.iter().filter_map(whole_piece).collect();
    if !pieces.is_empty() {
        send_pieces(context, batch, pieces).await;
    }
    count_batch(&context.metrics, batch);
}

const fn owner<'a>(context: &'a Arc<InsertContext>, batch: &'a Batch, part: &'a Part) -> Owner<'a> {
    Owner {
        context,
        batch,
        part,
        gate: None,
    }
}

fn count_batch(metrics: &Metrics, batch: &Batch) {
    metrics.records_skipped.inc_by(batch.skipped());
    metrics
        .batch_rows
        .observe(gauge_value(i64::try_from(batch.rows()).unwrap_or(i64::MAX)));
}

fn whole_piece(part: &Part) -> Option<Piece<'_>> {
    let rows = part.rows.as_ref()?;
    Some(Piece {
        part,
        block: Arc::clone(&rows.block),
        first_row: 0,
        range: part.range.clone(),
    })
}

/// Sends the pieces under one token; a record's fault splits them until the refused record is alone.
async fn send_pieces(context: &Arc<InsertContext>, batch: &Batch, pieces: Vec<Piece<'_>>) {
    let mut waiting = vec![pieces];
    while let Some(pieces) = waiting.pop() {
        let Err(failure) = send_until_settled(context, batch, &pieces).await else {
            continue;
        };
        match split(pieces) {
            Split::Halves(left, right) => waiting.extend([right, left]),
            Split::One(piece) => {
                if let Some(offset) = row_offset(piece.part, piece.first_row) {
                    send_refused(&owner(context, batch, piece.part), offset, &failure).await;
                }
            }
        }
    }
}

enum Split<'a> {
    Halves(Vec<Piece<'a>>, Vec<Piece<'a>>),
    One(Piece<'a>),
}

/// Halves by pieces first, then by rows.
fn split(mut pieces: Vec<Piece<'_>>) -> Split<'_> {
    if pieces.len() > 1 {
        let right = pieces.split_off(pieces.len() / 2);
        return Split::Halves(pieces, right);
    }
    match pieces.pop() {
        Some(piece) if piece.block.rows() > 1 => split_rows(piece),
        Some(piece) => Split::One(piece),
        None => Split::Halves(Vec::new(), Vec::new()),
    }
}

fn split_rows(piece: Piece<'_>) -> Split<'_> {
    let middle = piece.block.rows() / 2;
    let offset = row_offset(piece.part, piece.first_row + middle).unwrap_or(piece.range.end);
    let left = Piece {
        part: piece.part,
        block: Arc::new(piece.block.slice(0..middle)),
        first_row: piece.first_row,
        range: Range {
            end: offset,
            ..piece.range.clone()
        },
    };
    let right = Piece {
        part: piece.part,
        block: Arc::new(piece.block.slice(middle..piece.block.rows())),
        first_row: piece.first_row + middle,
        range: Range {
            start: offset,
            ..piece.range
        },
    };
    Split::Halves(vec![left], vec![right])
}

fn row_offset(part: &Part, row: usize) -> Option<i64> {
    part.rows.as_ref()?.offsets.offset_of(row)
}

/// Tries the pieces until they are there (`Ok`) or a record in them is at fault (`Err`).
async fn send_until_settled(
    context: &Arc<InsertContext>,
    batch: &Batch,
    pieces: &[Piece<'_>],
) -> Result<(), Failure> {
    let request = encode(context, &batch.mapping, &batch.cluster_id, pieces).await;
    let batch = batch.id;
    let parts: Vec<&Part> = pieces.iter().map(|piece| piece.part).collect();
    let mut failures = 0;
    loop {
        let report = wait_for_table(context, batch, &parts).await;
        let Err(failure) = attempt(context, &pin_settings(context, &request)).await else {
            settle(context, batch);
            let rows: usize = pieces.iter().map(|piece| piece.block.rows()).sum();
            context.metrics.rows_inserted.inc_by(rows as u64);
            return Ok(());
        };
        failures += 1;
        // Readiness learns of an outage by this look.
        context.table.check_now();
        if needs_check(failure.class)
            && check_again(context, report.sequence).await.is_as_declared()
            && failure.class == FailureClass::RecordFault
        {
            return Err(failure);
        }
        wait_after(context, batch, &parts, &failure, failures).await;
    }
}

pub(super) const fn needs_check(class: FailureClass) -> bool {
    matches!(class, FailureClass::TableCheck | FailureClass::RecordFault)
}

pub(super) async fn attempt(context: &InsertContext, request: &Request) -> Result<(), Failure> {
    let started = Instant::now();
    let query_id = context.table.next_query_id(context.shard);
    let result = send_once(&context.client, request, query_id, context.timeout).await;
    context
        .metrics
        .attempt_seconds
        .observe(started.elapsed().as_secs_f64());
    match &result {
        Ok(()) => {
            context.metrics.inserts.inc();
            context.metrics.bytes_sent.inc_by(request.body.len() as u64);
        }
        Err(failure) => {
            context
                .metrics
                .retries
                .get_or_create(&ClassLabel {
                    class: failure.class.reason(),
                })
                .inc();
        }
    }
    result
}

/// The body of all pieces: one Native block each, under one token.
async fn encode(
    context: &Arc<InsertContext>,
    mapping: &crate::mapping::Mapping,
    cluster_id: &str,
    pieces: &[Piece<'_>],
) -> Request {
    let ranges: Vec<Range> = pieces.iter().map(|piece| piece.range.clone()).collect();
    let blocks: Vec<Arc<Block>> = pieces
        .iter()
        .map(|piece| Arc::clone(&piece.block))
        .collect();
    let compression = context.compression;
    let encoded = tokio::task::spawn_blocking(move || encode_blocks(&blocks, compression)).await;
    // A panic while encoding is a bug; passing it on ends the process, and the ranges are replayed.
    let body = encoded.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
    let settings = vec![(
        "insert_deduplication_token".into(),
        set_token(&context.group_id, cluster_id, &ranges),
    )];
    Request {
        sql: mapping.insert_sql.clone(),
        settings,
        body: Bytes::from(body),
    }
}

/// The request with the settings that fit the table as it is now: it may have changed since the last try.
pub(super) fn pin_settings(context: &InsertContext, request: &Request) -> Request {
    let settings = [context.table.settings(), request.settings.clone()].concat();
    Request {
        settings,
        ..request.clone()
    }
}

pub(super) fn encode_blocks(blocks: &[Arc<Block>], compression: Compression) -> Vec<u8> {
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

/// Waits until the table is known to be as declared; says why while it waits.
pub(super) async fn wait_for_table(
    context: &InsertContext,
    batch: u64,
    parts: &[&Part],
) -> Arc<TableReport> {
    let mut reports = context.table.subscribe();
    loop {
        let report = Arc::clone(&reports.borrow_and_update());
        if report.writable {
            return report;
        }
        note(context, batch, parts, &report.as_failure(), report.reason());
        next_report(&mut reports).await;
    }
}

async fn next_report(reports: &mut watch::Receiver<Arc<TableReport>>) {
    if reports.changed().await.is_err() {
        // The watch ends only with the process.
        std::future::pending::<()>().await;
    }
}

/// Has the table looked at, and waits for an answer newer than `sequence`.
pub(super) async fn check_again(context: &InsertContext, sequence: u64) -> Arc<TableReport> {
    let mut reports = context.table.subscribe();
    context.table.check_now();
    loop {
        let report = Arc::clone(&reports.borrow_and_update());
        if report.sequence > sequence && !report.is_unknown() {
            return report;
        }
        next_report(&mut reports).await;
    }
}

async fn wait_after(
    context: &InsertContext,
    batch: u64,
    parts: &[&Part],
    failure: &Failure,
    failures: u32,
) {
    note(context, batch, parts, failure, failure.class.reason());
    pause(failures).await;
}

pub(super) async fn pause(failures: u32) {
    tokio::time::sleep(decide_backoff(failures, crate::random())).await;
}

/// Tells people, and logs where the class of the trouble is new.
pub(super) fn note(
    context: &InsertContext,
    batch: u64,
    parts: &[&Part],
    failure: &Failure,
    reason: &'static str,
) {
    let partitions: Vec<String> = parts
        .iter()
        .map(|part| format!("{}/{}", part.topic, part.range.partition))
        .collect();
    let is_new = context.troubles.note(
        (context.shard, batch),
        failure,
        reason,
        &partitions,
        Instant::now(),
    );
    if is_new {
        tracing::warn!(batch, reason, code = failure.code, error = %failure.message, "An insert waits and is tried again.");
    }
}

pub(super) fn settle(context: &InsertContext, batch: u64) {
    if context.troubles.clear((context.shard, batch)) {
        tracing::info!(batch, "An insert that waited went through.");
    }
}
