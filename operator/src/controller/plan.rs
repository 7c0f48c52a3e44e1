//! Step 3: what must be done. Pure; a plan is a value that can be compared, shown and written down.
//!
//! Must not be here: clients, clocks, secrets.

use std::path::PathBuf;

use clickhouse_sink_crds::check::check_window;
use clickhouse_sink_crds::resolve::{ResolveInputs, resolve};
use clickhouse_sink_crds::table::Difference;
use clickhouse_sink_crds::worker_config::{EarlierMapping, WorkerConfig};
use serde::Serialize;

use crate::catalog::{CatalogPlan, plan_catalog};
use crate::controller::declaration::Declaration;
use crate::controller::made::{Progress, list_made, may_record, plan_view};
use crate::controller::memory::{Memory, Seen, merge_facts, merge_mappings};
use crate::controller::observe::{Observation, Reading, ServerReading};
use crate::controller::validate::{Validated, Validation};
use crate::ddl::{DdlStep, TableCase, TablesPlan, plan_tables};
use crate::derived::plan::plan_derived;
use crate::derived::{DerivedPlan, Note};
use crate::flat_view::FlatPlan;
use crate::fleet::FleetSpec;
use crate::ownership::plan_ownership;

/// Wait before an unreachable server is asked again, in milliseconds.
const RETRY_MS: u64 = 2_000;
/// Longest wait before a table that is not as declared is looked at again, in milliseconds.
const HELD_MS: u64 = 5_000;

/// What must be done, and what keeps it from being done.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Statements, in order.
    pub ddl: Vec<DdlStep>,
    /// Differences that no step mends: while there is one that blocks writes, nothing moves.
    pub held: Vec<Difference>,
    /// Differences that are only worth a warning.
    pub warnings: Vec<Difference>,
    /// What the deduplication window of the sink's table lacks; one of the warnings.
    pub window: Option<Difference>,
    /// What happens to derived tables, behind the tables and before the workers.
    pub derived: DerivedPlan,
    /// What happens to the workers.
    pub fleet: FleetStep,
    /// What happens to the flat view, behind the workers.
    pub flat: FlatPlan,
    /// What happens to the catalog, last.
    pub catalog: CatalogPlan,
    /// What people should know of the tables' owners.
    pub notes: Vec<Note>,
    /// What is to be remembered from now on, before workers run; none: nothing new. No step that people wait for.
    #[serde(skip)]
    pub memory: Option<Box<Memory>>,
    /// When to look again, in milliseconds.
    pub requeue_ms: u64,
}

/// What happens to the workers.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum FleetStep {
    /// Nothing.
    Keep,
    /// Another number on what they run already.
    Scale {
        /// How many.
        replicas: u32,
    },
    /// They run on this.
    Run(Box<FleetSpec>),
}

impl FleetStep {
    /// The step in words; none where nothing is done.
    #[must_use]
    pub fn describe(&self) -> Option<String> {
        match self {
            Self::Keep => None,
            Self::Scale { replicas } => Some(format!(
                "run {replicas} workers on the configuration they have"
            )),
            Self::Run(spec) => Some(format!(
                "run {} workers on configuration {}",
                spec.replicas, spec.revision
            )),
        }
    }
}

impl Plan {
    /// True where nothing is to be done.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let is_quiet = self.derived.steps.is_empty() && !self.derived.drain;
        let is_shown = self.flat.step.is_none();
        self.ddl.is_empty()
            && self.held.is_empty()
            && is_quiet
            && is_shown
            && self.fleet == FleetStep::Keep
    }

    /// What is to be done, in order.
    #[must_use]
    pub fn steps(&self) -> Vec<PlanStep> {
        let ddl = self.ddl.iter().map(|step| PlanStep {
            what: step.describe(),
            sql: Some(step.render()),
        });
        let derived = self.derived.steps.iter().map(|step| PlanStep {
            what: step.describe(),
            sql: step.statement().map(str::to_owned),
        });
        let fleet = self.fleet.describe();
        let fleet = fleet.map(|what| PlanStep { what, sql: None });
        let view = self.flat.step.as_ref().map(|step| PlanStep {
            what: step.what.clone(),
            sql: Some(step.sql.clone()),
        });
        ddl.chain(derived).chain(fleet).chain(view).collect()
    }

    /// What people should know; data flows all the same.
    #[must_use]
    pub fn list_notes(&self) -> Vec<&Note> {
        let notes = self.derived.notes.iter().chain(&self.flat.note);
        notes.chain(&self.catalog.note).chain(&self.notes).collect()
    }

    /// The plan for people: numbered steps with their SQL, what is held, warnings.
    #[must_use]
    pub fn render(&self) -> String {
        let steps = self.steps();
        let numbered = steps.iter().enumerate().map(|(index, step)| {
            let sql = step.sql.as_deref().map(indent);
            let lines = [Some(format!("{}. {}", index + 1, step.what)), sql];
            lines.into_iter().flatten().collect::<Vec<_>>().join("\n")
        });
        let differences = |word: &'static str, list: &'_ [Difference]| {
            let lines = list.iter();
            let lines = lines.map(|difference| render_difference(word, difference));
            lines.collect::<Vec<_>>()
        };
        let notes = self.list_notes().into_iter().map(Note::render);
        let blocks: Vec<_> = numbered
            .chain(notes)
            .chain(differences("held", &self.held))
            .chain(differences("warning", &self.warnings))
            .collect();
        if steps.is_empty() && self.held.is_empty() {
            [vec!["nothing to do".to_owned()], blocks]
                .concat()
                .join("\n")
        } else {
            blocks.join("\n")
        }
    }
}

