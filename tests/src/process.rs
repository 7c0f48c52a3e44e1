//! Child processes that end when their parent does, and how to know and end a process by its id.
//!
//! Must not be here: what a process is for, where its files are.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde::{Deserialize, Serialize};

use proc::{boot_id, fetch_descendants, fetch_parents, parse_cpu_time, parse_stat};

mod proc;

/// A process as it can be recognised later: a pid alone may have been given to another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    /// Number of the process (and of its group, for those we start).
    pub pid: i32,
    /// When it started, in clock ticks since boot.
    pub started_ticks: u64,
    /// Which boot of the machine.
    pub boot: String,
}

impl ProcessId {
    /// Identity of a running process; `None` where there is none (or only a zombie).
    #[must_use]
    pub fn of(pid: i32) -> Option<Self> {
        let started_ticks = parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?.0;
        Some(Self {
            pid,
            started_ticks,
            boot: boot_id(),
        })
    }

    /// Identity of this process.
    ///
    /// # Errors
    /// Where `/proc` cannot be read.
    pub fn current() -> Result<Self> {
        let pid = i32::try_from(std::process::id()).context("pid out of range")?;
        Self::of(pid).context("expected /proc to be mounted")
    }

    /// Processor time that it has used so far, over all threads; `None` where it does not run any more.
    #[must_use]
    pub fn cpu_time(&self) -> Option<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok()?;
        self.is_alive().then(|| parse_cpu_time(&stat)).flatten()
    }

    /// True while exactly this process runs.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        Self::of(self.pid).as_ref() == Some(self)
    }

    /// Sends a signal if this very process still runs; false where it does not.
    #[must_use]
    pub fn signal(&self, signal: Signal) -> bool {
        self.is_alive()
            && Pid::from_raw(self.pid).is_some_and(|pid| kill_process(pid, signal).is_ok())
    }

    /// As [`Self::signal`], to its whole process group (our children lead their own).
    #[must_use]
    pub fn signal_group(&self, signal: Signal) -> bool {
        self.is_alive()
            && Pid::from_raw(self.pid).is_some_and(|pid| kill_process_group(pid, signal).is_ok())
    }

    /// Its running direct children whose program has this file name.
    #[must_use]
    pub fn children_of_program(&self, program: &str) -> Vec<Self> {
        let runs_it = |pid: i32| {
            let exe = fs::read_link(format!("/proc/{pid}/exe"));
            exe.is_ok_and(|exe| exe.file_name().is_some_and(|name| name == program))
        };
        let children = fetch_parents()
            .into_iter()
            .filter(|(pid, parent)| *parent == self.pid && runs_it(*pid));
        children.filter_map(|(pid, _)| Self::of(pid)).collect()
    }

    /// Ends the process, its group and all their descendants at once.
    pub fn end(&self) {
        if !self.is_alive() {
            return;
        }
        let descendants = fetch_descendants(self.pid);
        let _ = self.signal_group(Signal::KILL);
        for descendant in descendants {
            let _ = descendant.signal(Signal::KILL);
        }
    }
}

/// A command whose process leads a group of its own and is killed by the kernel when this process ends,
/// however it ends. Start it with [`spawn`].
pub fn managed_command(program: impl AsRef<OsStr>) -> Command {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command.process_group(0).stdin(Stdio::null());
    command
}

/// A started child; dropping it ends it together with its descendants.
#[derive(Debug)]
pub struct Managed {
    name: String,
    child: Child,
    id: ProcessId,
}

impl Managed {
    /// Which process it is.
    #[must_use]
    pub fn id(&self) -> &ProcessId {
        &self.id
    }

