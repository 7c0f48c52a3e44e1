//! JSON strings with escapes in them: rare, so kept out of the quick path.
//!
//! Must not be here: finding the end of a string.

use super::fault::Fault;
use super::scan;

/// Writes what an escaped string means; also the check that its escapes are valid.
#[cold]
pub(crate) fn unescape(raw: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
    out.clear();
    let mut rest = raw;
    loop {
        let (plain, from) = rest
            .split_at_checked(scan::plain_length(rest))
            .ok_or(Fault::Escape)?;
        out.extend_from_slice(plain);
        let Some((_, after)) = from.split_first() else {
            return Ok(());
        };
        rest = escape(after, out)?;
    }
}

/// One escape, from the byte after the backslash; answers what follows it.
fn escape<'r>(after: &'r [u8], out: &mut Vec<u8>) -> Result<&'r [u8], Fault> {
    let (&letter, rest) = after.split_first().ok_or(Fault::Escape)?;
    let meaning = match letter {
        b'"' | b'\\' | b'/' => letter,
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'u' => return unicode(rest, out),
        _ => return Err(Fault::Escape),
    };
    out.push(meaning);
    Ok(rest)
}

fn unicode<'r>(rest: &'r [u8], out: &mut Vec<u8>) -> Result<&'r [u8], Fault> {
    let (first, rest) = hex4(rest)?;
    let (code, rest) = match first {
        0xD800..=0xDBFF => {
            let low = rest.strip_prefix(b"\\u").ok_or(Fault::Escape)?;
            let (second, rest) = hex4(low)?;
            if !(0xDC00..=0xDFFF).contains(&second) {
                return Err(Fault::Escape);
            }
            (
                0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00),
                rest,
            )
        }
        code => (code, rest),
    };
    let character = char::from_u32(code).ok_or(Fault::Escape)?;
    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    Ok(rest)
}

fn hex4(text: &[u8]) -> Result<(u32, &[u8]), Fault> {
    let (digits, rest) = text.split_at_checked(4).ok_or(Fault::Escape)?;
    digits
        .iter()
        .try_fold(0, |code, &digit| {
            Some(code << 4 | char::from(digit).to_digit(16)?)
        })
        .map(|code| (code, rest))
        .ok_or(Fault::Escape)
}
