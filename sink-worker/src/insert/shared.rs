//! A batch of several partitions in one INSERT: nothing declares its ranges, and a record's fault splits it at once.
//!
//! Must not be here: ranges with a gate (`gated.rs`).

use clickhouse_sink_crds::commit::{Range, set_token};

use super::Report;
use super::client::Request;
use super::gate::Closed;
use super::job::{Job, Settled};
use super::piece::{Encoding, Piece};
use super::rejects::{send_refused, send_rejects};
use super::run::{Reporter, count_batch, partition_of};
use crate::batch::Batch;

/// Sends the rejects, then the rows; returns when all of it is acknowledged.
pub(super) async fn run_shared(
    job: &Job,
    batch: &Batch,
    reporter: &Reporter,
) -> Result<(), Closed> {
    for part in &batch.parts {
        send_rejects(job, &batch.mapping, part, &part.rejected).await?;
    }
    let pieces: Vec<Piece<'_>> = batch.parts.iter().filter_map(Piece::whole).collect();
    send_pieces(job, batch, pieces).await?;
    count_batch(&job.context.metrics, batch);
    let ranges = batch
        .parts
        .iter()
        .map(|part| (partition_of(part), part.range.start, part.range.end));
    reporter.tell(Report::Acknowledged {
        batch: batch.id,
        ranges: ranges.collect(),
        last: true,
    });
    Ok(())
}

/// Sends the pieces under one token; a record's fault splits them until the refused record is alone.
async fn send_pieces(job: &Job, batch: &Batch, pieces: Vec<Piece<'_>>) -> Result<(), Closed> {
    let mut waiting = vec![pieces];
    while let Some(mut pieces) = waiting.pop() {
        if pieces.is_empty() {
            continue;
        }
        let rows: usize = pieces.iter().map(|piece| piece.block.rows()).sum();
        let request = encode(job, batch, &pieces).await;
        // Copies that an attempt without an answer leaves are what this guarantee allows.
        let Settled::RecordFault(failure) = job.settle(&request, None, &mut None).await? else {
            job.context.metrics.rows_inserted.inc_by(rows as u64);
            continue;
        };
        if pieces.len() > 1 {
            let right = pieces.split_off(pieces.len() / 2);
            waiting.extend([right, pieces]);
        } else if let Some(piece) = pieces.pop() {
            match piece.halves() {
                Some((left, right)) => waiting.extend([vec![right], vec![left]]),
                None => send_refused(job, &batch.mapping, &piece, &failure).await?,
            }
        }
    }
    Ok(())
}

async fn encode(job: &Job, batch: &Batch, pieces: &[Piece<'_>]) -> Request {
    let ranges: Vec<Range> = pieces.iter().map(|piece| piece.range.clone()).collect();
    let token = set_token(
        &job.context.group_id,
        &batch.cluster_id,
        &batch.mapping.hash,
        &ranges,
    );
    Request {
        sql: batch.mapping.insert_sql.clone(),
        settings: vec![("insert_deduplication_token".into(), token)],
        body: Encoding::start(pieces, job.context.compression)
            .finish()
            .await,
    }
}
