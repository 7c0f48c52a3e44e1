//! Mappings: everything that turns payload bytes into rows, the present one and those that a declared range may name.
//!
//! Must not be here: decoding, sending.

use std::sync::Arc;

use clickhouse_sink_crds::fingerprint::mapping_hash;
use clickhouse_sink_crds::worker_config::{RecordFormat, TargetTable, WorkerConfig};

use crate::schema::{Schema, SchemaError};

/// Goes up with every change of what the same bytes under the same mapping become.
pub const DECODER_VERSION: u32 = 1;

/// One mapping, ready for use.
#[derive(Debug)]
pub struct Mapping {
    /// Names it in commits and dead letters.
    pub hash: String,
    /// The compiled mapping.
    pub schema: Arc<Schema>,
    /// `INSERT INTO db.table (columns) FORMAT Native`.
    pub insert_sql: String,
}

/// All mappings that a worker knows.
#[derive(Clone, Debug)]
pub struct Mappings {
    current: Arc<Mapping>,
    earlier: Arc<[Arc<Mapping>]>,
}

impl Mappings {
    /// Compiles the present mapping and the earlier ones.
    ///
    /// # Errors
    /// The first mapping that does not compile.
    pub fn compile(config: &WorkerConfig) -> Result<Self, SchemaError> {
        let earlier = config
            .earlier
            .iter()
            .map(|earlier| Mapping::compile(&earlier.table, &earlier.format).map(Arc::new));
        Ok(Self {
            current: Arc::new(Mapping::compile(&config.table, &config.format)?),
            earlier: earlier.collect::<Result<_, _>>()?,
        })
    }

    /// The present one.
    #[must_use]
    pub const fn current(&self) -> &Arc<Mapping> {
        &self.current
    }

    /// The one with this hash.
    #[must_use]
    pub fn find(&self, hash: &str) -> Option<&Arc<Mapping>> {
        std::iter::once(&self.current)
            .chain(self.earlier.iter())
            .find(|mapping| mapping.hash == hash)
    }
}

impl Mapping {
    fn compile(table: &TargetTable, format: &RecordFormat) -> Result<Self, SchemaError> {
        let schema = Schema::compile(table, format)?;
        Ok(Self {
            hash: mapping_hash(table, format, DECODER_VERSION),
            insert_sql: render_insert(table, &schema),
            schema: Arc::new(schema),
        })
    }
}

fn render_insert(table: &TargetTable, schema: &Schema) -> String {
    let columns = schema.insert_columns();
    let names: Vec<String> = columns
        .iter()
        .map(|(name, _)| quote_identifier(name))
        .collect();
    let (database, name) = (
        quote_identifier(&table.expected.database),
        quote_identifier(&table.expected.name),
    );
    format!(
        "INSERT INTO {database}.{name} ({}) FORMAT Native",
        names.join(", ")
    )
}

/// A name as ClickHouse reads it back unchanged, whatever is in it.
#[must_use]
pub fn quote_identifier(name: &str) -> String {
    format!("`{}`", name.replace('\\', "\\\\").replace('`', "\\`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_name_stays_one_identifier() {
        assert_eq!(
            quote_identifier("a`; DROP TABLE t; --\\"),
            "`a\\`; DROP TABLE t; --\\\\`"
        );
    }
}
