//! What a value has to be for a column to take it, with every limit worked out beforehand.
//!
//! Must not be here: reading values.

use clickhouse_sink_crds::data_type::DataType;
use clickhouse_sink_crds::worker_config::TimeUnit;
use ethnum::U256;
use jiff::tz::TimeZone;

use super::keys::KeyTable;
use super::text_column;
use crate::column::Column;
use crate::column::dictionary::{Dictionary, EntryShape};
use compile::compile;

mod compile;

/// Deepest nesting of a type.
const MAX_TYPE_DEPTH: usize = 16;
/// 1900-01-01 in days and seconds from the epoch.
const FIRST_DAY: i64 = -25_567;
/// 2299-12-31 in days from the epoch.
const LAST_DAY: i64 = 120_529;
const DAY_SECONDS: i64 = 86_400;

/// The kind of a column or of a part of it.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Text,
    FixedText(usize),
    Integer(IntegerKind),
    Float32,
    Float64,
    Decimal(DecimalKind),
    Bool,
    Time(Box<TimeKind>),
    Uuid,
    Ipv4,
    Ipv6,
    Enum(Box<EnumKind>),
    /// The inner kind is never nullable; the flag says whether NULL is allowed.
    LowCardinality(Box<Kind>, bool),
    Nullable(Box<Kind>),
    Array(Box<Kind>),
    Map(Box<Kind>, Box<Kind>),
    Tuple(Box<TupleKind>),
}

/// An integer of so many bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IntegerKind {
    pub(crate) width: usize,
    pub(crate) signed: bool,
}

/// A decimal: an integer of so many bytes, `scale` digits of it behind the point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DecimalKind {
    pub(crate) width: usize,
    pub(crate) scale: i32,
    /// The largest magnitude: `10^precision - 1`.
    pub(crate) limit: U256,
}

/// A date or time: ticks since the epoch.
#[derive(Clone, Debug)]
pub(crate) struct TimeKind {
    pub(crate) width: usize,
    /// True for `Date` and `Date32`: ticks are days.
    pub(crate) days: bool,
    /// Ticks per second are `10^digits`.
    pub(crate) digits: u8,
    pub(crate) min_ticks: i64,
    pub(crate) max_ticks: i64,
    /// What a time without an offset is read in.
    pub(crate) zone: Zone,
    /// What a plain number counts; without it numbers are refused.
    pub(crate) unit: Option<TimeUnit>,
}

/// A time zone; UTC needs no look-up.
#[derive(Clone, Debug)]
pub(crate) enum Zone {
    Utc,
    Named(TimeZone),
}

/// Members of an enum.
#[derive(Clone, Debug)]
pub(crate) struct EnumKind {
    pub(crate) width: usize,
    /// Sorted by name.
    names: Vec<(Box<[u8]>, i16)>,
    /// Sorted.
    numbers: Vec<i16>,
}

/// Elements of a tuple; `keys` where all of them have names.
#[derive(Clone, Debug)]
pub(crate) struct TupleKind {
    pub(crate) elements: Vec<Kind>,
    pub(crate) keys: Option<KeyTable>,
}

/// Why a type cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum KindError {
    /// No such zone in the bundled database.
    #[error("there is no time zone {0}; use a name of the IANA database, such as Europe/Berlin")]
    UnknownZone(String),
    /// The wrapper does not go with what is in it.
    #[error("{outer} cannot hold {inner}")]
    Nesting {
        /// The wrapper.
        outer: &'static str,
        /// What is in it.
        inner: String,
    },
    /// Too many levels.
    #[error("the type is nested deeper than {MAX_TYPE_DEPTH} levels")]
    TooDeep,
    /// `Tuple()`, or an enum without members.
    #[error("{0} must have at least one element")]
    Empty(&'static str),
}

impl EnumKind {
    fn new(members: impl Iterator<Item = (String, i16)>, width: usize) -> Result<Self, KindError> {
        let mut names: Vec<_> = members
            .map(|(name, number)| (name.into_bytes().into_boxed_slice(), number))
            .collect();
        names.sort_unstable();
        let mut numbers: Vec<_> = names.iter().map(|(_, number)| *number).collect();
        numbers.sort_unstable();
        if numbers.is_empty() {
            Err(KindError::Empty("an enum"))
        } else {
            Ok(Self {
                width,
                names,
                numbers,
            })
        }
    }

    /// The number of a member.
    pub(crate) fn number_of(&self, name: &[u8]) -> Option<i16> {
        let at = self
            .names
            .binary_search_by(|(candidate, _)| candidate.as_ref().cmp(name))
            .ok()?;
        self.names.get(at).map(|(_, number)| *number)
    }

