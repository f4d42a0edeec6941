//! No Range makes an answer longer than the page, and what is computed before it is written is what
//! is written.
#![no_main]

use larder_proto::http::{ContentRange, IfRange, Multipart, RangeSet, Satisfied};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((total, value)) = input.split_first_chunk::<4>() else { return };
    let total = u64::from(u32::from_le_bytes(*total) % 5000);
    if let Some(set) = RangeSet::parse(value) {
        check(set.satisfy(total), total);
        set.satisfy(u64::MAX);
    }
    if let Some(range) = ContentRange::parse(value) {
        let mut out = Vec::new();
        range.write(&mut out);
        assert_eq!(ContentRange::parse(&out), Some(range));
    }
    let _ = IfRange::parse(value, total);
});

fn check(satisfied: Satisfied, total: u64) {
    match satisfied {
        Satisfied::Ignored => panic!("a parsed set is never ignored"),
        Satisfied::Unsatisfiable => {}
        Satisfied::One(range) => assert!(range.first <= range.last && range.last < total),
        Satisfied::Many(list) => {
            let ranges = list.as_slice();
            let mut sent = vec![false; total as usize];
            for range in ranges {
                for byte in &mut sent[range.first as usize..=range.last as usize] {
                    assert!(!std::mem::replace(byte, true), "a byte is sent twice");
                }
            }
            let multipart = Multipart::new(total, Some(b"text/plain"), total);
            let mut out = Vec::new();
            for range in ranges {
                multipart.write_part_head(*range, &mut out);
            }
            multipart.write_end(&mut out);
            let bytes: u64 = ranges.iter().map(|r| r.len()).sum();
            assert_eq!(out.len() as u64 + bytes, multipart.body_length(&list));
        }
    }
}
