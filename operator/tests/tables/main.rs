//! Plans of tables against a real ClickHouse: random pairs of definitions converge, hostile names stay names, and nothing
//! destructive is ever planned.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test; the seed of a random run is printed"
)]

mod hostile;
mod pairs;
mod random;
mod safety;
mod server;
mod views;
