//! The first request of any bytes lies within them, is the same however much follows, and is
//! written as it was read.
#![no_main]

use larder_proto::memcache::{
    binary::{self, Command, Decoded, HEADER, Header},
    sasl,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&first, bytes)) = input.split_first() else { return };
    let admitted = first & 1 == 0;
    let mut rest = bytes;
    loop {
        let decoded = binary::decode(rest, admitted);
        let used = match decoded {
            Decoded::Command(header, command, used) => {
                written_as_read(&header, rest);
                assert!(used <= rest.len());
                assert_eq!(
                    binary::decode(&rest[..used], admitted),
                    decoded,
                    "what follows does not matter"
                );
                assert_eq!(
                    HEADER as u64 + u64::from(header.body),
                    used as u64 + u64::from(value(&command))
                );
                used
            }
            Decoded::Partial(whole) => {
                assert!(whole > rest.len(), "it could go on");
                return;
            }
            Decoded::Refused(refused) if refused.close => return,
            Decoded::Refused(refused) => {
                assert!(refused.skip >= HEADER as u64);
                refused.skip.min(rest.len() as u64) as usize
            }
            Decoded::Garbage => {
                assert_ne!(rest[0], binary::REQUEST);
                return;
            }
        };
        rest = &rest[used..];
        if let Some(plain) = sasl::plain(rest) {
            assert!(!plain.user.contains(&0) && !plain.password.contains(&0));
        }
    }
});

fn value(command: &Command<'_>) -> u32 {
    match command {
        Command::Store(store) => store.len,
        Command::Sasl(sasl) => sasl.len,
        _ => 0,
    }
}

/// But for data type and vbucket, which nobody looks at.
fn written_as_read(header: &Header, bytes: &[u8]) {
    let mut written = Vec::new();
    header.write(&mut written);
    assert_eq!(written[..5], bytes[..5]);
    assert_eq!(written[8..], bytes[8..HEADER]);
}
