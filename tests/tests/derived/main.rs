//! Derived tables on the real components: examples, changes under flow, backfills that are killed, hands in between; and
//! how a changed configuration reaches the workers.
//!
//! Must not be here: how records become rows.
#![allow(clippy::unwrap_used, reason = "a test")]

mod backfill;
mod changed;
mod examples;
mod hand;
mod modes;
mod roll;
mod selects;
mod support;
