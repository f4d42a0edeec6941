//! Every date that is read is written so that it is read the same.
#![no_main]

use larder_proto::http::date;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((now, value)) = input.split_first_chunk::<8>() else { return };
    let now = u64::from_le_bytes(*now);
    if let Some(secs) = date::parse(value, now) {
        assert_eq!(date::parse(&date::format(secs), now), Some(secs.min(253_402_300_799)));
    }
    let written = date::format(now);
    assert_eq!(date::parse(&written, 0), Some(now.min(253_402_300_799)));
});
