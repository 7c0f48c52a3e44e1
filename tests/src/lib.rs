//! The harness: a stack of real components, proxies for faults, helpers of the scenario tests, developer tasks.
//!
//! Must not be here: product code, the scenarios themselves (those are in `tests/tests/`).

#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    reason = "the harness waits for other processes, which nothing but asking again can do"
)]

pub mod chaos;
pub mod clickhouse;
pub mod components;
pub mod cost;
pub mod demo;
pub mod env;
pub mod http;
pub mod kafka;
pub mod metrics;
pub mod paths;
pub mod ports;
pub mod process;
pub mod produce;
pub mod programs;
pub mod proxy;
pub mod run;
pub mod simulate;
pub mod sink;
pub mod stack;
pub mod tasks;
pub mod wait;
