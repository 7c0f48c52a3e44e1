//! One value of one width: from JSON, from text or from a number to its bytes.
//!
//! Must not be here: strings, anything nested.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ethnum::U256;

use super::cursor::Cursor;
use super::escape::unescape;
use super::fault::Fault;
use super::number::{self, Integer, Number, Rounding};
use super::quick::quoted_time;
use super::state::State;
use super::{skip, time};
use crate::schema::kind::{DecimalKind, EnumKind, IntegerKind, Kind};

/// Appends the value at the cursor.
#[inline]
pub(crate) fn scalar(
    kind: &Kind,
    out: &mut Vec<u8>,
    cursor: &mut Cursor<'_>,
    state: &mut State,
) -> Result<(), Fault> {
    match (kind, cursor.next_token()?) {
        (Kind::Integer(integer), b'-' | b'0'..=b'9') => {
            let number = number::take(cursor)?;
            write_integer(*integer, &number, out, state.rounding)
        }
        (Kind::Time(time), b'"') => {
            if let Some((ticks, after)) = quoted_time(time, cursor.rest, &mut state.dates) {
                cursor.rest = after;
                out.extend_from_slice(&ticks.to_le_bytes());
                return Ok(());
            }
            text_at(kind, out, cursor, state)
        }
        (_, b'"') => text_at(kind, out, cursor, state),
        (_, b'-' | b'0'..=b'9') => {
            let number = number::take(cursor)?;
            from_number(kind, &number, out, state)
        }
        (Kind::Bool, byte @ (b't' | b'f')) => {
            cursor.literal(if byte == b't' { "true" } else { "false" })?;
            out.push(u8::from(byte == b't'));
            Ok(())
        }
        (_, b'n') => cursor.literal("null").and(Err(Fault::Null)),
        _ => wrong_type(cursor, state),
    }
}

/// The value is of another kind; it must still be valid JSON for that to be what is wrong.
#[cold]
pub(crate) fn wrong_type(cursor: &mut Cursor<'_>, state: &mut State) -> Result<(), Fault> {
    if cursor.rest.first() == Some(&b'n') {
        return cursor.literal("null").and(Err(Fault::Null));
    }
    skip::skip_value(cursor, &mut state.unescaped).and(Err(Fault::WrongType))
}

fn text_at(
    kind: &Kind,
    out: &mut Vec<u8>,
    cursor: &mut Cursor<'_>,
    state: &mut State,
) -> Result<(), Fault> {
    let raw = cursor.string()?;
    if !raw.escaped {
        return from_text(kind, raw.bytes, out, state);
    }
    let mut text = std::mem::take(&mut state.unescaped);
    let written = unescape(raw.bytes, &mut text).and_then(|()| from_text(kind, &text, out, state));
    state.unescaped = text;
    written
}

/// Appends the value that a text means.
pub(crate) fn from_text(
    kind: &Kind,
    text: &[u8],
    out: &mut Vec<u8>,
    state: &mut State,
) -> Result<(), Fault> {
    match kind {
        Kind::FixedText(width) => write_fixed_text(*width, text, out),
        Kind::Integer(_) | Kind::Decimal(_) if named_float(text).is_some() => Err(Fault::NotFinite),
        Kind::Integer(_) | Kind::Decimal(_) => {
            from_number(kind, &number::read_all(text)?, out, state)
        }
        Kind::Float32 | Kind::Float64 => match named_float(text) {
            Some(value) => {
                write_float(kind, value, out);
                Ok(())
            }
            None => from_number(kind, &number::read_all(text)?, out, state),
        },
        Kind::Time(time) => {
            let ticks = time::read_text(time, text, &mut state.dates, state.rounding)?;
            out.extend_from_slice(ticks.to_le_bytes().get(..time.width).unwrap_or_default());
            Ok(())
        }
        Kind::Uuid => write_uuid(text, out),
        Kind::Ipv4 => write_ipv4(text, out),
        Kind::Ipv6 => write_ipv6(text, out),
        Kind::Enum(members) => write_member(members, members.number_of(text), out),
        _ => Err(Fault::WrongType),
    }
}

fn from_number(
    kind: &Kind,
    number: &Number<'_>,
    out: &mut Vec<u8>,
    state: &State,
) -> Result<(), Fault> {
    match kind {
        Kind::Integer(integer) => write_integer(*integer, number, out, state.rounding),
        Kind::Float32 => write_float32(number, out, state.rounding),
        Kind::Float64 => write_float64(number, out, state.rounding),
        Kind::Decimal(decimal) => write_decimal(*decimal, number, out, state.rounding),
        Kind::Time(time) => {
            let ticks = time::read_number(time, number, state.rounding)?;
            out.extend_from_slice(ticks.to_le_bytes().get(..time.width).unwrap_or_default());
            Ok(())
        }
        Kind::Enum(members) => {
            let number = number.scaled(0, Rounding::Refuse)?.to_i64()?;
            let known = i16::try_from(number)
                .ok()
                .filter(|number| members.has_number(*number));
            write_member(members, known, out)
        }
        _ => Err(Fault::WrongType),
    }
}

#[inline]
fn write_integer(
    kind: IntegerKind,
    number: &Number<'_>,
    out: &mut Vec<u8>,
    rounding: Rounding,
) -> Result<(), Fault> {
    if let Some(bytes) = number
        .small()
        .and_then(|(negative, size)| small_integer(kind, negative, size))
    {
        out.extend_from_slice(bytes.to_le_bytes().get(..kind.width).unwrap_or_default());
        return Ok(());
    }
    write_wide_integer(kind, number, out, rounding)
}

