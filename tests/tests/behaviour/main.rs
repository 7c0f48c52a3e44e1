//! What the worker and local mode do with records, replies, tables and declarations, on the real components.
//!
//! Must not be here: crashes, outages and rebalances (`delivery`), the harness itself (`harness`).
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::float_cmp,
    reason = "a test; counts are whole numbers"
)]

mod answers;
mod columns;
mod fields;
mod limits;
mod local;
mod local_table;
mod local_workers;
mod rejected;
mod replay;
mod replies;
mod signals;
mod stalled;
mod support;
mod table;
