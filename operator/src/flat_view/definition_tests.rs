//! Definitions of flat views from what is declared.
#![allow(clippy::unwrap_used, clippy::panic)]

use clickhouse_sink_crds::manifest::{Manifest, parse_manifests};
use clickhouse_sink_crds::resolve::expected_table;

use super::*;

fn sink(view: &str) -> ClickHouseSink {
    let text = format!(
        r#"
apiVersion: clickhouse-sink.io/v1alpha1
kind: ClickHouseSink
metadata: {{ name: events, namespace: test }}
spec:
  kafka: {{ bootstrapServers: ["kafka-0:9092"], topics: [events] }}
  clickhouse: {{ url: "http://127.0.0.1:8123", database: ops }}
  table:
    name: events
    engine: {{ replacingMergeTree: {{ versionColumn: version }} }}
    orderBy: [id]
    metadataColumns: {{ mode: None }}
    columns:
      - {{ name: id, type: String }}
      - {{ name: version, type: UInt32 }}
      - {{ name: box, type: "Tuple(x Int32, y Tuple(z Int32, w String))" }}
      - {{ name: pair, type: "Tuple(Int32, Int32)" }}
      - {{ name: at, type: "Tuple(day Date)" }}
      - {{ name: at_day, type: String }}
{view}"#
    );
    let manifests = parse_manifests(&text, "sink.yaml").unwrap();
    let Manifest::Sink(sink) = manifests.into_iter().next().unwrap() else {
        panic!("no sink")
    };
    *sink
}

fn build(view: &str) -> ViewDefinition {
    let sink = sink(view);
    let table = expected_table(&sink);
    let forms = BTreeMap::from([("x+1".to_owned(), Ok("x + 1".to_owned()))]);
    build_definition(&sink, &[&table], &forms).unwrap()
}

#[test]
fn by_default_it_shows_every_column_and_the_elements_of_named_tuples() {
    let view = build("  flatView: { name: flat }");
    assert_eq!(view.read, Read::Final);
    let names: Vec<_> = view.columns.iter().map(|(name, _)| name.as_str()).collect();
    // `at` stays whole: `at_day` is the name of another column.
    let expected = [
        "id", "version", "box_x", "box_y_z", "box_y_w", "pair", "at", "at_day",
    ];
    assert_eq!(names, expected);
    assert_eq!(
        view.columns[4].1,
        "tupleElement(tupleElement(`box`, 'y'), 'w')"
    );
}

#[test]
fn columns_are_shown_in_their_order_with_expressions_in_the_servers_form() {
    let view = build(
        "  flatView: { name: flat, read: Plain, columns: [{ name: version }, { name: next, expression: x+1 }] }",
    );
    assert_eq!(view.read, Read::Plain);
    let column = |name: &str, expression: &str| (name.to_owned(), expression.to_owned());
    assert_eq!(
        view.columns,
        [column("version", "`version`"), column("next", "x + 1")]
    );
}

#[test]
fn the_latest_row_is_found_by_key_and_version() {
    let view = build("  flatView: { name: flat, read: LatestBy }");
    let Read::LatestBy {
        key,
        version,
        others,
    } = view.read
    else {
        panic!("{:?}", view.read)
    };
    assert_eq!(
        (key.as_slice(), version.as_str()),
        (&["id".to_owned()][..], "version")
    );
    assert!(!others.contains(&"id".to_owned()) && others.contains(&"version".to_owned()));
}

#[test]
fn what_people_see_makes_the_fingerprint() {
    let base = "  flatView: { name: flat, columns: [{ name: id }, { name: version }] }";
    let same = build(base).fp();
    assert_eq!(same.len(), 32);
    assert_eq!(
        build(&base.replace("name: flat,", "name: other,")).fp(),
        same
    );
    for other in [
        "  flatView: { name: flat, columns: [{ name: version }, { name: id }] }",
        "  flatView: { name: flat, columns: [{ name: id }] }",
        "  flatView: { name: flat, read: Plain, columns: [{ name: id }, { name: version }] }",
        "  flatView: { name: flat, columns: [{ name: id }, { name: version, expression: x+1 }] }",
    ] {
        assert_ne!(build(other).fp(), same, "{other}");
    }
}

#[test]
fn an_expression_that_is_none_is_told_with_its_place() {
    let sink =
        sink("  flatView: { name: flat, columns: [{ name: id }, { name: n, expression: x+1 }] }");
    let forms = BTreeMap::from([("x+1".to_owned(), Err("Syntax error".to_owned()))]);
    let told = check_expressions(&sink, &forms);
    assert_eq!(told.len(), 1);
    let text = told[0].to_string();
    assert!(
        text.contains("spec.flatView.columns[1].expression") && text.contains("Syntax error"),
        "{text}"
    );
    assert_eq!(list_texts(&sink), ["x+1"]);
}
