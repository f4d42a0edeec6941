use super::*;
use proptest::prelude::*;

#[derive(Debug, Clone)]
struct Owned {
    meta: Meta,
    etag: Vec<u8>,
    vary: Vec<(String, Option<Vec<u8>>)>,
    tags: Vec<Vec<u8>>,
    key: Vec<u8>,
    withheld: Vec<u8>,
    head: Vec<u8>,
    body: Vec<u8>,
}

impl Owned {
    fn record(&self) -> Vec<u8> {
        let vary: Vec<_> = self.vary.iter().map(|(n, v)| (n.as_str(), v.as_deref())).collect();
        let tags: Vec<_> = self.tags.iter().map(Vec::as_slice).collect();
        let parts = Parts {
            etag: &self.etag,
            vary: &vary,
            tags: &tags,
            key: &self.key,
            withheld: &self.withheld,
            head: &self.head,
        };
        let mut record = encode_head(&self.meta, &parts).expect("small");
        let mut trailer = Trailer::new(&record);
        // Pieces of odd sizes: the result does not depend on how the body was cut.
        for piece in self.body.chunks(1000) {
            trailer.update(piece);
        }
        record.extend_from_slice(&self.body);
        record.extend_from_slice(&trailer.finish());
        record
    }
}

fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..most)
}

fn metas() -> impl Strategy<Value = Meta> {
    let kinds = prop::sample::select(vec![Kind::Page, Kind::VaryMarker, Kind::HitForMiss]);
    let encodings = prop::sample::select(vec![
        Encoding::Identity,
        Encoding::Gzip,
        Encoding::Br,
        Encoding::Zstd,
        Encoding::Deflate,
        Encoding::Other,
        Encoding::Dcb,
        Encoding::Dcz,
    ]);
    let numbers = (
        any::<u16>(),
        0..=PageFlags::ALL.0,
        any::<[u32; 4]>(),
        any::<[u64; 4]>(),
        any::<Option<u64>>(),
    );
    (kinds, encodings, numbers).prop_map(
        |(kind, encoding, (status, flags, [age, fresh, swr, sie], wide, modified))| Meta {
            kind,
            status,
            flags: PageFlags(flags),
            response_time: wide[0],
            initial_age: age,
            freshness: fresh,
            swr,
            sie,
            date: wide[1],
            last_modified: modified,
            encoding,
            partial: None,
            nonce: wide[2],
            soft_purged_at: wide[3],
        },
    )
}

fn pages() -> impl Strategy<Value = Owned> {
    let vary = prop::collection::vec(("[a-z-]{1,20}", prop::option::of(bytes(30))), 0..4);
    let tags = prop::collection::vec(bytes(20), 0..4);
    let texts = (bytes(30), bytes(50), bytes(40), bytes(300));
    (metas(), texts, vary, tags, bytes(10_000), any::<bool>()).prop_map(
        |(meta, (etag, key, withheld, head), vary, tags, body, partial)| {
            let first = 7;
            let partial = (partial && !body.is_empty()).then(|| Partial {
                first,
                last: first + body.len() as u64 - 1,
                total: first + body.len() as u64 + 1,
            });
            Owned { meta: Meta { partial, ..meta }, etag, vary, tags, key, withheld, head, body }
        },
    )
}

fn sample() -> Owned {
    Owned {
        meta: Meta { status: 200, freshness: 60, ..Meta::default() },
        etag: b"\"a\"".to_vec(),
        vary: vec![("accept".into(), Some(b"x".to_vec())), ("cookie".into(), None)],
        tags: vec![b"t1".to_vec(), b"t2".to_vec()],
        key: b"key".to_vec(),
        withheld: Vec::new(),
        head: b"HTTP/1.1 200 OK\r\n".to_vec(),
        body: b"hello".to_vec(),
    }
}

fn read(record: &[u8], verify: Verify) -> Result<PageView<'_>, Damaged> {
    view(record, record.len() as u64, verify)
}

