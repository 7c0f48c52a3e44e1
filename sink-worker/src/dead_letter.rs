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

/// Appends one row; `now_ms` is the time of rejection.
pub fn render_row(body: &mut Vec<u8>, origin: &Origin, record: &Rejected, now_ms: i64) {
    put_bytes(body, origin.topic.as_bytes());
    put_bytes(body, origin.topic_id.as_bytes());
    body.extend_from_slice(&origin.partition.to_le_bytes());
    body.extend_from_slice(&record.offset.to_le_bytes());
    put_bytes(body, origin.epoch.as_bytes());
    put_bytes(body, b"record");
    body.extend_from_slice(&(record.offset + 1).to_le_bytes());
    put_bytes(body, b"");
    put_bytes(body, b"");
    put_nullable(body, record.key.as_deref());
    put_bytes(body, &record.payload);
    put_headers(body, &record.headers);
    body.extend_from_slice(&record.timestamp_ms.to_le_bytes());
    put_bytes(body, record.column.as_bytes());
    put_bytes(body, record.reason.as_bytes());
    put_bytes(body, record.code.as_bytes());
    put_bytes(body, origin.mapping.as_bytes());
    body.extend_from_slice(&now_ms.to_le_bytes());
}

/// Appends a gap as a row; `now_ms` is the time at which it is recorded.
pub fn render_gap(body: &mut Vec<u8>, origin: &Origin, gap: &Gap, now_ms: i64) {
    put_bytes(body, origin.topic.as_bytes());
    put_bytes(body, origin.topic_id.as_bytes());
    body.extend_from_slice(&origin.partition.to_le_bytes());
    body.extend_from_slice(&gap.start.to_le_bytes());
    put_bytes(body, origin.epoch.as_bytes());
    put_bytes(body, b"gap");
    body.extend_from_slice(&gap.end.to_le_bytes());
    put_bytes(body, gap.cause.as_bytes());
    put_bytes(
        body,
        if gap.maybe_inserted {
            b"maybe"
        } else {
            b"lost"
        },
    );
    put_nullable(body, None);
    put_bytes(body, b"");
    put_headers(body, &[]);
    body.extend_from_slice(&0_i64.to_le_bytes());
    put_bytes(body, b"");
    put_bytes(body, b"Kafka no longer has these records");
    put_bytes(body, gap.cause.as_bytes());
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
