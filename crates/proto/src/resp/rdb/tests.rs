use proptest::prelude::*;

use super::packed::{Packed, Packing};
use super::*;
use crate::resp::stream::StreamId;

/// Reads a payload to its end.
fn read(payload: &[u8]) -> Result<Vec<Part>, Bad> {
    let mut loader = Loader::new(payload)?;
    if loader.form() == Form::String {
        loader.text(payload)?;
        return Ok(Vec::new());
    }
    let mut parts = Vec::new();
    while let Some(part) = loader.next(payload)? {
        if !matches!(part, Part::Skipped(_)) {
            parts.push(part);
        }
    }
    Ok(parts)
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

proptest! {
    #[test]
    fn any_bytes_are_read_to_an_end(
        kind in 0u8..22,
        bytes in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let _ = read(&[&[kind][..], &bytes].concat());
        let mut unpacked = Lzf::new(bytes.len(), 100).unwrap_or_else(|_| Lzf::new(9, 9).unwrap());
        let _ = unpacked.step(&bytes, usize::MAX);
        for packing in [Packing::Listpack, Packing::Ziplist, Packing::Integers] {
            if let Ok(mut packed) = Packed::new(packing, bytes.clone()) {
                while let Ok(Some(_)) = packed.next() {}
            }
        }
    }

    #[test]
    fn a_listpack_holds_what_was_put_into_it(
        elements in prop::collection::vec(
            prop_oneof![
                any::<i64>().prop_map(Ok),
                (-200i64..200).prop_map(Ok),
                prop::collection::vec(any::<u8>(), 0..200).prop_map(Err),
                prop::collection::vec(any::<u8>(), 4000..5000).prop_map(Err),
            ],
            0..30,
        ),
    ) {
        let mut list = Listpack::default();
        for element in &elements {
            match element {
                Ok(number) => list.push_number(*number),
                Err(bytes) => list.push(bytes),
            }
        }
        let mut packed = Packed::new(Packing::Listpack, list.into_bytes()).unwrap();
        for element in elements {
            let read = packed.must().unwrap();
            match element {
                Ok(number) => prop_assert_eq!(read.number(), Ok(number)),
                Err(bytes) => prop_assert_eq!(read.into_bytes(), bytes),
            }
        }
        prop_assert_eq!(packed.next(), Ok(None));
    }

    #[test]
    fn a_list_is_read_as_written(
        elements in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..100), 0..80),
    ) {
        let mut payload = vec![kind::LIST];
        push_len(&mut payload, elements.len() as u64);
        elements.iter().for_each(|element| push_string(&mut payload, element));
        let crc = crc64(0, &payload);
        seal(&mut payload, crc);
        prop_assert_eq!(footer(&payload), Some(crc64(0, &payload[..payload.len() - 8])));
        let parts: Vec<Part> = elements.into_iter().map(Part::Element).collect();
        prop_assert_eq!(read(&payload), Ok(parts));
    }

    #[test]
    fn checksums_of_parts_are_those_of_the_whole(
        bytes in prop::collection::vec(any::<u8>(), 0..100),
        at in 0usize..100,
    ) {
        let (left, right) = bytes.split_at(at.min(bytes.len()));
        prop_assert_eq!(crc64(crc64(0, left), right), crc64(0, &bytes));
    }
}

#[test]
fn the_checksum_is_that_of_redis() {
    assert_eq!(crc64(0, b"123456789"), 0xe9c6_d914_c4b8_d9ca);
}

#[test]
fn compressed_strings_are_unpacked() {
    // "a" and a reference to it.
    let packed = hex("00 61 e0 0a 00");
    let mut text = Lzf::new(packed.len(), 20).unwrap();
    assert_eq!(text.step(&packed, usize::MAX), Ok(true));
    assert_eq!(text.bytes(), [b'a'; 20]);
    assert_eq!(Lzf::new(5, 1 << 30).err(), Some(Bad));
    let mut text = Lzf::new(packed.len(), 19).unwrap();
    assert_eq!(text.step(&packed, usize::MAX), Err(Bad));
}

#[test]
fn ids_of_streams_rise() {
    let entry = |list: &mut Listpack, ms: i64| {
        [2, ms, 0].iter().for_each(|number| list.push_number(*number));
        list.push(b"v");
        list.push_number(4);
    };
    let stream = |times: &[i64]| {
        let mut list = Listpack::default();
        [times.len() as i64, 0, 1].iter().for_each(|number| list.push_number(*number));
        list.push(b"f");
        list.push_number(0);
        times.iter().for_each(|ms| entry(&mut list, *ms));
        let mut payload = vec![kind::STREAM];
        push_len(&mut payload, 1);
        push_string(&mut payload, &StreamId { ms: 5, seq: 1 }.to_key());
        push_string(&mut payload, &list.into_bytes());
        [times.len() as u64, 9, 9, 0].iter().for_each(|number| push_len(&mut payload, *number));
        payload.extend_from_slice(&[0; FOOTER]);
        payload
    };
    let parts = read(&stream(&[0, 2])).unwrap();
    let pair = vec![b"f".to_vec(), b"v".to_vec()];
    assert_eq!(parts[1], Part::Entry(StreamId { ms: 7, seq: 1 }, pair));
    assert_eq!(read(&stream(&[2, 2])), Err(Bad));
    assert_eq!(read(&stream(&[90])), Err(Bad));
}
