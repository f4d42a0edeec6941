//! Content codings: undone up to a length, since a small body may stand for a very long one, and
//! done in three efforts.

use std::{
    io::{self, Read, Write},
    mem,
    sync::Arc,
};

use bytes::Bytes;
use larder_proto::page::Encoding;
use tokio::task::spawn_blocking;
use zstd::zstd_safe::{self, CCtx, CParameter};

use crate::room::{Counted, Room};

/// Coded bodies from this length on are decoded beside the worker.
const LONG: usize = 32 << 10;

/// The window of a body that is compressed as it comes: 256 KiB, as a power of two.
const WINDOW: u32 = 18;

/// Why a body cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undecoded {
    /// It is damaged, or in a coding that is not known here.
    Damaged,
    /// It is longer than it may be.
    TooLong,
    /// There is no memory for it.
    Crowded,
}

/// The content of a body in a coding, `most` bytes at the most, counted for as long as it lives.
pub(crate) async fn decoded(
    room: &Arc<Room>,
    encoding: Encoding,
    body: Bytes,
    most: u64,
) -> Result<Bytes, Undecoded> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let is_long = body.len() >= LONG;
    let content = Counted::new(room);
    let decode = move || decode(encoding, &body, most, content);
    if is_long { spawn_blocking(decode).await.unwrap_or(Err(Undecoded::Damaged)) } else { decode() }
}

/// The same of a short body, at once.
pub(crate) fn decoded_now(encoding: Encoding, body: &[u8], most: u64) -> Result<Bytes, Undecoded> {
    decode(encoding, body, usize::try_from(most).unwrap_or(usize::MAX), Counted::brief())
}

fn decode(
    encoding: Encoding,
    body: &[u8],
    most: usize,
    content: Counted,
) -> Result<Bytes, Undecoded> {
    match encoding {
        Encoding::Identity => read(body, most, content),
        Encoding::Gzip => read(flate2::read::MultiGzDecoder::new(body), most, content),
        // As RFC 9110 section 8.4.1.2 has it: with a header of zlib. Some servers leave it out.
        Encoding::Deflate if is_zlib(body) => {
            read(flate2::read::ZlibDecoder::new(body), most, content)
        }
        Encoding::Deflate => read(flate2::read::DeflateDecoder::new(body), most, content),
        Encoding::Br => read(brotli::Decompressor::new(body, 4096), most, content),
        Encoding::Zstd => {
            let reader = zstd::stream::read::Decoder::new(body);
            read(reader.map_err(|_| Undecoded::Damaged)?, most, content)
        }
        // Bodies with a dictionary are made here, and never read.
        Encoding::Dcb | Encoding::Dcz | Encoding::Other => Err(Undecoded::Damaged),
    }
}

/// Whether a body begins as zlib's format does (RFC 1950 section 2.2).
fn is_zlib(body: &[u8]) -> bool {
    body.first_chunk::<2>()
        .is_some_and(|head| head[0] & 15 == 8 && u16::from_be_bytes(*head) % 31 == 0)
}

fn read(mut reader: impl Read, most: usize, mut content: Counted) -> Result<Bytes, Undecoded> {
    loop {
        let limit = most.saturating_add(1);
        let (into, spare) = content.spare(limit).ok_or(Undecoded::Crowded)?;
        let part = reader.by_ref().take(spare as u64).read_to_end(into);
        let part = part.map_err(|_| Undecoded::Damaged)?;
        if content.len() > most {
            return Err(Undecoded::TooLong);
        }
        if part < spare {
            return Ok(content.into_bytes());
        }
    }
}

