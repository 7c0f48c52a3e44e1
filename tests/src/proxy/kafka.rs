//! The proxy in front of a broker's fault listener: it knows frames and API keys, nothing else of the protocol.
//!
//! Each frame is a length (4 bytes) and a message; a request starts with its API key (2 bytes), version (2 bytes) and
//! correlation id (4 bytes), a reply with the correlation id. Must not be here: what is in a message.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::{Acceptor, Streams, lock};
use crate::stack::kafka::FaultPort;

mod edit;

/// Longer frames are taken for a broken connection.
const MAX_FRAME: usize = 256 << 20;

/// Kind of a request, Kafka's API key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ApiKey(pub i16);

impl ApiKey {
    /// Produce.
    pub const PRODUCE: Self = Self(0);
    /// Fetch.
    pub const FETCH: Self = Self(1);
    /// Metadata.
    pub const METADATA: Self = Self(3);
    /// `OffsetCommit`.
    pub const OFFSET_COMMIT: Self = Self(8);
    /// `OffsetFetch`.
    pub const OFFSET_FETCH: Self = Self(9);
    /// `JoinGroup` (classic protocol).
    pub const JOIN_GROUP: Self = Self(11);
    /// Heartbeat (classic protocol).
    pub const HEARTBEAT: Self = Self(12);
    /// `LeaveGroup` (classic protocol).
    pub const LEAVE_GROUP: Self = Self(13);
    /// `SyncGroup` (classic protocol).
    pub const SYNC_GROUP: Self = Self(14);
    /// `ConsumerGroupHeartbeat` (KIP-848).
    pub const CONSUMER_GROUP_HEARTBEAT: Self = Self(68);
}

/// What is done to a client's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KafkaFault {
    /// Nothing.
    Pass,
    /// All connections are closed, new ones at once.
    Cut,
    /// Nothing goes through in either direction until the fault is changed; then it all does, in order.
    Hang,
    /// Each request waits this long.
    Delay(Duration),
    /// Requests of this kind are kept until the fault is changed; the others pass them.
    HoldRequests(ApiKey),
    /// Requests of this kind reach the broker; their replies are kept until the fault is changed.
    HoldReplies(ApiKey),
    /// Commits reach the broker; their replies say this error for every partition.
    RefuseCommits(i16),
    /// What was committed beside an offset is told as if somebody had written something else.
    SpoilMetadata,
}

impl KafkaFault {
    fn holds_request(self, key: ApiKey) -> bool {
        self == Self::Hang || self == Self::HoldRequests(key)
    }

    fn holds_reply(self, key: Option<ApiKey>) -> bool {
        self == Self::Hang || key.is_some_and(|key| self == Self::HoldReplies(key))
    }

    /// The reply as the client gets it.
    fn edit(self, key: Option<ApiKey>, frame: Vec<u8>) -> io::Result<Vec<u8>> {
        match (self, key) {
            (Self::RefuseCommits(code), Some(ApiKey::OFFSET_COMMIT)) => {
                edit::refuse_commit(frame, code).ok_or_else(|| io::ErrorKind::InvalidData.into())
            }
            (Self::SpoilMetadata, Some(ApiKey::OFFSET_FETCH)) => Ok(edit::blank(frame, b"cs1;")),
            _ => Ok(frame),
        }
    }
}

#[derive(Debug)]
struct Shared {
    broker: String,
    fault: Mutex<KafkaFault>,
    streams: Streams,
    connections: Mutex<Vec<Arc<Connection>>>,
    requests: Mutex<BTreeMap<ApiKey, usize>>,
}

/// One client connection and its connection to the broker.
#[derive(Debug)]
struct Connection {
    client: TcpStream,
    broker: TcpStream,
    kept_requests: Mutex<Vec<(ApiKey, Vec<u8>)>>,
    kept_replies: Mutex<Vec<(Option<ApiKey>, Vec<u8>)>>,
    /// Kinds of the requests that the broker has not answered, by correlation id.
    asked: Mutex<BTreeMap<i32, ApiKey>>,
}

