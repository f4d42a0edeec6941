//! Bytes from a disk or a remote tier: reading never panics, what verifies reads back the same,
//! what was read without checksums stays inside the bytes.
#![no_main]

use larder_proto::page::{BodyCheck, TRAILER_LEN, Verify, verify_trailer, view};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|record: &[u8]| {
    let total = record.len() as u64;
    let layout = view(record, total, Verify::Layout);
    if let Ok(page) = layout {
        assert_eq!(page.body_at as u64 + page.body_len + TRAILER_LEN as u64, total);
        for (name, value) in page.vary {
            assert!(name.len() + value.map_or(0, <[u8]>::len) <= record.len());
        }
        assert!(page.tags.map(<[u8]>::len).sum::<usize>() <= record.len());
    }
    if view(record, total, Verify::All).is_ok() {
        let page = layout.expect("what verifies has a layout");
        let mut check = BodyCheck::new(record);
        let end = record.len() - TRAILER_LEN;
        record[page.body_at..end].chunks(1000).for_each(|piece| check.update(piece));
        assert_eq!(verify_trailer(&record[end..], &check), Ok(()));
    }
});
