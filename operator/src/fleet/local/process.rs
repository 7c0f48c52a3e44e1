//! One worker process: how it is started, asked to stop, and ended.
//!
//! Must not be here: when any of that happens (`decide.rs`).

use std::fs::OpenOptions;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::sleep;

use crate::fleet::Health;
use crate::fleet::local::health::fetch_health;

/// How often a worker is asked how it is.
const ASK_EVERY: Duration = Duration::from_millis(500);
/// How often a worker that stops is asked, so that the rows of its last flush are counted.
const ASK_EVERY_STOPPING: Duration = Duration::from_millis(25);

/// A running worker. Its standard input is a pipe that we hold: when this process dies in whatever way, the worker
/// reads its end and stops.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    port: u16,
    health: watch::Receiver<Health>,
    asking: AbortHandle,
    is_stopping: Arc<Notify>,
}

impl Process {
    /// Starts a worker on a free port of 127.0.0.1, its output appended to a log file.
    ///
    /// # Errors
    /// Where the program or the log file cannot be opened.
    pub(super) fn start(worker_bin: &Path, config: &Path, log: &Path) -> io::Result<Self> {
        let port = find_free_port()?;
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(log)?;
        let child = Command::new(worker_bin)
            .arg("--config")
            .arg(config)
            .args([
                "--listen",
                &format!("127.0.0.1:{port}"),
                "--exit-with-parent",
            ])
            // Its output goes to a file.
            .env("NO_COLOR", "1")
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log)
            // Ctrl-C at the terminal is for us; workers are told by us, once, in their own time.
            .process_group(0)
            .spawn()?;
        let is_stopping = Arc::new(Notify::new());
        let (asking, health) = spawn_asking(port, Arc::clone(&is_stopping));
        Ok(Self {
            child,
            port,
            health,
            asking,
            is_stopping,
        })
    }

    /// Port of its HTTP endpoints.
    #[must_use]
    pub(super) const fn port(&self) -> u16 {
        self.port
    }

    /// What it said last about itself.
    #[must_use]
    pub(super) fn health(&self) -> Health {
        self.health.borrow().clone()
    }

    /// Its exit status, once it has ended.
    pub(super) fn poll_end(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Asks it to stop: SIGTERM.
    pub(super) fn send_terminate(&self) {
        self.is_stopping.notify_one();
        if let Some(pid) = self.pid() {
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Ends it: SIGKILL.
    pub(super) fn send_kill(&mut self) {
        let _ = self.child.start_kill();
    }

    /// Its process id; none once it has been reaped, so that no signal can reach a stranger.
    #[must_use]
    pub(super) fn pid(&self) -> Option<Pid> {
        self.child
            .id()
            .and_then(|id| Pid::from_raw(i32::try_from(id).ok()?))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.asking.abort();
    }
}

/// A port that was free a moment ago. Where another program takes it first, the worker ends and is started on another.
fn find_free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port())
}

fn spawn_asking(port: u16, is_stopping: Arc<Notify>) -> (AbortHandle, watch::Receiver<Health>) {
    let (sender, receiver) = watch::channel(Health::default());
    let task = tokio::spawn(async move {
        let mut pause = ASK_EVERY;
        loop {
            let last = sender.borrow().clone();
            sender.send_replace(fetch_health(port, &last).await);
            tokio::select! {
                () = sleep(pause) => {}
                () = is_stopping.notified() => pause = ASK_EVERY_STOPPING,
            }
        }
    });
    (task.abort_handle(), receiver)
}
