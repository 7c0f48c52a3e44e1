//! Cutting: what is filled becomes a batch, of all partitions together or of each alone, and is handed over.
//!
//! Must not be here: reading, commits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Shard, ShardError, Slot};
use crate::batch::{Batch, Cut, Fill, Part, decide_cut, is_full};
use crate::kafka::TopicPartition;
use crate::lane::Lane;
use crate::pace::{decide_effective_linger, decide_interval};
use crate::session::Now;

impl Shard {
    /// When the linger of what is filled ends.
    pub(super) fn cut_due(&self, now: Now) -> Option<Instant> {
        let dues = self.decisions(now).into_iter().map(|(_, cut)| match cut {
            Cut::Fill(due) => due,
            Cut::Now => Some(now.instant),
            Cut::Full => None,
        });
        dues.flatten().min()
    }

    /// What to do with each filling set: of one partition (`Some`), or of all that share an INSERT (`None`).
    fn decisions(&self, now: Now) -> Vec<(Option<TopicPartition>, Cut)> {
        let sum = self.fill();
        let must = self.stop.is_some()
            || self.revocation.is_some()
            || (self.over_budget(&sum) && self.in_flight.is_empty());
        if !self.declares() {
            let cut = self.decide(&self.shared_fill(), self.in_flight.len(), must, now);
            return vec![(None, cut)];
        }
        self.slots
            .iter()
            .filter_map(|(key, slot)| {
                let fill = free_fill(slot)?;
                let may = slot.session.may_cut();
                let cut = if may {
                    self.decide(&fill, slot.session.ranges().len(), must, now)
                } else {
                    Cut::Full
                };
                Some((Some(key.clone()), cut))
            })
            .collect()
    }

    fn decide(&self, fill: &Fill, in_flight: usize, must: bool, now: Now) -> Cut {
        let limits = &self.parts.config.batch;
        decide_cut(
            fill,
            limits,
            in_flight,
            must,
            self.pace.next_at(),
            now.instant,
        )
    }

    /// How full the lanes are that share an INSERT.
    fn shared_fill(&self) -> Fill {
        let fills = self.slots.values().filter_map(free_fill);
        fills.fold(Fill::default(), |sum, fill| sum.with(&fill))
    }

    /// Cuts what is due and hands it over, and every range of a replay that was read to its end.
    pub(super) fn cut_where_due(&mut self, now: Now) -> Result<bool, ShardError> {
        let replayed = self.cut_replayed(now)?;
        let mut due: Vec<(Option<TopicPartition>, Fill)> = self
            .decisions(now)
            .into_iter()
            .filter(|(_, cut)| *cut == Cut::Now)
            .map(|(key, _)| {
                let fill = key
                    .as_ref()
                    .map_or_else(|| self.shared_fill(), |key| self.fill_of(key));
                (key, fill)
            })
            .collect();
        due.sort_by_key(|(_, fill)| fill.since);
        let any = !due.is_empty();
        // What is cut stays buffered until it is acknowledged.
        let over = any && self.over_budget(&self.fill());
        for (key, fill) in due {
            self.cut_paced(key.as_ref(), &fill, over, now)?;
        }
        Ok(any || replayed)
    }

    fn fill_of(&self, key: &TopicPartition) -> Fill {
        self.slots.get(key).and_then(free_fill).unwrap_or_default()
    }

    /// A batch that only the linger ended counts for the pace; another may have gone in the same turn.
    fn cut_paced(
        &mut self,
        key: Option<&TopicPartition>,
        fill: &Fill,
        over_budget: bool,
        now: Now,
    ) -> Result<(), ShardError> {
        let drains = self.stop.is_some() || self.revocation.is_some();
        let paced = !is_full(fill, &self.parts.config.batch) && !drains;
        if paced && self.pace.next_at() > now.instant && !over_budget {
            return Ok(());
        }
        if paced {
            self.pace.on_insert(self.interval(), now.instant);
        }
        match key {
            Some(key) => self.cut_alone(key, now),
            None => self.cut_together(now),
        }
    }

