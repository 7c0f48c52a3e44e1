//! Files of sinks, linted: every finding with its place.
//!
//! Must not be here: reading the files, printing.

use std::collections::BTreeSet;

use serde::Serialize;

use super::together::{SecretKey, lint_together, qualified_name};
use super::{Finding, Rule, Severity, allowed_by, find_rule, lint, names};
use crate::api::{ClickHouseSink, KIND};
use crate::manifest::{Inspected, Manifest, ManifestError, inspect_manifests};

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its name, as it is to be shown.
    pub file: String,
    /// Its text, or why there is none.
    pub text: Result<String, String>,
}

/// What was found in a list of files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// In the order of the files, and in each file from top to bottom.
    pub findings: Vec<Located>,
    /// How many there are.
    pub summary: Summary,
}

/// Counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Files that were named, or found in folders.
    pub files: usize,
    /// Sinks in them, right or wrong.
    pub sinks: usize,
    /// Findings that are errors.
    pub errors: usize,
    /// Findings that are warnings.
    pub warnings: usize,
    /// Findings that are good to know.
    pub infos: usize,
    /// Findings that were silenced.
    pub allowed: usize,
}

/// A finding with its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Located {
    /// How bad it is.
    pub severity: Severity,
    /// Name of the rule.
    pub rule: &'static str,
    /// The file as it was named.
    pub file: String,
    /// Line, from 1; 0: it is about the whole file.
    pub line: u64,
    /// Column, from 1; 0: it is about the whole file.
    pub column: u64,
    /// `namespace/name` of the sink; none: the document is none, or could not be read.
    pub sink: Option<String>,
    /// Path of the field; empty for the file itself.
    pub path: String,
    /// What was found; of an error also what was expected and what to do.
    pub message: String,
    /// Why it matters.
    pub why: &'static str,
    /// What to do; empty where the message says it.
    pub help: String,
}

/// Lints files. `allowed` are names of rules that are silenced everywhere; those that a sink's annotation names are
/// silenced for that sink.
#[must_use]
pub fn lint_sources(sources: &[Source], allowed: &[String]) -> Report {
    let mut findings = Vec::new();
    let mut documents = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        match inspect(source) {
            Ok(found) => documents.extend(found.into_iter().map(|document| (index, document))),
            Err(finding) => findings.push((index, *finding)),
        }
    }
    let is_sink = |(_, document): &&(usize, Inspected)| document.kind == KIND;
    let sinks = documents.iter().filter(is_sink).count();
    // Where something could not be read, or is misspelt, the sinks may be there.
    let is_wrong = |(_, document): &(usize, Inspected)| {
        let mut errors = document.errors.iter();
        errors.any(|error| error.rule != names::OTHER_KIND)
    };
    if sinks == 0 && findings.is_empty() && !documents.iter().any(is_wrong) {
        findings.push((0, build_no_sink(sources)));
    }
    for (index, document) in &documents {
        let file = &sources[*index].file;
        findings.extend(inspect_document(document, file).map(|finding| (*index, finding)));
    }
    findings.extend(inspect_together(sources, &documents));
    let silenced = list_silenced(&documents);
    let total = findings.len();
    findings.retain(|(_, finding)| !is_silenced(finding, allowed, &silenced));
    let counted = Summary {
        files: sources.len(),
        sinks,
        allowed: total - findings.len(),
        ..Summary::default()
    };
    build_report(findings, counted)
}

/// The findings in their order, each with the place of its file in the list, and how many there are.
fn build_report(mut findings: Vec<(usize, Located)>, counted: Summary) -> Report {
    findings.sort_by(|(file, a), (other, b)| {
        (file, a.line, a.column, &a.path, a.rule).cmp(&(other, b.line, b.column, &b.path, b.rule))
    });
    let findings: Vec<Located> = findings.into_iter().map(|(_, finding)| finding).collect();
    let count = |severity| {
        let found = findings.iter();
        found.filter(|found| found.severity == severity).count()
    };
    Report {
        summary: Summary {
            errors: count(Severity::Error),
            warnings: count(Severity::Warning),
            infos: count(Severity::Info),
            ..counted
        },
        findings,
    }
}

fn inspect(source: &Source) -> Result<Vec<Inspected>, Box<Located>> {
    match &source.text {
        Ok(text) => {
            inspect_manifests(text, &source.file).map_err(|error| Box::new(to_located(error, None)))
        }
        Err(why) => {
            let message = format!("cannot be read: {why}");
            Err(Box::new(build_located(
                names::UNREADABLE,
                &source.file,
                message,
            )))
        }
    }
}

