//! Numbers, exactly: read by JSON's grammar, kept as text until it is known what they are for.
//!
//! Must not be here: columns.

use ethnum::U256;

use super::cursor::Cursor;
use super::fault::Fault;

/// More digits than any type holds (256 bits are 78 digits).
const MOST_DIGITS: usize = 78;
/// An exponent beyond this is as good as infinite.
const FAR_EXPONENT: i64 = 1_000_000_000;

/// The parts of a number, as they were written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number<'p> {
    /// All of it.
    pub(crate) text: &'p [u8],
    negative: bool,
    whole: &'p [u8],
    fraction: &'p [u8],
    exponent: i64,
}

/// Sign and magnitude of an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Integer {
    pub(crate) negative: bool,
    pub(crate) magnitude: U256,
}

/// What to do with digits that do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// They are a fault.
    Refuse,
    /// To the nearest, halves away from zero.
    Nearest,
}

/// Sign and digits of an integer as most are written (up to 18 digits and then no more of it), and what follows it.
#[inline]
pub(crate) fn small(rest: &[u8]) -> Option<(bool, u64, &[u8])> {
    let (negative, digits) = match rest {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let (mut value, mut count) = (0, 0);
    while count < 18 {
        let digit = digits.get(count)?.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        value = value * 10 + u64::from(digit);
        count += 1;
    }
    let ended = matches!(
        digits.get(count)?,
        b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t'
    );
    if !ended || count == 0 || (count > 1 && digits.first() == Some(&b'0')) {
        return None;
    }
    Some((negative, value, digits.get(count..)?))
}

/// What follows a number.
#[inline]
pub(crate) fn skip(rest: &[u8]) -> Option<&[u8]> {
    match small(rest) {
        Some((_, _, after)) => Some(after),
        None => rest.get(lex(rest).ok()?.text.len()..),
    }
}

/// Over a number.
pub(crate) fn take<'p>(cursor: &mut Cursor<'p>) -> Result<Number<'p>, Fault> {
    let number = lex(cursor.rest)?;
    cursor.advance(number.text.len());
    Ok(number)
}

/// A number that is all of a text.
pub(crate) fn read_all(text: &[u8]) -> Result<Number<'_>, Fault> {
    match lex(text) {
        Ok(number) if number.text.len() == text.len() => Ok(number),
        _ => Err(Fault::BadText),
    }
}

fn lex(text: &[u8]) -> Result<Number<'_>, Fault> {
    let negative = text.first() == Some(&b'-');
    let start = usize::from(negative);
    let whole = digits_at(text, start);
    if whole.is_empty() || (whole.len() > 1 && whole[0] == b'0') {
        return Err(Fault::Syntax);
    }
    let mut end = start + whole.len();
    let mut fraction: &[u8] = &[];
    if text.get(end) == Some(&b'.') {
        fraction = digits_at(text, end + 1);
        end += 1 + fraction.len();
        if fraction.is_empty() {
            return Err(Fault::Syntax);
        }
    }
    let (exponent, end) = exponent_at(text, end)?;
    Ok(Number {
        text: text.get(..end).unwrap_or_default(),
        negative,
        whole,
        fraction,
        exponent,
    })
}

fn digits_at(text: &[u8], start: usize) -> &[u8] {
    let rest = text.get(start..).unwrap_or_default();
    let length = rest
        .iter()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(rest.len());
    rest.get(..length).unwrap_or_default()
}

/// The exponent, where there is one, and the end of the number.
fn exponent_at(text: &[u8], at: usize) -> Result<(i64, usize), Fault> {
    if !matches!(text.get(at), Some(b'e' | b'E')) {
        return Ok((0, at));
    }
    let sign = text.get(at + 1);
    let start = at + 1 + usize::from(matches!(sign, Some(b'+' | b'-')));
    let digits = digits_at(text, start);
    if digits.is_empty() {
        return Err(Fault::Syntax);
    }
    let size = digits.iter().fold(0_i64, |size, digit| {
        (size * 10 + i64::from(digit - b'0')).min(FAR_EXPONENT)
    });
    Ok((
        if sign == Some(&b'-') { -size } else { size },
        start + digits.len(),
    ))
}

impl Number<'_> {
    /// The number times `10^shift`, as an integer.
    ///
    /// # Errors
    /// `Inexact` where digits are left behind the point (with [`Rounding::Refuse`]), `OutOfRange` beyond 256 bits.
    pub(crate) fn scaled(&self, shift: i32, rounding: Rounding) -> Result<Integer, Fault> {
        let digits = || {
            self.whole
                .iter()
                .chain(self.fraction)
                .copied()
                .skip_while(|&digit| digit == b'0')
        };
        let fraction = i64::try_from(self.fraction.len()).unwrap_or(FAR_EXPONENT);
        let count = digits().count();
        if count == 0 {
            return Ok(Integer {
                negative: self.negative,
                magnitude: U256::ZERO,
            });
        }
        let power = self.exponent - fraction + i64::from(shift);
        let kept = i64::try_from(count).unwrap_or(FAR_EXPONENT) + power.min(0);
        let kept_digits = usize::try_from(kept).unwrap_or(0);
        let mut dropped = digits().skip(kept_digits);
        let first_dropped = if kept < 0 {
            b'0'
        } else {
            dropped.clone().next().unwrap_or(b'0')
        };
        if rounding == Rounding::Refuse && dropped.any(|digit| digit != b'0') {
            return Err(Fault::Inexact);
        }
        let magnitude = match collect(digits().take(kept_digits), power.max(0)) {
            Err(_) if rounding == Rounding::Nearest => U256::MAX,
            collected => collected?,
        };
        let round_up = U256::from(u8::from(first_dropped >= b'5'));
        Ok(Integer {
            negative: self.negative,
            magnitude: magnitude.saturating_add(round_up),
        })
    }

    /// The digits as they stand, where there are neither fraction nor exponent and at most 19 of them.
    #[inline]
    pub(crate) fn small(&self) -> Option<(bool, u64)> {
        let plain = self.fraction.is_empty() && self.exponent == 0 && self.whole.len() <= 19;
        plain.then(|| {
            (
                self.negative,
                self.whole
                    .iter()
                    .fold(0, |value, digit| value * 10 + u64::from(digit - b'0')),
            )
        })
    }

    pub(crate) fn is_negative(&self) -> bool {
        self.negative
    }
}

