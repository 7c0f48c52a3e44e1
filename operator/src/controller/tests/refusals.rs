//! What apply makes of a server that refuses a statement.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;

use clickhouse_sink_crds::ddl::Alteration;
use clickhouse_sink_crds::group_plans::GroupPlans;
use clickhouse_sink_crds::table::{Engine, ObservedTable, TableDefinition};
use clickhouse_sink_crds::worker_config::WorkerConfig;

use crate::catalog::{CatalogPlan, CatalogRow};
use crate::controller::apply::{Applied, apply};
use crate::controller::memory::Memory;
use crate::controller::plan::{FleetStep, Plan};
use crate::ddl::DdlStep;
use crate::derived::DerivedPlan;
use crate::flat_view::FlatPlan;
use crate::fleet::{Fleet, FleetError, FleetSpec, FleetState};
use crate::warehouse::{Account, FoundView, SelectShape, Verdict, Warehouse, WarehouseError};

/// Answers each statement with the next code; 0, and when they are used up: done.
struct Scripted {
    codes: Mutex<Vec<u32>>,
    asked: Mutex<Vec<String>>,
}

impl Scripted {
    fn new(codes: &[u32]) -> Self {
        Self {
            codes: Mutex::new(codes.iter().rev().copied().collect()),
            asked: Mutex::default(),
        }
    }
}

fn unused<T>() -> Result<T, WarehouseError> {
    panic!("apply only writes")
}

impl Warehouse for Scripted {
    async fn fetch_version(&self) -> Result<String, WarehouseError> {
        unused()
    }

    async fn fetch_database_exists(&self, _: &str) -> Result<bool, WarehouseError> {
        unused()
    }

    async fn fetch_table(&self, _: &str, _: &str) -> Result<Option<ObservedTable>, WarehouseError> {
        unused()
    }

    async fn fetch_canonical(&self, _: &str) -> Result<Verdict, WarehouseError> {
        unused()
    }

    async fn fetch_constant(&self, _: &str, _: &str) -> Result<Verdict, WarehouseError> {
        unused()
    }

    async fn fetch_select(
        &self,
        _: &str,
        _: &TableDefinition,
    ) -> Result<Result<SelectShape, String>, WarehouseError> {
        unused()
    }

    async fn fetch_view(&self, _: &str, _: &str) -> Result<Option<FoundView>, WarehouseError> {
        unused()
    }

    async fn fetch_partitions(
        &self,
        _: &str,
        _: &str,
    ) -> Result<Vec<(String, u64)>, WarehouseError> {
        unused()
    }

    async fn fetch_count(&self, _: &str) -> Result<u64, WarehouseError> {
        unused()
    }

    async fn fetch_catalog(
        &self,
        _: &str,
    ) -> Result<Result<Vec<CatalogRow>, String>, WarehouseError> {
        unused()
    }

    async fn apply_statement(&self, sql: &str) -> Result<(), WarehouseError> {
        self.asked.lock().unwrap().push(sql.to_owned());
        match self.codes.lock().unwrap().pop() {
            None | Some(0) => Ok(()),
            Some(code) => Err(WarehouseError::Server {
                code,
                message: "no".to_owned(),
            }),
        }
    }
}

/// Counts how often it is scaled.
#[derive(Default)]
struct Counted(Mutex<u32>);

impl Fleet for Counted {
    fn locate_credentials(&self, _: &Account) -> PathBuf {
        PathBuf::new()
    }

    fn locate_facts(&self) -> Option<PathBuf> {
        None
    }

    async fn fetch_memory(&self) -> Result<Memory, FleetError> {
        Ok(Memory::default())
    }

    async fn apply_memory(&self, _: &Memory) -> Result<(), FleetError> {
        Ok(())
    }

    async fn fetch_plans(&self, _: &WorkerConfig) -> Result<GroupPlans, FleetError> {
        Ok(GroupPlans::default())
    }

    async fn fetch_state(&self) -> FleetState {
        FleetState::default()
    }

    async fn apply_replicas(&self, _: u32) -> Result<(), FleetError> {
        *self.0.lock().unwrap() += 1;
        Ok(())
    }

    async fn apply(&self, _: &FleetSpec, _: Option<&Account>) -> Result<(), FleetError> {
        Ok(())
    }
}

fn alter(needed: bool) -> DdlStep {
    DdlStep::AlterTable {
        definition: Box::new(TableDefinition {
            database: "ops".to_owned(),
            name: "events".to_owned(),
            engine: Engine::MergeTree,
            columns: Vec::new(),
            order_by: Vec::new(),
            partition_by: None,
            ttl: None,
            settings: BTreeMap::new(),
            indexes: Vec::new(),
            cluster: None,
        }),
        change: Alteration::RemoveTtl,
        needed,
    }
}

/// What was done, how many statements were sent, how often the fleet was scaled.
async fn run(codes: &[u32], needed: bool) -> (Applied, usize, u32) {
    let (warehouse, fleet) = (Scripted::new(codes), Counted::default());
    let plan = Plan {
        ddl: vec![alter(needed)],
        held: Vec::new(),
        warnings: Vec::new(),
        window: None,
        derived: DerivedPlan::default(),
        fleet: FleetStep::Scale { replicas: 1 },
        memory: None,
        flat: FlatPlan::default(),
        catalog: CatalogPlan::default(),
        notes: Vec::new(),
        requeue_ms: 1,
    };
    let applied = apply(&warehouse, &fleet, None, &plan).await;
    let asked = warehouse.asked.lock().unwrap().len();
    let scaled = *fleet.0.lock().unwrap();
    (applied, asked, scaled)
}

#[tokio::test]
async fn a_statement_that_meets_another_one_is_sent_again() {
    for code in [473, 517] {
        let (applied, asked, scaled) = run(&[code, code], true).await;
        assert_eq!((applied.failed, asked, scaled), (None, 3, 1));
        let (applied, asked, scaled) = run(&[code; 9], true).await;
        assert_eq!((asked, scaled), (3, 0));
        assert_eq!(applied.failed.unwrap().why.reason, "ClickHouseRefused");
    }
}

#[tokio::test]
async fn what_somebody_else_has_made_meanwhile_is_looked_at_again() {
    for code in [15, 57] {
        let (applied, asked, scaled) = run(&[code], true).await;
        assert_eq!((applied.failed, asked, scaled), (None, 1, 1));
    }
}

#[tokio::test]
async fn workers_wait_only_for_a_statement_that_they_need() {
    let (applied, _, scaled) = run(&[497], true).await;
    assert_eq!((applied.failed.is_some(), scaled), (true, 0));
    let (applied, _, scaled) = run(&[497], false).await;
    assert_eq!((applied.failed.is_some(), scaled), (true, 1));
    assert_eq!(applied.done.len(), 1);
}
