//! What a `ClickHouse` proxy can do to a request, and to which requests.

use std::time::Duration;

/// What is done to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    Pass,
    /// The connection is closed without an answer; with [`On::All`] all open connections too, at once.
    Cut,
    /// The request is swallowed and never answered; the connection is closed when the fault is changed.
    Hang,
    /// The request waits this long before it goes on.
    Delay(Duration),
    /// The server gets the request and answers; the client gets a closed connection instead.
    DropReply,
    /// The client gets the reply's head and so many bytes after it, then a closed connection.
    TruncateReply(usize),
    /// The server gets the request's head and so many bytes after it, then both connections are closed.
    TruncateRequest(usize),
    /// The server gets nothing; the client gets this.
    Replace(Canned),
    /// The server gets the request; the client gets this instead of the server's reply.
    ReplaceReply(Canned),
}

/// Which requests a fault is for; the others pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum On {
    /// Every request.
    All,
    /// Requests that insert.
    Inserts,
    /// Requests whose path, query or statement holds this text.
    Containing(String),
}

/// A reply that no server made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canned {
    /// Status code.
    pub status: u16,
    /// Headers beside the length.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Canned {
    /// HTTP 200 with an exception's code in the header only.
    #[must_use]
    pub fn exception_in_header(code: u32) -> Self {
        Self {
            status: 200,
            headers: vec![("X-ClickHouse-Exception-Code".into(), code.to_string())],
            body: Vec::new(),
        }
    }

    /// HTTP 200 with an exception in the body only, as a server answers that had begun to reply.
    #[must_use]
    pub fn exception_in_body(code: u32, text: &str) -> Self {
        Self {
            status: 200,
            headers: Vec::new(),
            body: format!("Code: {code}. DB::Exception: {text} (version 26.7.2.1)\n").into_bytes(),
        }
    }

    /// An error as the server reports it: status, header and body agree.
    #[must_use]
    pub fn error(status: u16, code: u32, text: &str) -> Self {
        Self {
            status,
            headers: vec![("X-ClickHouse-Exception-Code".into(), code.to_string())],
            ..Self::exception_in_body(code, text)
        }
    }

    /// The bytes on the wire.
    #[must_use]
    pub fn render(&self) -> Vec<u8> {
        use std::fmt::Write;
        let mut head = format!(
            "HTTP/1.1 {} Canned\r\nContent-Length: {}\r\n",
            self.status,
            self.body.len()
        );
        for (name, value) in &self.headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        head.push_str("\r\n");
        [head.as_bytes(), &self.body].concat()
    }
}

/// A fault, the requests it is for and how often it still applies.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) fault: Fault,
    pub(crate) on: On,
    /// `None`: until it is changed.
    pub(crate) times: Option<u32>,
}

impl Rule {
    pub(crate) fn pass() -> Self {
        Self {
            fault: Fault::Pass,
            on: On::All,
            times: None,
        }
    }

    /// The fault for one more request, described by its target and the start of its statement.
    pub(crate) fn decide(&mut self, target: &str, statement: &str) -> Fault {
        let concerned = match &self.on {
            On::All => true,
            On::Inserts => is_insert(statement),
            On::Containing(text) => {
                target.contains(text.as_str()) || statement.contains(text.as_str())
            }
        };
        if !concerned || self.times == Some(0) {
            return Fault::Pass;
        }
        self.times = self.times.map(|times| times - 1);
        self.fault.clone()
    }
}

pub(crate) fn is_insert(statement: &str) -> bool {
    let start: String = statement.trim_start().chars().take(7).collect();
    start.eq_ignore_ascii_case("insert ")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_for_inserts_spares_other_requests_and_ends_after_its_number() {
        let mut rule = Rule {
            fault: Fault::Hang,
            on: On::Inserts,
            times: Some(2),
        };
        let decisions = [
            "SELECT 1",
            "insert into t",
            "INSERT INTO t",
            "INSERT INTO t",
        ];
        let decisions = decisions.map(|statement| rule.decide("/", statement));
        assert_eq!(
            decisions,
            [Fault::Pass, Fault::Hang, Fault::Hang, Fault::Pass]
        );
    }
}
