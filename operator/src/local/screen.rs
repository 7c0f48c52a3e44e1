//! The terminal: status lines in place where standard output is one, plain lines on change where it is not.
//!
//! Must not be here: what the lines say (`line.rs`).

use std::io::{self, IsTerminal as _, Write};
use std::sync::{Arc, Mutex, PoisonError};

use tracing_subscriber::fmt::MakeWriter;

/// Standard output and standard error, so that logs and status lines do not tear each other.
#[derive(Debug, Clone)]
pub struct Screen {
    shared: Arc<Mutex<Drawn>>,
    is_terminal: bool,
}

#[derive(Debug, Default)]
struct Drawn {
    lines: Vec<String>,
}

impl Screen {
    /// The process's own screen.
    #[must_use]
    pub fn new() -> Self {
        Self {
            shared: Arc::default(),
            is_terminal: io::stdout().is_terminal(),
        }
    }

    /// Shows the status lines, if they differ from those shown.
    pub fn draw(&self, lines: Vec<String>) {
        let mut drawn = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if drawn.lines == lines {
            return;
        }
        let text = if self.is_terminal {
            format!(
                "{}{}",
                render_clear(drawn.lines.len()),
                render_block(&lines)
            )
        } else {
            render_changes(&drawn.lines, &lines)
        };
        write_text(&mut io::stdout().lock(), text.as_bytes());
        drawn.lines = lines;
    }

    fn write_log(&self, bytes: &[u8]) {
        let drawn = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_terminal {
            return write_text(&mut io::stderr().lock(), bytes);
        }
        write_text(
            &mut io::stdout().lock(),
            render_clear(drawn.lines.len()).as_bytes(),
        );
        write_text(&mut io::stderr().lock(), bytes);
        write_text(
            &mut io::stdout().lock(),
            render_block(&drawn.lines).as_bytes(),
        );
    }
}

impl Default for Screen {
    fn default() -> Self {
        Self::new()
    }
}

/// A closed pipe must not end workers in mid-batch: what cannot be shown is not shown.
fn write_text(output: &mut impl Write, bytes: &[u8]) {
    let _ = output.write_all(bytes);
    let _ = output.flush();
}

/// Cursor to the first of so many lines, and everything from there cleared.
fn render_clear(lines: usize) -> String {
    if lines == 0 {
        String::new()
    } else {
        format!("\x1b[{lines}A\x1b[J")
    }
}

/// Lines without wrapping: a wrapped line would be cleared by half.
fn render_block(lines: &[String]) -> String {
    let unwrapped = lines
        .iter()
        .map(|line| ["\x1b[?7l", line, "\x1b[?7h\n"].concat());
    unwrapped.collect::<Vec<_>>().concat()
}

fn render_changes(before: &[String], now: &[String]) -> String {
    let changed = now.iter().filter(|line| !before.contains(line));
    changed.flat_map(|line| [line.as_str(), "\n"]).collect()
}

/// One log event on its way to the screen.
#[derive(Debug)]
pub struct LogWriter {
    screen: Screen,
    bytes: Vec<u8>,
}

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        self.screen.write_log(&self.bytes);
    }
}

impl<'a> MakeWriter<'a> for Screen {
    type Writer = LogWriter;

    fn make_writer(&'a self) -> LogWriter {
        LogWriter {
            screen: self.clone(),
            bytes: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_terminal_only_changed_lines_are_printed() {
        let lines = |texts: &[&str]| {
            texts
                .iter()
                .map(|text| (*text).to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            render_changes(&lines(&["a", "b"]), &lines(&["a", "c"])),
            "c\n"
        );
        assert_eq!(render_changes(&[], &lines(&["a"])), "a\n");
    }

    #[test]
    fn a_terminal_is_cleared_by_as_many_lines_as_were_drawn() {
        assert_eq!(render_clear(0), "");
        assert_eq!(render_clear(2), "\x1b[2A\x1b[J");
    }
}
