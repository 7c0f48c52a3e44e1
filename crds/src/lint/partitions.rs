//! Partition keys: whether copies of one key meet in one table partition, and how many a batch may span.
//!
//! Must not be here: the sorting key by itself (`keys`).

use super::Hit;
use super::identity::{can_identify, is_id};
use super::target::{Target, targets};
use crate::api::ClickHouseSink;
use crate::data_type::{DataType, IntWidth};
use crate::expression::{calls, identifiers, normalise, terms};

/// Most table partitions of one block, the server's default.
const MAX_PARTITIONS: u64 = 100;
/// More than can be counted.
const MANY: u64 = 1_000_000;

/// Functions and about how many values each gives for the records of a year; in lower case.
const VALUES: [(&str, u64); 45] = [
    ("cityhash64", MANY),
    ("date_trunc", MANY),
    ("datetrunc", MANY),
    ("farmhash64", MANY),
    ("halfmd5", MANY),
    ("inthash32", MANY),
    ("inthash64", MANY),
    ("murmurhash3_64", MANY),
    ("siphash64", MANY),
    ("todate", 366),
    ("todate32", 366),
    ("todatetime", MANY),
    ("todatetime64", MANY),
    ("todayofmonth", 31),
    ("todayofweek", 7),
    ("todayofyear", 366),
    ("tohour", 24),
    ("tolastdayofmonth", 12),
    ("tominute", 60),
    ("tomonday", 53),
    ("tomonth", 12),
    ("toquarter", 4),
    ("torelativedaynum", 366),
    ("torelativehournum", 8_784),
    ("torelativemonthnum", 12),
    ("torelativeweeknum", 53),
    ("tosecond", 60),
    ("tostartofday", 366),
    ("tostartoffifteenminutes", 35_136),
    ("tostartoffiveminutes", 105_408),
    ("tostartofhour", 8_784),
    ("tostartofinterval", MANY),
    ("tostartofminute", 527_040),
    ("tostartofmonth", 12),
    ("tostartofquarter", 4),
    ("tostartofsecond", MANY),
    ("tostartoftenminutes", 52_704),
    ("tostartofweek", 53),
    ("tostartofyear", 2),
    ("tounixtimestamp", MANY),
    ("toweek", 53),
    ("toyear", 2),
    ("toyyyymm", 12),
    ("toyyyymmdd", 366),
    ("xxhash64", MANY),
];
/// Units of intervals and truncations, and how many of each a year has.
const UNITS: [(&str, u64); 8] = [
    ("second", MANY),
    ("minute", 527_040),
    ("hour", 8_784),
    ("day", 366),
    ("week", 53),
    ("month", 12),
    ("quarter", 4),
    ("year", 2),
];

/// The columns of a `ReplacingMergeTree`'s partition key must all be in its sorting key.
pub(super) fn check_function_of_key(sink: &ClickHouseSink) -> Vec<Hit> {
    let targets = targets(sink);
    let replacing = targets.iter().filter(|target| target.version.is_some());
    let hits = replacing.filter_map(|target| {
        let partition_by = target.partition_by?;
        let columns = identifiers(partition_by).into_iter();
        let outside: Vec<String> = columns
            .filter(|name| target.key_index(name).is_none())
            .map(|name| format!("`{name}`"))
            .collect();
        if outside.is_empty() {
            return None;
        }
        Some(Hit::new(
            &format!("{}.partitionBy", target.path),
            format!(
                "`{partition_by}` uses {}, not in the key ({})",
                outside.join(", "),
                target.key()
            ),
            "partition by columns of `orderBy`, or add them to it; where they never differ between copies of one key, allow this",
        ))
    });
    hits.collect()
}

/// A batch should stay within the number of table partitions that one block may have.
pub(super) fn check_number(sink: &ClickHouseSink) -> Vec<Hit> {
    let rows = u64::try_from(sink.spec.batch.max_rows).unwrap_or(MANY);
    let targets = targets(sink);
    let hits = targets.iter().filter_map(|target| {
        let partition_by = target.partition_by?;
        let terms = terms(partition_by);
        let number = terms
            .iter()
            .map(|term| estimate(term, target))
            .fold(1_u64, u64::saturating_mul);
        if number.min(rows) <= MAX_PARTITIONS {
            return None;
        }
        let found = if number >= MANY {
            "about as many table partitions as rows".to_owned()
        } else {
            format!("about {number} table partitions of a year's records")
        };
        Some(Hit::new(
            &format!("{}.partitionBy", target.path),
            format!("`{partition_by}` makes {found}"),
            "partition by month (`toYYYYMM(ts)`), or not at all: the sorting key finds rows, partitions are for dropping them; where a batch never spans so much time, allow this",
        ))
    });
    hits.collect()
}

