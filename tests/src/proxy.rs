//! Proxies of the harness in front of real servers: faults of the network, switched on and off by a test.
//!
//! Here: what both have in common, connections that can be closed from outside. Must not be here: protocols.

pub mod clickhouse;
pub mod kafka;

mod body;
mod fault;

use std::collections::BTreeMap;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use clickhouse::{ClickHouseProxy, Seen};
pub use fault::{Canned, Fault, Mix, On};
pub use kafka::{ApiKey, KafkaFault, KafkaProxy};

/// Locks; a test thread that panicked elsewhere does not matter to a proxy.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Streams of the connections that are open, to be closed from another thread.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    next: AtomicU64,
    open: Mutex<BTreeMap<u64, Vec<TcpStream>>>,
}

impl Streams {
    /// Notes a connection's streams; gives the number to forget them by.
    pub(crate) fn add(&self, streams: &[&TcpStream]) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let clones = streams
            .iter()
            .filter_map(|stream| stream.try_clone().ok())
            .collect();
        lock(&self.open).insert(number, clones);
        number
    }

    pub(crate) fn forget(&self, number: u64) {
        lock(&self.open).remove(&number);
    }

    /// Closes every connection; their threads end by themselves.
    pub(crate) fn close_all(&self) {
        for stream in std::mem::take(&mut *lock(&self.open))
            .into_values()
            .flatten()
        {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// A thread that accepts connections until it is dropped.
#[derive(Debug)]
pub(crate) struct Acceptor {
    address: String,
    stopped: Arc<AtomicBool>,
}

impl Acceptor {
    pub(crate) fn start(
        address: &str,
        serve: impl Fn(TcpStream) + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let stopped = Arc::new(AtomicBool::new(false));
        let (stop, serve) = (Arc::clone(&stopped), Arc::new(serve));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if stop.load(Ordering::Acquire) {
                    return;
                }
                let serve = Arc::clone(&serve);
                std::thread::spawn(move || serve(stream));
            }
        });
        Ok(Self {
            address: address.to_owned(),
            stopped,
        })
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Release);
        // Wakes the thread, which then lets go of the port.
        let _ = TcpStream::connect(&self.address);
    }
}
