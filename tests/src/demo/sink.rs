//! The demo's sink: the example manifest, pointed at the stack.
//!
//! Must not be here: the story.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::clickhouse::ClickHouseClient;
use crate::kafka::KafkaAdmin;
use crate::stack::Stack;

/// Where the manifest is, from the repository's root.
pub(super) const EXAMPLE_PATH: &str = "charts/examples/vision-events.yaml";
const EXAMPLE: &str = include_str!("../../../charts/examples/vision-events.yaml");

/// What the demo works on.
pub(super) struct Demo {
    /// The manifest as it is run.
    pub(super) yaml: String,
    /// `host:port` of the broker.
    pub(super) brokers: String,
    /// Topic, new for this run on a server of the person's own.
    pub(super) topic: String,
    /// Consumer group.
    pub(super) group: String,
    /// `database.table`.
    pub(super) table: String,
    /// Client of the server.
    pub(super) clickhouse: ClickHouseClient,
}

impl Demo {
    /// Makes the topic and points the manifest at the stack.
    pub(super) fn prepare(stack: &mut Stack) -> Result<Self> {
        let own = stack.clickhouse().is_none() || stack.kafka().is_none();
        // A person's own servers may have seen a demo before.
        let suffix = if own {
            format!("-{}", std::process::id())
        } else {
            String::new()
        };
        let brokers = variable(stack, "KAFKA_BROKERS")?;
        let url = variable(stack, "CLICKHOUSE_URL")?;
        let (topic, group) = (
            format!("vision-events{suffix}"),
            format!("ops-analytics{suffix}"),
        );
        let database = format!("ops{}", suffix.replace('-', "_"));
        KafkaAdmin::new(&brokers).create_topic(&topic, 2, &[])?;
        let mut manifest: Value =
            serde_yaml::from_str(EXAMPLE).context("the example cannot be parsed")?;
        let kafka = &mut manifest["spec"]["kafka"];
        kafka["bootstrapServers"] = json!([brokers]);
        kafka["topics"] = json!([topic]);
        kafka["groupId"] = json!(group);
        manifest["spec"]["clickhouse"] = json!({ "url": url, "database": database });
        let yaml = serde_yaml::to_string(&manifest).context("the manifest cannot be written")?;
        let clickhouse = ClickHouseClient::new(&url)?;
        Ok(Self {
            yaml,
            brokers,
            topic,
            group,
            table: format!("{database}.vision_events"),
            clickhouse,
        })
    }

    /// Rows of the table, with `modifier` such as `FINAL`.
    pub(super) fn count(&self, modifier: &str) -> Result<u64> {
        self.clickhouse.count(&format!("{} {modifier}", self.table))
    }

    /// Distinct events in the table: neither copies of a replay nor merges change it.
    pub(super) fn distinct(&self) -> Result<u64> {
        self.clickhouse
            .scalar(&format!("SELECT uniqExact(event_id) FROM {}", self.table))
    }

    /// Records that the group has not committed yet.
    pub(super) fn lag(&self) -> Result<i64> {
        let lags = KafkaAdmin::new(&self.brokers).lags(&self.group, &self.topic)?;
        Ok(lags.into_iter().sum())
    }
}

fn variable(stack: &Stack, name: &str) -> Result<String> {
    let found = stack.env().iter().find(|(variable, _)| variable == name);
    found
        .map(|(_, value)| value.clone())
        .with_context(|| format!("the stack gives no {name}"))
}
