//! Payloads of RESTORE: any bytes are read to an end, in memory in proportion to them.
#![no_main]

use larder_proto::resp::rdb::{
    FOOTER, Form, LONGEST, Loader, Lzf, Text, crc64, footer, read_functions, seal, write_functions,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mut payload = input.to_vec();
    let crc = crc64(0, &payload);
    seal(&mut payload, crc);
    assert_eq!(footer(&payload), Some(crc64(0, &payload[..payload.len() - 8])));
    assert_eq!(payload.len(), input.len() + FOOTER);
    if let Ok(texts) = read_functions(&payload, LONGEST) {
        let again = write_functions(texts.iter().map(Vec::as_slice));
        assert_eq!(read_functions(&again, LONGEST), Ok(texts));
    }
    let Ok(mut loader) = Loader::new(&payload) else { return };
    if loader.form() == Form::String {
        if let Ok(Text::Packed(place, len)) = loader.text(&payload)
            && len <= LONGEST
            && let Ok(mut text) = Lzf::new(place.len(), len)
        {
            while let Ok(false) = text.step(&payload[place.clone()], 4096) {}
            assert!(text.bytes().len() <= len + 264);
        }
        return;
    }
    // A compressed part of a value is 264 times as long at most, and packed ones have an element
    // for each byte.
    let mut parts = 0u64;
    while let Ok(Some(_)) = loader.next(&payload) {
        parts += 1;
        assert!(parts <= 264 * (payload.len() as u64 + 1));
    }
});
