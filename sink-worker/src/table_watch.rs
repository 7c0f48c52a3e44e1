//! Watches the table that rows go to: read from the server, compared by the contract's own check.
//!
//! At start, every recheck period, and at once when asked. Must not be here: DDL, the comparison itself.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clickhouse::Client;
use clickhouse_sink_crds::check::{EngineText, check_table, is_equal_or_wider};
use clickhouse_sink_crds::table::{Difference, ObservedTable, TableDefinition};
use clickhouse_sink_crds::worker_config::{Delivery, TargetTable};
use tokio::sync::{Notify, watch};

use self::look::{fetch_settings, fetch_table, fetch_window_defaults};
use crate::clock::ServerClock;
use crate::insert::class::{Failure, FailureClass};
use crate::insert::settings::{plan_quorum, plan_settings};
use crate::window::{WindowSettings, read_window};

mod look;

/// How soon a table that is not as declared, or a server that does not answer, is looked at again.
const RECHECK_IN_TROUBLE: Duration = Duration::from_secs(1);
/// A look at the table that takes longer counts as no answer.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);

/// What the last look at the table found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableState {
    /// Not looked at yet.
    Unknown,
    /// As declared; writes go on.
    AsDeclared,
    /// Writes wait.
    Different(Vec<Difference>),
    /// The server did not answer, or refused.
    Unreachable(Failure),
}

/// The result of one look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableReport {
    /// Number of the look, from 1; 0 before the first.
    pub sequence: u64,
    /// What was found.
    pub state: TableState,
    /// True where the last look that was answered found the table as declared. A server that does not answer changes
    /// nothing about its table, so writes are tried on.
    pub writable: bool,
    /// uuid of the table at the last look that found one.
    pub uuid: Option<String>,
    /// Settings that the server knows, once it has answered.
    pub known_settings: Arc<BTreeSet<String>>,
    /// True where a column has another type than declared, and each such type holds every value of the declared one.
    pub has_wider_types: bool,
    /// The table's engine without arguments, at the last look that found the table; empty before.
    pub engine: String,
    /// How many INSERTs the table recognises, and for how long.
    pub window: WindowSettings,
    /// The table's partition key as the server prints it; empty where there is none.
    pub partition_key: String,
    /// True where rows leave the table when they get old.
    pub has_ttl: bool,
    /// The server's clock at the last look that found the table.
    pub clock: Option<ServerClock>,
}

impl TableReport {
    fn unknown() -> Self {
        Self {
            sequence: 0,
            state: TableState::Unknown,
            writable: false,
            uuid: None,
            known_settings: Arc::default(),
            has_wider_types: false,
            engine: String::new(),
            window: WindowSettings::default(),
            partition_key: String::new(),
            has_ttl: false,
            clock: None,
        }
    }

    /// The server's time in seconds since 1970, carried on from the last look; `None` where it cannot be trusted.
    #[must_use]
    pub fn server_now_s(&self, now: std::time::Instant) -> Option<u64> {
        self.clock.as_ref()?.now_s(now)
    }

    /// True where writes go on.
    #[must_use]
    pub const fn is_as_declared(&self) -> bool {
        matches!(self.state, TableState::AsDeclared)
    }

    /// True where nothing is known: before the first look, or while the server does not answer.
    #[must_use]
    pub const fn is_unknown(&self) -> bool {
        matches!(self.state, TableState::Unknown | TableState::Unreachable(_))
    }

    /// CamelCase reason why writes wait.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match &self.state {
            TableState::Unknown => "TableNotChecked",
            TableState::AsDeclared => "AsDeclared",
            TableState::Different(_) => "TableNotAsDeclared",
            TableState::Unreachable(failure) => match failure.class {
                FailureClass::Unauthorized => "Unauthorized",
                _ => "ClickHouseUnreachable",
            },
        }
    }

    /// Why writes wait, in words.
    #[must_use]
    pub fn message(&self) -> String {
        match &self.state {
            TableState::Unknown => "the table was not looked at yet".into(),
            TableState::AsDeclared => String::new(),
            TableState::Different(differences) => render_differences(differences),
            TableState::Unreachable(failure) => failure.message.clone(),
        }
    }

    /// The same as a failure of an INSERT.
    #[must_use]
    pub fn as_failure(&self) -> Failure {
        let class = match &self.state {
            TableState::Unreachable(failure) => failure.class,
            _ => FailureClass::TableCheck,
        };
        Failure {
            class,
            code: None,
            message: self.message(),
        }
    }
}