proptest! {
    #[test]
    fn what_is_written_is_read(page in pages()) {
        let record = page.record();
        for verify in [Verify::Layout, Verify::All] {
            let got = read(&record, verify).expect("undamaged");
            prop_assert_eq!(got.meta, page.meta);
            prop_assert_eq!(got.etag.unwrap_or_default(), &page.etag[..]);
            prop_assert_eq!(got.key, &page.key[..]);
            prop_assert_eq!(got.withheld, &page.withheld[..]);
            prop_assert_eq!(got.head, &page.head[..]);
            let vary: Vec<_> =
                got.vary.map(|(n, v)| (n.to_owned(), v.map(<[u8]>::to_vec))).collect();
            prop_assert_eq!(vary, page.vary.clone());
            prop_assert!(got.tags.eq(page.tags.iter().map(Vec::as_slice)));
            prop_assert_eq!(got.body_len, page.body.len() as u64);
            let end = got.body_at + page.body.len();
            prop_assert_eq!(&record[got.body_at..end], &page.body[..]);
        }
    }

    #[test]
    fn damage_is_never_accepted(
        page in pages(), at: prop::sample::Index, bit in 0..8_u8, cut: prop::sample::Index,
    ) {
        let record = page.record();
        let mut flipped = record.clone();
        flipped[at.index(record.len())] ^= 1 << bit;
        prop_assert!(read(&flipped, Verify::All).is_err());
        prop_assert!(read(&record[..cut.index(record.len())], Verify::All).is_err());
        let longer = [&record[..], b"x"].concat();
        prop_assert!(read(&longer, Verify::All).is_err());
        // Reading it without checksums must stay inside the bytes, whatever the result.
        if let Ok(view) = read(&flipped, Verify::Layout) {
            let walked = view.vary.count() + view.tags.count();
            prop_assert!(walked <= record.len() && view.body_at <= record.len());
            prop_assert!(
                view.body_at as u64 + view.body_len + TRAILER_LEN as u64 == record.len() as u64,
            );
        }
    }

    #[test]
    fn noise_never_panics(noise in bytes(400), total: u64, known: bool) {
        let mut noise = noise;
        if known && noise.len() > 5 {
            noise[..4].copy_from_slice(&MAGIC);
            noise[4] = VERSION;
        }
        prop_assert!(view(&noise, total, Verify::All).is_err());
        if let Ok(page) = view(&noise, total, Verify::Layout) {
            prop_assert!(page.vary.count() + page.tags.count() <= noise.len());
        }
    }

    #[test]
    fn two_records_never_mix(a in pages(), b in pages()) {
        prop_assume!(a.body.len() == b.body.len() || a.body.len() > b.body.len());
        prop_assume!(a.meta != b.meta);
        let (ra, rb) = (a.record(), b.record());
        let head = ra.len() - a.body.len() - TRAILER_LEN;
        let tail = rb.len() - b.body.len() - TRAILER_LEN;
        let mixed = [&ra[..head], &rb[tail..]].concat();
        prop_assert!(read(&mixed, Verify::All).is_err());
    }
}

#[test]
fn the_format_does_not_change_by_accident() {
    let record = sample().record();
    assert_eq!(&record[..8], b"LRDP\x01\x00\xc8\x00");
    assert_eq!(
        &record[96..120],
        &[3, 0, 0, 0, 25, 0, 0, 0, 8, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 17, 0, 0, 0]
    );
    assert_eq!(&record[128..131], b"\"a\"");
    assert_eq!(&record[131..156], b"\x06\0accept\x01\0\0\0x\x06\0cookie\xff\xff\xff\xff");
    assert_eq!(&record[156..164], b"\x02\0t1\x02\0t2");
    assert_eq!(&record[164..189], b"keyHTTP/1.1 200 OK\r\nhello");
    assert_eq!(&record[189..197], &5u64.to_le_bytes());
    assert_eq!(&record[205..], b"LRDPTAIL");
    // The checksums are part of the format: records outlive the program that wrote them.
    assert_eq!(u64::from_le_bytes(record[120..128].try_into().expect("8")), HEAD_SUM);
    assert_eq!(u64::from_le_bytes(record[197..205].try_into().expect("8")), BODY_SUM);
}

const HEAD_SUM: u64 = 6_753_328_541_227_306_017;
const BODY_SUM: u64 = 17643084762888430856;

