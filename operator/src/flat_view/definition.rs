//! What a flat view shows: ordered columns with their expressions, how it reads, and what from. Pure.
//!
//! Must not be here: the statement's text (`sql.rs`), lineage.

use std::collections::{BTreeMap, BTreeSet};

use clickhouse_sink_crds::api::{ClickHouseSink, FlatViewSpec, ReadMode};
use clickhouse_sink_crds::data_type::DataType;
use clickhouse_sink_crds::fingerprint::fingerprint;
use clickhouse_sink_crds::table::{Engine, TableDefinition};
use clickhouse_sink_crds::violation::Violation;
use serde::Serialize;

use crate::sql::{check_expression, render_identifier, render_literal};
use crate::warehouse::Verdict;

/// A flat view in the server's own terms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ViewDefinition {
    /// Database of view and source.
    pub database: String,
    /// Name of the view.
    pub name: String,
    /// Name of the table that it reads.
    pub source: String,
    /// How it reads.
    pub read: Read,
    /// Name and expression of each column.
    pub columns: Vec<(String, String)>,
}

/// How a view reads its source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Read {
    /// Every row.
    Plain,
    /// By `FINAL`.
    Final,
    /// One row for each key, by `argMax` over the version column.
    #[serde(rename_all = "camelCase")]
    LatestBy {
        /// The sorting key.
        key: Vec<String>,
        /// The version column.
        version: String,
        /// Every other column that there is.
        others: Vec<String>,
    },
}

impl ViewDefinition {
    /// `database.name`.
    #[must_use]
    pub fn of(&self) -> String {
        format!("{}.{}", self.database, self.name)
    }

    /// The fingerprint: what people see decides, not how a statement is laid out.
    #[must_use]
    pub fn fp(&self) -> String {
        let read = match &self.read {
            Read::Plain => "Plain",
            Read::Final => "Final",
            Read::LatestBy { .. } => "LatestBy",
        };
        let canonical = serde_json::json!([self.columns, read, self.source]);
        fingerprint(canonical.to_string().as_bytes())
    }
}

/// Expressions of the view that the server is asked about.
#[must_use]
pub fn list_texts(sink: &ClickHouseSink) -> Vec<String> {
    let columns = sink.spec.flat_view.iter().flat_map(|view| &view.columns);
    columns
        .filter_map(|column| column.expression.clone())
        .collect()
}

/// Expressions that the server cannot read.
#[must_use]
pub fn check_expressions(
    sink: &ClickHouseSink,
    forms: &BTreeMap<String, Verdict>,
) -> Vec<Violation> {
    let columns = sink.spec.flat_view.iter().flat_map(|view| &view.columns);
    let check = |(index, text): (usize, &String)| {
        let message = match (check_expression(text), forms.get(text)) {
            (Err(error), _) => error.to_string(),
            (Ok(()), Some(Err(why))) => {
                format!("ClickHouse cannot read it as one expression: {why}")
            }
            (Ok(()), _) => return None,
        };
        let path = format!("spec.flatView.columns[{index}].expression");
        Some(Violation::new(&path, &message))
    };
    columns
        .enumerate()
        .filter_map(|(index, column)| Some((index, column.expression.as_ref()?)))
        .filter_map(check)
        .collect()
}

/// The declared view over its source; none where the sink has none, or its source is none of these tables.
#[must_use]
pub fn build_definition(
    sink: &ClickHouseSink,
    tables: &[&TableDefinition],
    forms: &BTreeMap<String, Verdict>,
) -> Option<ViewDefinition> {
    let view = sink.spec.flat_view.as_ref()?;
    let source = view.source.as_deref().unwrap_or(&sink.spec.table.name);
    let table = tables.iter().find(|table| table.name == source)?;
    Some(ViewDefinition {
        database: table.database.clone(),
        name: view.name.clone(),
        source: source.to_owned(),
        read: build_read(view, table),
        columns: build_columns(view, table, forms),
    })
}

fn build_read(view: &FlatViewSpec, table: &TableDefinition) -> Read {
    let Engine::ReplacingMergeTree { version_column } = &table.engine else {
        return Read::Plain;
    };
    match view.read {
        Some(ReadMode::Plain) => Read::Plain,
        None | Some(ReadMode::Final) => Read::Final,
        Some(ReadMode::LatestBy) => Read::LatestBy {
            key: table.order_by.clone(),
            version: version_column.clone(),
            others: table
                .columns
                .iter()
                .map(|column| column.name.clone())
                .filter(|name| !table.order_by.contains(name))
                .collect(),
        },
    }
}

fn build_columns(
    view: &FlatViewSpec,
    table: &TableDefinition,
    forms: &BTreeMap<String, Verdict>,
) -> Vec<(String, String)> {
    if view.columns.is_empty() {
        return flatten_all(table);
    }
    let column = |name: &String, expression: &Option<String>| match expression {
        None => render_identifier(name),
        Some(text) => match forms.get(text) {
            Some(Ok(form)) => form.clone(),
            _ => text.clone(),
        },
    };
    let columns = view.columns.iter();
    columns
        .map(|it| (it.name.clone(), column(&it.name, &it.expression)))
        .collect()
}

/// Every column of the source; a tuple with names becomes one column for each of its elements, unless a name is taken.
fn flatten_all(table: &TableDefinition) -> Vec<(String, String)> {
    let taken: BTreeSet<&str> = table
        .columns
        .iter()
        .map(|column| column.name.as_str())
        .collect();
    let mut columns = Vec::new();
    for column in &table.columns {
        let whole = (column.name.clone(), render_identifier(&column.name));
        let parts = DataType::parse(&column.data_type)
            .ok()
            .map(|data_type| flatten(&whole.0, &whole.1, &data_type))
            .unwrap_or_default();
        let is_clear = parts.iter().all(|(name, _)| !taken.contains(name.as_str()));
        if parts.is_empty() || !is_clear {
            columns.push(whole);
        } else {
            columns.extend(parts);
        }
    }
    columns
}

/// Elements of a tuple whose elements all have names; nothing for other types.
fn flatten(name: &str, expression: &str, data_type: &DataType) -> Vec<(String, String)> {
    let DataType::Tuple(elements) = data_type else {
        return Vec::new();
    };
    if elements.iter().any(|(name, _)| name.is_none()) {
        return Vec::new();
    }
    let mut columns = Vec::new();
    for (element, inner) in elements {
        let element = element.as_deref().unwrap_or_default();
        let part = (
            format!("{name}_{element}"),
            format!("tupleElement({expression}, {})", render_literal(element)),
        );
        let parts = flatten(&part.0, &part.1, inner);
        if parts.is_empty() {
            columns.push(part);
        } else {
            columns.extend(parts);
        }
    }
    columns
}

#[cfg(test)]
#[path = "definition_tests.rs"]
mod tests;
