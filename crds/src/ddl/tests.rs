//! The text of statements, as goldens.

use std::collections::BTreeMap;

use super::*;
use crate::table::ClusterDefinition;

fn column(
    name: &str,
    data_type: &str,
    default: Option<&str>,
    comment: Option<&str>,
) -> ColumnDefinition {
    ColumnDefinition {
        name: name.to_owned(),
        data_type: data_type.to_owned(),
        default: default.map(str::to_owned),
        comment: comment.map(str::to_owned),
        codec: None,
    }
}

fn events() -> TableDefinition {
    TableDefinition {
        database: "ops".to_owned(),
        name: "vision_events".to_owned(),
        engine: Engine::ReplacingMergeTree {
            version_column: "version".to_owned(),
        },
        columns: vec![
            column("event_id", "String", None, None),
            column("ts", "DateTime64(3, 'UTC')", None, None),
            column("version", "UInt32", None, None),
            column(
                "status",
                "LowCardinality(String)",
                Some("'raised'"),
                Some("raised or acknowledged"),
            ),
            column(
                "_offset",
                "UInt64",
                None,
                Some("Kafka offset of the record"),
            ),
        ],
        indexes: Vec::new(),
        cluster: None,
        order_by: vec!["ts".to_owned(), "event_id".to_owned()],
        partition_by: Some("toYYYYMM(ts)".to_owned()),
        ttl: Some("ts + toIntervalDay(400)".to_owned()),
        settings: BTreeMap::from([
            (
                "non_replicated_deduplication_window".to_owned(),
                "100000".to_owned(),
            ),
            ("storage_policy".to_owned(), "it's hot".to_owned()),
        ]),
    }
}

fn hostile() -> TableDefinition {
    TableDefinition {
        database: "a`b".to_owned(),
        name: "c\"; DROP TABLE d; --\n".to_owned(),
        engine: Engine::MergeTree,
        columns: vec![column("e\\`f", "String", None, Some("g'h\\"))],
        indexes: Vec::new(),
        cluster: None,
        order_by: Vec::new(),
        partition_by: None,
        ttl: None,
        settings: BTreeMap::new(),
    }
}

#[test]
fn a_table_is_rendered_with_all_that_was_declared() {
    insta::assert_snapshot!(render_create_table(&events()));
}

#[test]
fn names_stay_names_whatever_is_in_them() {
    insta::assert_snapshot!(render_create_table(&hostile()));
}

/// One of each, in the order of the enumeration.
fn alterations() -> Vec<Alteration> {
    let column = || "e\\`f".to_owned();
    vec![
        Alteration::AddColumn(ColumnDefinition {
            codec: Some("Delta(8), ZSTD(1)".to_owned()),
            ..super::tests::column("a`b", "UInt64", Some("1 + 1"), Some("it's; --\n"))
        }),
        Alteration::WidenColumn {
            column: column(),
            data_type: "UInt64".to_owned(),
        },
        Alteration::FillColumn {
            column: column(),
            data_type: "DateTime('UTC')".to_owned(),
        },
        Alteration::MakeOrdinary {
            column: column(),
            kind: "MATERIALIZED".to_owned(),
        },
        Alteration::SetDefault {
            column: column(),
            default: "'x'".to_owned(),
        },
        Alteration::SetComment {
            column: column(),
            comment: "'); DROP TABLE x; --".to_owned(),
        },
        Alteration::SetCodec {
            column: column(),
            codec: "ZSTD(3)".to_owned(),
        },
        Alteration::SetTtl("ts + toIntervalDay(1)".to_owned()),
        Alteration::RemoveTtl,
        Alteration::SetSettings(BTreeMap::from([
            ("merge_with_ttl_timeout".to_owned(), "60".to_owned()),
            ("storage_policy".to_owned(), "it's hot".to_owned()),
        ])),
        Alteration::AddIndex(index()),
    ]
}

fn index() -> IndexDefinition {
    IndexDefinition {
        name: "by `name`".to_owned(),
        expression: "lower(status)".to_owned(),
        index_type: "bloom_filter(0.01)".to_owned(),
        granularity: 4,
    }
}

fn clustered(on_cluster: bool) -> TableDefinition {
    TableDefinition {
        cluster: Some(ClusterDefinition {
            name: "ma`in".to_owned(),
            on_cluster,
        }),
        indexes: vec![index()],
        ..events()
    }
}

fn render_all(table: &TableDefinition) -> String {
    let alterations = alterations();
    let texts = alterations
        .iter()
        .map(|one| format!("{}\n    {}", one.describe(), one.render(table)));
    texts.collect::<Vec<_>>().join("\n")
}

#[test]
fn each_change_is_one_quoted_statement() {
    insta::assert_snapshot!(render_all(&hostile()));
}

#[test]
fn a_table_of_a_cluster_is_replicated_and_every_statement_says_so() {
    let table = clustered(true);
    insta::assert_snapshot!(format!(
        "{}\n\n{}",
        render_create_table(&table),
        render_all(&table)
    ));
}

#[test]
fn a_replicated_database_passes_statements_on_itself() {
    let table = clustered(false);
    insta::assert_snapshot!(format!(
        "{}\n\n{}",
        render_create_table(&table),
        render_all(&table)
    ));
}
