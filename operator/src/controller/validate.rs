//! Step 2: what the declaration is worth, by what the server says about it. Pure; all violations at once.
//!
//! Must not be here: clients, checks that need no server (the contract crate makes those when the file is read).

use std::collections::BTreeMap;

use clickhouse_sink_crds::expression::volatile_function;
use clickhouse_sink_crds::names::reason;
use clickhouse_sink_crds::table::TableDefinition;
use clickhouse_sink_crds::violation::Violation;
use serde::Serialize;

use crate::controller::declaration::{Declaration, default_path, list_expressions, quote_column};
use crate::controller::observe::{Observation, Reading, ServerReading, Unreachable};
use crate::derived::check::{ValidatedDerived, build_all, check_all};
use crate::flat_view::definition::build_definition;
use crate::flat_view::{self, ViewDefinition};
use crate::ownership::plan_ownership;
use crate::sql::check_expression;
use crate::warehouse::Verdict;

/// What a declaration is worth.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum Validation {
    /// It can be made real.
    Valid(Box<Validated>),
    /// It cannot.
    Invalid(Vec<Violation>),
    /// The server could not be asked, or what is remembered could not be read.
    Unknown(Unreachable),
}

/// A declaration in the server's own terms.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Validated {
    /// The table; expressions in canonical form.
    pub expected: TableDefinition,
    /// The table of rejected records; expressions in canonical form.
    pub rejected: TableDefinition,
    /// Each column's default as JSON text.
    pub defaults: BTreeMap<String, String>,
    /// The derived tables that are looked after.
    pub derived: Vec<ValidatedDerived>,
    /// The flat view that is looked after.
    pub view: Option<ViewDefinition>,
}

/// Judges a declaration.
#[must_use]
pub fn validate(declaration: &Declaration, observation: &Observation) -> Validation {
    if let Reading::Unreachable(why) = &observation.memory {
        return Validation::Unknown(why.clone());
    }
    let server = match &observation.server {
        Reading::Known(server) => server,
        Reading::Unreachable(why) => return Validation::Unknown(why.clone()),
    };
    let mut violations = check_expressions(&declaration.expected, server);
    violations.extend(check_defaults(&declaration.expected, server));
    violations.extend(check_all(declaration, server));
    violations.extend(flat_view::definition::check_expressions(
        &declaration.sink,
        &server.canonical,
    ));
    if !violations.is_empty() {
        return Validation::Invalid(violations);
    }
    let validated = build_validated(declaration, server);
    match plan_ownership(declaration, &validated, server).refused {
        None => Validation::Valid(Box::new(validated)),
        Some(message) => {
            let violation = Violation::new("spec.table.name", &message);
            Validation::Invalid(vec![violation.of_rule(reason::TABLE_OWNED_BY_OTHER)])
        }
    }
}

/// The word for what is wrong.
#[must_use]
pub fn reason_of(violations: &[Violation]) -> &'static str {
    match violations {
        [one] if one.rule == reason::TABLE_OWNED_BY_OTHER => reason::TABLE_OWNED_BY_OTHER,
        _ => reason::INVALID_SPEC,
    }
}

fn check_expressions(table: &TableDefinition, server: &ServerReading) -> Vec<Violation> {
    let mut violations = Vec::new();
    for expression in list_expressions(table) {
        let said = server.canonical.get(&expression.text);
        let message = match (check_expression(&expression.text), said) {
            (Err(error), _) => Some(error.to_string()),
            (Ok(()), Some(Err(why))) => Some(format!(
                "ClickHouse cannot read it as one expression: {why}"
            )),
            (Ok(()), _) => None,
        };
        violations.extend(message.map(|message| Violation::new(&expression.path, &message)));
    }
    violations
}

fn check_defaults(table: &TableDefinition, server: &ServerReading) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (index, column) in table.columns.iter().enumerate() {
        let Some(default) = &column.default else {
            continue;
        };
        let message = volatile_function(default)
            .map(|function| {
                format!("{function} gives another value with each call, and a record that is delivered twice would become two rows: use a constant")
            })
            .or_else(|| {
                let why = server.defaults.get(&column.name)?.as_ref().err()?;
                Some(format!("expected a constant of type {}: {why}", column.data_type))
            });
        violations.extend(message.map(|message| Violation::new(&default_path(index), &message)));
    }
    violations
}

fn build_validated(declaration: &Declaration, server: &ServerReading) -> Validated {
    let defaults = server.defaults.iter();
    let expected = build_canonical(&declaration.expected, &server.canonical);
    let derived = build_all(declaration, server);
    let mut sources = vec![&expected];
    sources.extend(derived.iter().map(|derived| &derived.expected));
    Validated {
        view: build_definition(&declaration.sink, &sources, &server.canonical),
        expected,
        rejected: build_canonical(&declaration.rejected, &server.canonical),
        defaults: defaults
            .filter_map(|(column, value)| Some((column.clone(), value.clone().ok()?)))
            .collect(),
        derived,
    }
}

/// The definition with each expression in the server's own form.
fn build_canonical(table: &TableDefinition, forms: &BTreeMap<String, Verdict>) -> TableDefinition {
    let canonical = |text: &String| match forms.get(text) {
        Some(Ok(form)) => form.clone(),
        _ => text.clone(),
    };
    let mut out = table.clone();
    out.order_by = table
        .order_by
        .iter()
        .map(|part| canonical(&quote_column(table, part)))
        .collect();
    out.partition_by = table.partition_by.as_ref().map(canonical);
    out.ttl = table.ttl.as_ref().map(canonical);
    for index in &mut out.indexes {
        index.expression = canonical(&index.expression);
    }
    for column in &mut out.columns {
        column.default = column.default.as_ref().map(canonical);
    }
    out
}
