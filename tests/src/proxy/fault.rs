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
    /// The server gets the request at once; its reply waits this long before it goes on.
    DelayReply(Duration),
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
    /// One of these for each request, drawn by their weights.
    Mix(Mix),
}

/// Faults with weights, and the seed that they are drawn from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix {
    /// The same seed draws the same faults in the same order.
    pub seed: u64,
    /// Each fault with its weight; all weights together must not be 0.
    pub faults: Vec<(u32, Fault)>,
}

impl Mix {
    /// The fault of one request; draws the next seed.
    fn draw(&mut self) -> Fault {
        // Knuth's linear congruence; its upper bits are good enough for faults.
        self.seed = self
            .seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let all: u64 = self
            .faults
            .iter()
            .map(|(weight, _)| u64::from(*weight))
            .sum();
        let mut drawn = (self.seed >> 33) % all.max(1);
        for (weight, fault) in &self.faults {
            match drawn.checked_sub(u64::from(*weight)) {
                Some(rest) => drawn = rest,
                None => return fault.clone(),
            }
        }
        Fault::Pass
    }
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
        match &mut self.fault {
            Fault::Mix(mix) => mix.draw(),
            fault => fault.clone(),
        }
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
    fn a_mix_draws_its_faults_by_their_weights_and_repeats_with_its_seed() {
        let mix = || Mix {
            seed: 5,
            faults: vec![(9, Fault::Pass), (1, Fault::DropReply)],
        };
        let drawn = |mut mix: Mix| (0..1000).map(|_| mix.draw()).collect::<Vec<_>>();
        let dropped = drawn(mix())
            .iter()
            .filter(|it| **it == Fault::DropReply)
            .count();
        assert!((50..200).contains(&dropped), "{dropped}");
        assert_eq!(drawn(mix()), drawn(mix()));
    }

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
