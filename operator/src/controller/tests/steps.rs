//! The pure steps: validate, plan, status.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;

use clickhouse_sink_crds::group_plans::GroupPlans;
use clickhouse_sink_crds::manifest::{Manifest, parse_manifests};
use clickhouse_sink_crds::resolve::{expected_table, rejected_table};
use clickhouse_sink_crds::table::{ObservedColumn, ObservedTable, TableDefinition};
use clickhouse_sink_crds::worker_config::WorkerConfig;

use crate::catalog::{CatalogReading, CatalogRow};
use crate::controller::declaration::Declaration;
use crate::controller::memory::Memory;
use crate::controller::observe::{Observation, Reading, ServerReading, Unreachable};
use crate::controller::plan::{FleetStep, Places, Plan, build_plan};
use crate::controller::reconcile;
use crate::controller::validate::{Validation, validate};
use crate::flat_view::FlatReading;
use crate::fleet::{Fleet, FleetError, FleetSpec, FleetState};
use crate::ownership::plan_ownership;
use crate::warehouse::{Account, FoundView, SelectShape, Verdict, Warehouse, WarehouseError};

pub(crate) const SINK: &str = r#"
apiVersion: clickhouse-sink.io/v1alpha1
kind: ClickHouseSink
metadata: { name: events, namespace: test }
spec:
  replicas: 2
  kafka: { bootstrapServers: ["kafka-0:9092"], topics: [events] }
  clickhouse: { url: "http://127.0.0.1:8123", database: ops }
  table:
    name: events
    ddl: auto
    engine: { mergeTree: {} }
    partitionBy: toYYYYMM(at)
    orderBy: [id]
    columns:
      - { name: id, type: String }
      - { name: at, type: DateTime }
      - { name: status, type: String, default: "'raised'" }
"#;

pub(crate) fn declare(text: &str) -> Declaration {
    let manifests = parse_manifests(text, "sink.yaml").unwrap();
    let Manifest::Sink(sink) = manifests.into_iter().next().unwrap() else {
        panic!("no sink")
    };
    let mut rejected = rejected_table(&sink);
    rejected
        .columns
        .retain(|column| matches!(column.name.as_str(), "topic" | "rejected_at"));
    rejected.order_by = vec!["topic".to_owned()];
    Declaration {
        uid: "00000000-0000-5000-8000-000000000001".to_owned(),
        cluster: "00000000-0000-4000-8000-000000000002".to_owned(),
        siblings: vec!["test/events".to_owned()],
        default_group_id: "local.test.events".to_owned(),
        expected: expected_table(&sink),
        rejected,
        account: None,
        sink: *sink,
    }
}

/// A server without tables that can read every expression of [`SINK`].
pub(crate) fn server() -> ServerReading {
    let forms = ["toYYYYMM(at)", "'raised'"];
    ServerReading {
        version: "26.7.2.1".to_owned(),
        has_database: false,
        table: None,
        rejected: None,
        canonical: forms
            .iter()
            .map(|text| ((*text).to_owned(), Ok((*text).to_owned())))
            .collect(),
        defaults: BTreeMap::from([("status".to_owned(), Ok("\"raised\"".to_owned()))]),
        derived: Vec::new(),
        flat: FlatReading::default(),
        catalog: CatalogReading::default(),
    }
}

/// What the server would show of a table that is as declared.
pub(crate) fn found(table: &TableDefinition, engine: &str) -> ObservedTable {
    let columns = table.columns.iter().map(|column| ObservedColumn {
        name: column.name.clone(),
        data_type: column.data_type.clone(),
        default_kind: column
            .default
            .as_ref()
            .map(|_| "DEFAULT".to_owned())
            .unwrap_or_default(),
        default_expression: column.default.clone().unwrap_or_default(),
        comment: column.comment.clone().unwrap_or_default(),
        compression_codec: String::new(),
    });
    ObservedTable {
        uuid: "6d7c2c79-4c6c-4a28-a1e7-9eb625f0d8ea".to_owned(),
        engine: engine.split('(').next().unwrap().to_owned(),
        engine_full: format!(
            "{engine} SETTINGS non_replicated_deduplication_window = 100000, index_granularity = 8192"
        ),
        sorting_key: table.order_by.join(", "),
        partition_key: table.partition_by.clone().unwrap_or_default(),
        comment: String::new(),
        columns: columns.collect(),
        indexes: Vec::new(),
        views: Vec::new(),
    }
}

pub(crate) fn server_with_tables(declaration: &Declaration) -> ServerReading {
    let owned = |table: &TableDefinition, engine: &str| ObservedTable {
        comment: comment_of(declaration, &table.name),
        ..found(table, engine)
    };
    ServerReading {
        has_database: true,
        table: Some(owned(&declaration.expected, "MergeTree")),
        rejected: Some(owned(
            &declaration.rejected,
            "ReplacingMergeTree(rejected_at)",
        )),
        ..server()
    }
}

