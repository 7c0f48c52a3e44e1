//! What ClickHouse says about the SELECT of a derived table, its view, and the rows of its source.
//!
//! Must not be here: decisions. A text of the user's is run only after the server itself has formatted it as one statement.

use clickhouse_sink_crds::select::{check_select, render_select_over};
use clickhouse_sink_crds::table::TableDefinition;
use serde::{Deserialize, Serialize};

use super::{ClickHouse, Verdict, WarehouseError, split_verdict};
use crate::sql::{render_identifier, render_literal};

/// A SELECT as the server reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SelectShape {
    /// In the server's own one-line form, the table still with its plain name.
    pub canonical: String,
    /// Tables and table functions that it reads.
    pub tables: Vec<String>,
    /// Name and type of each column that it gives.
    pub columns: Vec<(String, String)>,
    /// Rows that it gives of a table without rows: more than none where it aggregates.
    pub rows_of_nothing: u64,
}

/// A table of `system.tables` that may be a materialized view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundView {
    /// uuid; all zero where the database has none.
    pub uuid: String,
    /// Engine, `MaterializedView` where it is one.
    pub engine: String,
    /// `CREATE` statement as the server prints it.
    pub create_table_query: String,
    /// Its SELECT in the server's one-line form.
    pub select: String,
    /// Comment.
    pub comment: String,
}

#[derive(Deserialize)]
struct LineRow {
    explain: String,
}

#[derive(Deserialize)]
struct ColumnRow {
    name: String,
    r#type: String,
}

#[derive(Deserialize)]
struct PartitionRow {
    id: String,
    rows: String,
}

const VIEW_QUERY: &str = "SELECT toString(uuid) AS uuid, engine, create_table_query, \
    ifNull(formatQuerySingleLineOrNull(as_select), as_select) AS select, comment \
    FROM system.tables WHERE database = {database:String} AND name = {name:String}";

const PARTITIONS_QUERY: &str = "SELECT partition_id AS id, toString(sum(rows)) AS rows FROM system.parts \
    WHERE database = {database:String} AND table = {name:String} AND active GROUP BY id ORDER BY id";

impl ClickHouse {
    pub(super) async fn read_select(
        &self,
        select: &str,
        source: &TableDefinition,
    ) -> Result<Result<SelectShape, String>, WarehouseError> {
        if let Err(why) = check_select(select, &source.name) {
            return Ok(Err(why));
        }
        let canonical = match self.format_select(select).await? {
            Ok(canonical) => canonical,
            Err(why) => return Ok(Err(why)),
        };
        let tables = match split_verdict(self.explain(&canonical).await)? {
            Ok(lines) => parse_tables(&lines),
            Err(why) => return Ok(Err(why)),
        };
        // Over anything but the source it is not even looked at further.
        if tables.as_slice() != [source.name.as_str()] {
            let (columns, rows_of_nothing) = (Vec::new(), 0);
            return Ok(Ok(SelectShape {
                canonical,
                tables,
                columns,
                rows_of_nothing,
            }));
        }
        let over = render_select_over(&canonical, &source.name, &render_no_rows(source));
        let described = split_verdict(self.describe(&over).await)?;
        let counted = split_verdict(self.count_rows(&over).await)?;
        Ok(described.and_then(|columns| {
            Ok(SelectShape {
                canonical,
                tables,
                columns,
                rows_of_nothing: counted?,
            })
        }))
    }

    async fn format_select(&self, select: &str) -> Result<Verdict, WarehouseError> {
        let sql = "SELECT formatQuerySingleLine({e:String}) AS value";
        let query = self.client.query_raw(sql).param("e", select);
        split_verdict(self.fetch_value(query).await)
    }

    async fn explain(&self, canonical: &str) -> Result<Vec<String>, WarehouseError> {
        let sql = format!("EXPLAIN AST {canonical}");
        let rows: Vec<LineRow> = self.fetch_rows(self.client.query_raw(&sql)).await?;
        Ok(rows.into_iter().map(|row| row.explain).collect())
    }

    async fn describe(&self, select: &str) -> Result<Vec<(String, String)>, WarehouseError> {
        let sql = format!("DESCRIBE TABLE ({select})");
        let rows: Vec<ColumnRow> = self.fetch_rows(self.client.query_raw(&sql)).await?;
        Ok(rows.into_iter().map(|row| (row.name, row.r#type)).collect())
    }

    async fn count_rows(&self, select: &str) -> Result<u64, WarehouseError> {
        self.read_count(&format!(
            "SELECT toString(count()) AS value FROM ({select})"
        ))
        .await
    }

    pub(super) async fn read_count(&self, sql: &str) -> Result<u64, WarehouseError> {
        let value: String = self.fetch_value(self.client.query_raw(sql)).await?;
        value.parse().map_err(|_| WarehouseError::Reply {
            url: self.url.clone(),
            detail: format!("expected a count, found {value:?}"),
        })
    }

    pub(super) async fn read_view(
        &self,
        database: &str,
        name: &str,
    ) -> Result<Option<FoundView>, WarehouseError> {
        let query = self.client.query_raw(VIEW_QUERY);
        let query = query.param("database", database).param("name", name);
        Ok(self.fetch_rows(query).await?.into_iter().next())
    }

    pub(super) async fn read_partitions(
        &self,
        database: &str,
        name: &str,
    ) -> Result<Vec<(String, u64)>, WarehouseError> {
        let query = self.client.query_raw(PARTITIONS_QUERY);
        let query = query.param("database", database).param("name", name);
        let rows: Vec<PartitionRow> = self.fetch_rows(query).await?;
        let rows = rows.into_iter();
        Ok(rows
            .map(|row| (row.id, row.rows.parse().unwrap_or_default()))
            .collect())
    }
}

/// A SELECT of no rows with the columns of a table, whether the table is there or not; no right on any table is needed.
fn render_no_rows(table: &TableDefinition) -> String {
    let columns: Vec<_> = table
        .columns
        .iter()
        .map(|column| {
            format!(
                "materialize(defaultValueOfTypeName({})) AS {}",
                render_literal(&column.data_type),
                render_identifier(&column.name)
            )
        })
        .collect();
    format!("SELECT {} WHERE 0", columns.join(", "))
}

/// What stands in the place of tables, in the tree that `EXPLAIN AST` prints.
fn parse_tables(lines: &[String]) -> Vec<String> {
    let mut tables = Vec::new();
    let mut is_place = false;
    for line in lines {
        let line = line.trim_start();
        if let Some(rest) = line.strip_prefix("TableIdentifier ") {
            let name = rest.split(" (alias ").next().unwrap_or(rest);
            tables.push(name.to_owned());
        } else if let (true, Some(rest)) = (is_place, line.strip_prefix("Function ")) {
            let name = rest.split(' ').next().unwrap_or(rest);
            tables.push(format!("{name}()"));
        }
        is_place = line.starts_with("TableExpression");
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_table_functions_are_seen_wherever_they_stand() {
        let lines = [
            "   ExpressionList (children 1)",
            "    Function in (children 1)",
            "    TableExpression (children 1)",
            "     TableIdentifier ev (alias e)",
            "      TableExpression (children 1)",
            "       Function remote (children 1)",
        ];
        assert_eq!(parse_tables(&lines.map(str::to_owned)), ["ev", "remote()"]);
    }
}
