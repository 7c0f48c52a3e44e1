//! Keeps one sink's worker processes as they are wanted: the loop that runs what `decide.rs` decides.
//!
//! Must not be here: decisions, how a process is started (`process.rs`).

use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clickhouse_sink_crds::facts::TopicFact;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use crate::fleet::local::decide::{
    Action, Slot, Wanted, decide_after_end, decide_fleet, is_settled,
};
use crate::fleet::local::files::{read_tail, remove_old_files};
use crate::fleet::local::locate_config;
use crate::fleet::local::process::Process;
use crate::fleet::{FleetSpec, FleetState, Health};
use member::{Member, build_view, describe_end};

mod member;

/// How often ends and deadlines are looked at; ten wake-ups a second cost nothing that can be measured.
const TICK: Duration = Duration::from_millis(100);
/// How much of a log's end is searched for its last line, in bytes.
const LOG_TAIL_BYTES: usize = 4_096;
/// How much of that line is shown, in characters.
const LOG_LINE_CHARS: usize = 300;

/// What the supervisor is told.
#[derive(Debug, Clone, Default)]
pub(super) struct Orders {
    /// What the fleet must be; none before the first.
    pub(super) spec: Option<FleetSpec>,
    /// How many times we were told to stop.
    pub(super) stop_signals: u32,
}

/// The loop's state.
#[derive(Debug)]
pub(super) struct Supervisor {
    name: String,
    folder: PathBuf,
    worker_bin: PathBuf,
    wanted: Wanted,
    members: Vec<Member>,
    rows_inserted: u64,
    rejected: u64,
    topics: Vec<TopicFact>,
    /// Held while files are written and ordered, so that none is forgotten before its time.
    writing: Arc<Mutex<()>>,
    kept_files: Vec<PathBuf>,
    kept_revision: String,
    /// Since when the fleet is what was asked for.
    settled: Option<u64>,
    settled_s: u64,
    started: Instant,
    state: watch::Sender<FleetState>,
}

impl Supervisor {
    /// A supervisor of no workers yet.
    pub(super) fn new(
        name: String,
        folder: PathBuf,
        worker_bin: PathBuf,
        writing: Arc<Mutex<()>>,
        state: watch::Sender<FleetState>,
    ) -> Self {
        Self {
            name,
            folder,
            worker_bin,
            wanted: Wanted::default(),
            members: Vec::new(),
            rows_inserted: 0,
            rejected: 0,
            topics: Vec::new(),
            writing,
            kept_files: Vec::new(),
            kept_revision: String::new(),
            settled: None,
            settled_s: 0,
            started: Instant::now(),
            state,
        }
    }

