//! Reads the text of a type, with the limits that ClickHouse sets.
//!
//! Must not be here: printing, names of SQL aliases (`alias`).

use thiserror::Error;

use super::{DataType, MAX_DEPTH, alias};

mod enums;
mod limits;
mod scan;

use scan::Scanner;

/// A text that is not a type the sink can write.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("expected {expected} at position {position}, found {found}; {remedy}")]
pub struct TypeError {
    /// Byte of the text where reading stopped, from 0.
    pub position: usize,
    /// What may stand there.
    pub expected: String,
    /// What stands there.
    pub found: String,
    /// What to write instead.
    pub remedy: String,
}

impl TypeError {
    /// Reason for a condition.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        "InvalidType"
    }
}

/// Reads the whole text as one type.
pub(super) fn parse(text: &str) -> Result<DataType, TypeError> {
    let mut scanner = Scanner::new(text);
    let data_type = read_type(&mut scanner, 1)?;
    scanner.expect_end()?;
    Ok(data_type)
}

fn read_type(scanner: &mut Scanner<'_>, depth: usize) -> Result<DataType, TypeError> {
    let position = scanner.skip_space();
    if depth > MAX_DEPTH {
        return Err(limits::error(
            position,
            &format!("at most {MAX_DEPTH} types inside each other"),
            "one more",
            "flatten the type into columns of its own",
        ));
    }
    let name = scanner.name("the name of a type")?;
    read_named(scanner, position, &name, depth)
}

fn read_named(
    scanner: &mut Scanner<'_>,
    position: usize,
    name: &str,
    depth: usize,
) -> Result<DataType, TypeError> {
    match name {
        "Nullable" => {
            let (at, inner) = read_one(scanner, depth)?;
            limits::check_nullable(at, &inner)?;
            Ok(DataType::Nullable(Box::new(inner)))
        }
        "LowCardinality" => {
            let (at, inner) = read_one(scanner, depth)?;
            limits::check_low_cardinality(at, &inner)?;
            Ok(DataType::LowCardinality(Box::new(inner)))
        }
        "Array" => Ok(DataType::Array(Box::new(read_one(scanner, depth)?.1))),
        "Map" => read_map(scanner, depth),
        "Tuple" => read_tuple(scanner, depth),
        "FixedString" => read_fixed_string(scanner),
        _ => read_any_case(scanner, position, name),
    }
}

/// Types whose names ClickHouse takes in any case.
fn read_any_case(
    scanner: &mut Scanner<'_>,
    position: usize,
    name: &str,
) -> Result<DataType, TypeError> {
    let upper = name.to_ascii_uppercase();
    match upper.as_str() {
        "DATETIME" | "DATETIME32" | "TIMESTAMP" => read_date_time(scanner),
        "DATETIME64" => read_date_time64(scanner),
        "DECIMAL" | "DEC" | "NUMERIC" | "FIXED" => read_decimal(scanner),
        "DECIMAL32" => read_decimal_of(scanner, 9),
        "DECIMAL64" => read_decimal_of(scanner, 18),
        "DECIMAL128" => read_decimal_of(scanner, 38),
        "DECIMAL256" => read_decimal_of(scanner, 76),
        "ENUM" | "ENUM8" | "ENUM16" => enums::read_enum(scanner, position, &upper),
        _ => read_plain(scanner, position, name, &upper),
    }
}

fn read_plain(
    scanner: &mut Scanner<'_>,
    position: usize,
    name: &str,
    upper: &str,
) -> Result<DataType, TypeError> {
    let Some(plain) = alias::plain_type(name) else {
        return Err(limits::error(
            position,
            "a type that the sink writes",
            &format!("`{name}`"),
            &alias::remedy_for(name),
        ));
    };
    if alias::is_text_alias(upper) && scanner.take('(') {
        scanner.number("a length")?;
        scanner.expect(')')?;
    }
    Ok(match plain {
        DataType::Int(width) if scanner.take_word("UNSIGNED") => DataType::UInt(width),
        DataType::Int(width) => {
            scanner.take_word("SIGNED");
            DataType::Int(width)
        }
        DataType::Float64 => {
            scanner.take_word("PRECISION");
            DataType::Float64
        }
        other => other,
    })
}

