//! A small client for asking `ClickHouse` what a test wants to know; independent of the product's own.
//!
//! Must not be here: how a server is started (`stack`), inserts of the product.

use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::http::{self, Request, encode};

const TIMEOUT: Duration = Duration::from_mins(1);

/// A server, a user and a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClickHouseClient {
    address: String,
    user: String,
    password: String,
    database: String,
}

impl ClickHouseClient {
    /// Client of `http://[user:password@]host:port`.
    ///
    /// # Errors
    /// Where the URL is of another form.
    pub fn new(url: &str) -> Result<Self> {
        let rest = url
            .strip_prefix("http://")
            .with_context(|| format!("expected http://host:port, found {url}"))?;
        let rest = rest.trim_end_matches('/');
        let (credentials, address) = rest.rsplit_once('@').unwrap_or(("default:", rest));
        let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
        Ok(Self {
            address: address.to_owned(),
            user: user.to_owned(),
            password: password.to_owned(),
            database: "default".to_owned(),
        })
    }

    /// The same server as another user.
    #[must_use]
    pub fn as_user(&self, (user, password): (&str, &str)) -> Self {
        Self {
            user: user.to_owned(),
            password: password.to_owned(),
            ..self.clone()
        }
    }

    /// The same server and user with another default database.
    #[must_use]
    pub fn in_database(&self, database: &str) -> Self {
        Self {
            database: database.to_owned(),
            ..self.clone()
        }
    }

    /// `host:port`.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Runs a statement; gives its output as text (`TabSeparated` unless it names a format).
    ///
    /// # Errors
    /// Network errors, and the server's exception with its text.
    pub fn query(&self, sql: &str) -> Result<String> {
        // Inserts of tests are there when the statement returns, each with its own part.
        self.query_with(sql, &[("async_insert", "0"), ("wait_end_of_query", "1")])
    }

    /// As [`Self::query`], with settings of its own only (a read-only user may set none).
    ///
    /// # Errors
    /// As [`Self::query`].
    pub fn query_with(&self, sql: &str, settings: &[(&str, &str)]) -> Result<String> {
        let mut target = format!("/?database={}", encode(&self.database));
        for (name, value) in settings {
            target.extend(["&", name, "=", &encode(value)]);
        }
        let request = Request {
            method: "POST",
            target: &target,
            headers: &[
                ("X-ClickHouse-User", &self.user),
                ("X-ClickHouse-Key", &self.password),
            ],
            body: sql.as_bytes(),
        };
        let answer = http::send(&self.address, &request, TIMEOUT)
            .with_context(|| format!("cannot ask: {sql}"))?;
        let failed = answer.status != 200 || answer.header("x-clickhouse-exception-code").is_some();
        ensure!(!failed, "{}\n  statement: {sql}", answer.text());
        Ok(answer.text())
    }

    /// Runs a statement that gives one value.
    ///
    /// # Errors
    /// As [`Self::query`], and where the value is not a `T`.
    pub fn scalar<T: FromStr>(&self, sql: &str) -> Result<T> {
        let text = self.query(sql)?;
        let Ok(value) = text.parse() else {
            bail!(
                "expected one {}, found {text:?}\n  statement: {sql}",
                std::any::type_name::<T>()
            );
        };
        Ok(value)
    }

    /// Runs a SELECT without a format; gives its rows as JSON objects (64-bit integers as numbers).
    ///
    /// # Errors
    /// As [`Self::query`].
    pub fn rows(&self, select: &str) -> Result<Vec<Value>> {
        let settings = [
            ("default_format", "JSONEachRow"),
            ("output_format_json_quote_64bit_integers", "0"),
            ("wait_end_of_query", "1"),
        ];
        let text = self.query_with(select, &settings)?;
        text.lines()
            .map(|line| serde_json::from_str(line).context("the server sent malformed JSON"))
            .collect()
    }

    /// `count()` of a table, `where` clause and `FINAL` allowed: `t FINAL WHERE a = 1`.
    ///
    /// # Errors
    /// As [`Self::query`].
    pub fn count(&self, from: &str) -> Result<u64> {
        self.scalar(&format!("SELECT count() FROM {from}"))
    }

    /// Writes the system logs out, so that `system.query_log` and `system.part_log` hold what was done before.
    ///
    /// # Errors
    /// As [`Self::query`].
    pub fn flush_logs(&self) -> Result<()> {
        self.query("SYSTEM FLUSH LOGS").map(drop)
    }
}

/// A database that a test has for itself; dropped with this value.
#[derive(Debug)]
pub struct Database {
    client: ClickHouseClient,
}

impl Database {
    /// Makes the database; the name must be safe to write unquoted.
    ///
    /// # Errors
    /// As [`ClickHouseClient::query`].
    pub fn create(client: &ClickHouseClient, name: &str) -> Result<Self> {
        client.query(&format!("CREATE DATABASE {name}"))?;
        Ok(Self {
            client: client.in_database(name),
        })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.client.database
    }

    /// A client whose default database it is.
    #[must_use]
    pub fn client(&self) -> &ClickHouseClient {
        &self.client
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // After a failure the tables are worth a look.
        if !std::thread::panicking() {
            let client = self.client.in_database("default");
            let _ = client.query(&format!("DROP DATABASE IF EXISTS {} SYNC", self.name()));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn a_url_may_carry_a_user() {
        let client = ClickHouseClient::new("http://me:pa:ss@host:8123/").unwrap();
        assert_eq!(
            (
                client.address(),
                client.user.as_str(),
                client.password.as_str()
            ),
            ("host:8123", "me", "pa:ss")
        );
        assert_eq!(ClickHouseClient::new("http://h:1").unwrap().user, "default");
        assert!(ClickHouseClient::new("https://h:1").is_err());
    }
}
