//! Commits: what the sessions want committed, sent together, and what became of it.
//!
//! Must not be here: what is committed (the sessions know).

use std::collections::HashMap;
use std::time::Instant;

use super::lookups::short_uuid;
use super::{Shard, ShardError};
use crate::kafka::{
    CommitErrorClass, CommitItem, ErrorCode, Fault, OpId, OpResult, TopicPartition,
    commit_error_class,
};
use crate::session::{CommitContext, CommitOutcome, CommitRequest, Now};

/// Requests that were not answered yet.
#[derive(Default)]
pub(super) struct SentCommits {
    by_op: HashMap<OpId, Sent>,
}

struct Sent {
    partitions: Vec<TopicPartition>,
    at: Instant,
}

impl Shard {
    /// Sends what the sessions want committed: fresh commits in one request, each retry in one of its own.
    pub(super) fn send_commits(&mut self, now: Now) {
        let Some(context) = self.commit_context() else {
            return;
        };
        let wanted = self.slots.iter_mut().filter_map(|(key, slot)| {
            Some((key.clone(), slot.session.next_commit(&context, now)?))
        });
        let (alone, together): (Vec<_>, Vec<_>) = wanted.partition(|(_, request)| request.alone);
        self.send_request(together, now);
        for single in alone {
            self.send_request(vec![single], now);
        }
    }

    fn commit_context(&self) -> Option<CommitContext> {
        let uuid = self.parts.table.report().uuid.clone()?;
        Some(CommitContext {
            table: short_uuid(&uuid),
            mapping: self.parts.mappings.current().hash.clone(),
        })
    }

    fn send_request(&mut self, requests: Vec<(TopicPartition, CommitRequest)>, now: Now) {
        if requests.is_empty() {
            return;
        }
        let items: Vec<CommitItem> = requests
            .iter()
            .map(|(key, request)| commit_item(key, request))
            .collect();
        let partitions: Vec<TopicPartition> = requests.into_iter().map(|(key, _)| key).collect();
        match self.consumer.commit(&items) {
            Ok(op) => {
                self.commits.by_op.insert(
                    op,
                    Sent {
                        partitions,
                        at: now.instant,
                    },
                );
            }
            Err(error) => {
                tracing::debug!(%error, "A commit was not sent and is tried again.");
                self.settle(&partitions, now.instant, CommitOutcome::Again, now);
            }
        }
    }

    /// Serves answers to commits and look-ups; true where there were any.
    pub(super) fn serve_ops(&mut self, now: Now) -> Result<bool, ShardError> {
        let mut any = false;
        while let Some((op, result)) = self.consumer.poll_ops() {
            any = true;
            match result {
                OpResult::CommitDone { error, elements } => {
                    self.on_commit_done(op, error.as_ref(), &elements, now)?;
                }
                other => self.on_lookup(op, other, now)?,
            }
        }
        Ok(any)
    }

    /// An answer without error means that all were applied; with one, only a request of a single partition is a verdict.
    fn on_commit_done(
        &mut self,
        op: OpId,
        error: Option<&Fault>,
        elements: &[(TopicPartition, Option<Fault>)],
        now: Now,
    ) -> Result<(), ShardError> {
        let Some(sent) = self.commits.by_op.remove(&op) else {
            return Ok(());
        };
        self.parts
            .metrics
            .commit_seconds
            .observe(now.instant.saturating_duration_since(sent.at).as_secs_f64());
        let fault = error.or_else(|| elements.iter().find_map(|(_, fault)| fault.as_ref()));
        let Some(fault) = fault else {
            self.parts
                .metrics
                .commits
                .inc_by(sent.partitions.len() as u64);
            self.settle(&sent.partitions, sent.at, CommitOutcome::Applied, now);
            return Ok(());
        };
        self.parts.metrics.commit_retries.inc();
        tracing::debug!(error = %fault, partitions = sent.partitions.len(), "A commit was not applied.");
        let outcome = decide_outcome(fault, sent.partitions.len());
        if matches!(commit_error_class(fault.code), CommitErrorClass::Fatal) {
            return Err(ShardError::Fatal(fault.clone()));
        }
        self.settle(&sent.partitions, sent.at, outcome, now);
        Ok(())
    }

