//! `/livez`, `/readyz`, `/metrics`, `/state`.
//!
//! Must not be here: what they say (`state.rs`, `metrics.rs`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use tokio::net::TcpListener;

use crate::insert::trouble::{Trouble, Troubles};
use crate::metrics::Metrics;
use crate::state::{
    HoldView, ShardView, TopicView, WorkerState, WorkerView, decide_liveness, decide_readiness,
};
use crate::table_watch::TableWatch;

/// What the handlers look at.
pub struct Observed {
    /// Namespace and name of the sink.
    pub sink: String,
    /// Hash of the mapping.
    pub mapping: String,
    /// Ceiling of all that is buffered.
    pub memory_budget_bytes: u64,
    /// The shards' views.
    pub state: Arc<WorkerState>,
    /// Waiting batches.
    pub troubles: Arc<Troubles>,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// The table's state.
    pub table: TableWatch,
}

#[derive(Serialize)]
struct Readiness {
    ready: bool,
    reasons: Vec<String>,
}

/// Serves until the process ends.
///
/// # Errors
/// Where the listener fails.
pub async fn run_http(listener: TcpListener, observed: Arc<Observed>) -> std::io::Result<()> {
    axum::serve(listener, build_router(observed)).await
}

fn build_router(observed: Arc<Observed>) -> Router {
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/state", get(state))
        .with_state(observed)
}

async fn livez(State(observed): State<Arc<Observed>>) -> Response {
    if decide_liveness(&observed.state.shards(), Instant::now()) {
        return (StatusCode::OK, "alive\n").into_response();
    }
    (
        StatusCode::SERVICE_UNAVAILABLE,
        "a shard's loop does not turn\n",
    )
        .into_response()
}

async fn readyz(State(observed): State<Arc<Observed>>) -> Response {
    let report = observed.table.report();
    let message = report.message();
    let table = (!report.is_as_declared()).then(|| (report.reason(), message.as_str()));
    let reasons = decide_readiness(
        &observed.state.shards(),
        observed.state.is_draining(),
        table,
    );
    let status = if reasons.is_empty() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (
        status,
        Json(Readiness {
            ready: reasons.is_empty(),
            reasons,
        }),
    )
        .into_response()
}

async fn metrics(State(observed): State<Arc<Observed>>) -> Response {
    let text = observed.metrics.render(&observed.view());
    (
        [(
            header::CONTENT_TYPE,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
        )],
        text,
    )
        .into_response()
}

async fn state(State(observed): State<Arc<Observed>>) -> Json<WorkerView> {
    Json(observed.view())
}

impl Observed {
    /// The worker at this moment.
    #[must_use]
    pub fn view(&self) -> WorkerView {
        let shards = self.state.shards();
        let now = Instant::now();
        let mut holds: Vec<HoldView> = shards
            .iter()
            .flat_map(|shard| shard.holds.clone())
            .collect();
        holds.extend(
            self.troubles
                .list()
                .iter()
                .filter(|trouble| trouble.class.is_hold())
                .map(|trouble| hold_of(trouble, now)),
        );
        WorkerView {
            sink: self.sink.clone(),
            mapping: self.mapping.clone(),
            sessions: shards
                .iter()
                .flat_map(|shard| shard.sessions.clone())
                .collect(),
            topics: topics(&shards),
            holds,
            rows_inserted: self.metrics.rows_inserted.get(),
            rejected: self.metrics.rejected_total(),
            buffered_bytes: sum(&shards, |shard| shard.buffered_bytes),
            memory_budget_bytes: self.memory_budget_bytes,
            in_flight: shards.iter().map(|shard| shard.in_flight).sum(),
            draining: self.state.is_draining(),
        }
    }
}

fn topics(shards: &[ShardView]) -> Vec<TopicView> {
    let all: BTreeSet<TopicView> = shards
        .iter()
        .flat_map(|shard| shard.topics.clone())
        .collect();
    all.into_iter().collect()
}

fn sum(shards: &[ShardView], value: impl Fn(&ShardView) -> u64) -> u64 {
    shards.iter().map(value).sum()
}

fn hold_of(trouble: &Trouble, now: Instant) -> HoldView {
    HoldView {
        partition: trouble.partitions.join(","),
        reason: trouble.reason,
        id: format!("{}-{}", trouble.reason, trouble.partitions.join(",")),
        since_seconds: now.saturating_duration_since(trouble.since).as_secs(),
        message: trouble.message.clone(),
    }
}
