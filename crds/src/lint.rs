//! What can be said about sinks without a server: every error that the API server and `local` would report, and what
//! is allowed but will surprise.
//!
//! Must not be here: reading files, printing (the operator's command does both), what needs a server (`check`).

use serde::Serialize;

use crate::api::ClickHouseSink;
use crate::names::ANNOTATION_LINT_ALLOW;
use crate::nearest::nearest;

pub use report::{Located, Report, Source, Summary, lint_sources};
pub use rules::{RULES, find_rule};

mod identity;
mod keys;
pub mod names;
mod partitions;
mod report;
mod rules;
mod target;
mod together;
mod versions;
mod views;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The API server or `local` refuses it.
    Error,
    /// It is taken, and will most likely not do what is wanted.
    Warning,
    /// Good to know.
    Info,
}

impl Severity {
    /// The word for it, as in the output.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Info => "info",
        }
    }
}

/// A rule.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Its stable name.
    pub name: &'static str,
    /// How bad it is to break it.
    pub severity: Severity,
    /// Why it matters.
    pub why: &'static str,
    /// What finds it in one sink; none: it is found while files are read, or between sinks.
    check: Option<Check>,
}

type Check = fn(&ClickHouseSink) -> Vec<Hit>;

impl Rule {
    /// True where a person may say that it does not count: never for what is refused anyway, except for files without
    /// a sink.
    #[must_use]
    pub fn can_be_allowed(&self) -> bool {
        self.severity != Severity::Error || self.name == names::NO_SINK
    }
}

/// One place where a rule is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hit {
    path: String,
    message: String,
    help: String,
}

impl Hit {
    fn new(path: &str, message: String, help: &str) -> Self {
        Self {
            path: path.to_owned(),
            message,
            help: help.to_owned(),
        }
    }
}

/// One thing that was found in a sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Name of the rule.
    pub rule: &'static str,
    /// Where: `spec.table.columns[3].type`.
    pub path: String,
    /// What was found.
    pub message: String,
    /// Why it matters.
    pub why: &'static str,
    /// What to do.
    pub help: String,
}

/// What is allowed in the sink but will surprise, whether it was silenced or not; [`crate::validate::validate`] gives
/// the errors.
#[must_use]
pub fn lint(sink: &ClickHouseSink) -> Vec<Finding> {
    let mut findings = Vec::new();
    for rule in &RULES {
        let hits = rule.check.map(|check| check(sink)).unwrap_or_default();
        findings.extend(hits.into_iter().map(|hit| to_finding(rule, hit)));
    }
    findings
}

fn to_finding(rule: &Rule, hit: Hit) -> Finding {
    Finding {
        severity: rule.severity,
        rule: rule.name,
        path: hit.path,
        message: hit.message,
        why: rule.why,
        help: hit.help,
    }
}

/// Names of the rules that the sink's annotation silences, as they are written there.
#[must_use]
pub fn allowed_by(sink: &ClickHouseSink) -> Vec<String> {
    let annotations = sink.metadata.annotations.as_ref();
    let text = annotations.and_then(|annotations| annotations.get(ANNOTATION_LINT_ALLOW));
    let names = text.map(|text| text.split(',').map(str::trim)).into_iter();
    let names = names.flatten().filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

/// Whether a rule of that name can be silenced.
///
/// # Errors
/// Why it cannot, and what may be meant.
pub fn check_allowed(name: &str) -> Result<(), String> {
    match find_rule(name) {
        Some(rule) if rule.can_be_allowed() => Ok(()),
        Some(_) => Err(format!(
            "expected a rule that can be silenced, found `{name}`, which is an error: mend what it reports"
        )),
        None => {
            let known: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
            let meant = nearest(name, &known)
                .map_or(String::new(), |meant| format!("; did you mean `{meant}`?"));
            Err(format!(
                "expected the name of a lint rule, found `{name}`{meant}"
            ))
        }
    }
}

#[cfg(test)]
mod tests;
