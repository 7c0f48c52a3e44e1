//! A record's objects, key by key, along the tree of keys that the columns' paths make.
//!
//! The key that came after this one in the last record is tried first, quote and all. Must not be here: values.

use clickhouse_sink_crds::worker_config::{OnError, OnMissing};

use super::cursor::Cursor;
use super::fault::Fault;
use super::keyset::Frame;
use super::number::Rounding;
use super::quick;
use super::skip::skip_value;
use super::state::State;
use super::value::{value, with_meaning};
use crate::column::Column;
use crate::schema::keys::{Edge, KeyTable, ObjectPlan};
use crate::schema::{ColumnPlan, Schema};

/// Reads the record at the cursor into the columns, one value each.
pub(crate) fn record(
    schema: &Schema,
    columns: &mut [Column],
    cursor: &mut Cursor<'_>,
    state: &mut State,
) -> Result<(), Fault> {
    if cursor.next_token()? != b'{' {
        return skip_value(cursor, &mut state.unescaped).and(Err(Fault::NotObject));
    }
    object(&schema.root, schema, columns, cursor, state)?;
    state.column = None;
    cursor.expect_end()?;
    fill_missing(schema, columns, state)
}

fn object(
    plan: &ObjectPlan,
    schema: &Schema,
    columns: &mut [Column],
    cursor: &mut Cursor<'_>,
    state: &mut State,
) -> Result<(), Fault> {
    let mut frame = state.keys.open();
    let mut place = plan.place;
    let mut more = cursor.open(b'}')?;
    let mut at = *cursor;
    while more {
        if let Some((after, index)) = quick::field(plan, place, columns, at.rest, state) {
            place = plan.place + 1 + index;
            at.rest = after;
        } else if let Some(after) = quick::unknown_field(plan, at.rest, state, &mut frame) {
            at.rest = after;
        } else {
            *cursor = at;
            place = any_field(plan, place, schema, columns, cursor, state, &mut frame)?;
            at = *cursor;
        }
        at.rest = match at.rest {
            [b',', b' ', next @ ..] | [b',', next @ ..] if next.first() == Some(&b'"') => next,
            _ => {
                *cursor = at;
                more = cursor.another(b'}')?;
                at = *cursor;
                at.rest
            }
        };
    }
    *cursor = at;
    state.keys.close(&frame);
    Ok(())
}

/// A field written in any way; answers the place from where the next key is guessed.
#[inline(never)]
fn any_field(
    plan: &ObjectPlan,
    place: usize,
    schema: &Schema,
    columns: &mut [Column],
    cursor: &mut Cursor<'_>,
    state: &mut State,
    frame: &mut Frame,
) -> Result<usize, Fault> {
    let found = next_key(plan, place, cursor, state, frame)?;
    let Some((index, edge)) =
        found.and_then(|index| plan.edges.get(index as usize).map(|edge| (index, edge)))
    else {
        skip_unknown(cursor, state)?;
        return Ok(place);
    };
    field(edge, schema, columns, cursor, state)?;
    Ok(plan.place + 1 + index as usize)
}

/// Over a key and its colon; nothing where no column is interested in it.
#[inline]
fn next_key(
    plan: &ObjectPlan,
    place: usize,
    cursor: &mut Cursor<'_>,
    state: &mut State,
    frame: &mut Frame,
) -> Result<Option<u32>, Fault> {
    if cursor.next_token()? != b'"' {
        return Err(Fault::Syntax);
    }
    let expected = state.next[place];
    if let Some(length) = plan.keys.stands_at(expected, cursor.rest) {
        cursor.advance(length);
        return Ok(Some(expected));
    }
    other_key(plan, place, cursor, state, frame)
}

/// As [`next_key`], for a key that was not expected.
#[inline(never)]
fn other_key(
    plan: &ObjectPlan,
    place: usize,
    cursor: &mut Cursor<'_>,
    state: &mut State,
    frame: &mut Frame,
) -> Result<Option<u32>, Fault> {
    let found = read_key(&plan.keys, cursor, state, frame)?;
    if let Some(index) = found {
        state.next[place] = index;
    }
    cursor.expect(b':')?;
    Ok(found)
}

/// Over a key, from its opening quote, looked up; one that is not known must be new in its object.
pub(crate) fn read_key(
    keys: &KeyTable,
    cursor: &mut Cursor<'_>,
    state: &mut State,
    frame: &mut Frame,
) -> Result<Option<u32>, Fault> {
    let raw = cursor.string()?;
    let mut look_up = |text: &[u8], state: &mut State| {
        let found = keys.find(text);
        if found.is_none() {
            state.keys.add(frame, text)?;
        }
        Ok(found)
    };
    if raw.escaped {
        with_meaning(raw, state, look_up)
    } else {
        look_up(raw.bytes, state)
    }
}

/// Over the value of a key that is not known.
pub(crate) fn skip_unknown(cursor: &mut Cursor<'_>, state: &mut State) -> Result<(), Fault> {
    if state.reject_unknown {
        return Err(Fault::UnknownField);
    }
    skip_value(cursor, &mut state.unescaped)
}