/// The beginning of the content of a body in a coding, `most` bytes at the most. The body may be
/// cut, or damaged further on; a coding that is not known has none.
pub(crate) fn beginning(encoding: Encoding, body: &[u8], most: usize) -> Vec<u8> {
    let mut content = Vec::new();
    let mut read = |reader: &mut dyn Read| {
        // An error leaves what was read before it.
        let _ = reader.take(most as u64).read_to_end(&mut content);
    };
    match encoding {
        Encoding::Identity => read(&mut &body[..]),
        Encoding::Gzip => read(&mut flate2::read::GzDecoder::new(body)),
        Encoding::Deflate if is_zlib(body) => read(&mut flate2::read::ZlibDecoder::new(body)),
        Encoding::Deflate => read(&mut flate2::read::DeflateDecoder::new(body)),
        Encoding::Br => read(&mut brotli::Decompressor::new(body, 4096)),
        Encoding::Zstd => {
            if let Ok(mut reader) = zstd::stream::read::Decoder::new(body) {
                // The window is allocated as the body says. 8 MiB is the most that a client has
                // to support (RFC 9659).
                let _ = reader.window_log_max(23);
                read(&mut reader);
            }
        }
        Encoding::Dcb | Encoding::Dcz | Encoding::Other => {}
    }
    content
}

/// How hard a body is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Effort {
    /// For one answer.
    Fast = 0,
    /// At once, for a page that was requested again.
    Good = 1,
    /// For a page that is requested often.
    Best = 2,
}

/// A body in a coding. Levels: an article of 88 KB takes 1.0 ms by gzip's 6, 1.7 by brotli's 5, 1.1
/// by zstd's 9, and 104 ms by brotli's 11, which is a seventh smaller than its 5.
pub(crate) fn coded(encoding: Encoding, effort: Effort, body: &[u8]) -> io::Result<Vec<u8>> {
    let level = |levels: [i32; 3]| levels[effort as usize];
    match encoding {
        Encoding::Zstd => zstd::bulk::compress(body, level([1, 9, 19])),
        Encoding::Br => {
            let mut out = Vec::new();
            let params = brotli::enc::BrotliEncoderParams {
                quality: level([1, 5, 11]),
                size_hint: body.len(),
                ..Default::default()
            };
            brotli::BrotliCompress(&mut &body[..], &mut out, &params)?;
            Ok(out)
        }
        _ => {
            let level = flate2::Compression::new(level([1, 6, 9]).unsigned_abs());
            let mut out = flate2::write::GzEncoder::new(Vec::new(), level);
            out.write_all(body)?;
            out.finish()
        }
    }
}

/// A body in a coding with a dictionary, whose content both sides have: the stream alone. The
/// dictionary is the text before the body, whatever its first bytes are (RFC 9842 4 and 5).
pub(crate) fn coded_with(
    encoding: Encoding,
    effort: Effort,
    body: &[u8],
    dictionary: &[u8],
) -> io::Result<Vec<u8>> {
    match encoding {
        Encoding::Dcb => brotli_with(effort, body, dictionary),
        _ => zstd_with(effort, body, dictionary),
    }
}

fn zstd_with(effort: Effort, body: &[u8], dictionary: &[u8]) -> io::Result<Vec<u8>> {
    let failed = |code| io::Error::other(zstd_safe::get_error_name(code));
    let mut context = CCtx::create();
    let level = CParameter::CompressionLevel([1, 9, 19][effort as usize]);
    context.set_parameter(level).map_err(failed)?;
    context.ref_prefix(dictionary).map_err(failed)?;
    let mut out = Vec::with_capacity(zstd_safe::compress_bound(body.len()));
    context.compress2(&mut out, body).map_err(failed)?;
    Ok(out)
}

