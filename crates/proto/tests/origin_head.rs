//! Two requests with one key and one variant are one and the same to the origin.

mod rule_for_keys;

use proptest::{collection::vec, prelude::*, sample::select};
use rule_for_keys::{HARMLESS, RULED, check, overrides};

/// A name as it is, and as gateways to CGI read it.
fn spellings(name: &str) -> [String; 5] {
    let upper = name.to_ascii_uppercase();
    let mixed = name.replacen('-', "_", 1);
    [name.to_owned(), upper, name.replace('-', "_"), mixed, name.replace('-', ".")]
}

#[test]
fn no_field_that_overrides_changes_the_request_to_the_origin() {
    for name in overrides().chain(RULED.iter().copied()).flat_map(spellings) {
        let line = format!("{name}: evil\r\n");
        for flags in [0, 1, 2, 4, 5, 8, 16, 31, 32, 35, 63, 64, 65, 127] {
            check(flags, b"", line.as_bytes(), b"");
        }
    }
}

#[test]
fn the_rule_is_asked_of_most_names() {
    let alike = |name: &&str| check(0, b"", format!("{name}: evil\r\n").as_bytes(), b"");
    let names: Vec<&str> = overrides().collect();
    let asked = names.iter().copied().filter(alike).count();
    assert_eq!(asked, names.len(), "of a client, none of them is in the key");
    assert!(HARMLESS.iter().all(alike));
}

#[test]
fn the_clients_address_is_told_and_nothing_else_of_it() {
    for first in ["203.0.113.7", "evil.test, 203.0.113.7", "203.0.113.7, 2001:db8::1"] {
        let line = format!("X-Forwarded-For: {first}\r\nForwarded: for=1.2.3.4;host=evil.test\r\n");
        for flags in [1, 65] {
            assert!(check(flags, b"", line.as_bytes(), b""), "{first}: the address is in no key");
            let host = b"X-Forwarded-Host: other.test\r\n";
            assert!(check(flags, host, line.as_bytes(), b""), "{first}: behind a named host");
        }
    }
}

fn line() -> impl Strategy<Value = String> {
    let names: Vec<String> = overrides().flat_map(spellings).collect();
    let own = |list: &'static [&'static str]| select(list).prop_map(str::to_owned);
    let name = prop_oneof![6 => select(names), 2 => own(HARMLESS), 2 => own(RULED)];
    let value = prop_oneof![
        "[a-z]{0,6}",
        "(theme|lang|_own)=(a|b)(; theme=c)?",
        "(gzip|br)(;q=[01])?",
        "https?|bytes=0-1|evil[.]test(:80)?",
        "(203[.]0[.]113[.][0-9], ){0,2}2001:db8::[1-9]",
        "for=203[.]0[.]113[.][0-9];host=evil[.]test;proto=https",
    ];
    (name, value).prop_map(|(name, value)| format!("{name}: {value}\r\n"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]
    #[test]
    fn one_key_and_variant_is_one_request(
        flags in 0u8..128,
        common in vec(line(), 0..4),
        first in vec(line(), 0..4),
        second in vec(line(), 0..3),
    ) {
        let lines = [common, first, second].map(|lines| lines.concat().into_bytes());
        check(flags, &lines[0], &lines[1], &lines[2]);
    }
}
