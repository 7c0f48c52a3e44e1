//! Over a value that no column takes, without recursion, and still checked to be valid JSON.
//!
//! Duplicate keys inside of a skipped value are not looked for. Must not be here: keys that are looked at.

use super::cursor::{Cursor, MAX_DEPTH};
use super::escape::unescape;
use super::fault::Fault;
use super::number;

/// The brackets that are open, one bit each: 1 for an object.
#[derive(Default)]
struct Open {
    bits: u64,
    levels: u32,
}

impl Open {
    fn push(&mut self, object: bool, outside: u32) -> Result<(), Fault> {
        if self.levels + outside >= MAX_DEPTH {
            return Err(Fault::TooDeep);
        }
        self.bits = self.bits << 1 | u64::from(object);
        self.levels += 1;
        Ok(())
    }

    fn pop(&mut self) {
        self.bits >>= 1;
        self.levels -= 1;
    }

    fn in_object(&self) -> bool {
        self.bits & 1 == 1
    }
}

/// Over one value, from its first byte.
pub(crate) fn skip_value(cursor: &mut Cursor<'_>, scratch: &mut Vec<u8>) -> Result<(), Fault> {
    let mut open = Open::default();
    loop {
        let entered = match cursor.next_token()? {
            b'{' => enter(cursor, &mut open, scratch, true)?,
            b'[' => enter(cursor, &mut open, scratch, false)?,
            first => {
                skip_scalar(first, cursor, scratch)?;
                false
            }
        };
        if !entered && !leave(cursor, &mut open, scratch)? {
            return Ok(());
        }
    }
}

/// Over an opening bracket and, in an object, the first key; false where the bracket was closed at once.
fn enter(
    cursor: &mut Cursor<'_>,
    open: &mut Open,
    scratch: &mut Vec<u8>,
    object: bool,
) -> Result<bool, Fault> {
    open.push(object, cursor.depth())?;
    cursor.advance(1);
    if cursor.next_token()? == if object { b'}' } else { b']' } {
        cursor.advance(1);
        open.pop();
        return Ok(false);
    }
    if object {
        skip_key(cursor, scratch)?;
    }
    Ok(true)
}

/// After a value: closes what ends here; true where another value follows.
fn leave(cursor: &mut Cursor<'_>, open: &mut Open, scratch: &mut Vec<u8>) -> Result<bool, Fault> {
    while open.levels > 0 {
        let byte = cursor.next_token()?;
        cursor.advance(1);
        match (byte, open.in_object()) {
            (b',', true) => return skip_key(cursor, scratch).map(|()| true),
            (b',', false) => return Ok(true),
            (b'}', true) | (b']', false) => open.pop(),
            _ => return Err(Fault::Syntax),
        }
    }
    Ok(false)
}

fn skip_key(cursor: &mut Cursor<'_>, scratch: &mut Vec<u8>) -> Result<(), Fault> {
    if cursor.next_token()? != b'"' {
        return Err(Fault::Syntax);
    }
    skip_string(cursor, scratch)?;
    cursor.expect(b':')
}

fn skip_string(cursor: &mut Cursor<'_>, scratch: &mut Vec<u8>) -> Result<(), Fault> {
    let text = cursor.string()?;
    if text.escaped {
        unescape(text.bytes, scratch)
    } else {
        Ok(())
    }
}

fn skip_scalar(first: u8, cursor: &mut Cursor<'_>, scratch: &mut Vec<u8>) -> Result<(), Fault> {
    match first {
        b'"' => skip_string(cursor, scratch),
        b't' => cursor.literal("true"),
        b'f' => cursor.literal("false"),
        b'n' => cursor.literal("null"),
        b'-' | b'0'..=b'9' => number::take(cursor).map(|_| ()),
        _ => Err(Fault::Syntax),
    }
}
