//! The sink worker: Kafka records into a ClickHouse table, nothing lost.
//!
//! `source → decode → batch → encode → insert → acknowledge → commit`, per partition, in order.
//! Must not be here: the Kubernetes API, DDL.

#![deny(unsafe_code)]

pub mod kafka;
