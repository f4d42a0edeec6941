//! Undoing content codings, up to a length: a small body may stand for a very long one.

use std::io::Read;

use larder_proto::page::Encoding;

/// The content of a body in a coding; None: it is damaged, or longer than `most` bytes.
pub(crate) fn decoded(encoding: Encoding, body: &[u8], most: usize) -> Option<Vec<u8>> {
    match encoding {
        Encoding::Identity => (body.len() <= most).then(|| body.to_vec()),
        Encoding::Gzip => read(flate2::read::MultiGzDecoder::new(body), most),
        // As RFC 9110 section 8.4.1.2 has it: with a header of zlib. Some servers leave it out.
        Encoding::Deflate => read(flate2::read::ZlibDecoder::new(body), most)
            .or_else(|| read(flate2::read::DeflateDecoder::new(body), most)),
        Encoding::Br => read(brotli::Decompressor::new(body, 4096), most),
        Encoding::Zstd => read(zstd::stream::read::Decoder::new(body).ok()?, most),
        Encoding::Other => None,
    }
}

fn read(reader: impl Read, most: usize) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let limit = (most as u64).saturating_add(1);
    reader.take(limit).read_to_end(&mut out).ok()?;
    (out.len() <= most).then_some(out)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn gzip(content: &[u8]) -> Vec<u8> {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        out.write_all(content).expect("a vector takes all");
        out.finish().expect("a vector takes all")
    }

    #[test]
    fn each_coding_is_undone() {
        let text = b"some text, some text, some text".repeat(50);
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
            assert_eq!(decoded(encoding, &body, text.len()), Some(text.clone()), "{encoding:?}");
            assert_eq!(decoded(encoding, &body, text.len() - 1), None, "{encoding:?}");
            assert_eq!(decoded(encoding, &body[..body.len() - 5], 1 << 20), None, "{encoding:?}");
            assert_eq!(decoded(encoding, b"\xff\xfe\xfd plain", 1 << 20), None, "{encoding:?}");
        }
    }

    #[test]
    fn a_bomb_ends_at_the_limit() {
        let bomb = gzip(&vec![0; 64 << 20]);
        assert!(bomb.len() < 1 << 20);
        assert_eq!(decoded(Encoding::Gzip, &bomb, 1 << 20), None);
    }
}