/// The proxy; dropping it closes its port and all connections and lets another test use the listener.
#[derive(Debug)]
pub struct KafkaProxy {
    bootstrap: String,
    shared: Arc<Shared>,
    _acceptor: Acceptor,
    _lease: File,
}

impl KafkaProxy {
    /// Takes a fault listener of the list in `fault_ports` that nobody uses and stands before it; waits up to two
    /// minutes for one.
    ///
    /// # Errors
    /// Where none gets free.
    pub fn start(fault_ports: &Path) -> Result<Self> {
        let (port, lease) = lease_port(fault_ports, Duration::from_mins(2))?;
        let shared = Arc::new(Shared {
            broker: format!("127.0.0.1:{}", port.broker),
            fault: Mutex::new(KafkaFault::Pass),
            streams: Streams::default(),
            connections: Mutex::default(),
            requests: Mutex::default(),
        });
        let bootstrap = format!("127.0.0.1:{}", port.advertised);
        let serving = Arc::clone(&shared);
        let acceptor = Acceptor::start(&bootstrap, move |client| serving.serve(client));
        Ok(Self {
            _acceptor: acceptor
                .with_context(|| format!("cannot listen on {bootstrap} for the Kafka proxy"))?,
            bootstrap,
            shared,
            _lease: lease,
        })
    }

    /// `bootstrap.servers` of the client under test: all its connections come through here.
    #[must_use]
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// From now on everything passes; what was kept goes on its way, in order.
    pub fn pass(&self) {
        self.set(KafkaFault::Pass);
    }

    /// From now on this is done.
    pub fn set(&self, fault: KafkaFault) {
        *lock(&self.shared.fault) = fault;
        if fault == KafkaFault::Cut {
            self.shared.streams.close_all();
            return;
        }
        for connection in lock(&self.shared.connections).iter() {
            connection.release(fault);
        }
    }

    /// Requests of this kind so far, kept ones included.
    #[must_use]
    pub fn requests(&self, key: ApiKey) -> usize {
        lock(&self.shared.requests).get(&key).copied().unwrap_or(0)
    }

    /// Requests and replies of this kind that are kept now.
    #[must_use]
    pub fn held(&self, key: ApiKey) -> usize {
        let connections = lock(&self.shared.connections);
        connections
            .iter()
            .map(|connection| connection.count_kept(key))
            .sum()
    }
}

impl Drop for KafkaProxy {
    fn drop(&mut self) {
        self.set(KafkaFault::Cut);
    }
}

