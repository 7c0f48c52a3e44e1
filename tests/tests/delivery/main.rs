//! What is promised about every record, shown on the real components: crashes, stops, outages, rebalances, positions.
//!
//! Must not be here: how values are decoded, what the table looks like.
#![allow(clippy::unwrap_used, reason = "a test")]

mod crash;
mod kafka_outage;
mod keys;
mod once;
mod outage;
mod ownership;
mod positions;
mod rebalance;
mod stop;
mod supervisor;
mod support;
mod zombie;
