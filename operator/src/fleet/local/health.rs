//! What a worker says about itself: one small HTTP/1.1 GET over loopback, and the reading of its JSON.
//!
//! Must not be here: what follows from it. TLS, redirects and keep-alive have no place between parent and child.

use std::time::Duration;

use clickhouse_sink_crds::facts::TopicFact;
use serde::Deserialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::fleet::{Health, Hold};

/// A worker that does not answer by then counts as not ready.
const DEADLINE: Duration = Duration::from_secs(1);
/// More than any worker says, and little enough to hold.
const MAX_REPLY_BYTES: u64 = 4 << 20;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Readiness {
    ready: bool,
    reasons: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct State {
    sessions: Vec<Session>,
    holds: Vec<Hold>,
    topics: Vec<TopicFact>,
    rows_inserted: u64,
    rejected: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Session {
    lag: Option<i64>,
}

/// Asks a worker on 127.0.0.1; a worker that cannot be asked is not ready, and keeps the figures it gave last.
pub(super) async fn fetch_health(port: u16, last: &Health) -> Health {
    let (readiness, state) = tokio::join!(fetch(port, "/readyz"), fetch(port, "/state"));
    build_health(readiness.as_deref(), state.as_deref(), last)
}

fn build_health(readiness: Option<&[u8]>, state: Option<&[u8]>, last: &Health) -> Health {
    let mut health = last.clone();
    let readiness: Option<Readiness> = readiness.and_then(|body| serde_json::from_slice(body).ok());
    let silent = Readiness {
        ready: false,
        reasons: vec!["NoAnswer".to_owned()],
    };
    Readiness {
        ready: health.ready,
        reasons: health.reasons,
    } = readiness.unwrap_or(silent);
    if let Some(state) = state.and_then(|body| serde_json::from_slice::<State>(body).ok()) {
        health.lag = state
            .sessions
            .iter()
            .filter_map(|session| u64::try_from(session.lag?).ok())
            .sum();
        health.rows_inserted = state.rows_inserted;
        health.rejected = state.rejected;
        health.holds = state.holds;
        health.topics = state.topics;
    }
    health
}

/// The body of a reply with any status: `/readyz` says why with a 503.
async fn fetch(port: u16, path: &str) -> Option<Vec<u8>> {
    let reply = timeout(DEADLINE, fetch_reply(port, path))
        .await
        .ok()?
        .ok()?;
    parse_reply(&reply)
}

async fn fetch_reply(port: u16, path: &str) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut reply = Vec::new();
    stream.take(MAX_REPLY_BYTES).read_to_end(&mut reply).await?;
    Ok(reply)
}

/// The body of an HTTP/1.1 reply that ends with the connection; none where it is not one, or is cut short.
fn parse_reply(reply: &[u8]) -> Option<Vec<u8>> {
    let end = reply.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&reply[..end])
        .ok()?
        .to_ascii_lowercase();
    let body = &reply[end + 4..];
    if !head.starts_with("http/1.") {
        return None;
    }
    if find_header(&head, "transfer-encoding") == Some("chunked") {
        return parse_chunks(body);
    }
    let length = find_header(&head, "content-length").and_then(|length| length.parse().ok());
    body.get(..length.unwrap_or(body.len())).map(<[u8]>::to_vec)
}

fn find_header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .map(str::trim)
}

fn parse_chunks(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = rest.windows(2).position(|window| window == b"\r\n")?;
        let length =
            usize::from_str_radix(std::str::from_utf8(&rest[..line]).ok()?.trim(), 16).ok()?;
        if length == 0 {
            return Some(body);
        }
        rest = &rest[line + 2..];
        body.extend_from_slice(rest.get(..length)?);
        rest = rest[length..].strip_prefix(b"\r\n")?;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_body_is_read_by_length_by_chunks_or_to_the_end() {
        let body = |reply: &str| {
            parse_reply(reply.as_bytes()).map(|body| String::from_utf8(body).unwrap())
        };
        assert_eq!(
            body("HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\nabc").as_deref(),
            Some("ab")
        );
        assert_eq!(body("HTTP/1.1 200 OK\r\n\r\nabc").as_deref(), Some("abc"));
        let chunked =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n";
        assert_eq!(body(chunked).as_deref(), Some("abcd"));
    }

    #[test]
    fn a_reply_that_is_cut_short_is_no_reply() {
        for reply in [
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nab",
            "SSH-2.0\r\n\r\n",
            "",
        ] {
            assert_eq!(parse_reply(reply.as_bytes()), None, "{reply}");
        }
    }

    #[test]
    fn lag_is_summed_over_sessions_and_unknown_fields_do_no_harm() {
        let state = br#"{"sessions":[{"topic":"t","partition":0,"lag":3},{"lag":null},{"lag":4}],"rows_inserted":7,
            "topics":[{"name":"t","id":"x","partitions":2}],
            "holds":[{"partition":"t/0","reason":"TableNotAsDeclared","id":"x","since":1,"message":"m"}],"rejected":1}"#;
        let health = build_health(
            Some(br#"{"ready":true,"reasons":[]}"#),
            Some(state),
            &Health::default(),
        );
        assert_eq!(
            (
                health.ready,
                health.lag,
                health.rows_inserted,
                health.rejected
            ),
            (true, 7, 7, 1)
        );
        assert_eq!(health.holds[0].reason, "TableNotAsDeclared");
        assert_eq!(health.holds[0].id, "x");
        assert_eq!(health.topics[0].partitions, 2);
    }

    #[test]
    fn a_silent_worker_is_not_ready_and_keeps_its_last_figures() {
        let last = Health {
            ready: true,
            rows_inserted: 9,
            ..Health::default()
        };
        let health = build_health(None, None, &last);
        assert_eq!((health.ready, health.rows_inserted), (false, 9));
        assert_eq!(health.reasons, ["NoAnswer"]);
    }
}