    fn interval(&self) -> Duration {
        let rate = self.parts.config.batch.max_inserts_per_second;
        decide_interval(rate, self.slots.len(), self.topics.partitions())
    }

    /// How long a record waits at most where all partitions have some.
    pub(super) fn effective_linger(&self) -> Duration {
        let linger = Duration::from_millis(u64::from(self.parts.config.batch.linger_ms));
        let streams = if self.declares() { self.slots.len() } else { 1 };
        decide_effective_linger(linger, self.interval(), streams)
    }

    fn cut_alone(&mut self, key: &TopicPartition, now: Now) -> Result<(), ShardError> {
        let Some(part) = self.slots.get_mut(key).and_then(cut_slot) else {
            return Ok(());
        };
        let (start, end) = (part.range.start, part.range.end);
        if !self.admit(key, &part, now)? {
            return Ok(());
        }
        let Some(slot) = self.slots.get_mut(key) else {
            return Ok(());
        };
        slot.session.on_cut(end);
        slot.publish_gate();
        if part.rows.is_none() && part.rejected.is_empty() {
            self.skip_by_rule(key, &part, now);
            return Ok(());
        }
        tracing::trace!(topic = %key.topic, partition = key.partition, start, end, "A range was cut.");
        self.submit_alone(key, part);
        Ok(())
    }

    /// A range that needs no row and no reject is done with.
    fn skip_by_rule(&mut self, key: &TopicPartition, part: &Part, now: Now) {
        self.parts.metrics.records_skipped.inc_by(part.skipped);
        self.on_acknowledged(key, part.range.start, part.range.end, now);
    }

    fn submit_alone(&mut self, key: &TopicPartition, part: Part) {
        let Some(slot) = self.slots.get_mut(key) else {
            return;
        };
        let Some(lane) = &mut slot.lane else {
            return;
        };
        let fallbacks = lane.take_fallbacks();
        self.parts.metrics.values_replaced.inc_by(fallbacks);
        let batch = Batch {
            id: self.next_batch,
            cluster_id: Arc::clone(&self.cluster_id),
            mapping: Arc::clone(lane.mapping()),
            gate: Some(slot.gate.subscribe()),
            declared_at_s: Some(slot.session.plan_declared_at_s()).filter(|at| *at > 0),
            replay: lane
                .is_replay()
                .then(|| slot.session.replay_mode())
                .flatten(),
            parts: vec![part],
        };
        self.submit(batch);
    }

    fn submit(&mut self, batch: Batch) {
        self.next_batch += 1;
        self.in_flight.insert(batch.id, batch.bytes());
        self.parts.inserter.submit(batch);
    }

    /// Ranges of replays that were read to their end are handed over as they were cut once.
    fn cut_replayed(&mut self, now: Now) -> Result<bool, ShardError> {
        let keys: Vec<TopicPartition> = self
            .slots
            .iter()
            .filter(|(_, slot)| slot.lane.as_ref().is_some_and(Lane::is_replay))
            .map(|(key, _)| key.clone())
            .collect();
        let mut any = false;
        for key in keys {
            any |= self.hand_over_replayed(&key, now)?;
        }
        Ok(any)
    }

    fn hand_over_replayed(&mut self, key: &TopicPartition, now: Now) -> Result<bool, ShardError> {
        let mut any = false;
        while let Some(part) = self
            .slots
            .get_mut(key)
            .and_then(|slot| slot.lane.as_mut()?.take_ready())
        {
            any = true;
            if !self.admit(key, &part, now)? {
                return Ok(any);
            }
            let (start, end) = (part.range.start, part.range.end);
            if let Some(slot) = self.slots.get_mut(key) {
                slot.session.on_replay_sent(start, end);
            }
            if part.rows.is_none() && part.rejected.is_empty() {
                self.skip_by_rule(key, &part, now);
            } else {
                self.submit_alone(key, part);
            }
        }
        let done = self
            .slots
            .get(key)
            .and_then(|slot| slot.lane.as_ref())
            .is_some_and(Lane::is_replayed);
        if done {
            self.stop_reading(key)?;
        }
        Ok(any)
    }

