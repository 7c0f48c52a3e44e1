//! Finds the end of a JSON string quickly, without `unsafe`: short strings 8 bytes at a time with plain arithmetic,
//! long ones 32 bytes at a time in a loop that the compiler turns into the processor's vector instructions.
//!
//! Must not be here: what comes after the string.

#![allow(clippy::inline_always, reason = "measured by examples/decode_bench.rs")]
#![allow(
    clippy::cast_possible_truncation,
    reason = "the halves of a word are meant"
)]

/// Most strings end before this; beyond it the wide loop pays.
const SHORT: usize = 32;

/// Length of the run of bytes that are neither a quote, a backslash nor a control character.
#[inline]
pub(crate) fn plain_length(bytes: &[u8]) -> usize {
    let mut length = 0;
    while let Some(chunk) = bytes.get(length..).and_then(<[u8]>::first_chunk::<8>) {
        let special = special_of_8(u64::from_le_bytes(*chunk));
        if special != 0 {
            return length + special.trailing_zeros() as usize / 8;
        }
        length += 8;
        if length == SHORT {
            length += wide_length(bytes.get(length..).unwrap_or_default());
        }
    }
    let rest = bytes.get(length..).unwrap_or_default();
    length
        + rest
            .iter()
            .position(|&byte| is_special(byte))
            .unwrap_or(rest.len())
}

/// The same for the 16 bytes of a little-endian word; 16 where none of them ends the run.
#[inline(always)]
pub(crate) fn plain_length_of_16(words: u128) -> usize {
    let low = special_of_8(words as u64);
    if low != 0 {
        return low.trailing_zeros() as usize / 8;
    }
    8 + special_of_8((words >> 64) as u64).trailing_zeros() as usize / 8
}

/// Length of the whole 32-byte pieces without a special byte.
#[inline(never)]
fn wide_length(bytes: &[u8]) -> usize {
    let (pieces, _) = bytes.as_chunks::<32>();
    32 * pieces.iter().position(any_special).unwrap_or(pieces.len())
}

#[inline]
fn any_special(piece: &[u8; 32]) -> bool {
    piece
        .iter()
        .fold(0, |any, &byte| any | u8::from(is_special(byte)))
        != 0
}

#[inline]
fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// The high bit of each byte that ends the run; bits above the lowest one set may be wrong (borrows), which does not
/// matter as only the lowest is looked at.
#[inline(always)]
fn special_of_8(word: u64) -> u64 {
    let quote = word ^ (ONES * 0x22);
    let backslash = word ^ (ONES * 0x5c);
    let zero = |value: u64| value.wrapping_sub(ONES) & !value;
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    (zero(quote) | zero(backslash) | control) & HIGHS
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one_by_one(bytes: &[u8]) -> usize {
        bytes
            .iter()
            .position(|&byte| is_special(byte))
            .unwrap_or(bytes.len())
    }

    #[test]
    fn every_byte_at_every_place_is_told_apart() {
        for byte in 0..=255 {
            for place in 0..120 {
                let mut bytes = [b'x'; 120];
                bytes[place] = byte;
                assert_eq!(
                    plain_length(&bytes),
                    one_by_one(&bytes),
                    "byte {byte} at {place}"
                );
                let (start, _) = bytes
                    .split_first_chunk::<16>()
                    .unwrap_or_else(|| unreachable!());
                assert_eq!(
                    plain_length_of_16(u128::from_le_bytes(*start)),
                    one_by_one(start),
                    "byte {byte} at {place}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_give_what_looking_at_each_one_gives(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(plain_length(&bytes), one_by_one(&bytes));
        }
    }
}
