//! The command `lint`: each rule with a file that breaks it and a twin that does not; output, exit codes, ways to read.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clickhouse_sink_crds::lint::{RULES, Severity};
use serde_json::Value;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

struct Run {
    code: i32,
    stdout: String,
    stderr: String,
}

fn run(arguments: &[&str], stdin: &str) -> Run {
    let mut child = Command::new(env!("CARGO_BIN_EXE_clickhouse-sink-operator"))
        .arg("lint")
        .args(arguments)
        .current_dir(format!("{ROOT}/tests/cases/lint"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(stdin.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Run {
        code: output.status.code().unwrap(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

fn lint(file: &str, more: &[&str]) -> Run {
    run(&[&["-f", file], more].concat(), "")
}

fn report(arguments: &[&str], stdin: &str) -> Value {
    let run = run(&[arguments, &["--output", "json"]].concat(), stdin);
    serde_json::from_str(&run.stdout).unwrap()
}

fn rules(report: &Value) -> Vec<&str> {
    let findings = report["findings"].as_array().unwrap().iter();
    findings
        .map(|found| found["rule"].as_str().unwrap())
        .collect()
}

/// `VersionInKey` as `version-in-key`.
fn file_name(rule: &str) -> String {
    let mut name = String::new();
    for (index, c) in rule.char_indices() {
        if c.is_uppercase() && index > 0 {
            name.push('-');
        }
        name.extend(c.to_lowercase());
    }
    name
}

#[test]
fn each_rule_is_broken_by_its_bad_file_and_by_nothing_in_its_good_one() {
    for rule in &RULES {
        let name = file_name(rule.name);
        let bad = format!("{name}.bad.yaml");
        let found = report(&["-f", &bad], "");
        assert!(!rules(&found).is_empty(), "{bad} breaks no rule");
        assert!(
            rules(&found).iter().all(|found| *found == rule.name),
            "{bad} breaks other rules: {found}"
        );
        let good = lint(&format!("{name}.good.yaml"), &["--deny-warnings"]);
        assert_eq!(good.code, 0, "{name}: {}", good.stdout);
        assert_eq!(good.stdout.lines().count(), 1, "{name}: {}", good.stdout);
        insta::assert_snapshot!(name, lint(&bad, &[]).stdout);
    }
}

#[test]
fn no_file_is_left_of_a_rule_that_is_gone() {
    let files = fs::read_dir(format!("{ROOT}/tests/cases/lint")).unwrap();
    assert_eq!(files.count(), 2 * RULES.len());
}

#[test]
fn errors_end_with_two_warnings_with_zero_unless_they_are_denied() {
    for rule in &RULES {
        let bad = format!("{}.bad.yaml", file_name(rule.name));
        let (plain, denied) = match rule.severity {
            Severity::Error => (2, 2),
            Severity::Warning => (0, 2),
            Severity::Info => (0, 0),
        };
        assert_eq!(lint(&bad, &[]).code, plain, "{bad}");
        assert_eq!(lint(&bad, &["--deny-warnings"]).code, denied, "{bad}");
    }
}

#[test]
fn what_may_be_silenced_is_silenced_by_the_command_line() {
    for rule in RULES.iter().filter(|rule| rule.can_be_allowed()) {
        let bad = format!("{}.bad.yaml", file_name(rule.name));
        let silenced = lint(&bad, &["--deny-warnings", "--allow", rule.name]);
        assert_eq!(silenced.code, 0, "{bad}: {}", silenced.stdout);
        assert!(
            silenced.stdout.contains(" silenced\n"),
            "{}",
            silenced.stdout
        );
    }
}

#[test]
fn an_error_cannot_be_silenced_and_a_slip_is_told() {
    let error = lint("schema.bad.yaml", &["--allow", "Schema"]);
    assert_eq!(error.code, 2);
    assert!(
        error.stderr.contains("mend what it reports"),
        "{}",
        error.stderr
    );
    let slip = lint("schema.bad.yaml", &["--allow", "OffsetInKeys"]);
    assert_eq!(slip.code, 2);
    assert!(
        slip.stderr.contains("did you mean `OffsetInKey`?"),
        "{}",
        slip.stderr
    );
}

#[test]
fn an_annotation_silences_for_its_own_sink_only() {
    let text =
        fs::read_to_string(format!("{ROOT}/tests/cases/lint/offset-in-key.bad.yaml")).unwrap();
    let annotated = text.replace(
        "metadata:\n",
        "metadata:\n  annotations: { clickhouse-sink.io/lint-allow: OffsetInKey }\n",
    );
    let other = text
        .replace("name: events\n", "name: others\n")
        .replace("events_flat", "others_flat");
    let both = format!("{annotated}---\n{other}");
    let found = report(&["-f", "-"], &both);
    assert_eq!(rules(&found), ["OffsetInKey"]);
    assert_eq!(found["findings"][0]["sink"], "shop/others");
    assert_eq!(found["summary"]["allowed"], 1);
}

#[test]
fn standard_input_is_read_where_the_file_is_a_dash() {
    let text = fs::read_to_string(format!("{ROOT}/tests/cases/lint/schema.bad.yaml")).unwrap();
    let run = run(&["-f", "-"], &text);
    assert_eq!(run.code, 2);
    assert!(
        run.stdout.starts_with("-:8:3: error: spec.replicas: "),
        "{}",
        run.stdout
    );
}

#[test]
fn other_documents_are_told_and_a_misspelt_sink_is_an_error() {
    let values = report(&["-f", "-"], "replicaCount: 1\n");
    assert_eq!(rules(&values), ["NoSink", "OtherKind"]);
    let list = report(&["-f", "-"], "- 1\n");
    assert_eq!(rules(&list), ["NoSink", "OtherKind"]);
    let misspelt = "apiVersion: clickhouse-sink.io/v1alpha1\nkind: ClickHouseSnk\n";
    assert_eq!(rules(&report(&["-f", "-"], misspelt)), ["Schema"]);
    assert_eq!(rules(&report(&["-f", "-"], "")), ["NoSink"]);
}

#[test]
fn a_folder_stands_for_its_yaml_files_and_an_empty_one_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let empty = lint(path, &[]);
    assert_eq!(empty.code, 2);
    assert!(empty.stdout.contains("[NoSink]"), "{}", empty.stdout);
    let good = Path::new(ROOT).join("tests/cases/lint/schema.good.yaml");
    fs::copy(&good, folder.path().join("one.yml")).unwrap();
    fs::write(folder.path().join("notes.txt"), "no YAML: [").unwrap();
    let one = lint(path, &[]);
    assert_eq!(
        (one.code, one.stdout.as_str()),
        (0, "1 sink in 1 file: 0 errors, 0 warnings\n")
    );
    let missing = lint("nowhere.yaml", &[]);
    assert_eq!(missing.code, 2);
    assert!(
        missing
            .stdout
            .starts_with("nowhere.yaml: error: cannot be read: "),
        "{}",
        missing.stdout
    );
}

#[test]
fn findings_of_several_files_keep_their_order_and_nothing_is_left_behind() {
    let before = list_folder();
    let files = [
        "offset-in-key.bad.yaml",
        "schema.bad.yaml",
        "invalid-yaml.bad.yaml",
    ];
    let found = report(&[&["-f"], files.as_slice()].concat(), "");
    let told: Vec<_> = found["findings"].as_array().unwrap().iter().collect();
    let mut seen: Vec<_> = told
        .iter()
        .map(|found| found["file"].as_str().unwrap())
        .collect();
    seen.dedup();
    assert_eq!(seen, files);
    assert_eq!(list_folder(), before);
}

fn list_folder() -> Vec<PathBuf> {
    let entries = fs::read_dir(format!("{ROOT}/tests/cases/lint")).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

#[test]
fn no_value_of_a_secret_is_shown() {
    let wrong = "apiVersion: v1\nkind: Secret\nmetadata: { name: writer }\ndata: { password: hunter2! }\nstringDate: { a: hunter2 }\n";
    for output in ["text", "json"] {
        let run = run(&["-f", "-", "--output", output], wrong);
        assert_eq!(run.code, 2);
        assert!(run.stdout.contains("stringDate"), "{}", run.stdout);
        assert!(!run.stdout.contains("hunter2"), "{}", run.stdout);
    }
}

#[test]
fn the_report_as_json_has_a_stable_shape() {
    let found = report(
        &["-f", "partition-not-of-key.bad.yaml", "schema.bad.yaml"],
        "",
    );
    insta::assert_snapshot!(serde_json::to_string_pretty(&found).unwrap());
}

#[test]
fn every_rule_is_explained_in_the_guide() {
    let guide = fs::read_to_string(format!("{ROOT}/../docs/guide.md")).unwrap();
    let (_, section) = guide.split_once("\n## Lint\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    for rule in &RULES {
        let row = format!("| `{}` | {} |", rule.name, rule.severity.word());
        assert!(section.contains(&row), "{row}");
    }
}

#[test]
fn the_examples_have_no_errors() {
    let folder = format!("{ROOT}/../charts/examples");
    let found = lint(
        &folder,
        &["--allow", "ReplacingWithoutFlatView", "--deny-warnings"],
    );
    assert_eq!(found.code, 0, "{}", found.stdout);
}
