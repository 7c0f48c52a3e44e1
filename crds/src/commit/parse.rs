//! Reads commit metadata.
//!
//! Must not be here: writing it.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::{
    CommitMetadata, Epoch, MAX_METADATA_BYTES, MAX_RANGES, MetadataError, is_hex, shorten,
};

type Fields<'a> = BTreeMap<char, &'a str>;

pub(super) fn parse(bytes: &[u8]) -> Result<CommitMetadata, MetadataError> {
    let fields = split_fields(bytes)?;
    let offset: i64 = number(&fields, 's', "an offset, 0 or more")?;
    if offset < 0 {
        return Err(bad('s', "an offset, 0 or more", &offset.to_string()));
    }
    Ok(CommitMetadata {
        offset,
        table: hex(&fields, 'd', 8..=8, "8 hex digits")?,
        topic_id: topic_id(&fields)?,
        first_partitions: number(&fields, 'n', "a number of partitions")?,
        epoch: Epoch::parse(value(&fields, 'e')?)?,
        mapping: hex(&fields, 'm', 8..=16, "8 to 16 hex digits")?,
        declared_at_s: number(&fields, 'w', "seconds since 1970")?,
        sequence: number(&fields, 'q', "a sequence number")?,
        ends: ends(value(&fields, 'p')?, offset)?,
    })
}

fn split_fields(bytes: &[u8]) -> Result<Fields<'_>, MetadataError> {
    let text = std::str::from_utf8(bytes).map_err(|_| MetadataError::Foreign)?;
    let rest = text.strip_prefix("cs1;").ok_or(MetadataError::Foreign)?;
    // A longer text is nothing that we wrote.
    if text.len() > MAX_METADATA_BYTES {
        return Err(MetadataError::Foreign);
    }
    let mut fields = Fields::new();
    for part in rest.split(';') {
        let (key, value) = part.split_once('=').ok_or(MetadataError::Foreign)?;
        let mut letters = key.chars();
        let (Some(letter), None) = (letters.next(), letters.next()) else {
            // A longer key is a newer version's.
            continue;
        };
        if fields.insert(letter, value).is_some() {
            return Err(MetadataError::DuplicateKey { key: letter });
        }
    }
    Ok(fields)
}

fn value<'a>(fields: &Fields<'a>, key: char) -> Result<&'a str, MetadataError> {
    fields
        .get(&key)
        .copied()
        .ok_or(MetadataError::MissingKey { key })
}

fn bad(key: char, expected: &'static str, found: &str) -> MetadataError {
    MetadataError::BadValue {
        key,
        expected,
        found: shorten(found),
    }
}

/// A number in the one form that we write: no sign before it, no leading zeros.
fn number<N: FromStr + ToString>(
    fields: &Fields<'_>,
    key: char,
    expected: &'static str,
) -> Result<N, MetadataError> {
    let text = value(fields, key)?;
    plain_number(text).ok_or_else(|| bad(key, expected, text))
}

fn plain_number<N: FromStr + ToString>(text: &str) -> Option<N> {
    text.parse::<N>()
        .ok()
        .filter(|number| number.to_string() == text)
}

fn hex(
    fields: &Fields<'_>,
    key: char,
    length: std::ops::RangeInclusive<usize>,
    expected: &'static str,
) -> Result<String, MetadataError> {
    let text = value(fields, key)?;
    if length.contains(&text.len()) && is_hex(text) {
        return Ok(text.to_owned());
    }
    Err(bad(key, expected, text))
}

fn topic_id(fields: &Fields<'_>) -> Result<String, MetadataError> {
    let text = value(fields, 't')?;
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'+' | b'=');
    if (1..=64).contains(&text.len()) && text.bytes().all(plain) {
        return Ok(text.to_owned());
    }
    Err(bad('t', "a topic id of letters, digits, `-` and `_`", text))
}

fn ends(text: &str, offset: i64) -> Result<Vec<i64>, MetadataError> {
    let expected = "ascending offsets above `s`, at most 32";
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let ends: Option<Vec<i64>> = text.split(',').map(plain_number).collect();
    let ends = ends
        .filter(|ends| ends.len() <= MAX_RANGES)
        .ok_or_else(|| bad('p', expected, text))?;
    let mut before = offset;
    for &end in &ends {
        if end <= before {
            return Err(bad('p', expected, text));
        }
        before = end;
    }
    Ok(ends)
}
