//! Which rows the catalog gets.
#![allow(clippy::unwrap_used, clippy::panic)]

use clickhouse_sink_crds::manifest::{Manifest, parse_manifests};
use clickhouse_sink_crds::resolve::{expected_table, rejected_table};
use clickhouse_sink_crds::table::ObservedColumn;

use super::*;
use crate::catalog::rows::{kind, render_query};

const UUID: &str = "5f5e1000-0000-4000-8000-000000000001";

fn declaration(ddl: &str) -> Declaration {
    let text = format!(
        r#"
apiVersion: clickhouse-sink.io/v1alpha1
kind: ClickHouseSink
metadata: {{ name: "events", namespace: test }}
spec:
  kafka: {{ bootstrapServers: ["kafka-0:9092"], topics: [events] }}
  clickhouse: {{ url: "http://127.0.0.1:8123", database: "o`ps" }}
  table:
    name: "ev'ents"
    ddl: {ddl}
    engine: {{ mergeTree: {{}} }}
    orderBy: [id]
    columns: [{{ name: id, type: String }}]
"#
    );
    let manifests = parse_manifests(&text, "sink.yaml").unwrap();
    let Manifest::Sink(sink) = manifests.into_iter().next().unwrap() else {
        panic!("no sink")
    };
    Declaration {
        uid: "u-me".to_owned(),
        cluster: "c".to_owned(),
        siblings: Vec::new(),
        default_group_id: String::new(),
        expected: expected_table(&sink),
        rejected: rejected_table(&sink),
        account: None,
        sink: *sink,
    }
}

fn made(uuid: &str) -> Made {
    Made {
        database: "o`ps".to_owned(),
        name: "ev'ents".to_owned(),
        kind: kind::TABLE,
        uuid: uuid.to_owned(),
        fingerprint: "f1".to_owned(),
        definition: "CREATE TABLE it's".to_owned(),
    }
}

fn row() -> CatalogRow {
    CatalogRow {
        database: "o`ps".to_owned(),
        name: "ev'ents".to_owned(),
        kind: kind::TABLE.to_owned(),
        uuid: UUID.to_owned(),
        sink_uid: "u-me".to_owned(),
        sink: "test/events".to_owned(),
        definition_fingerprint: "f1".to_owned(),
        definition: String::new(),
    }
}

/// The catalog as it is made, less these columns.
fn catalog(declaration: &Declaration, lacks: &[&str], rows: Vec<CatalogRow>) -> CatalogReading {
    let columns = catalog_table(declaration).columns.into_iter();
    let columns = columns.filter(|column| !lacks.contains(&column.name.as_str()));
    let columns = columns.map(|column| ObservedColumn {
        name: column.name,
        data_type: column.data_type,
        default_kind: String::new(),
        default_expression: String::new(),
        comment: String::new(),
        compression_codec: String::new(),
    });
    CatalogReading {
        table: Some(ObservedTable {
            uuid: UUID.to_owned(),
            engine: "ReplacingMergeTree".to_owned(),
            engine_full: "ReplacingMergeTree(recorded_at) ORDER BY (database, name, uuid, definition_fingerprint) SETTINGS non_replicated_deduplication_window = 100000".to_owned(),
            sorting_key: "database, name, uuid, definition_fingerprint".to_owned(),
            partition_key: String::new(),
            comment: String::new(),
            columns: columns.collect(),
            indexes: Vec::new(),
            views: Vec::new(),
        }),
        rows: Some(Ok(rows)),
    }
}

fn count(ddl: &str, rows: Vec<CatalogRow>, made: Made) -> usize {
    let declaration = declaration(ddl);
    let reading = catalog(&declaration, &[], rows);
    plan_catalog(&declaration, &reading, vec![made]).rows.len()
}

#[test]
fn a_row_is_added_only_where_the_latest_one_says_something_else() {
    assert_eq!(count("auto", Vec::new(), made(UUID)), 1);
    assert_eq!(count("auto", vec![row()], made(UUID)), 0);
    let other = |change: &dyn Fn(&mut CatalogRow)| {
        let mut row = row();
        change(&mut row);
        count("none", vec![row], made(UUID))
    };
    assert_eq!(other(&|row| row.uuid = "7".to_owned()), 1);
    assert_eq!(
        other(&|row| row.definition_fingerprint = "f0".to_owned()),
        1
    );
    assert_eq!(other(&|row| row.sink_uid = "u-other".to_owned()), 1);
    assert_eq!(other(&|row| row.kind = kind::DERIVED.to_owned()), 1);
    assert_eq!(other(&|row| row.sink = "test/renamed".to_owned()), 0);
}

#[test]
fn a_uuid_that_cannot_be_read_gets_no_row() {
    for uuid in ["", "00000000-0000-0000-0000-000000000000"] {
        assert_eq!(count("auto", Vec::new(), made(uuid)), 0, "{uuid}");
    }
}

#[test]
fn auto_makes_and_mends_the_table_validate_refuses_an_old_one_and_none_needs_one() {
    let plan = |ddl: &str, reading: Option<&[&str]>| {
        let declaration = declaration(ddl);
        let reading = reading.map_or_else(CatalogReading::default, |lacks| {
            catalog(&declaration, lacks, Vec::new())
        });
        let plan = plan_catalog(&declaration, &reading, vec![made(UUID)]);
        let note = plan.note.as_ref().map(|note| note.reason);
        (plan.steps.len(), plan.rows.len(), note)
    };
    let old: &[&str] = &["operator_version", "generation"];
    assert_eq!(plan("auto", None), (1, 1, None));
    assert_eq!(plan("auto", Some(old)), (2, 1, None));
    assert_eq!(plan("auto", Some(&[])), (0, 1, None));
    assert_eq!(plan("validate", None), (0, 0, None));
    assert_eq!(
        plan("validate", Some(old)),
        (0, 0, Some(reason::CATALOG_OUTDATED))
    );
    assert_eq!(plan("validate", Some(&[])), (0, 1, None));
    assert_eq!(plan("none", None), (0, 0, None));
    assert_eq!(plan("none", Some(&[])), (0, 1, None));
}

#[test]
fn statements_quote_whatever_names_are() {
    let declaration = declaration("auto");
    let plan = plan_catalog(&declaration, &CatalogReading::default(), vec![made(UUID)]);
    let query = render_query("o`ps", &declaration.list_names());
    let statements = [plan.steps[0].render(), plan.insert.unwrap(), query];
    insta::assert_snapshot!(statements.join("\n\n"));
}
