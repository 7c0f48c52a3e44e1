//! `Enum8` and `Enum16`: members, numbering, order.
//!
//! Must not be here: other types.

use super::{Scanner, TypeError, limits};
use crate::data_type::DataType;

/// `('a' = 1, …)`, or names alone, numbered from the first one on.
pub(super) fn read_enum(
    scanner: &mut Scanner<'_>,
    position: usize,
    upper: &str,
) -> Result<DataType, TypeError> {
    scanner.expect('(')?;
    let mut members = Vec::new();
    loop {
        let at = scanner.skip_space();
        let (name, number) = read_member(scanner)?;
        let number = number_member(at, &members, number)?;
        members.push((at, name, number));
        if !scanner.take(',') {
            break;
        }
    }
    scanner.expect(')')?;
    let members = sort_members(members)?;
    match upper {
        "ENUM8" => to_enum8(position, &members),
        "ENUM16" => to_enum16(position, &members),
        _ => to_enum8(position, &members).or_else(|_| to_enum16(position, &members)),
    }
}

/// A member as written; `None` where it has no number.
fn read_member(scanner: &mut Scanner<'_>) -> Result<(String, Option<i64>), TypeError> {
    let name = scanner.literal("a name in single quotes")?;
    let number = if scanner.take('=') {
        Some(scanner.number("the number of the name")?)
    } else {
        None
    };
    Ok((name, number))
}

type Member = (usize, String, i64);

/// After the first member only all or none of the numbers may be left out; this one takes the next.
fn number_member(at: usize, before: &[Member], written: Option<i64>) -> Result<i64, TypeError> {
    let next = before
        .last()
        .map_or(1, |(_, _, last)| last.saturating_add(1));
    match written {
        Some(number) if (i64::from(i16::MIN)..=i64::from(i16::MAX)).contains(&number) => Ok(number),
        Some(number) => Err(limits::error(
            at,
            "a number from -32768 to 32767",
            &number.to_string(),
            "choose one in the range",
        )),
        None => Ok(next),
    }
}

/// In the order of numbers, as the server prints them; a name or number twice is refused.
fn sort_members(mut members: Vec<Member>) -> Result<Vec<(String, i64)>, TypeError> {
    let mut names = std::collections::BTreeSet::new();
    if let Some((at, name, _)) = members
        .iter()
        .find(|(_, name, _)| !names.insert(name.as_str()))
    {
        return Err(twice(*at, &format!("'{}'", name.escape_debug())));
    }
    members.sort_by_key(|(_, _, number)| *number);
    if let Some(pair) = members.windows(2).find(|pair| pair[0].2 == pair[1].2) {
        return Err(twice(pair[1].0, &pair[1].2.to_string()));
    }
    Ok(members
        .into_iter()
        .map(|(_, name, number)| (name, number))
        .collect())
}

fn twice(position: usize, what: &str) -> TypeError {
    limits::error(
        position,
        "each name and each number of an Enum once",
        &format!("{what} twice"),
        "give it another",
    )
}

fn to_enum8(position: usize, members: &[(String, i64)]) -> Result<DataType, TypeError> {
    convert(members).map(DataType::Enum8).ok_or_else(|| {
        limits::error(
            position,
            "numbers from -128 to 127 in Enum8",
            "a larger one",
            "use Enum16",
        )
    })
}

fn to_enum16(position: usize, members: &[(String, i64)]) -> Result<DataType, TypeError> {
    convert(members).map(DataType::Enum16).ok_or_else(|| {
        limits::error(
            position,
            "numbers from -32768 to 32767 in Enum16",
            "a larger one",
            "use another type",
        )
    })
}

fn convert<N: TryFrom<i64>>(members: &[(String, i64)]) -> Option<Vec<(String, N)>> {
    members
        .iter()
        .map(|(name, number)| Some((name.clone(), N::try_from(*number).ok()?)))
        .collect()
}
