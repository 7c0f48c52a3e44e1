//! A record's objects, key by key, along the tree of keys that the columns' paths make.
//!
//! The key that came after this one in the last record is tried first, quote and all. Must not be here: values.

use clickhouse_sink_crds::worker_config::{OnError, OnMissing};

use super::cursor::Cursor;
use super::fault::Fault;
use super::keyset::Frame;
use super::number::Rounding;
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
    while more {
        let found = next_key(plan, place, cursor, state, &mut frame)?;
        cursor.expect(b':')?;
        match found.and_then(|index| plan.edges.get(index as usize).map(|edge| (index, edge))) {
            Some((index, edge)) => {
                place = plan.place + 1 + index as usize;
                field(edge, schema, columns, cursor, state)?;
            }
            None => skip_unknown(cursor, state)?,
        }
        more = cursor.another(b'}')?;
    }
    state.keys.close(frame);
    Ok(())
}

/// Over a key and its quotes; nothing where no column is interested in it.
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
    cursor.advance(1);
    let expected = state.next[place];
    if let Some(length) = plan.keys.stands_at(expected, cursor.rest()) {
        cursor.advance(length);
        return Ok(Some(expected));
    }
    let found = read_key(&plan.keys, cursor, state, frame)?;
    if let Some(index) = found {
        state.next[place] = index;
    }
    Ok(found)
}

/// Over a key whose opening quote was taken, looked up; one that is not known must be new in its object.
pub(crate) fn read_key(
    keys: &KeyTable,
    cursor: &mut Cursor<'_>,
    state: &mut State,
    frame: &mut Frame,
) -> Result<Option<u32>, Fault> {
    let raw = cursor.string_tail()?;
    let mut look_up = |text: &[u8], state: &mut State| {
        let found = keys.find(text);
        if found.is_none() {
            state.keys.add(frame, text)?;
        }
        Ok(found)
    };
    if raw.escaped { with_meaning(raw, state, look_up) } else { look_up(raw.bytes, state) }
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
    match (edge.columns.as_slice(), &edge.inside) {
        ([column], None) => column_value(*column, schema, columns, cursor, state),
        _ => shared_field(edge, schema, columns, cursor, state),
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
    let (start, depth) = (cursor.position(), cursor.depth());
    for &column in &edge.columns {
        cursor.rewind(start, depth);
        column_value(column, schema, columns, cursor, state)?;
    }
    let Some(plan) = &edge.inside else {
        return Ok(());
    };
    cursor.rewind(start, depth);
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
fn refuse_inside(edge: &Edge, schema: &Schema, columns: &mut [Column], state: &mut State) -> Result<(), Fault> {
    let mut outcome = Ok(());
    edge.each_column_inside(&mut |index| {
        if outcome.is_ok() {
            outcome = refuse_one(index, schema, columns, state);
        }
    });
    outcome
}

fn refuse_one(index: usize, schema: &Schema, columns: &mut [Column], state: &mut State) -> Result<(), Fault> {
    let (plan, column) = (&schema.columns[index], &mut columns[index]);
    state.column = Some(index);
    state.see(plan.edge);
    state.touch(index);
    column.mark();
    replace(plan, column, Fault::WrongType, state)
}

/// Where a value began.
struct Start {
    position: usize,
    depth: u32,
    keys: usize,
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
    let start = Start { position: cursor.position(), depth: cursor.depth(), keys: state.keys.count() };
    state.touch(index);
    column.mark();
    match value(&plan.kind, column, cursor, state) {
        Ok(()) => {
            state.grown += column.growth();
            Ok(())
        }
        Err(fault) => {
            state.column = Some(index);
            cursor.rewind(start.position, start.depth);
            state.keys.back_to(start.keys);
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
fn replace(plan: &ColumnPlan, column: &mut Column, fault: Fault, state: &mut State) -> Result<(), Fault> {
    match plan.on_error {
        OnError::Reject | OnError::Clamp => return Err(fault),
        OnError::Default => column.append(&plan.default, 0..1),
        OnError::Null => plan.kind.push_zero(column),
    }
    state.fallbacks += 1;
    state.grown += column.growth();
    Ok(())
}

/// Columns whose path the record does not have.
fn fill_missing(schema: &Schema, columns: &mut [Column], state: &mut State) -> Result<(), Fault> {
    for (index, (plan, column)) in schema.columns.iter().zip(columns).enumerate() {
        if state.has_seen(plan.edge) {
            continue;
        }
        state.touch(index);
        column.mark();
        match plan.on_missing {
            OnMissing::Default => column.append(&plan.default, 0..1),
            OnMissing::Null => plan.kind.push_zero(column),
            OnMissing::Reject => {
                state.column = Some(index);
                return Err(Fault::Missing);
            }
        }
        state.grown += column.growth();
    }
    Ok(())
}
