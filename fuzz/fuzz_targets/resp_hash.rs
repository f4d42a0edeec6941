//! Bytes that read as a hash hold to what they say: what is listed is found, unless the index is
//! damaged, and packing it again gives a record that reads the same. Pairs made of the input are
//! packed and found.
#![no_main]

use std::collections::HashSet;

use larder_proto::resp::hash::{Change, Expiry, Hash, Pair, is_due, merge, pack, purge};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Ok(hash) = Hash::read(input) {
        let _ = (hash.get(b"field"), hash.get_live(b"field", 5), is_due(input, 5));
        for change in [Change::set(b"field", b"value"), Change::expire(b"field", Expiry::At(7))] {
            if let Ok(merged) = merge(Some(&hash), &[change], Some(9)) {
                let _ = merged.parts();
            }
        }
        if let Ok(purged) = purge(&hash, 5, None) {
            let _ = (purged.parts(), purged.last_expiry());
        }
        if let Ok(pairs) = hash.pairs() {
            assert_eq!(pairs.len(), hash.len());
            check(&distinct(pairs));
        }
    }
    // The first byte says how long the fields are.
    let Some((&len, rest)) = input.split_first() else { return };
    let pairs = rest.chunks(usize::from(len % 9) + 1).map(|chunk| chunk.split_at(chunk.len() / 2));
    check(&distinct(pairs.collect()));
});

fn distinct(pairs: Vec<Pair<'_>>) -> Vec<Pair<'_>> {
    let mut seen = HashSet::new();
    pairs.into_iter().filter(|(field, _)| seen.insert(*field)).collect()
}

fn check(pairs: &[Pair<'_>]) {
    let Some(record) = pack(pairs) else {
        assert!(pairs.is_empty());
        return;
    };
    let hash = Hash::read(&record).expect("what was packed");
    assert_eq!(hash.pairs().expect("what was packed"), pairs);
    for (field, value) in pairs {
        assert_eq!(hash.get(field), Ok(Some(*value)));
    }
}
