//! Dates and times from text and from numbers.

use super::*;

#[test]
fn times_become_ticks_and_lose_nothing() {
    for (data_type, json, wanted) in [
        (
            "DateTime64(3, 'UTC')",
            "\"2026-03-14T02:11:07.412Z\"",
            1_773_454_267_412,
        ),
        (
            "DateTime64(3)",
            "\"2026-03-14 02:11:07.412\"",
            1_773_454_267_412,
        ),
        (
            "DateTime64(3)",
            "\"2026-03-14t03:11:07.412000000000+01:00\"",
            1_773_454_267_412,
        ),
        (
            "DateTime64(3, 'Europe/Berlin')",
            "\"2026-03-14 03:11:07.412\"",
            1_773_454_267_412,
        ),
        (
            "DateTime64(9)",
            "\"2026-03-14T02:11:07.412000001Z\"",
            1_773_454_267_412_000_001,
        ),
        ("DateTime64(6)", "\"1969-12-31T23:59:59.999999Z\"", -1),
        ("DateTime64(0)", "\"1900-01-01T00:00:00Z\"", -2_208_988_800),
        ("DateTime64(0)", "\"2299-12-31T23:59:59Z\"", 10_413_791_999),
        ("DateTime", "\"2106-02-07T06:28:15Z\"", 4_294_967_295),
        ("Date", "\"2024-02-29\"", 19_782),
        ("Date", "\"2149-06-06\"", 65_535),
        ("Date32", "\"2299-12-31\"", 120_529),
    ] {
        assert_eq!(ticks(data_type, json), Ok(wanted), "{data_type} {json}");
    }
}

#[test]
fn what_is_no_time_or_would_lose_something_is_refused() {
    for (data_type, json, code) in [
        (
            "DateTime64(3)",
            "\"2026-03-14T02:11:07.4125Z\"",
            RejectCode::Inexact,
        ),
        (
            "DateTime",
            "\"2026-03-14T02:11:07.5Z\"",
            RejectCode::Inexact,
        ),
        (
            "DateTime",
            "\"1969-12-31T23:59:59Z\"",
            RejectCode::OutOfRange,
        ),
        (
            "DateTime",
            "\"2106-02-07T06:28:16Z\"",
            RejectCode::OutOfRange,
        ),
        (
            "DateTime64(9)",
            "\"2262-04-11T23:47:16.854775808Z\"",
            RejectCode::OutOfRange,
        ),
        (
            "DateTime64(3)",
            "\"2300-01-01T00:00:00Z\"",
            RejectCode::OutOfRange,
        ),
        ("Date", "\"2149-06-07\"", RejectCode::OutOfRange),
        ("Date", "\"2023-02-29\"", RejectCode::BadTimestamp),
        (
            "Date",
            "\"\\u0000\\u0000\\u0000\\u0000\\u0000\\u0000\\u0000\\u0000\\u0000\\u0000\"",
            RejectCode::BadTimestamp,
        ),
        (
            "DateTime",
            "\"2026-03-14T24:00:00Z\"",
            RejectCode::BadTimestamp,
        ),
        (
            "DateTime",
            "\"2026-12-31T23:59:60Z\"",
            RejectCode::BadTimestamp,
        ),
        ("DateTime", "\"2026-03-14\"", RejectCode::BadTimestamp),
        (
            "DateTime",
            "\"2026-03-14T02:11:07.Z\"",
            RejectCode::BadTimestamp,
        ),
        (
            "DateTime('Europe/Berlin')",
            "\"2026-03-29 02:30:00\"",
            RejectCode::BadTimestamp,
        ),
        (
            "DateTime('Europe/Berlin')",
            "\"2026-10-25 02:30:00\"",
            RejectCode::BadTimestamp,
        ),
        ("DateTime", "1773454267", RejectCode::WrongType),
    ] {
        assert_eq!(value(data_type, json), Err(code), "{data_type} {json}");
    }
}

#[test]
fn the_quick_way_to_read_a_time_is_never_another_time() {
    for year in [1899, 1900, 1969, 1970, 2000, 2106, 2261, 2262, 2299, 2300] {
        for (precision, json) in
            (3..=9).map(|precision| (precision, format!("{year}-02-28T23:59:59.999")))
        {
            let data_type = format!("DateTime64({precision})");
            assert_eq!(
                ticks(&data_type, &format!("\"{json}Z\"")),
                ticks(&data_type, &format!("\"{json}+00:00\""))
            );
        }
    }
}

#[test]
fn numbers_are_times_only_with_a_unit() {
    let with_unit = |data_type: &str, unit, json| {
        bytes_of(
            with(column("x", data_type), |mapping| mapping.unit = Some(unit)),
            json,
        )
    };
    assert_eq!(
        with_unit("DateTime64(3)", TimeUnit::Seconds, "1.25").unwrap(),
        1250_i64.to_le_bytes()
    );
    assert_eq!(
        with_unit("DateTime", TimeUnit::Milliseconds, "2000").unwrap(),
        2_u32.to_le_bytes()
    );
    assert_eq!(
        with_unit("DateTime", TimeUnit::Milliseconds, "2001"),
        Err(RejectCode::Inexact)
    );
    assert_eq!(with_unit("Date", TimeUnit::Days, "3").unwrap(), [3, 0]);
    assert_eq!(
        with_unit("Date", TimeUnit::Seconds, "86400").unwrap(),
        [1, 0]
    );
    assert_eq!(
        with_unit("Date", TimeUnit::Seconds, "86401"),
        Err(RejectCode::Inexact)
    );
    assert_eq!(
        with_unit("DateTime64(9)", TimeUnit::Days, "1e9"),
        Err(RejectCode::OutOfRange)
    );
}