    /// Runs until it was told to stop and the last worker has ended. Orders whose sender is gone mean stop.
    pub(super) async fn run(mut self, mut orders: watch::Receiver<Orders>) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stop_signals = 0;
        let mut is_connected = true;
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                changed = orders.changed(), if is_connected => is_connected = changed.is_ok(),
            }
            let now = orders.borrow_and_update().clone();
            let stops = now.stop_signals.max(u32::from(!is_connected));
            self.take_orders(&now, stops);
            self.step();
            self.forget_old_files(&orders);
            if stops > stop_signals.max(1) {
                self.hurry();
            }
            stop_signals = stops;
            if stops > 0 && self.members.iter().all(|member| member.process.is_none()) {
                return;
            }
        }
    }

    fn take_orders(&mut self, orders: &Orders, stops: u32) {
        let Some(spec) = &orders.spec else { return };
        self.wanted = Wanted {
            revision: spec.revision.clone(),
            replicas: if stops > 0 { 0 } else { spec.replicas },
            grace_ms: u64::from(spec.config.shutdown.termination_grace_period_seconds()) * 1_000,
        };
        self.kept_files = vec![locate_config(&self.folder, &spec.revision)];
        self.kept_files
            .extend(spec.config.clickhouse.credentials_dir.clone());
        while self.members.len() < spec.replicas as usize {
            self.members.push(Member::new());
        }
    }

    fn step(&mut self) {
        let now_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        for index in 0..self.members.len() {
            self.note_end(index, now_ms);
            self.note_health(index, now_ms);
        }
        let slots = self.list_slots();
        self.note_settled(&slots, now_ms);
        for (index, action) in decide_fleet(&slots, &self.wanted, now_ms)
            .into_iter()
            .enumerate()
        {
            self.act(index, action, now_ms);
        }
        self.publish();
    }

    fn list_slots(&self) -> Vec<Slot> {
        self.members
            .iter()
            .map(|member| member.slot.clone())
            .collect()
    }

    fn note_settled(&mut self, slots: &[Slot], now_ms: u64) {
        self.settled = if is_settled(slots, &self.wanted) {
            self.settled.or(Some(now_ms))
        } else {
            None
        };
        let since = self.settled.unwrap_or(now_ms);
        self.settled_s = now_ms.saturating_sub(since) / 1_000;
    }

    /// Once every worker runs on the wanted revision, older configurations and credentials are of no use to anybody.
    fn forget_old_files(&mut self, orders: &watch::Receiver<Orders>) {
        let is_current = |member: &Member| match &member.slot {
            Slot::Running { revision, .. } => *revision == self.wanted.revision,
            Slot::Empty { .. } => true,
            Slot::Draining { .. } => false,
        };
        let is_new = self.kept_revision != self.wanted.revision;
        if !is_new || self.wanted.revision.is_empty() || !self.members.iter().all(is_current) {
            return;
        }
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        // What is written by now belongs to orders that we have not seen yet.
        if !orders.has_changed().unwrap_or(true) {
            remove_old_files(&self.folder, &self.kept_files);
            self.kept_revision.clone_from(&self.wanted.revision);
        }
    }

    fn note_end(&mut self, index: usize, now_ms: u64) {
        let Some(status) = self.members[index]
            .process
            .as_mut()
            .and_then(Process::poll_end)
        else {
            return;
        };
        self.count(index);
        let was_asked = matches!(self.members[index].slot, Slot::Draining { .. });
        let slot = decide_after_end(&self.members[index].slot, now_ms);
        let message = describe_end(status, was_asked, &self.read_last_line(index));
        self.log_end(index, status, was_asked, message.as_deref());
        let member = &mut self.members[index];
        member.left_rows = was_asked && !status.success();
        member.process = None;
        member.counted = Health::default();
        member.slot = slot;
        member.message = message;
    }

    fn log_end(&self, index: usize, status: ExitStatus, was_asked: bool, message: Option<&str>) {
        match (was_asked, message) {
            (true, None) => tracing::info!(sink = self.name, worker = index, "Worker stopped."),
            (true, Some(message)) => {
                tracing::warn!(sink = self.name, worker = index, %status, message, "Worker left rows for replay.");
            }
            (false, message) => {
                tracing::error!(sink = self.name, worker = index, %status, message, "Worker ended by itself.");
            }
        }
    }

    fn read_last_line(&self, index: usize) -> String {
        let tail = read_tail(&self.locate_log(index), LOG_TAIL_BYTES);
        let line = tail
            .lines()
            .rev()
            .find(|line| !line.trim().is_empty())
            .unwrap_or_default();
        line.trim().chars().take(LOG_LINE_CHARS).collect()
    }

    fn locate_log(&self, index: usize) -> PathBuf {
        self.folder.join(format!("worker-{index}.log"))
    }

    /// Adds what a worker has done since it was asked last.
    fn count(&mut self, index: usize) {
        let member = &mut self.members[index];
        let Some(process) = &member.process else {
            return;
        };
        let health = process.health();
        self.rows_inserted += health
            .rows_inserted
            .saturating_sub(member.counted.rows_inserted);
        self.rejected += health.rejected.saturating_sub(member.counted.rejected);
        for topic in &health.topics {
            if !self.topics.contains(topic) {
                self.topics.push(topic.clone());
            }
        }
        member.counted = health;
    }

    fn note_health(&mut self, index: usize, now_ms: u64) {
        self.count(index);
        let member = &mut self.members[index];
        let is_ready = member.counted.ready;
        if let Slot::Running { ready_since_ms, .. } = &mut member.slot {
            *ready_since_ms = if is_ready {
                ready_since_ms.or(Some(now_ms))
            } else {
                None
            };
        }
        if is_ready {
            member.message = None;
        }
    }

    fn act(&mut self, index: usize, action: Action, now_ms: u64) {
        match action {
            Action::Start => self.start(index, now_ms),
            Action::Terminate => self.terminate(index, now_ms),
            Action::Kill => self.kill(index),
            Action::Wait => {}
        }
    }

    fn start(&mut self, index: usize, now_ms: u64) {
        let config = locate_config(&self.folder, &self.wanted.revision);
        let started = Process::start(&self.worker_bin, &config, &self.locate_log(index));
        let failures = match self.members[index].slot {
            Slot::Empty { failures, .. } => failures,
            Slot::Running { .. } | Slot::Draining { .. } => 0,
        };
        let running = Slot::Running {
            revision: self.wanted.revision.clone(),
            failures,
            ready_since_ms: None,
        };
        match started {
            Ok(process) => self.note_start(index, running, process),
            Err(error) => self.note_start_failure(index, &running, now_ms, &error),
        }
    }

    fn note_start(&mut self, index: usize, slot: Slot, process: Process) {
        tracing::info!(
            sink = self.name,
            worker = index,
            port = process.port(),
            pid = process.pid().map(|pid| pid.as_raw_nonzero().get()),
            log = %self.locate_log(index).display(),
            "Worker started."
        );
        // Whatever was left for replay is this one's to replay.
        for member in &mut self.members {
            member.left_rows = false;
        }
        self.members[index].slot = slot;
        self.members[index].process = Some(process);
    }

    fn note_start_failure(
        &mut self,
        index: usize,
        slot: &Slot,
        now_ms: u64,
        error: &std::io::Error,
    ) {
        let message = format!(
            "cannot start {}: {error}; set --worker-bin",
            self.worker_bin.display()
        );
        tracing::error!(
            sink = self.name,
            worker = index,
            message,
            "Worker did not start."
        );
        self.members[index].slot = decide_after_end(slot, now_ms);
        self.members[index].message = Some(message);
    }

    fn terminate(&mut self, index: usize, now_ms: u64) {
        tracing::info!(sink = self.name, worker = index, "Worker is asked to stop.");
        let member = &mut self.members[index];
        member.slot = Slot::Draining {
            since_ms: now_ms,
            killed: false,
        };
        member.process.iter().for_each(Process::send_terminate);
    }

    fn kill(&mut self, index: usize) {
        tracing::warn!(
            sink = self.name,
            worker = index,
            "Worker did not stop within its budget and is killed."
        );
        let member = &mut self.members[index];
        if let Slot::Draining { killed, .. } = &mut member.slot {
            *killed = true;
        }
        member.process.iter_mut().for_each(Process::send_kill);
    }

    /// Passes a second SIGTERM on.
    fn hurry(&self) {
        self.members
            .iter()
            .filter_map(|member| member.process.as_ref())
            .for_each(Process::send_terminate);
    }

    fn publish(&self) {
        let state = self.build_state();
        self.state.send_if_modified(|current| {
            let changed = *current != state;
            *current = state;
            changed
        });
    }

    fn build_state(&self) -> FleetState {
        let workers = self.members.iter().enumerate().filter(|(index, member)| {
            member.process.is_some() || *index < self.wanted.replicas as usize
        });
        FleetState {
            wanted_revision: Some(self.wanted.revision.clone())
                .filter(|revision| !revision.is_empty()),
            wanted_replicas: self.wanted.replicas,
            workers: workers
                .map(|(index, member)| build_view(index, member))
                .collect(),
            rows_inserted: self.rows_inserted,
            rejected: self.rejected,
            topics: self.topics.clone(),
            left_rows: self.members.iter().any(|member| member.left_rows),
            settled_s: self.settled_s,
        }
    }
}
