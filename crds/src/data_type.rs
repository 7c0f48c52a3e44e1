//! ClickHouse types as a tree: parsed from text, printed in ClickHouse's own canonical form.
//!
//! Must not be here: values of these types, anything about columns or tables.

use std::fmt;
use std::str::FromStr;

pub use parse::TypeError;

mod alias;
mod parse;

/// Deepest nesting of a type; what ClickHouse itself would still take is of no use in a table.
pub const MAX_DEPTH: usize = 16;

/// A ClickHouse data type that the sink can write.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DataType {
    /// `String`: any bytes.
    String,
    /// `FixedString(n)`: `n` bytes.
    FixedString(u32),
    /// `Int8` … `Int256`: bits.
    Int(IntWidth),
    /// `UInt8` … `UInt256`: bits.
    UInt(IntWidth),
    /// `Float32`.
    Float32,
    /// `Float64`.
    Float64,
    /// `Decimal(precision, scale)`; the precision picks 32, 64, 128 or 256 bits.
    Decimal {
        /// Decimal digits in all, 1 to 76.
        precision: u8,
        /// Digits behind the point.
        scale: u8,
    },
    /// `Bool`.
    Bool,
    /// `Date`: days 1970-01-01 … 2149-06-06.
    Date,
    /// `Date32`: days 1900-01-01 … 2299-12-31.
    Date32,
    /// `DateTime[('zone')]`: seconds 1970 … 2106.
    DateTime {
        /// Time zone that naive texts are read in and values are shown in.
        zone: Option<String>,
    },
    /// `DateTime64(precision[, 'zone'])`: 1900 … 2299 (2262 at precision 9).
    DateTime64 {
        /// Digits behind the second, 0 to 9.
        precision: u8,
        /// As for `DateTime`.
        zone: Option<String>,
    },
    /// `UUID`.
    Uuid,
    /// `IPv4`.
    Ipv4,
    /// `IPv6`.
    Ipv6,
    /// `Enum8('a' = 1, …)`, sorted by number.
    Enum8(Vec<(String, i8)>),
    /// `Enum16('a' = 1, …)`, sorted by number.
    Enum16(Vec<(String, i16)>),
    /// `LowCardinality(T)`, T of String, `FixedString` or Nullable of those (others are discouraged by the server).
    LowCardinality(Box<DataType>),
    /// `Nullable(T)`.
    Nullable(Box<DataType>),
    /// `Array(T)`.
    Array(Box<DataType>),
    /// `Map(K, V)`.
    Map(Box<DataType>, Box<DataType>),
    /// `Tuple(name T, …)` or `Tuple(T, …)`.
    Tuple(Vec<(Option<String>, DataType)>),
}

/// Width of an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IntWidth {
    /// 8 bits.
    W8,
    /// 16 bits.
    W16,
    /// 32 bits.
    W32,
    /// 64 bits.
    W64,
    /// 128 bits.
    W128,
    /// 256 bits.
    W256,
}

impl IntWidth {
    /// Number of bits.
    #[must_use]
    pub const fn bits(self) -> u16 {
        match self {
            Self::W8 => 8,
            Self::W16 => 16,
            Self::W32 => 32,
            Self::W64 => 64,
            Self::W128 => 128,
            Self::W256 => 256,
        }
    }

    /// The width of that many bits.
    #[must_use]
    pub const fn from_bits(bits: u16) -> Option<Self> {
        Some(match bits {
            8 => Self::W8,
            16 => Self::W16,
            32 => Self::W32,
            64 => Self::W64,
            128 => Self::W128,
            256 => Self::W256,
            _ => return None,
        })
    }
}

impl DataType {
    /// Reads a type as ClickHouse prints it, or by one of its common aliases (`Decimal64(4)`, `INT`, `VARCHAR(20)`).
    ///
    /// # Errors
    /// The first place where the text is not a type that the sink can write, and what to write instead.
    pub fn parse(text: &str) -> Result<Self, TypeError> {
        parse::parse(text)
    }

    /// True for `Nullable(T)` and `LowCardinality(Nullable(T))`.
    #[must_use]
    pub fn is_nullable(&self) -> bool {
        match self {
            Self::Nullable(_) => true,
            Self::LowCardinality(inner) => inner.is_nullable(),
            _ => false,
        }
    }

    /// The type without `LowCardinality` and `Nullable` around it.
    #[must_use]
    pub fn bare(&self) -> &Self {
        match self {
            Self::Nullable(inner) | Self::LowCardinality(inner) => inner.bare(),
            other => other,
        }
    }

    /// True for `Date`, `Date32`, `DateTime` and `DateTime64`, wrapped or not.
    #[must_use]
    pub fn is_date_or_time(&self) -> bool {
        matches!(
            self.bare(),
            Self::Date | Self::Date32 | Self::DateTime { .. } | Self::DateTime64 { .. }
        )
    }

