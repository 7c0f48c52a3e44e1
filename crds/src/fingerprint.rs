//! Short hashes that name a definition.
//!
//! Must not be here: what is hashed for which purpose, except the mapping of bytes to rows.

use sha2::{Digest, Sha256};

use crate::worker_config::{RecordFormat, TargetTable};

/// SHA-256 of the bytes, its first 16 bytes as 32 hex digits.
#[must_use]
pub fn fingerprint(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes)[..16])
}

/// SHA-256 of the bytes as 64 hex digits.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Names everything that turns payload bytes into rows and rows into blocks, as 16 hex digits: the mapping, what is
/// rejected, the partition and sorting key, and the version of the decoder.
///
/// # Panics
/// Never: the parts always become JSON.
#[must_use]
pub fn mapping_hash(table: &TargetTable, format: &RecordFormat, decoder_version: u32) -> String {
    // Structs keep the order of their fields and maps are sorted, so equal values give equal text.
    let parts = (
        &table.mapping,
        table.metadata_columns,
        &table.expected.partition_by,
        &table.expected.order_by,
        format,
        decoder_version,
    );
    let text = serde_json::to_vec(&parts).expect("plain structs with text keys always become JSON");
    let mut name = fingerprint(&text);
    name.truncate(16);
    name
}

/// Appends the text behind its length, so that no two lists of texts run together into the same bytes.
pub(crate) fn push_prefixed(bytes: &mut Vec<u8>, text: &[u8]) {
    bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
    bytes.extend_from_slice(text);
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
    ];
    bytes
        .iter()
        .flat_map(|b| [DIGITS[usize::from(b >> 4)], DIGITS[usize::from(b & 15)]])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_the_first_half_of_the_sha_256() {
        assert_eq!(fingerprint(b"abc"), "ba7816bf8f01cfea414140de5dae2223");
        assert!(sha256_hex(b"abc").starts_with("ba7816bf8f01cfea414140de5dae2223"));
    }

    #[test]
    fn texts_behind_their_lengths_do_not_run_together() {
        let joined = |parts: &[&str]| {
            let mut bytes = Vec::new();
            for part in parts {
                push_prefixed(&mut bytes, part.as_bytes());
            }
            bytes
        };
        assert_ne!(joined(&["ab", "c"]), joined(&["a", "bc"]));
    }
}
