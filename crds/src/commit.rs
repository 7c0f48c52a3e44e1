//! The metadata of a Kafka commit: where a partition stands and which ranges are in flight.
//!
//! Must not be here: sending commits, deciding what to commit.
