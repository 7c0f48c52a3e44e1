//! The contract of `ClickHouseSink`: what users declare, what the operator plans with, what workers run on.
//!
//! Must not be here: tokio, clients, clocks, I/O. Everything is a value or a pure function of values.

#![forbid(unsafe_code)]

pub mod api;
pub mod budget;
pub mod check;
pub mod clause;
pub mod codegen;
pub mod commit;
pub mod data_type;
pub mod ddl;
pub mod expression;
pub mod facts;
pub mod fingerprint;
pub mod group_plans;
pub mod lint;
pub mod manifest;
pub mod names;
pub mod nearest;
pub mod path;
pub mod quantity;
pub mod resolve;
pub mod schema;
pub mod select;
pub mod table;
pub mod validate;
pub mod violation;
pub mod worker_config;
