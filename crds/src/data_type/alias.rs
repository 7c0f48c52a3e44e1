//! Type names without arguments, and the SQL names that ClickHouse takes for its own.
//!
//! Must not be here: reading text, arguments of types.

use super::{DataType, IntWidth};

/// The type of a name that takes no arguments; canonical names are exact, SQL aliases any case.
pub(super) fn plain_type(name: &str) -> Option<DataType> {
    canonical(name)
        .or_else(|| integer(name))
        .or_else(|| sql_alias(&name.to_ascii_uppercase()))
}

fn canonical(name: &str) -> Option<DataType> {
    Some(match name {
        "String" => DataType::String,
        "Float32" => DataType::Float32,
        "Float64" => DataType::Float64,
        "UUID" => DataType::Uuid,
        "IPv4" => DataType::Ipv4,
        "IPv6" => DataType::Ipv6,
        _ => return None,
    })
}

fn integer(name: &str) -> Option<DataType> {
    let (bits, signed) = match name.strip_prefix("UInt") {
        Some(bits) => (bits, false),
        None => (name.strip_prefix("Int")?, true),
    };
    // "+8" and "08" parse as numbers but are no type names.
    let width = bits.parse().ok().and_then(IntWidth::from_bits)?;
    if width.bits().to_string() != bits {
        return None;
    }
    Some(if signed {
        DataType::Int(width)
    } else {
        DataType::UInt(width)
    })
}

fn sql_alias(upper: &str) -> Option<DataType> {
    Some(match upper {
        "BOOL" | "BOOLEAN" => DataType::Bool,
        "DATE" => DataType::Date,
        "DATE32" => DataType::Date32,
        "TINYINT" | "INT1" | "BYTE" => DataType::Int(IntWidth::W8),
        "SMALLINT" => DataType::Int(IntWidth::W16),
        "INT" | "INTEGER" | "MEDIUMINT" => DataType::Int(IntWidth::W32),
        "BIGINT" => DataType::Int(IntWidth::W64),
        "FLOAT" | "REAL" | "SINGLE" => DataType::Float32,
        "DOUBLE" => DataType::Float64,
        "INET4" => DataType::Ipv4,
        "INET6" => DataType::Ipv6,
        upper if is_text_alias(upper) => DataType::String,
        _ => return None,
    })
}

/// SQL names of text and binary types; a length after them means nothing to ClickHouse.
pub(super) fn is_text_alias(upper: &str) -> bool {
    matches!(
        upper,
        "TEXT"
            | "TINYTEXT"
            | "MEDIUMTEXT"
            | "LONGTEXT"
            | "VARCHAR"
            | "VARCHAR2"
            | "NVARCHAR"
            | "CHAR"
            | "NCHAR"
            | "CHARACTER"
            | "CLOB"
            | "BLOB"
            | "TINYBLOB"
            | "MEDIUMBLOB"
            | "LONGBLOB"
            | "BYTEA"
            | "VARBINARY"
    )
}

/// Names that take arguments, or none, for the suggestion after a name that is not known.
const KNOWN: [&str; 36] = [
    "String",
    "FixedString",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Int128",
    "Int256",
    "UInt8",
    "UInt16",
    "UInt32",
    "UInt64",
    "UInt128",
    "UInt256",
    "Float32",
    "Float64",
    "Decimal",
    "Decimal32",
    "Decimal64",
    "Decimal128",
    "Decimal256",
    "Bool",
    "Date",
    "Date32",
    "DateTime",
    "DateTime64",
    "UUID",
    "IPv4",
    "IPv6",
    "Enum8",
    "Enum16",
    "LowCardinality",
    "Nullable",
    "Array",
    "Map",
    "Tuple",
];

/// What to write instead of a name that is no type here.
pub(super) fn remedy_for(name: &str) -> String {
    match name {
        "Nested" => return "write Array(Tuple(…)) instead".to_owned(),
        "JSON" | "Object" | "Dynamic" | "Variant" => {
            return "name the fields you need as columns with `from`, or take the text as String"
                .to_owned();
        }
        "AggregateFunction" | "SimpleAggregateFunction" => {
            return "write plain values here and aggregate in a materialized view".to_owned();
        }
        _ => {}
    }
    match crate::nearest::nearest(name, &KNOWN) {
        Some(known) => format!("did you mean {known}?"),
        None => "use a type that the sink writes, for example String, UInt64, DateTime64(3, 'UTC')"
            .to_owned(),
    }
}
