//! Manifests on disk: sinks and Secrets in YAML, with the line and column of everything that is wrong.
//!
//! Must not be here: reading files.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;
use thiserror::Error;

use crate::api::{ClickHouseSink, GROUP, KIND, VERSION};
use crate::lint::names::{INVALID_YAML, NO_SINK, OTHER_KIND, SCHEMA};
use crate::nearest::nearest;
use crate::schema::{check_schema, resource_schema};
use crate::validate::validate;
use crate::violation::Violation;
use located::{Document, Locations};

mod located;
mod secret;

/// One document of a file.
#[derive(Clone, Debug, PartialEq)]
pub enum Manifest {
    /// A sink that passed every check.
    Sink(Box<ClickHouseSink>),
    /// A Secret.
    Secret(SecretManifest),
}

/// A Secret; its values never show in `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretManifest {
    /// Namespace, `default` where it names none.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Values by key, decoded.
    pub data: BTreeMap<String, Vec<u8>>,
}

impl fmt::Debug for SecretManifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<&String> = self.data.keys().collect();
        f.debug_struct("SecretManifest")
            .field("namespace", &self.namespace)
            .field("name", &self.name)
            .field("keys", &keys)
            .finish()
    }
}

/// One thing that is wrong in a file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct ManifestError {
    /// The file as it was named.
    pub file: String,
    /// Line, from 1; 0 where it is not known.
    pub line: u64,
    /// Column, from 1; 0 where it is not known.
    pub column: u64,
    /// Path of the field, `spec.table.columns[3].type`; empty for the file itself.
    pub path: String,
    /// What was expected, what was found, what to do.
    pub message: String,
    /// Name of the lint rule that it breaks.
    pub rule: &'static str,
}

impl ManifestError {
    /// Reason for a condition.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        "InvalidManifest"
    }
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: ", self.file, self.line, self.column)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

/// One document as it was read, right or wrong.
pub struct Inspected {
    /// Its `kind`; empty: it has none.
    pub kind: String,
    /// As far as it could be read: a sink may be here although `errors` is not empty.
    pub manifest: Option<Manifest>,
    /// Everything that is wrong with it, in the order of the file.
    pub errors: Vec<ManifestError>,
    locations: Locations,
}

impl Inspected {
    /// Line and column of a field, from 1; of the nearest field around it where it is not there.
    #[must_use]
    pub fn locate(&self, path: &str) -> (u64, u64) {
        self.locations.nearest(path)
    }
}

/// Reads and checks all documents of a file, and keeps what could be read beside what is wrong.
///
/// # Errors
/// Text that is no YAML.
pub fn inspect_manifests(text: &str, file_name: &str) -> Result<Vec<Inspected>, ManifestError> {
    let documents = located::read_documents(text).map_err(|error| {
        let message = format!(
            "expected YAML, found an error: {}; check indentation, quotes and brackets",
            error.message
        );
        build_error(file_name, error.location, &message, INVALID_YAML)
    })?;
    let inspected = documents.into_iter().map(|document| {
        let (manifest, violations) = read_document(&document);
        Inspected {
            kind: text_of(&document.value, "kind"),
            manifest,
            errors: locate(violations, &document.locations, file_name),
            locations: document.locations,
        }
    });
    Ok(inspected.collect())
}

/// Reads and checks all documents of a file: structure, bounds, CEL rules, and what [`validate`] sees.
///
/// # Errors
/// Everything that is wrong, in the order of the file.
pub fn parse_manifests(text: &str, file_name: &str) -> Result<Vec<Manifest>, Vec<ManifestError>> {
    let inspected = inspect_manifests(text, file_name).map_err(|error| vec![error])?;
    if inspected.is_empty() {
        let message = format!(
            "expected a document of kind {KIND}, found none; write one (docs/reference.md lists its fields)"
        );
        return Err(vec![build_error(file_name, (1, 1), &message, NO_SINK)]);
    }
    let (mut manifests, mut errors) = (Vec::new(), Vec::new());
    for document in inspected {
        manifests.extend(document.manifest);
        errors.extend(document.errors);
    }
    if errors.is_empty() {
        Ok(manifests)
    } else {
        Err(errors)
    }
}

/// An error of the file itself.
fn build_error(
    file: &str,
    (line, column): (u64, u64),
    message: &str,
    rule: &'static str,
) -> ManifestError {
    ManifestError {
        file: file.to_owned(),
        line,
        column,
        path: String::new(),
        message: message.to_owned(),
        rule,
    }
}

