//! Types as text: every printed form, aliases, limits, and the round trip.

#![allow(clippy::unwrap_used, clippy::panic)]

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;

fn canonical(text: &str) -> String {
    DataType::parse(text)
        .unwrap_or_else(|error| panic!("{text}: {error}"))
        .to_string()
}

#[test]
fn what_the_server_prints_is_printed_again() {
    for text in [
        "String",
        "FixedString(16)",
        "Int8",
        "UInt256",
        "Decimal(18, 4)",
        "Bool",
        "DateTime",
        "DateTime('Europe/Berlin')",
        "DateTime64(3, 'UTC')",
        "DateTime64(9)",
        "Enum8('a' = 1, 'b' = 2)",
        "Enum16('a\\'b\\\\c\\n' = -300, '' = 0)",
        "Tuple(a String, b UInt8)",
        "Tuple(String, UInt8)",
        "Tuple(`a b` String, `null` UInt8, `x\\`y` Date)",
        "LowCardinality(Nullable(String))",
        "LowCardinality(FixedString(3))",
        "Map(LowCardinality(String), Array(Nullable(Decimal(76, 76))))",
        "Array(Array(Tuple(x Float32, y Float64)))",
        "IPv4",
        "IPv6",
        "UUID",
        "Date32",
    ] {
        assert_eq!(canonical(text), text);
    }
}

#[test]
fn aliases_become_what_the_server_would_show() {
    for (alias, shown) in [
        ("Decimal32(4)", "Decimal(9, 4)"),
        ("Decimal64( 4 )", "Decimal(18, 4)"),
        ("decimal128(0)", "Decimal(38, 0)"),
        ("Decimal256(76)", "Decimal(76, 76)"),
        ("Decimal", "Decimal(10, 0)"),
        ("NUMERIC(12,2)", "Decimal(12, 2)"),
        ("INT", "Int32"),
        ("INT UNSIGNED", "UInt32"),
        ("bigint signed", "Int64"),
        ("DOUBLE PRECISION", "Float64"),
        ("VARCHAR(20)", "String"),
        ("text", "String"),
        ("boolean", "Bool"),
        ("TIMESTAMP", "DateTime"),
        ("DateTime64", "DateTime64(3)"),
        ("Enum('a', 'b')", "Enum8('a' = 1, 'b' = 2)"),
        ("Enum('a' = 200, 'b')", "Enum16('a' = 200, 'b' = 201)"),
        ("Enum8('b' = 2, 'a' = 1)", "Enum8('a' = 1, 'b' = 2)"),
        ("Tuple(INT UNSIGNED, DOUBLE)", "Tuple(UInt32, Float64)"),
        ("Tuple(\"a\" String)", "Tuple(a String)"),
        (" Array ( \n String ) ", "Array(String)"),
        ("Tuple(String String)", "Tuple(String String)"),
        ("Enum8('it''s' = 1)", "Enum8('it\\'s' = 1)"),
    ] {
        assert_eq!(canonical(alias), shown, "{alias}");
    }
}

#[test]
fn an_error_names_place_expected_found_and_remedy() {
    let shown = [
        "",
        "string8",
        "Strin",
        "Nested(a String)",
        "JSON",
        "FixedString(0)",
        "FixedString",
        "Decimal(77, 1)",
        "Decimal(9, 10)",
        "DateTime64(10)",
        "DateTime('Mars; DROP')",
        "Nullable(Array(String))",
        "Nullable(LowCardinality(String))",
        "LowCardinality(UInt8)",
        "Map(Nullable(String), String)",
        "Map(Array(String), String)",
        "Tuple()",
        "Tuple(a String, UInt8)",
        "Tuple(a String, a UInt8)",
        "Enum8('a' = 1, 'a' = 2)",
        "Enum8('a' = 1, 'b' = 1)",
        "Enum8('a' = 300)",
        "Enum8('a' = 99999)",
        "Enum8('a",
        "Array(String",
        "String DEFAULT ''",
        "Int08",
    ]
    .map(|text| format!("{text:?}: {}", DataType::parse(text).unwrap_err()))
    .join("\n");
    insta::assert_snapshot!(shown);
}

