//! A position in a payload, and the smallest steps over JSON from there.
//!
//! Must not be here: what values mean.

#![allow(
    clippy::inline_always,
    reason = "a call here costs more than the step; measured by examples/decode_bench.rs"
)]

use super::fault::Fault;
use super::scan;

/// Deepest nesting of arrays and objects.
pub(crate) const MAX_DEPTH: u32 = 64;

/// A position in a payload that is known to be UTF-8.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'p> {
    /// Everything from here on.
    pub(crate) rest: &'p [u8],
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
        Self {
            rest: bytes,
            depth: 0,
        }
    }

    #[inline(always)]
    pub(crate) fn advance(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    /// Over white space; answers the byte after it without taking it.
    #[inline(always)]
    pub(crate) fn next_token(&mut self) -> Result<u8, Fault> {
        match self.rest {
            [byte, ..] if *byte > b' ' => Ok(*byte),
            [b' ', after @ ..] if after.first().is_some_and(|byte| *byte > b' ') => {
                self.rest = after;
                after.first().copied().ok_or(Fault::CutShort)
            }
            _ => self.next_token_further_on(),
        }
    }

    #[inline(never)]
    fn next_token_further_on(&mut self) -> Result<u8, Fault> {
        while let [b' ' | b'\n' | b'\r' | b'\t', after @ ..] = self.rest {
            self.rest = after;
        }
        self.rest.first().copied().ok_or(Fault::CutShort)
    }

    /// Over white space and one byte that must be there.
    #[inline(always)]
    pub(crate) fn expect(&mut self, wanted: u8) -> Result<(), Fault> {
        if self.next_token()? != wanted {
            return Err(Fault::Syntax);
        }
        self.advance(1);
        Ok(())
    }

    /// After an item of an array or object: true where another one follows, false where `close` ended it.
    #[inline(always)]
    pub(crate) fn another(&mut self, close: u8) -> Result<bool, Fault> {
        let byte = self.next_token()?;
        self.advance(1);
        if byte == b',' {
            return Ok(true);
        }
        if byte != close {
            return Err(Fault::Syntax);
        }
        self.depth -= 1;
        Ok(false)
    }

    /// Over an opening bracket; false where the closing one follows at once.
    #[inline]
    pub(crate) fn open(&mut self, close: u8) -> Result<bool, Fault> {
        self.advance(1);
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Fault::TooDeep);
        }
        if self.next_token()? != close {
            return Ok(true);
        }
        self.advance(1);
        self.depth -= 1;
        Ok(false)
    }

    /// Over `true`, `false` or `null`.
    #[inline]
    pub(crate) fn literal(&mut self, word: &str) -> Result<(), Fault> {
        if !self.rest.starts_with(word.as_bytes()) {
            return Err(Fault::Syntax);
        }
        self.advance(word.len());
        Ok(())
    }

    /// Over a string, from its opening quote.
    #[inline]
    pub(crate) fn string(&mut self) -> Result<RawText<'p>, Fault> {
        self.advance(1);
        let length = scan::plain_length(self.rest);
        let (bytes, from) = self.rest.split_at_checked(length).ok_or(Fault::CutShort)?;
        match from {
            [b'"', after @ ..] => {
                self.rest = after;
                Ok(RawText {
                    bytes,
                    escaped: false,
                })
            }
            [b'\\', ..] => self.escaped_string(length),
            [_, ..] => Err(Fault::ControlCharacter),
            [] => Err(Fault::CutShort),
        }
    }

    #[cold]
    fn escaped_string(&mut self, plain: usize) -> Result<RawText<'p>, Fault> {
        let rest = self.rest;
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
        self.advance(length + 1);
        Ok(RawText {
            bytes: rest.get(..length).unwrap_or_default(),
            escaped: true,
        })
    }

    /// Only white space may follow.
    pub(crate) fn expect_end(&mut self) -> Result<(), Fault> {
        match self.next_token() {
            Ok(_) => Err(Fault::Trailing),
            Err(_) => Ok(()),
        }
    }
}
