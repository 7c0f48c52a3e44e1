//! The proxy in front of `ClickHouse`'s HTTP interface: faults per request, and a record of all requests.
//!
//! Must not be here: what a fault is and whom it concerns (`fault`).

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};

use super::body::{Framing, Head, Truncating, copy_body};
use super::fault::{Canned, Fault, On, Rule};
use super::{Acceptor, Streams, lock};
use crate::ports::PortLease;

pub use seen::Seen;
use seen::parse_seen;

mod seen;

#[derive(Debug)]
struct Shared {
    upstream: String,
    rule: Mutex<Rule>,
    /// Counts the changes of the rule.
    changes: AtomicU64,
    seen: Mutex<Vec<Seen>>,
    streams: Streams,
}

/// The proxy; dropping it closes its port and all connections.
#[derive(Debug)]
pub struct ClickHouseProxy {
    port: PortLease,
    shared: Arc<Shared>,
    _acceptor: Acceptor,
}

impl ClickHouseProxy {
    /// Listens on a free port in front of `upstream` (`host:port`).
    ///
    /// # Errors
    /// Where no port is free.
    pub fn start(upstream: &str) -> Result<Self> {
        let shared = Arc::new(Shared {
            upstream: upstream.to_owned(),
            rule: Mutex::new(Rule::pass()),
            changes: AtomicU64::new(0),
            seen: Mutex::default(),
            streams: Streams::default(),
        });
        let port = PortLease::take()?;
        let serving = Arc::clone(&shared);
        let acceptor = Acceptor::start(&port.address(), move |client| serving.serve(&client));
        Ok(Self {
            _acceptor: acceptor.context("cannot listen for the ClickHouse proxy")?,
            port,
            shared,
        })
    }

    /// `http://127.0.0.1:<port>`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.port.address())
    }

    /// `127.0.0.1:<port>`.
    #[must_use]
    pub fn address(&self) -> String {
        self.port.address()
    }

    /// From now on every request passes.
    pub fn pass(&self) {
        self.change(Rule::pass());
    }

    /// From now on this is done to every request.
    pub fn set(&self, fault: Fault) {
        self.set_on(fault, On::All);
    }

    /// From now on this is done to some requests, and the others pass.
    pub fn set_on(&self, fault: Fault, on: On) {
        self.change(Rule {
            fault,
            on,
            times: None,
        });
    }

    /// This is done to the next `times` of the requests, then all pass.
    pub fn fail_next(&self, times: u32, fault: Fault, on: On) {
        self.change(Rule {
            fault,
            on,
            times: Some(times),
        });
    }

    fn change(&self, rule: Rule) {
        let closes = rule.fault == Fault::Cut && rule.on == On::All && rule.times.is_none();
        *lock(&self.shared.rule) = rule;
        self.shared.changes.fetch_add(1, Ordering::AcqRel);
        if closes {
            self.shared.streams.close_all();
        }
    }

    /// All requests so far, in the order in which their heads came.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        lock(&self.shared.seen).clone()
    }

    /// The INSERTs among [`Self::seen`].
    #[must_use]
    pub fn inserts(&self) -> Vec<Seen> {
        self.seen().into_iter().filter(Seen::is_insert).collect()
    }

    /// Forgets the requests so far.
    pub fn clear_seen(&self) {
        lock(&self.shared.seen).clear();
    }
}

impl Drop for ClickHouseProxy {
    fn drop(&mut self) {
        self.change(Rule {
            fault: Fault::Cut,
            on: On::All,
            times: None,
        });
    }
}

/// Whether the client's connection can take another request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    KeepAlive,
    Close,
}

impl Shared {
    fn serve(&self, client: &TcpStream) {
        let number = self.streams.add(&[client]);
        if !self.is_cut() {
            // An error is a connection that ended: there is nobody left to tell.
            let _ = self.serve_requests(client);
        }
        let _ = client.shutdown(std::net::Shutdown::Both);
        self.streams.forget(number);
    }

    fn is_cut(&self) -> bool {
        let rule = lock(&self.rule);
        rule.fault == Fault::Cut && rule.on == On::All && rule.times.is_none()
    }

