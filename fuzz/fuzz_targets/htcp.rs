//! A message of HTCP lies within its bytes, and is read again as it was when it is written anew.
#![no_main]

use larder_proto::htcp::{Head, Message, Specifier};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(message) = Message::parse(bytes) else { return };
    for specifier in [Specifier::parse(message.data), Specifier::parse_clr(message.data)] {
        let Some(specifier) = specifier else { continue };
        let mut out = Vec::new();
        specifier.write(&mut out);
        assert_eq!(Specifier::parse(&out), Some(specifier));
    }
    let Message { format, opcode, response, answer, flag, number, data, .. } = message;
    let head = Head { format, opcode, response, answer, flag, number };
    let mut out = Vec::new();
    if head.write(&mut out, |out| out.extend_from_slice(data), None) {
        let read = Message::parse(&out).expect("a message");
        // Also of minor version 0, where the bits show their order.
        assert_eq!(read.format, format);
        assert_eq!((read.opcode, read.response, read.answer), (opcode, response, answer));
        assert_eq!((read.flag, read.number, read.data), (flag, number, data));
    }
});