    /// The child itself, for its pipes.
    pub fn child_mut(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Its exit status, where it has ended.
    ///
    /// # Errors
    /// Where the system cannot say.
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>> {
        self.child
            .try_wait()
            .with_context(|| format!("cannot wait for {}", self.name))
    }

    /// Waits for its end; `None` where it still runs after `patience`.
    ///
    /// # Errors
    /// Where the system cannot say.
    pub fn wait_at_most(&mut self, patience: Duration) -> Result<Option<ExitStatus>> {
        let give_up = Instant::now() + patience;
        loop {
            let status = self.try_wait()?;
            if status.is_some() || Instant::now() >= give_up {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sends a signal to the process alone; false where it has ended.
    #[must_use]
    pub fn signal(&self, signal: Signal) -> bool {
        self.id.signal(signal)
    }

    /// Ends it at once (SIGKILL), with its descendants, and waits until it is gone.
    pub fn kill(&mut self) {
        self.id.end();
        let _ = self.child.wait();
        forget(&self.id);
    }

    /// Asks it to end (SIGTERM) and kills it after `patience`.
    pub fn stop(&mut self, patience: Duration) {
        let _ = self.signal(Signal::TERM);
        let _ = self.wait_at_most(patience);
        self.kill();
    }
}

impl Drop for Managed {
    fn drop(&mut self) {
        self.kill();
    }
}

type SpawnRequest = (Command, Sender<io::Result<Child>>);

/// The kernel's death signal follows the *thread* that forked: one thread that never ends forks for all.
fn spawner() -> &'static Sender<SpawnRequest> {
    static SPAWNER: OnceLock<Sender<SpawnRequest>> = OnceLock::new();
    SPAWNER.get_or_init(|| {
        let (sender, requests) = channel::<SpawnRequest>();
        std::thread::spawn(move || {
            for (mut command, answer) in requests {
                let _ = answer.send(command.spawn());
            }
        });
        sender
    })
}

/// Starts a [`managed_command`].
///
/// # Errors
/// Where the program cannot be started; says which.
pub fn spawn(name: &str, command: Command) -> Result<Managed> {
    let (answer, answers) = channel();
    let sent = spawner().send((command, answer)).is_ok();
    anyhow::ensure!(sent, "the thread that starts processes is gone");
    let mut child = answers
        .recv()
        .context("the thread that starts processes is gone")?
        .with_context(|| {
            format!("cannot start {name} (`setpriv` comes with `apt-get install util-linux`)")
        })?;
    let id = i32::try_from(child.id()).ok().and_then(ProcessId::of);
    let Some(id) = id else {
        let status = child.wait()?;
        anyhow::bail!("{name} ended at once: {status}");
    };
    live().push(id.clone());
    Ok(Managed {
        name: name.to_owned(),
        child,
        id,
    })
}

fn live() -> std::sync::MutexGuard<'static, Vec<ProcessId>> {
    static LIVE: Mutex<Vec<ProcessId>> = Mutex::new(Vec::new());
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn forget(id: &ProcessId) {
    live().retain(|other| other != id);
}

/// Ends every child that still runs and waits until all are gone; for the way out after a signal.
pub fn end_all() {
    let ids: Vec<ProcessId> = live().drain(..).collect();
    ids.iter().for_each(ProcessId::end);
    let give_up = Instant::now() + Duration::from_secs(10);
    while ids.iter().any(ProcessId::is_alive) && Instant::now() < give_up {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// From now on SIGINT, SIGTERM and SIGHUP end all children, then this process (exit code 130).
///
/// # Errors
/// Where the handlers cannot be installed.
pub fn end_all_on_signal(before_exit: impl Fn() + Send + 'static) -> Result<()> {
    let (ready, installed) = channel();
    std::thread::spawn(move || {
        let outcome = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map(|runtime| runtime.block_on(wait_for_signal(&ready)));
        if matches!(outcome, Ok(Ok(()))) {
            end_all();
            before_exit();
            std::process::exit(130);
        }
    });
    installed.recv().context("cannot install signal handlers")
}

async fn wait_for_signal(ready: &Sender<()>) -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let _ = ready.send(());
    tokio::select! {
        _ = interrupt.recv() => {},
        _ = terminate.recv() => {},
        _ = hang_up.recv() => {},
    }
    Ok(())
}

/// Last lines of a log file, for an error's text.
#[must_use]
pub fn read_tail(path: &Path, lines: usize) -> String {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let all: Vec<&str> = text.lines().collect();
    let tail = all
        .get(all.len().saturating_sub(lines)..)
        .unwrap_or_default();
    tail.iter().flat_map(|line| ["    ", line, "\n"]).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::proc::find_descendants;
    use super::*;

    #[test]
    fn a_stat_line_is_read_past_a_name_with_spaces_and_brackets() {
        let stat = "12 (a) b (c)) S 7 12 12 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 1 1";
        assert_eq!(parse_stat(stat), Some((4711, 7)));
        assert_eq!(parse_stat(&stat.replace(") S", ") Z")), None);
    }

    #[test]
    fn processor_time_is_that_of_the_program_and_of_the_system_for_it() {
        let stat = "12 (a b) S 7 12 12 0 -1 4194560 1 0 0 0 150 25 0 0 20 0 1 0 4711 1 1";
        assert_eq!(parse_cpu_time(stat), Some(Duration::from_millis(1_750)));
        assert_eq!(parse_cpu_time("12 (a"), None);
    }

    #[test]
    fn descendants_are_found_through_generations() {
        let parents = [(2, 1), (3, 2), (4, 3), (5, 1), (9, 8)];
        assert_eq!(find_descendants(2, &parents), vec![3, 4]);
    }

    #[test]
    fn a_dropped_child_takes_its_descendants_with_it() {
        let mut command = managed_command("sh");
        command
            .args(["-c", "setsid sleep 600 & echo $!; wait"])
            .stdout(Stdio::piped());
        let mut shell = spawn("sh", command).unwrap();
        let mut line = String::new();
        let out = shell.child_mut().stdout.take().unwrap();
        io::BufRead::read_line(&mut io::BufReader::new(out), &mut line).unwrap();
        let sleeper = ProcessId::of(line.trim().parse().unwrap()).unwrap();
        drop(shell);
        let give_up = Instant::now() + Duration::from_secs(5);
        while sleeper.is_alive() && Instant::now() < give_up {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!sleeper.is_alive());
    }

    #[test]
    fn a_process_that_died_is_not_mistaken_for_another_with_its_number() {
        let me = ProcessId::current().unwrap();
        let earlier = ProcessId {
            started_ticks: me.started_ticks - 1,
            ..me.clone()
        };
        assert!(me.is_alive() && !earlier.is_alive());
        assert!(!earlier.signal(Signal::KILL));
    }
}
