//! The live line: produced, inserted, lag, rows a second.
//!
//! Must not be here: the story, the final table.
#![allow(
    clippy::print_stdout,
    reason = "the demo is for the person at the terminal"
)]

use std::io::{IsTerminal, Write, stdout};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::sink::Demo;
use super::stream::Stream;
use crate::wait::eventually_eq;

/// How often the line is renewed on a terminal, and written elsewhere.
const TURN: Duration = Duration::from_millis(500);
const LINE_EVERY: Duration = Duration::from_secs(3);

/// The line and what it was made from last.
pub(super) struct Live<'a> {
    demo: &'a Demo,
    records: u64,
    before: Option<(Instant, u64)>,
    printed: Instant,
    on_terminal: bool,
}

impl<'a> Live<'a> {
    pub(super) fn new(demo: &'a Demo, records: u64) -> Self {
        let on_terminal = stdout().is_terminal();
        Self {
            demo,
            records,
            before: None,
            printed: Instant::now(),
            on_terminal,
        }
    }

    /// Shows the line until `done(produced, inserted)`.
    pub(super) fn watch_until(
        &mut self,
        done: impl Fn(u64, u64) -> bool,
        stream: &Stream,
    ) -> Result<()> {
        loop {
            let produced = stream.produced();
            let inserted = self.show(produced);
            if done(produced, inserted.unwrap_or(0)) {
                return Ok(());
            }
            ensure!(
                !stream.has_ended() || produced >= self.records,
                "the producer ended early"
            );
            std::thread::park_timeout(TURN);
        }
    }

    /// Shows the line for a while.
    pub(super) fn watch_for(&mut self, time: Duration, stream: &Stream) -> Result<()> {
        let until = Instant::now() + time;
        self.watch_until(|_, _| Instant::now() >= until, stream)
    }

    /// Shows the line until so many distinct events are in the table, and every offset is committed.
    pub(super) fn drain(&mut self, produced: u64, distinct: u64, patience: Duration) -> Result<()> {
        eventually_eq(patience, "every event is in the table", &distinct, || {
            self.show(produced);
            self.demo.distinct()
        })?;
        eventually_eq(patience, "every offset is committed", &0, || {
            self.demo.lag()
        })?;
        self.note("Everything has arrived and is committed.");
        Ok(())
    }

    /// A line of its own for something that happened.
    pub(super) fn note(&mut self, text: &str) {
        let clear = if self.on_terminal { "\r\x1b[K" } else { "" };
        println!("{clear}  * {text}");
    }

    /// Renews the line; `None` where ClickHouse does not answer.
    fn show(&mut self, produced: u64) -> Option<u64> {
        let inserted = self.demo.count("").ok();
        let now = Instant::now();
        if !self.on_terminal && now < self.printed + LINE_EVERY {
            return inserted;
        }
        self.printed = now;
        let line = render_line(
            produced,
            inserted,
            self.demo.lag().ok(),
            self.rate(inserted, now),
        );
        if self.on_terminal {
            print!("\r\x1b[K{line}");
            // A terminal that is gone is no reason to end the demo.
            let _ = stdout().flush();
        } else {
            println!("{line}");
        }
        inserted
    }

    fn rate(&mut self, inserted: Option<u64>, now: Instant) -> u64 {
        let Some(inserted) = inserted else {
            return 0;
        };
        let before = self.before.replace((now, inserted));
        let Some((at, rows)) = before else {
            return 0;
        };
        let millis = u64::try_from(now.duration_since(at).as_millis())
            .unwrap_or(u64::MAX)
            .max(1);
        inserted.saturating_sub(rows) * 1000 / millis
    }
}

fn render_line(produced: u64, inserted: Option<u64>, lag: Option<i64>, rate: u64) -> String {
    let inserted = inserted.map_or("ClickHouse is away".to_owned(), |rows| {
        format!("inserted {rows:>9}")
    });
    let lag = lag.map_or("?".to_owned(), |lag| lag.to_string());
    format!("  produced {produced:>9} | {inserted} | lag {lag:>8} | {rate:>7} rows/s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_so_when_clickhouse_is_away() {
        let line = render_line(10, None, Some(4), 0);
        assert!(
            line.contains("ClickHouse is away") && line.contains("lag        4"),
            "{line}"
        );
        assert!(render_line(10, Some(6), None, 3).contains("inserted         6"));
    }
}
