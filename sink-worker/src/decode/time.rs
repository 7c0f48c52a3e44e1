//! Dates and times: from text by RFC 3339 (or with a space, or without an offset), from numbers by the column's unit,
//! to ticks since the epoch. Nothing is cut off, nothing is guessed.
//!
//! Must not be here: the time now, the host's time zone.

use clickhouse_sink_crds::worker_config::TimeUnit;
use jiff::civil;
use jiff::tz::AmbiguousOffset;

use super::fault::Fault;
use super::number::{Number, Rounding};
use crate::schema::kind::{TimeKind, Zone};

const DAY_SECONDS: i64 = 86_400;
/// Text has at most nine digits behind the point that count; further ones must be zeros.
const NANO_DIGITS: usize = 9;

/// The date that was read last: records that follow each other mostly share it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DateCache {
    text: [u8; 10],
    days: i64,
}

/// A date and time as it was written.
struct Stamp {
    days: i64,
    second_of_day: i64,
    nanos: i64,
    /// Digits beyond nanoseconds were not all zeros.
    finer: bool,
    /// Seconds east of UTC; absent: local time of the column's zone.
    offset: Option<i64>,
}

/// Ticks of a text.
pub(crate) fn read_text(
    kind: &TimeKind,
    text: &[u8],
    cache: &mut DateCache,
    rounding: Rounding,
) -> Result<i64, Fault> {
    if kind.days {
        let date = text
            .first_chunk()
            .filter(|_| text.len() == 10)
            .ok_or(Fault::BadTimestamp)?;
        return within(kind, i128::from(cache.days_of(date)?), rounding);
    }
    if let Some(ticks) = quick(kind, text, cache) {
        return Ok(ticks);
    }
    let stamp = read_stamp(text, cache)?;
    let offset = match stamp.offset {
        Some(offset) => offset,
        None => offset_of(&kind.zone, &stamp, rounding)?,
    };
    let seconds = stamp.days * DAY_SECONDS + stamp.second_of_day - offset;
    let ticks = i128::from(seconds) * i128::from(power_of_ten(kind.digits))
        + fraction_ticks(kind, &stamp, rounding)?;
    within(kind, ticks, rounding)
}

/// Ticks of the commonest form, `YYYY-MM-DDThh:mm:ss.fffZ`, well within the range of every kind; else nothing.
#[inline]
pub(crate) fn quick(kind: &TimeKind, text: &[u8], cache: &mut DateCache) -> Option<i64> {
    let text: &[u8; 24] = text
        .first_chunk()
        .filter(|_| text.len() == 24 && kind.digits >= 3)?;
    let [
        date @ ..,
        b'T' | b' ',
        h1,
        h2,
        c1,
        m1,
        m2,
        c2,
        s1,
        s2,
        b'.',
        f1,
        f2,
        f3,
        b'Z',
    ] = text
    else {
        return None;
    };
    let seconds = quick_clock(u64::from_le_bytes([*h1, *h2, *c1, *m1, *m2, *c2, *s1, *s2]))?;
    let millis = pair(*f1, *f2)? * 10 + digit(*f3)?;
    let days = cache.days_of(date).ok()?;
    // 1970-01-01 … 2261-12-31: no kind with milliseconds ends before.
    if !(0..106_650).contains(&days) {
        return None;
    }
    let seconds = days * DAY_SECONDS + seconds;
    Some((seconds * 1000 + millis) * power_of_ten(kind.digits - 3))
}

/// The second of the day of `hh:mm:ss`, all eight bytes at once.
#[inline]
fn quick_clock(clock: u64) -> Option<i64> {
    // Digits become 0 … 9 and colons 0; anything else has a bit above, now or after 118 was added.
    let digits = clock ^ u64::from_le_bytes(*b"00:00:00");
    let too_large = digits | digits.wrapping_add(0x7676_7676_7676_7676);
    if too_large & 0x8080_8080_8080_8080 != 0 || digits & 0x0000_ff00_00ff_0000 != 0 {
        return None;
    }
    let [h1, h2, _, m1, m2, _, s1, s2] = digits.to_le_bytes().map(i64::from);
    let (hour, minute, second) = (h1 * 10 + h2, m1 * 10 + m2, s1 * 10 + s2);
    (hour < 24 && minute < 60 && second < 60).then_some(hour * 3600 + minute * 60 + second)
}

