//! What must be remembered about a sink beside its declaration: facts of its past, and the mappings of its workers. Pure.
//!
//! Must not be here: where it is kept (`fleet`).

use clickhouse_sink_crds::facts::{Facts, Resolution, TopicFact};
use clickhouse_sink_crds::fingerprint::mapping_hash;
use clickhouse_sink_crds::worker_config::{EarlierMapping, MAX_EARLIER_MAPPINGS};
use serde::Serialize;

/// What is remembered about one sink.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Memory {
    /// What workers read while they run.
    pub facts: Facts,
    /// Mappings that workers were given, the newest first.
    pub mappings: Vec<EarlierMapping>,
}

/// What was seen of a sink just now.
#[derive(Debug, Clone, Copy, Default)]
pub struct Seen<'a> {
    /// uuid of its table, where the table could be looked at.
    pub table: Option<&'a str>,
    /// Topics that its workers tell.
    pub topics: &'a [TopicFact],
    /// Answers to holds, as they are declared now.
    pub resolutions: &'a [Resolution],
}

/// The facts with what was just seen. Tables and topics are never forgotten: a position of theirs may come back.
#[must_use]
pub fn merge_facts(known: &Facts, seen: &Seen<'_>) -> Facts {
    let mut facts = known.clone();
    let has_uuid = |uuid: &&str| uuid.chars().any(|c| c.is_ascii_hexdigit() && c != '0');
    if let Some(uuid) = seen.table.filter(has_uuid)
        && !facts.tables.iter().any(|known| known == uuid)
    {
        facts.tables.push(uuid.to_owned());
    }
    for topic in seen.topics {
        note_topic(&mut facts.topics, topic);
    }
    facts.resolutions = seen.resolutions.to_vec();
    facts
}

/// A topic only grows; workers that saw fewer partitions looked earlier.
fn note_topic(topics: &mut Vec<TopicFact>, seen: &TopicFact) {
    let known = topics
        .iter_mut()
        .find(|topic| topic.name == seen.name && topic.id == seen.id);
    match known {
        Some(topic) => topic.partitions = topic.partitions.max(seen.partitions),
        None => topics.push(seen.clone()),
    }
}

/// The mappings with the present one in front: each that turns bytes into other rows once, as many as workers may need.
#[must_use]
pub fn merge_mappings(known: &[EarlierMapping], present: &EarlierMapping) -> Vec<EarlierMapping> {
    // Both sides are compared under one decoder, so its version does not matter here.
    let hash = |mapping: &EarlierMapping| mapping_hash(&mapping.table, &mapping.format, 0);
    let name = hash(present);
    std::iter::once(present)
        .chain(known.iter().filter(|mapping| hash(mapping) != name))
        .take(1 + MAX_EARLIER_MAPPINGS)
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use clickhouse_sink_crds::facts::ResolutionAction;
    use clickhouse_sink_crds::manifest::{Manifest, parse_manifests};
    use clickhouse_sink_crds::resolve::{ResolveInputs, resolve};

    use super::*;

    fn topic(name: &str, id: &str, partitions: u32) -> TopicFact {
        TopicFact {
            name: name.to_owned(),
            id: id.to_owned(),
            partitions,
        }
    }

    fn seen<'a>(table: Option<&'a str>, topics: &'a [TopicFact]) -> Seen<'a> {
        Seen {
            table,
            topics,
            resolutions: &[],
        }
    }

    #[test]
    fn tables_and_topics_that_are_gone_are_still_known() {
        let facts = merge_facts(&Facts::default(), &seen(Some("a-1"), &[topic("t", "x", 2)]));
        let facts = merge_facts(&facts, &seen(Some("b-2"), &[topic("t", "y", 1)]));
        let facts = merge_facts(&facts, &seen(None, &[]));
        assert_eq!(facts.tables, ["a-1", "b-2"]);
        assert_eq!(facts.topics, [topic("t", "x", 2), topic("t", "y", 1)]);
    }

    #[test]
    fn what_is_seen_again_changes_nothing_and_a_topic_only_grows() {
        let facts = merge_facts(&Facts::default(), &seen(Some("a-1"), &[topic("t", "x", 2)]));
        let again = merge_facts(&facts, &seen(Some("a-1"), &[topic("t", "x", 1)]));
        assert_eq!(again, facts);
        let grown = merge_facts(&facts, &seen(Some("a-1"), &[topic("t", "x", 3)]));
        assert_eq!(grown.topics, [topic("t", "x", 3)]);
    }

    #[test]
    fn a_database_without_uuids_gives_no_fact() {
        let zero = "00000000-0000-0000-0000-000000000000";
        assert!(
            merge_facts(&Facts::default(), &seen(Some(zero), &[]))
                .tables
                .is_empty()
        );
    }

    #[test]
    fn answers_are_those_that_are_declared_now() {
        let answer = Resolution {
            partition: "t/0".to_owned(),
            hold: "h".to_owned(),
            action: ResolutionAction::Retry,
        };
        let with = Seen {
            resolutions: std::slice::from_ref(&answer),
            ..Seen::default()
        };
        let facts = merge_facts(&Facts::default(), &with);
        assert_eq!(facts.resolutions, [answer]);
        assert!(merge_facts(&facts, &Seen::default()).resolutions.is_empty());
    }

    fn mapping(from: &str, recheck: u32) -> EarlierMapping {
        let text = format!(
            r#"
apiVersion: clickhouse-sink.io/v1alpha1
kind: ClickHouseSink
metadata: {{ name: events }}
spec:
  kafka: {{ bootstrapServers: ["k:1"], topics: [t] }}
  clickhouse: {{ url: "http://c:1", database: d }}
  table:
    name: t
    recheckPeriodSeconds: {recheck}
    engine: {{ mergeTree: {{}} }}
    columns: [{{ name: a, type: String, from: {from} }}]
"#
        );
        let Manifest::Sink(sink) = parse_manifests(&text, "t").unwrap().remove(0) else {
            panic!("no sink")
        };
        let config = resolve(&sink, &ResolveInputs::default());
        EarlierMapping {
            table: config.table,
            format: config.format,
        }
    }

    #[test]
    fn a_changed_mapping_comes_first_and_each_is_there_once() {
        let (a, b) = (mapping("a", 60), mapping("b", 60));
        let first = merge_mappings(&[], &a);
        assert_eq!(first, std::slice::from_ref(&a));
        assert_eq!(merge_mappings(&first, &a), first);
        let second = merge_mappings(&first, &b);
        assert_eq!(second, [b.clone(), a.clone()]);
        assert_eq!(merge_mappings(&second, &a), [a, b]);
    }

    #[test]
    fn a_change_that_makes_no_other_rows_is_no_other_mapping() {
        let known = merge_mappings(&[], &mapping("a", 60));
        assert_eq!(merge_mappings(&known, &mapping("a", 5)), [mapping("a", 5)]);
    }

    #[test]
    fn no_more_mappings_are_kept_than_workers_take() {
        let mut known = Vec::new();
        for name in ["a", "b", "c", "d", "e", "f"] {
            known = merge_mappings(&known, &mapping(name, 60));
        }
        let expected: Vec<_> = ["f", "e", "d", "c", "b"]
            .map(|name| mapping(name, 60))
            .into();
        assert_eq!(known, expected);
    }
}
