//! What happens to a flat view in one reconcile: the decision with its statement, or a note that says why not.
//!
//! Must not be here: the decision itself (`decide.rs`), clients, clocks.

use clickhouse_sink_crds::api::DdlMode;
use clickhouse_sink_crds::names::{ANNOTATION_PROMOTE_VIEW, reason};
use serde::Serialize;

use crate::derived::Note;
use crate::flat_view::decide::{Decision, Found, ViewFacts, Why, decide_view};
use crate::flat_view::definition::ViewDefinition;
use crate::flat_view::lineage::{Entry, Lineage, Mark, read_mark};
use crate::flat_view::sql::{render_create, render_replace, render_rewrite};
use crate::fleet::{FleetState, WorkerPhase};
use crate::warehouse::FoundView;

/// When to look again while a view waits for a roll, in milliseconds.
const WAIT_MS: u64 = 1_000;
/// When to read back what was written, in milliseconds: two writers converge.
const READ_BACK_MS: u64 = 500;

/// What is there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FlatReading {
    /// What has the view's name.
    pub view: Option<FoundView>,
    /// The server's time, seconds since the epoch: the one clock that all writers share.
    pub now_s: u64,
}

/// What is to be done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FlatPlan {
    /// The statement.
    pub step: Option<ViewStep>,
    /// What people should know; data flows all the same.
    pub note: Option<Note>,
    /// When to look again, in milliseconds.
    pub requeue_ms: Option<u64>,
}

/// One statement about the view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ViewStep {
    /// What it does, for people.
    pub what: String,
    /// The statement.
    pub sql: String,
}

/// All that the plan rests on.
#[derive(Debug)]
pub struct FlatInputs<'a> {
    /// The declared view.
    pub definition: &'a ViewDefinition,
    /// What may be done.
    pub mode: DdlMode,
    /// What is there.
    pub reading: &'a FlatReading,
    /// The last lineage of that name in the catalog.
    pub catalog: Option<Lineage>,
    /// `<cluster>/<namespace>/<name>`.
    pub owner: String,
    /// uid of the resource.
    pub uid: &'a str,
    /// Its generation; 0 where there is none.
    pub generation: i64,
    /// The annotation by which a person promotes.
    pub word: Option<&'a str>,
    /// What the view reads is as declared, and no worker of an older revision is left.
    pub is_settled: bool,
    /// Nothing moves: a difference holds the sink.
    pub is_held: bool,
}

/// True while no worker of another revision than the wanted one is there.
#[must_use]
pub fn is_rolled(fleet: &FleetState) -> bool {
    let lives = |phase| matches!(phase, WorkerPhase::Running | WorkerPhase::Draining);
    let mut living = fleet.workers.iter().filter(|worker| lives(worker.phase));
    living.all(|worker| worker.revision.is_some() && worker.revision == fleet.wanted_revision)
}

/// What is to be done about the view.
#[must_use]
pub fn plan_flat(inputs: &FlatInputs<'_>) -> FlatPlan {
    match inputs.mode {
        DdlMode::None => FlatPlan::default(),
        DdlMode::Validate => note_only(check(inputs)),
        DdlMode::Auto if inputs.is_held => FlatPlan::default(),
        DdlMode::Auto => plan_auto(inputs),
    }
}

fn plan_auto(inputs: &FlatInputs<'_>) -> FlatPlan {
    let view = inputs.definition;
    let decision = decide_view(&build_facts(inputs));
    let step = |verb: &str, sql| ViewStep {
        what: format!("{verb} flat view {}", view.of()),
        sql,
    };
    match decision {
        Decision::Create(lineage) => act(step("create", render_create(view, &lineage))),
        Decision::Rewrite(lineage) => {
            act(step("take over", render_rewrite(view, &lineage)))
        }
        Decision::Replace(lineage) if inputs.is_settled => {
            act(step("promote", render_replace(view, &lineage)))
        }
        Decision::Replace(_) => FlatPlan {
            requeue_ms: Some(WAIT_MS),
            ..note_only(Some(note(
                inputs,
                reason::FLAT_VIEW_WAITS,
                "it gets this definition once the tables are as declared and no worker of an older revision is left".to_owned(),
            )))
        },
        Decision::Leave(why) => note_only(explain(inputs, &why)),
    }
}

fn act(step: ViewStep) -> FlatPlan {
    FlatPlan {
        step: Some(step),
        note: None,
        requeue_ms: Some(READ_BACK_MS),
    }
}

const fn note_only(note: Option<Note>) -> FlatPlan {
    FlatPlan {
        step: None,
        note,
        requeue_ms: None,
    }
}

