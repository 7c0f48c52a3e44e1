//! `plans`: what the sink's group has committed and what its plans still name; reads only, joins no group.
//!
//! Must not be here: what follows from it (the operator decides).

use std::time::{Duration, Instant};

use clickhouse_sink_crds::commit::CommitMetadata;
use clickhouse_sink_crds::group_plans::{GroupPlans, PartitionPlan};
use clickhouse_sink_crds::worker_config::WorkerConfig;

use crate::kafka::{Consumer, Fault, GroupOffset, KafkaError, OpId, OpResult, Waker};
use crate::pipeline::render_client_settings;

/// How long the thread sleeps at most before it looks at the clock again.
const LONGEST_WAIT: Duration = Duration::from_millis(50);

/// Asks Kafka; blocks until the answers are there, at most until `deadline`. The members are counted before and after the
/// offsets are read: what a member commits in between would not be seen.
///
/// # Errors
/// What Kafka refuses, or the deadline.
pub fn fetch_plans(config: &WorkerConfig, deadline: Instant) -> Result<GroupPlans, KafkaError> {
    let settings = render_client_settings(config);
    let group_id = config.kafka.group_id.as_str();
    let mut consumer = Consumer::open(&settings, Waker::for_current_thread())?;
    let before = ask(&mut consumer, deadline, |consumer| {
        consumer.describe_group(group_id)
    })?;
    let offsets = ask(&mut consumer, deadline, |consumer| {
        consumer.list_group_offsets(group_id, None)
    })?;
    let after = ask(&mut consumer, deadline, |consumer| {
        consumer.describe_group(group_id)
    })?;
    let (OpResult::GroupOffsets(offsets), Ok(before), Ok(after)) =
        (offsets, read_members(before), read_members(after))
    else {
        return Err(KafkaError::TimedOut {
            what: "tell about the group",
        });
    };
    let offsets = offsets.map_err(|fault| refused("read the group's offsets", fault))?;
    Ok(GroupPlans {
        members: before.max(after),
        partitions: read_partitions(offsets)?,
    })
}

fn read_members(result: OpResult) -> Result<u32, KafkaError> {
    match result {
        OpResult::GroupMembers(members) => {
            members.map_err(|fault| refused("describe the group", fault))
        }
        _ => Err(KafkaError::TimedOut {
            what: "describe the group",
        }),
    }
}

fn refused(what: &'static str, fault: Fault) -> KafkaError {
    KafkaError::Refused {
        what,
        code: fault.code,
        text: fault.text,
    }
}

/// Sends a question until it has an answer that is not a passing trouble.
fn ask(
    consumer: &mut Consumer,
    deadline: Instant,
    send: impl Fn(&mut Consumer) -> Result<OpId, KafkaError>,
) -> Result<OpResult, KafkaError> {
    loop {
        let id = send(consumer)?;
        let result = wait(consumer, id, deadline)?;
        let is_passing = fault_of(&result).is_some_and(|fault| fault.code.is_transient());
        if !is_passing || Instant::now() >= deadline {
            return Ok(result);
        }
        std::thread::park_timeout(LONGEST_WAIT);
    }
}

const fn fault_of(result: &OpResult) -> Option<&Fault> {
    match result {
        OpResult::GroupMembers(Err(fault)) | OpResult::GroupOffsets(Err(fault)) => Some(fault),
        _ => None,
    }
}

fn wait(consumer: &mut Consumer, id: OpId, deadline: Instant) -> Result<OpResult, KafkaError> {
    while Instant::now() < deadline {
        while consumer.poll_main().is_some() {}
        while let Some((answered, result)) = consumer.poll_ops() {
            if answered == id {
                return Ok(result);
            }
        }
        std::thread::park_timeout(LONGEST_WAIT);
    }
    Err(KafkaError::TimedOut {
        what: "tell about the group",
    })
}

fn read_partitions(offsets: Vec<GroupOffset>) -> Result<Vec<PartitionPlan>, KafkaError> {
    let mut partitions = Vec::new();
    for at in offsets {
        if let Some(fault) = at.fault {
            return Err(refused("read the offset of a partition", fault));
        }
        let Some(offset) = at.offset else { continue };
        partitions.push(read_partition(
            &at.partition.topic,
            at.partition.partition,
            offset,
            &at.metadata,
        ));
    }
    partitions.sort_by(|a, b| (&a.topic, a.partition).cmp(&(&b.topic, b.partition)));
    Ok(partitions)
}

/// A position that is not ours has no plan: whoever owns it next begins anew there.
fn read_partition(topic: &str, partition: i32, offset: i64, metadata: &[u8]) -> PartitionPlan {
    let ours = CommitMetadata::parse(metadata)
        .ok()
        .filter(|metadata| metadata.matches(offset));
    let ranges = ours.as_ref().map(|metadata| {
        let ranges = metadata.plan(partition).into_iter();
        ranges.map(|range| (range.start, range.end)).collect()
    });
    PartitionPlan {
        topic: topic.to_owned(),
        topic_id: ours.map(|metadata| metadata.topic_id).unwrap_or_default(),
        partition,
        offset,
        ranges: ranges.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &[u8] = b"cs1;s=5;d=0123abcd;t=AAAAAAAAAAAAAAAAAAAAAA;n=1;e=0123456789abcdef;m=01234567;w=9;q=1;p=7,9";

    #[test]
    fn a_plan_is_read_from_metadata_that_belongs_to_the_offset() {
        let at = read_partition("t", 3, 5, OURS);
        assert_eq!(
            (at.topic_id.as_str(), at.ranges),
            ("AAAAAAAAAAAAAAAAAAAAAA", vec![(5, 7), (7, 9)])
        );
    }

    #[test]
    fn a_position_that_was_moved_has_no_plan() {
        for (offset, metadata) in [(6, OURS), (5, b"".as_slice()), (5, b"other".as_slice())] {
            let at = read_partition("t", 3, offset, metadata);
            assert_eq!((at.topic_id.as_str(), at.ranges.len()), ("", 0));
        }
    }
}
