//! ClickHouse's Native format: how columns follow each other, what goes before and between their buffers.
//!
//! Must not be here: how the buffers came to be.

use crate::column::Column;
use crate::column::dictionary::Dictionary;
use crate::column::text::{write_length, write_text};

/// `LowCardinality`: the dictionary is sent with its column.
const KEYS_VERSION: u64 = 1;
/// The column brings keys of its own, and they are all there are.
const HAS_KEYS: u64 = 1 << 9;
const NEW_DICTIONARY: u64 = 1 << 10;

/// Appends one block.
pub(crate) fn write_block<'n>(
    names_and_types: impl Iterator<Item = (&'n str, &'n str)>,
    columns: &[Column],
    rows: usize,
    out: &mut Vec<u8>,
) {
    write_length(out, columns.len());
    write_length(out, rows);
    for ((name, type_text), column) in names_and_types.zip(columns) {
        write_text(out, name.as_bytes());
        write_text(out, type_text.as_bytes());
        if rows > 0 {
            write_prefix(column, out);
            write_data(column, out);
        }
    }
}

/// What stands once before a column's data, however deep it is nested.
fn write_prefix(column: &Column, out: &mut Vec<u8>) {
    match column {
        Column::Fixed(_) | Column::Text(_) => {}
        Column::Dictionary(_) => out.extend_from_slice(&KEYS_VERSION.to_le_bytes()),
        Column::Nullable(column) => write_prefix(&column.inner, out),
        Column::Array(column) => write_prefix(&column.inner, out),
        Column::Tuple(elements) => elements
            .iter()
            .for_each(|element| write_prefix(element, out)),
    }
}

fn write_data(column: &Column, out: &mut Vec<u8>) {
    match column {
        Column::Fixed(column) => out.extend_from_slice(&column.data),
        Column::Text(column) => out.extend_from_slice(&column.data),
        Column::Dictionary(column) => write_dictionary(column, out),
        Column::Nullable(column) => {
            out.extend_from_slice(&column.nulls.data);
            write_data(&column.inner, out);
        }
        Column::Array(column) => {
            out.extend_from_slice(&column.offsets.data);
            write_data(&column.inner, out);
        }
        Column::Tuple(elements) => elements.iter().for_each(|element| write_data(element, out)),
    }
}

fn write_dictionary(column: &Dictionary, out: &mut Vec<u8>) {
    if column.rows() == 0 {
        return;
    }
    let entries = column.entry_count();
    let width = index_width(entries);
    out.extend_from_slice(
        &(HAS_KEYS | NEW_DICTIONARY | u64::from(width.trailing_zeros())).to_le_bytes(),
    );
    out.extend_from_slice(&(entries as u64).to_le_bytes());
    out.extend_from_slice(&column.entries);
    out.extend_from_slice(&(column.rows() as u64).to_le_bytes());
    write_indexes(&column.indexes, width, out);
}

/// Bytes per index: 1, 2 or 4.
fn index_width(entries: usize) -> u8 {
    match entries {
        0..=0x100 => 1,
        0x101..=0x1_0000 => 2,
        _ => 4,
    }
}

fn write_indexes(indexes: &[u32], width: u8, out: &mut Vec<u8>) {
    match width {
        1 => out.extend(indexes.iter().map(|index| index.to_le_bytes()[0])),
        2 => indexes
            .iter()
            .for_each(|index| out.extend_from_slice(&index.to_le_bytes()[..2])),
        _ => indexes
            .iter()
            .for_each(|index| out.extend_from_slice(&index.to_le_bytes())),
    }
}
