//! ClickHouse types as a tree: parsed from text, printed in ClickHouse's own canonical form.
//!
//! Must not be here: values of these types, anything about columns or tables.

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
    Decimal { precision: u8, scale: u8 },
    /// `Bool`.
    Bool,
    /// `Date`: days 1970-01-01 … 2149-06-06.
    Date,
    /// `Date32`: days 1900-01-01 … 2299-12-31.
    Date32,
    /// `DateTime[('zone')]`: seconds 1970 … 2106.
    DateTime { zone: Option<String> },
    /// `DateTime64(precision[, 'zone'])`: 1900 … 2299 (2262 at precision 9).
    DateTime64 { precision: u8, zone: Option<String> },
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
