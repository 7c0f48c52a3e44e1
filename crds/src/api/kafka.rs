//! `spec.kafka`: where records come from.
//!
//! Must not be here: settings that the worker owns.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::worker_config::OnDataLoss;

/// librdkafka settings that the worker owns: the promise rests on them, or they have fields of their own.
pub const REFUSED_PROPERTIES: [&str; 23] = [
    "allow.auto.create.topics",
    "auto.commit.enable",
    "auto.commit.interval.ms",
    "auto.offset.reset",
    "bootstrap.servers",
    "builtin.features",
    "client.id",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.partition.eof",
    "enabled_events",
    "group.id",
    "group.instance.id",
    "group.protocol",
    "group.protocol.type",
    "group.remote.assignor",
    "interceptors",
    "isolation.level",
    "metadata.broker.list",
    "offset.store.method",
    "opaque",
    "partition.assignment.strategy",
    "plugin.library.paths",
];

/// Settings that the broker owns where it assigns the partitions; librdkafka refuses them then.
pub const REFUSED_WITH_CONSUMER: [&str; 2] = ["heartbeat.interval.ms", "session.timeout.ms"];

/// Where records come from.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[x_kube(validation = Rule::new(
    "has(self.groupId) == has(oldSelf.groupId) && (!has(self.groupId) || self.groupId == oldSelf.groupId)"
).message("`groupId` cannot be changed, added or removed: the positions are kept under it").field_path(".groupId"))]
#[x_kube(validation = Rule::new("(self.startFrom == 'Timestamp') == has(self.startTimestamp)")
    .message("`startTimestamp` must be set if `startFrom` is 'Timestamp', and only then").field_path(".startTimestamp"))]
#[x_kube(validation = Rule::new(refused_with_consumer_rule())
    .message("`properties` must not set 'session.timeout.ms' or 'heartbeat.interval.ms' with `groupProtocol` 'Consumer': the broker sets them").field_path(".properties"))]
#[serde(rename_all = "camelCase")]
pub struct KafkaSpec {
    /// Brokers to start from, each as `host:port`; the others are found through them.
    #[schemars(
        length(min = 1, max = 64),
        inner(length(max = 300), regex(pattern = r"^[^\s,/]+:[0-9]{1,5}$"))
    )]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub bootstrap_servers: Vec<String>,
    /// Topics to read, by exact name.
    #[schemars(
        length(min = 1, max = 64),
        inner(length(min = 1, max = 249), regex(pattern = r"^[a-zA-Z0-9._-]+$"))
    )]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub topics: Vec<String>,
    /// Consumer group, which must be this sink's alone and cannot be changed; by default made of namespace and name (`local.<namespace>.<name>` in local mode).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 249), regex(pattern = r"^[a-zA-Z0-9._-]+$"))]
    pub group_id: Option<String>,
    /// Where a partition starts that this sink has never seen before; one that was seen goes on where it was.
    #[serde(default = "default_start_from")]
    pub start_from: StartFromKind,
    /// With `startFrom: Timestamp`: the first record at or after this time is the first to be read, in RFC 3339 (`2026-03-14T00:00:00Z`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 40),
        regex(pattern = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9:.]+([Zz]|[+-][0-9]{2}:[0-9]{2})$")
    )]
    pub start_timestamp: Option<String>,
    /// What to do where Kafka no longer has what the position points at (records deleted before they were read, a log that was truncated, a topic that was made again, a position that is gone): `Hold` stops the partition until a person answers in `spec.resolutions`; `SkipAndRecord` goes on behind the loss and writes it to the rejected table as a gap.
    #[serde(default = "default_on_data_loss")]
    pub on_data_loss: OnDataLoss,
    /// How workers share the partitions: `Classic` lets the clients assign them, `Consumer` the broker (KIP-848, which it must have); `Auto` is `Classic` for now. To change it, pause the sink first: members of both kinds cannot be in one group.
    #[serde(default = "default_group_protocol")]
    pub group_protocol: GroupProtocolKind,
    /// librdkafka settings such as `fetch.wait.max.ms` or `session.timeout.ms`, except those that the worker owns.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64), schema_with = "properties_schema")]
    #[x_kube(validation = Rule::new(refused_rule())
        .message("`properties` must not set what the worker owns, for example 'enable.auto.commit', 'group.id', 'auto.offset.reset' (the whole list is in the field reference)"))]
    pub properties: BTreeMap<String, String>,
}

/// Where a partition starts that was never seen before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StartFromKind {
    /// The oldest record that Kafka still has.
    Earliest,
    /// Records that are produced from now on.
    Latest,
    /// The first record at or after `startTimestamp`.
    Timestamp,
}

/// How workers share the partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum GroupProtocolKind {
    /// What this version holds best: `Classic`.
    Auto,
    /// The client's assignor, cooperative-sticky.
    Classic,
    /// The broker's assignor (KIP-848).
    Consumer,
}

const fn default_on_data_loss() -> OnDataLoss {
    OnDataLoss::Hold
}

const fn default_group_protocol() -> GroupProtocolKind {
    GroupProtocolKind::Auto
}

const fn default_start_from() -> StartFromKind {
    StartFromKind::Earliest
}

fn properties_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "additionalProperties": { "type": "string", "maxLength": 1024 },
    })
}

fn refused_rule() -> String {
    format!("self.all(k, !(k in [{}]))", quote(&REFUSED_PROPERTIES))
}

fn refused_with_consumer_rule() -> String {
    format!(
        "self.groupProtocol != 'Consumer' || !has(self.properties) || self.properties.all(k, !(k in [{}]))",
        quote(&REFUSED_WITH_CONSUMER)
    )
}

fn quote(keys: &[&str]) -> String {
    let quoted: Vec<String> = keys.iter().map(|key| format!("'{key}'")).collect();
    quoted.join(", ")
}
