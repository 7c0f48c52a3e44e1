//! One batch on its way: attempts, waits between them, what people are told meanwhile.
//!
//! Must not be here: the order of a batch's steps (`gated.rs`, `shared.rs`), what a code means (`class.rs`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::backoff::decide_backoff;
use super::class::{Failure, FailureClass};
use super::client::{Request, send_once};
use super::gate::{Closed, Gate};
use super::run::InsertContext;
use crate::batch::Batch;
use crate::metrics::ClassLabel;
use crate::session::gate::MaySend;
use crate::table_watch::TableReport;

/// What a task for one batch, or for the gaps of one partition, carries along.
pub(super) struct Job {
    pub(super) context: Arc<InsertContext>,
    pub(super) id: u64,
    pub(super) gate: Gate,
    partitions: Vec<String>,
}

/// When the last attempt whose outcome is not known has ended on the server; `None`: all were refused as a whole.
pub(super) type Doubt = Option<Instant>;

/// How a request ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// The rows are in the table.
    Landed,
    /// A record is at fault, and the table is as declared.
    RecordFault(Failure),
}

impl Job {
    pub(super) fn new(context: &Arc<InsertContext>, batch: &Batch) -> Self {
        let partitions = batch
            .parts
            .iter()
            .map(|part| format!("{}/{}", part.topic, part.range.partition));
        Self {
            context: Arc::clone(context),
            id: batch.id,
            gate: Gate::new(batch.gate.clone()),
            partitions: partitions.collect(),
        }
    }

    /// A job for one partition that no gate stops.
    pub(super) fn ungated(context: &Arc<InsertContext>, id: u64, partition: String) -> Self {
        Self {
            context: Arc::clone(context),
            id,
            gate: Gate::new(None),
            partitions: vec![partition],
        }
    }

    /// Tries a request until its rows are there or a record in it is at fault. Each attempt needs the gate open, and the
    /// range declared where there is one. An attempt that may have landed leaves a doubt.
    pub(super) async fn settle(
        &self,
        request: &Request,
        range: Option<(i64, i64)>,
        doubt: &mut Doubt,
    ) -> Result<Settled, Closed> {
        let mut failures = 0;
        loop {
            let report = self.gate.or_closed(self.wait_for_table()).await?;
            let Err(failure) = self.attempt(&self.pinned(request), range).await? else {
                self.went_through();
                return Ok(Settled::Landed);
            };
            failures += 1;
            if !failure.is_definite() {
                *doubt = (*doubt).max(Some(Instant::now() + self.context.attempt_ends_after));
            }
            // Readiness learns of an outage by this look.
            self.context.table.check_now();
            if self.is_records_fault(&failure, report.sequence).await? {
                return Ok(Settled::RecordFault(failure));
            }
            self.wait_after(&failure, failure.class.reason(), failures)
                .await?;
        }
    }

    /// The closed list of codes, and only where a fresh look says that the table is as declared.
    async fn is_records_fault(&self, failure: &Failure, sequence: u64) -> Result<bool, Closed> {
        if !matches!(
            failure.class,
            FailureClass::TableCheck | FailureClass::RecordFault
        ) {
            return Ok(false);
        }
        let report = self.gate.or_closed(self.check_again(sequence)).await?;
        Ok(report.is_as_declared() && failure.class == FailureClass::RecordFault)
    }

    /// One attempt, as soon as the gate and a free place allow it. One that runs while the gate is closed is let end, and
    /// its result is nobody's any more.
    pub(super) async fn attempt(
        &self,
        request: &Request,
        range: Option<(i64, i64)>,
    ) -> Result<Result<(), Failure>, Closed> {
        loop {
            if let Some(range) = range {
                self.gate.opened(range).await?;
            }
            let place = self.gate.or_closed(self.context.places.acquire()).await?;
            match self.gate.may_send(range) {
                MaySend::Never => return Err(Closed),
                // The declaration grew old while this waited for a place.
                MaySend::NotYet => continue,
                MaySend::Yes => {}
            }
            let result = send_counted(&self.context, request).await;
            drop(place);
            return if self.gate.is_closed() {
                Err(Closed)
            } else {
                Ok(result)
            };
        }
    }

