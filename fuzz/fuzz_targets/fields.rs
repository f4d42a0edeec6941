//! Header sections come back from what is written of them; no list, tag, coding or address makes a
//! parser panic.
#![no_main]

use larder_proto::http::etag::{Comparison, list_matches};
use larder_proto::http::{
    Codings, EMPTY_HEADER, Elements, EntityTag, Fields, Known, accept, forwarded, parse_fields,
};
use libfuzzer_sys::fuzz_target;
use std::net::{IpAddr, Ipv4Addr};

fuzz_target!(|bytes: &[u8]| {
    let mut slots = [EMPTY_HEADER; 16];
    if let Ok(fields) = parse_fields(bytes, &mut slots) {
        let mut written = Vec::new();
        for (name, value) in fields.iter() {
            written.extend_from_slice(&[name.as_bytes(), b": ", value, b"\r\n"].concat());
        }
        let mut slots = [EMPTY_HEADER; 16];
        let again = parse_fields(&written, &mut slots).expect("what was written");
        assert!(again.iter().eq(fields.iter()));
        let known = Known::of(fields);
        assert_eq!(known.host(), fields.get("host"));
        assert_eq!(known.cookie(), fields.get("cookie"));
        lists(fields);
    }
    value(bytes);
});

fn lists(fields: Fields<'_>) {
    for (name, value) in fields.iter() {
        self::value(value);
        assert!(
            fields
                .elements(name)
                .all(|e| !e.is_empty() && e == larder_proto::http::fields::trim(e))
        );
    }
}

fn value(bytes: &[u8]) {
    assert!(Elements::of(bytes).map(|e| e.len()).sum::<usize>() <= bytes.len());
    let line = || [bytes].into_iter();
    let codings = Codings::parse(line());
    let again = codings.normalised();
    if codings.identity() {
        assert_eq!(Codings::parse([&*again]), codings);
    }
    let (mut once, mut twice) = (Vec::new(), Vec::new());
    accept::write_languages(line(), &mut once);
    accept::write_languages([&once[..]].into_iter(), &mut twice);
    // Quotes have no place in a language; which commas they hide depends on the order of the
    // elements.
    assert!(once == twice || bytes.contains(&b'"'));
    if let Some(tag) = EntityTag::parse(bytes) {
        assert!(tag.weak_eq(&tag));
        list_matches(line(), Some(&tag), Comparison::Weak);
    }
    let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
    forwarded::client_by_forwarded(line(), peer, |_| true);
    forwarded::client_by_x_forwarded_for(line(), peer, |_| true);
}
