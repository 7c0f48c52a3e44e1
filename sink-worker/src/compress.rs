//! Compressed bodies as ClickHouse's HTTP interface takes them (`decompress=1`).
//!
//! A body is a row of frames: checksum (`CityHash128` 1.0.2 of the rest), method, size with this header, size before,
//! data. Must not be here: what is in the body, sending it.

use clickhouse_sink_crds::worker_config::Compression;

/// Most bytes in one frame, before compression.
const FRAME_BYTES: usize = 1024 * 1024;
const CHECKSUM_BYTES: usize = 16;
const HEADER_BYTES: usize = 9;
/// A quick level: ClickHouse stores the rows anew anyway.
const ZSTD_LEVEL: i32 = 1;

const METHOD_NONE: u8 = 0x02;
const METHOD_LZ4: u8 = 0x82;
const METHOD_ZSTD: u8 = 0x90;

/// The body of a request with `decompress=1`.
#[must_use]
pub fn compress_body(native: &[u8], compression: Compression) -> Vec<u8> {
    let mut body = Vec::with_capacity(native.len() / 2 + FRAME_BYTES);
    let mut zstd = match compression {
        Compression::Zstd => zstd::bulk::Compressor::new(ZSTD_LEVEL).ok(),
        Compression::Lz4 | Compression::None => None,
    };
    for chunk in native.chunks(FRAME_BYTES) {
        match (compression, &mut zstd) {
            (Compression::Lz4, _) => write_lz4(&mut body, chunk),
            (Compression::Zstd, Some(zstd)) => write_zstd(&mut body, chunk, zstd),
            _ => write_frame(&mut body, METHOD_NONE, chunk.len(), chunk),
        }
    }
    body
}

fn write_lz4(body: &mut Vec<u8>, chunk: &[u8]) {
    let start = start_frame(body);
    let room = lz4_flex::block::get_maximum_output_size(chunk.len());
    let data = body.len();
    body.resize(data + room, 0);
    let written = lz4_flex::block::compress_into(chunk, body.get_mut(data..).unwrap_or_default());
    match written {
        Ok(written) => {
            body.truncate(data + written);
            finish_frame(body, start, METHOD_LZ4, chunk.len());
        }
        Err(_) => write_plain_instead(body, start, chunk),
    }
}

fn write_zstd(body: &mut Vec<u8>, chunk: &[u8], zstd: &mut zstd::bulk::Compressor<'_>) {
    match zstd.compress(chunk) {
        Ok(data) => write_frame(body, METHOD_ZSTD, chunk.len(), &data),
        Err(_) => write_frame(body, METHOD_NONE, chunk.len(), chunk),
    }
}

/// A frame without compression says the same.
fn write_plain_instead(body: &mut Vec<u8>, start: usize, chunk: &[u8]) {
    body.truncate(start);
    write_frame(body, METHOD_NONE, chunk.len(), chunk);
}

fn write_frame(body: &mut Vec<u8>, method: u8, original_bytes: usize, data: &[u8]) {
    let start = start_frame(body);
    body.extend_from_slice(data);
    finish_frame(body, start, method, original_bytes);
}

fn start_frame(body: &mut Vec<u8>) -> usize {
    let start = body.len();
    body.resize(start + CHECKSUM_BYTES + HEADER_BYTES, 0);
    start
}

/// Fills in header and checksum of the frame that began at `start`.
fn finish_frame(body: &mut [u8], start: usize, method: u8, original_bytes: usize) {
    let Some((checksum, signed)) = body
        .get_mut(start..)
        .and_then(|frame| frame.split_at_mut_checked(CHECKSUM_BYTES))
    else {
        return;
    };
    let sizes = [signed.len(), original_bytes]
        .map(|size| u32::try_from(size).unwrap_or(u32::MAX).to_le_bytes());
    let header = [&[method][..], &sizes[0], &sizes[1]].concat();
    for (to, from) in signed.iter_mut().zip(header) {
        *to = from;
    }
    // ClickHouse writes the two halves the other way round.
    checksum.copy_from_slice(
        &cityhash_rs::cityhash_102_128(signed)
            .rotate_right(64)
            .to_le_bytes(),
    );
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn read_back(mut body: &[u8]) -> Vec<u8> {
        let mut all = Vec::new();
        while !body.is_empty() {
            let size = u32::from_le_bytes(body[17..21].try_into().unwrap()) as usize;
            let original = u32::from_le_bytes(body[21..25].try_into().unwrap()) as usize;
            let signed = &body[16..16 + size];
            let checksum = cityhash_rs::cityhash_102_128(signed)
                .rotate_right(64)
                .to_le_bytes();
            assert_eq!(&body[..16], checksum);
            let part = match signed[0] {
                METHOD_LZ4 => lz4_flex::block::decompress(&signed[9..], original).unwrap(),
                METHOD_ZSTD => zstd::bulk::decompress(&signed[9..], original).unwrap(),
                _ => signed[9..].to_vec(),
            };
            assert_eq!(part.len(), original);
            all.extend(part);
            body = &body[16 + size..];
        }
        all
    }

    #[test]
    fn every_method_gives_back_what_was_put_in_over_several_frames() {
        let native: Vec<u8> = (0..2_500_000_u32)
            .flat_map(|n| (n % 1000).to_le_bytes())
            .take(2_500_000)
            .collect();
        for compression in [Compression::Lz4, Compression::Zstd, Compression::None] {
            let body = compress_body(&native, compression);
            assert_eq!(read_back(&body), native);
            assert_eq!(body.len() < native.len(), compression != Compression::None);
        }
    }

    #[test]
    fn nothing_makes_no_frame() {
        assert!(compress_body(&[], Compression::Lz4).is_empty());
    }
}
