//! How librdkafka's threads wake the shard thread: the handle that a queue event unparks.
//!
//! Must not be here: anything that blocks or takes a lock, since it runs inside librdkafka with a queue locked.

use std::thread::Thread;

/// A clonable handle that ends `std::thread::park` of one thread.
///
/// A wake before the thread parks is kept (as with `Thread::unpark`), so "poll everything, then park" loses none.
#[derive(Clone, Debug)]
pub struct Waker {
    thread: Thread,
}

impl Waker {
    /// Wakes `thread`.
    #[must_use]
    pub fn new(thread: Thread) -> Self {
        Self { thread }
    }

    /// Wakes the calling thread.
    #[must_use]
    pub fn for_current_thread() -> Self {
        Self::new(std::thread::current())
    }

    /// Ends the thread's `park`, now or the next time it parks.
    pub fn wake(&self) {
        self.thread.unpark();
    }
}
