//! The question for the table partitions of rows that the table may not have: the partition key, computed by the server
//! over the columns that it needs.
//!
//! Values are written as the hex digits of their bytes and read by the server as the type that they are, so nothing in
//! them is ever text of the statement, and no right is needed beyond reading. Pure. Must not be here: sending it.

use std::fmt::Write as _;
use std::ops::Range;

use clickhouse_sink_crds::data_type::DataType;
use clickhouse_sink_crds::expression::not_one_expression;

use crate::mapping::quote_identifier;
use crate::native::Block;

/// Before the hex digits of every value: an empty string is not an empty list.
const VALUE: char = 'x';
/// In the place of NULL.
const NULL: char = '-';

/// Before a text that stands for the id of a table partition whose key has a NULL: the server's function for ids gives
/// none there. Equal keys have equal texts.
pub(super) const HASHED: &str = "hash of the key ";

/// The columns of the key and how to compute it.
#[derive(Debug)]
pub(super) struct KeyPlan<'b> {
    /// The key's parts, without brackets around them all.
    parts: String,
    columns: Vec<KeyColumn<'b>>,
    rows: usize,
}

#[derive(Debug)]
struct KeyColumn<'b> {
    name: String,
    /// How the server makes its value.
    expression: String,
    values: Vec<Option<&'b [u8]>>,
}

/// Prepares the question; `None` where the table has no partition key.
///
/// # Errors
/// In words, where the key needs a column that the block has not, or one whose values cannot be written.
pub(super) fn plan_key<'b>(
    partition_key: &str,
    key_columns: &[(String, String)],
    block: &'b Block,
) -> Result<Option<KeyPlan<'b>>, String> {
    let parts = strip_tuple(partition_key);
    if parts.is_empty() {
        return Ok(None);
    }
    let columns = key_columns
        .iter()
        .enumerate()
        .map(|(index, (name, table_type))| plan_column(index, name, table_type, block))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Some(KeyPlan {
        parts: parts.to_owned(),
        columns,
        rows: block.rows(),
    }))
}

/// The parts of a key without the brackets around them all; the table partition's id is made of the parts.
fn strip_tuple(key: &str) -> &str {
    let key = key.trim();
    let inner = key
        .strip_prefix("tuple(")
        .or_else(|| key.strip_prefix('('))
        .and_then(|rest| rest.strip_suffix(')'));
    match inner {
        Some(inner) if not_one_expression(inner).is_none() => inner.trim(),
        _ => key,
    }
}

fn plan_column<'b>(
    index: usize,
    name: &str,
    table_type: &str,
    block: &'b Block,
) -> Result<KeyColumn<'b>, String> {
    let Some((wire_type, column)) = block.column(name) else {
        return Err(format!(
            "the partition key needs the column {name}, which is not written by the sink; map it"
        ));
    };
    // The first element is the row's number.
    let value = format!("tupleElement(item, {})", index + 2);
    let read = DataType::parse(wire_type)
        .ok()
        .and_then(|data_type| render_read(data_type.bare(), &value));
    let (Some(read), Some(values)) = (read, column.values()) else {
        return Err(format!(
            "the partition key needs the column {name}, and values of type {wire_type} cannot be asked about"
        ));
    };
    let type_text = quote_text(table_type);
    // The id depends on whether the type may hold NULL, so it is exactly the table's.
    let expression = if DataType::parse(table_type).is_ok_and(|table_type| table_type.is_nullable())
    {
        format!("CAST(if({value} = '{NULL}', NULL, {read}), {type_text})")
    } else {
        format!("CAST({read}, {type_text})")
    };
    Ok(KeyColumn {
        name: name.to_owned(),
        expression,
        values,
    })
}

