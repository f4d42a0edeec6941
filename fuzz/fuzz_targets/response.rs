//! A response whole and cut anywhere is the same, and its body ends where its head says.
#![no_main]

use larder_proto::http::{ResponseBody, parse_response};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&first, bytes)) = input.split_first() else { return };
    let to_head = first & 1 == 1;
    let Ok(Some(head)) = parse_response(bytes, to_head) else { return };
    assert!(head.used > 0 && head.used <= bytes.len());
    assert!((100..=999).contains(&head.status));
    assert!(bytes[..head.used].ends_with(b"\n"));
    // What follows the head does not change it, and it is not there before it is there whole.
    assert_eq!(parse_response(&bytes[..head.used], to_head), Ok(Some(head)));
    let cut = head.used * usize::from(first) / 256;
    assert_eq!(parse_response(&bytes[..cut], to_head), Ok(None));
    match head.body {
        ResponseBody::UntilClose => assert!(!head.keep_alive),
        ResponseBody::Length(length) => assert!(length > 0 && !to_head),
        ResponseBody::None | ResponseBody::Chunked => {}
    }
});