fn fraction_ticks(kind: &TimeKind, stamp: &Stamp, rounding: Rounding) -> Result<i128, Fault> {
    let per_tick = power_of_ten(9 - kind.digits);
    let (ticks, rest) = (stamp.nanos / per_tick, stamp.nanos % per_tick);
    match rounding {
        Rounding::Refuse if rest != 0 || stamp.finer => Err(Fault::Inexact),
        Rounding::Refuse => Ok(i128::from(ticks)),
        Rounding::Nearest => Ok(i128::from(ticks) + i128::from(rest * 2 >= per_tick && rest != 0)),
    }
}

fn within(kind: &TimeKind, ticks: i128, rounding: Rounding) -> Result<i64, Fault> {
    let (min, max) = (i128::from(kind.min_ticks), i128::from(kind.max_ticks));
    let kept = ticks.clamp(min, max);
    if kept != ticks && rounding == Rounding::Refuse {
        return Err(Fault::OutOfRange);
    }
    i64::try_from(kept).map_err(|_| Fault::OutOfRange)
}

fn read_stamp(text: &[u8], cache: &mut DateCache) -> Result<Stamp, Fault> {
    let (date, rest) = text.split_first_chunk::<10>().ok_or(Fault::BadTimestamp)?;
    let (clock, rest) = rest.split_first_chunk::<9>().ok_or(Fault::BadTimestamp)?;
    let second_of_day = read_clock(*clock).ok_or(Fault::BadTimestamp)?;
    let (nanos, finer, rest) = read_fraction(rest)?;
    Ok(Stamp {
        days: cache.days_of(date)?,
        second_of_day,
        nanos,
        finer,
        offset: read_offset(rest)?,
    })
}

/// `Thh:mm:ss` as the second of the day. A leap second (`:60`) has no tick of its own, so it is refused.
fn read_clock(clock: [u8; 9]) -> Option<i64> {
    let [b'T' | b't' | b' ', h1, h2, b':', m1, m2, b':', s1, s2] = clock else {
        return None;
    };
    let hour = pair(h1, h2).filter(|hour| *hour < 24)?;
    let minute = pair(m1, m2).filter(|minute| *minute < 60)?;
    let second = pair(s1, s2).filter(|second| *second < 60)?;
    Some(hour * 3600 + minute * 60 + second)
}

/// `.f…` as nanoseconds, whether finer digits were lost, and what follows.
fn read_fraction(text: &[u8]) -> Result<(i64, bool, &[u8]), Fault> {
    let Some(rest) = text.strip_prefix(b".") else {
        return Ok((0, false, text));
    };
    let length = rest
        .iter()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(rest.len());
    let (digits, rest) = rest
        .split_at_checked(length)
        .filter(|_| length > 0)
        .ok_or(Fault::BadTimestamp)?;
    let (kept, finer) = digits.split_at(length.min(NANO_DIGITS));
    let padded = kept
        .iter()
        .chain(std::iter::repeat(&b'0'))
        .take(NANO_DIGITS);
    let nanos = padded.fold(0, |nanos, digit| nanos * 10 + i64::from(digit - b'0'));
    Ok((nanos, finer.iter().any(|&digit| digit != b'0'), rest))
}

/// `Z`, `+hh:mm`, `+hhmm`, `+hh` in seconds east of UTC; nothing: local time.
fn read_offset(text: &[u8]) -> Result<Option<i64>, Fault> {
    let (sign, h1, h2, m1, m2) = match *text {
        [] => return Ok(None),
        [b'Z' | b'z'] => return Ok(Some(0)),
        [sign, h1, h2, b':', m1, m2] | [sign, h1, h2, m1, m2] => (sign, h1, h2, m1, m2),
        [sign, h1, h2] => (sign, h1, h2, b'0', b'0'),
        _ => return Err(Fault::BadTimestamp),
    };
    let hours = pair(h1, h2)
        .filter(|hours| *hours < 24)
        .ok_or(Fault::BadTimestamp)?;
    let minutes = pair(m1, m2)
        .filter(|minutes| *minutes < 60)
        .ok_or(Fault::BadTimestamp)?;
    match sign {
        b'+' => Ok(Some(hours * 3600 + minutes * 60)),
        b'-' => Ok(Some(-(hours * 3600 + minutes * 60))),
        _ => Err(Fault::BadTimestamp),
    }
}