/// The comment that the declaration's own table gets.
fn comment_of(declaration: &Declaration, table: &str) -> String {
    match validate(declaration, &observe(server())) {
        Validation::Valid(validated) => {
            let mut comments = plan_ownership(declaration, &validated, &server()).comments;
            comments.remove(table).unwrap()
        }
        _ => String::new(),
    }
}

pub(crate) fn observe(server: ServerReading) -> Observation {
    Observation {
        server: Reading::Known(server),
        fleet: FleetState::default(),
        memory: Reading::Known(Memory::default()),
        group: None,
    }
}

pub(crate) fn unreachable() -> Unreachable {
    Unreachable {
        reason: "ClickHouseUnreachable",
        message: "it cannot be reached".to_owned(),
    }
}

fn plan(declaration: &Declaration, observation: &Observation) -> Plan {
    let validation = validate(declaration, observation);
    build_plan(
        declaration,
        observation,
        &validation,
        Places {
            credentials_dir: Some(PathBuf::from("credentials-1")),
            facts_path: Some(PathBuf::from("facts.json")),
        },
    )
}

#[test]
fn a_first_plan_makes_everything_and_runs_the_workers() {
    let declaration = declare(SINK);
    let plan = plan(&declaration, &observe(server()));
    let FleetStep::Run(spec) = &plan.fleet else {
        panic!("{plan:?}")
    };
    assert_eq!(
        spec.config.table.mapping[2].default_json.as_deref(),
        Some("\"raised\"")
    );
    insta::assert_snapshot!(plan.render());
}

#[test]
fn a_plan_shows_what_workers_run_on() {
    insta::assert_yaml_snapshot!(plan(&declare(SINK), &observe(server())).fleet);
}

#[test]
fn what_is_as_declared_needs_nothing() {
    let declaration = declare(SINK);
    let mut observation = observe(server_with_tables(&declaration));
    let FleetStep::Run(spec) = plan(&declaration, &observation).fleet else {
        panic!("workers do not run")
    };
    observation.fleet.wanted_revision = Some(spec.revision);
    observation.fleet.wanted_replicas = spec.replicas;
    let again = plan(&declaration, &observation);
    assert!(again.is_empty(), "{again:?}");
    assert_eq!(again.render(), "nothing to do");
}

#[test]
fn a_table_that_differs_moves_nothing_and_says_what_differs() {
    let declaration = declare(SINK);
    let mut server = server_with_tables(&declaration);
    server.table.as_mut().unwrap().columns[2].data_type = "UInt8".to_owned();
    let plan = plan(&declaration, &observe(server));
    assert_eq!(plan.fleet, FleetStep::Keep);
    assert_eq!(
        (plan.held.len(), plan.held[0].subject.as_str()),
        (1, "status")
    );
    assert_eq!(plan.requeue_ms, 5_000);
}

#[test]
fn validate_makes_nothing_and_holds_while_a_table_is_missing() {
    let declaration = declare(&SINK.replace("ddl: auto", "ddl: validate"));
    let plan = plan(&declaration, &observe(server()));
    assert_eq!(
        (plan.ddl.len(), plan.held.len(), &plan.fleet),
        (0, 2, &FleetStep::Keep)
    );
    assert!(
        plan.held[0]
            .remedy
            .starts_with("create it: CREATE TABLE IF NOT EXISTS `ops`.`events`")
    );
}

#[test]
fn none_neither_makes_nor_checks() {
    let declaration = declare(&SINK.replace("ddl: auto", "ddl: none"));
    let plan = plan(&declaration, &observe(server()));
    assert_eq!((plan.ddl.len(), plan.held.len()), (0, 0));
    assert!(matches!(plan.fleet, FleetStep::Run(_)), "{plan:?}");
}

#[test]
fn pausing_works_without_a_server() {
    let declaration = declare(&SINK.replace("replicas: 2", "paused: true"));
    let mut observation = Observation {
        server: Reading::Unreachable(unreachable()),
        fleet: FleetState::default(),
        memory: Reading::Known(Memory::default()),
        group: None,
    };
    assert_eq!(plan(&declaration, &observation).fleet, FleetStep::Keep);
    observation.fleet.wanted_revision = Some("a".to_owned());
    observation.fleet.wanted_replicas = 2;
    assert_eq!(
        plan(&declaration, &observation).fleet,
        FleetStep::Scale { replicas: 0 }
    );
}

#[test]
fn all_that_the_server_refuses_is_told_at_once() {
    let text = SINK
        .replace("\"'raised'\"", "id")
        .replace("orderBy: [id]", "orderBy: [id]\n    ttl: at + 1 FROM x");
    let declaration = declare(&text);
    let mut server = server();
    server
        .canonical
        .insert("id".to_owned(), Ok("id".to_owned()));
    server
        .canonical
        .insert("at + 1 FROM x".to_owned(), Err("Syntax error".to_owned()));
    server.defaults = BTreeMap::from([("status".to_owned(), Err("unknown identifier".to_owned()))]);
    let Validation::Invalid(violations) = validate(&declaration, &observe(server)) else {
        panic!("it is valid")
    };
    let texts: Vec<_> = violations.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "spec.table.ttl: ClickHouse cannot read it as one expression: Syntax error",
            "spec.table.columns[2].default: expected a constant of type String: unknown identifier",
        ]
    );
}

