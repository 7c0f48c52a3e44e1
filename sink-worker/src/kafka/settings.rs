//! Which librdkafka settings a consumer runs on; pure.
//!
//! Must not be here: librdkafka itself, secrets' sources, the memory budget's division.

use clickhouse_sink_crds::worker_config::GroupProtocol;

use super::types::Properties;

/// What the settings of one consumer are made from.
#[derive(Clone, PartialEq, Eq)]
pub struct ConsumerSettings {
    /// `host:port` of brokers to start from.
    pub bootstrap_servers: Vec<String>,
    /// The consumer group; this sink's alone.
    pub group_id: String,
    /// Name of this consumer in the broker's logs and quotas.
    pub client_id: String,
    /// How members share the partitions.
    pub group_protocol: GroupProtocol,
    /// The user's librdkafka settings; those of [`OWNED_PROPERTIES`] are left out.
    pub properties: Properties,
    /// What librdkafka may hold of one partition before it stops fetching, kilobytes (1 to 2,097,151).
    pub queued_kbytes_per_partition: u32,
    /// What one fetch may bring of one partition, bytes.
    pub fetch_partition_bytes: u32,
    /// What one fetch may bring of all partitions of a broker, bytes (512 to 1,000,000,000).
    pub fetch_response_bytes: u32,
}

impl ConsumerSettings {
    /// Settings with the defaults: 8 MiB held a partition, 2 MiB fetched a partition, 32 MiB a fetch.
    #[must_use]
    pub fn new(bootstrap_servers: Vec<String>, group_id: &str, client_id: &str) -> Self {
        Self {
            bootstrap_servers,
            group_id: group_id.to_owned(),
            client_id: client_id.to_owned(),
            group_protocol: GroupProtocol::Classic,
            properties: Properties::new(),
            queued_kbytes_per_partition: 8 * 1024,
            fetch_partition_bytes: 2 * 1024 * 1024,
            fetch_response_bytes: 32 * 1024 * 1024,
        }
    }
}

impl std::fmt::Debug for ConsumerSettings {
    /// Names the user's settings without their values: passwords are among them.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConsumerSettings")
            .field("bootstrap_servers", &self.bootstrap_servers)
            .field("group_id", &self.group_id)
            .field("client_id", &self.client_id)
            .field("group_protocol", &self.group_protocol)
            .field("properties", &self.properties.keys().collect::<Vec<_>>())
            .field(
                "queued_kbytes_per_partition",
                &self.queued_kbytes_per_partition,
            )
            .field("fetch_partition_bytes", &self.fetch_partition_bytes)
            .field("fetch_response_bytes", &self.fetch_response_bytes)
            .finish()
    }
}

/// Settings that the promise or the memory budget rests on; a user's value for them is refused.
/// Aliases of them are listed too, or the alias would win.
pub const OWNED_PROPERTIES: &[&str] = &[
    "allow.auto.create.topics",
    "auto.commit.enable",
    "auto.commit.interval.ms",
    "auto.offset.reset",
    "bootstrap.servers",
    "client.id",
    "consume.callback.max.messages",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.partition.eof",
    "enabled_events",
    "fetch.max.bytes",
    "fetch.message.max.bytes",
    "group.id",
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "isolation.level",
    "log.queue",
    "max.partition.fetch.bytes",
    "metadata.broker.list",
    "offset.store.method",
    "opaque",
    "partition.assignment.strategy",
    "plugin.library.paths",
    "queued.max.messages.kbytes",
    "queued.min.messages",
    "receive.message.max.bytes",
];

/// Room that a response needs beside its records, and for one record larger than the fetch limit.
const RESPONSE_SLACK_BYTES: u64 = 16 * 1024 * 1024;

/// The settings of a consumer in the order they are applied: defaults, the user's, ours.
#[must_use]
pub fn render_config(settings: &ConsumerSettings) -> Vec<(String, String)> {
    let user = settings
        .properties
        .iter()
        .filter(|(name, _)| !OWNED_PROPERTIES.contains(&name.as_str()));
    let mut merged: Properties = DEFAULTS
        .iter()
        .map(|(name, value)| ((*name).into(), (*value).into()))
        .collect();
    merged.extend(user.map(|(name, value)| (name.clone(), value.clone())));
    merged.retain(|name, _| !is_brokers_own(settings.group_protocol, name));
    let mut config: Vec<_> = merged.into_iter().collect();
    config.extend(
        FIXED
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
    );
    config.extend(render_protocol(settings.group_protocol));
    config.extend(render_own(settings));
    config
}

/// With the broker's assignor these are the broker's to say, and librdkafka refuses them.
fn is_brokers_own(protocol: GroupProtocol, name: &str) -> bool {
    protocol == GroupProtocol::Consumer
        && matches!(name, "session.timeout.ms" | "heartbeat.interval.ms")
}

