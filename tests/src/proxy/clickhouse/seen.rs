//! What the proxy records of a request.
//!
//! Must not be here: faults, connections.

use std::io::{self, BufRead};
use std::time::Instant;

use crate::http::decode;
use crate::proxy::body::{Framing, Head};
use crate::proxy::fault::{Fault, is_insert};

/// A request that the proxy has seen.
#[derive(Clone, Debug)]
pub struct Seen {
    /// When its head had come.
    pub at: Instant,
    /// `GET`, `POST`.
    pub method: String,
    /// Path and query as sent.
    pub target: String,
    /// The statement from the URL; else the first bytes of the body.
    pub statement: String,
    /// Parameters of the query, decoded.
    pub params: Vec<(String, String)>,
    /// What was done to it.
    pub fault: Fault,
    /// What the server answered; `None` where it has not (yet) or was not asked.
    pub server_status: Option<u16>,
}

impl Seen {
    /// A parameter of the URL, such as `query_id` or `insert_deduplication_token`.
    #[must_use]
    pub fn param(&self, name: &str) -> Option<&str> {
        self.params
            .iter()
            .find(|(other, _)| other == name)
            .map(|(_, value)| value.as_str())
    }

    /// True for an INSERT.
    #[must_use]
    pub fn is_insert(&self) -> bool {
        is_insert(&self.statement)
    }
}

pub(super) fn parse_seen(
    head: &Head,
    framing: Framing,
    body: &mut impl BufRead,
) -> io::Result<Seen> {
    let mut words = head.first.split(' ');
    let method = words.next().unwrap_or_default().to_owned();
    let target = words.next().unwrap_or_default().to_owned();
    let params = parse_params(&target);
    let in_url = params
        .iter()
        .find(|(name, _)| name == "query")
        .map(|(_, value)| value.clone());
    let statement = match in_url {
        Some(statement) => statement,
        None if framing == Framing::Length(0) => String::new(),
        None => peek_statement(framing, body)?,
    };
    Ok(Seen {
        at: Instant::now(),
        method,
        target,
        statement,
        params,
        fault: Fault::Pass,
        server_status: None,
    })
}

/// The body's first bytes as far as they have come, without taking them.
fn peek_statement(framing: Framing, body: &mut impl BufRead) -> io::Result<String> {
    let bytes = body.fill_buf()?;
    let text = String::from_utf8_lossy(bytes.get(..bytes.len().min(4096)).unwrap_or_default());
    let statement = match framing {
        Framing::Chunked => text.split_once("\r\n").map_or("", |(_, rest)| rest),
        _ => &text,
    };
    Ok(statement.to_owned())
}

fn parse_params(target: &str) -> Vec<(String, String)> {
    let query = target.split_once('?').map_or("", |(_, query)| query);
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (decode(name), decode(value)))
        .collect()
}
