//! A line of X-Vary-Options or Key, then values of a field: its predicates have one form, in which
//! they are read again, and equal values have equal results.
#![no_main]

use larder_proto::{
    http::{Fields, Header},
    rules::{
        Policy, Vary, VaryField,
        vary::selecting,
        vary_by::{field_of, write_results},
    },
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut lines = bytes.splitn(3, |byte| *byte == b'\n');
    let (line, value) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    for field in [VaryField::Options, VaryField::Key] {
        let policy = Policy { vary_fields: vec![field], ..Policy::default() };
        let list = [Header { name: field.name(), value: line }, Header { name: "vary", value: b"*" }];
        let Vary::Names(names) = selecting(Fields::new(&list), &policy) else { continue };
        for name in names {
            assert!(name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b','));
            let Some(of) = field_of(&name) else { continue };
            assert!(!of.is_empty() && !of.contains(';') && of != "accept-encoding");
            let results = |value: &[u8]| {
                let mut out = Vec::new();
                write_results(&name, value, &mut out);
                out
            };
            let found = results(value);
            assert_eq!(found, results(value));
            // One for each predicate.
            let ends = found.iter().filter(|byte| **byte == 0).count();
            assert!(ends >= name.matches(';').count() - 1);
        }
    }
});
