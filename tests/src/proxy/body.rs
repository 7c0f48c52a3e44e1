//! Reading and copying HTTP messages piece by piece, as they come.

use std::io::{self, BufRead, Read, Write};

use crate::http::{find_header, parse_chunk_size, parse_head};

/// Heads beyond this are refused (an INSERT's settings and columns travel in the URL).
const MAX_HEAD: usize = 1 << 20;

/// A message's head as it came, and what is in it.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) bytes: Vec<u8>,
    pub(crate) first: String,
    pub(crate) headers: Vec<(String, String)>,
}

/// How long a message's body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
}

impl Head {
    /// Reads a head; `None` where the connection ends before one begins.
    pub(crate) fn read(reader: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut bytes = Vec::new();
        while !bytes.ends_with(b"\r\n\r\n") {
            let count = reader.take(MAX_HEAD as u64).read_until(b'\n', &mut bytes)?;
            if count == 0 && bytes.is_empty() {
                return Ok(None);
            }
            if count == 0 || bytes.len() > MAX_HEAD {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let (first, headers) = parse_head(&bytes);
        Ok(Some(Self {
            bytes,
            first,
            headers,
        }))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        find_header(&self.headers, name)
    }

    /// Length of the body; `otherwise` where no header says.
    pub(crate) fn framing(&self, otherwise: Framing) -> Framing {
        if self
            .header("transfer-encoding")
            .is_some_and(|value| value.contains("chunked"))
        {
            return Framing::Chunked;
        }
        let length = self
            .header("content-length")
            .and_then(|length| length.parse().ok());
        length.map_or(otherwise, Framing::Length)
    }

    /// True where the sender closes the connection after this message, or wants it closed.
    pub(crate) fn asks_to_close(&self) -> bool {
        self.header("connection")
            .is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }

    /// Status of a reply's head.
    pub(crate) fn status(&self) -> Option<u16> {
        self.first.split(' ').nth(1)?.parse().ok()
    }
}

/// Copies a body, framing included.
pub(crate) fn copy_body(
    reader: &mut impl BufRead,
    writer: &mut impl Write,
    framing: Framing,
) -> io::Result<()> {
    match framing {
        Framing::Length(length) => copy_exactly(reader, writer, length)?,
        Framing::UntilClose => {
            io::copy(reader, writer)?;
        }
        Framing::Chunked => while copy_chunk(reader, writer)? {},
    }
    writer.flush()
}

fn copy_exactly(reader: &mut impl BufRead, writer: &mut impl Write, length: u64) -> io::Result<()> {
    let copied = io::copy(&mut reader.take(length), writer)?;
    if copied < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

/// False after the last chunk. Trailers are copied as they are.
fn copy_chunk(reader: &mut impl BufRead, writer: &mut impl Write) -> io::Result<bool> {
    let line = copy_line(reader, writer)?;
    let size = parse_chunk_size(&line).ok_or(io::ErrorKind::InvalidData)?;
    if size == 0 {
        while copy_line(reader, writer)?.len() > 2 {}
        return Ok(false);
    }
    copy_exactly(reader, writer, size as u64 + 2)?;
    Ok(true)
}

fn copy_line(reader: &mut impl BufRead, writer: &mut impl Write) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    writer.write_all(&line)?;
    Ok(line)
}

/// Fails once so many bytes have gone through.
pub(crate) struct Truncating<W> {
    pub(crate) inner: W,
    pub(crate) left: usize,
}

impl<W: Write> Write for Truncating<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let allowed = bytes.get(..self.left.min(bytes.len())).unwrap_or_default();
        if allowed.is_empty() && !bytes.is_empty() {
            self.inner.flush()?;
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let count = self.inner.write(allowed)?;
        self.left -= count;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn a_chunked_body_is_copied_whole_and_no_further() {
        let mut bytes = &b"3\r\nabc\r\n1\r\nd\r\n0\r\n\r\nGET / HTTP/1.1"[..];
        let mut copy = Vec::new();
        copy_body(&mut bytes, &mut copy, Framing::Chunked).unwrap();
        assert_eq!(copy, b"3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n");
        assert_eq!(bytes, b"GET / HTTP/1.1");
    }

    #[test]
    fn a_body_that_ends_too_early_is_an_error() {
        let mut sink = io::sink();
        assert!(copy_body(&mut &b"ab"[..], &mut sink, Framing::Length(3)).is_err());
        assert!(copy_body(&mut &b"3\r\nab"[..], &mut sink, Framing::Chunked).is_err());
    }

    #[test]
    fn a_truncated_copy_stops_at_the_byte() {
        let mut copy = Truncating {
            inner: Vec::new(),
            left: 4,
        };
        assert!(copy_body(&mut &b"abcdefgh"[..], &mut copy, Framing::Length(8)).is_err());
        assert_eq!(copy.inner, b"abcd");
    }
}
