//! The server, and a database of a test's own.
//!
//! Must not be here: what a test expects.

use clickhouse_sink_crds::api::{DdlMode, WideningPolicy};
use clickhouse_sink_crds::table::{ObservedTable, TableDefinition};
use clickhouse_sink_operator::ddl::{TableCase, TablesPlan, plan_tables};
use clickhouse_sink_operator::sql::render_identifier;
use clickhouse_sink_operator::warehouse::{ClickHouse, Warehouse as _};
use uuid::Uuid;

/// A database, dropped at the end of the test by [`Self::drop`].
pub(crate) struct Scratch {
    pub(crate) database: String,
    pub(crate) server: ClickHouse,
}

impl Scratch {
    pub(crate) async fn new() -> Self {
        Self::named(&format!("tables_{}", Uuid::new_v4().simple())).await
    }

    pub(crate) async fn named(database: &str) -> Self {
        let url = std::env::var("CLICKHOUSE_URL")
            .expect("CLICKHOUSE_URL is not set: run cargo xtask test");
        let scratch = Self {
            database: database.to_owned(),
            server: ClickHouse::new(&url, None),
        };
        let name = render_identifier(database);
        scratch.run(&format!("CREATE DATABASE {name}")).await;
        scratch
    }

    pub(crate) async fn run(&self, sql: &str) {
        let result = self.server.apply_statement(sql).await;
        assert!(result.is_ok(), "{sql}: {result:?}");
    }

    /// A second time, when there may be nothing left to do.
    pub(crate) async fn run_again(&self, sql: &str) {
        match self.server.apply_statement(sql).await {
            Ok(()) => {}
            Err(error) => assert!(error.is_there_already(), "{sql}: {error:?}"),
        }
    }

    pub(crate) async fn fetch(&self, name: &str) -> ObservedTable {
        let found = self.server.fetch_table(&self.database, name).await;
        found.unwrap().unwrap()
    }

    /// What would be done about a table in a mode.
    pub(crate) async fn plan(
        &self,
        (mode, policy): (DdlMode, WideningPolicy),
        expected: &TableDefinition,
    ) -> TablesPlan {
        let found = self
            .server
            .fetch_table(&self.database, &expected.name)
            .await;
        let found = found.unwrap();
        let case = TableCase {
            expected,
            observed: found.as_ref(),
            was_there: false,
        };
        plan_tables(mode, policy, true, &[case])
    }

    pub(crate) async fn drop(self) {
        let name = render_identifier(&self.database);
        self.run(&format!("DROP DATABASE {name} SYNC")).await;
    }
}
