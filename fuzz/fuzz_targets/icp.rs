//! A message of ICP that was read is written and read again as it was.
#![no_main]

use larder_proto::{
    carp::{Array, Member},
    icp::Message,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(message) = Message::parse(bytes) {
        let mut out = Vec::new();
        if message.write(&mut out) {
            assert_eq!(Message::parse(&out), Ok(message));
        }
    }
    // Any URL has one place in an array of caches.
    let members = [("a", 1), ("b", 3), ("c", 0)].map(|(name, weight)| Member { name, weight });
    assert_eq!(Array::new(&members).order(bytes).len(), 2);
});
