//! What a declared derived table is worth, by what the server says about its SELECT. Pure; all violations at once.
//!
//! Must not be here: checks that need no server (the contract crate makes those when the file is read).

use std::collections::BTreeMap;

use clickhouse_sink_crds::api::DerivedSpec;
use clickhouse_sink_crds::data_type::DataType;
use clickhouse_sink_crds::resolve::derived_table;
use clickhouse_sink_crds::select::qualify_select;
use clickhouse_sink_crds::table::TableDefinition;
use clickhouse_sink_crds::violation::Violation;
use serde::Serialize;

use crate::controller::declaration::Declaration;
use crate::controller::observe::ServerReading;
use crate::derived::observe::DerivedReading;
use crate::sql::check_expression;
use crate::warehouse::{SelectShape, Verdict};

/// A derived table in the server's own terms.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ValidatedDerived {
    /// The table.
    pub expected: TableDefinition,
    /// Its SELECT, the sink's table by its plain name.
    pub canonical: String,
    /// Its SELECT, the sink's table by its full name.
    pub select: String,
}

/// The expressions of a derived table that the server is asked about.
#[must_use]
pub fn list_texts(declaration: &Declaration) -> Vec<String> {
    let derived = declaration.sink.spec.derived.iter();
    derived
        .flat_map(|derived| [derived.partition_by.clone(), derived.ttl.clone()])
        .flatten()
        .collect()
}

/// All violations of all derived tables.
#[must_use]
pub fn check_all(declaration: &Declaration, server: &ServerReading) -> Vec<Violation> {
    let derived = declaration.sink.spec.derived.iter().zip(&server.derived);
    let mut violations = Vec::new();
    for (index, (spec, reading)) in derived.enumerate() {
        let path = format!("spec.derived[{index}]");
        violations.extend(check_expressions(spec, &server.canonical, &path));
        match &reading.shape {
            Err(why) => violations.push(Violation::new(&format!("{path}.select"), why)),
            Ok(shape) => violations.extend(check_shape(declaration, spec, shape, &path)),
        }
    }
    violations
}

fn check_expressions(
    spec: &DerivedSpec,
    forms: &BTreeMap<String, Verdict>,
    path: &str,
) -> Vec<Violation> {
    let texts = [("partitionBy", &spec.partition_by), ("ttl", &spec.ttl)];
    let check = |(field, text): (&str, &Option<String>)| {
        let text = text.as_ref()?;
        let message = match (check_expression(text), forms.get(text)) {
            (Err(error), _) => error.to_string(),
            (Ok(()), Some(Err(why))) => {
                format!("ClickHouse cannot read it as one expression: {why}")
            }
            (Ok(()), _) => return None,
        };
        Some(Violation::new(&format!("{path}.{field}"), &message))
    };
    texts.into_iter().filter_map(check).collect()
}

fn check_shape(
    declaration: &Declaration,
    spec: &DerivedSpec,
    shape: &SelectShape,
    path: &str,
) -> Vec<Violation> {
    let source = &declaration.expected;
    let refuse = |field: &str, message: &str| Violation::new(&format!("{path}.{field}"), message);
    if shape.tables.as_slice() != [source.name.as_str()] {
        let message = format!(
            "expected a SELECT over {} alone, found {}; the materialized view sees the rows of that table only",
            source.name,
            shape.tables.join(", ")
        );
        return vec![refuse("select", &message)];
    }
    let mut violations = Vec::new();
    if shape.rows_of_nothing > 0 {
        violations.push(refuse("select", "expected no row of a table without rows, found one: it aggregates, and the materialized view sees one INSERT at a time"));
    }
    if qualify_select(&shape.canonical, &source.database, &source.name).is_none() {
        violations.push(refuse(
            "select",
            &format!("expected `FROM {}` once", source.name),
        ));
    }
    for (index, name) in spec.order_by.iter().enumerate() {
        violations.extend(check_key(shape, name, &format!("{path}.orderBy[{index}]")));
    }
    let replacing = spec.engine.replacing_merge_tree.as_ref();
    let version_path = format!("{path}.engine.replacingMergeTree.versionColumn");
    violations.extend(
        replacing.and_then(|engine| check_version(shape, &engine.version_column, &version_path)),
    );
    violations
}

fn find_type(shape: &SelectShape, name: &str) -> Result<Option<DataType>, String> {
    let column = shape.columns.iter().find(|(column, _)| column == name);
    if let Some((_, data_type)) = column {
        return Ok(DataType::parse(data_type).ok());
    }
    let known: Vec<_> = shape
        .columns
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    Err(format!(
        "expected a column that `select` gives ({}), found `{name}`; add `AS {name}`, or choose another",
        known.join(", ")
    ))
}

fn check_key(shape: &SelectShape, name: &str, path: &str) -> Option<Violation> {
    match find_type(shape, name) {
        Err(message) => Some(Violation::new(path, &message)),
        Ok(Some(data_type)) if data_type.is_nullable() => {
            let message = format!(
                "expected a column that is not Nullable in the sorting key, found `{name}` of `{data_type}`; wrap it in ifNull or assumeNotNull"
            );
            Some(Violation::new(path, &message))
        }
        Ok(_) => None,
    }
}

fn check_version(shape: &SelectShape, name: &str, path: &str) -> Option<Violation> {
    let data_type = match find_type(shape, name) {
        Err(message) => return Some(Violation::new(path, &message)),
        Ok(data_type) => data_type?,
    };
    let is_allowed = match &data_type {
        DataType::UInt(_) => true,
        other => other.is_date_or_time() && !other.is_nullable(),
    };
    let message = format!(
        "expected an unsigned integer, a date or a time as version, found `{name}` of `{data_type}`; choose another column or convert it"
    );
    (!is_allowed).then(|| Violation::new(path, &message))
}

/// The derived tables in the server's own terms; only of a declaration without violations.
#[must_use]
pub fn build_all(declaration: &Declaration, server: &ServerReading) -> Vec<ValidatedDerived> {
    let derived = declaration.sink.spec.derived.iter().zip(&server.derived);
    derived
        .filter_map(|(spec, reading)| build_one(declaration, server, spec, reading))
        .collect()
}

fn build_one(
    declaration: &Declaration,
    server: &ServerReading,
    spec: &DerivedSpec,
    reading: &DerivedReading,
) -> Option<ValidatedDerived> {
    let shape = reading.shape.as_ref().ok()?;
    let source = &declaration.expected;
    let canonical = |text: &String| match server.canonical.get(text) {
        Some(Ok(form)) => form.clone(),
        _ => text.clone(),
    };
    let mut expected = derived_table(&declaration.sink, spec, &shape.columns);
    expected.partition_by = expected.partition_by.as_ref().map(canonical);
    expected.ttl = expected.ttl.as_ref().map(canonical);
    Some(ValidatedDerived {
        expected,
        select: qualify_select(&shape.canonical, &source.database, &source.name)?,
        canonical: shape.canonical.clone(),
    })
}
