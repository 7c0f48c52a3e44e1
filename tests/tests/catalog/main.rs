//! The catalog, owners and deletion on real servers.
#![allow(clippy::unwrap_used, clippy::panic)]

mod deletion;
mod owners;
mod rows;
mod scene;