fn brotli_with(effort: Effort, mut body: &[u8], dictionary: &[u8]) -> io::Result<Vec<u8>> {
    // The body and the dictionary have to lie in one window: encoders of brotli without shared
    // dictionaries count distances by it. Clients take windows of 16 MiB (RFC 9842 4).
    let fits = body.len() + dictionary.len() + 16 <= 1 << 22;
    let params = brotli::enc::BrotliEncoderParams {
        quality: [2, 5, 11][effort as usize],
        lgwin: if fits { 22 } else { 24 },
        size_hint: body.len(),
        ..Default::default()
    };
    let (mut input, mut output) = ([0; 4096], [0; 4096]);
    let mut out = Vec::new();
    brotli::BrotliCompressCustomIoCustomDict(
        &mut brotli::IoReaderWrapper(&mut body),
        &mut brotli::IoWriterWrapper(&mut out),
        &mut input,
        &mut output,
        &params,
        brotli::enc::StandardAlloc::default(),
        &mut |_, _, _, _| (),
        dictionary,
        io::Error::from(io::ErrorKind::UnexpectedEof),
    )?;
    Ok(out)
}

/// Compresses a body as it comes, at the fastest level.
pub(crate) struct Coder {
    encoder: Encoder,
    /// Coded bytes that were taken.
    taken: u64,
}

enum Encoder {
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
    Br(Box<brotli::CompressorWriter<Vec<u8>>>),
    Gzip(flate2::write::GzEncoder<Vec<u8>>),
}

impl Coder {
    /// Memory of one, in bytes: tables and the window.
    pub(crate) const MEMORY: u64 = 1 << 20;

    pub(crate) fn new(encoding: Encoding) -> Option<Self> {
        let encoder = match encoding {
            Encoding::Zstd => {
                let mut coder = zstd::stream::write::Encoder::new(Vec::new(), 1).ok()?;
                coder.set_parameter(CParameter::WindowLog(WINDOW)).ok()?;
                Encoder::Zstd(coder)
            }
            Encoding::Br => {
                let coder = brotli::CompressorWriter::new(Vec::new(), 4096, 1, WINDOW);
                Encoder::Br(Box::new(coder))
            }
            Encoding::Gzip => {
                let level = flate2::Compression::new(1);
                Encoder::Gzip(flate2::write::GzEncoder::new(Vec::new(), level))
            }
            Encoding::Identity
            | Encoding::Deflate
            | Encoding::Dcb
            | Encoding::Dcz
            | Encoding::Other => return None,
        };
        Some(Self { encoder, taken: 0 })
    }

    /// Takes a piece of the body.
    pub(crate) fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        match &mut self.encoder {
            Encoder::Zstd(coder) => coder.write_all(piece),
            Encoder::Br(coder) => coder.write_all(piece),
            Encoder::Gzip(coder) => coder.write_all(piece),
        }
    }

    /// The coded bytes that there are. `all`: with them a client can read all that was written.
    pub(crate) fn take(&mut self, all: bool) -> io::Result<Vec<u8>> {
        fn flush(coder: &mut impl Write, all: bool) -> io::Result<()> {
            if all { coder.flush() } else { Ok(()) }
        }
        let coded = mem::take(match &mut self.encoder {
            Encoder::Zstd(coder) => flush(coder, all).map(|()| coder.get_mut())?,
            Encoder::Br(coder) => flush(&mut **coder, all).map(|()| coder.get_mut())?,
            Encoder::Gzip(coder) => flush(coder, all).map(|()| coder.get_mut())?,
        });
        self.taken += coded.len() as u64;
        Ok(coded)
    }

    /// The bytes behind the last piece, and the length of all coded bytes.
    pub(crate) fn end(self) -> io::Result<(Vec<u8>, u64)> {
        let coded = match self.encoder {
            Encoder::Zstd(coder) => coder.finish()?,
            Encoder::Br(coder) => coder.into_inner(),
            Encoder::Gzip(coder) => coder.finish()?,
        };
        let all = self.taken + coded.len() as u64;
        Ok((coded, all))
    }
}

#[cfg(test)]
mod tests {
    use larder_store::{Options, Store};

    use super::*;
    use crate::clock::Clock;

    fn undone(encoding: Encoding, body: &[u8], most: usize) -> Result<Vec<u8>, Undecoded> {
        let content = Counted::new(&Arc::new(Room::default()));
        decode(encoding, body, most, content).map(|content| content.to_vec())
    }

