//! What is to be done about each derived table: a pure decision from what is observed alone, so that an operator that
//! crashed at any step goes on where it was.
//!
//! Must not be here: clients, clocks, statements' text (`sql.rs`).

use clickhouse_sink_crds::api::{Backfill as BackfillMode, DdlMode, DerivedSpec};
use clickhouse_sink_crds::expression::normalise;
use clickhouse_sink_crds::group_plans::GroupPlans;
use clickhouse_sink_crds::names::reason;
use clickhouse_sink_crds::select::qualify_select;
use clickhouse_sink_crds::table::Difference;
use clickhouse_sink_crds::validate::views::view_name;

use crate::controller::declaration::Declaration;
use crate::controller::observe::{Reading, ServerReading};
use crate::derived::backfill::Backfill;
use crate::derived::observe::{DerivedReading, GroupReading};
use crate::derived::plan::Note;
use crate::derived::sql::render_create_view;
use crate::fleet::{FleetState, WorkerPhase};
use crate::sql::render_table_name;

/// For how long others may be members of the group before workers are started again, in seconds: a worker that was
/// killed is one until its session ends.
const MEMBERS_S: u64 = 45;
/// How many times rarer a backfill is tried that was refused for the rows of its source.
const REFUSED_TIMES: u64 = 60;

/// What is to be done about one derived table.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Nothing.
    Leave,
    /// The view is made.
    Create {
        /// It is filled first.
        backfill: Option<Backfill>,
        /// It was there before: rows are missing.
        was_gone: bool,
        /// Workers were stopped for it.
        after_drain: bool,
    },
    /// The view gets the declared SELECT.
    Change,
    /// The next pieces are filled.
    Fill(Backfill),
    /// Workers are to be stopped, or stay so.
    Drain,
    /// Workers are stopped: what the group has committed decides.
    Ask,
    /// Not now; workers run.
    Wait(Note),
    /// A person has to mend it.
    Hold(Difference),
}

/// What the fleet is, as far as a change of a view needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FleetPhase {
    /// No worker, for so many seconds.
    Stopped(u64),
    /// Workers were asked to stop.
    Stopping,
    /// Workers are wanted, and all have been ready for so many seconds.
    Running(u64),
}

/// Reads the phase.
#[must_use]
pub fn read_phase(fleet: &FleetState) -> FleetPhase {
    let lives = |phase| {
        matches!(
            phase,
            WorkerPhase::Running | WorkerPhase::Draining | WorkerPhase::BackingOff
        )
    };
    let is_wanted = fleet.wanted_revision.is_some() && fleet.wanted_replicas > 0;
    if is_wanted {
        FleetPhase::Running(fleet.settled_s)
    } else if fleet.workers.iter().any(|worker| lives(worker.phase)) {
        FleetPhase::Stopping
    } else {
        FleetPhase::Stopped(fleet.settled_s)
    }
}

/// All that one decision rests on.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// What may be done.
    pub mode: DdlMode,
    /// The database.
    pub database: &'a str,
    /// The declaration.
    pub spec: &'a DerivedSpec,
    /// The declared SELECT, canonical, over the table's full name.
    pub select: &'a str,
    /// The sink's table is there.
    pub has_source: bool,
    /// What is there.
    pub reading: &'a DerivedReading,
    /// The fleet.
    pub fleet: FleetPhase,
    /// The group; none: not asked.
    pub group: Option<&'a GroupReading>,
    /// Seconds that workers run before they are stopped (again).
    pub retry_s: u64,
}

/// One decision for each derived table; none where the server was not asked about them.
#[must_use]
pub fn decide_all(
    declaration: &Declaration,
    server: &ServerReading,
    fleet: &FleetState,
    group: Option<&GroupReading>,
) -> Vec<Decision> {
    let source = &declaration.expected;
    let derived = declaration.sink.spec.derived.iter().zip(&server.derived);
    derived
        .map(|(spec, reading)| {
            let shape = reading.shape.as_ref().ok();
            let select = shape
                .and_then(|shape| qualify_select(&shape.canonical, &source.database, &source.name));
            let Some(select) = select else {
                return Decision::Leave;
            };
            decide_derived_step(&Facts {
                mode: declaration.mode(),
                database: &source.database,
                spec,
                select: &select,
                has_source: server.table.is_some(),
                reading,
                fleet: read_phase(fleet),
                group,
                retry_s: declaration.recheck_ms() / 1_000,
            })
        })
        .collect()
}

