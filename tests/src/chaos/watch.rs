//! What the group has committed, looked at all the time as an outsider.
//!
//! Must not be here: what the workers say about themselves.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clickhouse_sink_crds::commit::CommitMetadata;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use super::scene::{NAME, PARTITIONS, count_ranges};

/// Where a partition stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// The committed offset.
    pub(crate) offset: Option<i64>,
    /// What was committed with it; `None` where it is not ours.
    pub(crate) metadata: Option<CommitMetadata>,
}

impl Position {
    /// Ranges that are declared and not acknowledged.
    pub(crate) fn ranges(&self) -> usize {
        count_ranges(self.metadata.as_ref())
    }

    /// Where the plan ends; the offset where it is empty.
    pub(crate) fn plan_end(&self) -> i64 {
        let last = self
            .metadata
            .as_ref()
            .and_then(|it| it.ends.last().copied());
        last.or(self.offset).unwrap_or(0)
    }
}

/// A client that asks for the group's positions, and what it saw last.
pub(crate) struct Watch {
    consumer: BaseConsumer,
    positions: Vec<Position>,
}

impl Watch {
    pub(crate) fn new(brokers: &str) -> Result<Self> {
        let consumer = ClientConfig::new()
            .set("bootstrap.servers", brokers)
            .set("group.id", NAME)
            .set("log_level", "0")
            .set("reconnect.backoff.max.ms", "500")
            .create()
            .context("cannot make a client that watches the group")?;
        let count = usize::try_from(PARTITIONS)?;
        Ok(Self {
            consumer,
            positions: vec![Position::default(); count],
        })
    }

    /// What was seen last, one for each partition.
    pub(crate) fn positions(&self) -> &[Position] {
        &self.positions
    }

    /// Asks; gives offsets that went back, as text.
    pub(crate) fn look(&mut self, timeout: Duration) -> Result<Vec<String>> {
        let mut list = TopicPartitionList::new();
        for partition in 0..PARTITIONS {
            list.add_partition(NAME, partition);
        }
        let answer = self.consumer.committed_offsets(list, timeout)?;
        let elements = answer.elements();
        ensure!(
            elements.len() == self.positions.len() && elements.iter().all(|it| it.error().is_ok()),
            "the broker has not told every position"
        );
        let found = elements.iter().map(|element| Position {
            offset: parse_offset(element.offset()),
            metadata: CommitMetadata::parse(element.metadata().as_bytes()).ok(),
        });
        let found: Vec<Position> = found.collect();
        let back = find_back(&self.positions, &found);
        self.positions = found;
        Ok(back)
    }

    /// The log's end of each partition.
    pub(crate) fn ends(&self, timeout: Duration) -> Result<Vec<i64>> {
        let end = |partition| {
            let (_, end) = self.consumer.fetch_watermarks(NAME, partition, timeout)?;
            Ok(end)
        };
        (0..PARTITIONS).map(end).collect()
    }
}

fn parse_offset(offset: Offset) -> Option<i64> {
    match offset {
        Offset::Offset(offset) => Some(offset),
        _ => None,
    }
}

fn find_back(before: &[Position], now: &[Position]) -> Vec<String> {
    let pairs = before.iter().zip(now).enumerate();
    pairs
        .filter(|(_, (before, now))| now.offset < before.offset)
        .map(|(partition, (before, now))| {
            format!("{partition}: {:?} to {:?}", before.offset, now.offset)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: Option<i64>) -> Position {
        Position {
            offset,
            metadata: None,
        }
    }

    #[test]
    fn an_offset_that_goes_back_or_away_is_told_with_its_partition() {
        let before = [at(None), at(Some(5)), at(Some(5)), at(Some(5))];
        let now = [at(Some(0)), at(Some(5)), at(Some(4)), at(None)];
        assert_eq!(
            find_back(&before, &now),
            ["2: Some(5) to Some(4)", "3: Some(5) to None"]
        );
    }
}
