//! YAML of a sink for a test: the night shift's table, with what the test wants otherwise.
//!
//! Must not be here: defaults of the API (what is not set is left out).

use anyhow::{Context, Result};
use clickhouse_sink_crds::manifest::{Manifest, parse_manifests};
use clickhouse_sink_crds::resolve::{ResolveInputs, resolve};
use clickhouse_sink_crds::worker_config::WorkerConfig;
use serde_json::{Map, Value, json};

/// Builds the documents of one YAML file.
#[derive(Clone, Debug, PartialEq)]
pub struct SinkBuilder {
    sink: Value,
    others: Vec<Value>,
}

impl SinkBuilder {
    /// A sink of `topic` into `database`.`vision_events`, with the columns of the night shift.
    #[must_use]
    pub fn new(
        name: &str,
        brokers: &str,
        topic: &str,
        clickhouse_url: &str,
        database: &str,
    ) -> Self {
        let spec = json!({
            "kafka": { "bootstrapServers": brokers.split(',').collect::<Vec<_>>(), "topics": [topic] },
            "clickhouse": { "url": clickhouse_url, "database": database },
            "table": {
                "name": "vision_events",
                "engine": { "replacingMergeTree": { "versionColumn": "version" } },
                "partitionBy": "toYYYYMM(ts)",
                "orderBy": ["site", "app", "camera", "ts", "event_id"],
                "columns": vision_columns(),
            },
            "delivery": { "guarantee": "AtLeastOnce" },
        });
        let sink = json!({
            "apiVersion": "clickhouse-sink.io/v1alpha1",
            "kind": "ClickHouseSink",
            "metadata": { "name": name },
            "spec": spec,
        });
        Self {
            sink,
            others: Vec::new(),
        }
    }

    /// Sets a member of the spec by its path (`batch.maxRows`, `kafka.properties`); members on the way are made.
    #[must_use]
    pub fn set(mut self, path: &str, value: impl Into<Value>) -> Self {
        set_path(&mut self.sink, &format!("spec.{path}"), value.into());
        self
    }

    /// Removes a member of the spec.
    #[must_use]
    pub fn unset(mut self, path: &str) -> Self {
        let full = format!("spec.{path}");
        let (parent, last) = full.rsplit_once('.').unwrap_or(("spec", path));
        let pointer = format!("/{}", parent.replace('.', "/"));
        if let Some(object) = self
            .sink
            .pointer_mut(&pointer)
            .and_then(Value::as_object_mut)
        {
            object.remove(last);
        }
        self
    }

    /// Adds a Secret with `username` and `password` and lets the sink use it.
    #[must_use]
    pub fn credentials(mut self, name: &str, (user, password): (&str, &str)) -> Self {
        self.others.push(json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": { "name": name },
            "stringData": { "username": user, "password": password },
        }));
        self.set("clickhouse.credentialsSecretRef", json!({ "name": name }))
    }

    /// Adds any other document.
    #[must_use]
    pub fn document(mut self, document: Value) -> Self {
        self.others.push(document);
        self
    }

    /// The sink as a JSON value.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.sink
    }

    /// The file's text.
    ///
    /// # Errors
    /// Where a value cannot be written as YAML.
    pub fn yaml(&self) -> Result<String> {
        let documents = std::iter::once(&self.sink).chain(&self.others);
        let texts: Result<Vec<String>> = documents
            .map(|document| serde_yaml::to_string(document).context("cannot write YAML"))
            .collect();
        Ok(texts?.join("---\n"))
    }

    /// What a worker of the sink runs on, without asking the server for anything.
    ///
    /// # Errors
    /// Where the sink cannot be read back.
    pub fn worker_config(&self) -> Result<WorkerConfig> {
        let manifests = parse_manifests(&self.yaml()?, "sink.yaml")
            .map_err(|errors| anyhow::anyhow!("the sink cannot be read: {errors:?}"))?;
        let is_sink = |manifest| match manifest {
            Manifest::Sink(sink) => Some(sink),
            Manifest::Secret(_) => None,
        };
        let sink = manifests.into_iter().find_map(is_sink);
        let inputs = ResolveInputs {
            uid: "worker".to_owned(),
            ..ResolveInputs::default()
        };
        let sink = sink.context("the file has no sink")?;
        Ok(resolve(&sink, &inputs))
    }
}

fn vision_columns() -> Value {
    json!([
        { "name": "event_id", "type": "String" },
        { "name": "site", "type": "LowCardinality(String)" },
        { "name": "camera", "type": "LowCardinality(String)" },
        { "name": "app", "type": "LowCardinality(String)" },
        { "name": "kind", "type": "LowCardinality(String)" },
        { "name": "ts", "type": "DateTime64(3, 'UTC')" },
        { "name": "version", "type": "UInt32" },
        { "name": "status", "type": "LowCardinality(String)" },
    ])
}

fn set_path(root: &mut Value, path: &str, value: Value) {
    let mut at = root;
    for part in path.split('.') {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        let Value::Object(object) = at else { return };
        at = object.entry(part).or_insert(Value::Null);
    }
    *at = value;
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn what_a_test_sets_is_in_the_yaml_and_what_it_removes_is_not() {
        let sink = SinkBuilder::new("s", "a:1,b:2", "t", "http://c:1", "d")
            .set("batch.maxRows", 4)
            .set("kafka.groupId", "g")
            .unset("table.partitionBy")
            .credentials("w", ("writer", "secret"));
        let yaml = sink.yaml().unwrap();
        let (first, second) = yaml.split_once("---\n").unwrap();
        let back: Value = serde_yaml::from_str(first).unwrap();
        assert_eq!(back.pointer("/spec/batch/maxRows"), Some(&json!(4)));
        assert_eq!(
            back.pointer("/spec/kafka/bootstrapServers"),
            Some(&json!(["a:1", "b:2"]))
        );
        assert_eq!(back.pointer("/spec/table/partitionBy"), None);
        assert!(second.contains("writer"), "{second}");
    }
}
