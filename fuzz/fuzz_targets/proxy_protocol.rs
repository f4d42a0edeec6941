//! A header of the PROXY protocol is read alike wherever it was cut.
#![no_main]

use larder_proto::proxy_protocol::{Parsed, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(Parsed::Complete(header)) = parse(bytes) {
        assert!(header.len <= bytes.len());
        assert_eq!(parse(&bytes[..header.len]), Ok(Parsed::Complete(header)));
        for cut in 0..header.len {
            assert_eq!(parse(&bytes[..cut]), Ok(Parsed::Partial));
        }
    }
});
