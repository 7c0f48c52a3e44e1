//! Dead letters: records that made no row, as rows of the rejected table in `RowBinaryWithNamesAndTypes`.
//!
//! Pure. Must not be here: sending them, deciding what is rejected.

use std::sync::Arc;

use crate::session::position::Gap;

/// Columns of the rejected table that the worker writes, in order, with their types.
pub const COLUMNS: [(&str, &str); 18] = [
    ("topic", "LowCardinality(String)"),
    ("topic_id", "LowCardinality(String)"),
    ("partition", "UInt32"),
    ("offset", "UInt64"),
    ("epoch", "LowCardinality(String)"),
    ("kind", "LowCardinality(String)"),
    ("end_offset", "UInt64"),
    ("cause", "LowCardinality(String)"),
    ("lost", "LowCardinality(String)"),
    ("key", "Nullable(String)"),
    ("payload", "String"),
    ("headers", "Array(Tuple(String, String))"),
    ("timestamp", "DateTime64(3, 'UTC')"),
    ("column", "LowCardinality(String)"),
    ("reason", "String"),
    ("code", "LowCardinality(String)"),
    ("mapping", "LowCardinality(String)"),
    ("rejected_at", "DateTime64(3, 'UTC')"),
];

/// A record that made no row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Offset of the record.
    pub offset: i64,
    /// Timestamp of the record, milliseconds since the epoch.
    pub timestamp_ms: i64,
    /// Key as bytes.
    pub key: Option<Vec<u8>>,
    /// Payload as bytes; empty for a tombstone.
    pub payload: Vec<u8>,
    /// Headers in order.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Column that the fault is about; empty where it is the whole record's.
    pub column: String,
    /// Short code of the fault, for metrics and for `WHERE code = …`.
    pub code: &'static str,
    /// The fault in words, without the value.
    pub reason: String,
}

impl Rejected {
    /// Bytes that it holds in memory, about.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let headers: usize = self
            .headers
            .iter()
            .map(|(name, value)| name.len() + value.len() + 48)
            .sum();
        (self.payload.len()
            + self.key.as_ref().map_or(0, Vec::len)
            + headers
            + self.reason.len()
            + 200) as u64
    }
}

/// Where a rejected record comes from.
#[derive(Clone, Debug)]
pub struct Origin {
    /// Topic.
    pub topic: Arc<str>,
    /// Topic id.
    pub topic_id: String,
    /// Partition.
    pub partition: i32,
    /// Epoch of the session.
    pub epoch: String,
    /// Hash of the mapping that rejected it.
    pub mapping: String,
}

/// The start of a body: number of columns, their names, their types.
#[must_use]
pub fn render_header() -> Vec<u8> {
    let mut body = Vec::with_capacity(1024);
    put_length(&mut body, COLUMNS.len());
    for (name, _) in COLUMNS {
        put_bytes(&mut body, name.as_bytes());
    }
    for (_, data_type) in COLUMNS {
        put_bytes(&mut body, data_type.as_bytes());
    }
    body
}

/// What one row says, beside where it comes from.
struct Row<'a> {
    kind: &'static str,
    start: i64,
    end: i64,
    cause: &'a str,
    lost: &'static str,
    key: Option<&'a [u8]>,
    payload: &'a [u8],
    headers: &'a [(String, Vec<u8>)],
    timestamp_ms: i64,
    column: &'a str,
    reason: &'a str,
    code: &'a str,
}

/// Appends a record; `now_ms` is the time of rejection.
pub fn render_row(body: &mut Vec<u8>, origin: &Origin, record: &Rejected, now_ms: i64) {
    let row = Row {
        kind: "record",
        start: record.offset,
        end: record.offset + 1,
        cause: "",
        lost: "",
        key: record.key.as_deref(),
        payload: &record.payload,
        headers: &record.headers,
        timestamp_ms: record.timestamp_ms,
        column: &record.column,
        reason: &record.reason,
        code: record.code,
    };
    put_row(body, origin, &row, now_ms);
}

/// Appends a gap: offsets that were never read, or of which nobody knows whether they were inserted.
///
/// The same gap has the same key, so writing it twice leaves one row.
pub fn render_gap(body: &mut Vec<u8>, origin: &Origin, gap: &Gap, now_ms: i64) {
    let (lost, reason) = if gap.maybe_inserted {
        ("maybe", "records that may have been inserted were skipped")
    } else {
        ("lost", "records that were not inserted were skipped")
    };
    let row = Row {
        kind: "gap",
        start: gap.start,
        end: gap.end,
        cause: gap.cause,
        lost,
        key: None,
        payload: &[],
        headers: &[],
        timestamp_ms: 0,
        column: "",
        reason,
        code: gap.cause,
    };
    put_row(body, origin, &row, now_ms);
}