    /// True for integers, floats and decimals, wrapped or not.
    #[must_use]
    pub fn is_number(&self) -> bool {
        matches!(
            self.bare(),
            Self::Int(_) | Self::UInt(_) | Self::Float32 | Self::Float64 | Self::Decimal { .. }
        )
    }

    /// True for `Array`, `Map` and `Tuple`.
    #[must_use]
    pub const fn is_composite(&self) -> bool {
        matches!(self, Self::Array(_) | Self::Map(..) | Self::Tuple(_))
    }
}

impl FromStr for DataType {
    type Err = TypeError;

    fn from_str(text: &str) -> Result<Self, TypeError> {
        Self::parse(text)
    }
}

impl fmt::Display for DataType {
    /// Exactly what `system.columns.type` shows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::String => f.write_str("String"),
            Self::FixedString(length) => write!(f, "FixedString({length})"),
            Self::Int(width) => write!(f, "Int{}", width.bits()),
            Self::UInt(width) => write!(f, "UInt{}", width.bits()),
            Self::Float32 => f.write_str("Float32"),
            Self::Float64 => f.write_str("Float64"),
            Self::Decimal { precision, scale } => write!(f, "Decimal({precision}, {scale})"),
            Self::Bool => f.write_str("Bool"),
            Self::Date => f.write_str("Date"),
            Self::Date32 => f.write_str("Date32"),
            Self::DateTime { zone } => fmt_date_time(f, zone.as_deref()),
            Self::DateTime64 { precision, zone } => fmt_date_time64(f, *precision, zone.as_deref()),
            Self::Uuid => f.write_str("UUID"),
            Self::Ipv4 => f.write_str("IPv4"),
            Self::Ipv6 => f.write_str("IPv6"),
            Self::Enum8(members) => fmt_enum(f, "Enum8", members),
            Self::Enum16(members) => fmt_enum(f, "Enum16", members),
            Self::LowCardinality(inner) => write!(f, "LowCardinality({inner})"),
            Self::Nullable(inner) => write!(f, "Nullable({inner})"),
            Self::Array(inner) => write!(f, "Array({inner})"),
            Self::Map(key, value) => write!(f, "Map({key}, {value})"),
            Self::Tuple(fields) => fmt_tuple(f, fields),
        }
    }
}

fn fmt_date_time(f: &mut fmt::Formatter<'_>, zone: Option<&str>) -> fmt::Result {
    match zone {
        Some(zone) => write!(f, "DateTime({})", quote(zone, '\'')),
        None => f.write_str("DateTime"),
    }
}

fn fmt_date_time64(f: &mut fmt::Formatter<'_>, precision: u8, zone: Option<&str>) -> fmt::Result {
    match zone {
        Some(zone) => write!(f, "DateTime64({precision}, {})", quote(zone, '\'')),
        None => write!(f, "DateTime64({precision})"),
    }
}

fn fmt_enum<N: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    members: &[(String, N)],
) -> fmt::Result {
    write!(f, "{name}(")?;
    for (index, (member, number)) in members.iter().enumerate() {
        let separator = if index == 0 { "" } else { ", " };
        write!(f, "{separator}{} = {number}", quote(member, '\''))?;
    }
    f.write_str(")")
}

fn fmt_tuple(f: &mut fmt::Formatter<'_>, fields: &[(Option<String>, DataType)]) -> fmt::Result {
    f.write_str("Tuple(")?;
    for (index, (name, inner)) in fields.iter().enumerate() {
        f.write_str(if index == 0 { "" } else { ", " })?;
        if let Some(name) = name {
            write!(f, "{} ", quote_identifier_if_needed(name))?;
        }
        write!(f, "{inner}")?;
    }
    f.write_str(")")
}

/// Words that ClickHouse quotes although they look like plain identifiers.
const QUOTED_WORDS: [&str; 6] = ["all", "distinct", "from", "null", "select", "table"];

/// The identifier as ClickHouse prints it: in backquotes only where it must be.
#[must_use]
pub fn quote_identifier_if_needed(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !QUOTED_WORDS
            .iter()
            .any(|word| name.eq_ignore_ascii_case(word));
    if plain {
        name.to_owned()
    } else {
        quote(name, '`')
    }
}

/// The name in back-quotes, whatever is in it.
#[must_use]
pub fn quote_identifier(name: &str) -> String {
    quote(name, '`')
}

/// The text in single quotes, whatever is in it.
#[must_use]
pub fn quote_literal(text: &str) -> String {
    quote(text, '\'')
}

/// `text` between two `mark`s, with ClickHouse's backslash escapes.
pub(crate) fn quote(text: &str, mark: char) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push(mark);
    for c in text.chars() {
        match c {
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\0' => quoted.push_str("\\0"),
            '\\' => quoted.push_str("\\\\"),
            c if c == mark => quoted.extend(['\\', c]),
            c => quoted.push(c),
        }
    }
    quoted.push(mark);
    quoted
}

#[cfg(test)]
mod tests;
