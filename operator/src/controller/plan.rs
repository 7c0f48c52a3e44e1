//! Step 3: what must be done. Pure; a plan is a value that can be compared, shown and written down.
//!
//! Must not be here: clients, clocks, secrets.

use std::path::PathBuf;

use clickhouse_sink_crds::api::DdlMode;
use clickhouse_sink_crds::check::check_table;
use clickhouse_sink_crds::resolve::{ResolveInputs, resolve};
use clickhouse_sink_crds::table::{Difference, ObservedTable, TableDefinition};
use serde::Serialize;

use crate::controller::declaration::Declaration;
use crate::controller::observe::{Observation, Reading, ServerReading};
use crate::controller::validate::{Validated, Validation};
use crate::ddl::{DdlStep, plan_ddl, render_create_table};
use crate::fleet::FleetSpec;

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
    /// What happens to the workers.
    pub fleet: FleetStep,
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
        self.ddl.is_empty() && self.held.is_empty() && self.fleet == FleetStep::Keep
    }

    /// The plan for people.
    #[must_use]
    pub fn render(&self) -> String {
        let steps = self
            .ddl
            .iter()
            .map(|step| format!("{}\n{}", step.describe(), indent(&step.render())));
        let held = self
            .held
            .iter()
            .map(|difference| format!("held: {}", describe_difference(difference)));
        let warnings = self
            .warnings
            .iter()
            .map(|difference| format!("warning: {}", describe_difference(difference)));
        let lines: Vec<_> = steps
            .chain(self.fleet.describe())
            .chain(held)
            .chain(warnings)
            .collect();
        if lines.is_empty() {
            "nothing to do".to_owned()
        } else {
            lines.join("\n")
        }
    }
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

/// What must be done about one sink.
#[must_use]
pub fn build_plan(
    declaration: &Declaration,
    observation: &Observation,
    validation: &Validation,
    credentials_dir: Option<PathBuf>,
) -> Plan {
    match (validation, &observation.server) {
        (Validation::Valid(validated), Reading::Known(server)) => {
            plan_valid(declaration, observation, validated, server, credentials_dir)
        }
        _ => plan_blind(declaration, observation),
    }
}

/// Without a server, or with a declaration that cannot be made real, only the number of workers can change.
fn plan_blind(declaration: &Declaration, observation: &Observation) -> Plan {
    Plan {
        ddl: Vec::new(),
        held: Vec::new(),
        warnings: Vec::new(),
        fleet: plan_scale(declaration, observation),
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

fn plan_valid(
    declaration: &Declaration,
    observation: &Observation,
    validated: &Validated,
    server: &ServerReading,
    credentials_dir: Option<PathBuf>,
) -> Plan {
    let mode = declaration.mode();
    let tables = [
        (&validated.expected, server.table.as_ref()),
        (&validated.rejected, server.rejected.as_ref()),
    ];
    let ddl = plan_ddl(mode, server.has_database, &tables);
    let differences = tables
        .iter()
        .flat_map(|(expected, found)| diff_table(mode, expected, *found));
    let (held, warnings): (Vec<_>, Vec<_>) =
        differences.partition(|difference| difference.blocks_writes);
    let fleet = if held.is_empty() {
        plan_run(declaration, observation, validated, credentials_dir)
    } else {
        plan_scale(declaration, observation)
    };
    let requeue_ms = if held.is_empty() {
        declaration.recheck_ms()
    } else {
        declaration.recheck_ms().min(HELD_MS)
    };
    Plan {
        ddl,
        held,
        warnings,
        fleet,
        requeue_ms,
    }
}

fn plan_run(
    declaration: &Declaration,
    observation: &Observation,
    validated: &Validated,
    credentials_dir: Option<PathBuf>,
) -> FleetStep {
    let inputs = ResolveInputs {
        uid: declaration.uid.clone(),
        default_group_id: declaration.default_group_id.clone(),
        defaults_json: validated.defaults.clone(),
        expected: Some(validated.expected.clone()),
        credentials_dir,
    };
    let spec = FleetSpec::new(declaration.replicas(), resolve(&declaration.sink, &inputs));
    let fleet = &observation.fleet;
    let is_there = fleet.wanted_revision.as_ref() == Some(&spec.revision)
        && fleet.wanted_replicas == spec.replicas;
    if is_there {
        FleetStep::Keep
    } else {
        FleetStep::Run(Box::new(spec))
    }
}

/// What no step mends.
fn diff_table(
    mode: DdlMode,
    expected: &TableDefinition,
    found: Option<&ObservedTable>,
) -> Vec<Difference> {
    match (mode, found) {
        (DdlMode::None, _) | (DdlMode::Auto, None) => Vec::new(),
        (DdlMode::Validate, None) => vec![build_missing(expected)],
        (DdlMode::Auto | DdlMode::Validate, Some(found)) => check_table(expected, found),
    }
}

fn build_missing(expected: &TableDefinition) -> Difference {
    Difference {
        subject: format!("table {}.{}", expected.database, expected.name),
        expected: "the table".to_owned(),
        found: "no table that this account can see".to_owned(),
        remedy: format!(
            "create it: {}",
            render_create_table(expected).replace('\n', " ")
        ),
        blocks_writes: true,
    }
}