fn render_differences(differences: &[Difference]) -> String {
    let lines = differences.iter().map(|difference| {
        let Difference {
            subject,
            expected,
            found,
            remedy,
            ..
        } = difference;
        format!("{subject}: expected {expected}, found {found}; {remedy}")
    });
    lines.collect::<Vec<_>>().join(" | ")
}

/// A handle on the watched table.
#[derive(Clone)]
pub struct TableWatch {
    reports: watch::Receiver<Arc<TableReport>>,
    wanted: Arc<Notify>,
    insert_timeout_seconds: u32,
    quorum: u32,
    process: Arc<str>,
    query_number: Arc<AtomicU64>,
}

impl TableWatch {
    /// Follows the reports.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Arc<TableReport>> {
        self.reports.clone()
    }

    /// The last report.
    #[must_use]
    pub fn report(&self) -> Arc<TableReport> {
        Arc::clone(&self.reports.borrow())
    }

    /// Has the table looked at soon.
    pub fn check_now(&self) {
        self.wanted.notify_one();
    }

    /// Pinned settings of an INSERT, cut to what the server knows.
    #[must_use]
    pub fn settings(&self) -> Vec<(String, String)> {
        let report = self.report();
        let mut settings = plan_settings(
            &report.known_settings,
            self.insert_timeout_seconds,
            report.has_wider_types,
        );
        settings.extend(plan_quorum(&report.known_settings, self.quorum));
        settings
    }

    /// A `query_id` that no other attempt has.
    #[must_use]
    pub fn next_query_id(&self, shard: usize) -> String {
        let number = self.query_number.fetch_add(1, Ordering::Relaxed);
        format!("clickhouse-sink-{}-{shard}-{number}", self.process)
    }
}

#[cfg(test)]
impl TableWatch {
    /// A table that every look finds as declared, without a server.
    pub(crate) fn always_as_declared() -> Self {
        let report = |sequence| TableReport {
            sequence,
            state: TableState::AsDeclared,
            writable: true,
            ..TableReport::unknown()
        };
        let (sender, reports) = watch::channel(Arc::new(report(1)));
        let wanted = Arc::new(Notify::new());
        let watch = Self {
            reports,
            wanted: Arc::clone(&wanted),
            insert_timeout_seconds: 1,
            quorum: 0,
            process: "test".into(),
            query_number: Arc::default(),
        };
        tokio::spawn(async move {
            for sequence in 2.. {
                wanted.notified().await;
                sender.send_replace(Arc::new(report(sequence)));
            }
        });
        watch
    }
}

/// Starts watching on the current runtime.
#[must_use]
pub fn run_table_watch(client: Client, table: TargetTable, delivery: &Delivery) -> TableWatch {
    let (sender, reports) = watch::channel(Arc::new(TableReport::unknown()));
    let wanted = Arc::new(Notify::new());
    let watch = TableWatch {
        reports,
        wanted: Arc::clone(&wanted),
        insert_timeout_seconds: delivery.insert_timeout_seconds,
        quorum: delivery.quorum,
        process: format!("{:016x}", crate::random()).into(),
        query_number: Arc::new(AtomicU64::new(1)),
    };
    tokio::spawn(watch_table(client, table, sender, wanted));
    watch
}

