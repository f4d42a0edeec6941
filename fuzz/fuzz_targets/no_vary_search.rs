//! Lines of No-Vary-Search, then an empty line and two URLs: the canonical spelling of a URL is one
//! of its page, and the same for all of them. A rule that was read is read again from its text.
#![no_main]

use larder_proto::rules::no_vary_search::{MAX_LEN, Rule};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let field: Vec<&[u8]> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
    let Some(rule) = Rule::parse(field.into_iter()) else { return };
    assert!(rule.text().len() <= MAX_LEN);
    assert_eq!(Rule::parse(std::iter::once(rule.text())).as_ref(), Some(&rule));
    let (a, b) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let [one, other] = [a, b].map(|url| rule.canonical(url));
    assert_eq!(rule.canonical(&one), one);
    assert!(rule.same(a, &one) && rule.same(&one, a));
    assert_eq!(rule.same(a, b), one == other || a == b);
    let path = |url: &[u8]| url.split(|byte| *byte == b'?').next().map(<[u8]>::to_vec);
    assert_eq!(path(&one), path(a));
    // Nothing that a key has between its parts, and at most three bytes for one.
    assert!(one.iter().skip_while(|byte| **byte != b'?').all(u8::is_ascii_graphic));
    assert!(one.len() <= 3 * a.len());
});