/// An expression that makes a value of a type of the text `value`: a mark, then the hex digits of its bytes.
fn render_read(data_type: &DataType, value: &str) -> Option<String> {
    let bytes = format!("unhex(substring({value}, 2))");
    let reinterpret = |type_text: &str| format!("reinterpret({bytes}, {})", quote_text(type_text));
    let type_text = data_type.to_string();
    let cast = |value: String| format!("CAST({value}, {})", quote_text(&type_text));
    Some(match data_type {
        DataType::String => bytes,
        DataType::FixedString(length) => format!("toFixedString({bytes}, {length})"),
        DataType::Int(_)
        | DataType::UInt(_)
        | DataType::Float32
        | DataType::Float64
        | DataType::Decimal { .. }
        | DataType::Bool
        | DataType::Date
        | DataType::DateTime { .. }
        | DataType::DateTime64 { .. }
        | DataType::Uuid => reinterpret(&type_text),
        DataType::Date32 => cast(reinterpret("Int32")),
        DataType::Ipv4 => cast(reinterpret("UInt32")),
        DataType::Ipv6 => cast(format!("toFixedString({bytes}, 16)")),
        DataType::Enum8(_) => cast(reinterpret("Int8")),
        DataType::Enum16(_) => cast(reinterpret("Int16")),
        DataType::LowCardinality(_)
        | DataType::Nullable(_)
        | DataType::Array(_)
        | DataType::Map(..)
        | DataType::Tuple(_) => return None,
    })
}

fn quote_text(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

impl KeyPlan<'_> {
    /// Rows that it is about.
    pub(super) const fn rows(&self) -> usize {
        self.rows
    }

    /// Asks for the table partitions of some rows: id, and the rows' numbers from the first of them on.
    pub(super) fn render(&self, rows: Range<usize>) -> String {
        let mut columns = String::new();
        let mut lists = format!("range({})", rows.len());
        for column in &self.columns {
            let (expression, name) = (&column.expression, quote_identifier(&column.name));
            let _ = write!(columns, ", {expression} AS {name}");
            let _ = write!(lists, ", {}", render_values(column, rows.clone()));
        }
        let parts = &self.parts;
        format!(
            "SELECT ifNull(partitionId({parts}), concat('{HASHED}', hex(sipHash128(tuple({parts}))))) AS id, groupArray(toUInt64(number_of_row)) AS members FROM (SELECT tupleElement(item, 1) AS number_of_row{columns} \
             FROM (SELECT arrayJoin(arrayZip({lists})) AS item)) GROUP BY id"
        )
    }
}

fn render_values(column: &KeyColumn<'_>, rows: Range<usize>) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |bits: u8| char::from(DIGITS[usize::from(bits & 0xf)]);
    let mut text = String::from("splitByChar(',', '");
    for (index, value) in column
        .values
        .get(rows)
        .unwrap_or_default()
        .iter()
        .enumerate()
    {
        if index > 0 {
            text.push(',');
        }
        text.push(if value.is_some() { VALUE } else { NULL });
        for byte in value.unwrap_or_default() {
            text.extend([digit(byte >> 4), digit(*byte)]);
        }
    }
    text.push_str("')");
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn brackets_around_the_whole_key_are_taken_away_and_no_others() {
        for (key, parts) in [
            ("tuple()", ""),
            ("", ""),
            ("toYYYYMM(ts)", "toYYYYMM(ts)"),
            ("(site, toDate(ts))", "site, toDate(ts)"),
            ("tuple(site)", "site"),
            ("(site)", "site"),
            ("(a + 1) * (b + 2)", "(a + 1) * (b + 2)"),
            ("(`a)`, b)", "`a)`, b"),
        ] {
            assert_eq!(strip_tuple(key), parts, "{key}");
        }
    }

    #[test]
    fn every_type_that_can_be_in_a_key_has_a_way_to_be_read() {
        let read = |text: &str| render_read(&DataType::parse(text).unwrap(), "value");
        assert_eq!(read("String").unwrap(), "unhex(substring(value, 2))");
        assert_eq!(
            read("Enum8('a\\'b' = 1)").unwrap(),
            "CAST(reinterpret(unhex(substring(value, 2)), 'Int8'), 'Enum8(\\'a\\\\\\'b\\' = 1)')"
        );
        assert_eq!(read("Array(String)"), None);
    }
}