fn put_row(body: &mut Vec<u8>, origin: &Origin, row: &Row<'_>, now_ms: i64) {
    put_bytes(body, origin.topic.as_bytes());
    put_bytes(body, origin.topic_id.as_bytes());
    body.extend_from_slice(&origin.partition.to_le_bytes());
    body.extend_from_slice(&row.start.to_le_bytes());
    put_bytes(body, origin.epoch.as_bytes());
    put_bytes(body, row.kind.as_bytes());
    body.extend_from_slice(&row.end.to_le_bytes());
    put_bytes(body, row.cause.as_bytes());
    put_bytes(body, row.lost.as_bytes());
    put_nullable(body, row.key);
    put_bytes(body, row.payload);
    put_headers(body, row.headers);
    body.extend_from_slice(&row.timestamp_ms.to_le_bytes());
    put_bytes(body, row.column.as_bytes());
    put_bytes(body, row.reason.as_bytes());
    put_bytes(body, row.code.as_bytes());
    put_bytes(body, origin.mapping.as_bytes());
    body.extend_from_slice(&now_ms.to_le_bytes());
}

fn put_headers(body: &mut Vec<u8>, headers: &[(String, Vec<u8>)]) {
    put_length(body, headers.len());
    for (name, value) in headers {
        put_bytes(body, name.as_bytes());
        put_bytes(body, value);
    }
}

fn put_nullable(body: &mut Vec<u8>, value: Option<&[u8]>) {
    body.push(u8::from(value.is_none()));
    if let Some(value) = value {
        put_bytes(body, value);
    }
}

fn put_bytes(body: &mut Vec<u8>, bytes: &[u8]) {
    put_length(body, bytes.len());
    body.extend_from_slice(bytes);
}

/// Unsigned LEB128.
fn put_length(body: &mut Vec<u8>, length: usize) {
    let mut rest = length;
    while rest >= 0x80 {
        body.push(low_seven_bits(rest) | 0x80);
        rest >>= 7;
    }
    body.push(low_seven_bits(rest));
}

fn low_seven_bits(number: usize) -> u8 {
    u8::try_from(number & 0x7f).unwrap_or(0x7f)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(payload: Vec<u8>) -> Rejected {
        Rejected {
            offset: 7,
            timestamp_ms: 1,
            key: None,
            payload,
            headers: vec![("h".into(), vec![0xff])],
            column: "ts".into(),
            code: "BadTimestamp",
            reason: "expected a timestamp".into(),
        }
    }

    #[test]
    fn a_long_payload_has_a_length_of_several_bytes_and_is_kept_byte_for_byte() {
        let origin = Origin {
            topic: "t".into(),
            topic_id: "id".into(),
            partition: 3,
            epoch: "e".into(),
            mapping: "m".into(),
        };
        let payload = vec![0xfe_u8; 300];
        let mut body = Vec::new();
        render_row(&mut body, &origin, &record(payload.clone()), 5);
        let expected = [&[0xac, 0x02][..], &payload[..]].concat();
        assert!(
            body.windows(expected.len())
                .any(|window| window == expected)
        );
        assert!(record(payload).bytes() > 300);
    }

    #[test]
    fn a_gap_names_its_offsets_its_cause_and_whether_it_is_lost() {
        let origin = Origin {
            topic: "t".into(),
            topic_id: "id".into(),
            partition: 0,
            epoch: "e".into(),
            mapping: String::new(),
        };
        let render = |maybe_inserted| {
            let gap = Gap {
                topic_id: "id".into(),
                epoch: "e".into(),
                start: 7,
                end: 9,
                cause: "RetentionPassed",
                maybe_inserted,
            };
            let mut body = Vec::new();
            render_gap(&mut body, &origin, &gap, 5);
            body
        };
        let start = [
            &b"\x01t\x02id\0\0\0\0"[..],
            &7_i64.to_le_bytes(),
            b"\x01e\x03gap",
            &9_i64.to_le_bytes(),
            b"\x0fRetentionPassed",
        ]
        .concat();
        let (lost, maybe) = (render(false), render(true));
        assert!(lost.starts_with(&[&start[..], b"\x04lost\x01\0\0"].concat()));
        assert!(maybe.starts_with(&[&start[..], b"\x05maybe\x01\0\0"].concat()));
    }

    #[test]
    fn the_header_names_every_column_once() {
        let header = render_header();
        assert_eq!(header[0] as usize, COLUMNS.len());
        for (name, data_type) in COLUMNS {
            assert!(
                header
                    .windows(name.len())
                    .any(|window| window == name.as_bytes())
            );
            assert!(
                header
                    .windows(data_type.len())
                    .any(|window| window == data_type.as_bytes())
            );
        }
    }
}
