//! Every manifest that people are shown is a manifest that works; every generated file is current.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};

use clickhouse_sink_crds::codegen;
use clickhouse_sink_crds::manifest::{Manifest, parse_manifests};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(folder)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect()
}

fn sinks(text: &str, name: &str) -> usize {
    let manifests = parse_manifests(text, name).unwrap_or_else(|errors| {
        let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
        panic!("{}", shown.join("\n"))
    });
    manifests
        .iter()
        .filter(|manifest| matches!(manifest, Manifest::Sink(_)))
        .count()
}

#[test]
fn every_example_is_accepted() {
    let examples = files("charts/examples", "yaml");
    assert!(examples.len() >= 2, "{examples:?}");
    for path in examples {
        assert!(
            sinks(
                &fs::read_to_string(&path).unwrap(),
                &path.display().to_string()
            ) >= 1
        );
    }
}

#[test]
fn every_sink_in_the_documentation_is_accepted() {
    let mut pages = files("docs", "md");
    pages.extend(
        ["README.md", "ARCHITECTURE.md"]
            .map(|name| root().join(name))
            .into_iter()
            .filter(|path| path.exists()),
    );
    for path in pages {
        let text = fs::read_to_string(&path).unwrap();
        for (number, block) in yaml_blocks(&text)
            .enumerate()
            .filter(|(_, block)| block.contains("kind: ClickHouseSink"))
        {
            assert!(sinks(block, &format!("{} block {}", path.display(), number + 1)) >= 1);
        }
    }
}

fn yaml_blocks(text: &str) -> impl Iterator<Item = &str> {
    text.split("```yaml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
}

#[test]
fn generated_files_are_current() {
    for (path, text) in codegen::render() {
        let found = fs::read_to_string(root().join(&path)).unwrap_or_default();
        assert!(found == text, "{path} is stale; run cargo xtask codegen");
    }
}
