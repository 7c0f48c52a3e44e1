//! Topics and groups of a test: made, grown, cut, and looked at as an admin's tool does.
//!
//! Must not be here: how a broker is started (`stack`), records (`produce`).

use std::future::Future;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rdkafka::admin::{
    AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication, TopicResult,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

const TIMEOUT: Duration = Duration::from_secs(30);

/// Where a group is in one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupOffset {
    /// The partition.
    pub partition: i32,
    /// The committed offset; `None` where there is none.
    pub committed: Option<i64>,
    /// The oldest offset of the log.
    pub low: i64,
    /// The log's end.
    pub end: i64,
    /// Metadata of the commit.
    pub metadata: String,
}

impl GroupOffset {
    /// Records from the committed offset (or the log's start) to its end.
    #[must_use]
    pub fn lag(&self) -> i64 {
        self.end - self.committed.unwrap_or(self.low)
    }
}

/// An admin of a Kafka cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KafkaAdmin {
    brokers: String,
}

impl KafkaAdmin {
    /// Admin of the cluster at `host:port,…`.
    #[must_use]
    pub fn new(brokers: &str) -> Self {
        Self {
            brokers: brokers.to_owned(),
        }
    }

    /// `host:port,…`.
    #[must_use]
    pub fn brokers(&self) -> &str {
        &self.brokers
    }

    fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", &self.brokers)
            .set("log_level", "3");
        config
    }

    fn admin(&self) -> Result<AdminClient<DefaultClientContext>> {
        self.config()
            .create()
            .context("cannot make an admin client")
    }

    /// Makes a topic with settings of its own and waits until it can be written.
    ///
    /// # Errors
    /// Where the broker refuses.
    pub fn create_topic(
        &self,
        topic: &str,
        partitions: i32,
        settings: &[(&str, &str)],
    ) -> Result<()> {
        let admin = self.admin()?;
        let mut new = NewTopic::new(topic, partitions, TopicReplication::Fixed(1));
        new.config.extend(settings);
        check(block_on(admin.create_topics([&new], &options()))??)?;
        self.wait_for_partitions(topic, partitions)
    }

    /// Deletes a topic.
    ///
    /// # Errors
    /// Where the broker refuses.
    pub fn delete_topic(&self, topic: &str) -> Result<()> {
        let admin = self.admin()?;
        check(block_on(admin.delete_topics(&[topic], &options()))??)
    }

    /// Grows a topic to so many partitions in all.
    ///
    /// # Errors
    /// Where the broker refuses.
    pub fn grow_topic(&self, topic: &str, partitions: usize) -> Result<()> {
        let admin = self.admin()?;
        let new = NewPartitions::new(topic, partitions);
        check(block_on(admin.create_partitions([&new], &options()))??)?;
        self.wait_for_partitions(topic, i32::try_from(partitions)?)
    }

    /// Deletes the records of a partition below an offset, as retention does.
    ///
    /// # Errors
    /// Where the broker refuses.
    pub fn delete_records(&self, topic: &str, partition: i32, before: i64) -> Result<()> {
        let admin = self.admin()?;
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition, Offset::Offset(before))?;
        block_on(admin.delete_records(&list, &options()))??;
        Ok(())
    }

    fn wait_for_partitions(&self, topic: &str, partitions: i32) -> Result<()> {
        let consumer = self.consumer("")?;
        crate::wait::eventually(
            TIMEOUT,
            &format!("{topic} with {partitions} partitions"),
            || {
                let found = fetch_partitions(&consumer, topic)?;
                ensure!(
                    found.len() == usize::try_from(partitions)?,
                    "{} partitions with a leader",
                    found.len()
                );
                Ok(())
            },
        )
    }

    /// A consumer that never subscribes, for questions.
    fn consumer(&self, group: &str) -> Result<BaseConsumer> {
        let mut config = self.config();
        if !group.is_empty() {
            config.set("group.id", group);
        }
        config.create().context("cannot make a client")
    }

    /// Where a group is in every partition of a topic, in the order of the partitions.
    ///
    /// # Errors
    /// Where the broker does not answer.
    pub fn group_offsets(&self, group: &str, topic: &str) -> Result<Vec<GroupOffset>> {
        let consumer = self.consumer(group)?;
        let mut list = TopicPartitionList::new();
        for partition in fetch_partitions(&consumer, topic)? {
            list.add_partition(topic, partition);
        }
        let committed = consumer
            .committed_offsets(list, TIMEOUT)
            .context("cannot read the group's offsets")?;
        let elements = committed.elements();
        let mut offsets = elements.iter().map(|element| {
            let (low, end) = consumer.fetch_watermarks(topic, element.partition(), TIMEOUT)?;
            Ok(GroupOffset {
                partition: element.partition(),
                committed: parse_committed(element.offset()),
                low,
                end,
                metadata: element.metadata().to_owned(),
            })
        });
        offsets.by_ref().collect()
    }

    /// The committed offset of each partition, in their order.
    ///
    /// # Errors
    /// As [`Self::group_offsets`].
    pub fn committed(&self, group: &str, topic: &str) -> Result<Vec<Option<i64>>> {
        Ok(self
            .group_offsets(group, topic)?
            .into_iter()
            .map(|offset| offset.committed)
            .collect())
    }

    /// The lag of each partition, in their order.
    ///
    /// # Errors
    /// As [`Self::group_offsets`].
    pub fn lags(&self, group: &str, topic: &str) -> Result<Vec<i64>> {
        Ok(self
            .group_offsets(group, topic)?
            .iter()
            .map(GroupOffset::lag)
            .collect())
    }

    /// Members of a group of the classic protocol, as client ids.
    ///
    /// # Errors
    /// Where the broker does not answer.
    pub fn group_members(&self, group: &str) -> Result<Vec<String>> {
        let list = self.consumer("")?.fetch_group_list(Some(group), TIMEOUT)?;
        let members = list
            .groups()
            .iter()
            .flat_map(rdkafka::groups::GroupInfo::members);
        Ok(members
            .map(|member| member.client_id().to_owned())
            .collect())
    }

    /// Commits offsets for a group without members, as an admin's reset does (with empty metadata).
    ///
    /// # Errors
    /// Where the broker refuses: a group with members is not to be moved.
    pub fn reset_offsets(&self, group: &str, topic: &str, offsets: &[(i32, i64)]) -> Result<()> {
        let mut list = TopicPartitionList::new();
        for (partition, offset) in offsets {
            list.add_partition_offset(topic, *partition, Offset::Offset(*offset))?;
        }
        let consumer = self.consumer(group)?;
        consumer
            .commit(&list, rdkafka::consumer::CommitMode::Sync)
            .context("cannot reset the group's offsets")
    }
}

