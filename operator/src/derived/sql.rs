//! Statements about derived tables.
//!
//! Must not be here: when they run. SELECTs come canonical from the server (`warehouse/select.rs`).

use std::collections::BTreeMap;

use clickhouse_sink_crds::select::render_select_over;
use clickhouse_sink_crds::table::TableDefinition;

use crate::derived::backfill::{Backfill, Piece};
use crate::sql::{render_identifier, render_literal, render_table_name};

/// One block for each INSERT whatever it holds, in one thread, known again by its token.
const FILL_SETTINGS: &str = "async_insert = 0, insert_deduplicate = 1, max_threads = 1, max_insert_threads = 1, \
    min_insert_block_size_rows = 1000000000, min_insert_block_size_bytes = 0, optimize_on_insert = 0, \
    max_partitions_per_insert_block = 0, deduplicate_blocks_in_dependent_materialized_views = 1, \
    materialized_views_ignore_errors = 0";

/// `CREATE MATERIALIZED VIEW` into a target; it runs with the rights of the account that makes it.
#[must_use]
pub fn render_create_view(
    database: &str,
    table: &str,
    view: &str,
    select: &str,
    comment: Option<&str>,
) -> String {
    let mut sql = format!(
        "CREATE MATERIALIZED VIEW IF NOT EXISTS {} TO {}\nDEFINER = CURRENT_USER SQL SECURITY DEFINER\nAS {select}",
        render_table_name(database, view),
        render_table_name(database, table),
    );
    if let Some(comment) = comment {
        sql.push_str("\nCOMMENT ");
        sql.push_str(&render_literal(comment));
    }
    sql
}

/// `ALTER TABLE … MODIFY QUERY`; the view's target, uuid and comment stay.
#[must_use]
pub fn render_change_view(database: &str, view: &str, select: &str) -> String {
    format!(
        "ALTER TABLE {} MODIFY QUERY {select}",
        render_table_name(database, view)
    )
}

/// Writes progress down.
#[must_use]
pub fn render_comment(database: &str, view: &str, comment: &str) -> String {
    format!(
        "ALTER TABLE {} MODIFY COMMENT {}",
        render_table_name(database, view),
        render_literal(comment)
    )
}

/// Rows of the source at or beyond the bounds, counted.
#[must_use]
pub fn render_count_beyond(source: &TableDefinition, bounds: &BTreeMap<String, u64>) -> String {
    format!(
        "SELECT toString(count()) AS value FROM {} WHERE NOT ({})",
        render_table_name(&source.database, &source.name),
        render_below(bounds)
    )
}

/// Rows of a table, counted.
#[must_use]
pub fn render_count(database: &str, table: &str) -> String {
    format!(
        "SELECT toString(count()) AS value FROM {}",
        render_table_name(database, table)
    )
}

/// True for rows below the bounds; a partition without one has none.
fn render_below(bounds: &BTreeMap<String, u64>) -> String {
    if bounds.is_empty() {
        return "0".to_owned();
    }
    let names: Vec<_> = bounds.keys().map(|name| render_literal(name)).collect();
    let offsets: Vec<_> = bounds
        .values()
        .map(|at| format!("toUInt64({at})"))
        .collect();
    format!(
        "_offset < transform(concat(_topic, '/', toString(_partition)), [{}], [{}], toUInt64(0))",
        names.join(", "),
        offsets.join(", ")
    )
}

/// The INSERT of one piece. A row's piece follows from where it came from alone, so it is the same in every attempt.
#[must_use]
pub fn render_fill(
    source: &TableDefinition,
    target: &TableDefinition,
    select: &str,
    backfill: &Backfill,
    (piece, view_uuid): (&Piece<'_>, &str),
) -> String {
    let columns: Vec<_> = target
        .columns
        .iter()
        .map(|column| render_identifier(&column.name))
        .collect();
    let columns = columns.join(", ");
    let rows = format!(
        "SELECT * FROM {} WHERE _partition_id = {} AND {} AND cityHash64(_topic, _partition, _offset) % {} = {}",
        render_table_name(&source.database, &source.name),
        render_literal(piece.part),
        render_below(&backfill.bounds),
        piece.of,
        piece.index,
    );
    let token = format!(
        "cs1/backfill/{view_uuid}/{}/{}-{}",
        piece.part, piece.index, piece.of
    );
    format!(
        "INSERT INTO {} ({columns}) SELECT {columns} FROM ({}) SETTINGS {FILL_SETTINGS}, insert_deduplication_token = {}",
        render_table_name(&target.database, &target.name),
        render_select_over(select, &source.name, &rows),
        render_literal(&token)
    )
}

/// The statement by which a person fills a derived table from all rows of its source.
#[must_use]
pub fn render_refill(database: &str, table: &str, select: &str) -> String {
    format!(
        "INSERT INTO {} {select}",
        render_table_name(database, table)
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use clickhouse_sink_crds::table::{ColumnDefinition, Engine};

    use super::*;

    fn table(name: &str, columns: &[&str]) -> TableDefinition {
        let columns = columns.iter().map(|name| ColumnDefinition {
            name: (*name).to_owned(),
            data_type: "String".to_owned(),
            default: None,
            comment: None,
            codec: None,
        });
        TableDefinition {
            database: "o`ps".to_owned(),
            name: name.to_owned(),
            engine: Engine::MergeTree,
            columns: columns.collect(),
            order_by: Vec::new(),
            partition_by: None,
            ttl: None,
            settings: BTreeMap::new(),
            indexes: Vec::new(),
            cluster: None,
        }
    }

    #[test]
    fn statements_about_a_view_name_it_and_nothing_else() {
        let create = render_create_view(
            "o`ps",
            "cur",
            "cur_mv",
            "SELECT a FROM `o\\`ps`.`ev`",
            Some("it's"),
        );
        let change = render_change_view("o`ps", "cur_mv", "SELECT b AS a FROM `o\\`ps`.`ev`");
        insta::assert_snapshot!(
            [create, change, render_comment("o`ps", "cur_mv", "x'y")].join("\n\n")
        );
    }

    #[test]
    fn a_piece_is_one_insert_of_the_rows_that_were_there() {
        let backfill = Backfill {
            bounds: BTreeMap::from([("t/0".to_owned(), 7), ("t/1".to_owned(), 0)]),
            parts: vec![("202601".to_owned(), 2)],
            done: 0,
        };
        let piece = backfill.piece(1).unwrap();
        let fill = render_fill(
            &table("ev", &["a", "b"]),
            &table("cur", &["a"]),
            "WITH upper(a) AS u SELECT u AS a FROM ev",
            &backfill,
            (&piece, "6d7c"),
        );
        let beyond = render_count_beyond(&table("ev", &["a"]), &backfill.bounds);
        insta::assert_snapshot!([fill, beyond].join("\n\n"));
    }
}
