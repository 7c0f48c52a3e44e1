//! Records as a whole: missing and unknown fields, paths, duplicates, nesting, replacements.

use super::*;

#[test]
fn what_does_not_fit_can_be_the_default_or_null_and_is_counted() {
    let schema = ignoring(vec![
        with(column("a", "UInt8"), |mapping| {
            mapping.on_error = OnError::Default;
            mapping.default_json = Some("9".to_owned());
        }),
        with(column("b", "Array(LowCardinality(String))"), |mapping| {
            mapping.on_error = OnError::Default;
        }),
        with(column("c", "Nullable(Int8)"), |mapping| {
            mapping.on_error = OnError::Null;
        }),
    ]);
    let mut decoder = Decoder::new(Arc::clone(&schema));
    let mut builder = BlockBuilder::new(Arc::clone(&schema));
    let bad = r#"{"a": "x", "b": ["kept?", {"k": [1, {}]}], "c": 1000}"#;
    assert_eq!(
        decoder
            .decode(bad.as_bytes(), &AT, &mut builder)
            .unwrap()
            .fallbacks,
        3
    );
    let block = builder.finish();
    assert_eq!(
        block,
        decode(&schema, &[r#"{"a": 9, "b": [], "c": null}"#]).unwrap()
    );
    let broken = r#"{"a": "x", "b": ["kept?", {"k": [1, {]}], "c": 1000}"#;
    assert_eq!(decode(&schema, &[broken]), Err(RejectCode::NotJson));
}

#[test]
fn missing_fields_follow_the_mapping() {
    let schema = ignoring(vec![
        with(column("a", "DateTime64(3)"), |mapping| {
            mapping.on_missing = OnMissing::Default;
            mapping.default_json = Some("\"2026-01-01T00:00:00Z\"".to_owned());
        }),
        with(column("b", "Enum8('z' = -3, 'a' = 2)"), |mapping| {
            mapping.on_missing = OnMissing::Default;
        }),
        with(column("c", "LowCardinality(Nullable(String))"), |mapping| {
            mapping.on_missing = OnMissing::Null;
        }),
    ]);
    let wanted = decode(
        &schema,
        &[r#"{"a": "2026-01-01T00:00:00Z", "b": "z", "c": null}"#],
    )
    .unwrap();
    assert_eq!(decode(&schema, &["{}"]).unwrap(), wanted);
    assert_eq!(
        decode(&ignoring(vec![column("a", "Int8")]), &["{}"]),
        Err(RejectCode::Missing)
    );
}

#[test]
fn paths_lead_into_objects_and_share_their_way() {
    let schema = ignoring(vec![
        column("a.b.c", "Int8"),
        column("a.b.d", "Int8"),
        with(column("a", "Map(String, Map(String, Int8))"), |mapping| {
            mapping.on_error = OnError::Default;
        }),
        with(column("a.e", "Int8"), |mapping| {
            mapping.on_missing = OnMissing::Default;
        }),
    ]);
    let block = decode(
        &schema,
        &[r#" { "a" : { "b" : { "d" : 2 , "x" : 1, "c" : 1 } } } "#],
    )
    .unwrap();
    assert_eq!(
        block,
        decode(&schema, &[r#"{"a":{"b":{"c":1,"d":2,"x":1}}}"#])
            .map(|_| block.clone())
            .unwrap()
    );
    assert_eq!(
        decode(&schema, &[r#"{"a":{"b":{"c":1,"d":2},"b":{}}}"#]),
        Err(RejectCode::DuplicateKey)
    );
    assert_eq!(
        decode(&schema, &[r#"{"a":null}"#]),
        Err(RejectCode::Missing)
    );
    assert_eq!(
        decode(&schema, &[r#"{"a":[1]}"#]),
        Err(RejectCode::WrongType)
    );
}

#[test]
fn a_key_twice_is_a_fault_in_every_object_that_is_looked_at() {
    let schema = ignoring(vec![
        with(column("m", "Map(String, Int8)"), |mapping| {
            mapping.on_missing = OnMissing::Default;
        }),
        with(column("t", "Tuple(a Int8, b Nullable(Int8))"), |mapping| {
            mapping.on_missing = OnMissing::Default;
        }),
    ]);
    for record in [
        r#"{"m":{},"m":{}}"#,
        r#"{"other":1,"other":2}"#,
        r#"{"other":1,"\u006fther":2}"#,
        r#"{"m":{"k":1,"k":2}}"#,
        r#"{"m":{"k":1,"\u006b":2}}"#,
        r#"{"t":{"a":1,"a":2}}"#,
        r#"{"t":{"a":1,"x":0,"x":0}}"#,
    ] {
        assert_eq!(
            decode(&schema, &[record]),
            Err(RejectCode::DuplicateKey),
            "{record}"
        );
    }
    for record in [
        r#"{"skipped":{"k":1,"k":2}}"#,
        r#"{"m":{"other":1},"other":[{"m":1},{"m":1}],"t":{"a":1}}"#,
    ] {
        assert!(decode(&schema, &[record]).is_ok(), "{record}");
    }
}

#[test]
fn tuples_are_read_by_name_or_by_place() {
    let named = "Tuple(a Int8, b Nullable(Int8))";
    assert_eq!(value(named, r#"{"b":2,"a":1}"#).unwrap(), [1, 0, 2]);
    assert_eq!(value(named, r#"{"a":1}"#).unwrap(), [1, 1, 0]);
    assert_eq!(value(named, "[1, 2]").unwrap(), [1, 0, 2]);
    assert_eq!(value(named, r#"{"b":1}"#), Err(RejectCode::Missing));
    assert_eq!(value(named, "[1]"), Err(RejectCode::WrongType));
    assert_eq!(value(named, "[1, 2, 3]"), Err(RejectCode::WrongType));
    assert_eq!(value("Tuple(Int8, Int8)", "{}"), Err(RejectCode::WrongType));
}

#[test]
fn unknown_fields_are_refused_where_they_should_be() {
    let schema = schema_of(vec![column("a", "Int8")], UnknownFields::Reject);
    assert_eq!(
        decode(&schema, &[r#"{"a":1,"b":2}"#]),
        Err(RejectCode::UnknownField)
    );
    assert!(decode(&schema, &[r#"{"a":1}"#]).is_ok());
}

#[test]
fn a_record_is_one_json_object_of_modest_depth_and_size() {
    let schema = ignoring(vec![with(column("a", "Int8"), |mapping| {
        mapping.on_missing = OnMissing::Default;
    })]);
    let nested = |levels: usize| format!("{{\"x\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
    assert!(decode(&schema, &[&nested(63)]).is_ok());
    for (record, code) in [
        (nested(64), RejectCode::TooDeep),
        (nested(40_000), RejectCode::TooDeep),
        (
            format!("{{\"x\":\"{}\"}}", "x".repeat(100_000)),
            RejectCode::TooLarge,
        ),
        (String::new(), RejectCode::NotJson),
        ("[]".to_owned(), RejectCode::WrongType),
        ("null".to_owned(), RejectCode::WrongType),
        ("{} {}".to_owned(), RejectCode::NotJson),
        ("{\"a\":1".to_owned(), RejectCode::NotJson),
        ("{\"a\":1,}".to_owned(), RejectCode::NotJson),
        ("\u{feff}{}".to_owned(), RejectCode::NotJson),
        ("{\"x\":\"\\ud800\"}".to_owned(), RejectCode::NotJson),
        ("{\"x\":\"\t\"}".to_owned(), RejectCode::NotJson),
    ] {
        assert_eq!(decode(&schema, &[&record]), Err(code), "{record:.40}");
    }
    let mut builder = BlockBuilder::new(Arc::clone(&schema));
    let rejection = Decoder::new(schema)
        .decode(b"{\"x\":\"\xff\"}", &AT, &mut builder)
        .unwrap_err();
    assert_eq!(rejection.code, RejectCode::InvalidUtf8);
}

#[test]
fn a_rejection_names_the_column_and_never_the_value() {
    let schema = ignoring(vec![column("amount", "UInt8")]);
    let mut builder = BlockBuilder::new(Arc::clone(&schema));
    let rejection = Decoder::new(schema)
        .decode(br#"{"amount": 4711}"#, &AT, &mut builder)
        .unwrap_err();
    assert_eq!(
        rejection.to_string(),
        "column amount: the value is outside of the column's range (type UInt8)"
    );
}
