//! Times stay within their limits, and a restriction written plainly is never hidden by what stands
//! before it.
#![no_main]

use larder_proto::http::CacheControl;
use larder_proto::http::cache_control::{MAX_DELTA, field_names};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let control = CacheControl::parse([bytes]);
    for time in
        [control.max_age, control.s_maxage, control.stale_while_revalidate, control.stale_if_error]
    {
        assert!(time.is_none_or(|t| t <= MAX_DELTA));
    }
    assert!(CacheControl::parse([bytes, b"no-store"]).no_store);
    if !bytes.contains(&b'"') {
        assert!(CacheControl::parse([&[bytes, b", no-store"].concat()[..]]).no_store);
    }
    let targeted = CacheControl::parse_targeted([bytes]);
    assert!(targeted.is_none_or(|t| t.present));
    let _ = CacheControl::parse_surrogate([bytes], b"larder");
    assert!(field_names([bytes], "no-cache").all(|name| !name.is_empty()));
});