fn locate(violations: Vec<Violation>, locations: &Locations, file: &str) -> Vec<ManifestError> {
    let mut errors: Vec<ManifestError> = violations
        .into_iter()
        .map(|violation| {
            let Violation {
                path,
                message,
                rule,
            } = violation;
            let (line, column) = locations.nearest(&path);
            ManifestError {
                file: file.to_owned(),
                line,
                column,
                path,
                message,
                rule,
            }
        })
        .collect();
    errors.sort_by(|a, b| (a.line, a.column, &a.path).cmp(&(b.line, b.column, &b.path)));
    errors
}

fn text_of(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}

/// The document as far as it can be read, and what is wrong with it.
fn read_document(document: &Document) -> (Option<Manifest>, Vec<Violation>) {
    let value = &document.value;
    let (version, kind) = (text_of(value, "apiVersion"), text_of(value, "kind"));
    let expected = format!("{GROUP}/{VERSION}");
    if (version.as_str(), kind.as_str()) == ("v1", "Secret") {
        return match secret::read_secret(value) {
            Ok(secret) => (Some(Manifest::Secret(secret)), Vec::new()),
            Err(violations) => (None, violations),
        };
    }
    if kind == KIND && version == expected {
        let (sink, violations) = read_sink(value, &document.locations);
        return (sink.map(Box::new).map(Manifest::Sink), violations);
    }
    let violation = if kind == KIND {
        let message =
            format!("expected `{expected}`, found `{version}`; write apiVersion: {expected}");
        Violation::new("apiVersion", &message).of_rule(SCHEMA)
    } else {
        refuse_kind(&version, &kind)
    };
    (None, vec![violation])
}

/// A kind that is not ours; or ours, misspelt.
fn refuse_kind(version: &str, kind: &str) -> Violation {
    let is_meant = version.starts_with(GROUP) || nearest(kind, &[KIND]).is_some();
    let rule = if is_meant { SCHEMA } else { OTHER_KIND };
    let found = if kind.is_empty() {
        "none".to_owned()
    } else {
        format!("`{kind}`")
    };
    let message = format!(
        "expected kind `{KIND}` or `Secret` (apiVersion: v1), found {found}; keep other objects in files of their own"
    );
    Violation::new("kind", &message).of_rule(rule)
}

fn read_sink(value: &Value, locations: &Locations) -> (Option<ClickHouseSink>, Vec<Violation>) {
    let mut violations = check_top_level(value);
    violations.extend(check_nulls(locations));
    let schema = &resource_schema()["properties"]["spec"];
    violations.extend(check_schema(schema, &value["spec"], "spec"));
    if value["spec"].is_null() {
        let message = "expected the field `spec`, found none; add it";
        violations.push(Violation::new("spec", message).of_rule(SCHEMA));
    }
    if !violations.is_empty() {
        return (None, violations);
    }
    match serde_json::from_value::<ClickHouseSink>(value.clone()) {
        Ok(sink) => {
            let violations = validate(&sink);
            (Some(sink), violations)
        }
        Err(error) => {
            let message =
                format!("expected a sink, found an error: {error}; compare with docs/reference.md");
            (None, vec![Violation::new("", &message).of_rule(SCHEMA)])
        }
    }
}

/// `onMissing: Null` without quotes is YAML's null: the field would be absent, and the choice lost without a word.
fn check_nulls(locations: &Locations) -> Vec<Violation> {
    let choices = [".onMissing", ".onError"];
    let lost = locations
        .nulls()
        .iter()
        .filter(|path| choices.iter().any(|choice| path.ends_with(choice)));
    lost.map(|path| {
        Violation::new(
            path,
            "expected one of its values, found YAML's null; write \"Null\" in quotes",
        )
    })
    .collect()
}

/// Fields beside `spec`, and those of `metadata` that matter here.
fn check_top_level(value: &Value) -> Vec<Violation> {
    let schema = serde_json::json!({
        "type": "object",
        "required": ["metadata"],
        "properties": {
            "apiVersion": {}, "kind": {}, "spec": {}, "status": {},
            "metadata": {
                "type": "object",
                "required": ["name"],
                "x-kubernetes-preserve-unknown-fields": true,
                "description": "name and namespace of the sink",
                "properties": {
                    "name": { "type": "string", "description": "name of the sink" },
                    "namespace": { "type": "string", "maxLength": 63 },
                },
            },
        },
    });
    check_schema(&schema, value, "")
}

#[cfg(test)]
mod tests;
