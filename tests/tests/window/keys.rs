//! Partition keys of every common form and of every type: what landed in part is told apart by the server's own ids.
//!
//! Must not be here: what makes an answer prove nothing.

use clickhouse_sink_worker::verify::Verdict;

use crate::support::{Case, unprovable};

const COLUMNS: [(&str, &str); 6] = [
    ("n", "Int32"),
    ("site", "String"),
    ("app", "LowCardinality(String)"),
    ("zone", "LowCardinality(Nullable(String))"),
    ("ts", "DateTime64(3, 'UTC')"),
    ("local", "DateTime('Europe/Berlin')"),
];

fn record(number: usize) -> String {
    let zone = if number.is_multiple_of(5) {
        "null".into()
    } else {
        format!("\"z{}\"", number % 5)
    };
    format!(
        r#"{{"n": {}, "site": "{}", "app": "a{}", "zone": {zone},
            "ts": "2024-{:02}-{:02} 03:04:05.678", "local": "2024-10-27T{:02}:30:00Z"}}"#,
        i64::try_from(number).unwrap() - 30,
        ["", "north", "süd, o'\\\"x"][number % 3],
        number % 4,
        1 + number % 12,
        1 + number % 28,
        number % 24,
    )
}

/// Rows of whole table partitions land; verification must name exactly the others.
async fn check(case: &Case, records: Vec<String>) {
    let first = records[0].clone();
    let rows = case.rows(records);
    let all: Vec<usize> = (0..rows.block.rows()).collect();
    // Which row is in which table partition is read from a first, whole load.
    case.send_rows(&rows, &all).await;
    let ids = case
        .database
        .client()
        .query("SELECT _partition_id FROM events WHERE _offset >= 1000 ORDER BY _offset")
        .unwrap();
    let ids: Vec<&str> = ids.lines().collect();
    assert_eq!(ids.len(), all.len());
    let chosen = ids[1];
    let landed: Vec<usize> = all
        .iter()
        .copied()
        .filter(|row| ids[*row] == chosen)
        .collect();
    case.run("TRUNCATE TABLE {}");
    case.acknowledge_before(first).await;
    case.send_rows(&rows, &landed).await;
    let rest: Vec<usize> = all
        .into_iter()
        .filter(|row| !landed.contains(row))
        .collect();
    let want = if rest.is_empty() {
        Verdict::AllThere
    } else {
        Verdict::Send { rows: rest.clone() }
    };
    assert_eq!(case.verify(&rows).await, want);
    if !rest.is_empty() {
        case.send_rows(&rows, &rest).await;
    }
    assert_eq!(case.stored(), (ids.len(), ids.len()));
    assert_eq!(case.verify(&rows).await, Verdict::AllThere);
}

#[tokio::test]
async fn keys_of_every_common_form() {
    for (key, settings) in [
        ("toYYYYMM(ts)", ""),
        ("(site, toDate(ts))", ""),
        ("tuple(site)", ""),
        ("(app)", ""),
        ("app", ""),
        ("intDiv(n, 10)", ""),
        ("(toYYYYMM(ts), n % 3)", ""),
        ("toStartOfHour(local)", ""),
        ("toMonday(ts)", ""),
        ("cityHash64(site) % 4", ""),
        ("(intDiv(n, 30) + 1) * (n % 2)", ""),
        ("zone", "SETTINGS allow_nullable_key = 1"),
        ("(zone, site)", "SETTINGS allow_nullable_key = 1"),
        ("_partition", ""),
        ("(_topic, toDate(_timestamp))", ""),
    ] {
        println!("PARTITION BY {key}");
        let engine = format!("ENGINE = MergeTree PARTITION BY {key} ORDER BY n {settings}");
        check(
            &Case::new("window_key", &COLUMNS, &engine),
            (0..120).map(record).collect(),
        )
        .await;
    }
}

#[tokio::test]
async fn one_row_proves_a_table_without_a_partition_key() {
    let case = Case::new("window_none", &COLUMNS, "ENGINE = MergeTree ORDER BY n");
    case.acknowledge_before(record(0)).await;
    let rows = case.rows((0..30).map(record));
    let all = Verdict::Send {
        rows: (0..30).collect(),
    };
    assert_eq!(case.verify(&rows).await, all);
    case.send_rows(&rows, &[7]).await;
    assert_eq!(case.verify(&rows).await, Verdict::AllThere);
}

