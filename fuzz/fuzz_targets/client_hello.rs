//! The look at a TLS client's first message: nothing panics, and more bytes do not change what a
//! whole message says.

#![no_main]

use larder_proto::client_hello::{Peeked, peek};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let whole = peek(input);
    for end in 0..input.len().min(64) {
        match peek(&input[..end]) {
            Peeked::Partial => {}
            before => assert_eq!(before, whole),
        }
    }
});
