//! Sinks beside each other: names, groups, tables and Secrets that must fit.
//!
//! Must not be here: a sink by itself.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, Hit, find_rule, names, to_finding};
use crate::api::ClickHouseSink;
use crate::resolve::namespace;

/// Namespace and name of a Secret.
pub(super) type SecretKey = (String, String);

/// `namespace/name`.
pub(super) fn qualified_name(sink: &ClickHouseSink) -> String {
    let name = sink.metadata.name.as_deref().unwrap_or_default();
    format!("{}/{name}", namespace(sink))
}

/// What is wrong between the sinks, each with the place of its sink in the list.
pub(super) fn lint_together(
    sinks: &[&ClickHouseSink],
    secrets: &BTreeSet<SecretKey>,
) -> Vec<(usize, Finding)> {
    let mut findings = Vec::new();
    let mut seen = Seen::default();
    for (index, sink) in sinks.iter().enumerate() {
        let mut add = |rule: &str, hit: Hit| {
            findings.extend(find_rule(rule).map(|rule| (index, to_finding(rule, hit))));
        };
        if let Some(hit) = seen.check_name(sink) {
            // The rest would be about the same mistake.
            add(names::SAME_NAME, hit);
            continue;
        }
        if let Some(hit) = seen.check_group(sink) {
            add(names::SHARED_GROUP, hit);
        }
        for hit in seen.check_tables(sink) {
            add(names::SHARED_TABLE, hit);
        }
        if let Some(hit) = check_secret(sink, secrets) {
            add(names::SECRET_NOT_HERE, hit);
        }
    }
    findings
}

/// What the sinks before have, and which of them has it.
#[derive(Default)]
struct Seen {
    sinks: BTreeSet<String>,
    groups: BTreeMap<String, String>,
    tables: BTreeMap<(String, String, String), String>,
}

impl Seen {
    fn check_name(&mut self, sink: &ClickHouseSink) -> Option<Hit> {
        let name = qualified_name(sink);
        if self.sinks.insert(name.clone()) {
            return None;
        }
        let message = format!("a second sink `{name}`");
        Some(Hit::new("metadata.name", message, "rename one"))
    }

    fn check_group(&mut self, sink: &ClickHouseSink) -> Option<Hit> {
        // One that is not named is made of namespace and name, and so its own.
        let group = sink.spec.kafka.group_id.as_ref()?;
        let other = self.groups.insert(group.clone(), qualified_name(sink))?;
        Some(Hit::new(
            "spec.kafka.groupId",
            format!("the consumer group `{group}` is that of sink `{other}` too"),
            "name another group, or leave it out: by default it is made of namespace and name",
        ))
    }

    fn check_tables(&mut self, sink: &ClickHouseSink) -> Vec<Hit> {
        let spec = &sink.spec;
        let clickhouse = &spec.clickhouse;
        let mut hits = Vec::new();
        for (path, name) in list_names(sink) {
            let url = clickhouse.url.trim_end_matches('/').to_owned();
            let key = (url, clickhouse.database.clone(), name);
            let name = key.2.clone();
            if let Some(other) = self.tables.insert(key, qualified_name(sink)) {
                hits.push(Hit::new(
                    &path,
                    format!(
                        "`{}.{name}` is a table or view of sink `{other}` too",
                        clickhouse.database
                    ),
                    "give each sink tables of its own, or one sink both topics",
                ));
            }
        }
        hits
    }
}

/// Tables and views that are a sink's own, with the path of each name.
fn list_names(sink: &ClickHouseSink) -> Vec<(String, String)> {
    let spec = &sink.spec;
    let mut names = vec![("spec.table.name".to_owned(), spec.table.name.clone())];
    let derived = spec.derived.iter().enumerate();
    names.extend(
        derived
            .map(|(index, derived)| (format!("spec.derived[{index}].name"), derived.name.clone())),
    );
    let view = spec.flat_view.as_ref();
    names.extend(view.map(|view| ("spec.flatView.name".to_owned(), view.name.clone())));
    names
}

fn check_secret(sink: &ClickHouseSink, secrets: &BTreeSet<SecretKey>) -> Option<Hit> {
    let reference = sink.spec.clickhouse.credentials_secret_ref.as_ref()?;
    let key = (namespace(sink).to_owned(), reference.name.clone());
    if secrets.contains(&key) {
        return None;
    }
    Some(Hit::new(
        "spec.clickhouse.credentialsSecretRef.name",
        format!("the Secret `{}/{}` is not in these files", key.0, key.1),
        "for `local`, add it to the files; in a cluster, make it there",
    ))
}