/// One step of a plan, for people and for scripts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlanStep {
    /// What it does.
    pub what: String,
    /// The statement; none: it is not done by one.
    pub sql: Option<String>,
}

fn render_difference(word: &str, difference: &Difference) -> String {
    let Difference {
        subject,
        expected,
        found,
        remedy,
        ..
    } = difference;
    format!(
        "{word}: {subject}\n    expected: {expected}\n    found:    {found}\n    remedy:   {remedy}"
    )
}

fn indent(text: &str) -> String {
    text.lines()
        .map(|line| format!("    {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// A difference in one sentence.
#[must_use]
pub fn describe_difference(difference: &Difference) -> String {
    let Difference {
        subject,
        expected,
        found,
        remedy,
        ..
    } = difference;
    format!("{subject}: expected {expected}, found {found}; {remedy}")
}

/// Where workers find what is not in their configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// Folder of the credentials; none: the default user without a password.
    pub credentials_dir: Option<PathBuf>,
    /// The document of facts; none: there is none.
    pub facts_path: Option<PathBuf>,
}

/// What must be done about one sink.
#[must_use]
pub fn build_plan(
    declaration: &Declaration,
    observation: &Observation,
    validation: &Validation,
    places: Places,
) -> Plan {
    let mut memory = match &observation.memory {
        Reading::Known(memory) => Some(Memory {
            facts: merge_facts(&memory.facts, &build_seen(declaration, observation)),
            mappings: memory.mappings.clone(),
        }),
        Reading::Unreachable(_) => None,
    };
    let plan = match (validation, &observation.server, &mut memory) {
        (Validation::Valid(validated), Reading::Known(server), Some(memory)) => {
            let config = build_config(declaration, validated, places);
            plan_valid(
                declaration,
                observation,
                validated,
                server,
                (config, memory),
            )
        }
        _ => plan_blind(declaration, observation),
    };
    let is_new = |memory: &Memory| observation.memory != Reading::Known(memory.clone());
    Plan {
        memory: memory.filter(is_new).map(Box::new),
        ..plan
    }
}

fn build_seen<'a>(declaration: &'a Declaration, observation: &'a Observation) -> Seen<'a> {
    let table = match &observation.server {
        Reading::Known(server) => server.table.as_ref().map(|table| table.uuid.as_str()),
        Reading::Unreachable(_) => None,
    };
    Seen {
        table,
        topics: &observation.fleet.topics,
        resolutions: &declaration.sink.spec.resolutions,
    }
}

/// What workers run on, earlier mappings left aside.
#[must_use]
pub fn build_config(
    declaration: &Declaration,
    validated: &Validated,
    places: Places,
) -> WorkerConfig {
    let inputs = ResolveInputs {
        uid: declaration.uid.clone(),
        default_group_id: declaration.default_group_id.clone(),
        defaults_json: validated.defaults.clone(),
        expected: Some(validated.expected.clone()),
        facts_path: places.facts_path,
        credentials_dir: places.credentials_dir,
    };
    resolve(&declaration.sink, &inputs)
}

/// Without a server, or with a declaration that cannot be made real, only the number of workers can change.
fn plan_blind(declaration: &Declaration, observation: &Observation) -> Plan {
    Plan {
        ddl: Vec::new(),
        held: Vec::new(),
        warnings: Vec::new(),
        window: None,
        derived: DerivedPlan::default(),
        fleet: plan_scale(declaration, observation),
        memory: None,
        flat: FlatPlan::default(),
        catalog: CatalogPlan::default(),
        notes: Vec::new(),
        requeue_ms: RETRY_MS,
    }
}

fn plan_scale(declaration: &Declaration, observation: &Observation) -> FleetStep {
    let replicas = declaration.replicas();
    let has_run = observation.fleet.wanted_revision.is_some();
    if has_run && observation.fleet.wanted_replicas != replicas {
        FleetStep::Scale { replicas }
    } else {
        FleetStep::Keep
    }
}

/// Workers stop for a moment; where none run, none are started.
fn plan_stop(observation: &Observation) -> FleetStep {
    if observation.fleet.wanted_revision.is_some() && observation.fleet.wanted_replicas > 0 {
        FleetStep::Scale { replicas: 0 }
    } else {
        FleetStep::Keep
    }
}

fn plan_valid(
    declaration: &Declaration,
    observation: &Observation,
    validated: &Validated,
    server: &ServerReading,
    (config, memory): (WorkerConfig, &mut Memory),
) -> Plan {
    let ownership = plan_ownership(declaration, validated, server);
    let was_there = !memory.facts.tables.is_empty();
    let TablesPlan {
        steps: ddl,
        mut held,
        warnings,
    } = plan_sink_tables(declaration, validated, server, was_there);
    let found = server.table.as_ref();
    let window = found.and_then(|found| check_window(&validated.expected, found));
    let window = window.filter(|window| warnings.contains(window) || held.contains(window));
    let (mut derived, views) = plan_derived(declaration, &validated.derived, server, observation);
    held.extend(views);
    if !held.is_empty() {
        derived = DerivedPlan::default();
    }
    let fleet = if derived.drain {
        plan_stop(observation)
    } else if held.is_empty() {
        plan_run(declaration, observation, config, memory)
    } else {
        plan_scale(declaration, observation)
    };
    let requeue_ms = if held.is_empty() {
        declaration.recheck_ms()
    } else {
        declaration.recheck_ms().min(HELD_MS)
    };
    let is_held = !held.is_empty();
    let ddl: Vec<_> = ddl
        .into_iter()
        .map(|step| step.with_comment(&ownership.comments))
        .chain(ownership.steps.into_iter().filter(|_| !is_held))
        .collect();
    let is_quiet = derived.steps.is_empty() && !derived.drain;
    let progress = Progress {
        is_held,
        is_done: ddl.is_empty() && is_quiet && fleet == FleetStep::Keep,
    };
    let flat = plan_view(declaration, validated, server, observation, progress);
    let made = if may_record(declaration, is_held) {
        list_made(declaration, validated, server, observation)
    } else {
        Vec::new()
    };
    let due = [derived.requeue_ms, flat.requeue_ms];
    let requeue_ms = due.into_iter().flatten().fold(requeue_ms, u64::min);
    Plan {
        catalog: plan_catalog(declaration, &server.catalog, made),
        flat,
        notes: ownership.notes,
        ddl,
        held,
        warnings,
        window,
        derived,
        fleet,
        memory: None,
        requeue_ms,
    }
}

fn plan_sink_tables(
    declaration: &Declaration,
    validated: &Validated,
    server: &ServerReading,
    was_there: bool,
) -> TablesPlan {
    let mut tables = vec![
        TableCase {
            expected: &validated.expected,
            observed: server.table.as_ref(),
            was_there,
        },
        TableCase {
            expected: &validated.rejected,
            observed: server.rejected.as_ref(),
            was_there: false,
        },
    ];
    let targets = validated.derived.iter().zip(&server.derived);
    tables.extend(targets.map(|(derived, reading)| TableCase {
        expected: &derived.expected,
        observed: reading.target.as_ref(),
        was_there: false,
    }));
    let policy = declaration.sink.spec.table.widening_policy;
    plan_tables(declaration.mode(), policy, server.has_database, &tables)
}

fn plan_run(
    declaration: &Declaration,
    observation: &Observation,
    mut config: WorkerConfig,
    memory: &mut Memory,
) -> FleetStep {
    let present = EarlierMapping {
        table: config.table.clone(),
        format: config.format.clone(),
    };
    memory.mappings = merge_mappings(&memory.mappings, &present);
    config.earlier = memory.mappings[1..].to_vec();
    let spec = FleetSpec::new(declaration.replicas(), config);
    let fleet = &observation.fleet;
    let is_there = fleet.wanted_revision.as_ref() == Some(&spec.revision)
        && fleet.wanted_replicas == spec.replicas;
    if is_there {
        FleetStep::Keep
    } else {
        FleetStep::Run(Box::new(spec))
    }
}
