//! Step 1: what is there. Reads only; a read that fails is a value, so that status can still be told.
//!
//! Must not be here: writes, judgements.

use std::collections::BTreeMap;

use clickhouse_sink_crds::api::DdlMode;
use clickhouse_sink_crds::expression::volatile_function;
use clickhouse_sink_crds::table::{ObservedTable, TableDefinition};
use serde::Serialize;

use crate::catalog::rows::render_query;
use crate::catalog::{CatalogReading, TABLE_NAME};
use crate::controller::declaration::{Declaration, Expression, list_expressions};
use crate::controller::memory::Memory;
use crate::derived::check::list_texts;
use crate::derived::observe::{fetch_derived, fetch_group};
use crate::derived::{DerivedReading, GroupReading};
use crate::flat_view::{self, FlatReading};
use crate::fleet::{Fleet, FleetError, FleetState};
use crate::sql::check_expression;
use crate::warehouse::{Verdict, Warehouse, WarehouseError};

/// A reading, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum Reading<T> {
    /// It was read.
    Known(T),
    /// It could not be read.
    Unreachable(Unreachable),
}

/// Why something could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unreachable {
    /// A stable word.
    pub reason: &'static str,
    /// What was expected, what was found, what to do.
    pub message: String,
}

impl From<WarehouseError> for Unreachable {
    fn from(error: WarehouseError) -> Self {
        Self {
            reason: error.reason(),
            message: error.to_string(),
        }
    }
}

impl From<FleetError> for Unreachable {
    fn from(error: FleetError) -> Self {
        Self {
            reason: error.reason(),
            message: error.to_string(),
        }
    }
}

impl<T, E: Into<Unreachable>> From<Result<T, E>> for Reading<T> {
    fn from(result: Result<T, E>) -> Self {
        match result {
            Ok(value) => Self::Known(value),
            Err(error) => Self::Unreachable(error.into()),
        }
    }
}

/// What one reconcile saw.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Observation {
    /// What ClickHouse says.
    pub server: Reading<ServerReading>,
    /// What the fleet is.
    pub fleet: FleetState,
    /// What is remembered about the sink.
    pub memory: Reading<Memory>,
    /// What the consumer group has committed, where a change of a derived table waits for it.
    pub group: Option<GroupReading>,
}

/// What ClickHouse says.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServerReading {
    /// Its version.
    pub version: String,
    /// The database is there.
    pub has_database: bool,
    /// The table.
    pub table: Option<ObservedTable>,
    /// The table of rejected records.
    pub rejected: Option<ObservedTable>,
    /// Each expression that may be one, in the server's own form, or why not.
    pub canonical: BTreeMap<String, Verdict>,
    /// Each column's default as JSON, or why it has no constant value.
    pub defaults: BTreeMap<String, Verdict>,
    /// The derived tables, in the order of the declaration.
    pub derived: Vec<DerivedReading>,
    /// The flat view.
    pub flat: FlatReading,
    /// The catalog.
    pub catalog: CatalogReading,
}

/// Sees what is there.
pub async fn observe<W: Warehouse, F: Fleet>(
    warehouse: &W,
    fleet: &F,
    declaration: &Declaration,
) -> Observation {
    let server = fetch_server(warehouse, declaration).await.into();
    let state = fleet.fetch_state().await;
    Observation {
        group: fetch_group(warehouse, fleet, declaration, &server, &state).await,
        server,
        fleet: state,
        memory: fleet.fetch_memory().await.into(),
    }
}

/// What ClickHouse says.
///
/// # Errors
/// As the warehouse.
pub async fn fetch_server<W: Warehouse>(
    warehouse: &W,
    declaration: &Declaration,
) -> Result<ServerReading, WarehouseError> {
    let (expected, rejected) = (&declaration.expected, &declaration.rejected);
    let version = warehouse.fetch_version().await?;
    let texts = [expected, rejected].into_iter().flat_map(list_expressions);
    let texts = texts
        .map(|Expression { text, .. }| text)
        .chain(list_texts(declaration))
        .chain(flat_view::definition::list_texts(&declaration.sink));
    let canonical = fetch_canonical_forms(warehouse, texts).await?;
    Ok(ServerReading {
        version,
        has_database: warehouse.fetch_database_exists(&expected.database).await?,
        table: warehouse
            .fetch_table(&expected.database, &expected.name)
            .await?,
        rejected: warehouse
            .fetch_table(&rejected.database, &rejected.name)
            .await?,
        defaults: fetch_defaults(warehouse, expected, &canonical).await?,
        derived: fetch_derived(warehouse, declaration).await?,
        flat: fetch_flat(warehouse, declaration).await?,
        catalog: fetch_catalog(warehouse, declaration).await?,
        canonical,
    })
}

async fn fetch_flat<W: Warehouse>(
    warehouse: &W,
    declaration: &Declaration,
) -> Result<FlatReading, WarehouseError> {
    let view = declaration.sink.spec.flat_view.as_ref();
    let Some(view) = view.filter(|_| declaration.mode() != DdlMode::None) else {
        return Ok(FlatReading::default());
    };
    Ok(FlatReading {
        view: warehouse
            .fetch_view(&declaration.expected.database, &view.name)
            .await?,
        now_s: warehouse
            .fetch_count("SELECT toString(toUnixTimestamp(now())) AS value")
            .await?,
    })
}

async fn fetch_catalog<W: Warehouse>(
    warehouse: &W,
    declaration: &Declaration,
) -> Result<CatalogReading, WarehouseError> {
    let database = &declaration.expected.database;
    let table = warehouse.fetch_table(database, TABLE_NAME).await?;
    if table.is_none() {
        return Ok(CatalogReading::default());
    }
    let sql = render_query(database, &declaration.list_names());
    Ok(CatalogReading {
        table,
        rows: Some(warehouse.fetch_catalog(&sql).await?),
    })
}

/// Only a text that can be one expression, whatever stands around it, gets as far as the server.
async fn fetch_canonical_forms<W: Warehouse>(
    warehouse: &W,
    texts: impl Iterator<Item = String> + Send,
) -> Result<BTreeMap<String, Verdict>, WarehouseError> {
    let mut forms = BTreeMap::new();
    for text in texts {
        if check_expression(&text).is_ok() && !forms.contains_key(&text) {
            let form = warehouse.fetch_canonical(&text).await?;
            forms.insert(text, form);
        }
    }
    Ok(forms)
}

/// The value of each default that the server could parse and that does not change from call to call.
async fn fetch_defaults<W: Warehouse>(
    warehouse: &W,
    table: &TableDefinition,
    canonical: &BTreeMap<String, Verdict>,
) -> Result<BTreeMap<String, Verdict>, WarehouseError> {
    let mut defaults = BTreeMap::new();
    for column in &table.columns {
        let form = column.default.as_ref().and_then(|text| canonical.get(text));
        let Some(Ok(form)) = form else { continue };
        if volatile_function(form).is_none() {
            let value = warehouse.fetch_constant(form, &column.data_type).await?;
            defaults.insert(column.name.clone(), value);
        }
    }
    Ok(defaults)
}