/// The two's complement of a small number, where the kind can hold it and is not wider.
#[inline]
pub(crate) fn small_integer(kind: IntegerKind, negative: bool, size: u64) -> Option<u64> {
    let bits = u32::try_from(kind.width * 8 - usize::from(kind.signed))
        .ok()
        .filter(|_| kind.width <= 8)?;
    let most = u64::MAX >> (64 - bits);
    match (negative, kind.signed) {
        (false, _) if size <= most => Some(size),
        (true, true) if size <= most + 1 => Some(size.wrapping_neg()),
        _ => None,
    }
}

#[cold]
fn write_wide_integer(
    kind: IntegerKind,
    number: &Number<'_>,
    out: &mut Vec<u8>,
    rounding: Rounding,
) -> Result<(), Fault> {
    let bits = u32::try_from(kind.width * 8).unwrap_or(256) - u32::from(kind.signed);
    let most = U256::MAX >> (256 - bits);
    let least = if kind.signed {
        most + U256::ONE
    } else {
        U256::ZERO
    };
    write_low_bytes(
        number.scaled(0, rounding)?.within(most, least, rounding)?,
        kind.width,
        out,
    );
    Ok(())
}

fn write_decimal(
    kind: DecimalKind,
    number: &Number<'_>,
    out: &mut Vec<u8>,
    rounding: Rounding,
) -> Result<(), Fault> {
    write_low_bytes(
        number
            .scaled(kind.scale, rounding)?
            .within(kind.limit, kind.limit, rounding)?,
        kind.width,
        out,
    );
    Ok(())
}

fn write_low_bytes(integer: Integer, width: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(integer.to_le_bytes().get(..width).unwrap_or_default());
}

/// The nearest value; one beyond the largest finite number is out of range.
fn write_float64(number: &Number<'_>, out: &mut Vec<u8>, rounding: Rounding) -> Result<(), Fault> {
    let value: f64 = fast_float2::parse(number.text).map_err(|_| Fault::BadText)?;
    let value = if value.is_finite() {
        value
    } else {
        largest(number, f64::MAX, rounding)?
    };
    out.extend_from_slice(&value.to_le_bytes());
    Ok(())
}

fn write_float32(number: &Number<'_>, out: &mut Vec<u8>, rounding: Rounding) -> Result<(), Fault> {
    let value: f32 = fast_float2::parse(number.text).map_err(|_| Fault::BadText)?;
    let value = if value.is_finite() {
        value
    } else {
        largest(number, f32::MAX, rounding)?
    };
    out.extend_from_slice(&value.to_le_bytes());
    Ok(())
}

fn largest<F: std::ops::Neg<Output = F>>(
    number: &Number<'_>,
    most: F,
    rounding: Rounding,
) -> Result<F, Fault> {
    match rounding {
        Rounding::Refuse => Err(Fault::OutOfRange),
        Rounding::Nearest if number.is_negative() => Ok(-most),
        Rounding::Nearest => Ok(most),
    }
}

/// JSON has no numbers for these; producers write them as strings.
fn named_float(text: &[u8]) -> Option<f32> {
    match text {
        b"NaN" | b"nan" => Some(f32::NAN),
        b"Infinity" | b"inf" => Some(f32::INFINITY),
        b"-Infinity" | b"-inf" => Some(f32::NEG_INFINITY),
        _ => None,
    }
}

fn write_float(kind: &Kind, value: f32, out: &mut Vec<u8>) {
    match kind {
        Kind::Float32 => out.extend_from_slice(&value.to_le_bytes()),
        _ => out.extend_from_slice(&f64::from(value).to_le_bytes()),
    }
}

/// Shorter text is filled up with zero bytes, as the type has it.
fn write_fixed_text(width: usize, text: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
    let padding = width.checked_sub(text.len()).ok_or(Fault::TextTooLong)?;
    out.extend_from_slice(text);
    out.resize(out.len() + padding, 0);
    Ok(())
}

/// `8-4-4-4-12` hexadecimal digits, as two little-endian halves.
fn write_uuid(text: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
    let dashes = [8, 13, 18, 23];
    if text.len() != 36 {
        return Err(Fault::BadText);
    }
    let mut value = 0_u128;
    for (at, &byte) in text.iter().enumerate() {
        match (dashes.contains(&at), char::from(byte).to_digit(16)) {
            (true, _) if byte == b'-' => {}
            (false, Some(digit)) => value = value << 4 | u128::from(digit),
            _ => return Err(Fault::BadText),
        }
    }
    out.extend_from_slice(&value.rotate_right(64).to_le_bytes());
    Ok(())
}

fn write_ipv4(text: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
    let address: Ipv4Addr = parse(text)?;
    out.extend_from_slice(&u32::from(address).to_le_bytes());
    Ok(())
}

/// An IPv4 address becomes its IPv4-mapped one, as everywhere.
fn write_ipv6(text: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
    let address = parse::<Ipv6Addr>(text)
        .or_else(|_| parse::<Ipv4Addr>(text).map(|short| short.to_ipv6_mapped()))?;
    out.extend_from_slice(&address.octets());
    Ok(())
}

fn parse<T: FromStr>(text: &[u8]) -> Result<T, Fault> {
    std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or(Fault::BadText)
}

fn write_member(members: &EnumKind, number: Option<i16>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let number = number.ok_or(Fault::NotMember)?;
    out.extend_from_slice(
        number
            .to_le_bytes()
            .get(..members.width)
            .unwrap_or_default(),
    );
    Ok(())
}
