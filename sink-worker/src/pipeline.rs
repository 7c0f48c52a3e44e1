//! The one place that spawns: table watch, HTTP, shard threads; and the end of all of them.
//!
//! Must not be here: decisions about records, offsets or tables.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use clickhouse::Client;
use clickhouse_sink_crds::facts::Facts;
use clickhouse_sink_crds::worker_config::WorkerConfig;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};

use crate::dead_letter::{self, Rejected};
use crate::facts_watch::run_facts_watch;
use crate::http::{Observed, run_http};
use crate::insert::client::{CredentialsError, build_client};
use crate::insert::questions::ServerQuestions;
use crate::insert::run::{InsertContext, MAX_INSERTS, RecordSource};
use crate::insert::trouble::Troubles;
use crate::insert::{Inserter, Report, WindowAnswers};
use crate::kafka::{
    Consumer, ConsumerSettings, KafkaError, TopicPartition, Waker, fetch_record, render_config,
};
use crate::mapping::{Mappings, quote_identifier};
use crate::metrics::Metrics;
use crate::schema::SchemaError;
use crate::session::gate::decide_declaration_age;
use crate::shard::{Shard, ShardError, ShardParts, StopSignal, Stopped};
use crate::state::WorkerState;
use crate::table_watch::{TableWatch, run_table_watch};

