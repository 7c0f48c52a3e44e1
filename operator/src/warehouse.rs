//! The port to ClickHouse, and the one file that speaks to it through the `clickhouse` crate.
//!
//! Must not be here: decisions about what to read or write, statements' text (`ddl.rs`).

use std::future::Future;
use std::time::Duration;

use crate::catalog::CatalogRow;
use clickhouse::{Client, Compression, error::Error as ClientError, query::Query};
use clickhouse_sink_crds::table::{
    IndexDefinition, ObservedColumn, ObservedTable, ObservedView, TableDefinition,
};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use error::{is_state_of_the_server, read_client_error, render_address};

pub use error::WarehouseError;
pub use select::{FoundView, SelectShape};

mod error;
mod select;

/// Longest wait for an answer to a read.
const READ_DEADLINE: Duration = Duration::from_secs(10);
/// Longest wait for a DDL statement: it is synchronous, and a busy server may queue it.
const DDL_DEADLINE: Duration = Duration::from_mins(1);

/// What the server says about a text of the user's: the value, or why not.
pub type Verdict = Result<String, String>;

/// The port: everything the operator asks of a warehouse.
pub trait Warehouse: Send + Sync {
    /// The server's version.
    fn fetch_version(&self) -> impl Future<Output = Result<String, WarehouseError>> + Send;

    /// True where the account can see the database.
    fn fetch_database_exists(
        &self,
        database: &str,
    ) -> impl Future<Output = Result<bool, WarehouseError>> + Send;

    /// The table as the server reports it; none where it is missing or hidden from the account.
    fn fetch_table(
        &self,
        database: &str,
        name: &str,
    ) -> impl Future<Output = Result<Option<ObservedTable>, WarehouseError>> + Send;

    /// An expression in the server's own one-line form, or why it is not one expression.
    /// The text reaches the server as a value: it is parsed, never run.
    fn fetch_canonical(
        &self,
        expression: &str,
    ) -> impl Future<Output = Result<Verdict, WarehouseError>> + Send;

    /// The value of a canonical constant expression as JSON text of a type, or why it is not a constant of that type.
    fn fetch_constant(
        &self,
        expression: &str,
        data_type: &str,
    ) -> impl Future<Output = Result<Verdict, WarehouseError>> + Send;

    /// What the SELECT of a derived table is over its source as declared, or why it is none.
    fn fetch_select(
        &self,
        select: &str,
        source: &TableDefinition,
    ) -> impl Future<Output = Result<Result<SelectShape, String>, WarehouseError>> + Send;

    /// A materialized view, or whatever has its name; none where there is nothing.
    fn fetch_view(
        &self,
        database: &str,
        name: &str,
    ) -> impl Future<Output = Result<Option<FoundView>, WarehouseError>> + Send;

    /// Id and rows of each partition of a table.
    fn fetch_partitions(
        &self,
        database: &str,
        name: &str,
    ) -> impl Future<Output = Result<Vec<(String, u64)>, WarehouseError>> + Send;

    /// The one number, as text in the column `value`, that a SELECT of ours gives.
    fn fetch_count(&self, sql: &str) -> impl Future<Output = Result<u64, WarehouseError>> + Send;

    /// The latest rows of the catalog that a query asks for, or what the server has against it.
    fn fetch_catalog(
        &self,
        sql: &str,
    ) -> impl Future<Output = Result<Result<Vec<CatalogRow>, String>, WarehouseError>> + Send;

    /// Runs one statement that changes something.
    fn apply_statement(&self, sql: &str)
    -> impl Future<Output = Result<(), WarehouseError>> + Send;
}

/// Who the operator is to ClickHouse.
#[derive(Debug, Clone)]
pub struct Account {
    /// User name.
    pub username: String,
    /// Password.
    pub password: SecretString,
}

/// ClickHouse over HTTP.
#[derive(Clone)]
pub struct ClickHouse {
    client: Client,
    url: String,
}

impl ClickHouse {
    /// A warehouse at `http://host:port`; without an account the server's default user without a password.
    #[must_use]
    pub fn new(url: &str, account: Option<&Account>) -> Self {
        let client = Client::default()
            .with_url(url)
            .with_compression(Compression::None);
        let client = match account {
            Some(account) => client
                .with_user(&account.username)
                .with_password(account.password.expose_secret()),
            None => client,
        };
        Self {
            client,
            url: render_address(url),
        }
    }

