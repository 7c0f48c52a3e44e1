//! What is there of derived tables, and, while no worker runs, what the consumer group has committed. Reads only.
//!
//! Must not be here: writes, judgements.

use clickhouse_sink_crds::api::{Backfill, DdlMode};
use clickhouse_sink_crds::group_plans::GroupPlans;
use clickhouse_sink_crds::resolve::{ResolveInputs, resolve};
use clickhouse_sink_crds::table::{ObservedTable, TableDefinition};
use clickhouse_sink_crds::validate::views::view_name;
use serde::Serialize;

use crate::controller::declaration::Declaration;
use crate::controller::observe::{Reading, ServerReading};
use crate::derived::decide::{Decision, decide_all};
use crate::derived::sql::{render_count, render_count_beyond};
use crate::fleet::{Fleet, FleetState};
use crate::warehouse::{FoundView, SelectShape, Warehouse, WarehouseError};

/// One derived table, in the order of the declaration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DerivedReading {
    /// The declared SELECT as the server reads it, or why it is none.
    pub shape: Result<SelectShape, String>,
    /// The table.
    pub target: Option<ObservedTable>,
    /// Its rows; looked at only where its view is missing.
    pub target_rows: u64,
    /// The materialized view.
    pub view: Option<FoundView>,
}

/// What the consumer group has committed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupReading {
    /// Read just now, with all workers stopped; else what it was when they were.
    pub is_fresh: bool,
    /// The group.
    pub plans: Reading<GroupPlans>,
    /// The source, where a backfill is to begin.
    pub source: Option<Reading<SourceReading>>,
}

/// The sink's table, as far as a backfill needs it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SourceReading {
    /// Id and rows of each partition.
    pub partitions: Vec<(String, u64)>,
    /// Rows at or beyond the committed offsets; none can be there while no plan is open, unless offsets began anew.
    pub beyond: u64,
}

/// Reads all derived tables; none where no table is looked at.
///
/// # Errors
/// As the warehouse.
pub async fn fetch_derived<W: Warehouse>(
    warehouse: &W,
    declaration: &Declaration,
) -> Result<Vec<DerivedReading>, WarehouseError> {
    let mut readings = Vec::new();
    if declaration.mode() == DdlMode::None {
        return Ok(readings);
    }
    let source = &declaration.expected;
    for derived in &declaration.sink.spec.derived {
        let view = warehouse
            .fetch_view(&source.database, &view_name(&derived.name))
            .await?;
        let target = warehouse
            .fetch_table(&source.database, &derived.name)
            .await?;
        let target_rows = if view.is_none() && target.is_some() {
            let sql = render_count(&source.database, &derived.name);
            warehouse.fetch_count(&sql).await?
        } else {
            0
        };
        readings.push(DerivedReading {
            shape: warehouse.fetch_select(&derived.select, source).await?,
            target,
            target_rows,
            view,
        });
    }
    Ok(readings)
}

/// Reads the group where a change waits for it; else only remembers, or forgets, what was read.
pub async fn fetch_group<W: Warehouse, F: Fleet>(
    warehouse: &W,
    fleet: &F,
    declaration: &Declaration,
    server: &Reading<ServerReading>,
    state: &FleetState,
) -> Option<GroupReading> {
    let Reading::Known(server) = server else {
        return None;
    };
    let decisions = decide_all(declaration, server, state, None);
    if decisions.contains(&Decision::Ask) {
        let inputs = ResolveInputs {
            uid: declaration.uid.clone(),
            default_group_id: declaration.default_group_id.clone(),
            ..ResolveInputs::default()
        };
        let plans = fleet
            .fetch_plans(&resolve(&declaration.sink, &inputs))
            .await;
        let source = match &plans {
            Ok(plans) if is_quiet(plans) && begins_backfill(declaration, server) => Some(
                fetch_source(warehouse, &declaration.expected, plans)
                    .await
                    .into(),
            ),
            _ => None,
        };
        return Some(GroupReading {
            is_fresh: true,
            plans: plans.into(),
            source,
        });
    }
    let waits = |decision: &Decision| matches!(decision, Decision::Drain | Decision::Wait(_));
    if !decisions.iter().any(waits) {
        fleet.forget_plans();
        return None;
    }
    fleet.recall_plans().map(|plans| GroupReading {
        is_fresh: false,
        plans: Reading::Known(plans),
        source: None,
    })
}

/// No member and no open plan: nothing will be inserted until workers are started.
#[must_use]
pub fn is_quiet(plans: &GroupPlans) -> bool {
    plans.members == 0 && plans.describe_open().is_none()
}

fn begins_backfill(declaration: &Declaration, server: &ServerReading) -> bool {
    let derived = declaration.sink.spec.derived.iter().zip(&server.derived);
    derived
        .into_iter()
        .any(|(spec, reading)| spec.backfill == Backfill::Once && reading.view.is_none())
}

async fn fetch_source<W: Warehouse>(
    warehouse: &W,
    source: &TableDefinition,
    plans: &GroupPlans,
) -> Result<SourceReading, WarehouseError> {
    let beyond = render_count_beyond(source, &plans.bounds());
    Ok(SourceReading {
        beyond: warehouse.fetch_count(&beyond).await?,
        partitions: warehouse
            .fetch_partitions(&source.database, &source.name)
            .await?,
    })
}
