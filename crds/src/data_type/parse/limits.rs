//! What ClickHouse allows inside a type.
//!
//! Must not be here: reading text.

use super::TypeError;
use crate::data_type::DataType;

/// Longest `FixedString`, the server's own limit.
const MAX_FIXED_STRING: u32 = 0x00FF_FFFF;

pub(super) fn error(position: usize, expected: &str, found: &str, remedy: &str) -> TypeError {
    TypeError {
        position,
        expected: expected.to_owned(),
        found: found.to_owned(),
        remedy: remedy.to_owned(),
    }
}

pub(super) fn in_range(
    position: usize,
    number: i64,
    min: u8,
    max: u8,
    what: &str,
) -> Result<u8, TypeError> {
    u8::try_from(number)
        .ok()
        .filter(|n| (min..=max).contains(n))
        .ok_or_else(|| {
            error(
                position,
                &format!("{what} from {min} to {max}"),
                &number.to_string(),
                "choose one in the range",
            )
        })
}

pub(super) fn fixed_string_length(position: usize, number: i64) -> Result<u32, TypeError> {
    u32::try_from(number)
        .ok()
        .filter(|n| (1..=MAX_FIXED_STRING).contains(n))
        .ok_or_else(|| {
            error(
                position,
                &format!("a length from 1 to {MAX_FIXED_STRING} bytes"),
                &number.to_string(),
                "use String for text of any length",
            )
        })
}

pub(super) fn check_zone(position: usize, zone: &str) -> Result<(), TypeError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_+-/".contains(c);
    if !zone.is_empty() && zone.len() <= 64 && zone.chars().all(plain) {
        return Ok(());
    }
    Err(error(
        position,
        "a time zone of the tz database",
        &format!("`{}`", zone.escape_debug()),
        "write for example 'UTC' or 'Europe/Berlin'",
    ))
}

pub(super) fn check_nullable(position: usize, inner: &DataType) -> Result<(), TypeError> {
    if inner.is_composite() || matches!(inner, DataType::Nullable(_) | DataType::LowCardinality(_))
    {
        let remedy = "put Nullable inside: Array(Nullable(T)), LowCardinality(Nullable(String))";
        return Err(error(
            position,
            "a plain type in Nullable",
            &format!("`{inner}`"),
            remedy,
        ));
    }
    Ok(())
}

pub(super) fn check_low_cardinality(position: usize, inner: &DataType) -> Result<(), TypeError> {
    let dictionary = match inner {
        DataType::Nullable(nested) => nested.as_ref(),
        other => other,
    };
    if matches!(dictionary, DataType::String | DataType::FixedString(_)) {
        return Ok(());
    }
    Err(error(
        position,
        "String or FixedString, Nullable or not, in LowCardinality",
        &format!("`{inner}`"),
        "use the type itself: for others the server refuses LowCardinality because it costs more than it saves",
    ))
}

pub(super) fn check_map_key(position: usize, key: &DataType) -> Result<(), TypeError> {
    let floating = matches!(key, DataType::Float32 | DataType::Float64);
    if key.is_composite() || key.is_nullable() || floating {
        return Err(error(
            position,
            "a plain type that is not Nullable as the key of a Map",
            &format!("`{key}`"),
            "use for example Map(String, T)",
        ));
    }
    Ok(())
}

pub(super) fn check_field(
    position: usize,
    before: &[(Option<String>, DataType)],
    name: Option<&str>,
) -> Result<(), TypeError> {
    let Some((first, _)) = before.first() else {
        return Ok(());
    };
    if first.is_some() != name.is_some() {
        let found = if name.is_some() {
            "a field with a name"
        } else {
            "a field without one"
        };
        return Err(error(
            position,
            "a name for all fields of a Tuple or for none",
            found,
            "name them all",
        ));
    }
    match name {
        Some(name)
            if before
                .iter()
                .any(|(other, _)| other.as_deref() == Some(name)) =>
        {
            Err(error(
                position,
                "another name for each field of a Tuple",
                &format!("`{name}` twice"),
                "rename one",
            ))
        }
        _ => Ok(()),
    }
}
