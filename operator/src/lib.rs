//! The operator: it observes, validates, plans and applies what a sink declares, and runs the fleet of workers.
//!
//! Must not be here: record handling.

#![forbid(unsafe_code)]

pub mod catalog;
pub mod cli;
pub mod controller;
pub mod ddl;
pub mod derived;
pub mod flat_view;
pub mod fleet;
pub mod lint;
pub mod local;
pub mod ownership;
pub mod sql;
pub mod warehouse;
