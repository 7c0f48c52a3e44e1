//! `plan`: what `local` would do, as text and as JSON. Asks ClickHouse, and makes nothing anywhere.
//!
//! Must not be here: how a plan is made (`controller`).

use std::fmt::Write as _;
use std::io::{self, Write as _};

use clickhouse_sink_crds::table::Difference;
use clickhouse_sink_crds::violation::Violation;
use serde::Serialize;

use crate::cli::{Output, PlanArgs};
use crate::controller::plan::{FleetStep, Plan, PlanStep};
use crate::controller::preview;
use crate::controller::validate::{Validation, reason_of};
use crate::fleet::dry::DryFleet;
use crate::local::input::read_declarations;
use crate::local::state_folder::StateFolder;
use crate::local::{LocalError, build_warehouse, decide_exit_code, locate_state_folder};

/// The plan of one sink as scripts read it. Members are added, never renamed or removed.
#[derive(Debug, Serialize)]
struct PlanView {
    /// `namespace/name`.
    sink: String,
    outcome: PlanOutcome,
    /// Why there is no plan, in one word; null: there is one.
    reason: Option<&'static str>,
    /// Why there is no plan; null: there is one.
    message: Option<String>,
    /// What is wrong with the declaration.
    violations: Vec<Violation>,
    /// What is to be done in ClickHouse, in order.
    steps: Vec<PlanStep>,
    /// What workers would run on; null: none would be started. What runs already is not looked at.
    workers: Option<WorkersView>,
    /// Differences that keep rows from being written.
    held: Vec<DifferenceView>,
    /// Differences that do not.
    warnings: Vec<DifferenceView>,
}

/// The workers.
#[derive(Debug, Serialize)]
struct WorkersView {
    replicas: u32,
    /// Hash of their configuration.
    revision: String,
}

/// Declared and found.
#[derive(Debug, Serialize)]
struct DifferenceView {
    subject: String,
    expected: String,
    found: String,
    remedy: String,
}

/// What became of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
enum PlanOutcome {
    /// Everything is as declared.
    NothingToDo,
    /// There are steps, and nothing is in the way.
    Planned,
    /// A table is not as declared.
    Held,
    /// The declaration cannot be made real.
    Invalid,
    /// ClickHouse cannot be reached, or refuses.
    Unknown,
}

/// The one document.
#[derive(Debug, Serialize)]
struct Plans {
    plans: Vec<PlanView>,
}

/// Shows what would be done; the exit code.
///
/// # Errors
/// Files or declarations that are wrong.
pub async fn run_plan(args: &PlanArgs) -> Result<u8, LocalError> {
    let folder = StateFolder::peek(&locate_state_folder(&args.files))?;
    let declarations = read_declarations(&args.files.files, &folder).map_err(LocalError::Input)?;
    let mut code = 0;
    let mut plans = Vec::new();
    let (mut shown, mut problems) = (String::new(), String::new());
    for declaration in &declarations {
        let warehouse = build_warehouse(declaration);
        let (_, validation, plan) = preview(&warehouse, &DryFleet, declaration).await;
        let (workers, plan) = split_workers(plan);
        code = code.max(decide_exit_code(&validation, &plan, false));
        let name = declaration.qualified_name();
        match args.output {
            Output::Json => plans.push(build_view(name, validation, &plan, workers)),
            Output::Text => match render_problem(&name, &validation) {
                Some(problem) => problems.push_str(&problem),
                None => shown.push_str(&render_plan(&name, &plan, workers.as_ref())),
            },
        }
    }
    if args.output == Output::Json {
        shown = render_json(plans);
    }
    // Who closed the pipe does not want the rest; the exit code still tells.
    let _ = io::stdout().write_all(shown.as_bytes());
    let _ = io::stderr().write_all(problems.as_bytes());
    Ok(code)
}

/// The plan without the workers: nobody has looked at what runs.
fn split_workers(plan: Plan) -> (Option<WorkersView>, Plan) {
    let workers = match &plan.fleet {
        FleetStep::Run(spec) => Some(WorkersView {
            replicas: spec.replicas,
            revision: spec.revision.clone(),
        }),
        FleetStep::Keep | FleetStep::Scale { .. } => None,
    };
    let plan = Plan {
        fleet: FleetStep::Keep,
        ..plan
    };
    (workers, plan)
}

fn render_plan(name: &str, plan: &Plan, workers: Option<&WorkersView>) -> String {
    let workers = workers.map_or_else(
        || "workers: none while a table is not as declared".to_owned(),
        |workers| {
            let WorkersView { replicas, revision } = workers;
            format!("workers: {replicas}, on configuration {revision}")
        },
    );
    format!("# {name}\n{}\n{workers}\n", plan.render())
}

fn render_json(plans: Vec<PlanView>) -> String {
    let json = serde_json::to_string_pretty(&Plans { plans })
        .expect("a plan is plain data with text keys and always becomes JSON");
    format!("{json}\n")
}

/// Why there is no plan.
fn render_problem(name: &str, validation: &Validation) -> Option<String> {
    match validation {
        Validation::Valid(_) => None,
        Validation::Unknown(why) => Some(format!("{name}: {}: {}\n", why.reason, why.message)),
        Validation::Invalid(violations) => {
            let mut text = String::new();
            for violation in violations {
                // Writing into a String cannot fail.
                let _ = writeln!(text, "{name}: {violation}");
            }
            Some(text)
        }
    }
}

fn build_view(
    sink: String,
    validation: Validation,
    plan: &Plan,
    workers: Option<WorkersView>,
) -> PlanView {
    let view = PlanView {
        sink,
        outcome: decide_outcome(plan),
        reason: None,
        message: None,
        violations: Vec::new(),
        steps: plan.steps(),
        workers,
        held: plan.held.iter().map(view_difference).collect(),
        warnings: plan.warnings.iter().map(view_difference).collect(),
    };
    match validation {
        Validation::Valid(_) => view,
        Validation::Unknown(why) => PlanView {
            outcome: PlanOutcome::Unknown,
            reason: Some(why.reason),
            message: Some(why.message),
            ..view
        },
        Validation::Invalid(violations) => PlanView {
            outcome: PlanOutcome::Invalid,
            reason: Some(reason_of(&violations)),
            message: Some("the declaration cannot be made real: see `violations`".to_owned()),
            violations,
            ..view
        },
    }
}

fn view_difference(difference: &Difference) -> DifferenceView {
    DifferenceView {
        subject: difference.subject.clone(),
        expected: difference.expected.clone(),
        found: difference.found.clone(),
        remedy: difference.remedy.clone(),
    }
}

fn decide_outcome(plan: &Plan) -> PlanOutcome {
    if !plan.held.is_empty() {
        PlanOutcome::Held
    } else if plan.is_empty() {
        PlanOutcome::NothingToDo
    } else {
        PlanOutcome::Planned
    }
}
