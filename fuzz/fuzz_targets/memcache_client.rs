//! Replies that come whole and in pieces are the same; what is said to be missing is; a reply lies
//! within what was received, and one that is whole does not depend on what follows it.
#![no_main]

use larder_proto::memcache::{
    MAX_KEY,
    client::{Decoded, MAX_LINE, Replies, Reply},
};
use libfuzzer_sys::fuzz_target;

/// Values above it are refused.
const MAX_VALUE: usize = 300;

/// A reply is at most this: a line, or a binary header, extras, key; a value and its end.
const MAX_REPLY: usize = MAX_LINE + 24 + 255 + 65_535 + MAX_VALUE + 2;

fuzz_target!(|input: &[u8]| {
    let Some((&first, stream)) = input.split_first() else { return };
    let replies = if first & 1 == 0 { Replies::new(MAX_VALUE) } else { Replies::binary(MAX_VALUE) };
    let whole = read(&replies, stream, stream.len());
    assert_eq!(read(&replies, stream, usize::from(first >> 1)), whole);
});

/// What is read of a stream that arrives in pieces of `step` bytes, up to where it ends or breaks.
fn read(replies: &Replies, stream: &[u8], step: usize) -> Vec<String> {
    let step = step.max(1);
    let (mut start, mut end, mut read) = (0, step.min(stream.len()), Vec::new());
    loop {
        let there = &stream[start..end];
        match replies.next(there) {
            Decoded::Reply(reply, used) => {
                assert!(used > 0 && used <= there.len());
                assert_eq!(replies.next(&there[..used]), Decoded::Reply(reply.clone(), used));
                check(&reply, used);
                read.push(format!("{reply:?}"));
                start += used;
                end = end.max(start);
            }
            Decoded::Incomplete { need } => {
                assert!(need > there.len() && need <= MAX_REPLY);
                if end == stream.len() {
                    return read;
                }
                end = (end + step).min(stream.len());
            }
            Decoded::Broken(why) => {
                read.push(format!("{why:?}"));
                return read;
            }
        }
    }
}

fn check(reply: &Reply<'_>, used: usize) {
    if let Reply::Value(value) = reply {
        assert!(
            value.at.start <= value.at.end && value.at.end <= used && value.at.len() <= MAX_VALUE
        );
        // It must not panic, whatever was sent as base64.
        let _ = value.extra.key(&mut [0; MAX_KEY]);
    }
}
