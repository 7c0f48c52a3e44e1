//! The loop of local mode: files, signals, sinks, status lines, exit code.
//!
//! Must not be here: one sink's loop (`sink_task.rs`), how a line reads (`line.rs`).

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval};

use crate::cli::{EXIT_LEFT_ROWS, EXIT_WAREHOUSE, LocalArgs};
use crate::controller::declaration::Declaration;
use crate::local::input::{FileWatch, check_change, read_declarations};
use crate::local::line::{compute_rate, render_holds, render_line};
use crate::local::screen::Screen;
use crate::local::sink_task::SinkHandle;
use crate::local::state_folder::StateFolder;

/// How often ended sinks and signals are looked at.
const TICK: Duration = Duration::from_millis(100);
/// How often files are read and lines are drawn.
const SLOW_TICK: Duration = Duration::from_secs(1);

/// Local mode while it runs.
#[derive(Debug)]
pub struct Runner {
    files: FileWatch,
    folder: StateFolder,
    worker_bin: PathBuf,
    screen: Screen,
    startup_timeout: Option<Duration>,
    started: Instant,
    declared: BTreeMap<String, Declaration>,
    sinks: BTreeMap<String, SinkHandle>,
    drawn: BTreeMap<String, (Instant, u64)>,
    stop_signals: u32,
    left_rows: bool,
    exit_code: u8,
}

impl Runner {
    /// Nothing runs yet.
    #[must_use]
    pub fn new(args: &LocalArgs, folder: StateFolder, worker_bin: PathBuf, screen: Screen) -> Self {
        Self {
            files: FileWatch::new(args.files.files.clone()),
            folder,
            worker_bin,
            screen,
            startup_timeout: args.startup_timeout.map(Duration::from_secs),
            started: Instant::now(),
            declared: BTreeMap::new(),
            sinks: BTreeMap::new(),
            drawn: BTreeMap::new(),
            stop_signals: 0,
            left_rows: false,
            exit_code: 0,
        }
    }

    /// Runs until a signal has stopped every sink; the exit code.
    pub async fn run(mut self, declarations: Vec<Declaration>) -> u8 {
        let Ok((mut terminate, mut interrupt)) = listen_signals() else {
            return EXIT_WAREHOUSE;
        };
        self.declare(declarations);
        let (mut ticks, mut slow_ticks) = (interval(TICK), interval(SLOW_TICK));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        slow_ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                _ = terminate.recv() => self.stop(),
                _ = interrupt.recv() => self.stop(),
                _ = slow_ticks.tick() => self.look_around(),
                _ = ticks.tick() => self.reap(),
            }
            if self.stop_signals > 0 && self.sinks.values().all(SinkHandle::is_stopped) {
                // The last figures stay on the screen.
                self.draw();
                return self.decide_exit_code();
            }
        }
    }

    fn decide_exit_code(&self) -> u8 {
        let left_rows = self.left_rows || self.sinks.values().any(SinkHandle::left_rows);
        if self.exit_code == 0 && left_rows {
            EXIT_LEFT_ROWS
        } else {
            self.exit_code
        }
    }

    fn stop(&mut self) {
        self.stop_signals += 1;
        let message = if self.stop_signals == 1 {
            "Stopping: workers drain."
        } else {
            "Stopping: workers hurry."
        };
        tracing::info!(sinks = self.sinks.len(), "{message}");
        self.sinks.values().for_each(SinkHandle::stop);
    }

    fn look_around(&mut self) {
        if self.stop_signals == 0 {
            self.read_files();
            self.check_startup();
        }
        self.draw();
    }

    fn read_files(&mut self) {
        if !self.files.has_changed() {
            return;
        }
        match read_declarations(self.files.paths(), &self.folder) {
            Ok(declarations) => self.declare(declarations),
            Err(errors) => {
                for error in errors {
                    tracing::error!(%error, "Changed files are invalid: what ran before goes on.");
                }
            }
        }
    }

    /// Takes over what the files declare: all at once, or for a sink whose change is refused, nothing.
    fn declare(&mut self, declarations: Vec<Declaration>) {
        self.declared = declarations
            .into_iter()
            .map(|declared| (declared.qualified_name(), declared))
            .collect();
        for (name, sink) in &self.sinks {
            if !self.declared.contains_key(name) && !sink.is_stopping() {
                tracing::info!(sink = name, "Sink is gone from the files and is drained.");
                sink.remove();
            }
        }
        self.start_or_change();
    }

    fn start_or_change(&mut self) {
        for (name, declaration) in self.declared.clone() {
            match self.sinks.get_mut(&name) {
                Some(sink) if sink.is_stopping() => {}
                Some(sink) => change_sink(sink, declaration),
                None => self.start(name, declaration),
            }
        }
    }

    fn start(&mut self, name: String, declaration: Declaration) {
        match SinkHandle::start(declaration, &self.folder, self.worker_bin.clone()) {
            Ok(sink) => {
                self.sinks.insert(name, sink);
            }
            Err(error) => tracing::error!(sink = name, %error, "Sink cannot start."),
        }
    }

    /// Forgets sinks that have ended; one that came back into the files meanwhile starts anew.
    fn reap(&mut self) {
        if self.stop_signals > 0 {
            return;
        }
        let ended: Vec<_> = self
            .sinks
            .iter()
            .filter(|(_, sink)| sink.is_stopped())
            .map(|(name, _)| name.clone())
            .collect();
        for name in &ended {
            if let Some(sink) = self.sinks.remove(name) {
                self.left_rows |= sink.left_rows();
            }
        }
        if !ended.is_empty() {
            self.start_or_change();
        }
    }

    fn check_startup(&mut self) {
        let is_over = self
            .startup_timeout
            .is_some_and(|timeout| self.started.elapsed() >= timeout);
        if !is_over {
            return;
        }
        self.startup_timeout = None;
        for (name, sink) in &self.sinks {
            if !sink.has_been_applied() {
                let status = sink.status();
                tracing::error!(
                    sink = name,
                    reason = status.reason,
                    message = status.message,
                    "ClickHouse could not be used within --startup-timeout."
                );
                self.exit_code = EXIT_WAREHOUSE;
            }
        }
        if self.exit_code != 0 {
            self.stop();
        }
    }

    fn draw(&mut self) {
        let now = Instant::now();
        let mut lines = Vec::new();
        for (name, sink) in &self.sinks {
            let status = sink.status();
            let rows = status.rows_inserted;
            let (before, rows_before) = self
                .drawn
                .insert(name.clone(), (now, rows))
                .unwrap_or((now, rows));
            let elapsed_ms = u64::try_from((now - before).as_millis()).unwrap_or(u64::MAX);
            lines.push(render_line(
                &status,
                compute_rate(rows_before, rows, elapsed_ms),
            ));
            lines.extend(render_holds(&status));
        }
        self.screen.draw(lines);
    }
}

fn change_sink(sink: &mut SinkHandle, declaration: Declaration) {
    let current = sink.declaration();
    if current.is_same_as(&declaration) {
        return sink.refuse(None);
    }
    let violations = check_change(&current, &declaration);
    if violations.is_empty() {
        tracing::info!(sink = declaration.qualified_name(), "Sink has changed.");
        return sink.change(declaration);
    }
    let why = violations
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ");
    tracing::error!(
        sink = declaration.qualified_name(),
        why,
        "Change is refused: what ran before goes on."
    );
    sink.refuse(Some(why));
}

fn listen_signals() -> io::Result<(Signal, Signal)> {
    Ok((
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    ))
}
