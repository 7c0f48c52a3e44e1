//! Kubernetes quantities of bytes: `16Mi`, `1G`, `4096`.
//!
//! Must not be here: fractions and exponents, which no field takes.

use thiserror::Error;

/// A text that is not a number of bytes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "expected a whole number of bytes with or without k, M, G, Ki, Mi or Gi, found `{found}`; write for example 64Mi"
)]
pub struct QuantityError {
    /// The text.
    pub found: String,
}

const UNITS: [(&str, u64); 6] = [
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
];

/// The number of bytes that a quantity stands for.
///
/// # Errors
/// It is not a whole number with a known unit, or does not fit 64 bits.
pub fn parse_bytes(text: &str) -> Result<u64, QuantityError> {
    let (digits, factor) = UNITS
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))
        .unwrap_or((text, 1));
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    digits
        .parse::<u64>()
        .ok()
        .filter(|_| plain)
        .and_then(|number| number.checked_mul(factor))
        .ok_or_else(|| QuantityError {
            found: text.escape_debug().take(40).collect(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_two_and_of_ten_are_told_apart() {
        assert_eq!(parse_bytes("16Mi"), Ok(16 << 20));
        assert_eq!(parse_bytes("16M"), Ok(16_000_000));
        assert_eq!(parse_bytes("4096"), Ok(4096));
        assert_eq!(parse_bytes("1Gi"), Ok(1 << 30));
    }

    #[test]
    fn what_is_no_whole_number_of_bytes_is_refused() {
        for text in [
            "",
            "Mi",
            "1.5Gi",
            "-1",
            "+1",
            "64MB",
            "99999999999Gi",
            "1e3",
        ] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }
}