/// About how many values a part of the partition key has in one batch; 1 where nothing can be said.
fn estimate(term: &str, target: &Target<'_>) -> u64 {
    let text = normalise(term);
    if let Some(number) = remainder(&text) {
        return number;
    }
    let calls = calls(term);
    let known = calls.iter().filter_map(|name| values(name, &text)).min();
    match known {
        Some(number) => number,
        None if calls.is_empty() && identifiers(term).len() == 1 => {
            let name = identifiers(term).remove(0);
            estimate_column(&name, target)
        }
        None => 1,
    }
}

/// `x % n`, `modulo(x, n)`: at most n values.
fn remainder(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    if let Some((_, number)) = lower.rsplit_once('%') {
        return number.parse().ok();
    }
    let is_modulo = ["modulo(", "positivemodulo(", "moduloorzero("]
        .iter()
        .any(|name| lower.starts_with(name));
    let (_, last) = lower.strip_suffix(')')?.rsplit_once(',')?;
    if is_modulo { last.parse().ok() } else { None }
}

fn values(function: &str, text: &str) -> Option<u64> {
    let lower = function.to_ascii_lowercase();
    let number = VALUES.iter().find(|(name, _)| *name == lower)?.1;
    let by_unit = ["tostartofinterval", "datetrunc", "date_trunc"];
    if by_unit.contains(&lower.as_str()) {
        return Some(by_interval(text));
    }
    Some(number)
}

/// `INTERVAL 15 MINUTE`, `toIntervalHour(2)`, `'day'`.
fn by_interval(text: &str) -> u64 {
    let lower = text.to_ascii_lowercase();
    let unit = UNITS.iter().find(|(unit, _)| lower.contains(unit));
    let Some((unit, in_a_year)) = unit else {
        return MANY;
    };
    let behind = lower.split("interval").last().unwrap_or_default();
    let digits: String = behind
        .replace(unit, " ")
        .chars()
        .filter(char::is_ascii_digit)
        .collect();
    in_a_year / digits.parse::<u64>().unwrap_or(1).max(1)
}

fn estimate_column(name: &str, target: &Target<'_>) -> u64 {
    if name == "_offset" || name == "_timestamp" {
        return MANY;
    }
    let Some(data_type) = target.type_of(name) else {
        return if is_id(name) { MANY } else { 1 };
    };
    match data_type.bare() {
        DataType::Date | DataType::Date32 => 366,
        DataType::DateTime { .. }
        | DataType::DateTime64 { .. }
        | DataType::Uuid
        | DataType::Float32
        | DataType::Float64 => MANY,
        DataType::Int(width) | DataType::UInt(width) if *width >= IntWidth::W32 => MANY,
        _ if is_id(name) && can_identify(&data_type) => MANY,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::api::tests::sink_with;

    fn number(term: &str) -> u64 {
        let sink = serde_json::from_value(sink_with(&[])).unwrap();
        estimate(term, &targets(&sink)[0])
    }

    #[test]
    fn parts_of_a_partition_key_are_estimated() {
        for (term, expected) in [
            ("toYYYYMM(ts)", 12),
            ("toYYYYMM(toDate(ts))", 12),
            ("toDate(ts)", 366),
            ("toStartOfInterval(ts, INTERVAL 1 HOUR)", 8_784),
            ("toStartOfInterval(ts, INTERVAL 6 months)", 2),
            ("toStartOfInterval(ts, toIntervalDay(7))", 52),
            ("dateTrunc('month', ts)", 12),
            ("cityHash64(id) % 16", 16),
            ("modulo(cityHash64(id), 256)", 256),
            ("cityHash64(id)", MANY),
            ("id", MANY),
            ("ts", MANY),
            ("_offset", MANY),
            ("_topic", 1),
            ("lower(note)", 1),
            ("note", 1),
            ("formatDateTime(ts, '%Y-%m')", 1),
        ] {
            assert_eq!(number(term), expected, "{term}");
        }
    }
}