    /// False where too much of a range is rejected: none of it is written, and the partition is held.
    fn admit(&mut self, key: &TopicPartition, part: &Part, now: Now) -> Result<bool, ShardError> {
        let max_percent = self.parts.config.dead_letter.max_rejected_percent;
        let Some(slot) = self.slots.get_mut(key) else {
            return Ok(false);
        };
        let (records, rejected) = (part.records(), part.rejected.len() as u64);
        let about = format!("{}-{}", part.range.start, part.range.end);
        let allowed = slot
            .answer
            .as_ref()
            .is_some_and(super::Answer::accepts_rejects);
        if allowed || !slot.rejects.is_over(records, rejected, max_percent) {
            slot.rejects.on_range(records, rejected);
            return Ok(true);
        }
        let message = too_many_rejected(part, records, rejected, max_percent);
        slot.session.hold("TooManyRejected", about, message, now);
        self.stop_reading(key)?;
        Ok(false)
    }

    fn cut_together(&mut self, now: Now) -> Result<(), ShardError> {
        let mut parts: Vec<Part> = Vec::new();
        for key in self.slots.keys().cloned().collect::<Vec<_>>() {
            let free = self
                .slots
                .get_mut(&key)
                .filter(|slot| free_fill(slot).is_some());
            let Some(part) = free.and_then(cut_slot) else {
                continue;
            };
            if !self.admit(&key, &part, now)? {
                continue;
            }
            if let Some(slot) = self.slots.get_mut(&key) {
                slot.session.on_cut(part.range.end);
            }
            parts.push(part);
        }
        self.hand_over_together(parts, now);
        Ok(())
    }

    fn hand_over_together(&mut self, parts: Vec<Part>, now: Now) {
        let (empty, parts): (Vec<Part>, Vec<Part>) = parts
            .into_iter()
            .partition(|part| part.rows.is_none() && part.rejected.is_empty());
        for part in empty {
            let key = TopicPartition::new(Arc::clone(&part.topic), part.range.partition);
            self.skip_by_rule(&key, &part, now);
        }
        if parts.is_empty() {
            return;
        }
        let lanes = self
            .slots
            .values_mut()
            .filter_map(|slot| slot.lane.as_mut());
        let fallbacks: u64 = lanes.map(Lane::take_fallbacks).sum();
        self.parts.metrics.values_replaced.inc_by(fallbacks);
        let batch = Batch {
            id: self.next_batch,
            cluster_id: Arc::clone(&self.cluster_id),
            mapping: Arc::clone(self.parts.mappings.current()),
            gate: None,
            replay: None,
            declared_at_s: None,
            parts,
        };
        self.submit(batch);
    }
}

/// How full the lane of a partition is that reads freely.
fn free_fill(slot: &Slot) -> Option<Fill> {
    slot.lane
        .as_ref()
        .filter(|lane| !lane.is_replay())
        .map(Lane::fill)
}

fn cut_slot(slot: &mut Slot) -> Option<Part> {
    slot.lane.as_mut()?.cut()
}

fn too_many_rejected(part: &Part, records: u64, rejected: u64, max_percent: u32) -> String {
    let example = part.rejected.first().map_or_else(String::new, |first| {
        format!(
            ", for example offset {} ({}: {})",
            first.offset, first.code, first.reason
        )
    });
    format!(
        "expected at most {max_percent} % of the records to be rejected, found {rejected} of {records} in offsets {} to {}{example}; \
         none of them was written to the rejected table; mend the mapping, or answer with `InsertAgain` in `spec.resolutions` to \
         reject them",
        part.range.start,
        part.range.end - 1
    )
}
