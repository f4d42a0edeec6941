//! Journals of purges of any bytes: nothing panics, a journal that is read is written again as it
//! was, and a change of any byte is seen, as a purge that is missing would bring pages back.
//!
//! Input: a byte; 0: the bytes are a journal. Else purges follow: kind, length, content. The byte
//! chooses the one that is changed.
#![no_main]

use larder_disk::{Purge, Purged, read_journal, write_journal};
use libfuzzer_sys::fuzz_target;

const RANDOM: u64 = 7;

fuzz_target!(|input: &[u8]| {
    let Some((which, rest)) = input.split_first() else { return };
    if *which == 0 {
        if let Some(purges) = read_journal(RANDOM, rest) {
            let again = write_journal(RANDOM, &purges);
            assert!(rest.starts_with(&again) && rest[again.len()..].iter().all(|byte| *byte == 0));
            // Contents of any length are keys, or none.
            let _ = Purged::of(purges);
        }
        return;
    }
    let (mut purges, mut left) = (Vec::new(), rest);
    while let [kind, length, more @ ..] = left {
        let (what, after) = more.split_at(more.len().min(usize::from(*length)));
        purges.push(Purge { number: purges.len() as u64, kind: *kind, what: what.to_vec() });
        left = after;
    }
    let mut bytes = write_journal(RANDOM, &purges);
    assert_eq!(read_journal(RANDOM, &bytes), Some(purges.clone()));
    let _ = Purged::of(purges.clone());
    // The file has zeros to its end.
    bytes.resize(bytes.len() + 128, 0);
    assert_eq!(read_journal(RANDOM, &bytes), Some(purges.clone()));
    let at = usize::from(*which) * 7919 % bytes.len();
    bytes[at] ^= *which;
    // The first four bytes of a record are its beginning: without them it is no record, and what
    // follows is no zeros.
    assert_eq!(read_journal(RANDOM, &bytes), None, "byte {at} of {}", bytes.len());
});
