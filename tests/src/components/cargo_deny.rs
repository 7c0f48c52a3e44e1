//! `cargo-deny`, where the person has none.
