//! The contract of `ClickHouseSink`: what users declare, what the operator plans with, what workers run on.
//!
//! Must not be here: tokio, clients, clocks, I/O. Everything is a value or a pure function of values.

#![forbid(unsafe_code)]

pub mod budget;
pub mod commit;
pub mod data_type;
pub mod fingerprint;
pub mod nearest;
pub mod table;
pub mod worker_config;
