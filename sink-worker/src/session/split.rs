//! Ranges that cannot go on as they were cut: split down to a refused record, or stopped.
//!
//! Must not be here: what a failure means, commits.

use super::ranges::{MAX_SPLITTING, Stage};
use super::{Now, Session};

impl Session {
    /// A record in `[start, end)` is at fault, and no attempt under that range can have landed: it is replaced by
    /// `[start, at)` and `[at, end)`, which are sent once a commit declares them. One range is refined at a time.
    pub fn on_split(&mut self, start: i64, end: i64, at: i64) {
        if self.gate_open {
            self.splits.push_back((start, end, at));
            self.next_split();
        }
    }

    pub(super) fn next_split(&mut self) {
        if let Some((from, to)) = self.splitting
            && !self.ranges.iter().any(|range| {
                range.start >= from
                    && range.end <= to
                    && matches!(range.stage, Stage::Cut | Stage::Declared)
            })
        {
            self.splitting = None;
        }
        let within =
            |root: (i64, i64), split: &(i64, i64, i64)| root.0 <= split.0 && split.1 <= root.1;
        let place = match self.splitting {
            Some(root) => self.splits.iter().position(|split| within(root, split)),
            None => (!self.splits.is_empty()).then_some(0),
        };
        let Some((start, end, at)) = place
            .filter(|_| self.ranges.len() < MAX_SPLITTING)
            .and_then(|place| self.splits.remove(place))
        else {
            return;
        };
        if self.ranges.split(start, end, at) {
            self.splitting.get_or_insert((start, end));
        }
        self.next_split();
    }

    /// The range cannot go on by itself: it stays declared, and the session is held. With it ends the task that sends it,
    /// and so everything else that a split has made of the same range.
    pub fn on_stopped(
        &mut self,
        start: i64,
        end: i64,
        reason: &'static str,
        message: String,
        now: Now,
    ) {
        let root = self
            .splitting
            .filter(|root| root.0 <= start && end <= root.1);
        let (from, to) = root.unwrap_or((start, end));
        for range in self
            .ranges
            .iter_mut()
            .filter(|range| from <= range.start && range.end <= to)
            .filter(|range| matches!(range.stage, Stage::Cut | Stage::Declared))
        {
            range.stage = Stage::Stopped;
        }
        self.splits.retain(|split| split.0 < from || to < split.1);
        self.next_split();
        self.hold(reason, format!("{start}-{end}"), message, now);
    }
}
