//! Rare events: what admins, retention, upgrades and lost coordinators do.
//!
//! Must not be here: crashes and networks (`faults.rs`).

use clickhouse_sink_crds::worker_config::Guarantee;

use super::excuse::Cut;
use super::group::{Begin, Position};
use super::log::{Log, Record};
use super::scenario::{Metadata, Rare};
use super::worker::Step;
use super::world::{DECLARATION_MS, INSERT_MS, TOPIC_IDS, World, say};

/// Nobody starts a worker for so long.
const PAUSE_MS: u64 = 20_000;

impl World<'_> {
    /// One of the scenario's rare events; false where it cannot be now.
    pub(super) fn rare_step(&mut self) -> bool {
        let count = self.scenario.rare.len();
        if count == 0 {
            return false;
        }
        let rare = self.scenario.rare[self.random.index(count)];
        let p = self.random.index(self.topic.logs.len());
        self.play_once(rare, p);
        true
    }

    /// What waits for an empty group.
    pub(super) fn rare_that_waits(&mut self) {
        if let Some((rare, p)) = self.waiting.filter(|_| self.group.members.is_empty()) {
            self.waiting = None;
            self.play_once(rare, p);
        }
    }

    fn play_once(&mut self, rare: Rare, p: usize) {
        if self.play(rare, p) {
            self.scenario.rare.retain(|other| *other != rare);
            say!(self, "{rare:?} on partition {p}");
        }
    }

    fn play(&mut self, rare: Rare, p: usize) -> bool {
        match rare {
            Rare::AdminReset => self.on_empty_group(rare, p) && self.reset(p),
            Rare::OffsetsExpired => self.on_empty_group(rare, p) && self.expire_offsets(),
            Rare::TopicRecreated => self.recreate(),
            Rare::Retention => self.retain(p),
            Rare::Truncation => self.on_empty_group(rare, p) && self.truncate(p),
            Rare::Compaction => self.compact(p),
            Rare::MappingChanged => self.change_mapping(),
            Rare::GuaranteeChanged => self.change_guarantee(),
            Rare::PartitionsGrow => self.grow(),
            Rare::CoordinatorRollback => self.roll_back(p),
            Rare::LongPause => self.pause_long(),
            Rare::RowsHidden => self.hide_rows(),
        }
    }

    /// Admins' tools want an empty group: all workers are ended first, or stopped where they stand.
    fn on_empty_group(&mut self, rare: Rare, p: usize) -> bool {
        if self.group.members.is_empty() && self.group.generation > 0 {
            return true;
        }
        self.waiting = Some((rare, p));
        self.paused_until = self.time + PAUSE_MS;
        for w in 0..self.workers.len() {
            if !self.workers[w].runs() {
                continue;
            }
            match self.random.below(3) {
                0 => self.crash(w),
                1 => self.freeze(w),
                _ => self.may_stop(w),
            }
        }
        false
    }

    /// A position that begins anew for a reason that is not ours.
    fn new_load(&mut self, p: usize, begin: Begin) -> &mut Position {
        let load = self.group.positions[p].load + 1;
        self.group.positions[p] = Position::new(begin, load);
        &mut self.group.positions[p]
    }

    fn reset(&mut self, p: usize) -> bool {
        let log = &self.topic.logs[p];
        if self.group.positions[p].offset.is_none() || log.high() == 0 {
            return false;
        }
        let to = log.low + self.random.below((log.high() - log.low + 1) as u64) as i64;
        self.new_load(p, Begin::At(to)).offset = Some(to);
        true
    }

    fn expire_offsets(&mut self) -> bool {
        if self.facts.is_empty() {
            return false;
        }
        for p in 0..self.group.positions.len() {
            self.new_load(p, Begin::At(0));
        }
        self.cover.crash_point(19);
        true
    }

    /// Deleted and made again: its positions are gone, or stay for a while.
    fn recreate(&mut self) -> bool {
        // Where no metadata is kept, nobody can tell whose position it is.
        let nameless = self.scenario.metadata == Metadata::Dropped;
        if nameless || self.facts.is_empty() || usize::from(self.topic.life) + 1 >= TOPIC_IDS.len()
        {
            return false;
        }
        self.topic.life += 1;
        self.topic.first_partitions = self.topic.logs.len();
        let tombstones = self.random.percent(50);
        for p in 0..self.topic.logs.len() {
            self.topic.logs[p] = Log::default();
            let (offset, metadata) = (
                self.group.positions[p].offset,
                self.group.positions[p].metadata.clone(),
            );
            let position = self.new_load(p, Begin::At(0));
            // Deleting a topic takes its positions along; what a session of before commits after that comes back.
            if !tombstones && !metadata.is_empty() {
                (position.offset, position.metadata) = (offset, metadata);
            }
        }
        self.cover.crash_point(18);
        true
    }

    fn retain(&mut self, p: usize) -> bool {
        let log = &mut self.topic.logs[p];
        let next = self.group.positions[p].offset.unwrap_or(0).max(log.low);
        let most = (log.high() - next).min(12);
        if most <= 0 {
            return false;
        }
        let planned = self.group.positions[p]
            .plan
            .iter()
            .find(|range| range.1 - range.0 > 1 && range.0 >= next && range.1 <= log.high());
        log.low = match planned {
            Some(range) if self.random.percent(60) => range.1 - 1,
            _ => next + 1 + self.random.below(most as u64) as i64,
        };
        true
    }

    /// An unclean leader election: the end of the log is gone, and the position or its plan reaches beyond.
    fn truncate(&mut self, p: usize) -> bool {
        let position = &self.group.positions[p];
        let (Some(offset), log) = (position.offset, &self.topic.logs[p]) else {
            return false;
        };
        let end = position.plan.last().map_or(offset, |range| range.1);
        let low = log.low.max(offset - 3);
        if !position.begun || end <= low || log.high() < end || offset < log.low {
            return false;
        }
        let high = low + self.random.below((end - low) as u64) as i64;
        let reached = self.topic.logs[p].high();
        self.topic.logs[p].records.truncate(high as usize);
        self.topic.logs[p].version += 1;
        let tokens = if self.shared { reached } else { end };
        let (metadata, begin) = (position.metadata.clone(), Begin::At(offset.min(high)));
        let position = self.new_load(p, begin);
        (position.offset, position.metadata) = (Some(offset), metadata);
        self.cuts[p] = Some(Cut {
            load: position.load,
            at: high,
            end,
            tokens,
            unseen: high,
            resumed: false,
        });
        self.cover.crash_point(20);
        true
    }

    /// Takes records away, those of a declared range first.
    fn compact(&mut self, p: usize) -> bool {
        let Some(&(start, end, _)) = self.group.positions[p].plan.first() else {
            return false;
        };
        for offset in start..end.min(self.topic.logs[p].high() - 1) {
            let gone = self.random.percent(40);
            let record = &mut self.topic.logs[p].records[offset as usize];
            if gone && *record == Record::Row {
                *record = Record::Compacted;
            }
        }
        self.cover.crash_point(17);
        true
    }

    /// Workers that start from now on may have it; one at least does.
    fn change_mapping(&mut self) -> bool {
        if self.newest_mapping + 1 < super::world::MAPPINGS.len() {
            self.newest_mapping += 1;
        }
        true
    }

    /// All workers are started again with the other guarantee.
    fn change_guarantee(&mut self) -> bool {
        self.scenario.guarantee = match self.scenario.guarantee {
            Guarantee::ExactlyOnce => Guarantee::AtLeastOnce,
            Guarantee::AtLeastOnce => Guarantee::ExactlyOnce,
        };
        for w in 0..self.workers.len() {
            match self.random.below(3) {
                0 if self.workers[w].alive => self.crash(w),
                1 if self.workers[w].runs() => self.may_stop(w),
                _ => {}
            }
        }
        true
    }

    fn grow(&mut self) -> bool {
        if self.topic.logs.len() >= 4 {
            return false;
        }
        self.topic.logs.push(Log::default());
        self.group.positions.push(Position::new(Begin::First, 0));
        if self.facts.is_empty() {
            self.topic.first_partitions = self.topic.logs.len();
        }
        self.readers.push(0);
        self.epochs.push(None);
        self.cuts.push(None);
        self.group.prepare(self.time);
        true
    }

    /// A new coordinator has not got the last commit.
    fn roll_back(&mut self, p: usize) -> bool {
        let position = &mut self.group.positions[p];
        let Some(before) = position.before.take() else {
            return false;
        };
        let offset = before.offset.unwrap_or(0);
        let lost = position
            .plan
            .last()
            .map(|range| range.1)
            .or(position.offset);
        *position = *before;
        self.rolled_back |= 1 << p;
        self.excuse(self.topic.life, p, offset, lost.unwrap_or(offset));
        self.cover.crash_point(14);
        true
    }

    /// Hours in which others write the table. A process that stands between its look at the gate and its send is no part
    /// of the promise then.
    fn pause_long(&mut self) -> bool {
        let mut tasks = self
            .workers
            .iter()
            .flat_map(|worker| worker.slots.iter().flat_map(|slot| &slot.tasks));
        if tasks.any(|task| task.step == Step::Checked) || self.time < DECLARATION_MS {
            return false;
        }
        let hours = 1 + self.random.below(5);
        let used = self.random.below(4 * self.scenario.window);
        self.advance(hours * 3_600_000);
        let second = self.second();
        self.table.use_entries(used, second);
        true
    }

    /// A row policy hides the table from those who ask.
    fn hide_rows(&mut self) -> bool {
        self.table.visible = false;
        true
    }

    /// Time passes: live clients show themselves, other writers use the table.
    pub(super) fn advance(&mut self, ms: u64) {
        self.time += ms;
        for w in 0..self.workers.len() {
            let worker = &self.workers[w];
            if worker.runs() && worker.cut_until <= self.time {
                let process = worker.process;
                let time = self.time;
                for member in self
                    .group
                    .members
                    .iter_mut()
                    .filter(|member| (member.worker, member.process) == (w, process))
                {
                    member.seen = time;
                }
            }
        }
    }

    /// As many entries as the design allows others in that time: a tenth of the window in the life of a declaration.
    pub(super) fn write_others(&mut self, ms: u64) {
        let most = self.scenario.window / 10 * ms / (DECLARATION_MS + INSERT_MS);
        if most > 0 {
            let (count, second) = (self.random.below(most), self.second());
            self.table.use_entries(count, second);
        }
    }
}
