//! A small blocking HTTP/1.1 client for loopback addresses, one request per connection.
//!
//! Must not be here: what is asked and what the answers mean.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// What to send.
#[derive(Clone, Debug, Default)]
pub struct Request<'a> {
    /// `GET`, `POST`.
    pub method: &'a str,
    /// Path and query, percent-encoded.
    pub target: &'a str,
    /// Further headers.
    pub headers: &'a [(&'a str, &'a str)],
    /// The body; empty: none.
    pub body: &'a [u8],
}

/// What came back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Headers with lower-case names.
    pub headers: Vec<(String, String)>,
    /// The body, put together from its chunks.
    pub body: Vec<u8>,
}

impl Response {
    /// First value of a header, by its lower-case name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        find_header(&self.headers, name)
    }

    /// The body as text, without the white space at its end.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).trim_end().to_owned()
    }
}

/// First value of a header among parsed ones.
pub(crate) fn find_header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers
        .iter()
        .find(|(other, _)| other == name)
        .map(|(_, value)| value.as_str())
}

/// Sends one request to `address` (`host:port`) and reads the whole answer; each wait lasts at most `timeout`.
///
/// # Errors
/// Network errors, and an answer that is not HTTP or ends too early.
pub fn send(address: &str, request: &Request<'_>, timeout: Duration) -> io::Result<Response> {
    let resolved = address.to_socket_addrs()?.next();
    let resolved = resolved.ok_or_else(|| malformed("the address has no host"))?;
    let mut stream = TcpStream::connect_timeout(&resolved, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    stream.write_all(&render_head(address, request))?;
    stream.write_all(request.body)?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    parse_response(&bytes)
}

/// `GET` of a path.
///
/// # Errors
/// As [`send`].
pub fn get(address: &str, target: &str, timeout: Duration) -> io::Result<Response> {
    let request = Request {
        method: "GET",
        target,
        ..Request::default()
    };
    send(address, &request, timeout)
}

fn render_head(address: &str, request: &Request<'_>) -> Vec<u8> {
    use std::fmt::Write;
    let mut head = format!(
        "{} {} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n",
        request.method, request.target
    );
    for (name, value) in request.headers {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    if request.method != "GET" {
        let _ = write!(head, "Content-Length: {}\r\n", request.body.len());
    }
    head.push_str("\r\n");
    head.into_bytes()
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

/// Length of a message's head with its empty line, where it is complete.
pub(crate) fn find_head_end(bytes: &[u8]) -> Option<usize> {
    bytes
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .map(|at| at + 4)
}

/// First line and headers (names in lower case) of a head.
pub(crate) fn parse_head(head: &[u8]) -> (String, Vec<(String, String)>) {
    let text = String::from_utf8_lossy(head);
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default().to_owned();
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    (first, headers)
}

fn parse_response(bytes: &[u8]) -> io::Result<Response> {
    let end = find_head_end(bytes).ok_or_else(|| malformed("the answer ended within its head"))?;
    let (head, rest) = bytes.split_at(end);
    let (first, headers) = parse_head(head);
    let status = first
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| malformed("the answer has no status"))?;
    let body = parse_body(&headers, rest)?;
    Ok(Response {
        status,
        headers,
        body,
    })
}

fn parse_body(headers: &[(String, String)], rest: &[u8]) -> io::Result<Vec<u8>> {
    if find_header(headers, "transfer-encoding").is_some_and(|value| value.contains("chunked")) {
        return join_chunks(rest);
    }
    match find_header(headers, "content-length").and_then(|length| length.parse::<usize>().ok()) {
        Some(length) if rest.len() < length => Err(malformed("the answer ended within its body")),
        Some(length) => Ok(rest.get(..length).unwrap_or_default().to_vec()),
        None => Ok(rest.to_vec()),
    }
}

fn join_chunks(mut rest: &[u8]) -> io::Result<Vec<u8>> {
    let cut = || malformed("the answer ended within a chunk");
    let mut body = Vec::new();
    loop {
        let line_end = rest
            .windows(2)
            .position(|window| window == b"\r\n")
            .ok_or_else(cut)?;
        let size = parse_chunk_size(rest.get(..line_end).unwrap_or_default()).ok_or_else(cut)?;
        if size == 0 {
            return Ok(body);
        }
        let start = line_end + 2;
        body.extend_from_slice(rest.get(start..start + size).ok_or_else(cut)?);
        rest = rest.get(start + size + 2..).ok_or_else(cut)?;
    }
}

/// Size of a chunk from its line (hex digits, perhaps an extension after them).
pub(crate) fn parse_chunk_size(line: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(line).ok()?;
    usize::from_str_radix(text.split(';').next()?.trim(), 16).ok()
}

/// Percent-encodes a value for a query.
#[must_use]
pub fn encode(value: &str) -> String {
    use std::fmt::Write;
    value.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}

/// Undoes [`encode`] (`+` is a space); what is not encoded rightly is kept as it is.
#[must_use]
pub fn decode(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let code = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        rest = match (first, code) {
            (b'%', Some(code)) => {
                bytes.push(code);
                after.get(2..).unwrap_or_default()
            }
            (b'+', _) => {
                bytes.push(b' ');
                after
            }
            _ => {
                bytes.push(first);
                after
            }
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn a_chunked_answer_is_put_together() {
        let bytes = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n";
        let response = parse_response(bytes).unwrap();
        assert_eq!((response.status, response.text().as_str()), (200, "abcde"));
    }

    #[test]
    fn an_answer_that_ends_too_early_is_an_error() {
        for bytes in [
            &b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc"[..],
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab",
            b"HTTP/1.1 200 OK\r\n",
        ] {
            assert!(parse_response(bytes).is_err());
        }
    }

    #[test]
    fn a_query_value_survives_encoding() {
        let value = "INSERT INTO `t` (a, b) %41 +ä";
        assert_eq!(decode(&encode(value)), value);
        assert_eq!(decode("a+b%2"), "a b%2");
    }
}
