//! One value of any kind, from JSON into its column.
//!
//! Must not be here: where in the record the value stands, what happens when it does not fit.

use super::cursor::{Cursor, RawText};
use super::escape::unescape;
use super::fault::Fault;
use super::object::{read_key, skip_unknown};
use super::quick::short_string;
use super::scalar::{from_text, scalar, wrong_type};
use super::state::State;
use crate::column::dictionary::Dictionary;
use crate::column::text::TextColumn;
use crate::column::{ArrayColumn, Column, NullableColumn};
use crate::schema::keys::KeyTable;
use crate::schema::kind::{Kind, TupleKind};

/// Appends the value at the cursor. On a fault the column may hold part of it: roll it back.
#[inline]
pub(crate) fn value(
    kind: &Kind,
    column: &mut Column,
    cursor: &mut Cursor<'_>,
    state: &mut State,
) -> Result<(), Fault> {
    match (kind, column) {
        (Kind::Text, Column::Text(column)) => text(column, cursor, state),
        (Kind::LowCardinality(inner, nullable), Column::Dictionary(column)) => {
            low_cardinality(inner, *nullable, column, cursor, state)
        }
        (scalar_kind, Column::Fixed(column)) => {
            scalar(scalar_kind, &mut column.data, cursor, state)
        }
        (Kind::Nullable(inner), Column::Nullable(column)) => nullable(inner, column, cursor, state),
        (nested, column) => nested_value(nested, column, cursor, state),
    }
}

#[inline(never)]
fn nested_value(
    kind: &Kind,
    column: &mut Column,
    cursor: &mut Cursor<'_>,
    state: &mut State,
) -> Result<(), Fault> {
    match (kind, cursor.next_token()?, column) {
        (Kind::Array(inner), b'[', Column::Array(column)) => array(inner, column, cursor, state),
        (Kind::Map(key, inner), b'{', Column::Array(column)) => {
            map(key, inner, column, cursor, state)
        }
        (Kind::Tuple(tuple), b'[', Column::Tuple(elements)) => {
            tuple_array(tuple, elements, cursor, state)
        }
        (Kind::Tuple(tuple), b'{', Column::Tuple(elements)) => match &tuple.keys {
            Some(keys) => tuple_object(tuple, keys, elements, cursor, state),
            None => wrong_type(cursor, state),
        },
        _ => wrong_type(cursor, state),
    }
}

#[inline]
fn text(column: &mut TextColumn, cursor: &mut Cursor<'_>, state: &mut State) -> Result<(), Fault> {
    if cursor.next_token()? != b'"' {
        return wrong_type(cursor, state);
    }
    if let Some((short, after)) = short_string(cursor.rest) {
        column.push_short(short.padded, short.length);
        cursor.rest = after;
        return Ok(());
    }
    let raw = cursor.string()?;
    if raw.escaped {
        return with_meaning(raw, state, |text, _| {
            column.push(text);
            Ok(())
        });
    }
    column.push(raw.bytes);
    Ok(())
}

/// Calls with what a string with escapes means.
#[cold]
pub(crate) fn with_meaning<T>(
    raw: RawText<'_>,
    state: &mut State,
    act: impl FnOnce(&[u8], &mut State) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let mut meaning = std::mem::take(&mut state.unescaped);
    let done = unescape(raw.bytes, &mut meaning).and_then(|()| act(&meaning, state));
    state.unescaped = meaning;
    done
}

#[inline]
fn low_cardinality(
    inner: &Kind,
    nullable: bool,
    column: &mut Dictionary,
    cursor: &mut Cursor<'_>,
    state: &mut State,
) -> Result<(), Fault> {
    match (cursor.next_token()?, inner) {
        (b'"', Kind::Text) => {
            if let Some((short, after)) = short_string(cursor.rest) {
                column.push_short(short.padded, short.length);
                cursor.rest = after;
                return Ok(());
            }
            let raw = cursor.string()?;
            if raw.escaped {
                return with_meaning(raw, state, |text, _| {
                    column.push(text);
                    Ok(())
                });
            }
            column.push(raw.bytes);
            Ok(())
        }
        (b'n', _) if nullable => {
            cursor.literal("null")?;
            column.push_null();
            Ok(())
        }
        (_, Kind::Text) => wrong_type(cursor, state),
        _ => {
            column.scratch.clear();
            scalar(inner, &mut column.scratch, cursor, state)?;
            column.push_scratch();
            Ok(())
        }
    }
}

#[inline]
fn nullable(
    inner: &Kind,
    column: &mut NullableColumn,
    cursor: &mut Cursor<'_>,
    state: &mut State,
) -> Result<(), Fault> {
    if cursor.next_token()? == b'n' {
        cursor.literal("null")?;
        column.nulls.data.push(1);
        inner.push_zero(&mut column.inner);
        return Ok(());
    }
    column.nulls.data.push(0);
    value(inner, &mut column.inner, cursor, state)
}