#[test]
fn a_record_start_is_enough_for_the_hit_path_only() {
    let record = sample().record();
    let total = record.len() as u64;
    let page = read(&record, Verify::All).expect("undamaged");
    let start = &record[..page.body_at];
    assert_eq!(view(start, total, Verify::Layout).map(|p| p.body_len), Ok(5));
    assert_eq!(view(start, total, Verify::All).map(|p| p.body_len), Err(Damaged::Short));
    assert_eq!(
        view(&start[..start.len() - 1], total, Verify::Layout).map(|p| p.body_len),
        Err(Damaged::Short)
    );
}

#[test]
fn what_a_reader_refuses() {
    let good = sample().record();
    for (at, value, expected) in [
        (0, b'X', Damaged::Unknown),
        (4, 2, Damaged::Unknown),
        (5, 4, Damaged::Unknown),
        (10, 8, Damaged::Unknown),
        (12, 8, Damaged::Unknown),
        (13, 4, Damaged::Unknown),
        (13, 2, Damaged::Layout),
        (98, 2, Damaged::Layout),
        (97, 1, Damaged::Short),
    ] {
        let mut bad = good.clone();
        bad[at] = value;
        assert_eq!(read(&bad, Verify::Layout).map(|p| p.body_len), Err(expected), "{at}");
    }
}

#[test]
fn positions_at_the_end_of_64_bits_are_refused() {
    const END: u64 = u64::MAX;
    for (first, last, total) in
        [(0, END, END), (0, END - 1, END), (END, 0, END), (END - 1, END - 1, END)]
    {
        let partial = Some(Partial { first, last, total });
        let record = Owned { meta: Meta { partial, ..sample().meta }, ..sample() }.record();
        for (len, verify, expected) in [
            (record.len() as u64, Verify::Layout, Damaged::Layout),
            (END, Verify::Layout, Damaged::Layout),
            (0, Verify::Layout, Damaged::Short),
        ] {
            assert_eq!(
                view(&record, len, verify).map(|p| p.body_len),
                Err(expected),
                "{partial:?} {len}"
            );
        }
    }
    let record = sample().record();
    assert_eq!(view(&record, END, Verify::All).map(|p| p.body_len), Err(Damaged::Short));
}

#[test]
fn a_body_read_in_pieces_is_checked_too() {
    let page = Owned { body: vec![7; 9000], ..sample() };
    let record = page.record();
    let (start, trailer) = record.split_at(record.len() - TRAILER_LEN);
    let body = &start[start.len() - 9000..];
    for piece in [1, 4095, 4096, 4097, 9000] {
        let mut check = BodyCheck::new(&record);
        body.chunks(piece).for_each(|p| check.update(p));
        assert_eq!(verify_trailer(trailer, &check), Ok(()), "{piece}");
    }
    let mut short = BodyCheck::new(&record);
    short.update(&body[1..]);
    assert_eq!(verify_trailer(trailer, &short), Err(Damaged::Body));
    assert_eq!(verify_trailer(&trailer[1..], &short), Err(Damaged::Short));
}

#[test]
fn heads_have_a_limit() {
    let page = |len| {
        let head = vec![b'x'; len];
        encode_head(&Meta::default(), &Parts { head: &head, ..Parts::default() }).map(|r| r.len())
    };
    assert_eq!(page(MAX_HEAD_LEN - HEADER_LEN), Ok(MAX_HEAD_LEN));
    assert_eq!(page(MAX_HEAD_LEN - HEADER_LEN + 1), Err(TooLarge));
    let tag = vec![b'x'; 70_000];
    let long_tag = encode_head(&Meta::default(), &Parts { tags: &[&tag], ..Parts::default() });
    assert_eq!(long_tag.map(|r| r.len()), Err(TooLarge));
}

#[test]
fn content_codings() {
    for (value, expected) in [
        (None, Encoding::Identity),
        (Some(&b"identity"[..]), Encoding::Identity),
        (Some(b""), Encoding::Identity),
        (Some(b" GZIP "), Encoding::Gzip),
        (Some(b"x-gzip"), Encoding::Gzip),
        (Some(b"br"), Encoding::Br),
        (Some(b"zstd"), Encoding::Zstd),
        (Some(b"deflate"), Encoding::Deflate),
        (Some(b"gzip, br"), Encoding::Other),
        (Some(b"foo"), Encoding::Other),
    ] {
        assert_eq!(Encoding::of(value), expected, "{value:?}");
    }
}
