//! The jars of Apache Kafka.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use sha2::Sha256;

use super::{Component, digest_file, ensure_component, ensure_tool, run_step};

const COMPONENT: Component = Component {
    folder: "kafka-4.4.0",
    title: "Kafka 4.4.0",
    size: "43 MB to fetch",
};
const POM: &str = include_str!("kafka/pom.xml");
/// `sha256sum` of every jar that the broker runs.
const JARS_SHA256: &str = include_str!("kafka/jars.sha256");

/// Folder with Kafka's jars, fetched where they are not there yet.
///
/// # Errors
/// Where a tool is missing, a step fails or a jar is not the pinned one.
pub fn ensure_kafka() -> Result<PathBuf> {
    ensure_tool("java", "openjdk-17-jre-headless")?;
    Ok(ensure_component(COMPONENT, make)?.join("libs"))
}

fn make(dir: &Path) -> Result<()> {
    ensure_tool("mvn", "maven")?;
    fs::write(dir.join("pom.xml"), POM)?;
    let args = [
        "-q",
        "-B",
        "-C",
        "-f",
        "pom.xml",
        "dependency:copy-dependencies",
        "-DoutputDirectory=libs",
    ];
    run_step("fetching the broker with mvn", "mvn", &args, dir)?;
    check_jars(&dir.join("libs"), &parse_pins(JARS_SHA256))
}

fn parse_pins(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .filter_map(|line| line.split_once("  "))
        .map(|(digest, name)| (name.to_owned(), digest.to_owned()))
        .collect()
}

fn check_jars(libs: &Path, pins: &BTreeMap<String, String>) -> Result<()> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(libs).context("mvn made no folder of jars")? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        found.insert(name, digest_file::<Sha256>(&entry.path())?);
    }
    match diff_jars(pins, &found).as_slice() {
        [] => Ok(()),
        differences => bail!(
            "the jars are not the pinned ones: {}",
            differences.join("; ")
        ),
    }
}

fn diff_jars(pins: &BTreeMap<String, String>, found: &BTreeMap<String, String>) -> Vec<String> {
    let missing = pins
        .iter()
        .filter_map(|(name, digest)| match found.get(name) {
            None => Some(format!("{name} is missing")),
            Some(other) if other != digest => {
                Some(format!("{name} has digest {other}, expected {digest}"))
            }
            Some(_) => None,
        });
    let unknown = found
        .keys()
        .filter(|name| !pins.contains_key(*name))
        .map(|name| format!("{name} is not pinned"));
    missing.chain(unknown).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn a_jar_that_is_missing_altered_or_unknown_is_named() {
        let pins = parse_pins("aa  a.jar\nbb  b.jar\n");
        let found = parse_pins("aa  c.jar\nbc  b.jar\n");
        let expected = [
            "a.jar is missing",
            "b.jar has digest bc, expected bb",
            "c.jar is not pinned",
        ];
        assert_eq!(diff_jars(&pins, &found), expected);
        assert!(diff_jars(&pins, &pins).is_empty());
    }

    #[test]
    fn every_pinned_jar_has_a_digest_of_64_digits() {
        let pins = parse_pins(JARS_SHA256);
        assert!(pins.len() > 40 && pins.contains_key("kafka_2.13-4.4.0.jar"));
        assert!(pins.values().all(|digest| digest.len() == 64));
    }
}
