//! The sink worker: Kafka records into a ClickHouse table, nothing lost.
//!
//! `source → decode → batch → encode → insert → acknowledge → commit`, per partition, in order.
//! Must not be here: the Kubernetes API, DDL.

#![deny(unsafe_code)]

pub mod alloc;
pub mod batch;
pub mod boot;
pub mod clock;
pub mod column;
pub mod compress;
pub mod dead_letter;
pub mod decode;
pub mod facts_watch;
pub mod http;
pub mod insert;
pub mod kafka;
pub mod lane;
pub mod mapping;
pub mod metrics;
pub mod native;
pub mod pace;
pub mod pipeline;
pub mod plans;
pub mod reject_rate;
pub mod replay;
pub mod schema;
pub mod session;
pub mod shard;
pub mod state;
pub mod table_watch;
pub mod verify;
pub mod window;

use std::hash::{BuildHasher, RandomState};

/// A random number, from the standard library's own seeding; for epochs, jitter and ids, not for secrets.
#[must_use]
pub fn random() -> u64 {
    RandomState::new().hash_one(0_u8)
}
