//! Flat views on real servers: one definition stands, whoever else has another; and what people read of a table.
#![allow(clippy::unwrap_used, clippy::panic)]

mod fights;
mod names;
mod reads;
mod roll;
mod scene;