/// Takes a fault port by its lock file, so that test processes that run side by side never share one.
fn lease_port(list: &Path, patience: Duration) -> Result<(FaultPort, File)> {
    let bytes = fs::read(list).with_context(|| format!("cannot read {}", list.display()))?;
    let ports: Vec<FaultPort> = serde_json::from_slice(&bytes)?;
    let give_up = Instant::now() + patience;
    loop {
        for port in &ports {
            let lease =
                File::create(list.with_file_name(format!("fault-{}.lock", port.advertised)))?;
            if lease.try_lock().is_ok() {
                return Ok((port.clone(), lease));
            }
        }
        if Instant::now() > give_up {
            bail!("all {} fault listeners of Kafka are in use", ports.len());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

impl Shared {
    fn serve(&self, client: TcpStream) {
        let Ok(connection) = self.open(client) else {
            return;
        };
        let connection = Arc::new(connection);
        lock(&self.connections).push(Arc::clone(&connection));
        let number = self.streams.add(&[&connection.client, &connection.broker]);
        if *lock(&self.fault) != KafkaFault::Cut {
            std::thread::scope(|scope| {
                scope.spawn(|| run_direction(&connection, || self.pass_replies(&connection)));
                run_direction(&connection, || self.pass_requests(&connection));
            });
        }
        self.streams.forget(number);
        lock(&self.connections).retain(|other| !Arc::ptr_eq(other, &connection));
    }

    fn open(&self, client: TcpStream) -> io::Result<Connection> {
        let broker = TcpStream::connect(&self.broker)?;
        client.set_nodelay(true)?;
        broker.set_nodelay(true)?;
        Ok(Connection {
            client,
            broker,
            kept_requests: Mutex::default(),
            kept_replies: Mutex::default(),
            asked: Mutex::default(),
        })
    }

    fn pass_requests(&self, connection: &Connection) -> io::Result<()> {
        let mut client = &connection.client;
        while let Some(frame) = read_frame(&mut client)? {
            let key = parse_api_key(&frame).ok_or(io::ErrorKind::InvalidData)?;
            *lock(&self.requests).entry(key).or_default() += 1;
            let fault = lock(&self.fault);
            if fault.holds_request(key) {
                // Still under the lock of the fault: a change after it will find the frame.
                lock(&connection.kept_requests).push((key, frame));
                continue;
            }
            let fault = *fault;
            if let KafkaFault::Delay(delay) = fault {
                std::thread::sleep(delay);
            }
            connection.send_request(key, &frame)?;
        }
        Ok(())
    }

    fn pass_replies(&self, connection: &Connection) -> io::Result<()> {
        let mut broker = &connection.broker;
        while let Some(frame) = read_frame(&mut broker)? {
            let key =
                parse_correlation(&frame, 4).and_then(|id| lock(&connection.asked).remove(&id));
            let fault = lock(&self.fault);
            if fault.holds_reply(key) {
                lock(&connection.kept_replies).push((key, frame));
                continue;
            }
            let frame = fault.edit(key, frame)?;
            drop(fault);
            (&connection.client).write_all(&frame)?;
        }
        Ok(())
    }
}

impl Connection {
    fn send_request(&self, key: ApiKey, frame: &[u8]) -> io::Result<()> {
        // Held until the frame is written: two threads (a release, and the next request) may send.
        let mut asked = lock(&self.asked);
        if let Some(id) = parse_correlation(frame, 8) {
            asked.insert(id, key);
        }
        (&self.broker).write_all(frame)
    }

    /// Sends on what the new fault no longer keeps. A closed connection's frames are lost, as on any network.
    fn release(&self, fault: KafkaFault) {
        let mut requests = lock(&self.kept_requests);
        for (key, frame) in requests.extract_if(.., |(key, _)| !fault.holds_request(*key)) {
            let _ = self.send_request(key, &frame);
        }
        let mut replies = lock(&self.kept_replies);
        for (_, frame) in replies.extract_if(.., |(key, _)| !fault.holds_reply(*key)) {
            let _ = (&self.client).write_all(&frame);
        }
    }

    fn count_kept(&self, key: ApiKey) -> usize {
        let requests = lock(&self.kept_requests)
            .iter()
            .filter(|(other, _)| *other == key)
            .count();
        let replies = lock(&self.kept_replies)
            .iter()
            .filter(|(other, _)| *other == Some(key))
            .count();
        requests + replies
    }
}

/// One direction, to its end; then both streams are closed, which ends the other one.
fn run_direction(connection: &Connection, pass: impl Fn() -> io::Result<()>) {
    let _ = pass();
    let _ = connection.client.shutdown(Shutdown::Both);
    let _ = connection.broker.shutdown(Shutdown::Both);
}

/// A frame with its length; `None` where the connection ended between two frames.
fn read_frame(stream: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    match stream.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        outcome => outcome?,
    }
    let count =
        usize::try_from(i32::from_be_bytes(length)).map_err(|_| io::ErrorKind::InvalidData)?;
    if count > MAX_FRAME {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut frame = length.to_vec();
    frame.resize(4 + count, 0);
    stream.read_exact(frame.get_mut(4..).unwrap_or_default())?;
    Ok(Some(frame))
}

fn parse_api_key(frame: &[u8]) -> Option<ApiKey> {
    let bytes = frame.get(4..6)?.try_into().ok()?;
    Some(ApiKey(i16::from_be_bytes(bytes)))
}

fn parse_correlation(frame: &[u8], at: usize) -> Option<i32> {
    let bytes = frame.get(at..at + 4)?.try_into().ok()?;
    Some(i32::from_be_bytes(bytes))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
#[path = "kafka/tests.rs"]
mod tests;
