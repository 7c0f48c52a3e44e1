//! The documents against the sources: what a person can be told must be explained.
//!
//! Must not be here: the field reference, which is generated.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;

use clickhouse_sink_tests::paths::workspace_dir;
use clickhouse_sink_tests::simulate::CRASH_POINTS;

/// Files that name reasons, and what stands before the name there.
const REASONS: [(&str, &str); 8] = [
    ("sink-worker/src/insert/class.rs", "=> \""),
    ("sink-worker/src/session/position.rs", "reason: \""),
    ("sink-worker/src/shard/read.rs", "=> \""),
    ("sink-worker/src/table_watch.rs", "=> \""),
    ("crds/src/names.rs", "&str = \""),
    ("operator/src/warehouse/error.rs", "=> \""),
    ("sink-worker/src/kafka/errors.rs", "=> \""),
    ("operator/src/fleet.rs", "=> \""),
];

/// Words of conditions that are no reasons, and the reason for nothing being wrong.
const NOT_REASONS: [&str; 6] = [
    "Ready",
    "SpecValid",
    "SchemaInSync",
    "WorkersAvailable",
    "DedupWindowSufficient",
    "AsDeclared",
];

fn read(path: &str) -> String {
    fs::read_to_string(workspace_dir().join(path)).unwrap()
}

/// `CamelCase` words in quotes after `before`.
fn names_in(text: &str, before: &str) -> BTreeSet<String> {
    let words = text
        .split(before)
        .skip(1)
        .filter_map(|rest| rest.split('"').next());
    let is_name = |word: &&str| {
        word.starts_with(char::is_uppercase) && word.chars().all(char::is_alphanumeric)
    };
    words.filter(is_name).map(str::to_owned).collect()
}

#[test]
fn every_reason_that_a_person_can_be_told_is_explained_in_the_operations_document() {
    let document = read("docs/operations.md");
    let mut missing = Vec::new();
    for (file, before) in REASONS {
        let names = names_in(&read(file), before);
        assert!(
            !names.is_empty(),
            "{file} names no reason any more: mend this test"
        );
        missing.extend(names.into_iter().filter(|name| {
            !NOT_REASONS.contains(&name.as_str()) && !document.contains(&format!("`{name}`"))
        }));
    }
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn every_code_of_a_rejected_record_is_in_the_guide() {
    let guide = read("docs/guide.md");
    let codes = names_in(&read("sink-worker/src/decode/fault.rs"), "=> \"");
    assert!(codes.len() >= 14, "found only {codes:?}");
    let missing: Vec<&String> = codes
        .iter()
        .filter(|code| !guide.contains(&format!("`{code}`")))
        .collect();
    assert_eq!(missing, Vec::<&String>::new());
}

#[test]
fn every_metric_that_the_operations_document_names_exists() {
    let source = read("sink-worker/src/metrics.rs");
    for name in [
        "stalled_seconds",
        "lag_records",
        "log_start_distance_records",
        "holds",
        "buffered_bytes",
        "records_rejected",
    ] {
        assert!(
            source.contains(&format!("\"{name}\"")),
            "{name} is not registered"
        );
        assert!(
            read("docs/operations.md").contains(name),
            "{name} is not explained"
        );
    }
}

/// Where the tests that the delivery document names by `<module>::<test>` are.
fn test_file(module: &str) -> String {
    let path = module.replace("::", "/");
    match path.strip_prefix("session/") {
        Some("position/lost") => "sink-worker/src/session/position/tests/lost.rs".to_owned(),
        Some(rest) => format!("sink-worker/src/session/tests/{rest}.rs"),
        None if path.starts_with("window/") => format!("tests/tests/{path}.rs"),
        None => format!("tests/tests/delivery/{path}.rs"),
    }
}

#[test]
fn every_test_that_the_delivery_document_names_exists() {
    let document = read("docs/delivery.md");
    let names = document.split('`').skip(1).step_by(2);
    let tests = names.filter_map(|name| name.rsplit_once("::"));
    let tests: BTreeSet<(&str, &str)> = tests.filter(|(_, test)| test.len() > 3).collect();
    assert!(tests.len() > 40, "found only {}", tests.len());
    let is_missing =
        |(module, test): &(&str, &str)| !read(&test_file(module)).contains(&format!("fn {test}("));
    let missing: Vec<_> = tests.into_iter().filter(is_missing).collect();
    assert_eq!(missing, Vec::<(&str, &str)>::new());
}

#[test]
fn every_crash_point_that_the_delivery_document_names_is_simulated() {
    let document = read("docs/delivery.md");
    let rows = document
        .lines()
        .filter_map(|line| line.split_once("in the simulation: "));
    let named: Vec<&str> = rows
        .flat_map(|(_, names)| names.split('`').skip(1).step_by(2))
        .collect();
    for expected in [11, 12, 14, 20, 24] {
        assert!(named.contains(&CRASH_POINTS[expected - 1]), "{named:?}");
    }
    assert!(
        named.iter().all(|name| CRASH_POINTS.contains(name)),
        "{named:?}"
    );
}