fn render_protocol(protocol: GroupProtocol) -> Vec<(String, String)> {
    let settings: &[(&str, &str)] = match protocol {
        GroupProtocol::Classic => &[
            ("partition.assignment.strategy", "cooperative-sticky"),
            ("group.protocol", "classic"),
        ],
        GroupProtocol::Consumer => &[("group.protocol", "consumer")],
    };
    settings
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

/// What a user may change.
const DEFAULTS: &[(&str, &str)] = &[
    // A wrong record must not pass because a network card flipped a bit; the check is cheap.
    ("check.crcs", "true"),
    // Else a partition whose queue was full once idles for a whole second.
    ("fetch.queue.backoff.ms", "10"),
    ("fetch.wait.max.ms", "500"),
    // A frozen member stalls everybody's commits until its session ends.
    ("session.timeout.ms", "12000"),
    ("heartbeat.interval.ms", "1000"),
    ("max.poll.interval.ms", "120000"),
    // How soon new partitions of a topic are seen.
    ("topic.metadata.refresh.interval.ms", "10000"),
    ("socket.nagle.disable", "true"),
    ("socket.keepalive.enable", "true"),
    ("reconnect.backoff.max.ms", "2000"),
];

/// What the promise rests on: offsets move by our commits alone, and only over records that are final.
const FIXED: &[(&str, &str)] = &[
    ("enable.auto.commit", "false"),
    ("enable.auto.offset.store", "false"),
    ("auto.offset.reset", "error"),
    ("isolation.level", "read_committed"),
    ("enable.partition.eof", "true"),
    ("allow.auto.create.topics", "false"),
    ("log.queue", "true"),
    // The limit is bytes, never a count.
    ("queued.min.messages", "1000000"),
];

fn render_own(settings: &ConsumerSettings) -> Vec<(String, String)> {
    let response_limit =
        (u64::from(settings.fetch_response_bytes) + RESPONSE_SLACK_BYTES).min(2_147_483_647);
    [
        ("bootstrap.servers", settings.bootstrap_servers.join(",")),
        ("client.id", settings.client_id.clone()),
        ("group.id", settings.group_id.clone()),
        (
            "queued.max.messages.kbytes",
            settings.queued_kbytes_per_partition.to_string(),
        ),
        (
            "fetch.message.max.bytes",
            settings.fetch_partition_bytes.to_string(),
        ),
        ("fetch.max.bytes", settings.fetch_response_bytes.to_string()),
        ("receive.message.max.bytes", response_limit.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(properties: &[(&str, &str)]) -> ConsumerSettings {
        let mut settings =
            ConsumerSettings::new(vec!["a:9092".into(), "b:9092".into()], "g", "worker-0");
        settings.properties = properties
            .iter()
            .map(|(n, v)| ((*n).into(), (*v).into()))
            .collect();
        settings
    }

    fn lines(settings: &ConsumerSettings) -> String {
        let lines: Vec<_> = render_config(settings)
            .iter()
            .map(|(n, v)| format!("{n}={v}"))
            .collect();
        lines.join("\n")
    }

    #[test]
    fn the_settings_of_a_consumer_are_those_that_the_promise_needs() {
        insta::assert_snapshot!(lines(&settings(&[])));
    }

    #[test]
    fn a_user_changes_what_is_not_owned_and_nothing_else() {
        let refused: Vec<_> = OWNED_PROPERTIES.iter().map(|name| (*name, "bad")).collect();
        assert_eq!(lines(&settings(&refused)), lines(&settings(&[])));
        let changed = lines(&settings(&[
            ("fetch.wait.max.ms", "200"),
            ("sasl.username", "u"),
        ]));
        assert!(changed.contains("fetch.wait.max.ms=200") && changed.contains("sasl.username=u"));
        assert!(!changed.contains("fetch.wait.max.ms=500"));
    }

    #[test]
    fn the_brokers_assignor_is_told_nothing_that_is_the_brokers() {
        let mut settings = settings(&[("session.timeout.ms", "6000")]);
        settings.group_protocol = GroupProtocol::Consumer;
        let text = lines(&settings);
        assert!(text.contains("group.protocol=consumer"));
        for name in [
            "session.timeout.ms",
            "heartbeat.interval.ms",
            "partition.assignment.strategy",
        ] {
            assert!(!text.contains(name), "{name}");
        }
    }

    #[test]
    fn no_setting_is_named_twice() {
        let config = render_config(&settings(&[]));
        let names: std::collections::BTreeSet<_> = config.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), config.len());
    }

    #[test]
    fn a_debug_print_shows_no_password() {
        let text = format!("{:?}", settings(&[("sasl.password", "hunter2")]));
        assert!(text.contains("sasl.password") && !text.contains("hunter2"));
    }
}