async fn watch_table(
    client: Client,
    table: TargetTable,
    sender: watch::Sender<Arc<TableReport>>,
    wanted: Arc<Notify>,
) {
    let period = Duration::from_secs(u64::from(table.recheck_period_seconds.max(1)));
    loop {
        let before = Arc::clone(&sender.borrow());
        let report = fetch_report(&client, &table, &before).await;
        log_transition(&before, &report);
        let wait = if report.is_as_declared() {
            period
        } else {
            RECHECK_IN_TROUBLE
        };
        sender.send_replace(Arc::new(report));
        tokio::select! {
            () = wanted.notified() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}

fn log_transition(before: &TableReport, now: &TableReport) {
    if before.reason() == now.reason() {
        return;
    }
    if now.is_as_declared() {
        tracing::info!(uuid = now.uuid.as_deref(), "The table is as declared.");
    } else {
        tracing::warn!(reason = now.reason(), detail = %now.message(), "Writes wait for the table.");
    }
}

async fn fetch_report(client: &Client, table: &TargetTable, before: &TableReport) -> TableReport {
    let looked = tokio::time::timeout(CHECK_TIMEOUT, fetch_state(client, table, before)).await;
    let sequence = before.sequence + 1;
    let looked = looked.unwrap_or_else(|_| {
        Err(Failure::no_answer(
            "no answer to the look at the table within 10 s",
        ))
    });
    match looked {
        Ok(report) => TableReport { sequence, ..report },
        Err(failure) => TableReport {
            sequence,
            state: TableState::Unreachable(failure),
            ..before.clone()
        },
    }
}

/// One look that was answered; what it does not tell is as before.
async fn fetch_state(
    client: &Client,
    table: &TargetTable,
    before: &TableReport,
) -> Result<TableReport, Failure> {
    let known_settings = if before.known_settings.is_empty() {
        Arc::new(fetch_settings(client).await?)
    } else {
        Arc::clone(&before.known_settings)
    };
    let found = fetch_table(client, &table.expected.database, &table.expected.name).await?;
    let observed = found.as_ref().map(|(observed, _)| observed);
    let state = decide_state(table, observed);
    let report = TableReport {
        writable: state == TableState::AsDeclared,
        state,
        known_settings,
        has_wider_types: observed
            .is_some_and(|observed| has_wider_types(&table.expected, observed)),
        ..before.clone()
    };
    let Some((observed, clock)) = found else {
        return Ok(report);
    };
    let text = EngineText::read(&observed.engine_full);
    let defaults = fetch_window_defaults(client, &observed.engine, &text).await;
    Ok(TableReport {
        window: read_window(&observed.engine, &text, &defaults),
        has_ttl: text.has_row_ttl(),
        uuid: Some(observed.uuid),
        engine: observed.engine,
        partition_key: observed.partition_key,
        clock: Some(clock),
        ..report
    })
}

/// The types that differ are all wider; with one that is not, the server must refuse instead of converting.
fn has_wider_types(expected: &TableDefinition, observed: &ObservedTable) -> bool {
    let pairs = expected.columns.iter().filter_map(|declared| {
        let found = observed
            .columns
            .iter()
            .find(|found| found.name == declared.name)?;
        Some((declared.data_type.as_str(), found.data_type.as_str()))
    });
    let mut different = pairs
        .filter(|(declared, found)| declared != found)
        .peekable();
    different.peek().is_some()
        && different.all(|(declared, found)| is_equal_or_wider(declared, found))
}

/// What is found, judged by the contract's check; `ddl: none` asks for none.
fn decide_state(table: &TargetTable, observed: Option<&ObservedTable>) -> TableState {
    let Some(observed) = observed else {
        return TableState::Different(vec![missing_table(table)]);
    };
    let mut differences = if table.check {
        check_table(&table.expected, observed)
    } else {
        Vec::new()
    };
    differences.retain(|difference| difference.blocks_writes);
    if differences.is_empty() {
        TableState::AsDeclared
    } else {
        TableState::Different(differences)
    }
}

fn missing_table(table: &TargetTable) -> Difference {
    Difference {
        subject: "table".into(),
        expected: format!("`{}`.`{}`", table.expected.database, table.expected.name),
        found: "no such table, or no right to see it".into(),
        remedy: "create it, or grant SHOW TABLES on it; writes go on by themselves then".into(),
        blocks_writes: true,
    }
}