/// Refuses statements that hold a word, and remembers the others.
struct Refusing {
    word: &'static str,
    done: Mutex<Vec<String>>,
}

impl Warehouse for Refusing {
    async fn fetch_version(&self) -> Result<String, WarehouseError> {
        Ok("26.7".to_owned())
    }

    async fn fetch_database_exists(&self, _database: &str) -> Result<bool, WarehouseError> {
        Ok(false)
    }

    async fn fetch_table(
        &self,
        _database: &str,
        _name: &str,
    ) -> Result<Option<ObservedTable>, WarehouseError> {
        Ok(None)
    }

    async fn fetch_canonical(&self, expression: &str) -> Result<Verdict, WarehouseError> {
        Ok(Ok(expression.to_owned()))
    }

    async fn fetch_constant(
        &self,
        _expression: &str,
        _data_type: &str,
    ) -> Result<Verdict, WarehouseError> {
        Ok(Ok("0".to_owned()))
    }

    async fn fetch_select(
        &self,
        _select: &str,
        _source: &TableDefinition,
    ) -> Result<Result<SelectShape, String>, WarehouseError> {
        Ok(Err("no server".to_owned()))
    }

    async fn fetch_view(
        &self,
        _database: &str,
        _name: &str,
    ) -> Result<Option<FoundView>, WarehouseError> {
        Ok(None)
    }

    async fn fetch_partitions(
        &self,
        _database: &str,
        _name: &str,
    ) -> Result<Vec<(String, u64)>, WarehouseError> {
        Ok(Vec::new())
    }

    async fn fetch_count(&self, _sql: &str) -> Result<u64, WarehouseError> {
        Ok(0)
    }

    async fn fetch_catalog(
        &self,
        _: &str,
    ) -> Result<Result<Vec<CatalogRow>, String>, WarehouseError> {
        Ok(Ok(Vec::new()))
    }

    async fn apply_statement(&self, sql: &str) -> Result<(), WarehouseError> {
        if sql.contains(self.word) {
            return Err(WarehouseError::Server {
                code: 497,
                message: "not enough privileges".to_owned(),
            });
        }
        self.done.lock().unwrap().push(sql.to_owned());
        Ok(())
    }
}

/// Remembers that it was asked to run.
#[derive(Default)]
struct Watched {
    runs: Mutex<u32>,
}

impl Fleet for Watched {
    fn locate_credentials(&self, _account: &Account) -> PathBuf {
        PathBuf::new()
    }

    fn locate_facts(&self) -> Option<PathBuf> {
        None
    }

    async fn fetch_memory(&self) -> Result<Memory, FleetError> {
        Ok(Memory::default())
    }

    async fn apply_memory(&self, _memory: &Memory) -> Result<(), FleetError> {
        Ok(())
    }

    async fn fetch_plans(&self, _config: &WorkerConfig) -> Result<GroupPlans, FleetError> {
        Ok(GroupPlans::default())
    }

    async fn fetch_state(&self) -> FleetState {
        FleetState::default()
    }

    async fn apply_replicas(&self, _replicas: u32) -> Result<(), FleetError> {
        Ok(())
    }

    async fn apply(&self, _spec: &FleetSpec, _account: Option<&Account>) -> Result<(), FleetError> {
        *self.runs.lock().unwrap() += 1;
        Ok(())
    }
}

#[tokio::test]
async fn apply_stops_at_the_first_error_says_what_was_done_and_starts_no_worker() {
    let warehouse = Refusing {
        word: "events_rejected",
        done: Mutex::default(),
    };
    let fleet = Watched::default();
    let done = reconcile(&warehouse, &fleet, &declare(SINK)).await;
    assert_eq!(
        done.applied.done,
        ["create database ops", "create table ops.events"]
    );
    let failed = done.applied.failed.as_ref().unwrap();
    assert_eq!(
        (failed.step.as_str(), failed.why.reason),
        ("create table ops.events_rejected", "ClickHouseAccessDenied")
    );
    assert_eq!(
        (
            warehouse.done.lock().unwrap().len(),
            *fleet.runs.lock().unwrap()
        ),
        (2, 0)
    );
    assert_eq!(done.requeue_ms(), 5_000);
}

#[tokio::test]
async fn apply_does_everything_in_order_and_then_runs_the_workers() {
    let warehouse = Refusing {
        word: "nothing at all",
        done: Mutex::default(),
    };
    let fleet = Watched::default();
    let done = reconcile(&warehouse, &fleet, &declare(SINK)).await;
    assert_eq!((done.applied.done.len(), done.applied.failed), (4, None));
    assert_eq!(*fleet.runs.lock().unwrap(), 1);
}