#[tokio::test]
async fn keys_of_every_type() {
    for (type_text, values) in [
        ("String", ["\"\"", "\"a,b\"", "\"-\""]),
        ("FixedString(3)", ["\"abc\"", "\"x\"", "\"\""]),
        ("Bool", ["true", "false", "true"]),
        ("Int8", ["-1", "0", "127"]),
        ("UInt64", ["0", "18446744073709551615", "7"]),
        (
            "Int128",
            ["-170141183460469231731687303715884105728", "1", "2"],
        ),
        ("UInt256", ["0", "1", "2"]),
        ("Decimal(9, 2)", ["1.25", "-3", "0"]),
        ("Decimal(38, 10)", ["1.25", "-3", "0"]),
        (
            "Date",
            ["\"2024-01-02\"", "\"1970-01-01\"", "\"2149-06-06\""],
        ),
        (
            "Date32",
            ["\"1900-01-01\"", "\"1969-12-31\"", "\"2299-12-31\""],
        ),
        (
            "DateTime",
            [
                "\"2024-01-02 00:00:00\"",
                "\"1970-01-01 00:00:00\"",
                "\"2106-02-07 00:00:00\"",
            ],
        ),
        (
            "DateTime64(6, 'UTC')",
            [
                "\"1900-01-01 00:00:00\"",
                "\"1969-12-31 23:59:59.5\"",
                "\"2299-12-31 00:00:00\"",
            ],
        ),
        (
            "UUID",
            [
                "\"01234567-89ab-cdef-0123-456789abcdef\"",
                "\"00000000-0000-0000-0000-000000000000\"",
                "\"ffffffff-89ab-cdef-0123-456789abcdef\"",
            ],
        ),
        ("IPv4", ["\"1.2.3.4\"", "\"255.0.0.1\"", "\"0.0.0.0\""]),
        ("IPv6", ["\"2001:db8::1\"", "\"::\"", "\"::1\""]),
        (
            "Enum8('a' = 1, 'it\\'s value' = -2, 'c' = 0)",
            ["\"a\"", "\"it's value\"", "\"c\""],
        ),
        (
            "Enum16('a' = 1000, 'b' = -2, 'c' = 0)",
            ["\"a\"", "\"b\"", "\"c\""],
        ),
        ("Nullable(Int16)", ["null", "-3", "0"]),
        ("Nullable(String)", ["null", "\"\"", "\"-\""]),
        (
            "LowCardinality(FixedString(2))",
            ["\"ab\"", "\"cd\"", "\"ef\""],
        ),
    ] {
        println!("PARTITION BY a column of type {type_text}");
        let engine = "ENGINE = MergeTree PARTITION BY k ORDER BY n SETTINGS allow_nullable_key = 1";
        let case = Case::new("window_type", &[("n", "UInt32"), ("k", type_text)], engine);
        let records =
            (0..30).map(|number| format!(r#"{{"n": {number}, "k": {}}}"#, values[number % 3]));
        check(&case, records.collect()).await;
    }
}

#[tokio::test]
async fn a_wider_type_in_the_table_does_not_disturb() {
    let mut case = Case::new(
        "window_wider",
        &[("n", "Int32"), ("w", "UInt16")],
        "ENGINE = MergeTree PARTITION BY n % 4 ORDER BY n",
    );
    case.acknowledge_before(r#"{"n": 1}"#.into()).await;
    let rows = case.rows((0..20).map(|n| format!(r#"{{"n": {n}, "w": 1}}"#)));
    case.send_rows(&rows, &[1, 5, 9, 13, 17]).await;
    case.run("ALTER TABLE {} MODIFY COLUMN w UInt64");
    // Changing a type is a mutation; here it was made before the range was declared.
    case.declared_at_s = case.declared_at_s.map(|seconds| seconds + 600);
    let want = (0..20).filter(|row| row % 4 != 1).collect();
    assert_eq!(case.verify(&rows).await, Verdict::Send { rows: want });
}

#[tokio::test]
async fn a_key_of_a_column_that_the_sink_does_not_write_proves_nothing() {
    let columns = [("n", "UInt32")];
    let case = Case::new(
        "window_unmapped",
        &columns,
        "ENGINE = MergeTree PARTITION BY n % 2 ORDER BY n",
    );
    case.run("DROP TABLE {}");
    case.run(
        "CREATE TABLE {} (n UInt32, day Date DEFAULT today(), _topic LowCardinality(String), _partition UInt32, \
         _offset UInt64, _timestamp DateTime64(3, 'UTC')) ENGINE = MergeTree PARTITION BY (day, n % 2) ORDER BY n",
    );
    let record = |n: usize| format!(r#"{{"n": {n}}}"#);
    case.acknowledge_before(record(0)).await;
    let rows = case.rows((0..10).map(record));
    case.send_rows(&rows, &[0, 2, 4, 6, 8]).await;
    let (declared, found, missing, message) = unprovable(case.verify(&rows).await);
    assert_eq!((declared, found, missing), (10, 5, 5));
    assert!(
        message.contains("the partition key needs the column day"),
        "{message}"
    );
    case.send_rows(&rows, &[1, 3, 5, 7, 9]).await;
    assert_eq!(case.verify(&rows).await, Verdict::AllThere);
}