fn build_facts(inputs: &FlatInputs<'_>) -> ViewFacts {
    ViewFacts {
        of: inputs.definition.of(),
        found: read_found(inputs.reading.view.as_ref()),
        catalog: inputs.catalog.clone(),
        mine: build_entry(inputs),
    }
}

fn build_entry(inputs: &FlatInputs<'_>) -> Entry {
    let fp = inputs.definition.fp();
    Entry {
        owner: inputs.owner.clone(),
        uid: inputs.uid.to_owned(),
        generation: inputs.generation,
        promoted: inputs
            .word
            .filter(|word| is_about(word, inputs.generation, &fp))
            .map(str::to_owned),
        fp,
        at: inputs.reading.now_s,
    }
}

/// A word is about the live generation; where there are none, about the fingerprint, with anything behind a slash, so that it
/// can be said again.
fn is_about(word: &str, generation: i64, fp: &str) -> bool {
    if generation > 0 {
        return word == generation.to_string();
    }
    word.split('/').next() == Some(fp)
}

/// What a view is to us.
#[must_use]
pub fn read_found(view: Option<&FoundView>) -> Found {
    let Some(view) = view else {
        return Found::Missing;
    };
    if view.engine != "View" {
        return Found::Foreign;
    }
    match read_mark(&view.comment) {
        Mark::None => Found::Foreign,
        Mark::Unreadable => Found::Unreadable,
        Mark::Lineage(lineage) => Found::Ours(lineage),
    }
}

fn note(inputs: &FlatInputs<'_>, reason: &'static str, message: String) -> Note {
    Note {
        table: inputs.definition.of(),
        reason,
        message,
    }
}

fn explain(inputs: &FlatInputs<'_>, why: &Why) -> Option<Note> {
    let fp = inputs.definition.fp();
    let promote = promote(inputs, &fp);
    let (reason, message) = match why {
        Why::Current => return None,
        Why::NameTaken => (
            reason::NAME_TAKEN,
            "expected a view of this sink, found something else of that name, which is left alone; choose another name".to_owned(),
        ),
        Why::Unreadable => (
            reason::LINEAGE_UNREADABLE,
            "expected the comment that this sink wrote, found another; the view is left alone: drop it to have it made anew".to_owned(),
        ),
        Why::Newer(entry) => (
            reason::FLAT_VIEW_REPLACED,
            format!("it shows a newer generation, {}, of this sink", entry.generation),
        ),
        Why::Replaced(entry) => (
            reason::FLAT_VIEW_REPLACED,
            format!(
                "it showed this definition ({fp}) before and shows a newer one now ({} of {}); {promote}",
                entry.fp, entry.owner
            ),
        ),
        Why::Fighting(entry) => (
            reason::DEFINITIONS_FIGHTING,
            format!(
                "{} and {} replaced each other's definition twice within an hour; it is left as {} made it: let one of them go",
                inputs.owner, entry.owner, entry.owner
            ),
        ),
        Why::Full => (
            reason::LINEAGE_FULL,
            format!("it has shown more definitions than its comment can name; {promote}"),
        ),
    };
    Some(note(inputs, reason, message))
}

fn promote(inputs: &FlatInputs<'_>, fp: &str) -> String {
    let word = if inputs.generation > 0 {
        inputs.generation.to_string()
    } else {
        fp.to_owned()
    };
    format!("to let yours stand, set the annotation {ANNOTATION_PROMOTE_VIEW}: \"{word}\"")
}

/// `validate`: what differs, and nothing is done.
fn check(inputs: &FlatInputs<'_>) -> Option<Note> {
    let view = inputs.definition;
    let create = || {
        let lineage = Lineage::new(&view.of()).with(build_entry(inputs));
        lineage.map_or_else(|_| String::new(), |lineage| render_create(view, &lineage))
    };
    match read_found(inputs.reading.view.as_ref()) {
        Found::Missing => Some(note(
            inputs,
            reason::FLAT_VIEW_MISSING,
            format!("create it: {}", create().replace('\n', " ")),
        )),
        Found::Foreign => explain(inputs, &Why::NameTaken),
        Found::Unreadable => explain(inputs, &Why::Unreadable),
        Found::Ours(lineage) => {
            let last = lineage.last()?;
            (last.fp != view.fp()).then(|| {
                let message = format!(
                    "expected definition {}, found {} of {}; `ddl: validate` changes nothing",
                    view.fp(),
                    last.fp,
                    last.owner
                );
                note(inputs, reason::FLAT_VIEW_DIFFERS, message)
            })
        }
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
