//! What `auto`, `validate` and `none` do with a table while workers run, on the real components.
//!
//! Must not be here: `--once` (`behaviour::local_table`), a worker without its operator (`behaviour::table`).
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod auto;
mod refused;
mod scene;
mod validate;