/// What is to be done about one derived table.
#[must_use]
pub fn decide_derived_step(facts: &Facts<'_>) -> Decision {
    match facts.mode {
        DdlMode::None => Decision::Leave,
        DdlMode::Validate => check_view(facts).map_or(Decision::Leave, Decision::Hold),
        DdlMode::Auto => decide_auto(facts),
    }
}

fn decide_auto(facts: &Facts<'_>) -> Decision {
    let Some(view) = &facts.reading.view else {
        return decide_missing(facts);
    };
    if let Some(taken) = check_place(facts) {
        return Decision::Hold(taken);
    }
    if !is_same_select(&view.select, facts.select) {
        return decide_quiet(facts);
    }
    match Backfill::read(&view.comment) {
        Some(backfill) => Decision::Fill(backfill),
        None => Decision::Leave,
    }
}

/// A view is new where its table is new or empty; else it was there, and is wanted back at once.
fn decide_missing(facts: &Facts<'_>) -> Decision {
    let was_gone = facts.reading.target.is_some() && facts.reading.target_rows > 0;
    let fills = facts.spec.backfill == BackfillMode::Once && !was_gone && facts.has_source;
    if fills {
        return decide_quiet(facts);
    }
    Decision::Create {
        backfill: None,
        was_gone,
        after_drain: false,
    }
}

/// A step that must fall between two INSERTs: no worker runs, nobody is in the group, no plan is open.
fn decide_quiet(facts: &Facts<'_>) -> Decision {
    match (facts.fleet, facts.group) {
        (FleetPhase::Stopping, _) => Decision::Drain,
        (FleetPhase::Running(settled_s), group) => decide_running(facts, settled_s, group),
        (FleetPhase::Stopped(since_s), Some(group)) if group.is_fresh => {
            decide_stopped(facts, since_s, group)
        }
        (FleetPhase::Stopped(_), _) => Decision::Ask,
    }
}

fn decide_running(facts: &Facts<'_>, settled_s: u64, last: Option<&GroupReading>) -> Decision {
    let plans = last.and_then(|group| match &group.plans {
        Reading::Known(plans) => Some(plans),
        Reading::Unreachable(_) => None,
    });
    let open = plans.and_then(GroupPlans::describe_open);
    // The last attempt found everything quiet, and yet the view is not there: the rows of the source refused it.
    let was_refused = facts.reading.view.is_none()
        && plans.is_some_and(|plans| plans.members == 0)
        && open.is_none();
    let after_s = if was_refused {
        facts.retry_s.saturating_mul(REFUSED_TIMES)
    } else {
        facts.retry_s
    };
    if settled_s >= after_s {
        return Decision::Drain;
    }
    Decision::Wait(match open {
        Some(open) => note_open(facts, &open),
        None if was_refused => note_refused(facts, None),
        None => note(
            facts,
            reason::VIEW_CHANGE_WAITS,
            format!("workers are stopped for it once they have been ready for {after_s} s"),
        ),
    })
}

