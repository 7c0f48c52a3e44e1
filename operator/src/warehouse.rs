//! The port to ClickHouse, and the one file that speaks to it through the `clickhouse` crate.
//!
//! Must not be here: decisions about what to read or write, statements' text (`ddl.rs`).

use std::error::Error as StdError;
use std::future::Future;
use std::time::Duration;

use clickhouse::{Client, Compression, error::Error as ClientError, query::Query};
use clickhouse_sink_crds::table::{ObservedColumn, ObservedTable};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

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

    /// Runs one statement that changes something.
    fn apply_statement(&self, sql: &str)
    -> impl Future<Output = Result<(), WarehouseError>> + Send;
}

/// Why ClickHouse gave no answer that can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WarehouseError {
    /// No connection, or it broke.
    #[error(
        "ClickHouse at {url} cannot be reached: {detail}; is it running, and is spec.clickhouse.url right?"
    )]
    Unreachable {
        /// The address, without credentials.
        url: String,
        /// What the connection said.
        detail: String,
    },
    /// No answer in time.
    #[error("ClickHouse at {url} gave no answer within {deadline_ms} ms")]
    TimedOut {
        /// The address, without credentials.
        url: String,
        /// The deadline that passed, in milliseconds.
        deadline_ms: u64,
    },
    /// The server answered with an exception.
    #[error("ClickHouse refuses with code {code}: {message}")]
    Server {
        /// The server's error code.
        code: u32,
        /// The server's text.
        message: String,
    },
    /// An answer that cannot be read.
    #[error(
        "ClickHouse at {url} gave an answer that cannot be read: {detail}; is that a ClickHouse HTTP port?"
    )]
    Reply {
        /// The address, without credentials.
        url: String,
        /// What was wrong with it.
        detail: String,
    },
}

impl WarehouseError {
    /// A stable word for status, events and scripts.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } | Self::TimedOut { .. } => "ClickHouseUnreachable",
            Self::Reply { .. } => "ClickHouseReplyUnreadable",
            Self::Server {
                code: 192..=194 | 516,
                ..
            } => "ClickHouseUnauthenticated",
            Self::Server {
                code: 164 | 195 | 452 | 497 | 511 | 512,
                ..
            } => "ClickHouseAccessDenied",
            Self::Server { .. } => "ClickHouseRefused",
        }
    }

    /// True where the fault is in the statement itself: asking again gives the same answer.
    #[must_use]
    pub const fn is_about_the_statement(&self) -> bool {
        match self {
            Self::Server { code, .. } => !is_state_of_the_server(*code),
            Self::Unreachable { .. } | Self::TimedOut { .. } | Self::Reply { .. } => false,
        }
    }
}

/// Codes that say something about the server, the account or the moment, not about the statement.
const fn is_state_of_the_server(code: u32) -> bool {
    matches!(
        code,
        3 | 23
            | 24
            | 95
            | 96
            | 159
            | 160
            | 164
            | 173
            | 192..=195
            | 198
            | 201..=203
            | 209
            | 210
            | 225
            | 236
            | 241..=244
            | 252
            | 254
            | 279
            | 285
            | 286
            | 319
            | 394
            | 425
            | 439
            | 452
            | 473
            | 497
            | 499
            | 511
            | 512
            | 516
            | 517
            | 999..=1002
    )
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

const COLUMNS_QUERY: &str = "SELECT name, type AS data_type, default_kind, default_expression, comment \
    FROM system.columns WHERE database = {database:String} AND table = {name:String} ORDER BY position";

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
        Ok(Some(build_observed(table, columns)))
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
    }
}

fn read_client_error(url: &str, error: &ClientError) -> WarehouseError {
    let url = url.to_owned();
    match error {
        ClientError::BadResponse(text) => match parse_exception(text) {
            Some((code, message)) => WarehouseError::Server { code, message },
            None => WarehouseError::Reply {
                url,
                detail: text.chars().take(200).collect(),
            },
        },
        ClientError::Network(_) | ClientError::TimedOut => WarehouseError::Unreachable {
            url,
            detail: render_chain(error),
        },
        other => WarehouseError::Reply {
            url,
            detail: render_chain(other),
        },
    }
}

/// `Code: 60. DB::Exception: text. (NAME) (version …)` into code and text.
fn parse_exception(text: &str) -> Option<(u32, String)> {
    let rest = text.trim().strip_prefix("Code: ")?;
    let digits = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let code = rest[..digits].parse().ok()?;
    let message = rest[digits..].trim_start_matches('.').trim();
    let message = message.strip_prefix("DB::Exception: ").unwrap_or(message);
    let message = message
        .find(" (version ")
        .map_or(message, |end| &message[..end]);
    Some((code, cut_scope(message).trim().to_owned()))
}

/// The server repeats the whole statement after `In scope`; a person wants the fault, and its name.
fn cut_scope(message: &str) -> String {
    match (message.find(": In scope "), message.rfind(" (")) {
        (Some(start), Some(name)) if start < name => {
            format!("{}{}", &message[..start], &message[name..])
        }
        _ => message.to_owned(),
    }
}

/// An error and its causes in one line; each cause once.
fn render_chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

/// The address without what stands before an `@`.
fn render_address(url: &str) -> String {
    match (url.find("://"), url.rfind('@')) {
        (Some(scheme), Some(at)) if scheme < at => {
            format!("{}{}", &url[..scheme + 3], &url[at + 1..])
        }
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn an_exception_is_read_into_code_and_text_without_the_version() {
        let text = "Code: 516. DB::Exception: nobody: Authentication failed. (AUTHENTICATION_FAILED) (version 26.7.2.1)\n";
        let expected = (
            516,
            "nobody: Authentication failed. (AUTHENTICATION_FAILED)".to_owned(),
        );
        assert_eq!(parse_exception(text), Some(expected));
        assert_eq!(parse_exception("500 Internal Server Error"), None);
        assert_eq!(parse_exception("Code: 60"), Some((60, String::new())));
    }

    #[test]
    fn the_statement_that_the_server_repeats_is_left_out() {
        let text = "Code: 47. DB::Exception: Unknown identifier `s`: In scope SELECT f(s). (UNKNOWN_IDENTIFIER)";
        assert_eq!(
            parse_exception(text).unwrap().1,
            "Unknown identifier `s` (UNKNOWN_IDENTIFIER)"
        );
    }

    #[test]
    fn credentials_in_an_address_are_never_shown() {
        assert_eq!(
            render_address("http://user:secret@host:8123"),
            "http://host:8123"
        );
        assert_eq!(render_address("http://host:8123"), "http://host:8123");
    }

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

    #[test]
    fn a_wrong_password_is_not_the_statements_fault_and_a_syntax_error_is() {
        let error = |code| WarehouseError::Server {
            code,
            message: String::new(),
        };
        assert_eq!(error(516).reason(), "ClickHouseUnauthenticated");
        assert!(!error(516).is_about_the_statement());
        assert_eq!(error(62).reason(), "ClickHouseRefused");
        assert!(error(62).is_about_the_statement());
    }
}
