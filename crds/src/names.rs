//! Labels, annotations, condition types and reasons: one place for every name that others match on.
//!
//! Must not be here: what they are used for.

/// Label with the sink's name on everything that is made for it.
pub const LABEL_SINK: &str = "clickhouse-sink.io/sink";
/// Annotation: a new value rolls the workers.
pub const ANNOTATION_RESTART: &str = "clickhouse-sink.io/restart";
/// Annotation: `disabled` stops the operator's hand on this sink.
pub const ANNOTATION_RECONCILE: &str = "clickhouse-sink.io/reconcile";

/// Annotation: the recorded uid of another owner whose tables this sink may take over.
pub const ANNOTATION_ADOPT: &str = "clickhouse-sink.io/adopt";
/// Annotation: the generation whose definition of the flat view stands, whatever its lineage says.
pub const ANNOTATION_PROMOTE_VIEW: &str = "clickhouse-sink.io/promote-view";
/// Annotation: lint rules that are not reported for this sink, with commas between them.
pub const ANNOTATION_LINT_ALLOW: &str = "clickhouse-sink.io/lint-allow";

/// Conditions of a sink.
pub mod condition {
    /// The spec is valid, the table as declared, workers are there, no partition is held.
    pub const READY: &str = "Ready";
    /// The spec passed every check.
    pub const SPEC_VALID: &str = "SpecValid";
    /// The table is as declared.
    pub const SCHEMA_IN_SYNC: &str = "SchemaInSync";
    /// The flat view shows this generation's definition.
    pub const FLAT_VIEW_CURRENT: &str = "FlatViewCurrent";
    /// Workers run and answer.
    pub const WORKERS_AVAILABLE: &str = "WorkersAvailable";
    /// The table remembers its INSERTs long enough to know a replay again.
    pub const DEDUP_WINDOW_SUFFICIENT: &str = "DedupWindowSufficient";
}

/// Reasons of conditions.
pub mod reason {
    /// Everything is as it should be.
    pub const AS_DECLARED: &str = "AsDeclared";
    /// The spec breaks a rule.
    pub const INVALID_SPEC: &str = "InvalidSpec";
    /// The Secret with the credentials is not there, or lacks a key.
    pub const SECRET_MISSING: &str = "SecretMissing";
    /// The table differs from what is declared.
    pub const TABLE_NOT_AS_DECLARED: &str = "TableNotAsDeclared";
    /// The table is not there, and may not be created.
    pub const TABLE_MISSING: &str = "TableMissing";
    /// ClickHouse does not answer.
    pub const CLICKHOUSE_UNREACHABLE: &str = "ClickHouseUnreachable";
    /// ClickHouse refuses the credentials or lacks a grant.
    pub const UNAUTHORIZED: &str = "Unauthorized";
    /// Workers are starting.
    pub const WORKERS_STARTING: &str = "WorkersStarting";
    /// A worker ends again and again.
    pub const WORKERS_CRASHING: &str = "WorkersCrashing";
    /// `spec.paused` is true.
    pub const PAUSED: &str = "Paused";
    /// `spec.replicas` is 0.
    pub const SCALED_TO_ZERO: &str = "ScaledToZero";
    /// The table's deduplication window is smaller than a replay may need.
    pub const DEDUP_WINDOW_TOO_SMALL: &str = "DedupWindowTooSmall";
    /// A partition is held.
    pub const PARTITION_HELD: &str = "PartitionHeld";
    /// Workers are stopped for a moment, so that a materialized view can be changed between two inserts.
    pub const VIEW_CHANGING: &str = "ViewChanging";
    /// A materialized view is to be changed as soon as workers have run for a while.
    pub const VIEW_CHANGE_WAITS: &str = "ViewChangeWaits";
    /// Workers stopped, but inserts of theirs are still open: the view stays as it is for now.
    pub const PLAN_NOT_EMPTY: &str = "PlanNotEmpty";
    /// What the consumer group has committed could not be read.
    pub const PLANS_UNREADABLE: &str = "PlansUnreadable";
    /// Workers stopped, but others are members of the consumer group.
    pub const GROUP_NOT_EMPTY: &str = "GroupNotEmpty";
    /// A new derived table is being filled from the table.
    pub const BACKFILL_RUNNING: &str = "BackfillRunning";
    /// A derived table cannot be filled by offsets: the table holds rows at or beyond the committed ones.
    pub const BACKFILL_REFUSED: &str = "BackfillRefused";
    /// A name that a derived table, its view or the flat view needs is something else's.
    pub const NAME_TAKEN: &str = "NameTaken";
    /// The flat view is not there, and may not be made.
    pub const FLAT_VIEW_MISSING: &str = "FlatViewMissing";
    /// The flat view shows another definition, and may not be replaced.
    pub const FLAT_VIEW_DIFFERS: &str = "FlatViewDiffers";
    /// The flat view gets its definition when the roll is over.
    pub const FLAT_VIEW_WAITS: &str = "FlatViewWaits";
    /// The flat view showed this definition before and shows a newer one now.
    pub const FLAT_VIEW_REPLACED: &str = "FlatViewReplaced";
    /// The comment of the flat view was edited.
    pub const LINEAGE_UNREADABLE: &str = "LineageUnreadable";
    /// The comment of the flat view has no room for one more definition.
    pub const LINEAGE_FULL: &str = "LineageFull";
    /// Two definitions of the flat view replace each other.
    pub const DEFINITIONS_FIGHTING: &str = "DefinitionsFighting";
    /// The table belongs to another sink.
    pub const TABLE_OWNED_BY_OTHER: &str = "TableOwnedByOther";
    /// The table's comment says that it is a sink's, but not whose.
    pub const OWNER_UNREADABLE: &str = "OwnerUnreadable";
    /// What was made could not be written into the catalog.
    pub const CATALOG_UNWRITABLE: &str = "CatalogUnwritable";
    /// The catalog lacks columns, and may not be changed.
    pub const CATALOG_OUTDATED: &str = "CatalogOutdated";
}