    fn serve_requests(&self, client: &TcpStream) -> io::Result<()> {
        client.set_nodelay(true)?;
        let mut reader = BufReader::with_capacity(64 << 10, client);
        while let Some(head) = Head::read(&mut reader)? {
            let next = self.serve_request(&head, &mut reader, client)?;
            if next == Next::Close || head.asks_to_close() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn serve_request(
        &self,
        head: &Head,
        body: &mut impl BufRead,
        client: &TcpStream,
    ) -> io::Result<Next> {
        if head.header("expect").is_some() {
            (&*client).write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        let framing = head.framing(Framing::Length(0));
        let seen = parse_seen(head, framing, body)?;
        let fault = lock(&self.rule).decide(&seen.target, &seen.statement);
        let number = self.note(Seen {
            fault: fault.clone(),
            ..seen
        });
        let exchange = Exchange {
            head,
            framing,
            client,
            shared: self,
            number,
        };
        exchange.run(&fault, body)
    }

    fn note(&self, seen: Seen) -> usize {
        let mut all = lock(&self.seen);
        all.push(seen);
        all.len() - 1
    }
}

/// One request and its reply.
struct Exchange<'a> {
    head: &'a Head,
    framing: Framing,
    client: &'a TcpStream,
    shared: &'a Shared,
    /// Index in `seen`.
    number: usize,
}

impl Exchange<'_> {
    fn run(&self, fault: &Fault, body: &mut impl BufRead) -> io::Result<Next> {
        match fault {
            // A mix was drawn from when the rule was asked.
            Fault::Pass | Fault::Mix(_) => self.forward(body, usize::MAX, usize::MAX),
            Fault::Delay(delay) => {
                std::thread::sleep(*delay);
                self.forward(body, usize::MAX, usize::MAX)
            }
            Fault::DelayReply(delay) => {
                let mut upstream = self.ask(body, usize::MAX)?;
                let reply = self.read_reply_head(&mut upstream)?;
                std::thread::sleep(*delay);
                self.pass_reply(&reply, &mut upstream, usize::MAX)
            }
            Fault::TruncateReply(bytes) => self.forward(body, usize::MAX, *bytes),
            Fault::TruncateRequest(bytes) => self.forward(body, *bytes, usize::MAX),
            Fault::Cut => Ok(Next::Close),
            Fault::Hang => self.hang(body),
            Fault::DropReply => self.ask_and_discard(body).map(|()| Next::Close),
            Fault::Replace(canned) => {
                copy_body(body, &mut io::sink(), self.framing)?;
                self.answer(canned)
            }
            Fault::ReplaceReply(canned) => {
                self.ask_and_discard(body)?;
                self.answer(canned)
            }
        }
    }

    fn answer(&self, canned: &Canned) -> io::Result<Next> {
        let mut client = self.client;
        client.write_all(&canned.render())?;
        Ok(Next::KeepAlive)
    }

    /// Sends the request on; gives the connection on which the reply comes.
    fn ask(
        &self,
        body: &mut impl BufRead,
        request_bytes: usize,
    ) -> io::Result<BufReader<TcpStream>> {
        // A connection of its own for each request: none can have been closed by the server while it was idle.
        let mut upstream = TcpStream::connect(&self.shared.upstream)?;
        upstream.set_nodelay(true)?;
        upstream.write_all(&remove_expect(&self.head.bytes))?;
        let mut limited = Truncating {
            inner: &upstream,
            left: request_bytes,
        };
        copy_body(body, &mut limited, self.framing)?;
        Ok(BufReader::with_capacity(64 << 10, upstream))
    }

    fn read_reply_head(&self, upstream: &mut impl BufRead) -> io::Result<Head> {
        let reply = Head::read(upstream)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        if let Some(seen) = lock(&self.shared.seen).get_mut(self.number) {
            seen.server_status = reply.status();
        }
        Ok(reply)
    }

    fn forward(
        &self,
        body: &mut impl BufRead,
        request_bytes: usize,
        reply_bytes: usize,
    ) -> io::Result<Next> {
        let mut upstream = self.ask(body, request_bytes)?;
        let reply = self.read_reply_head(&mut upstream)?;
        self.pass_reply(&reply, &mut upstream, reply_bytes)
    }

    fn pass_reply(
        &self,
        reply: &Head,
        upstream: &mut impl BufRead,
        reply_bytes: usize,
    ) -> io::Result<Next> {
        let mut client = self.client;
        client.write_all(&reply.bytes)?;
        let framing = reply.framing(Framing::UntilClose);
        let mut limited = Truncating {
            inner: client,
            left: reply_bytes,
        };
        copy_body(upstream, &mut limited, framing)?;
        Ok(if framing == Framing::UntilClose || reply.asks_to_close() {
            Next::Close
        } else {
            Next::KeepAlive
        })
    }

    /// The request goes through and the reply is awaited to its end, but the client gets nothing of it.
    fn ask_and_discard(&self, body: &mut impl BufRead) -> io::Result<()> {
        let mut upstream = self.ask(body, usize::MAX)?;
        let reply = self.read_reply_head(&mut upstream)?;
        copy_body(
            &mut upstream,
            &mut io::sink(),
            reply.framing(Framing::UntilClose),
        )
    }

    /// Swallows what comes until the client gives up or the fault is changed.
    fn hang(&self, body: &mut impl Read) -> io::Result<Next> {
        let change = self.shared.changes.load(Ordering::Acquire);
        self.client
            .set_read_timeout(Some(Duration::from_millis(50)))?;
        let mut buffer = vec![0; 64 << 10];
        while self.shared.changes.load(Ordering::Acquire) == change {
            match body.read(&mut buffer) {
                Ok(0) => return Ok(Next::Close),
                Ok(_) => {}
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                    ) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Next::Close)
    }
}

/// The proxy has answered it already.
fn remove_expect(head: &[u8]) -> Vec<u8> {
    let lines = head.split_inclusive(|byte| *byte == b'\n');
    let is_expect = |line: &&[u8]| {
        line.get(..7)
            .is_some_and(|name| name.eq_ignore_ascii_case(b"expect:"))
    };
    lines
        .filter(|line| !is_expect(line))
        .collect::<Vec<_>>()
        .concat()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
#[path = "clickhouse/tests.rs"]
mod tests;
