//! Header blocks of any bytes are decoded within bounds, and the same whatever the limit of the
//! list, but for one that is many times as large; blocks of the encoder are read as they were
//! written, whatever happens to the sizes of the tables between them.
#![no_main]

use larder_proto::hpack::{Decoder, Encoder, HpackError, Line};
use libfuzzer_sys::fuzz_target;

type Lines = Vec<(Vec<u8>, Vec<u8>)>;

fuzz_target!(|input: &[u8]| {
    let Some((&what, bytes)) = input.split_first() else { return };
    if what & 1 == 0 { decode_all(bytes) } else { encode_all(bytes) }
});

/// Each block is a length and as many bytes; a length of 255 is a new size of the table.
fn decode_all(mut rest: &[u8]) {
    let (mut decoder, mut limited) = (Decoder::default(), Decoder::default());
    while let Some((&length, behind)) = rest.split_first() {
        rest = behind;
        if length == 255 {
            let Some((&size, behind)) = rest.split_first() else { return };
            rest = behind;
            decoder.set_table_size(u32::from(size) * 64);
            limited.set_table_size(u32::from(size) * 64);
            continue;
        }
        let (block, behind) = rest.split_at(usize::from(length).min(rest.len()));
        rest = behind;
        let all = lines(&mut decoder, block, usize::MAX);
        let some = lines(&mut limited, block, 200);
        if let Err(HpackError::TooLarge) = some {
            // The work for a list is bounded by its limit: this one is many times as large.
            assert!(all.as_ref().map_or(true, |(_, size)| *size > 64 * 1024));
            return;
        }
        let (Ok((all, size)), Ok((some, small))) = (&all, &some) else {
            assert_eq!(all.err(), some.err());
            return;
        };
        assert_eq!(size, small, "the limit does not change the size");
        assert_eq!(
            all.iter().map(|(name, value)| name.len() + value.len() + 32).sum::<usize>(),
            *size
        );
        assert!(all.starts_with(some), "and delivers the first lines");
        assert!(decoder.memory() < 100_000);
    }
}

/// Each field is a byte for its name, a length, and a value; 0 ends a block.
fn encode_all(mut rest: &[u8]) {
    const NAMES: [&str; 8] =
        ["Server", "content-type", "ETag", "Set-Cookie", "X-Own", "via", "Cache-Status", "x-cache"];
    let (mut encoder, mut decoder) = (Encoder::new(1000), Decoder::default());
    let (mut expected, mut head) = (Lines::new(), Vec::new());
    while let Some((&what, behind)) = rest.split_first() {
        rest = behind;
        match what {
            0 => {
                let mut block = Vec::new();
                encoder.block(&mut block).lines(&head);
                let (lines, _) = lines(&mut decoder, &block, usize::MAX).expect("our own block");
                assert_eq!(lines, expected);
                expected.clear();
                head.clear();
            }
            1 => encoder.rest(),
            2 => {
                let Some((&size, behind)) = rest.split_first() else { return };
                rest = behind;
                encoder.set_peer_table_size(u32::from(size) * 16);
                decoder.set_table_size(u32::from(size) * 16);
            }
            _ => {
                let Some((&length, behind)) = rest.split_first() else { return };
                let (value, behind) = behind.split_at(usize::from(length).min(behind.len()));
                rest = behind;
                if value.contains(&b'\n') || value.trim_ascii() != value {
                    continue;
                }
                let name = NAMES[usize::from(what) % NAMES.len()];
                head.extend_from_slice(name.as_bytes());
                head.extend_from_slice(b": ");
                head.extend_from_slice(value);
                head.extend_from_slice(b"\r\n");
                expected.push((name.to_ascii_lowercase().into_bytes(), value.to_vec()));
            }
        }
    }
}

fn lines(decoder: &mut Decoder, block: &[u8], limit: usize) -> Result<(Lines, usize), HpackError> {
    let mut lines = Lines::new();
    let sink = &mut |line: Line<'_>| lines.push((line.name.to_vec(), line.value.to_vec()));
    let decoded = decoder.decode(block, limit, &mut Vec::new(), sink)?;
    assert_eq!(decoded.too_large, decoded.size > limit);
    Ok((lines, decoded.size))
}
