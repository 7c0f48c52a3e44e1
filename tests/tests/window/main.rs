//! The deduplication window and the verification of declared ranges, on a real server.
//!
//! Must not be here: Kafka, the worker's own insert path (`delivery`).
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test; times are told to whoever reads its output"
)]

mod doubts;
mod keys;
mod ranges;
mod support;
mod usage;
