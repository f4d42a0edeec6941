//! Replies that come whole and in pieces are the same, what is said to be missing is, and no string
//! lies outside what was received.
#![no_main]

use larder_proto::resp::client::{Got, Received, receive};
use libfuzzer_sys::fuzz_target;

const MAX_BULK: usize = 64 * 1024;

fuzz_target!(|input: &[u8]| {
    let Some((&step, bytes)) = input.split_first() else { return };
    let whole = replies(bytes, bytes.len().max(1));
    assert_eq!(replies(bytes, usize::from(step).max(1)), whole);
});

/// The replies as text, and whether something that is none ended them.
fn replies(bytes: &[u8], step: usize) -> (Vec<String>, bool) {
    let (mut start, mut end, mut found) = (0, 0, Vec::new());
    loop {
        match receive(&bytes[start..end], MAX_BULK) {
            Received::Reply(got, used) => {
                assert!(used > 0 && start + used <= end);
                if let Got::Bulk(bulk) = got {
                    assert!(bulk.len() <= MAX_BULK && bulk.len() < used);
                }
                found.push(format!("{got:?}"));
                start += used;
            }
            Received::Incomplete { need } => {
                assert!(need > end - start, "asks for what it has");
                if end == bytes.len() {
                    return (found, false);
                }
                end = end.saturating_add(step).min(bytes.len());
            }
            Received::Broken(_) => return (found, true),
        }
    }
}