#[test]
fn nesting_has_a_limit_and_the_deepest_allowed_type_is_read() {
    let nested = |levels: usize| format!("{}String{}", "Array(".repeat(levels), ")".repeat(levels));
    assert!(DataType::parse(&nested(MAX_DEPTH - 1)).is_ok());
    let error = DataType::parse(&nested(MAX_DEPTH)).unwrap_err();
    assert!(error.to_string().contains("at most 16"), "{error}");
    assert!(DataType::parse(&nested(100_000)).is_err());
}

fn scalar() -> impl Strategy<Value = DataType> {
    let width = prop_oneof![
        Just(IntWidth::W8),
        Just(IntWidth::W16),
        Just(IntWidth::W32),
        Just(IntWidth::W64),
        Just(IntWidth::W128),
        Just(IntWidth::W256)
    ];
    let zone = || option::of("[A-Z][a-z]{2,8}(/[A-Z][a-z_]{1,8})?");
    prop_oneof![
        Just(DataType::String),
        (1u32..0x00FF_FFFF).prop_map(DataType::FixedString),
        width.clone().prop_map(DataType::Int),
        width.prop_map(DataType::UInt),
        Just(DataType::Float32),
        Just(DataType::Float64),
        (1u8..=76, 0u8..=76).prop_map(|(p, s)| DataType::Decimal {
            precision: p,
            scale: s.min(p)
        }),
        Just(DataType::Bool),
        Just(DataType::Date),
        Just(DataType::Date32),
        zone().prop_map(|zone| DataType::DateTime { zone }),
        (0u8..=9, zone()).prop_map(|(precision, zone)| DataType::DateTime64 { precision, zone }),
        Just(DataType::Uuid),
        Just(DataType::Ipv4),
        Just(DataType::Ipv6),
        proptest::collection::btree_map(any::<i8>(), any::<String>(), 1..5).prop_filter_map(
            "names differ",
            |m| {
                let names: std::collections::BTreeSet<_> = m.values().collect();
                (names.len() == m.len())
                    .then(|| DataType::Enum8(m.into_iter().map(|(n, s)| (s, n)).collect()))
            }
        ),
        proptest::collection::btree_map(any::<i16>(), any::<String>(), 1..5).prop_filter_map(
            "names differ",
            |m| {
                let names: std::collections::BTreeSet<_> = m.values().collect();
                (names.len() == m.len())
                    .then(|| DataType::Enum16(m.into_iter().map(|(n, s)| (s, n)).collect()))
            }
        ),
    ]
}

fn any_type() -> impl Strategy<Value = DataType> {
    let dictionary = || {
        prop_oneof![
            Just(DataType::String),
            (1u32..99).prop_map(DataType::FixedString)
        ]
    };
    let leaf = prop_oneof![
        4 => scalar(),
        1 => scalar().prop_map(|t| DataType::Nullable(Box::new(t))),
        1 => dictionary().prop_map(|t| DataType::LowCardinality(Box::new(t))),
        1 => dictionary().prop_map(|t| DataType::LowCardinality(Box::new(DataType::Nullable(Box::new(t))))),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|t| DataType::Array(Box::new(t))),
            inner
                .clone()
                .prop_map(|t| DataType::Map(Box::new(DataType::String), Box::new(t))),
            vec(inner.clone(), 1..4)
                .prop_map(|ts| DataType::Tuple(ts.into_iter().map(|t| (None, t)).collect())),
            proptest::collection::btree_map(any::<String>(), inner, 1..4)
                .prop_map(|m| DataType::Tuple(m.into_iter().map(|(n, t)| (Some(n), t)).collect())),
        ]
    })
}

proptest! {
    #[test]
    fn a_printed_type_is_read_as_itself(data_type in any_type()) {
        prop_assert_eq!(DataType::parse(&data_type.to_string()), Ok(data_type));
    }

    #[test]
    fn any_text_is_a_type_or_an_error(text in any::<String>()) {
        let _ = DataType::parse(&text);
    }

    #[test]
    fn type_like_text_is_a_type_or_an_error(text in "[A-Za-z0-9(), '`=\\\\-]{0,60}") {
        if let Ok(data_type) = DataType::parse(&text) {
            prop_assert_eq!(DataType::parse(&data_type.to_string()), Ok(data_type));
        }
    }
}