    /// True where a member has this number.
    pub(crate) fn has_number(&self, number: i16) -> bool {
        self.numbers.binary_search(&number).is_ok()
    }

    fn zero(&self) -> i16 {
        self.numbers.first().copied().unwrap_or_default()
    }
}

impl TimeKind {
    fn days(width: usize, min_ticks: i64, max_ticks: i64, unit: Option<TimeUnit>) -> Self {
        Self {
            width,
            days: true,
            digits: 0,
            min_ticks,
            max_ticks,
            zone: Zone::Utc,
            unit,
        }
    }

    fn seconds(zone: Zone, unit: Option<TimeUnit>) -> Self {
        Self {
            width: 4,
            days: false,
            digits: 0,
            min_ticks: 0,
            max_ticks: i64::from(u32::MAX),
            zone,
            unit,
        }
    }

    fn ticks(digits: u8, zone: Zone, unit: Option<TimeUnit>) -> Self {
        let per_second = 10_i64.pow(u32::from(digits));
        let min_ticks = FIRST_DAY * DAY_SECONDS * per_second;
        let max_ticks = ((LAST_DAY + 1) * DAY_SECONDS)
            .checked_mul(per_second)
            .map_or(i64::MAX, |end| end - 1);
        Self {
            width: 8,
            days: false,
            digits,
            min_ticks,
            max_ticks,
            zone,
            unit,
        }
    }
}

impl Kind {
    /// The kind of a type; `unit` is what plain numbers count where it is a date or time.
    pub(crate) fn compile(data_type: &DataType, unit: Option<TimeUnit>) -> Result<Self, KindError> {
        compile(data_type, unit, 1)
    }

    /// An empty column of this kind.
    pub(crate) fn empty_column(&self) -> Column {
        match self {
            Self::Text => text_column(),
            Self::LowCardinality(inner, nullable) => {
                let shape = inner
                    .fixed_width()
                    .map_or(EntryShape::Text, EntryShape::Fixed);
                Column::Dictionary(Box::new(Dictionary::new(shape, *nullable)))
            }
            Self::Nullable(inner) => Column::nullable(inner.empty_column()),
            Self::Array(inner) => Column::array(inner.empty_column()),
            Self::Map(key, value) => Column::array(Column::Tuple(vec![
                key.empty_column(),
                value.empty_column(),
            ])),
            Self::Tuple(tuple) => {
                Column::Tuple(tuple.elements.iter().map(Self::empty_column).collect())
            }
            scalar => Column::fixed(scalar.fixed_width().unwrap_or(1)),
        }
    }

    /// Bytes of one value where all values have the same.
    fn fixed_width(&self) -> Option<usize> {
        Some(match self {
            Self::FixedText(width) => *width,
            Self::Integer(integer) => integer.width,
            Self::Decimal(decimal) => decimal.width,
            Self::Time(time) => time.width,
            Self::Enum(members) => members.width,
            Self::Bool => 1,
            Self::Float32 | Self::Ipv4 => 4,
            Self::Float64 => 8,
            Self::Uuid | Self::Ipv6 => 16,
            _ => return None,
        })
    }

    /// Appends what ClickHouse would take as the type's default.
    pub(crate) fn push_zero(&self, column: &mut Column) {
        match (self, column) {
            (Self::Enum(members), Column::Fixed(column)) => {
                column.data.extend_from_slice(
                    members
                        .zero()
                        .to_le_bytes()
                        .get(..members.width)
                        .unwrap_or_default(),
                );
            }
            (Self::Nullable(inner), Column::Nullable(column)) => {
                column.nulls.data.push(1);
                inner.push_zero(&mut column.inner);
            }
            (Self::LowCardinality(_, true), Column::Dictionary(column)) => column.push_null(),
            (Self::LowCardinality(inner, false), Column::Dictionary(column)) => {
                column.scratch.clear();
                inner.write_zero(&mut column.scratch);
                column.push_scratch();
            }
            (Self::Tuple(tuple), Column::Tuple(columns)) => {
                tuple
                    .elements
                    .iter()
                    .zip(columns)
                    .for_each(|(kind, column)| kind.push_zero(column));
            }
            (_, Column::Fixed(column)) => column.push_zero(),
            (_, Column::Text(column)) => column.push(b""),
            (_, Column::Array(column)) => column.end_row(),
            _ => debug_assert!(false, "a column has the shape of its kind"),
        }
    }

    fn write_zero(&self, out: &mut Vec<u8>) {
        match self {
            Self::Enum(members) => {
                out.extend_from_slice(
                    members
                        .zero()
                        .to_le_bytes()
                        .get(..members.width)
                        .unwrap_or_default(),
                );
            }
            scalar => out.resize(scalar.fixed_width().unwrap_or(0), 0),
        }
    }
}
