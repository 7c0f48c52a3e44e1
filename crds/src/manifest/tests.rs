//! Manifests as people write them, right and wrong.

#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;

const GOOD: &str = "\
apiVersion: clickhouse-sink.io/v1alpha1
kind: ClickHouseSink
metadata:
  name: events
spec:
  kafka:
    bootstrapServers: [\"127.0.0.1:9092\"]
    topics: [events]
  clickhouse:
    url: http://127.0.0.1:8123
    database: ops
  table:
    name: events
    engine: { mergeTree: {} }
    orderBy: [id]
    columns:
      - name: id
        type: String
      - { name: n, type: UInt8 }
";

const SECRET: &str = "\
apiVersion: v1
kind: Secret
metadata: { name: writer, namespace: shop }
data: { username: d3JpdGVy }
stringData: { password: s3cret }
";

fn errors(text: &str) -> String {
    let errors = parse_manifests(text, "sink.yaml").expect_err("the manifest is wrong");
    errors
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("\n")
}

fn wrong(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    errors(&GOOD.replace(from, to))
}

#[test]
fn a_file_holds_sinks_and_secrets() {
    let text = format!("{SECRET}---\n{GOOD}---\n");
    let manifests = parse_manifests(&text, "sink.yaml").unwrap();
    let [Manifest::Secret(secret), Manifest::Sink(sink)] = manifests.as_slice() else {
        panic!("{manifests:?}");
    };
    assert_eq!(
        (secret.namespace.as_str(), secret.name.as_str()),
        ("shop", "writer")
    );
    assert_eq!(secret.data["username"], b"writer");
    assert_eq!(secret.data["password"], b"s3cret");
    assert_eq!(sink.metadata.name.as_deref(), Some("events"));
    assert_eq!(sink.spec.batch.max_rows, 200_000);
}

#[test]
fn a_secret_does_not_show_its_values() {
    let manifests = parse_manifests(SECRET, "secret.yaml").unwrap();
    let shown = format!("{manifests:?}");
    assert!(
        shown.contains("password") && !shown.contains("s3cret"),
        "{shown}"
    );
}

#[test]
fn a_null_is_an_absent_field() {
    assert!(
        parse_manifests(
            &GOOD.replace("topics: [events]", "topics: [events]\n    groupId: null"),
            "f"
        )
        .is_ok()
    );
    assert!(wrong("database: ops", "database:").contains("expected the field `database`"));
}

#[test]
fn errors_show_line_column_field_and_remedy() {
    let cases = [
        wrong("  kafka:\n", "  kafak:\n"),
        wrong("type: UInt8", "type: UInt7"),
        wrong("topics: [events]", "topics: events"),
        wrong(
            "topics: [events]",
            "topics: [events]\n    properties:\n      fetch.wait.max.ms: 200",
        ),
        wrong(
            "topics: [events]",
            "topics: [events]\n    properties:\n      group.id: \"mine\"",
        ),
        wrong("    database: ops\n", ""),
        wrong("mergeTree: {}", "mergTree: {}"),
        wrong("orderBy: [id]", "orderBy: [id, nope]"),
        wrong("    orderBy: [id]\n", "    orderBy: [id]\n    ddl: Auto\n"),
        wrong("spec:\n", "spec:\n  replicas: 1000\n  keepTables: Retain\n"),
        wrong(
            "- { name: n, type: UInt8 }",
            "- { name: n, type: Nullable(UInt8), onMissing: Null }",
        ),
        wrong("topics: [events]", "topics: [events]\n  paused: yes"),
        wrong("v1alpha1", "v1"),
        wrong("kind: ClickHouseSink", "kind: Deployment"),
        wrong("metadata:\n  name: events\n", "metadata: {}\n"),
        wrong("http://127", "https://127"),
        errors("a: [1,\nb: 2"),
        errors(&format!("{GOOD}kind: ClickHouseSink\n")),
        errors("# nothing\n"),
        errors(&SECRET.replace("d3JpdGVy", "'not base64'")),
    ];
    insta::assert_snapshot!(cases.join("\n\n"));
}
