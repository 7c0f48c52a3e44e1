//! DDL: which statements bring a table from what is there to what is declared.
//!
//! Must not be here: running them, reading the server. Expressions come canonical from the server (`observe.rs`); the
//! statements' text is the contract crate's (`ddl`), since a worker shows it too.

pub use clickhouse_sink_crds::ddl::render_create_table;
pub use plan::{TableCase, TablesPlan, plan_ddl, plan_tables};
pub use step::DdlStep;

mod plan;
mod step;