impl KafkaAdmin {
    /// Commits positions with their metadata for a group without members, as they once were.
    ///
    /// # Errors
    /// As [`Self::reset_offsets`].
    pub fn restore_offsets(
        &self,
        group: &str,
        topic: &str,
        positions: &[GroupOffset],
    ) -> Result<()> {
        let mut list = TopicPartitionList::new();
        for position in positions {
            let offset = position.committed.context("a position without an offset")?;
            let mut element = list.add_partition(topic, position.partition);
            element.set_offset(Offset::Offset(offset))?;
            element.set_metadata(&position.metadata);
        }
        let consumer = self.consumer(group)?;
        consumer
            .commit(&list, rdkafka::consumer::CommitMode::Sync)
            .context("cannot restore the group's offsets")
    }
}

fn options() -> AdminOptions {
    AdminOptions::new()
        .operation_timeout(Some(TIMEOUT))
        .request_timeout(Some(TIMEOUT))
}

/// The admin client answers through a future that a thread of its own completes.
fn block_on<T>(future: impl Future<Output = T>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    Ok(runtime.block_on(future))
}

fn check(results: Vec<TopicResult>) -> Result<()> {
    for result in results {
        if let Err((topic, code)) = result {
            bail!("the broker refuses {topic}: {code}");
        }
    }
    Ok(())
}

/// Partitions that have a leader.
fn fetch_partitions(consumer: &BaseConsumer, topic: &str) -> Result<Vec<i32>> {
    let metadata = consumer.fetch_metadata(Some(topic), TIMEOUT)?;
    let found = metadata
        .topics()
        .first()
        .context("the broker does not know the topic")?;
    let mut ids: Vec<i32> = found
        .partitions()
        .iter()
        .filter(|it| it.leader() >= 0)
        .map(rdkafka::metadata::MetadataPartition::id)
        .collect();
    ids.sort_unstable();
    Ok(ids)
}

fn parse_committed(offset: Offset) -> Option<i64> {
    match offset {
        Offset::Offset(offset) => Some(offset),
        _ => None,
    }
}