/// Digits followed by `zeros` zeros.
fn collect(digits: impl Iterator<Item = u8>, zeros: i64) -> Result<U256, Fault> {
    let mut value = U256::ZERO;
    let mut count = 0;
    for digit in digits {
        value = push_digit(value, digit - b'0')?;
        count += 1;
    }
    if zeros > i64::try_from(MOST_DIGITS - count.min(MOST_DIGITS)).unwrap_or(0) {
        return Err(Fault::OutOfRange);
    }
    (0..zeros).try_fold(value, |value, _| push_digit(value, 0))
}

fn push_digit(value: U256, digit: u8) -> Result<U256, Fault> {
    let tens = value.checked_mul(U256::new(10)).ok_or(Fault::OutOfRange)?;
    tens.checked_add(U256::from(digit)).ok_or(Fault::OutOfRange)
}

impl Integer {
    /// Takes the magnitude down to a limit, or refuses it.
    pub(crate) fn within(self, most: U256, least: U256, rounding: Rounding) -> Result<Self, Fault> {
        let limit = if self.negative { least } else { most };
        if self.magnitude <= limit {
            return Ok(self);
        }
        match rounding {
            Rounding::Refuse => Err(Fault::OutOfRange),
            Rounding::Nearest => Ok(Self {
                negative: self.negative,
                magnitude: limit,
            }),
        }
    }

    /// Two's complement, little-endian.
    pub(crate) fn to_le_bytes(self) -> [u8; 32] {
        if self.negative {
            self.magnitude.wrapping_neg().to_le_bytes()
        } else {
            self.magnitude.to_le_bytes()
        }
    }

    /// As 64 bits.
    pub(crate) fn to_i64(self) -> Result<i64, Fault> {
        let magnitude = i128::try_from(self.magnitude).map_err(|_| Fault::OutOfRange)?;
        i64::try_from(if self.negative { -magnitude } else { magnitude })
            .map_err(|_| Fault::OutOfRange)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn scaled(text: &str, shift: i32, rounding: Rounding) -> Result<i64, Fault> {
        read_all(text.as_bytes())?.scaled(shift, rounding)?.to_i64()
    }

    #[test]
    fn exact_values_are_kept_however_they_are_written() {
        for (text, shift, value) in [
            ("0", 0, 0),
            ("-0", 0, 0),
            ("-0.000e99", 3, 0),
            ("1.0", 0, 1),
            ("1e3", 0, 1000),
            ("1.50", 1, 15),
            ("12000e-3", 0, 12),
            ("-1.25", 2, -125),
            ("0.001", 3, 1),
            ("1E+2", 0, 100),
            ("1200", -2, 12),
            ("9223372036854775807", 0, i64::MAX),
            ("-9223372036854775808", 0, i64::MIN),
            ("100e-2", 0, 1),
            ("0e9999999999999999999", 0, 0),
        ] {
            assert_eq!(
                scaled(text, shift, Rounding::Refuse),
                Ok(value),
                "{text} * 10^{shift}"
            );
        }
    }

    #[test]
    fn digits_that_would_be_lost_are_refused_or_rounded_on_demand() {
        for (text, shift, rounded) in [
            ("1.5", 0, 2),
            ("1.49", 0, 1),
            ("-2.5", 0, -3),
            ("0.5", 0, 1),
            ("0.05", 0, 0),
            ("1e-30", 0, 0),
            ("1250", -2, 13),
        ] {
            assert_eq!(
                scaled(text, shift, Rounding::Refuse),
                Err(Fault::Inexact),
                "{text}"
            );
            assert_eq!(
                scaled(text, shift, Rounding::Nearest),
                Ok(rounded),
                "{text}"
            );
        }
    }

    #[test]
    fn what_no_type_can_hold_is_out_of_range() {
        for text in [
            "1e78",
            "1e999999999999",
            "115792089237316195423570985008687907853269984665640564039457584007913129639936",
        ] {
            assert_eq!(
                read_all(text.as_bytes())
                    .unwrap()
                    .scaled(0, Rounding::Refuse),
                Err(Fault::OutOfRange),
                "{text}"
            );
        }
        let most = "115792089237316195423570985008687907853269984665640564039457584007913129639935";
        assert_eq!(
            read_all(most.as_bytes())
                .unwrap()
                .scaled(0, Rounding::Refuse)
                .unwrap()
                .magnitude,
            U256::MAX
        );
    }

    #[test]
    fn the_grammar_is_that_of_json() {
        for text in [
            "", "-", "01", "+1", "1.", ".5", "1e", "1e+", "0x1", "1 ", "NaN", "--1", "1.5.2",
        ] {
            assert_eq!(
                read_all(text.as_bytes()).err(),
                Some(Fault::BadText),
                "{text}"
            );
        }
    }
}