    /// An answer that is older than the session is its predecessor's and says nothing about its own commit.
    fn settle(
        &mut self,
        partitions: &[TopicPartition],
        sent_at: Instant,
        outcome: CommitOutcome,
        now: Now,
    ) {
        for key in partitions {
            let slot = self.slots.get_mut(key);
            if let Some(slot) = slot.filter(|slot| slot.assigned_at <= sent_at) {
                slot.session.on_commit(outcome, now, crate::random());
                slot.publish_gate();
            }
        }
    }
}

fn commit_item(key: &TopicPartition, request: &CommitRequest) -> CommitItem {
    CommitItem {
        topic: key.topic.clone(),
        partition: key.partition,
        offset: request.offset,
        metadata: request.metadata.clone(),
    }
}

/// What a failed request of so many partitions means for each of them.
#[must_use]
fn decide_outcome(fault: &Fault, partitions: usize) -> CommitOutcome {
    match commit_error_class(fault.code) {
        _ if partitions > 1 => CommitOutcome::Again,
        CommitErrorClass::Lost => CommitOutcome::Lost,
        CommitErrorClass::Config if fault.code == ErrorCode::OFFSET_METADATA_TOO_LARGE => {
            CommitOutcome::TooLarge
        }
        CommitErrorClass::Config => CommitOutcome::Refused(refusal_reason(fault.code)),
        _ => CommitOutcome::Again,
    }
}

const fn refusal_reason(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::UNKNOWN_TOPIC_OR_PART => "TopicMissing",
        ErrorCode::GROUP_AUTHORIZATION_FAILED
        | ErrorCode::TOPIC_AUTHORIZATION_FAILED
        | ErrorCode::CLUSTER_AUTHORIZATION_FAILED => "Unauthorized",
        _ => "CommitRefused",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(code: ErrorCode) -> Fault {
        Fault {
            code,
            text: String::new(),
        }
    }

    #[test]
    fn a_code_in_a_mixed_request_is_nobodys_verdict() {
        assert_eq!(
            decide_outcome(&fault(ErrorCode::UNKNOWN_MEMBER_ID), 2),
            CommitOutcome::Again
        );
        assert_eq!(
            decide_outcome(&fault(ErrorCode::UNKNOWN_MEMBER_ID), 1),
            CommitOutcome::Lost
        );
    }

    #[test]
    fn a_rebalance_is_waited_for_with_the_same_bytes() {
        assert_eq!(
            decide_outcome(&fault(ErrorCode::ILLEGAL_GENERATION), 1),
            CommitOutcome::Again
        );
        assert_eq!(
            decide_outcome(&fault(ErrorCode::REBALANCE_IN_PROGRESS), 1),
            CommitOutcome::Again
        );
    }

    #[test]
    fn too_much_metadata_is_told_from_a_missing_right() {
        assert_eq!(
            decide_outcome(&fault(ErrorCode::OFFSET_METADATA_TOO_LARGE), 1),
            CommitOutcome::TooLarge
        );
        assert_eq!(
            decide_outcome(&fault(ErrorCode::GROUP_AUTHORIZATION_FAILED), 1),
            CommitOutcome::Refused("Unauthorized")
        );
        for (code, reason) in [
            (ErrorCode::UNKNOWN_TOPIC_OR_PART, "TopicMissing"),
            (ErrorCode::INVALID_GROUP_ID, "CommitRefused"),
        ] {
            assert_eq!(
                decide_outcome(&fault(code), 1),
                CommitOutcome::Refused(reason)
            );
        }
    }
}
