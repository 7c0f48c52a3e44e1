//! What the async side reports: acknowledgements, splits, ranges that stop, gaps that are recorded.
//!
//! Must not be here: sending.

use super::{Shard, ShardError};
use crate::insert::Report;
use crate::kafka::TopicPartition;
use crate::session::Now;

impl Shard {
    /// Serves all reports; true where there were any.
    pub(super) fn serve_reports(&mut self, now: Now) -> Result<bool, ShardError> {
        let mut any = false;
        while let Ok(report) = self.parts.reports.try_recv() {
            any = true;
            self.on_report(report, now)?;
        }
        Ok(any)
    }

    fn on_report(&mut self, report: Report, now: Now) -> Result<(), ShardError> {
        match report {
            Report::Acknowledged {
                batch,
                ranges,
                last,
            } => {
                if last {
                    self.in_flight.remove(batch);
                }
                for (partition, start, end) in ranges {
                    self.on_acknowledged(&partition, start, end, now);
                }
            }
            Report::Split {
                partition,
                start,
                end,
                at,
            } => self.on_split(&partition, start, end, at),
            Report::Held {
                batch,
                partition,
                start,
                end,
                reason,
                message,
            } => {
                self.in_flight.remove(batch);
                self.on_stopped(&partition, (start, end), reason, message, now)?;
            }
            Report::Dropped { batch } => {
                self.in_flight.remove(batch);
            }
            Report::GapsRecorded { partition } => self.on_gaps_recorded(&partition, now),
            Report::Window { partition, mode } => self.on_window(&partition, mode),
        }
        Ok(())
    }

    pub(super) fn on_acknowledged(&mut self, key: &TopicPartition, start: i64, end: i64, now: Now) {
        if let Some(slot) = self.slots.get_mut(key) {
            slot.session.on_acknowledged(start, end, now);
            slot.publish_gate();
        }
    }

    fn on_split(&mut self, key: &TopicPartition, start: i64, end: i64, at: i64) {
        tracing::info!(topic = %key.topic, partition = key.partition, start, end, at, "A range is split to find the refused record.");
        if let Some(slot) = self.slots.get_mut(key) {
            slot.session.on_split(start, end, at);
            slot.publish_gate();
        }
    }

    fn on_stopped(
        &mut self,
        key: &TopicPartition,
        (start, end): (i64, i64),
        reason: &'static str,
        message: String,
        now: Now,
    ) -> Result<(), ShardError> {
        let Some(slot) = self.slots.get_mut(key) else {
            return Ok(());
        };
        tracing::warn!(topic = %key.topic, partition = key.partition, start, end, reason, %message, "A range is held.");
        slot.session.on_stopped(start, end, reason, message, now);
        slot.publish_gate();
        self.stop_reading(key)
    }
}
