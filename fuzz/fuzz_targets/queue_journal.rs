//! Journals of any bytes: nothing panics, records that are read are written again as they were, and
//! a queue with such a journal is opened, and read to its end.
//!
//! Input: a byte that chooses how often the head of a segment is put in front, then the segment.
#![no_main]

use larder_queue::{Decoded, Options, Queues, Read, Record, Rules, decode, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((which, rest)) = input.split_first() else { return };
    let mut records = rest;
    while let Decoded::Record(record, used) = decode(records) {
        let mut again = Vec::new();
        assert_eq!(encode(&record, &mut again), used);
        assert_eq!(again, records[..used]);
        records = &records[used..];
    }
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("q")).unwrap();
    let cut = rest.len() / 2;
    for (number, part) in [&rest[..cut], &rest[cut..]].into_iter().enumerate() {
        let mut segment = Vec::new();
        if which & (1 << number) != 0 {
            encode(&Record::Head { number: number as u64 + 1, next_id: 1 }, &mut segment);
        }
        // Checksums that are right lead further than those of chance.
        if which & 4 != 0 {
            items(part, &mut segment);
        } else {
            segment.extend_from_slice(part);
        }
        let name = format!("{:016x}.log", number + 1);
        std::fs::write(directory.path().join("q").join(name), segment).unwrap();
    }
    let open = || {
        let (path, memory, segment) = (directory.path().to_owned(), 4000, 1 << 20);
        let options = Options { path, memory, segment, always: false };
        let rules = Rules { queues: 2, ..Rules::default() };
        Queues::open(options, rules, 1).unwrap().unwrap().0
    };
    let mut queues = open();
    let mut read = 0;
    while queues.read(b"q", Read::Take, 1, 1).unwrap().is_some() {
        read += 1;
        assert!(read <= rest.len());
    }
    assert!(queues.write().is_empty());
    drop(queues);
    // Records that contradict each other may hide items from the first reader.
    let mut queues = open();
    let _ = queues.read(b"q", Read::Take, 1, 1).unwrap();
});

/// Records with these bytes as their kinds and fields.
fn items(part: &[u8], into: &mut Vec<u8>) {
    for chunk in part.chunks_exact(4) {
        let (id, n) = (u64::from(chunk[1]), u64::from(chunk[2]));
        let data = &chunk[3..];
        let record = match chunk[0] % 7 {
            0 | 1 => Record::Item { id, added: 0, expires: n / 200, flags: 0, moved: None, data },
            2 => Record::Item { id, added: 0, expires: 0, flags: 0, moved: Some(1), data },
            3 => Record::Removed { id, bytes: 1 },
            4 => Record::Range { from: id, to: n, items: n.saturating_sub(id), bytes: n },
            5 => Record::Aborted { id, aborts: 1 },
            _ => Record::Returned {
                id,
                added: 0,
                expires: 0,
                flags: 0,
                aborts: 1,
                segment: 1 + n % 2,
                offset: u64::from(data[0]),
                bytes: 1,
            },
        };
        encode(&record, into);
    }
}
