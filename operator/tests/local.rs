//! The program `clickhouse-sink-operator local` against a real ClickHouse, with workers that move nothing.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clickhouse_sink_operator::warehouse::{ClickHouse, Warehouse as _};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tempfile::TempDir;
use uuid::Uuid;

/// Longest wait for anything in these tests.
const DEADLINE: Duration = Duration::from_secs(30);

fn url() -> String {
    std::env::var("CLICKHOUSE_URL").expect("CLICKHOUSE_URL is not set: run cargo xtask test")
}

fn sink(database: &str, name: &str, extra: &str) -> String {
    format!(
        "apiVersion: clickhouse-sink.io/v1alpha1
kind: ClickHouseSink
metadata: {{ name: {name}, namespace: test }}
spec:
  kafka: {{ bootstrapServers: ['127.0.0.1:1'], topics: [events] }}
  clickhouse: {{ url: '{}', database: {database} }}
  table:
    name: {name}
    engine: {{ replacingMergeTree: {{ versionColumn: version }} }}
    partitionBy: toYYYYMM(ts)
    orderBy: [ts, event_id]
    columns:
      - {{ name: event_id, type: String }}
      - {{ name: ts, type: \"DateTime64(3, 'UTC')\" }}
      - {{ name: version, type: UInt32 }}
      - {{ name: status, type: LowCardinality(String), default: \"'raised'\" }}
{extra}
",
        url()
    )
}

/// One run of the program on files of its own, in a database of its own.
struct Run {
    folder: TempDir,
    database: String,
    child: Option<Child>,
}

impl Run {
    fn new() -> Self {
        let database = format!("local_{}", Uuid::new_v4().simple());
        Self {
            folder: tempfile::tempdir().unwrap(),
            database,
            child: None,
        }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("sink.yaml")
    }

    fn write(&self, text: &str) {
        let unfinished = self.folder.path().join("sink.tmp");
        fs::write(&unfinished, text).unwrap();
        fs::rename(unfinished, self.file()).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_clickhouse-sink-operator"));
        command
            .arg(arguments[0])
            .arg("-f")
            .arg(self.file())
            .args(&arguments[1..]);
        command.stdin(Stdio::null());
        command
    }

    fn start(&mut self, behaviour: &str) {
        let output = fs::File::create(self.folder.path().join("stdout")).unwrap();
        let errors = fs::File::create(self.folder.path().join("stderr")).unwrap();
        let child = self
            .command(&["local", "--worker-bin", fake_worker().to_str().unwrap()])
            .env("FAKE_WORKER", behaviour)
            .stdout(output)
            .stderr(errors)
            .spawn()
            .unwrap();
        self.child = Some(child);
    }

    fn pid(&self) -> Pid {
        pid(self.child.as_ref().unwrap().id())
    }

    fn stdout(&self) -> String {
        fs::read_to_string(self.folder.path().join("stdout")).unwrap_or_default()
    }

    fn stderr(&self) -> String {
        fs::read_to_string(self.folder.path().join("stderr")).unwrap_or_default()
    }

    fn last_line(&self) -> String {
        self.stdout().lines().last().unwrap_or_default().to_owned()
    }

    fn wait_for(&self, what: &str, is_there: impl Fn() -> bool) {
        let start = Instant::now();
        while !is_there() {
            let (stdout, stderr) = (self.stdout(), self.stderr());
            assert!(
                start.elapsed() < DEADLINE,
                "waited in vain for {what}\n{stdout}\n{stderr}"
            );
            std::thread::park_timeout(Duration::from_millis(50));
        }
    }

    fn wait_for_line(&self, part: &str) {
        self.wait_for(part, || self.last_line().contains(part));
    }

    fn wait_for_log(&self, part: &str) {
        self.wait_for(part, || self.stderr().contains(part));
    }

    fn stop(&mut self) -> i32 {
        kill_process(self.pid(), Signal::TERM).unwrap();
        self.wait_end()
    }

    fn wait_end(&mut self) -> i32 {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.as_mut().unwrap().try_wait().unwrap() {
                self.child = None;
                return status.code().unwrap();
            }
            assert!(
                start.elapsed() < DEADLINE,
                "it does not end\n{}\n{}",
                self.stdout(),
                self.stderr()
            );
            std::thread::park_timeout(Duration::from_millis(50));
        }
    }

    /// Process ids of the workers that were started, as the log tells.
    fn worker_pids(&self) -> Vec<Pid> {
        let log = self.stderr();
        log.match_indices("pid=")
            .map(|(at, found)| {
                let digits = log[at + found.len()..]
                    .split(|c: char| !c.is_ascii_digit())
                    .next();
                pid(digits.unwrap().parse().unwrap())
            })
            .collect()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
        // Where it is not set, the test has failed with that message already.
        let Ok(url) = std::env::var("CLICKHOUSE_URL") else {
            return;
        };
        let statement = format!("DROP DATABASE IF EXISTS {} SYNC", self.database);
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let _ = runtime.block_on(ClickHouse::new(&url, None).apply_statement(&statement));
    }
}

fn pid(id: u32) -> Pid {
    Pid::from_raw(i32::try_from(id).unwrap()).unwrap()
}

/// Examples are built beside the tests.
fn fake_worker() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.parent()
        .and_then(Path::parent)
        .unwrap()
        .join("examples/fake_worker")
}

fn run_statement(sql: &str) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime
        .block_on(ClickHouse::new(&url(), None).apply_statement(sql))
        .unwrap();
}

#[test]
fn a_missing_table_is_made_workers_run_and_a_stop_is_clean() {
    let mut run = Run::new();
    let text = sink(&run.database, "events", "  replicas: 2");
    run.write(&text.replace(
        "name: events\n",
        "name: events\n    recheckPeriodSeconds: 1\n",
    ));
    run.start("");
    run.wait_for_line("workers 2/2 | 22 rows");
    run.wait_for_line("| lag 8 | Ready");
    // Three rechecks later nothing more was done: what was applied observes as done.
    std::thread::park_timeout(Duration::from_millis(3_500));
    let steps = run.stderr().matches("Step was done.").count();
    assert_eq!(
        steps,
        4,
        "database, table, rejected table, workers\n{}",
        run.stderr()
    );
    assert_eq!(run.stop(), 0);
    for pid in run.worker_pids() {
        assert!(test_kill_process(pid).is_err(), "a worker is left");
    }
    let again = run.command(&["plan", "--output", "json"]).output().unwrap();
    let plan: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(plan["plans"][0]["outcome"], "NothingToDo", "{plan}");
    assert_eq!(plan["plans"][0]["steps"], serde_json::json!([]), "{plan}");
}

#[test]
fn once_makes_the_tables_says_so_and_exits() {
    let run = Run::new();
    run.write(&sink(&run.database, "events", ""));
    let once = || run.command(&["local", "--once"]).output().unwrap();
    let (first, second) = (once(), once());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(first.status.code(), Some(0), "{}", text(&first.stderr));
    let created = format!("test/events: create table {}.events: done", run.database);
    assert!(
        text(&first.stdout).contains(&created),
        "{}",
        text(&first.stdout)
    );
    assert_eq!(
        text(&second.stdout).trim(),
        "test/events: tables are as declared"
    );
}

#[test]
fn a_table_that_differs_holds_the_sink_until_it_is_mended() {
    let mut run = Run::new();
    run_statement(&format!("CREATE DATABASE {}", run.database));
    run_statement(&format!(
        "CREATE TABLE {}.events (event_id String, ts DateTime64(3, 'UTC'), version UInt32) \
        ENGINE = ReplacingMergeTree(version) PARTITION BY toYYYYMM(ts) ORDER BY (ts, event_id) \
        SETTINGS non_replicated_deduplication_window = 100000",
        run.database
    ));
    run.write(
        &sink(&run.database, "events", "  replicas: 1")
            .replace("name: events\n", "name: events\n    ddl: validate\n"),
    );
    let once = run.command(&["local", "--once"]).output().unwrap();
    assert_eq!(
        once.status.code(),
        Some(5),
        "{}",
        String::from_utf8_lossy(&once.stderr)
    );
    run.start("");
    run.wait_for_line("TableNotAsDeclared");
    run.wait_for_line("status");
    assert_eq!(run.worker_pids().len(), 0);
    run.write(&sink(&run.database, "other", "  replicas: 1"));
    run.wait_for_line("test/other");
    run.wait_for_line("| Ready");
    assert_eq!(run.stop(), 0);
}

#[test]
fn a_crashed_worker_is_restarted_with_a_growing_back_off_and_its_last_words_are_shown() {
    let mut run = Run::new();
    run.write(&sink(&run.database, "events", "  replicas: 1"));
    run.start("crash");
    run.wait_for_line("WorkersCrashing: worker 0: ended by itself with exit status: 7: fake worker: no broker answers");
    run.wait_for("three starts", || run.worker_pids().len() >= 3);
    // Stopped while the next start is waited for: a stop that meets a worker in its last moments ends with its code.
    let ends = || run.stderr().matches("Worker ended by itself.").count();
    run.wait_for("three ends", || ends() >= 3);
    assert_eq!(run.stop(), 0);
}

#[test]
fn rows_left_for_replay_show_in_the_exit_code() {
    let mut run = Run::new();
    run.write(&sink(&run.database, "events", ""));
    run.start("left-rows");
    run.wait_for_line("| Ready");
    assert_eq!(run.stop(), 3);
}

#[test]
fn a_worker_that_does_not_stop_is_killed_only_after_its_grace() {
    let mut run = Run::new();
    run.write(&sink(
        &run.database,
        "events",
        "  shutdown: { finalFlushTimeoutSeconds: 1 }",
    ));
    run.start("stubborn");
    run.wait_for_line("| Ready");
    let start = Instant::now();
    assert_eq!(run.stop(), 3);
    // 1 s final flush, 5 s close, 5 s margin.
    assert!(
        start.elapsed() >= Duration::from_millis(10_900),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn a_second_stop_signal_hurries_the_workers() {
    let mut run = Run::new();
    run.write(&sink(&run.database, "events", ""));
    run.start("patient");
    run.wait_for_line("| Ready");
    kill_process(run.pid(), Signal::TERM).unwrap();
    run.wait_for_log("Worker is asked to stop.");
    std::thread::park_timeout(Duration::from_millis(500));
    assert!(
        test_kill_process(run.worker_pids()[0]).is_ok(),
        "the first signal leaves the worker its time"
    );
    assert_eq!(run.stop(), 0);
}

#[test]
fn a_sink_that_is_gone_from_the_file_is_drained_and_the_others_go_on() {
    let mut run = Run::new();
    let (one, two) = (
        sink(&run.database, "one", ""),
        sink(&run.database, "two", ""),
    );
    run.write(&format!("{one}---\n{two}"));
    run.start("");
    run.wait_for("both", || {
        run.worker_pids().len() == 2 && run.stdout().matches("| Ready").count() >= 2
    });
    run.write(&two);
    run.wait_for_log("Sink is gone from the files and is drained.");
    run.wait_for("one end", || {
        run.worker_pids()
            .iter()
            .filter(|pid| test_kill_process(**pid).is_ok())
            .count()
            == 1
    });
    assert_eq!(run.stop(), 0);
}

#[test]
fn workers_end_when_their_supervisor_is_killed() {
    let mut run = Run::new();
    run.write(&sink(&run.database, "events", "  replicas: 2"));
    run.start("");
    run.wait_for_line("workers 2/2");
    let workers = run.worker_pids();
    run.child.as_mut().unwrap().kill().unwrap();
    run.child.take().unwrap().wait().unwrap();
    assert_eq!(workers.len(), 2);
    run.wait_for("the workers' end", || {
        workers.iter().all(|pid| test_kill_process(*pid).is_err())
    });
}

#[test]
fn a_changed_file_drains_and_starts_anew_and_an_invalid_or_forbidden_change_moves_nothing() {
    let mut run = Run::new();
    run.write(&sink(&run.database, "events", "  replicas: 1"));
    run.start("");
    run.wait_for_line("| Ready");
    assert_eq!(run.worker_pids().len(), 1);
    run.write(&sink(&run.database, "events", "  batch: { maxRows: 7 }"));
    run.wait_for("a second start", || run.worker_pids().len() == 2);
    run.wait_for_line("workers 1/1");
    let state = run.folder.path().join(".clickhouse-sink/test.events");
    let configurations = || {
        let entries = fs::read_dir(&state)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap());
        entries.filter(|name| name.starts_with("config-")).count()
    };
    run.wait_for("the old configuration's removal", || configurations() == 1);
    run.write("kind: [");
    run.wait_for_log("Changed files are invalid");
    run.write(
        &sink(&run.database, "events", "  batch: { maxRows: 7 }")
            .replace("[ts, event_id]", "[event_id, ts]"),
    );
    run.wait_for_line("ChangeRefused: spec.table.orderBy");
    run.write(&sink(
        &run.database,
        "events",
        "  batch: { maxRows: 7 }\n  paused: true",
    ));
    run.wait_for_line("workers 0/0");
    run.wait_for_line("| Paused");
    assert_eq!(run.worker_pids().len(), 2);
    assert_eq!(run.stop(), 0);
}

#[test]
fn credentials_are_for_this_account_alone_and_a_new_password_rolls_the_workers() {
    let mut run = Run::new();
    let text = |password: &str| {
        let spec = sink(&run.database, "events", "").replace(
            "database: ",
            "credentialsSecretRef: { name: writer }, database: ",
        );
        let secret = format!(
            "---\napiVersion: v1\nkind: Secret\nmetadata: {{ name: writer, namespace: test }}\nstringData: {{ username: default, password: '{password}' }}\n"
        );
        spec + &secret
    };
    let (first, second) = (text(""), text("a-wrong-password"));
    run.write(&first);
    run.start("");
    run.wait_for_line("| Ready");
    let state = run.folder.path().join(".clickhouse-sink/test.events");
    let folders = || {
        let entries = fs::read_dir(&state)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        entries
            .filter(|path| {
                path.file_name()
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .starts_with("credentials-")
            })
            .collect::<Vec<_>>()
    };
    let folder = folders().remove(0);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode(&folder), mode(&folder.join("password"))),
        (0o700, 0o600)
    );
    assert_eq!(
        fs::read_to_string(folder.join("username")).unwrap(),
        "default"
    );
    run.write(&second);
    run.wait_for_line("ClickHouseUnauthenticated");
    assert!(
        !run.stderr().contains("a-wrong-password") && !run.stdout().contains("a-wrong-password")
    );
    // What ran goes on: the new password was never proved.
    assert_eq!((run.worker_pids().len(), folders().len()), (1, 1));
    assert_eq!(run.stop(), 0);
}

#[test]
fn an_expression_that_is_none_is_refused_before_it_gets_into_a_statement() {
    let run = Run::new();
    let bad = sink(&run.database, "events", "")
        .replace("toYYYYMM(ts)", "toYYYYMM(ts) ORDER BY x")
        .replace("\"'raised'\"", "\"concat(event_id, 'x')\"");
    run.write(&bad);
    let output = run.command(&["local", "--once"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(
        errors.contains("spec.table.partitionBy: ClickHouse cannot read it as one expression"),
        "{errors}"
    );
    assert!(
        errors.contains(
            "spec.table.columns[3].default: expected a constant of type LowCardinality(String)"
        ),
        "{errors}"
    );
}

#[test]
fn a_server_that_is_not_there_ends_the_start_only_where_a_timeout_says_so() {
    let run = Run::new();
    run.write(&sink(&run.database, "events", "").replace(&url(), "http://127.0.0.1:1"));
    let output = run
        .command(&["local", "--startup-timeout", "2"])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(4), "{errors}");
    assert!(errors.contains("ClickHouseUnreachable"), "{errors}");
}