/// `(T)`, and where T begins.
fn read_one(scanner: &mut Scanner<'_>, depth: usize) -> Result<(usize, DataType), TypeError> {
    scanner.expect('(')?;
    let at = scanner.skip_space();
    let inner = read_type(scanner, depth + 1)?;
    scanner.expect(')')?;
    Ok((at, inner))
}

fn read_map(scanner: &mut Scanner<'_>, depth: usize) -> Result<DataType, TypeError> {
    scanner.expect('(')?;
    let at = scanner.skip_space();
    let key = read_type(scanner, depth + 1)?;
    limits::check_map_key(at, &key)?;
    scanner.expect(',')?;
    let value = read_type(scanner, depth + 1)?;
    scanner.expect(')')?;
    Ok(DataType::Map(Box::new(key), Box::new(value)))
}

fn read_tuple(scanner: &mut Scanner<'_>, depth: usize) -> Result<DataType, TypeError> {
    scanner.expect('(')?;
    let mut fields: Vec<(Option<String>, DataType)> = Vec::new();
    loop {
        let at = scanner.skip_space();
        let field = read_field(scanner, depth)?;
        limits::check_field(at, &fields, field.0.as_deref())?;
        fields.push(field);
        if !scanner.take(',') {
            break;
        }
    }
    scanner.expect(')')?;
    Ok(DataType::Tuple(fields))
}

/// `T` or `name T`.
fn read_field(
    scanner: &mut Scanner<'_>,
    depth: usize,
) -> Result<(Option<String>, DataType), TypeError> {
    let at = scanner.skip_space();
    let quoted = scanner.at_quoted_name();
    let first = scanner.name("a field's name or type")?;
    if quoted || (scanner.at_name() && !scanner.at_type_suffix()) {
        return Ok((Some(first), read_type(scanner, depth + 1)?));
    }
    scanner.back_to(at);
    Ok((None, read_type(scanner, depth + 1)?))
}

fn read_fixed_string(scanner: &mut Scanner<'_>) -> Result<DataType, TypeError> {
    scanner.expect('(')?;
    let at = scanner.skip_space();
    let length = scanner.number("the number of bytes")?;
    scanner.expect(')')?;
    limits::fixed_string_length(at, length).map(DataType::FixedString)
}

fn read_date_time(scanner: &mut Scanner<'_>) -> Result<DataType, TypeError> {
    let mut zone = None;
    if scanner.take('(') {
        zone = Some(read_zone(scanner)?);
        scanner.expect(')')?;
    }
    Ok(DataType::DateTime { zone })
}

fn read_date_time64(scanner: &mut Scanner<'_>) -> Result<DataType, TypeError> {
    let (mut precision, mut zone) = (3, None);
    if scanner.take('(') {
        let at = scanner.skip_space();
        precision = limits::in_range(at, scanner.number("the precision")?, 0, 9, "a precision")?;
        if scanner.take(',') {
            zone = Some(read_zone(scanner)?);
        }
        scanner.expect(')')?;
    }
    Ok(DataType::DateTime64 { precision, zone })
}

fn read_zone(scanner: &mut Scanner<'_>) -> Result<String, TypeError> {
    let at = scanner.skip_space();
    let zone = scanner.literal("a time zone in single quotes")?;
    limits::check_zone(at, &zone)?;
    Ok(zone)
}

fn read_decimal(scanner: &mut Scanner<'_>) -> Result<DataType, TypeError> {
    let (mut precision, mut scale) = (10, 0);
    if scanner.take('(') {
        let at = scanner.skip_space();
        precision = limits::in_range(at, scanner.number("the precision")?, 1, 76, "a precision")?;
        if scanner.take(',') {
            scale = read_scale(scanner, precision)?;
        }
        scanner.expect(')')?;
    }
    Ok(DataType::Decimal { precision, scale })
}

fn read_decimal_of(scanner: &mut Scanner<'_>, precision: u8) -> Result<DataType, TypeError> {
    scanner.expect('(')?;
    let scale = read_scale(scanner, precision)?;
    scanner.expect(')')?;
    Ok(DataType::Decimal { precision, scale })
}

fn read_scale(scanner: &mut Scanner<'_>, precision: u8) -> Result<u8, TypeError> {
    let at = scanner.skip_space();
    limits::in_range(at, scanner.number("the scale")?, 0, precision, "a scale")
}