fn decide_stopped(facts: &Facts<'_>, since_s: u64, group: &GroupReading) -> Decision {
    let plans = match &group.plans {
        Reading::Known(plans) => plans,
        Reading::Unreachable(why) => {
            return Decision::Wait(note(facts, reason::PLANS_UNREADABLE, why.message.clone()));
        }
    };
    if plans.members > 0 && since_s < MEMBERS_S {
        return Decision::Drain;
    }
    if plans.members > 0 {
        let message = format!(
            "expected no member in the consumer group while this sink's workers are stopped, found {}; stop what uses the group",
            plans.members
        );
        return Decision::Wait(note(facts, reason::GROUP_NOT_EMPTY, message));
    }
    if let Some(open) = plans.describe_open() {
        return Decision::Wait(note_open(facts, &open));
    }
    if facts.reading.view.is_some() {
        return Decision::Change;
    }
    match &group.source {
        Some(Reading::Known(source)) if source.beyond > 0 => {
            Decision::Wait(note_refused(facts, Some(source.beyond)))
        }
        Some(Reading::Known(source)) => Decision::Create {
            backfill: Backfill::plan(plans.bounds(), &source.partitions),
            was_gone: false,
            after_drain: true,
        },
        Some(Reading::Unreachable(why)) => {
            Decision::Wait(note(facts, reason::PLANS_UNREADABLE, why.message.clone()))
        }
        None => Decision::Ask,
    }
}

fn note(facts: &Facts<'_>, reason: &'static str, message: String) -> Note {
    Note {
        table: facts.spec.name.clone(),
        reason,
        message,
    }
}

fn note_open(facts: &Facts<'_>, open: &str) -> Note {
    let message = format!(
        "expected that workers stop with every insert acknowledged, found open ranges ({open}); the view stays as it is, and the \
         change is tried again once workers have been ready for {} s",
        facts.retry_s
    );
    note(facts, reason::PLAN_NOT_EMPTY, message)
}

fn note_refused(facts: &Facts<'_>, beyond: Option<u64>) -> Note {
    let found = beyond.map_or_else(|| "some".to_owned(), |rows| rows.to_string());
    let message = format!(
        "expected every row of the table below the committed offsets, found {found} that are not (another writer's, or a topic that \
         began anew): they cannot be told from those to come; choose `backfill: None` and fill the table by hand"
    );
    note(facts, reason::BACKFILL_REFUSED, message)
}

fn is_same_select(found: &str, expected: &str) -> bool {
    normalise(found) == normalise(expected)
}

/// Something else has the name of the view, or the view fills another table.
fn check_place(facts: &Facts<'_>) -> Option<Difference> {
    let view = facts.reading.view.as_ref()?;
    let target = render_table_name(facts.database, &facts.spec.name);
    let found = if view.engine == "MaterializedView" {
        read_target(&view.create_table_query)
    } else {
        format!("a table with engine {}", view.engine)
    };
    if normalise(&found) == normalise(&target) {
        return None;
    }
    Some(hold(
        facts,
        format!("a materialized view TO {target}"),
        found,
        format!(
            "{}: rename the derived table, or remove what has the name of its view",
            reason::NAME_TAKEN
        ),
    ))
}

/// The target that a `CREATE MATERIALIZED VIEW` names.
fn read_target(create: &str) -> String {
    let behind = create.split_once(" TO ").map_or("", |(_, behind)| behind);
    let end = behind
        .find(" (")
        .or_else(|| behind.find(" DEFINER"))
        .or_else(|| behind.find(" AS "))
        .unwrap_or(behind.len());
    behind[..end].to_owned()
}

fn check_view(facts: &Facts<'_>) -> Option<Difference> {
    let Some(view) = &facts.reading.view else {
        let name = view_name(&facts.spec.name);
        let create =
            render_create_view(facts.database, &facts.spec.name, &name, facts.select, None);
        return Some(hold(
            facts,
            "the view".to_owned(),
            "no view that this account can see".to_owned(),
            format!("create it: {}", create.replace('\n', " ")),
        ));
    };
    check_place(facts).or_else(|| {
        let remedy = "stop the workers, see that no plan is open (`clickhouse-sink-worker plans`), and run ALTER TABLE … MODIFY QUERY; or use `ddl: auto`";
        let differs = !is_same_select(&view.select, facts.select);
        differs.then(|| hold(facts, facts.select.to_owned(), view.select.clone(), remedy.to_owned()))
    })
}

fn hold(facts: &Facts<'_>, expected: String, found: String, remedy: String) -> Difference {
    Difference {
        subject: format!(
            "materialized view {}.{}",
            facts.database,
            view_name(&facts.spec.name)
        ),
        expected,
        found,
        remedy,
        blocks_writes: true,
    }
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