#[inline]
fn field(
    edge: &Edge,
    schema: &Schema,
    columns: &mut [Column],
    cursor: &mut Cursor<'_>,
    state: &mut State,
) -> Result<(), Fault> {
    if state.see(edge.id) {
        return Err(Fault::DuplicateKey);
    }
    match edge.only {
        Some(column) => column_value(column, schema, columns, cursor, state),
        None => shared_field(edge, schema, columns, cursor, state),
    }
}

/// A value that several columns take, whole or in parts: read once for each.
fn shared_field(
    edge: &Edge,
    schema: &Schema,
    columns: &mut [Column],
    cursor: &mut Cursor<'_>,
    state: &mut State,
) -> Result<(), Fault> {
    let start = *cursor;
    edge.columns
        .iter()
        .for_each(|&column| columns[column].mark());
    for &column in &edge.columns {
        *cursor = start;
        column_value(column, schema, columns, cursor, state)?;
    }
    let Some(plan) = &edge.inside else {
        return Ok(());
    };
    *cursor = start;
    match cursor.next_token()? {
        b'{' => object(plan, schema, columns, cursor, state),
        b'n' => cursor.literal("null"),
        _ => {
            skip_value(cursor, &mut state.unescaped)?;
            refuse_inside(edge, schema, columns, state)
        }
    }
}

/// There should have been an object, and is not: the wrong type for every column inside of it.
fn refuse_inside(
    edge: &Edge,
    schema: &Schema,
    columns: &mut [Column],
    state: &mut State,
) -> Result<(), Fault> {
    let mut outcome = Ok(());
    edge.each_column_inside(&mut |index| {
        if outcome.is_ok() {
            outcome = refuse_one(index, schema, columns, state);
        }
    });
    outcome
}

fn refuse_one(
    index: usize,
    schema: &Schema,
    columns: &mut [Column],
    state: &mut State,
) -> Result<(), Fault> {
    let (plan, column) = (&schema.columns[index], &mut columns[index]);
    state.column = Some(index);
    state.see(plan.edge);
    column.mark();
    replace(plan, column, Fault::WrongType, state)
}

#[inline]
fn column_value(
    index: usize,
    schema: &Schema,
    columns: &mut [Column],
    cursor: &mut Cursor<'_>,
    state: &mut State,
) -> Result<(), Fault> {
    let (plan, column) = (&schema.columns[index], &mut columns[index]);
    let (start, keys) = (*cursor, state.keys.count());
    column.mark();
    match value(&plan.kind, column, cursor, state) {
        Ok(()) => {
            state.grown += column.growth();
            Ok(())
        }
        Err(fault) => {
            state.column = Some(index);
            state.keys.back_to(keys);
            *cursor = start;
            recover(plan, column, fault, cursor, state)
        }
    }
}

/// A value that does not fit: what the column says about that, if it says anything.
#[cold]
fn recover(
    plan: &ColumnPlan,
    column: &mut Column,
    fault: Fault,
    cursor: &mut Cursor<'_>,
    state: &mut State,
) -> Result<(), Fault> {
    if fault.spoils_record() || plan.on_error == OnError::Reject {
        return Err(fault);
    }
    column.rollback();
    if plan.on_error != OnError::Clamp {
        skip_value(cursor, &mut state.unescaped)?;
        return replace(plan, column, fault, state);
    }
    if !fault.can_be_clamped() {
        return Err(fault);
    }
    state.rounding = Rounding::Nearest;
    let clamped = value(&plan.kind, column, cursor, state);
    state.rounding = Rounding::Refuse;
    clamped?;
    state.fallbacks += 1;
    state.grown += column.growth();
    Ok(())
}

/// Puts the column's default or NULL where its value should be.
fn replace(
    plan: &ColumnPlan,
    column: &mut Column,
    fault: Fault,
    state: &mut State,
) -> Result<(), Fault> {
    match plan.on_error {
        OnError::Reject | OnError::Clamp => return Err(fault),
        OnError::Default => column.append(&plan.default, 0..1),
        OnError::Null => plan.kind.push_zero(column),
    }
    state.fallbacks += 1;
    state.grown += column.growth();
    Ok(())
}

/// Columns whose path the record does not have: all are known before the first is filled.
fn fill_missing(schema: &Schema, columns: &mut [Column], state: &mut State) -> Result<(), Fault> {
    if state.seen == schema.all_edges {
        return Ok(());
    }
    let missing = |plan: &ColumnPlan, state: &State| !state.has_seen(plan.edge);
    let refused = |plan: &ColumnPlan| plan.on_missing == OnMissing::Reject && missing(plan, state);
    if let Some(index) = schema.columns.iter().position(refused) {
        state.column = Some(index);
        return Err(Fault::Missing);
    }
    for (plan, column) in schema.columns.iter().zip(columns) {
        if missing(plan, state) {
            column.mark();
            match plan.on_missing {
                OnMissing::Default => column.append(&plan.default, 0..1),
                OnMissing::Null | OnMissing::Reject => plan.kind.push_zero(column),
            }
            state.grown += column.growth();
        }
    }
    Ok(())
}
