//! Characters, names, numbers and quoted text of a type.
//!
//! Must not be here: what types there are.

use super::{TypeError, limits};

/// A place in the text.
pub(super) struct Scanner<'a> {
    text: &'a str,
    position: usize,
}

impl<'a> Scanner<'a> {
    pub(super) const fn new(text: &'a str) -> Self {
        Self { text, position: 0 }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.position..).unwrap_or("")
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump(&mut self, c: char) {
        self.position += c.len_utf8();
    }

    /// Goes back to a place that was read before.
    pub(super) const fn back_to(&mut self, position: usize) {
        self.position = position;
    }

    /// Skips white space and says where the next thing begins.
    pub(super) fn skip_space(&mut self) -> usize {
        let rest = self.rest();
        self.position += rest.len() - rest.trim_start().len();
        self.position
    }

    pub(super) fn take(&mut self, wanted: char) -> bool {
        self.skip_space();
        let there = self.peek() == Some(wanted);
        if there {
            self.bump(wanted);
        }
        there
    }

    pub(super) fn expect(&mut self, wanted: char) -> Result<(), TypeError> {
        if self.take(wanted) {
            return Ok(());
        }
        Err(self.unexpected(
            &format!("`{wanted}`"),
            "check the brackets and commas of the type",
        ))
    }

    pub(super) fn expect_end(&mut self) -> Result<(), TypeError> {
        self.skip_space();
        if self.rest().is_empty() {
            return Ok(());
        }
        Err(self.unexpected(
            "the end of the type",
            "remove what follows; defaults and comments have their own fields",
        ))
    }

    /// True where a name or a type may begin.
    pub(super) fn at_name(&mut self) -> bool {
        self.skip_space();
        self.peek()
            .is_some_and(|c| is_name_start(c) || c == '`' || c == '"')
    }

    pub(super) fn at_quoted_name(&mut self) -> bool {
        self.skip_space();
        matches!(self.peek(), Some('`' | '"'))
    }

    /// True at the second word of a type of two words.
    pub(super) fn at_type_suffix(&mut self) -> bool {
        let at = self.skip_space();
        let suffix = ["UNSIGNED", "SIGNED", "PRECISION"]
            .iter()
            .any(|word| self.take_word(word));
        // `Tuple(double precision String)` has a field of that name.
        let suffix = suffix && !self.at_name();
        self.back_to(at);
        suffix
    }

    /// Takes the word, in any case.
    pub(super) fn take_word(&mut self, word: &str) -> bool {
        let before = self.position;
        self.skip_space();
        let there = self.plain_word().eq_ignore_ascii_case(word);
        if there {
            self.position += word.len();
        } else {
            self.position = before;
        }
        there
    }

    fn plain_word(&self) -> &'a str {
        let rest = self.rest();
        let end = rest
            .find(|c: char| !is_name_start(c) && !c.is_ascii_digit())
            .unwrap_or(rest.len());
        &rest[..end]
    }

    /// A name, plain or in backquotes or double quotes.
    pub(super) fn name(&mut self, expected: &str) -> Result<String, TypeError> {
        self.skip_space();
        match self.peek() {
            Some(mark @ ('`' | '"')) => self.quoted(mark),
            Some(c) if is_name_start(c) => {
                let word = self.plain_word();
                self.position += word.len();
                Ok(word.to_owned())
            }
            _ => Err(self.unexpected(
                expected,
                "write for example String, UInt64 or Array(String)",
            )),
        }
    }

    /// A text in single quotes.
    pub(super) fn literal(&mut self, expected: &str) -> Result<String, TypeError> {
        self.skip_space();
        if self.peek() == Some('\'') {
            return self.quoted('\'');
        }
        Err(self.unexpected(expected, "put the text into single quotes"))
    }

    /// A whole number, negative or not.
    pub(super) fn number(&mut self, expected: &str) -> Result<i64, TypeError> {
        let at = self.skip_space();
        let rest = self.rest();
        let digits_from = usize::from(rest.starts_with('-'));
        let end = rest[digits_from..]
            .find(|c: char| !c.is_ascii_digit())
            .map_or(rest.len(), |length| length + digits_from);
        let Ok(number) = rest[..end].parse() else {
            return Err(self.unexpected(expected, "write a whole number"));
        };
        self.position = at + end;
        Ok(number)
    }

    fn quoted(&mut self, mark: char) -> Result<String, TypeError> {
        let start = self.position;
        self.bump(mark);
        let mut text = String::new();
        while let Some(c) = self.peek() {
            self.bump(c);
            if c == '\\' {
                let Some(escaped) = self.peek() else { break };
                self.bump(escaped);
                text.push(unescape(escaped));
            } else if c != mark {
                text.push(c);
            } else if self.peek() == Some(mark) {
                // SQL doubles a quote inside quotes.
                self.bump(mark);
                text.push(mark);
            } else {
                return Ok(text);
            }
        }
        Err(limits::error(
            start,
            &format!("a text that ends with {mark}"),
            "the end of the type",
            "close the quotes",
        ))
    }

    /// The error that something else stands here.
    pub(super) fn unexpected(&self, expected: &str, remedy: &str) -> TypeError {
        let found = match self.peek() {
            None => "the end of the type".to_owned(),
            Some(c) if is_name_start(c) => format!("`{}`", self.plain_word()),
            Some(c) => format!("`{}`", c.escape_debug()),
        };
        limits::error(self.position, expected, &found, remedy)
    }
}

const fn is_name_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

const fn unescape(c: char) -> char {
    match c {
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        '0' => '\0',
        other => other,
    }
}