    fn gzip(content: &[u8]) -> Vec<u8> {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        out.write_all(content).expect("a vector takes all");
        out.finish().expect("a vector takes all")
    }

    #[test]
    fn each_coding_is_undone() {
        let text = b"some text, some text, some text".repeat(5000);
        let mut br = Vec::new();
        brotli::BrotliCompress(&mut &text[..], &mut br, &Default::default()).expect("memory");
        let zstd = zstd::bulk::compress(&text, 3).expect("memory");
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        zlib.write_all(&text).expect("a vector takes all");
        let zlib = zlib.finish().expect("a vector takes all");
        let bare = zlib[2..zlib.len() - 4].to_vec();
        for (encoding, body) in [
            (Encoding::Gzip, gzip(&text)),
            (Encoding::Br, br),
            (Encoding::Zstd, zstd),
            (Encoding::Deflate, zlib),
            (Encoding::Deflate, bare),
        ] {
            assert_eq!(undone(encoding, &body, text.len()), Ok(text.clone()), "{encoding:?}");
            let shorter = undone(encoding, &body, text.len() - 1);
            assert_eq!(shorter, Err(Undecoded::TooLong), "{encoding:?}");
            let cut = undone(encoding, &body[..body.len() - 5], 1 << 20);
            assert_eq!(cut, Err(Undecoded::Damaged), "{encoding:?}");
            let damaged = undone(encoding, b"\xff\xfe\xfd plain", 1 << 20);
            assert_eq!(damaged, Err(Undecoded::Damaged), "{encoding:?}");
        }
    }

    #[test]
    fn a_client_can_read_each_piece_as_it_comes() {
        for encoding in [Encoding::Zstd, Encoding::Br, Encoding::Gzip] {
            let mut coder = Coder::new(encoding).expect("a coding");
            coder.write(b"begin").expect("memory");
            let mut all = coder.take(true).expect("memory");
            assert!(!all.is_empty(), "{encoding:?}");
            coder.write(&b"text ".repeat(100_000)).expect("memory");
            all.extend(coder.take(false).expect("memory"));
            let (end, length) = coder.end().expect("memory");
            all.extend(end);
            assert_eq!(all.len() as u64, length);
            let content = undone(encoding, &all, 1 << 20).expect("it is whole");
            assert!(content.starts_with(b"begintext ") && content.len() == 500_005);
            assert!(all.len() < 10_000, "{encoding:?}: {}", all.len());
        }
    }

    #[test]
    fn a_bomb_ends_at_the_limit() {
        let bomb = gzip(&vec![0; 64 << 20]);
        assert!(bomb.len() < 1 << 20);
        assert_eq!(undone(Encoding::Gzip, &bomb, 1 << 20), Err(Undecoded::TooLong));
    }

    #[test]
    fn content_counts_until_its_last_slice_is_gone() {
        let room = Arc::new(Room::default());
        let content = decode(Encoding::Gzip, &gzip(&[7; 100_000]), 1 << 20, Counted::new(&room));
        let slice = content.expect("it is whole").slice(10..20);
        assert!(room.held().0 >= 100_000, "{:?}", room.held());
        drop(slice);
        assert_eq!(room.held(), (0, 0));
    }

    #[test]
    fn without_room_nothing_is_decoded() {
        // Clients hold 8 MiB, and 16 that the store lends.
        let options = Options { budget: 32 << 20, ..Options::default() };
        let store = Box::leak(Box::new(Store::open(options).expect("a store")));
        let room = Room::new(store, Clock::start());
        let body = gzip(&vec![7; 40 << 20]);
        let content = decode(Encoding::Gzip, &body, 64 << 20, Counted::new(&room));
        assert_eq!(content, Err(Undecoded::Crowded));
        assert_eq!(room.held(), (0, 0));
    }
}