/// Share of the budget that librdkafka's queues may take, in percent; the rest is for batches.
const FETCH_SHARE_PERCENT: u64 = 30;
/// An attempt may go on for this long on the server after it has ended for us.
const ATTEMPT_MARGIN: Duration = Duration::from_secs(5);
/// librdkafka refuses less than its largest message of a producer, which this is not.
const LEAST_FETCH_BYTES: u32 = 1_000_000;
/// A record that is read again must come within this long.
const REREAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a worker cannot start, or ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    /// The mapping does not compile.
    #[error("the mapping cannot be used: {0}")]
    Schema(#[from] SchemaError),
    /// The credentials cannot be read.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// librdkafka refuses the settings.
    #[error(transparent)]
    Kafka(#[from] KafkaError),
    /// A shard ended by itself.
    #[error(transparent)]
    Shard(#[from] ShardError),
    /// A thread could not be started.
    #[error("a shard thread could not be started: {0}")]
    Thread(#[from] std::io::Error),
    /// A shard panicked; that is a bug, and what it had not committed is replayed.
    #[error(
        "a shard thread has panicked; the worker starts again and replays what was not committed"
    )]
    Panicked,
}

/// A running worker.
pub struct Pipeline {
    shards: Vec<(JoinHandle<Result<Stopped, ShardError>>, Waker)>,
    stop: Arc<StopSignal>,
    state: Arc<WorkerState>,
}

/// What all shards share.
struct Shared {
    config: Arc<WorkerConfig>,
    mappings: Mappings,
    facts: watch::Receiver<Arc<Facts>>,
    client: Client,
    table: TableWatch,
    state: Arc<WorkerState>,
    metrics: Arc<Metrics>,
    troubles: Arc<Troubles>,
    places: Arc<Semaphore>,
    stop: Arc<StopSignal>,
    runtime: Handle,
}

/// Starts everything; the current runtime carries the async side.
///
/// # Errors
/// [`PipelineError`] where the configuration cannot be used.
pub fn run_pipeline(
    config: WorkerConfig,
    listener: TcpListener,
) -> Result<Pipeline, PipelineError> {
    let shared = build_shared(config)?;
    tokio::spawn(run_http(listener, Arc::new(observed(&shared))));
    let shards = (0..shared.config.threads as usize).map(|index| start_shard(&shared, index));
    let shards = shards.collect::<Result<Vec<_>, _>>()?;
    Ok(Pipeline {
        shards,
        stop: shared.stop,
        state: shared.state,
    })
}

fn build_shared(config: WorkerConfig) -> Result<Shared, PipelineError> {
    let mappings = Mappings::compile(&config)?;
    let client = build_client(&config.clickhouse)?;
    let table = run_table_watch(client.clone(), config.table.clone(), &config.delivery);
    Ok(Shared {
        mappings,
        facts: run_facts_watch(config.facts_path.clone()),
        client,
        table,
        state: Arc::new(WorkerState::new(config.threads as usize)),
        metrics: Arc::default(),
        troubles: Arc::default(),
        places: Arc::new(Semaphore::new(MAX_INSERTS)),
        stop: Arc::default(),
        runtime: Handle::current(),
        config: Arc::new(config),
    })
}

fn observed(shared: &Shared) -> Observed {
    Observed {
        sink: format!(
            "{}/{}",
            shared.config.sink.namespace, shared.config.sink.name
        ),
        mapping: shared.mappings.current().hash.clone(),
        memory_budget_bytes: shared.config.memory_budget_bytes,
        state: Arc::clone(&shared.state),
        troubles: Arc::clone(&shared.troubles),
        metrics: Arc::clone(&shared.metrics),
        table: shared.table.clone(),
    }
}

type Started = (JoinHandle<Result<Stopped, ShardError>>, Waker);

fn start_shard(shared: &Shared, index: usize) -> Result<Started, PipelineError> {
    let settings = render_config(&build_settings(&shared.config, index));
    let topics = shared.config.kafka.topics.clone();
    let (reporter, reports) = mpsc::channel();
    let context = Arc::new(build_context(shared, index, settings.clone()));
    let runtime = shared.runtime.clone();
    let build_parts = shard_parts(shared, index);
    let (ready, waker) = mpsc::channel();
    let thread = std::thread::Builder::new()
        .name(format!("shard-{index}"))
        .spawn(move || {
            let waker = Waker::for_current_thread();
            // The starter waits for the waker; it can only be gone at exit.
            let _ = ready.send(waker.clone());
            let inserter = Inserter::new(context, runtime, reporter, waker.clone());
            let consumer = Consumer::open(&settings, waker)?;
            consumer.subscribe(&topics)?;
            Shard::new(build_parts(inserter, reports), consumer).run()
        })?;
    let waker = waker.recv().map_err(|_| PipelineError::Panicked)?;
    Ok((thread, waker))
}

fn shard_parts(
    shared: &Shared,
    index: usize,
) -> impl FnOnce(Inserter, mpsc::Receiver<Report>) -> ShardParts + Send + 'static {
    let (config, mappings, facts) = (
        Arc::clone(&shared.config),
        shared.mappings.clone(),
        shared.facts.clone(),
    );
    let (table, state, metrics, stop) = (
        shared.table.clone(),
        Arc::clone(&shared.state),
        Arc::clone(&shared.metrics),
        Arc::clone(&shared.stop),
    );
    let share = 100 - FETCH_SHARE_PERCENT;
    let budget_bytes = config.memory_budget_bytes * share / 100 / u64::from(config.threads.max(1));
    move |inserter, reports| ShardParts {
        index,
        config,
        mappings,
        facts,
        inserter,
        reports,
        table,
        state,
        metrics,
        stop,
        budget_bytes,
    }
}

/// Settings of a Kafka client for questions beside the shards.
#[must_use]
pub fn render_client_settings(config: &WorkerConfig) -> Vec<(String, String)> {
    render_config(&build_settings(config, 0))
}

/// Fetch settings within the budget: what librdkafka holds is counted too.
fn build_settings(config: &WorkerConfig, index: usize) -> ConsumerSettings {
    let client_id = format!("{}-{}-{index}", config.sink.namespace, config.sink.name);
    let mut settings = ConsumerSettings::new(
        config.kafka.bootstrap_servers.clone(),
        &config.kafka.group_id,
        &client_id,
    );
    settings.group_protocol = config.kafka.group_protocol;
    settings.properties.clone_from(&config.kafka.properties);
    let share =
        config.memory_budget_bytes * FETCH_SHARE_PERCENT / 100 / u64::from(config.threads.max(1));
    let bytes = |part: u64, most: u64| {
        u32::try_from((share / part).clamp(64 * 1024, most)).unwrap_or(u32::MAX)
    };
    // librdkafka counts payloads only: a small record costs it three times its size. The share is meant for four
    // partitions with a backlog and one response being read.
    settings.queued_kbytes_per_partition = bytes(16, 16 * 1024 * 1024) / 1024;
    settings.fetch_partition_bytes = bytes(32, 2 * 1024 * 1024);
    settings.fetch_response_bytes = bytes(8, 32 * 1024 * 1024).max(LEAST_FETCH_BYTES);
    settings
}

