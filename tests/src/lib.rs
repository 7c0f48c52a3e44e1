//! The harness: a stack of real components, proxies for faults, helpers of the scenario tests, developer tasks.
//!
//! Must not be here: product code, the scenarios themselves (those are in `tests/tests/`).

#![forbid(unsafe_code)]

pub mod components;
pub mod http;
pub mod paths;
pub mod ports;
pub mod process;
pub mod proxy;
pub mod run;
pub mod stack;
pub mod tasks;
