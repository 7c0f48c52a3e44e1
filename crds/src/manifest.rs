//! Manifests on disk: sinks and Secrets in YAML, with the line and column of everything that is wrong.
//!
//! Must not be here: reading files.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;
use thiserror::Error;

use crate::api::{ClickHouseSink, GROUP, KIND, VERSION};
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

/// Reads and checks all documents of a file: structure, bounds, CEL rules, and what [`validate`] sees.
///
/// # Errors
/// Everything that is wrong, in the order of the file.
pub fn parse_manifests(text: &str, file_name: &str) -> Result<Vec<Manifest>, Vec<ManifestError>> {
    let documents = located::read_documents(text).map_err(|error| {
        let (line, column) = error.location;
        let message = format!(
            "expected YAML, found an error: {}; check indentation, quotes and brackets",
            error.message
        );
        vec![ManifestError {
            file: file_name.to_owned(),
            line,
            column,
            path: String::new(),
            message,
        }]
    })?;
    let (mut manifests, mut errors) = (Vec::new(), Vec::new());
    for document in &documents {
        match read_document(document) {
            Ok(manifest) => manifests.push(manifest),
            Err(violations) => errors.extend(locate(violations, &document.locations, file_name)),
        }
    }
    if manifests.is_empty() && errors.is_empty() {
        let message = format!(
            "expected a document of kind {KIND}, found none; write one (docs/reference.md lists its fields)"
        );
        errors.push(ManifestError {
            file: file_name.to_owned(),
            line: 1,
            column: 1,
            path: String::new(),
            message,
        });
    }
    if errors.is_empty() {
        Ok(manifests)
    } else {
        Err(errors)
    }
}

fn locate(violations: Vec<Violation>, locations: &Locations, file: &str) -> Vec<ManifestError> {
    let mut errors: Vec<ManifestError> = violations
        .into_iter()
        .map(|Violation { path, message }| {
            let (line, column) = locations.nearest(&path);
            ManifestError {
                file: file.to_owned(),
                line,
                column,
                path,
                message,
            }
        })
        .collect();
    errors.sort_by(|a, b| (a.line, a.column, &a.path).cmp(&(b.line, b.column, &b.path)));
    errors
}

fn read_document(document: &Document) -> Result<Manifest, Vec<Violation>> {
    let value = &document.value;
    let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
    let api_version = format!("{GROUP}/{VERSION}");
    match (text("apiVersion").as_str(), text("kind").as_str()) {
        ("v1", "Secret") => secret::read_secret(value).map(Manifest::Secret),
        (version, KIND) if version == api_version => read_sink(value, &document.locations),
        (version, KIND) => {
            let message = format!(
                "expected `{api_version}`, found `{version}`; write apiVersion: {api_version}"
            );
            Err(vec![Violation::new("apiVersion", &message)])
        }
        (_, kind) => {
            let message = format!(
                "expected kind `{KIND}` or `Secret` (apiVersion: v1), found `{kind}`; keep other objects in files of their own"
            );
            Err(vec![Violation::new("kind", &message)])
        }
    }
}

fn read_sink(value: &Value, locations: &Locations) -> Result<Manifest, Vec<Violation>> {
    let mut violations = check_top_level(value);
    violations.extend(check_nulls(locations));
    let schema = &resource_schema()["properties"]["spec"];
    violations.extend(check_schema(schema, &value["spec"], "spec"));
    if value["spec"].is_null() {
        violations.push(Violation::new(
            "spec",
            "expected the field `spec`, found none; add it",
        ));
    }
    if !violations.is_empty() {
        return Err(violations);
    }
    let sink: ClickHouseSink = serde_json::from_value(value.clone()).map_err(|error| {
        vec![Violation::new(
            "",
            &format!("expected a sink, found an error: {error}; compare with docs/reference.md"),
        )]
    })?;
    let violations = validate(&sink);
    if violations.is_empty() {
        Ok(Manifest::Sink(Box::new(sink)))
    } else {
        Err(violations)
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
