//! Numbers, strings and the other scalars: what they take, what they refuse, how they clamp.

use super::*;

#[test]
fn integers_keep_all_their_bits_and_take_no_others() {
    assert_eq!(value("UInt64", "18446744073709551615").unwrap(), [0xff; 8]);
    assert_eq!(
        value("UInt64", "\"18446744073709551615\"").unwrap(),
        [0xff; 8]
    );
    assert_eq!(value("Int8", "-128").unwrap(), [0x80]);
    assert_eq!(
        value("Int64", "-9223372036854775808").unwrap(),
        i64::MIN.to_le_bytes()
    );
    assert_eq!(value("Int128", "-1").unwrap(), [0xff; 16]);
    assert_eq!(value("UInt16", "1e3").unwrap(), 1000_u16.to_le_bytes());
    assert_eq!(value("UInt16", "1.0").unwrap(), [1, 0]);
    for (data_type, json, code) in [
        ("UInt8", "256", RejectCode::OutOfRange),
        ("UInt8", "-1", RejectCode::OutOfRange),
        ("Int8", "128", RejectCode::OutOfRange),
        ("UInt64", "18446744073709551616", RejectCode::OutOfRange),
        ("Int32", "1.5", RejectCode::Inexact),
        ("Int32", "\"abc\"", RejectCode::WrongType),
        ("Int32", "\"NaN\"", RejectCode::OutOfRange),
        ("Int32", "true", RejectCode::WrongType),
        ("Int32", "null", RejectCode::Null),
        ("Int32", "[1]", RejectCode::WrongType),
        ("Int32", "01", RejectCode::NotJson),
    ] {
        assert_eq!(value(data_type, json), Err(code), "{data_type} {json}");
    }
}

#[test]
fn floats_are_the_nearest_and_finite() {
    assert_eq!(value("Float64", "0.1").unwrap(), 0.1_f64.to_le_bytes());
    assert_eq!(value("Float64", "-0.0").unwrap(), (-0.0_f64).to_le_bytes());
    assert_eq!(
        value("Float32", "16777217").unwrap(),
        16_777_216_f32.to_le_bytes()
    );
    assert_eq!(
        value("Float64", "\"Infinity\"").unwrap(),
        f64::INFINITY.to_le_bytes()
    );
    assert_eq!(value("Float64", "1e400"), Err(RejectCode::OutOfRange));
    assert_eq!(value("Float32", "1e39"), Err(RejectCode::OutOfRange));
    assert_eq!(value("Float64", "NaN"), Err(RejectCode::NotJson));
}

#[test]
fn decimals_are_read_from_their_text() {
    assert_eq!(
        value("Decimal(9, 2)", "12.3").unwrap(),
        1230_i32.to_le_bytes()
    );
    assert_eq!(
        value("Decimal(18, 4)", "\"-0.0001000\"").unwrap(),
        (-1_i64).to_le_bytes()
    );
    assert_eq!(value("Decimal(9, 2)", "1.234"), Err(RejectCode::Inexact));
    assert_eq!(
        value("Decimal(9, 2)", "9999999.99").unwrap(),
        999_999_999_i32.to_le_bytes()
    );
    assert_eq!(
        value("Decimal(9, 2)", "10000000"),
        Err(RejectCode::OutOfRange)
    );
    assert_eq!(
        value("Decimal(9, 2)", "\"NaN\""),
        Err(RejectCode::OutOfRange)
    );
}

#[test]
fn strings_come_from_strings_alone() {
    assert_eq!(
        value("String", r#""a\u00e4\ud83d\ude00\n""#).unwrap(),
        "\u{8}aä😀\n".as_bytes()
    );
    assert_eq!(value("FixedString(4)", "\"ab\"").unwrap(), b"ab\0\0");
    assert_eq!(
        value("FixedString(2)", "\"abc\""),
        Err(RejectCode::OutOfRange)
    );
    assert_eq!(value("String", "1"), Err(RejectCode::WrongType));
    assert_eq!(value("Bool", "true").unwrap(), [1]);
    assert_eq!(value("Bool", "1"), Err(RejectCode::WrongType));
    assert_eq!(value("Enum8('a' = -5, 'b' = 7)", "\"a\"").unwrap(), [0xfb]);
    assert_eq!(value("Enum8('a' = -5, 'b' = 7)", "7").unwrap(), [7]);
    assert_eq!(
        value("Enum8('a' = -5, 'b' = 7)", "\"c\""),
        Err(RejectCode::OutOfRange)
    );
    assert_eq!(value("IPv4", "\"1.2.3.4\"").unwrap(), [4, 3, 2, 1]);
    assert_eq!(value("IPv4", "\"1.2.3\""), Err(RejectCode::WrongType));
    let uuid = value("UUID", "\"00112233-4455-6677-8899-AABBCCDDEEFF\"").unwrap();
    assert_eq!(
        uuid,
        [
            0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0, 0xff, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0x99,
            0x88
        ]
    );
}

#[test]
fn clamp_takes_the_nearest_value_that_fits_and_counts_it() {
    let clamped = |data_type: &str, json| {
        bytes_of(
            with(column("x", data_type), |mapping| {
                mapping.on_error = OnError::Clamp;
            }),
            json,
        )
    };
    assert_eq!(clamped("UInt8", "1e99").unwrap(), [255]);
    assert_eq!(clamped("Int8", "-1000").unwrap(), [0x80]);
    assert_eq!(clamped("UInt8", "2.5").unwrap(), [3]);
    assert_eq!(
        clamped("Decimal(9, 2)", "1.234").unwrap(),
        123_i32.to_le_bytes()
    );
    assert_eq!(clamped("Float32", "-1e60").unwrap(), f32::MIN.to_le_bytes());
    assert_eq!(
        clamped("DateTime", "\"1950-01-01T00:00:00Z\"").unwrap(),
        [0; 4]
    );
    assert_eq!(clamped("Array(UInt8)", "[1, 300]").unwrap()[8..], [1, 255]);
    assert_eq!(
        clamped("DateTime('Europe/Berlin')", "\"2026-10-25 02:30:00\"").unwrap(),
        1_792_888_200_u32.to_le_bytes()
    );
    assert_eq!(clamped("UInt8", "\"x\""), Err(RejectCode::WrongType));
    assert_eq!(clamped("UInt8", "1e"), Err(RejectCode::NotJson));
}