fn build_context(shared: &Shared, index: usize, settings: Vec<(String, String)>) -> InsertContext {
    let config = &shared.config;
    let timeout = Duration::from_secs(u64::from(config.delivery.insert_timeout_seconds));
    InsertContext {
        shard: index,
        client: shared.client.clone(),
        rejected_sql: render_rejected_insert(config),
        database: config.table.expected.database.clone(),
        table_name: config.table.expected.name.clone(),
        group_id: config.kafka.group_id.clone(),
        compression: config.batch.compression,
        timeout,
        attempt_ends_after: timeout + ATTEMPT_MARGIN,
        earlier_attempts_end_after: decide_declaration_age(timeout) + timeout + ATTEMPT_MARGIN,
        table: shared.table.clone(),
        window_answers: WindowAnswers::default(),
        questions: Arc::new(ServerQuestions {
            client: shared.client.clone(),
            database: config.table.expected.database.clone(),
            table_name: config.table.expected.name.clone(),
            table: shared.table.clone(),
        }),
        places: Arc::clone(&shared.places),
        troubles: Arc::clone(&shared.troubles),
        metrics: Arc::clone(&shared.metrics),
        records: Arc::new(KafkaRecords { settings }),
    }
}

fn render_rejected_insert(config: &WorkerConfig) -> String {
    let names: Vec<String> = dead_letter::COLUMNS
        .iter()
        .map(|(name, _)| quote_identifier(name))
        .collect();
    let (database, name) = (
        quote_identifier(&config.clickhouse.database),
        quote_identifier(&config.dead_letter.table),
    );
    format!(
        "INSERT INTO {database}.{name} ({}) FORMAT RowBinaryWithNamesAndTypes",
        names.join(", ")
    )
}

impl Pipeline {
    /// Begins to stop within the budget; a second call hurries.
    pub fn stop(&self) {
        if self.state.is_draining() {
            self.stop.hurry();
        }
        self.stop_once();
    }

    /// Begins to stop within the budget, without hurrying a stop that has begun.
    pub fn stop_once(&self) {
        self.state.set_draining();
        self.stop.stop();
        self.shards.iter().for_each(|(_, waker)| waker.wake());
    }

    /// True where a shard has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.shards.iter().any(|(thread, _)| thread.is_finished())
    }

    /// Waits for all shards; true where nothing was left for replay.
    ///
    /// # Errors
    /// The first shard's error, where one ended by itself.
    pub fn join(self) -> Result<bool, PipelineError> {
        let mut drained = true;
        for (thread, _) in self.shards {
            drained &= thread.join().map_err(|_| PipelineError::Panicked)??.drained;
        }
        Ok(drained)
    }
}

/// Reads records again through a consumer of its own that joins no group.
struct KafkaRecords {
    settings: Vec<(String, String)>,
}

impl RecordSource for KafkaRecords {
    fn read(&self, topic: &str, partition: i32, offset: i64) -> Result<Option<Rejected>, String> {
        let key = TopicPartition::new(topic, partition);
        let record = fetch_record(
            &self.settings,
            &key,
            offset,
            Instant::now() + REREAD_TIMEOUT,
        );
        let record = record.map_err(|error| error.to_string())?;
        Ok(record.map(|record| Rejected {
            offset,
            timestamp_ms: record.timestamp_ms,
            key: record.key,
            payload: record.payload.unwrap_or_default(),
            headers: record
                .headers
                .into_iter()
                .map(|(name, value)| (name, value.unwrap_or_default()))
                .collect(),
            column: String::new(),
            code: "",
            reason: String::new(),
        }))
    }
}
