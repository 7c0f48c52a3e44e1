//! Decodes rejected records with the present mapping and inserts those that make a row, one by one.
//!
//! Must not be here: what is written to the rejected table (`ask.rs`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clickhouse::Client;
use clickhouse_sink_crds::worker_config::{Compression, Tombstones, WorkerConfig};

use super::group::{Cause, Group, GroupOutcome, Open};
use crate::compress::compress_body;
use crate::decode::{Decoder, RecordPosition, RejectCode, Rejection};
use crate::insert::backoff::decide_backoff;
use crate::insert::class::{Failure, FailureClass};
use crate::insert::client::{Request, send_once};
use crate::mapping::Mapping;
use crate::native::BlockBuilder;
use crate::table_watch::TableWatch;

/// Attempts of one INSERT where the server is overloaded or does not answer: some minutes.
const MOST_ATTEMPTS: u32 = 14;

/// Sends records.
pub(super) struct Sender {
    client: Client,
    mapping: Arc<Mapping>,
    decoder: Decoder,
    builder: BlockBuilder,
    table: TableWatch,
    cluster_id: String,
    group_id: String,
    compression: Compression,
    tombstones: Tombstones,
    timeout: Duration,
}

impl Sender {
    pub(super) fn new(
        client: Client,
        config: &WorkerConfig,
        mapping: Arc<Mapping>,
        table: TableWatch,
        cluster_id: String,
    ) -> Self {
        Self {
            client,
            decoder: Decoder::new(Arc::clone(&mapping.schema)),
            builder: BlockBuilder::new(Arc::clone(&mapping.schema)),
            mapping,
            table,
            cluster_id,
            group_id: config.kafka.group_id.clone(),
            compression: config.batch.compression,
            tombstones: config.format.tombstones,
            timeout: Duration::from_secs(u64::from(config.delivery.insert_timeout_seconds)),
        }
    }

    /// Sends what the table does not have; returns once each record is a row, or is known not to become one.
    pub(super) async fn send_missing(
        &mut self,
        group: &Group,
        there: &BTreeSet<(u64, i64)>,
    ) -> Result<GroupOutcome, Failure> {
        let mut outcome = GroupOutcome::default();
        for record in &group.records {
            if there.contains(&(record.offset, record.timestamp_ms)) {
                outcome.already_there += 1;
                outcome.done.push(record.offset);
                continue;
            }
            match self.send(record).await? {
                Ok(Sent::Row) => outcome.replayed += 1,
                Ok(Sent::NoRow) => outcome.skipped += 1,
                Err(cause) => {
                    outcome.reject(record, cause);
                    continue;
                }
            }
            outcome.done.push(record.offset);
        }
        Ok(outcome)
    }

    async fn send(&mut self, record: &Open) -> Result<Result<Sent, Cause>, Failure> {
        if record.cause.code == RejectCode::Tombstone.as_str() && record.payload.is_empty() {
            return Ok(match self.tombstones {
                Tombstones::Skip => Ok(Sent::NoRow),
                Tombstones::Reject => Err(record.cause.clone()),
            });
        }
        let request = match self.encode(record) {
            Ok(request) => request,
            Err(rejection) => return Ok(Err(self.cause_of(&rejection))),
        };
        match self.insert(&request).await {
            Ok(()) => Ok(Ok(Sent::Row)),
            Err(failure) if failure.class == FailureClass::RecordFault => {
                Ok(Err(self.refused_by_server(&failure)))
            }
            Err(failure) => Err(failure),
        }
    }

    fn encode(&mut self, record: &Open) -> Result<Request, Rejection> {
        let at = RecordPosition {
            topic: &record.place.topic,
            partition: i32::try_from(record.place.partition).unwrap_or(i32::MAX),
            offset: i64::try_from(record.offset).unwrap_or(i64::MAX),
            timestamp_ms: record.timestamp_ms,
        };
        self.decoder
            .decode(&record.payload, &at, &mut self.builder)?;
        let mut native = Vec::new();
        self.builder.finish().write_native(&mut native);
        let mut settings = self.table.settings();
        settings.push(("insert_deduplication_token".into(), self.token(record)));
        Ok(Request {
            sql: self.mapping.insert_sql.clone(),
            settings,
            body: Bytes::from(compress_body(&native, self.compression)),
        })
    }

    fn token(&self, record: &Open) -> String {
        let place = &record.place;
        format!(
            "cs1/{}/{}/{}/{}/{}/r{}",
            self.group_id,
            place.epoch,
            self.cluster_id,
            place.topic_id,
            place.partition,
            record.offset
        )
    }

    /// The same bytes under the same token, until it is acknowledged or surely refused.
    async fn insert(&self, request: &Request) -> Result<(), Failure> {
        let mut failures = 0;
        loop {
            let query_id = self.table.next_query_id(0);
            let Err(failure) = send_once(&self.client, request, query_id, self.timeout).await
            else {
                return Ok(());
            };
            failures += 1;
            let again = matches!(
                failure.class,
                FailureClass::OutcomeUnknown | FailureClass::Retry
            );
            if !again || failures == MOST_ATTEMPTS {
                return Err(failure);
            }
            tokio::time::sleep(decide_backoff(failures, crate::random())).await;
        }
    }

    fn cause_of(&self, rejection: &Rejection) -> Cause {
        Cause {
            column: rejection.column.clone().unwrap_or_default(),
            reason: rejection.message.clone(),
            code: rejection.code.as_str().to_owned(),
            mapping: self.mapping.hash.clone(),
        }
    }

    fn refused_by_server(&self, failure: &Failure) -> Cause {
        Cause {
            column: String::new(),
            reason: failure.message.clone(),
            code: RejectCode::RefusedByServer.as_str().to_owned(),
            mapping: self.mapping.hash.clone(),
        }
    }
}

enum Sent {
    Row,
    NoRow,
}
