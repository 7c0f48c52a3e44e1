//! The steps of derived tables: decisions with their statements.
//!
//! Must not be here: decisions (`decide.rs`), clients.

use clickhouse_sink_crds::api::DdlMode;
use clickhouse_sink_crds::names::reason;
use clickhouse_sink_crds::table::{Difference, TableDefinition};
use clickhouse_sink_crds::validate::views::view_name;
use serde::Serialize;

use crate::controller::declaration::Declaration;
use crate::controller::observe::{Observation, ServerReading};
use crate::derived::backfill::Backfill;
use crate::derived::check::ValidatedDerived;
use crate::derived::decide::{Decision, decide_all};
use crate::derived::sql::{
    render_change_view, render_comment, render_create_view, render_fill, render_refill,
};

/// Pieces of a backfill between two looks at the world.
const PIECES: u32 = 4;
/// When to look again while workers stop, in milliseconds.
const DRAIN_MS: u64 = 200;
/// When to look again while a backfill goes on, in milliseconds.
const FILL_MS: u64 = 20;
/// When to look again while a change waits, in milliseconds.
const WAIT_MS: u64 = 1_000;

/// What is to be done about derived tables.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DerivedPlan {
    /// Statements, in order, behind those of the tables.
    pub steps: Vec<DerivedStep>,
    /// Workers are to be stopped for a moment.
    pub drain: bool,
    /// What people should know; data flows all the same.
    pub notes: Vec<Note>,
    /// When to look again, in milliseconds; none: nothing is under way.
    pub requeue_ms: Option<u64>,
}

/// Something about a derived table that people should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Note {
    /// The derived table.
    pub table: String,
    /// A stable word.
    pub reason: &'static str,
    /// What was expected, what was found, what to do.
    pub message: String,
}

impl Note {
    /// One line.
    #[must_use]
    pub fn render(&self) -> String {
        let Self {
            table,
            reason,
            message,
        } = self;
        format!("{reason}: {table}: {message}")
    }
}

/// One statement about a derived table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum DerivedStep {
    /// The view is made.
    CreateView {
        /// Its name.
        view: String,
        /// The statement.
        sql: String,
        /// What is missing, where it was there before.
        warning: Option<String>,
        /// Workers are not started, or changed, without it: what they insert would be missing.
        is_awaited: bool,
    },
    /// The view gets another SELECT.
    ChangeView {
        /// Its name.
        view: String,
        /// The statement.
        sql: String,
    },
    /// Rows that are there are filled in.
    Fill {
        /// The derived table.
        table: String,
        /// Number of the piece, from 1.
        piece: u32,
        /// Pieces in all.
        of: u32,
        /// The statement.
        sql: String,
    },
    /// Progress is written down.
    NoteProgress {
        /// The view whose comment it is.
        view: String,
        /// Pieces that are done.
        done: u32,
        /// The statement.
        sql: String,
    },
    /// The table of a view was gone; it is made again with the other tables.
    TableWasGone {
        /// The derived table.
        table: String,
        /// What is missing.
        warning: String,
    },
}

impl DerivedStep {
    /// What the step does, for people.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::CreateView {
                view,
                warning: None,
                ..
            } => format!("create materialized view {view}"),
            Self::CreateView {
                view,
                warning: Some(_),
                ..
            } => {
                format!("create materialized view {view} again: it was gone")
            }
            Self::ChangeView { view, .. } => {
                format!("change the SELECT of materialized view {view}")
            }
            Self::Fill {
                table, piece, of, ..
            } => format!("fill {table}, piece {piece} of {of}"),
            Self::NoteProgress { view, done, .. } => {
                format!("note {done} filled pieces in the comment of {view}")
            }
            Self::TableWasGone { table, .. } => format!("derived table {table} was gone"),
        }
    }

    /// The statement; none where there is nothing to run.
    #[must_use]
    pub fn statement(&self) -> Option<&str> {
        match self {
            Self::CreateView { sql, .. }
            | Self::ChangeView { sql, .. }
            | Self::Fill { sql, .. }
            | Self::NoteProgress { sql, .. } => Some(sql),
            Self::TableWasGone { .. } => None,
        }
    }

    /// True where workers are left as they are while it fails; else a failure leaves what was there, and data flows.
    #[must_use]
    pub const fn is_awaited(&self) -> bool {
        matches!(
            self,
            Self::CreateView {
                is_awaited: true,
                ..
            }
        )
    }

    /// What people must know beside it.
    #[must_use]
    pub fn warning(&self) -> Option<&str> {
        match self {
            Self::CreateView { warning, .. } => warning.as_deref(),
            Self::TableWasGone { warning, .. } => Some(warning),
            _ => None,
        }
    }
}

