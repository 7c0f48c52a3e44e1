//! Which statements are allowed: an allow-list, since ClickHouse itself takes changes that lose values.
//!
//! Must not be here: statements' text.

use clickhouse_sink_crds::api::{DdlMode, WideningPolicy};
use clickhouse_sink_crds::check::{Consent, Finding, Mend, check_window, find_differences};
use clickhouse_sink_crds::ddl::render_create_table;
use clickhouse_sink_crds::table::{Difference, ObservedTable, TableDefinition};

use super::step::DdlStep;

/// A table as it is declared and as it is found.
#[derive(Debug, Clone, Copy)]
pub struct TableCase<'a> {
    /// What it must be.
    pub expected: &'a TableDefinition,
    /// What it is; none: it is missing.
    pub observed: Option<&'a ObservedTable>,
    /// It was there before.
    pub was_there: bool,
}

/// What is to be done about tables, and what is left for a person.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TablesPlan {
    /// Statements, in order.
    pub steps: Vec<DdlStep>,
    /// Differences that no step mends and that stop writes.
    pub held: Vec<Difference>,
    /// Differences that no step mends and that are only worth a warning.
    pub warnings: Vec<Difference>,
}

/// The statements alone; widening is refused.
#[must_use]
pub fn plan_ddl(
    mode: DdlMode,
    has_database: bool,
    tables: &[(&TableDefinition, Option<&ObservedTable>)],
) -> Vec<DdlStep> {
    let cases: Vec<_> = tables
        .iter()
        .map(|(expected, observed)| TableCase {
            expected,
            observed: *observed,
            was_there: false,
        })
        .collect();
    plan_tables(mode, WideningPolicy::Refuse, has_database, &cases).steps
}

/// What brings each table to what is declared, as far as the mode allows: in `auto` what is missing is made, and what
/// differs is changed where nothing can be lost.
#[must_use]
pub fn plan_tables(
    mode: DdlMode,
    policy: WideningPolicy,
    has_database: bool,
    tables: &[TableCase<'_>],
) -> TablesPlan {
    let mut plan = TablesPlan::default();
    for table in tables {
        let one = plan_table(mode, policy, table);
        plan.steps.extend(one.steps);
        plan.held.extend(one.held);
        plan.warnings.extend(one.warnings);
    }
    let missing = plan.steps.iter().find_map(|step| match step {
        DdlStep::CreateTable { definition, .. } | DdlStep::CreateAgain { definition, .. } => {
            Some(definition)
        }
        _ => None,
    });
    if let Some(table) = missing.filter(|_| !has_database) {
        let step = build_database(table);
        plan.steps.insert(0, step);
    }
    plan
}

fn build_database(table: &TableDefinition) -> DdlStep {
    let cluster = table.cluster.as_ref();
    DdlStep::CreateDatabase {
        database: table.database.clone(),
        on_cluster: cluster
            .filter(|cluster| cluster.on_cluster)
            .map(|cluster| cluster.name.clone()),
    }
}

fn plan_table(mode: DdlMode, policy: WideningPolicy, table: &TableCase<'_>) -> TablesPlan {
    let TableCase {
        expected, observed, ..
    } = table;
    match (mode, observed) {
        (DdlMode::None, None) => TablesPlan::default(),
        // Whoever keeps the table must know what a late replay needs.
        (DdlMode::None, Some(found)) => sort(check_window(expected, found)),
        (DdlMode::Validate, None) => sort([build_missing(expected)]),
        (DdlMode::Auto, None) => TablesPlan {
            steps: vec![build_create(table)],
            ..TablesPlan::default()
        },
        (DdlMode::Validate, Some(found)) => {
            let findings = find_differences(expected, found).into_iter();
            sort(findings.map(|finding| finding.difference))
        }
        (DdlMode::Auto, Some(found)) => {
            plan_changes(policy, expected, find_differences(expected, found))
        }
    }
}

/// Differences that nothing is done about.
fn sort(differences: impl IntoIterator<Item = Difference>) -> TablesPlan {
    let (held, warnings) = differences
        .into_iter()
        .partition(|difference| difference.blocks_writes);
    TablesPlan {
        steps: Vec::new(),
        held,
        warnings,
    }
}

fn build_create(table: &TableCase<'_>) -> DdlStep {
    let definition = Box::new(table.expected.clone());
    if table.was_there {
        DdlStep::CreateAgain {
            definition,
            comment: None,
        }
    } else {
        DdlStep::CreateTable {
            definition,
            comment: None,
        }
    }
}

/// A table of another shape is not touched at all: who knows whose it is.
fn plan_changes(
    policy: WideningPolicy,
    expected: &TableDefinition,
    findings: Vec<Finding>,
) -> TablesPlan {
    let is_allowed = |finding: &Finding| {
        finding
            .mend
            .as_ref()
            .is_some_and(|mend| allows(policy, mend))
    };
    let is_refused = |finding: &Finding| finding.difference.blocks_writes && !is_allowed(finding);
    if findings.iter().any(is_refused) {
        return sort(findings.into_iter().map(|finding| finding.difference));
    }
    let (mended, left): (Vec<_>, Vec<_>) = findings.into_iter().partition(is_allowed);
    let steps = mended.into_iter().filter_map(|finding| {
        Some(DdlStep::AlterTable {
            definition: Box::new(expected.clone()),
            change: finding.mend?.alteration,
            needed: finding.difference.blocks_writes,
        })
    });
    TablesPlan {
        steps: steps.collect(),
        ..sort(left.into_iter().map(|finding| finding.difference))
    }
}

fn allows(policy: WideningPolicy, mend: &Mend) -> bool {
    match mend.consent {
        Consent::None => true,
        Consent::Rewrite => policy == WideningPolicy::Mutate,
        Consent::Person => false,
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

#[cfg(test)]
mod tests;
