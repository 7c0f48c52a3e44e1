//! The producer of the demo's stream, on a thread of its own.
//!
//! Must not be here: what is shown.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use super::sink::Demo;
use crate::produce::{Producer, stat_event};

/// Events a second: the stream is to last long enough for its accidents.
const RATE: u64 = 40_000;
/// Events between two looks at the clock.
const CHUNK: u64 = 1_000;

/// A stream on its way.
pub(super) struct Stream {
    produced: Arc<AtomicU64>,
    thread: JoinHandle<Result<()>>,
}

impl Stream {
    /// Starts producing so many events.
    pub(super) fn start(demo: &Demo, records: u64) -> Result<Self> {
        let produced = Arc::new(AtomicU64::new(0));
        let (counter, topic) = (Arc::clone(&produced), demo.topic.clone());
        let source = Producer::new(&demo.brokers)?;
        let thread = std::thread::spawn(move || produce(&source, &topic, records, &counter));
        Ok(Self { produced, thread })
    }

    /// Events produced so far.
    pub(super) fn produced(&self) -> u64 {
        self.produced.load(Ordering::Relaxed)
    }

    /// True where the thread has ended, well or not.
    pub(super) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for the end.
    pub(super) fn finish(self) -> Result<()> {
        self.thread
            .join()
            .map_err(|_| anyhow!("the producer has panicked"))?
    }
}

fn produce(producer: &Producer, topic: &str, records: u64, counter: &AtomicU64) -> Result<()> {
    let started = Instant::now();
    for index in 0..records {
        let partition = i32::from(index % 2 == 1);
        producer.send_json(topic, partition, &stat_event(partition, index))?;
        if index % CHUNK == CHUNK - 1 {
            producer.poll();
            counter.store(index + 1, Ordering::Relaxed);
            wait_until(started + Duration::from_millis((index + 1) * 1000 / RATE));
        }
    }
    producer.flush()?;
    counter.store(records, Ordering::Relaxed);
    Ok(())
}

fn wait_until(due: Instant) {
    while let Some(left) = due.checked_duration_since(Instant::now()) {
        std::thread::park_timeout(left);
    }
}