fn inspect_document<'a>(
    document: &'a Inspected,
    file: &'a str,
) -> impl Iterator<Item = Located> + 'a {
    let sink = sink_of(document);
    let name = sink.map(qualified_name);
    let errors = document.errors.iter().cloned();
    let errors = errors.map(move |error| to_located(error, name.clone()));
    let warnings = sink.map(lint).unwrap_or_default();
    let warnings = warnings
        .into_iter()
        .filter_map(move |finding| Some(place(finding, document, sink?, file)));
    errors.chain(warnings)
}

fn inspect_together(sources: &[Source], documents: &[(usize, Inspected)]) -> Vec<(usize, Located)> {
    let with_sink: Vec<_> = documents
        .iter()
        .filter_map(|(index, document)| Some((*index, document, sink_of(document)?)))
        .collect();
    let sinks: Vec<&ClickHouseSink> = with_sink.iter().map(|(.., sink)| *sink).collect();
    let secrets: BTreeSet<SecretKey> = documents
        .iter()
        .filter_map(|(_, document)| match &document.manifest {
            Some(Manifest::Secret(secret)) => Some((secret.namespace.clone(), secret.name.clone())),
            _ => None,
        })
        .collect();
    let findings = lint_together(&sinks, &secrets).into_iter();
    let placed = findings.map(|(number, finding)| {
        let (index, document, sink) = with_sink[number];
        (index, place(finding, document, sink, &sources[index].file))
    });
    placed.collect()
}

fn sink_of(document: &Inspected) -> Option<&ClickHouseSink> {
    match &document.manifest {
        Some(Manifest::Sink(sink)) => Some(sink),
        _ => None,
    }
}

/// `namespace/name` of a sink, and a rule that its annotation silences.
fn list_silenced(documents: &[(usize, Inspected)]) -> BTreeSet<(String, String)> {
    let sinks = documents
        .iter()
        .filter_map(|(_, document)| sink_of(document));
    let silenced = sinks.flat_map(|sink| {
        let name = qualified_name(sink);
        let rules = allowed_by(sink).into_iter();
        rules.map(move |rule| (name.clone(), rule))
    });
    silenced.collect()
}

fn is_silenced(
    finding: &Located,
    allowed: &[String],
    silenced: &BTreeSet<(String, String)>,
) -> bool {
    let by_annotation = || {
        let key = finding
            .sink
            .clone()
            .map(|sink| (sink, finding.rule.to_owned()));
        key.is_some_and(|key| silenced.contains(&key))
    };
    let can_be = find_rule(finding.rule).is_some_and(Rule::can_be_allowed);
    can_be && (allowed.iter().any(|rule| rule == finding.rule) || by_annotation())
}

fn place(finding: Finding, document: &Inspected, sink: &ClickHouseSink, file: &str) -> Located {
    let (line, column) = document.locate(&finding.path);
    Located {
        severity: finding.severity,
        rule: finding.rule,
        file: file.to_owned(),
        line,
        column,
        sink: Some(qualified_name(sink)),
        path: finding.path,
        message: finding.message,
        why: finding.why,
        help: finding.help,
    }
}

fn to_located(error: ManifestError, sink: Option<String>) -> Located {
    Located {
        line: error.line,
        column: error.column,
        sink,
        path: error.path,
        ..build_located(error.rule, &error.file, error.message)
    }
}

/// A finding about a whole file.
fn build_located(rule: &'static str, file: &str, message: String) -> Located {
    let found = find_rule(rule);
    Located {
        severity: found.map_or(Severity::Error, |rule| rule.severity),
        rule,
        file: file.to_owned(),
        line: 0,
        column: 0,
        sink: None,
        path: String::new(),
        message,
        why: found.map_or("", |rule| rule.why),
        help: String::new(),
    }
}

fn build_no_sink(sources: &[Source]) -> Located {
    let files: Vec<&str> = sources.iter().map(|source| source.file.as_str()).collect();
    let (file, message) = match files.as_slice() {
        [] => (
            "-",
            format!("expected at least one document of kind {KIND}, found no YAML file"),
        ),
        [file] => (
            *file,
            format!("expected at least one document of kind {KIND}, found none"),
        ),
        [first, rest @ ..] => (
            *first,
            format!(
                "expected at least one document of kind {KIND}, found none here and in {} other files",
                rest.len()
            ),
        ),
    };
    build_located(names::NO_SINK, file, message)
}
