//! The records of a run, produced while it goes on: most plain, some in transactions, some of those aborted.
//!
//! Must not be here: what is done to the servers meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};

use super::scene::{ABORTED_FROM, NAME, PARTITIONS, render_record};
use crate::produce::{Producer, Transactions};
use crate::wait::eventually_eq;

/// Between two batches of the flow.
const TICK: Duration = Duration::from_millis(50);
/// Ticks from the start of a transaction to the start of the next one.
const TRANSACTION_EVERY: u64 = 30;
/// Ticks that a transaction stays open.
const TRANSACTION_OPEN: u64 = 4;
/// Records of a transaction.
const TRANSACTION_RECORDS: u64 = 64;

/// What was produced in the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Produced {
    /// Records that stay: their ids are 0 to below this number.
    pub(crate) records: u64,
    /// Records of aborted transactions.
    pub(crate) aborted: u64,
}

#[derive(Debug, Default)]
struct Shared {
    /// Records that may be produced by now.
    allowed: AtomicU64,
    sent: AtomicU64,
    finishing: AtomicBool,
    no_transactions: AtomicBool,
    in_transaction: AtomicBool,
}

/// A flow on its way.
#[derive(Debug)]
pub(crate) struct Flow {
    shared: Arc<Shared>,
    records: u64,
    thread: JoinHandle<Result<Produced>>,
}

impl Flow {
    /// Starts to produce so many records, as far as [`Self::allow`] lets it.
    pub(crate) fn start(brokers: &str, records: u64) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        // A broker that was away must not make copies: then the harness would count wrongly.
        let plain = Producer::with(brokers, &[("enable.idempotence", "true")])?;
        let source = Source {
            plain,
            transactions: Transactions::new(brokers, NAME)?,
            shared: Arc::clone(&shared),
            records,
            tick: 0,
            produced: Produced::default(),
            open: Vec::new(),
        };
        let thread = std::thread::spawn(move || source.run());
        Ok(Self {
            shared,
            records,
            thread,
        })
    }

    /// Lets the flow go on to the share `done` of `all`; the nearer it is, the thinner it gets.
    pub(crate) fn allow(&self, done: usize, all: usize) {
        let (done, all) = (done as u64, all.max(1) as u64);
        let allowed = self.records.saturating_mul(done.min(all)) / all;
        self.shared.allowed.store(allowed, Ordering::Relaxed);
    }

    /// Records sent so far.
    pub(crate) fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::Relaxed)
    }

    /// True where it has ended, well or not.
    pub(crate) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends the open transaction and begins none until [`Self::resume_transactions`]: a transaction whose commit has no
    /// answer could not be counted.
    pub(crate) fn pause_transactions(&self) -> Result<()> {
        self.shared.no_transactions.store(true, Ordering::Release);
        let open = || {
            let open = self.shared.in_transaction.load(Ordering::Acquire);
            Ok(open && !self.has_ended())
        };
        eventually_eq(
            Duration::from_mins(1),
            "a transaction is open",
            &false,
            open,
        )
    }

    pub(crate) fn resume_transactions(&self) {
        self.shared.no_transactions.store(false, Ordering::Release);
    }

    /// Produces what is left and waits until the broker has it all.
    pub(crate) fn finish(self) -> Result<Produced> {
        self.allow(1, 1);
        self.shared.finishing.store(true, Ordering::Relaxed);
        self.thread
            .join()
            .map_err(|_| anyhow!("the producer has panicked"))?
    }
}

struct Source {
    plain: Producer,
    transactions: Transactions,
    shared: Arc<Shared>,
    records: u64,
    tick: u64,
    produced: Produced,
    /// Ids in the open transaction; empty: none is open.
    open: Vec<u64>,
}

impl Source {
    fn run(mut self) -> Result<Produced> {
        while self.produced.records < self.records {
            self.run_transaction()?;
            for _ in 0..self.decide_share() {
                let id = self.next_id();
                self.plain.send_json(NAME, place(id), &render_record(id))?;
            }
            self.plain.poll();
            self.shared
                .sent
                .store(self.produced.records, Ordering::Relaxed);
            self.tick += 1;
            std::thread::park_timeout(TICK);
        }
        self.end_transaction()?;
        self.plain.flush()?;
        Ok(self.produced)
    }

    fn next_id(&mut self) -> u64 {
        let id = self.produced.records;
        self.produced.records += 1;
        id
    }

    fn decide_share(&self) -> u64 {
        let left = self.records - self.produced.records;
        let allowed = self.shared.allowed.load(Ordering::Relaxed);
        let ahead = allowed.saturating_sub(self.produced.records);
        let finishing = self.shared.finishing.load(Ordering::Relaxed);
        decide_share(ahead, finishing).min(left)
    }

    /// Begins or ends a transaction where it is time for it.
    fn run_transaction(&mut self) -> Result<()> {
        let refused = self.shared.no_transactions.load(Ordering::Acquire);
        let phase = self.tick % TRANSACTION_EVERY;
        if self.open.is_empty() {
            let room = self.records - self.produced.records > TRANSACTION_RECORDS;
            if phase == 0 && !refused && room {
                return self.begin_transaction();
            }
        } else if refused || phase == TRANSACTION_OPEN {
            return self.end_transaction();
        }
        Ok(())
    }

    fn begin_transaction(&mut self) -> Result<()> {
        self.shared.in_transaction.store(true, Ordering::Release);
        if self.shared.no_transactions.load(Ordering::Acquire) {
            self.shared.in_transaction.store(false, Ordering::Release);
            return Ok(());
        }
        let aborts = (self.tick / TRANSACTION_EVERY).is_multiple_of(2);
        self.transactions.begin()?;
        for _ in 0..TRANSACTION_RECORDS {
            let id = if aborts {
                self.produced.aborted += 1;
                ABORTED_FROM + self.produced.aborted
            } else {
                self.next_id()
            };
            self.transactions
                .send_json(NAME, place(id), &render_record(id))?;
            self.open.push(id);
        }
        self.transactions.flush()
    }

    fn end_transaction(&mut self) -> Result<()> {
        match self.open.first() {
            None => return Ok(()),
            Some(id) if *id >= ABORTED_FROM => self.transactions.abort()?,
            Some(_) => self.transactions.commit()?,
        }
        self.open.clear();
        self.shared.in_transaction.store(false, Ordering::Release);
        if self.produced.records > self.records {
            bail!("more records were produced than asked for");
        }
        Ok(())
    }
}

/// Records of one tick: never none, so that ranges are in flight at any moment.
fn decide_share(ahead: u64, finishing: bool) -> u64 {
    let part = if finishing { 5 } else { 50 };
    (ahead / part).max(8)
}

/// Which partition an id goes to; table partitions and topic partitions are independent of each other.
fn place(id: u64) -> i32 {
    let partitions = u64::try_from(PARTITIONS).unwrap_or(1);
    i32::try_from(id / 4 % partitions).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::chaos::scene::BUCKETS;

    #[test]
    fn the_flow_gets_thinner_and_never_stops() {
        assert_eq!(decide_share(10_000, false), 200);
        assert_eq!(decide_share(0, false), 8);
        assert_eq!(decide_share(10_000, true), 2_000);
    }

    #[test]
    fn every_partition_gets_records_of_every_table_partition() {
        let pairs: BTreeSet<(i32, u64)> = (0..1_000).map(|id| (place(id), id % BUCKETS)).collect();
        assert_eq!(pairs.len(), 8 * 4);
    }
}
