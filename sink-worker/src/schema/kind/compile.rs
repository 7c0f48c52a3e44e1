//! From a declared type to its kind.
//!
//! Must not be here: what kinds mean.

use clickhouse_sink_crds::data_type::{DataType, IntWidth};
use clickhouse_sink_crds::worker_config::TimeUnit;
use ethnum::U256;
use jiff::tz::TimeZoneDatabase;

use super::{
    DecimalKind, EnumKind, FIRST_DAY, IntegerKind, Kind, KindError, LAST_DAY, MAX_TYPE_DEPTH,
    TimeKind, TupleKind, Zone,
};
use crate::schema::keys::KeyTable;

pub(super) fn compile(
    data_type: &DataType,
    unit: Option<TimeUnit>,
    depth: usize,
) -> Result<Kind, KindError> {
    if depth > MAX_TYPE_DEPTH {
        return Err(KindError::TooDeep);
    }
    let below = |inner: &DataType| compile(inner, unit, depth + 1).map(Box::new);
    Ok(match data_type {
        DataType::LowCardinality(inner) => compile_low_cardinality(inner, unit, depth)?,
        DataType::Nullable(inner) if inner.is_composite() || inner.is_nullable() => {
            return Err(nesting("Nullable", inner));
        }
        DataType::Nullable(inner) if matches!(**inner, DataType::LowCardinality(_)) => {
            return Err(nesting("Nullable", inner));
        }
        DataType::Nullable(inner) => Kind::Nullable(below(inner)?),
        DataType::Array(inner) => Kind::Array(below(inner)?),
        DataType::Map(key, _) if !can_be_key(key) => return Err(nesting("a Map key", key)),
        DataType::Map(key, value) => Kind::Map(below(key)?, below(value)?),
        DataType::Tuple(fields) => compile_tuple(fields, unit, depth)?,
        scalar => compile_scalar(scalar, unit)?,
    })
}

fn nesting(outer: &'static str, inner: &DataType) -> KindError {
    KindError::Nesting {
        outer,
        inner: inner.to_string(),
    }
}

/// Keys of JSON objects are text; NULL, true and structures have no place there.
fn can_be_key(data_type: &DataType) -> bool {
    !data_type.is_nullable()
        && !data_type.bare().is_composite()
        && *data_type.bare() != DataType::Bool
}

fn compile_low_cardinality(
    inner: &DataType,
    unit: Option<TimeUnit>,
    depth: usize,
) -> Result<Kind, KindError> {
    let bare = inner.bare();
    let refused = bare.is_composite()
        || matches!(bare, DataType::Decimal { .. } | DataType::DateTime64 { .. });
    if refused || matches!(inner, DataType::LowCardinality(_)) {
        return Err(nesting("LowCardinality", inner));
    }
    Ok(Kind::LowCardinality(
        Box::new(compile(bare, unit, depth + 1)?),
        inner.is_nullable(),
    ))
}

fn compile_tuple(
    fields: &[(Option<String>, DataType)],
    unit: Option<TimeUnit>,
    depth: usize,
) -> Result<Kind, KindError> {
    if fields.is_empty() {
        return Err(KindError::Empty("a Tuple"));
    }
    let elements = fields
        .iter()
        .map(|(_, inner)| compile(inner, unit, depth + 1))
        .collect::<Result<_, _>>()?;
    let names: Option<Vec<&str>> = fields.iter().map(|(name, _)| name.as_deref()).collect();
    Ok(Kind::Tuple(Box::new(TupleKind {
        elements,
        keys: names.map(|names| KeyTable::new(&names)),
    })))
}

fn compile_scalar(data_type: &DataType, unit: Option<TimeUnit>) -> Result<Kind, KindError> {
    Ok(match data_type {
        DataType::FixedString(length) => {
            Kind::FixedText(usize::try_from(*length).unwrap_or(usize::MAX))
        }
        DataType::Int(width) => integer(*width, true),
        DataType::UInt(width) => integer(*width, false),
        DataType::Float32 => Kind::Float32,
        DataType::Float64 => Kind::Float64,
        DataType::Decimal { precision, scale } => Kind::Decimal(decimal(*precision, *scale)),
        DataType::Bool => Kind::Bool,
        DataType::Date => time(TimeKind::days(2, 0, i64::from(u16::MAX), unit)),
        DataType::Date32 => time(TimeKind::days(4, FIRST_DAY, LAST_DAY, unit)),
        DataType::DateTime { zone } => time(TimeKind::seconds(find_zone(zone.as_deref())?, unit)),
        DataType::DateTime64 { precision, zone } => time(TimeKind::ticks(
            *precision,
            find_zone(zone.as_deref())?,
            unit,
        )),
        DataType::Uuid => Kind::Uuid,
        DataType::Ipv4 => Kind::Ipv4,
        DataType::Ipv6 => Kind::Ipv6,
        DataType::Enum8(members) => enumeration(EnumKind::new(
            members
                .iter()
                .map(|(name, number)| (name.clone(), i16::from(*number))),
            1,
        )?),
        DataType::Enum16(members) => enumeration(EnumKind::new(members.iter().cloned(), 2)?),
        _ => Kind::Text,
    })
}

fn integer(width: IntWidth, signed: bool) -> Kind {
    Kind::Integer(IntegerKind {
        width: usize::from(width.bits() / 8),
        signed,
    })
}

fn decimal(precision: u8, scale: u8) -> DecimalKind {
    let width = match precision {
        0..=9 => 4,
        10..=18 => 8,
        19..=38 => 16,
        _ => 32,
    };
    let limit = U256::new(10).pow(u32::from(precision.min(76))) - U256::ONE;
    DecimalKind {
        width,
        scale: i32::from(scale),
        limit,
    }
}

fn time(kind: TimeKind) -> Kind {
    Kind::Time(Box::new(kind))
}

fn enumeration(kind: EnumKind) -> Kind {
    Kind::Enum(Box::new(kind))
}

/// The zone of a column; none declared: UTC. Always from the database in this binary, so that the host cannot change
/// what a record means.
fn find_zone(name: Option<&str>) -> Result<Zone, KindError> {
    match name {
        None | Some("" | "UTC" | "Etc/UTC" | "UCT" | "Zulu" | "GMT") => Ok(Zone::Utc),
        Some(name) => TimeZoneDatabase::bundled()
            .get(name)
            .map(Zone::Named)
            .map_err(|_| KindError::UnknownZone(name.to_owned())),
    }
}