/// All steps of the derived tables, and what keeps the others.
#[must_use]
pub fn plan_derived(
    declaration: &Declaration,
    validated: &[ValidatedDerived],
    server: &ServerReading,
    observation: &Observation,
) -> (DerivedPlan, Vec<Difference>) {
    let mut plan = DerivedPlan::default();
    let mut held = Vec::new();
    let decisions = decide_all(
        declaration,
        server,
        &observation.fleet,
        observation.group.as_ref(),
    );
    for ((derived, decision), reading) in validated.iter().zip(decisions).zip(&server.derived) {
        let scene = Scene {
            source: &declaration.expected,
            derived,
            view: view_name(&derived.expected.name),
            has_workers: declaration.replicas() > 0,
            view_uuid: reading.view.as_ref().map_or("", |view| view.uuid.as_str()),
        };
        let makes_target = declaration.mode() == DdlMode::Auto;
        if makes_target && reading.target.is_none() && reading.view.is_some() {
            plan.steps.push(scene.warn_table());
        }
        match decision {
            Decision::Hold(difference) => held.push(difference),
            other => scene.add(&mut plan, other),
        }
    }
    (plan, held)
}

struct Scene<'a> {
    source: &'a TableDefinition,
    derived: &'a ValidatedDerived,
    view: String,
    view_uuid: &'a str,
    has_workers: bool,
}

impl Scene<'_> {
    fn add(&self, plan: &mut DerivedPlan, decision: Decision) {
        let soon = |plan: &mut DerivedPlan, ms| {
            plan.requeue_ms = Some(plan.requeue_ms.map_or(ms, |other: u64| other.min(ms)));
        };
        match decision {
            Decision::Leave | Decision::Hold(_) => {}
            Decision::Create {
                backfill,
                was_gone,
                after_drain,
            } => {
                plan.steps
                    .push(self.create(backfill.as_ref(), was_gone, !after_drain));
                soon(plan, FILL_MS);
            }
            Decision::Change => {
                plan.steps.push(self.change());
                soon(plan, FILL_MS);
            }
            Decision::Fill(backfill) => {
                plan.notes.push(self.note_running(&backfill));
                plan.steps.extend(self.fill(&backfill));
                soon(plan, FILL_MS);
            }
            Decision::Drain | Decision::Ask => {
                plan.drain = true;
                soon(plan, DRAIN_MS);
            }
            Decision::Wait(note) => {
                plan.notes.push(note);
                // While none are wanted there is nothing to wait for but the next look.
                if self.has_workers {
                    soon(plan, WAIT_MS);
                }
            }
        }
    }

    fn database(&self) -> &str {
        &self.derived.expected.database
    }

    fn create(&self, backfill: Option<&Backfill>, was_gone: bool, is_awaited: bool) -> DerivedStep {
        let comment = backfill.map(Backfill::render);
        let table = &self.derived.expected.name;
        let refill = render_refill(self.database(), table, &self.derived.select);
        let warning = was_gone.then(|| {
            format!(
                "rows that came while the view was gone are not in {table}; to have them, drop {table} and its view (with `backfill: Once` it \
                 is then filled anew), or run `{refill}` for the rows that are missing"
            )
        });
        let database = self.database();
        DerivedStep::CreateView {
            sql: render_create_view(
                database,
                table,
                &self.view,
                &self.derived.select,
                comment.as_deref(),
            ),
            view: format!("{database}.{}", self.view),
            warning,
            is_awaited,
        }
    }

    fn change(&self) -> DerivedStep {
        DerivedStep::ChangeView {
            view: format!("{}.{}", self.database(), self.view),
            sql: render_change_view(self.database(), &self.view, &self.derived.select),
        }
    }

    /// Each piece is written down as soon as it is done: what is repeated after a crash is the last one alone.
    fn fill(&self, backfill: &Backfill) -> Vec<DerivedStep> {
        let mut steps = Vec::new();
        let last = backfill.count().min(backfill.done.saturating_add(PIECES));
        for number in backfill.done..last {
            let Some(piece) = backfill.piece(number) else {
                break;
            };
            steps.push(DerivedStep::Fill {
                table: self.derived.expected.name.clone(),
                piece: number + 1,
                of: backfill.count(),
                sql: render_fill(
                    self.source,
                    &self.derived.expected,
                    &self.derived.canonical,
                    backfill,
                    (&piece, self.view_uuid),
                ),
            });
            let noted = backfill.with_done(number + 1);
            steps.push(DerivedStep::NoteProgress {
                view: format!("{}.{}", self.database(), self.view),
                done: noted.done,
                sql: render_comment(self.database(), &self.view, &noted.render()),
            });
        }
        steps
    }

    fn note_running(&self, backfill: &Backfill) -> Note {
        Note {
            table: self.derived.expected.name.clone(),
            reason: reason::BACKFILL_RUNNING,
            message: format!(
                "{} of {} pieces are filled",
                backfill.done,
                backfill.count()
            ),
        }
    }

    fn warn_table(&self) -> DerivedStep {
        let table = &self.derived.expected.name;
        let refill = render_refill(self.database(), table, &self.derived.select);
        DerivedStep::TableWasGone {
            table: table.clone(),
            warning: format!(
                "{table} is made again, and what it held is not in it; to have it, drop {table} and its view (with `backfill: Once` it is then \
                 filled anew), or run `{refill}` while workers are paused"
            ),
        }
    }
}
