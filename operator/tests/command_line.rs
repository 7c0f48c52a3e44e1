//! What the program prints where it does not start: help, and files that are wrong. No server is needed.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::process::Command;

fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_clickhouse-sink-operator"))
        .args(arguments)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases"))
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

fn run_file(file: &str) -> String {
    let state = tempfile::tempdir().unwrap();
    let (code, stdout, stderr) = run(&[
        "local",
        "-f",
        file,
        "--state-dir",
        state.path().to_str().unwrap(),
    ]);
    assert_eq!((code, stdout.as_str()), (Some(2), ""), "{stderr}");
    stderr
}

#[test]
fn help_says_what_each_command_does_and_what_the_exit_codes_mean() {
    insta::assert_snapshot!("help", run(&["--help"]).1);
    insta::assert_snapshot!("help_local", run(&["local", "--help"]).1);
    insta::assert_snapshot!("help_plan", run(&["plan", "--help"]).1);
    insta::assert_snapshot!("help_replay", run(&["replay", "--help"]).1);
    insta::assert_snapshot!("help_lint", run(&["lint", "--help"]).1);
}

#[test]
fn wrong_usage_ends_with_two() {
    assert_eq!(run(&["local"]).0, Some(2));
    assert_eq!(run(&["local", "-f", "x", "--log-format", "xml"]).0, Some(2));
}

#[test]
fn everything_that_is_wrong_in_a_file_is_told_at_once_with_its_place() {
    insta::assert_snapshot!(run_file("wrong.yaml"));
}

#[test]
fn values_that_break_a_rule_are_told_at_once_with_their_place() {
    insta::assert_snapshot!(run_file("wrong-values.yaml"));
}

#[test]
fn text_that_is_no_yaml_is_told_with_its_place() {
    insta::assert_snapshot!(run_file("not-yaml.yaml"));
}

#[test]
fn a_missing_secret_names_the_secret() {
    insta::assert_snapshot!(run_file("no-secret.yaml"));
}

#[test]
fn two_sinks_in_one_group_are_refused() {
    insta::assert_snapshot!(run_file("two-in-one-group.yaml"));
}

#[test]
fn a_file_that_is_not_there_is_told() {
    insta::assert_snapshot!(run_file("nowhere.yaml"));
}

#[test]
fn a_plan_without_a_server_says_so_ends_with_four_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sink.yaml");
    // Nothing listens on port 1.
    let text = include_str!("cases/two-in-one-group.yaml")
        .split("---")
        .next();
    let text = text.unwrap().replace("127.0.0.1:8123", "127.0.0.1:1");
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let (code, stdout, stderr) = run(&["plan", "-f", file]);
    assert_eq!((code, stdout.as_str()), (Some(4), ""), "{stderr}");
    let start =
        "test/one: ClickHouseUnreachable: ClickHouse at http://127.0.0.1:1 cannot be reached: ";
    assert!(stderr.starts_with(start), "{stderr}");
    let (code, stdout, _) = run(&["plan", "-f", file, "--output", "json"]);
    let plans: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    let plan = &plans["plans"][0];
    assert_eq!(code, Some(4), "{plans}");
    assert_eq!(
        (&plan["outcome"], &plan["reason"], &plan["sink"]),
        (
            &"Unknown".into(),
            &"ClickHouseUnreachable".into(),
            &"test/one".into()
        ),
        "{plans}"
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_plan_of_wrong_files_leaves_nothing_behind_either() {
    let (code, stdout, stderr) = run(&["plan", "-f", "wrong.yaml"]);
    assert_eq!((code, stdout.as_str()), (Some(2), ""));
    assert!(
        stderr.starts_with("wrong.yaml:5:3: spec.replica: "),
        "{stderr}"
    );
    assert!(
        !std::path::Path::new(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/cases/.clickhouse-sink"
        ))
        .exists()
    );
}

#[test]
fn standard_input_cannot_be_followed() {
    let (code, stdout, stderr) = run(&["local", "-f", "-"]);
    assert_eq!((code, stdout.as_str()), (Some(2), ""));
    assert!(stderr.contains("add --once"), "{stderr}");
}