    async fn fetch_rows<T: DeserializeOwned>(
        &self,
        query: Query,
    ) -> Result<Vec<T>, WarehouseError> {
        let read = async { query.fetch_bytes("JSONEachRow")?.collect().await };
        let bytes = self.with_deadline(READ_DEADLINE, read).await?;
        serde_json::Deserializer::from_slice(&bytes)
            .into_iter::<T>()
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| WarehouseError::Reply {
                url: self.url.clone(),
                detail: error.to_string(),
            })
    }

    async fn fetch_value<T: DeserializeOwned>(&self, query: Query) -> Result<T, WarehouseError> {
        let rows: Vec<ValueRow<T>> = self.fetch_rows(query).await?;
        let row = rows
            .into_iter()
            .next()
            .ok_or_else(|| WarehouseError::Reply {
                url: self.url.clone(),
                detail: "expected one row, found none".to_owned(),
            })?;
        Ok(row.value)
    }

    async fn with_deadline<T>(
        &self,
        deadline: Duration,
        work: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, WarehouseError> {
        let Ok(result) = timeout(deadline, work).await else {
            let deadline_ms = u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX);
            return Err(WarehouseError::TimedOut {
                url: self.url.clone(),
                deadline_ms,
            });
        };
        result.map_err(|error| read_client_error(&self.url, &error))
    }
}

#[derive(Deserialize)]
struct ValueRow<T> {
    value: T,
}

#[derive(Deserialize)]
struct TableRow {
    uuid: String,
    engine: String,
    engine_full: String,
    sorting_key: String,
    partition_key: String,
    comment: String,
}

const TABLE_QUERY: &str = "SELECT toString(uuid) AS uuid, engine, engine_full, sorting_key, partition_key, comment \
    FROM system.tables WHERE database = {database:String} AND name = {name:String}";

const COLUMNS_QUERY: &str = "SELECT name, type AS data_type, default_kind, default_expression, comment, compression_codec \
    FROM system.columns WHERE database = {database:String} AND table = {name:String} ORDER BY position";

const INDEXES_QUERY: &str = "SELECT name, expr AS expression, type_full AS indexType, granularity \
    FROM system.data_skipping_indices WHERE database = {database:String} AND table = {name:String} ORDER BY name \
    SETTINGS output_format_json_quote_64bit_integers = 0";

/// The views that the table's inserts go through, each with the table that it fills.
const VIEWS_QUERY: &str = "SELECT v.database AS database, v.name AS name, v.target_database AS target_database, \
    v.target_table AS target, t.engine_full AS target_engine_full FROM system.tables AS v \
    LEFT JOIN system.tables AS t ON t.database = v.target_database AND t.name = v.target_table \
    WHERE v.engine = 'MaterializedView' AND has((SELECT groupArray((d, n)) FROM system.tables \
    ARRAY JOIN dependencies_database AS d, dependencies_table AS n \
    WHERE database = {database:String} AND name = {name:String}), (v.database, v.name)) ORDER BY database, name";

impl Warehouse for ClickHouse {
    async fn fetch_version(&self) -> Result<String, WarehouseError> {
        self.fetch_value(self.client.query_raw("SELECT version() AS value"))
            .await
    }

    async fn fetch_database_exists(&self, database: &str) -> Result<bool, WarehouseError> {
        let sql = "SELECT toUInt8(count() > 0) AS value FROM system.databases WHERE name = {database:String}";
        let found: u8 = self
            .fetch_value(self.client.query_raw(sql).param("database", database))
            .await?;
        Ok(found > 0)
    }

    async fn fetch_table(
        &self,
        database: &str,
        name: &str,
    ) -> Result<Option<ObservedTable>, WarehouseError> {
        let query = |sql| {
            self.client
                .query_raw(sql)
                .param("database", database)
                .param("name", name)
        };
        let tables: Vec<TableRow> = self.fetch_rows(query(TABLE_QUERY)).await?;
        let Some(table) = tables.into_iter().next() else {
            return Ok(None);
        };
        let columns: Vec<ObservedColumn> = self.fetch_rows(query(COLUMNS_QUERY)).await?;
        let indexes: Vec<IndexDefinition> = self.fetch_rows(query(INDEXES_QUERY)).await?;
        // A server that does not tell what a view fills: no view is known.
        let views = split_verdict(self.fetch_rows::<ObservedView>(query(VIEWS_QUERY)).await)?;
        Ok(Some(ObservedTable {
            indexes,
            views: views.unwrap_or_default(),
            ..build_observed(table, columns)
        }))
    }

