//! A position in a payload, and the smallest steps over JSON from there.
//!
//! Must not be here: what values mean.

use super::fault::Fault;
use super::scan;

/// Deepest nesting of arrays and objects.
pub(crate) const MAX_DEPTH: u32 = 64;

/// A position in a payload that is known to be UTF-8.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'p> {
    bytes: &'p [u8],
    at: usize,
    depth: u32,
}

/// A JSON string between its quotes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawText<'p> {
    pub(crate) bytes: &'p [u8],
    /// True where escapes are still in it.
    pub(crate) escaped: bool,
}

impl<'p> Cursor<'p> {
    pub(crate) fn new(bytes: &'p [u8]) -> Self {
        Self { bytes, at: 0, depth: 0 }
    }

    /// Everything from here on.
    #[inline]
    pub(crate) fn rest(&self) -> &'p [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    #[inline]
    pub(crate) fn advance(&mut self, bytes: usize) {
        self.at += bytes;
    }

    #[inline]
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// Back to an earlier position on the same level.
    pub(crate) fn rewind(&mut self, position: usize, depth: u32) {
        self.at = position;
        self.depth = depth;
    }

    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    /// Over white space; answers the byte after it without taking it.
    #[inline]
    pub(crate) fn next_token(&mut self) -> Result<u8, Fault> {
        loop {
            match self.peek() {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.at += 1,
                Some(byte) => return Ok(byte),
                None => return Err(Fault::CutShort),
            }
        }
    }

    /// Over white space and one byte that must be there.
    #[inline]
    pub(crate) fn expect(&mut self, wanted: u8) -> Result<(), Fault> {
        if self.next_token()? != wanted {
            return Err(Fault::Syntax);
        }
        self.at += 1;
        Ok(())
    }

    /// After an item of an array or object: true where another one follows, false where `close` ended it.
    #[inline]
    pub(crate) fn another(&mut self, close: u8) -> Result<bool, Fault> {
        let byte = self.next_token()?;
        self.at += 1;
        match byte {
            b',' => Ok(true),
            byte if byte == close => {
                self.depth -= 1;
                Ok(false)
            }
            _ => Err(Fault::Syntax),
        }
    }

    /// Over an opening bracket; false where the closing one follows at once.
    #[inline]
    pub(crate) fn open(&mut self, close: u8) -> Result<bool, Fault> {
        self.at += 1;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Fault::TooDeep);
        }
        if self.next_token()? != close {
            return Ok(true);
        }
        self.at += 1;
        self.depth -= 1;
        Ok(false)
    }

    /// Over `true`, `false` or `null`.
    #[inline]
    pub(crate) fn literal(&mut self, word: &str) -> Result<(), Fault> {
        if !self.rest().starts_with(word.as_bytes()) {
            return Err(Fault::Syntax);
        }
        self.at += word.len();
        Ok(())
    }

    /// Over a string, from its opening quote.
    #[inline]
    pub(crate) fn string(&mut self) -> Result<RawText<'p>, Fault> {
        self.at += 1;
        self.string_tail()
    }

    /// Over a string whose opening quote was taken.
    #[inline]
    pub(crate) fn string_tail(&mut self) -> Result<RawText<'p>, Fault> {
        let rest = self.rest();
        let length = scan::plain_length(rest);
        match rest.get(length) {
            Some(b'"') => {
                self.at += length + 1;
                Ok(RawText { bytes: &rest[..length], escaped: false })
            }
            Some(b'\\') => self.escaped_string(length),
            Some(_) => Err(Fault::ControlCharacter),
            None => Err(Fault::CutShort),
        }
    }

    #[cold]
    fn escaped_string(&mut self, plain: usize) -> Result<RawText<'p>, Fault> {
        let rest = self.rest();
        let mut length = plain;
        loop {
            length += scan::plain_length(rest.get(length..).unwrap_or_default());
            match rest.get(length) {
                Some(b'"') => break,
                Some(b'\\') => length += 2,
                Some(_) => return Err(Fault::ControlCharacter),
                None => return Err(Fault::CutShort),
            }
        }
        self.at += length + 1;
        Ok(RawText { bytes: rest.get(..length).unwrap_or_default(), escaped: true })
    }

    /// Only white space may follow.
    pub(crate) fn expect_end(&mut self) -> Result<(), Fault> {
        match self.next_token() {
            Ok(_) => Err(Fault::Trailing),
            Err(_) => Ok(()),
        }
    }
}
