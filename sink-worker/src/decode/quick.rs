//! The ways in which nearly all fields are written, read without a call: the key that was expected, then a short
//! string, a plain integer or a time in UTC with milliseconds.
//!
//! Whatever is written in another way is left untouched for the general path, which also finds the faults. Must not be
//! here: any way to reject, anything that the general path would read differently.

#![allow(
    clippy::inline_always,
    reason = "the point of this module; measured by examples/decode_bench.rs"
)]

use super::keyset::Frame;
use super::number;
use super::scalar::small_integer;
use super::scan;
use super::state::State;
use super::time::{self, DateCache};
use crate::column::Column;
use crate::column::dictionary::short_word;
use crate::column::text::TextColumn;
use crate::schema::keys::ObjectPlan;
use crate::schema::kind::Kind;

/// A string of at most 15 bytes; what follows it in `padded` is of no meaning.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShortText {
    pub(crate) padded: u128,
    pub(crate) length: usize,
}

/// A short string without escapes, from its opening quote, and what follows it.
#[inline(always)]
pub(crate) fn short_string(rest: &[u8]) -> Option<(ShortText, &[u8])> {
    let (quote, padded) = match rest.first_chunk::<17>() {
        Some([quote, padded @ ..]) => (*quote, u128::from_le_bytes(*padded)),
        None => (*rest.first()?, last_bytes(rest.get(1..)?)),
    };
    let length = scan::plain_length_of_16(padded);
    let after = rest.get(length + 2..)?;
    (quote == b'"' && length < 16 && rest[length + 1] == b'"')
        .then_some((ShortText { padded, length }, after))
}

/// At most 16 bytes as a word, filled up with zeros, which end a string (and are not its quote).
#[inline(never)]
fn last_bytes(bytes: &[u8]) -> u128 {
    match bytes.split_first_chunk::<8>() {
        Some((low, high)) => {
            u128::from(u64::from_le_bytes(*low)) | u128::from(at_most_8(high)) << 64
        }
        None => u128::from(at_most_8(bytes)),
    }
}

fn at_most_8(bytes: &[u8]) -> u64 {
    if let Some(all) = bytes.first_chunk::<8>() {
        return u64::from_le_bytes(*all);
    }
    bytes
        .iter()
        .rev()
        .fold(0, |word, &byte| word << 8 | u64::from(byte))
}

/// The whole field at `rest`, if its key is the expected one: what follows it, and the key's index.
#[inline(always)]
pub(crate) fn field<'p>(
    plan: &ObjectPlan,
    place: usize,
    columns: &mut [Column],
    rest: &'p [u8],
    state: &mut State,
) -> Option<(&'p [u8], usize)> {
    let expected = *state.next.get(place)? as usize;
    let step = plan.steps.get(expected)?;
    let at_value = match rest.get(step.stands_at(rest)?..)? {
        [b' ', at_value @ ..] | at_value => at_value,
    };
    let seen = state.seen.get_mut(step.seen_word)?;
    if *seen & step.seen_bit != 0 {
        return None;
    }
    let (after, grown) = value(
        &step.kind,
        columns.get_mut(step.column)?,
        at_value,
        &mut state.dates,
    )?;
    *seen |= step.seen_bit;
    state.grown += grown;
    Some((after, expected))
}

/// Over a whole field that no column takes, if its key is short and its value neither array nor object.
#[inline]
pub(crate) fn unknown_field<'p>(
    plan: &ObjectPlan,
    rest: &'p [u8],
    state: &mut State,
    frame: &mut Frame,
) -> Option<&'p [u8]> {
    let (key, after) = short_string(rest)?;
    let word = short_word(key.padded, key.length);
    let ([b':', b' ', at_value @ ..] | [b':', at_value @ ..]) = after else {
        return None;
    };
    if state.reject_unknown || plan.keys.has_short(word) {
        return None;
    }
    let after = skip_scalar(at_value)?;
    state.keys.add_short(frame, word).then_some(after)
}

/// What follows a string without escapes, a number or a literal.
#[inline]
fn skip_scalar(rest: &[u8]) -> Option<&[u8]> {
    match rest.first()? {
        b'"' => {
            let text = rest.get(1..)?;
            text.get(scan::plain_length(text)..)?.strip_prefix(b"\"")
        }
        b'-' | b'0'..=b'9' => number::skip(rest),
        b't' => rest.strip_prefix(b"true"),
        b'f' => rest.strip_prefix(b"false"),
        b'n' => rest.strip_prefix(b"null"),
        _ => None,
    }
}

/// The value at `rest`, appended to its column, which is marked before: what follows it, and the column's growth.
#[inline(always)]
fn value<'p>(
    kind: &Kind,
    column: &mut Column,
    rest: &'p [u8],
    dates: &mut DateCache,
) -> Option<(&'p [u8], usize)> {
    match (kind, column) {
        (Kind::Text, Column::Text(column)) => {
            let Some((short, after)) = short_string(rest) else {
                return long_text(column, rest);
            };
            column.mark();
            column.push_short(short.padded, short.length);
            Some((after, short.length + 1))
        }
        (_, Column::Dictionary(column)) if column.is_text() => {
            let (short, after) = short_string(rest)?;
            column.mark();
            Some((after, column.push_short(short.padded, short.length)))
        }
        (Kind::Integer(kind), Column::Fixed(column)) => {
            let (negative, size, after) = number::small(rest)?;
            let bytes = small_integer(*kind, negative, size)?;
            column.mark();
            column.push_low_bytes(bytes);
            Some((after, column.width))
        }
        (Kind::Time(kind), Column::Fixed(column)) => {
            let (ticks, after) = quoted_time(kind, rest, dates)?;
            column.mark();
            column.push_low_bytes(ticks.cast_unsigned());
            Some((after, column.width))
        }
        _ => None,
    }
}

#[inline(never)]
fn long_text<'p>(column: &mut TextColumn, rest: &'p [u8]) -> Option<(&'p [u8], usize)> {
    let text = rest.strip_prefix(b"\"")?;
    let (plain, from) = text.split_at_checked(scan::plain_length(text))?;
    let after = from.strip_prefix(b"\"")?;
    column.mark();
    column.push(plain);
    Some((after, column.growth()))
}

/// The commonest form of a time, known by its length, without looking for the closing quote.
#[inline(always)]
pub(crate) fn quoted_time<'p>(
    kind: &crate::schema::kind::TimeKind,
    rest: &'p [u8],
    dates: &mut DateCache,
) -> Option<(i64, &'p [u8])> {
    let (quoted, after) = rest.split_first_chunk::<26>()?;
    let [b'"', text @ .., b'"'] = quoted else {
        return None;
    };
    Some((time::quick(kind, text, dates)?, after))
}