    async fn fetch_canonical(&self, expression: &str) -> Result<Verdict, WarehouseError> {
        let sql = "SELECT [formatQuerySingleLine(concat('SELECT (', {e:String}, ')')), \
            formatQuerySingleLine(concat('SELECT ', {e:String}))] AS value";
        let query = self.client.query_raw(sql).param("e", expression);
        let forms = split_verdict(self.fetch_value::<[String; 2]>(query).await)?;
        Ok(forms.and_then(|[bracketed, plain]| read_canonical(&bracketed, &plain)))
    }

    async fn fetch_constant(
        &self,
        expression: &str,
        data_type: &str,
    ) -> Result<Verdict, WarehouseError> {
        // accurateCast: CAST would turn 300 into 44 for a UInt8. Times as ISO in UTC: no zone is left to guess.
        let sql = format!(
            "SELECT toUInt8(isConstant({expression})) AS constant, \
            ifNull(toJSONString(accurateCast({expression}, {{type:String}})), 'null') AS value \
            SETTINGS date_time_output_format = 'iso', output_format_json_quote_denormals = 1"
        );
        let query = self.client.query_raw(&sql).param("type", data_type);
        let row = split_verdict(self.fetch_rows::<ConstantRow>(query).await)?;
        Ok(row.and_then(read_constant))
    }

    async fn fetch_select(
        &self,
        select: &str,
        source: &TableDefinition,
    ) -> Result<Result<SelectShape, String>, WarehouseError> {
        self.read_select(select, source).await
    }

    async fn fetch_view(
        &self,
        database: &str,
        name: &str,
    ) -> Result<Option<FoundView>, WarehouseError> {
        self.read_view(database, name).await
    }

    async fn fetch_partitions(
        &self,
        database: &str,
        name: &str,
    ) -> Result<Vec<(String, u64)>, WarehouseError> {
        self.read_partitions(database, name).await
    }

    async fn fetch_count(&self, sql: &str) -> Result<u64, WarehouseError> {
        self.read_count(sql).await
    }

    async fn fetch_catalog(
        &self,
        sql: &str,
    ) -> Result<Result<Vec<CatalogRow>, String>, WarehouseError> {
        match self.fetch_rows(self.client.query_raw(sql)).await {
            // Whatever the server has against it: the catalog never stops a sink.
            Err(WarehouseError::Server { message, .. }) => Ok(Err(message)),
            result => result.map(Ok),
        }
    }

    async fn apply_statement(&self, sql: &str) -> Result<(), WarehouseError> {
        self.with_deadline(DDL_DEADLINE, self.client.query_raw(sql).execute())
            .await
    }
}

#[derive(Deserialize)]
struct ConstantRow {
    constant: u8,
    value: String,
}

fn read_constant(rows: Vec<ConstantRow>) -> Verdict {
    match rows.into_iter().next() {
        Some(ConstantRow { constant: 1, value }) => Ok(value),
        _ => Err("its value is not the same for every row".to_owned()),
    }
}

/// The plain form is the canonical one if both forms hold the same single expression without an alias.
fn read_canonical(bracketed: &str, plain: &str) -> Verdict {
    let canonical = plain.strip_prefix("SELECT ").unwrap_or(plain);
    if bracketed == plain || bracketed == format!("SELECT ({canonical})") {
        return Ok(canonical.to_owned());
    }
    Err(format!(
        "expected one expression without an alias, found: {canonical}"
    ))
}

/// Tells what the server says about the text from what it says about itself.
fn split_verdict<T>(
    result: Result<T, WarehouseError>,
) -> Result<Result<T, String>, WarehouseError> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(WarehouseError::Server { code, message }) if !is_state_of_the_server(code) => {
            Ok(Err(message))
        }
        Err(error) => Err(error),
    }
}

fn build_observed(table: TableRow, columns: Vec<ObservedColumn>) -> ObservedTable {
    ObservedTable {
        uuid: table.uuid,
        engine: table.engine,
        engine_full: table.engine_full,
        sorting_key: table.sorting_key,
        partition_key: table.partition_key,
        comment: table.comment,
        columns,
        indexes: Vec::new(),
        views: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_canonical_form_is_one_expression_without_an_alias() {
        assert_eq!(
            read_canonical("SELECT (a + 1)", "SELECT a + 1"),
            Ok("a + 1".to_owned())
        );
        assert_eq!(
            read_canonical("SELECT (f(a))", "SELECT (f(a))"),
            Ok("(f(a))".to_owned())
        );
        assert!(read_canonical("SELECT (1) AS x", "SELECT 1 AS x").is_err());
    }
}