/// Seconds east of UTC of a local time. A time that the clocks jumped over, or that they showed twice, is refused;
/// where the nearest value is wanted, it is read as the clock stood before the jump.
fn offset_of(zone: &Zone, stamp: &Stamp, rounding: Rounding) -> Result<i64, Fault> {
    let Zone::Named(zone) = zone else {
        return Ok(0);
    };
    let local = civil_of(stamp).ok_or(Fault::OutOfRange)?;
    let offset = match (zone.to_ambiguous_timestamp(local).offset(), rounding) {
        (AmbiguousOffset::Unambiguous { offset }, _) => offset,
        (
            AmbiguousOffset::Gap { before, .. } | AmbiguousOffset::Fold { before, .. },
            Rounding::Nearest,
        ) => before,
        (AmbiguousOffset::Gap { .. }, Rounding::Refuse) => return Err(Fault::NoSuchTime),
        (AmbiguousOffset::Fold { .. }, Rounding::Refuse) => return Err(Fault::TimeTwice),
    };
    Ok(i64::from(offset.seconds()))
}

fn civil_of(stamp: &Stamp) -> Option<civil::DateTime> {
    let seconds = stamp.days * DAY_SECONDS + stamp.second_of_day;
    let at = jiff::Timestamp::new(seconds, 0).ok()?;
    Some(at.to_zoned(jiff::tz::TimeZone::UTC).datetime())
}

/// Ticks of a plain number.
pub(crate) fn read_number(
    kind: &TimeKind,
    number: &Number<'_>,
    rounding: Rounding,
) -> Result<i64, Fault> {
    let unit_digits = match kind.unit.ok_or(Fault::NoUnit)? {
        TimeUnit::Days => return days_number(kind, number, rounding),
        TimeUnit::Seconds => 0,
        TimeUnit::Milliseconds => 3,
        TimeUnit::Microseconds => 6,
        TimeUnit::Nanoseconds => 9,
    };
    let ticks = saturating(number, i32::from(kind.digits) - unit_digits, rounding)?;
    if !kind.days {
        return within(kind, ticks, rounding);
    }
    let day = i128::from(DAY_SECONDS);
    if ticks % day != 0 && rounding == Rounding::Refuse {
        return Err(Fault::Inexact);
    }
    within(kind, (ticks + day / 2).div_euclid(day), rounding)
}

fn days_number(kind: &TimeKind, number: &Number<'_>, rounding: Rounding) -> Result<i64, Fault> {
    let days = saturating(number, 0, rounding)?;
    let per_day = if kind.days {
        1
    } else {
        DAY_SECONDS * power_of_ten(kind.digits)
    };
    within(kind, days * i128::from(per_day), rounding)
}

/// A number as an integer that leaves room to count with; what is larger is out of every range.
fn saturating(number: &Number<'_>, shift: i32, rounding: Rounding) -> Result<i128, Fault> {
    let integer = number.scaled(shift, rounding)?;
    let far = i128::from(i64::MAX);
    let magnitude = i128::try_from(integer.magnitude).unwrap_or(far).min(far);
    Ok(if integer.negative {
        -magnitude
    } else {
        magnitude
    })
}

impl Default for DateCache {
    fn default() -> Self {
        Self {
            text: *b"1970-01-01",
            days: 0,
        }
    }
}

impl DateCache {
    /// Days from the epoch of a `YYYY-MM-DD`.
    #[inline]
    fn days_of(&mut self, text: &[u8; 10]) -> Result<i64, Fault> {
        if *text != self.text {
            self.days = read_date(text).ok_or(Fault::BadTimestamp)?;
            self.text = *text;
        }
        Ok(self.days)
    }
}

#[cold]
fn read_date(text: &[u8; 10]) -> Option<i64> {
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = *text else {
        return None;
    };
    let year = pair(y1, y2)? * 100 + pair(y3, y4)?;
    let (month, day) = (pair(m1, m2)?, pair(d1, d2)?);
    let date = civil::Date::new(
        i16::try_from(year).ok()?,
        i8::try_from(month).ok()?,
        i8::try_from(day).ok()?,
    )
    .ok()?;
    Some(days_from_epoch(i64::from(date.year()), month, day))
}

/// Days from 1970-01-01 in the proleptic Gregorian calendar, counted in eras of 400 years that begin in March.
fn days_from_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[inline]
fn digit(byte: u8) -> Option<i64> {
    let value = byte.wrapping_sub(b'0');
    (value < 10).then_some(i64::from(value))
}

#[inline]
fn pair(tens: u8, ones: u8) -> Option<i64> {
    Some(digit(tens)? * 10 + digit(ones)?)
}

#[inline]
fn power_of_ten(digits: u8) -> i64 {
    const POWERS: [i64; 10] = [
        1,
        10,
        100,
        1000,
        10_000,
        100_000,
        1_000_000,
        10_000_000,
        100_000_000,
        1_000_000_000,
    ];
    POWERS[usize::from(digits.min(9))]
}
