//! Words that tell values from others, and where the search for them begins.
//!
//! Must not be here: the table of words.

/// Longest value that is told by its word alone.
pub(super) const SHORT: usize = 15;

/// What tells a value from others: short ones wholly (bytes and length), longer ones only by a hash.
#[inline]
pub(crate) fn word_of(value: &[u8]) -> u128 {
    if value.len() > SHORT {
        return u128::from(hash_of(value)) | 0xff << 120;
    }
    let mut padded = [0; 16];
    for (to, from) in padded.iter_mut().zip(value) {
        *to = *from;
    }
    short_word(u128::from_le_bytes(padded), value.len())
}

/// True where a word tells a value wholly.
#[inline]
pub(crate) fn is_short_word(word: u128) -> bool {
    word >> 120 != 0xff
}

/// The word of the first `length` (at most 15) bytes of a little-endian word.
#[inline]
pub(crate) fn short_word(padded: u128, length: usize) -> u128 {
    let (mask, length) = SHORT_WORDS[length & SHORT];
    padded & mask | length
}

/// For each length: which bytes of a word count, and the length in the place of the last one.
const SHORT_WORDS: [(u128, u128); SHORT + 1] = {
    let mut words = [(0, 0); SHORT + 1];
    let mut length = 0;
    while length <= SHORT {
        words[length] = ((1 << (8 * length)) - 1, (length as u128) << 120);
        length += 1;
    }
    words
};

/// Where the search for a word begins, before it is cut to the table's size.
#[inline]
pub(crate) fn home_of(word: u128) -> usize {
    let [low, high] = halves(word);
    usize::from_le_bytes(fold(low ^ high.rotate_left(29)).to_le_bytes())
}

/// Multiplies and folds the product, so that every bit of the result depends on every bit of the word.
#[inline]
fn fold(word: u64) -> u64 {
    let [low, high] = halves(u128::from(word) * u128::from(FACTOR));
    low ^ high
}

#[inline]
#[allow(
    clippy::cast_possible_truncation,
    reason = "the halves of a word are meant"
)]
fn halves(word: u128) -> [u64; 2] {
    [word as u64, (word >> 64) as u64]
}

const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// Spreads the bytes of a value over 64 bits; the same on every machine, not meant against an attacker.
#[inline]
pub(crate) fn hash_of(value: &[u8]) -> u64 {
    let mut hash = (value.len() as u64).wrapping_mul(FACTOR);
    let (words, rest) = value.as_chunks::<8>();
    for word in words {
        hash = mix(hash, u64::from_le_bytes(*word));
    }
    mix(hash, tail_of(rest))
}

#[inline]
fn mix(hash: u64, word: u64) -> u64 {
    fold(hash ^ word)
}

/// Fewer than eight bytes as a number.
#[inline]
fn tail_of(rest: &[u8]) -> u64 {
    if let (Some(first), Some(last)) = (rest.first_chunk::<4>(), rest.last_chunk::<4>()) {
        return u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32;
    }
    rest.iter()
        .fold(0, |word, &byte| word << 8 | u64::from(byte))
}
