//! The rule for keys: two requests with one key and one variant are one and the same to the origin,
//! but for fields listed as harmless.
//!
//! The first byte chooses what the site says and who asks; then come field lines that both requests
//! have, those of the first alone and those of the second alone, each ended by a zero byte.
#![no_main]

#[allow(dead_code)]
#[path = "../../crates/proto/tests/rule_for_keys/mod.rs"]
mod rule_for_keys;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((flags, rest)) = bytes.split_first() else { return };
    let mut parts = rest.split(|&byte| byte == 0);
    let mut part = || parts.next().unwrap_or_default();
    let (common, first, second) = (part(), part(), part());
    rule_for_keys::check(*flags, common, first, second);
});