fn array(
    inner: &Kind,
    column: &mut ArrayColumn,
    cursor: &mut Cursor<'_>,
    state: &mut State,
) -> Result<(), Fault> {
    let mut more = cursor.open(b']')?;
    while more {
        value(inner, &mut column.inner, cursor, state)?;
        more = cursor.another(b']')?;
    }
    column.end_row();
    Ok(())
}

fn map(
    key: &Kind,
    inner: &Kind,
    column: &mut ArrayColumn,
    cursor: &mut Cursor<'_>,
    state: &mut State,
) -> Result<(), Fault> {
    let Column::Tuple(pair) = &mut column.inner else {
        return Err(Fault::WrongType);
    };
    let [keys, values] = pair.as_mut_slice() else {
        return Err(Fault::WrongType);
    };
    let mut frame = state.keys.open();
    let mut more = cursor.open(b'}')?;
    while more {
        let raw = key_at(cursor)?;
        let mut take = |text: &[u8], state: &mut State| {
            state.keys.add(&mut frame, text)?;
            key_value(key, keys, text, state)
        };
        if raw.escaped {
            with_meaning(raw, state, take)?;
        } else {
            take(raw.bytes, state)?;
        }
        cursor.expect(b':')?;
        value(inner, values, cursor, state)?;
        more = cursor.another(b'}')?;
    }
    state.keys.close(&frame);
    column.end_row();
    Ok(())
}

fn key_at<'p>(cursor: &mut Cursor<'p>) -> Result<RawText<'p>, Fault> {
    if cursor.next_token()? != b'"' {
        return Err(Fault::Syntax);
    }
    cursor.string()
}

/// A key of a map: always text in JSON, whatever its kind.
fn key_value(
    kind: &Kind,
    column: &mut Column,
    text: &[u8],
    state: &mut State,
) -> Result<(), Fault> {
    match (kind, column) {
        (Kind::LowCardinality(inner, _), Column::Dictionary(column)) => {
            if matches!(**inner, Kind::Text) {
                column.push(text);
                return Ok(());
            }
            column.scratch.clear();
            from_text(inner, text, &mut column.scratch, state)?;
            column.push_scratch();
            Ok(())
        }
        (_, Column::Text(column)) => {
            column.push(text);
            Ok(())
        }
        (kind, Column::Fixed(column)) => from_text(kind, text, &mut column.data, state),
        _ => Err(Fault::WrongType),
    }
}

fn tuple_array(
    tuple: &TupleKind,
    elements: &mut [Column],
    cursor: &mut Cursor<'_>,
    state: &mut State,
) -> Result<(), Fault> {
    let mut more = cursor.open(b']')?;
    for (kind, column) in tuple.elements.iter().zip(elements) {
        if !more {
            return Err(Fault::ElementCount);
        }
        value(kind, column, cursor, state)?;
        more = cursor.another(b']')?;
    }
    if more {
        Err(Fault::ElementCount)
    } else {
        Ok(())
    }
}

/// Elements by name, in any order. One that is not there is NULL where it may be, else a fault.
fn tuple_object(
    tuple: &TupleKind,
    keys: &KeyTable,
    elements: &mut [Column],
    cursor: &mut Cursor<'_>,
    state: &mut State,
) -> Result<(), Fault> {
    let rows = elements.iter().map(Column::rows).min().unwrap_or(0);
    let mut frame = state.keys.open();
    let mut more = cursor.open(b'}')?;
    while more {
        if cursor.next_token()? != b'"' {
            return Err(Fault::Syntax);
        }
        let found = read_key(keys, cursor, state, &mut frame)?;
        cursor.expect(b':')?;
        match found.and_then(|index| element(tuple, elements, index)) {
            Some((_, column)) if column.rows() > rows => return Err(Fault::DuplicateKey),
            Some((kind, column)) => value(kind, column, cursor, state)?,
            None => skip_unknown(cursor, state)?,
        }
        more = cursor.another(b'}')?;
    }
    state.keys.close(&frame);
    fill_missing(tuple, elements, rows)
}

fn element<'t>(
    tuple: &'t TupleKind,
    elements: &'t mut [Column],
    index: u32,
) -> Option<(&'t Kind, &'t mut Column)> {
    let index = index as usize;
    Some((tuple.elements.get(index)?, elements.get_mut(index)?))
}

fn fill_missing(tuple: &TupleKind, elements: &mut [Column], rows: usize) -> Result<(), Fault> {
    for (kind, column) in tuple.elements.iter().zip(elements) {
        if column.rows() > rows {
            continue;
        }
        if !matches!(kind, Kind::Nullable(_) | Kind::LowCardinality(_, true)) {
            return Err(Fault::MissingElement);
        }
        kind.push_zero(column);
    }
    Ok(())
}