    /// Asks until there is an answer.
    pub(super) async fn ask<T, Q>(&self, question: impl Fn() -> Q) -> Result<T, Closed>
    where
        Q: Future<Output = Result<T, Failure>>,
    {
        let mut failures = 0;
        loop {
            match self.gate.or_closed(question()).await? {
                Ok(answer) => {
                    self.went_through();
                    return Ok(answer);
                }
                Err(failure) => {
                    failures += 1;
                    self.wait_after(&failure, failure.class.reason(), failures)
                        .await?;
                }
            }
        }
    }

    /// The request with the settings that fit the table as it is now: it may have changed since the last try.
    fn pinned(&self, request: &Request) -> Request {
        let settings = [self.context.table.settings(), request.settings.clone()].concat();
        Request {
            settings,
            ..request.clone()
        }
    }

    /// Waits until the table is known to be as declared; says why while it waits.
    async fn wait_for_table(&self) -> Arc<TableReport> {
        let mut reports = self.context.table.subscribe();
        loop {
            let report = Arc::clone(&reports.borrow_and_update());
            if report.writable {
                return report;
            }
            self.note(&report.as_failure(), report.reason());
            next_report(&mut reports).await;
        }
    }

    /// Has the table looked at, and waits for an answer newer than `sequence`.
    async fn check_again(&self, sequence: u64) -> Arc<TableReport> {
        let mut reports = self.context.table.subscribe();
        self.context.table.check_now();
        loop {
            let report = Arc::clone(&reports.borrow_and_update());
            if report.sequence > sequence && !report.is_unknown() {
                return report;
            }
            next_report(&mut reports).await;
        }
    }

    /// Tells why, then backs off.
    pub(super) async fn wait_after(
        &self,
        failure: &Failure,
        reason: &'static str,
        failures: u32,
    ) -> Result<(), Closed> {
        self.note(failure, reason);
        self.pause(decide_backoff(failures, crate::random())).await
    }

    pub(super) async fn pause(&self, wait: Duration) -> Result<(), Closed> {
        self.gate.or_closed(tokio::time::sleep(wait)).await
    }

    /// Tells people, and logs where the class of the trouble is new.
    fn note(&self, failure: &Failure, reason: &'static str) {
        let is_new = self.context.troubles.note(
            self.key(),
            failure,
            reason,
            &self.partitions,
            Instant::now(),
        );
        if is_new {
            tracing::warn!(batch = self.id, reason, code = failure.code, error = %failure.message, "An insert waits and is tried again.");
        }
    }

    pub(super) fn went_through(&self) {
        if self.context.troubles.clear(self.key()) {
            tracing::info!(batch = self.id, "An insert that waited went through.");
        }
    }

    fn key(&self) -> (usize, u64) {
        (self.context.shard, self.id)
    }
}

impl Drop for Job {
    /// However it ended, nothing waits for it any more.
    fn drop(&mut self) {
        self.context.troubles.clear(self.key());
    }
}

async fn send_counted(context: &InsertContext, request: &Request) -> Result<(), Failure> {
    let started = Instant::now();
    let query_id = context.table.next_query_id(context.shard);
    let result = send_once(&context.client, request, query_id, context.timeout).await;
    let metrics = &context.metrics;
    metrics
        .attempt_seconds
        .observe(started.elapsed().as_secs_f64());
    match &result {
        Ok(()) => {
            metrics.inserts.inc();
            metrics.bytes_sent.inc_by(request.body.len() as u64);
        }
        Err(failure) => {
            let label = ClassLabel {
                class: failure.class.reason(),
            };
            metrics.retries.get_or_create(&label).inc();
        }
    }
    result
}

async fn next_report(reports: &mut watch::Receiver<Arc<TableReport>>) {
    if reports.changed().await.is_err() {
        // The watch ends only with the process.
        std::future::pending::<()>().await;
    }
}
