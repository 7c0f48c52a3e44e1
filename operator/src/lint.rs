//! `lint`: what can be said about the sinks of files without a server. Reads, prints, and gives the exit code.
//!
//! Must not be here: the rules (the contract crate has them).

use std::fmt::Write as _;
use std::io::{self, Write as _};

use clickhouse_sink_crds::lint::{Located, Report, Source, Summary, check_allowed, lint_sources};

use crate::cli::{EXIT_INVALID, LintArgs, Output};
use crate::local::input::read_texts;

/// Lints the files and prints what was found; the exit code.
#[must_use]
pub fn run_lint(args: &LintArgs) -> u8 {
    let wrong: Vec<String> = args
        .allow
        .iter()
        .filter_map(|name| check_allowed(name).err())
        .map(|message| format!("--allow: {message}\n"))
        .collect();
    if !wrong.is_empty() {
        // As clap does where it is the one who notices.
        let _ = io::stderr().write_all(wrong.concat().as_bytes());
        return EXIT_INVALID;
    }
    let sources: Vec<Source> = read_texts(&args.files)
        .into_iter()
        .map(|(file, text)| Source {
            file: file.display().to_string(),
            text,
        })
        .collect();
    let report = lint_sources(&sources, &args.allow);
    let text = match args.output {
        Output::Text => render_text(&report),
        Output::Json => render_json(&report),
    };
    // Who closed the pipe does not want the rest; the exit code still tells.
    let _ = io::stdout().write_all(text.as_bytes());
    decide_exit_code(&report.summary, args.deny_warnings)
}

/// 2 with an error, and with a warning where these are denied.
#[must_use]
pub const fn decide_exit_code(summary: &Summary, deny_warnings: bool) -> u8 {
    if summary.errors > 0 || (deny_warnings && summary.warnings > 0) {
        EXIT_INVALID
    } else {
        0
    }
}

/// The report as compilers print theirs: `file:line:column: severity: message [Rule]`, and what to do below it.
#[must_use]
pub fn render_text(report: &Report) -> String {
    let mut text = String::new();
    for finding in &report.findings {
        push_finding(&mut text, finding);
    }
    text.push_str(&render_summary(&report.summary));
    text
}

fn push_finding(text: &mut String, finding: &Located) {
    let Located {
        file, line, column, ..
    } = finding;
    let place = if *line == 0 {
        file.clone()
    } else {
        format!("{file}:{line}:{column}")
    };
    let path = if finding.path.is_empty() {
        String::new()
    } else {
        format!("{}: ", finding.path)
    };
    // Writing into a String cannot fail.
    let _ = writeln!(
        text,
        "{place}: {}: {path}{} [{}]",
        finding.severity.word(),
        finding.message,
        finding.rule
    );
    let _ = writeln!(text, "    why: {}", finding.why);
    if !finding.help.is_empty() {
        let _ = writeln!(text, "    help: {}", finding.help);
    }
}

fn render_summary(summary: &Summary) -> String {
    let count = |number: usize, one: &str| {
        let plural = if number == 1 { "" } else { "s" };
        format!("{number} {one}{plural}")
    };
    let mut found = vec![
        count(summary.errors, "error"),
        count(summary.warnings, "warning"),
    ];
    if summary.infos > 0 {
        found.push(count(summary.infos, "info"));
    }
    if summary.allowed > 0 {
        found.push(format!("{} silenced", summary.allowed));
    }
    format!(
        "{} in {}: {}\n",
        count(summary.sinks, "sink"),
        count(summary.files, "file"),
        found.join(", ")
    )
}

fn render_json(report: &Report) -> String {
    let json = serde_json::to_string_pretty(report)
        .expect("a report is plain data with text keys and always becomes JSON");
    format!("{json}\n")
}
