//! Records that somebody else put into the fleet, with every checksum right: Larder takes nothing
//! that would bring a connection out of step, asks the origin instead, and goes on.

#![allow(clippy::unwrap_used)]

use larder_proto::page::{Meta, PageFlags, Parts, Trailer, Verify, encode_head, view};
use larder_tests::fleet::{Fleet, counted, wait_counted};
use larder_tests::{Larder, Origin, get};
use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};

/// Bytes of an item's head.
const HEAD: usize = 64;

/// The head of an item before these bytes: kind, flags, bytes of the record, bytes that follow,
/// number.
fn head(like: &[u8], kind: u8, flags: u8, sizes: [u64; 2], number: u32, payload: &[u8]) -> Vec<u8> {
    let mut head = like[..HEAD].to_vec();
    (head[5], head[6]) = (kind, flags);
    head[24..32].copy_from_slice(&sizes[0].to_le_bytes());
    head[32..40].copy_from_slice(&sizes[1].to_le_bytes());
    head[40..44].copy_from_slice(&number.to_le_bytes());
    let hash = |bytes: &[u8], seed| rapidhash_v3_seeded(bytes, &RapidSecrets::seed_cpp(seed));
    let sum = hash(payload, hash(&head[..56], 0x4C52_4452_0001));
    head[56..].copy_from_slice(&sum.to_le_bytes());
    head
}

/// An item like this one with another record.
fn whole(like: &[u8], record: &[u8]) -> Vec<u8> {
    let length = record.len() as u64;
    [&head(like, 0, 0, [length; 2], 0, record)[..], record].concat()
}

/// A page that was changed: its facts, its head, its body.
struct Page {
    meta: Meta,
    head: Vec<u8>,
    body: Vec<u8>,
}

/// The item with the page in it changed, and everything summed up anew.
fn forge(item: &[u8], change: impl Fn(&mut Page)) -> Vec<u8> {
    // What the sender knew of purges comes first.
    let start = item.windows(4).position(|bytes| bytes == b"LRDP").unwrap();
    let record = &item[start..];
    let page = view(record, record.len() as u64, Verify::All).unwrap();
    let body = record[page.body_at..][..page.body_len as usize].to_vec();
    let mut changed = Page { meta: page.meta, head: page.head.to_vec(), body };
    change(&mut changed);
    let parts = Parts { key: page.key, head: &changed.head, ..Parts::default() };
    let mut record = encode_head(&changed.meta, &parts).unwrap();
    let mut trailer = Trailer::new(&record);
    trailer.update(&changed.body);
    record.extend_from_slice(&changed.body);
    record.extend_from_slice(&trailer.finish());
    whole(item, &[&item[HEAD..start], &record].concat())
}

/// Renders a page on the first Larder, has its item replaced, and asks the second one twice on one
/// connection. What it says first.
#[track_caller]
fn replaced(
    fleet: &Fleet,
    known: &mut Vec<(usize, String)>,
    larders: [&Larder; 2],
    target: &str,
    replace: impl Fn(&[u8]) -> Vec<u8>,
) -> String {
    let stores = counted(larders[0], "stores");
    get(larders[0].addr(), target).assert_status(200);
    wait_counted(larders[0], "stores", stores + 1);
    let item = fleet.next_item(known);
    fleet.put(&item, &replace(&fleet.value(&item)));
    let mut wire = larders[1].connect();
    let answer = wire.get(target, &[]);
    let next = wire.get("/next", &[]);
    assert_eq!(next.text(), "body of /next", "after {target}: {next:?}");
    answer.assert_status(200).text().to_owned()
}

fn origin() -> Origin {
    Origin::start(|seen, reply| {
        let lifetime = if seen.target == "/next" {
            "Cache-Control: no-store"
        } else {
            "Cache-Control: max-age=600"
        };
        let fields = [lifetime, "Content-Type: text/plain"];
        reply.ok(&fields, format!("body of {}", seen.target));
    })
}

fn append(line: &'static str) -> impl Fn(&mut Page) {
    move |page| page.head.extend_from_slice(line.as_bytes())
}

/// The head's Content-Length says something else.
fn length(value: &'static str) -> impl Fn(&mut Page) {
    move |page| {
        let head = String::from_utf8(page.head.clone()).unwrap();
        let lines = head.split_inclusive("\r\n").filter(|line| !line.starts_with("Content-Length"));
        page.head = lines.chain([value]).collect::<String>().into_bytes();
    }
}

fn a_head_that_would_break_the_connection_is_not_taken(fleet: Fleet) {
    let origin = origin();
    let (one, two) = (fleet.larder(&origin, ""), fleet.larder(&origin, ""));
    let mut known = Vec::new();
    type Spoil = Box<dyn Fn(&mut Page)>;
    let ways: Vec<(&str, Spoil)> = vec![
        (
            "/split",
            Box::new(append("X: y\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")),
        ),
        ("/ends", Box::new(append("\r\n"))),
        ("/coding", Box::new(append("Transfer-Encoding: chunked\r\n"))),
        ("/connection", Box::new(append("Connection: close\r\n"))),
        ("/twice", Box::new(append("Content-Length: 3\r\n"))),
        ("/name", Box::new(append("X y: z\r\n"))),
        ("/bare", Box::new(append("X: y\nZ: z\r\n"))),
        ("/cut", Box::new(append("X: y"))),
        ("/age", Box::new(append("Age: 1\r\n"))),
        ("/shorter", Box::new(length("Content-Length: 1\r\n"))),
        ("/longer", Box::new(length("Content-Length: 999\r\n"))),
        ("/signed", Box::new(length("Content-Length: +8\r\n"))),
        ("/lengthless", Box::new(length(""))),
        ("/headless", Box::new(|page| page.head.clear())),
        ("/status", Box::new(|page| page.meta.status = 404)),
        ("/interim", Box::new(|page| page.meta.status = 100)),
        ("/none", Box::new(|page| page.meta.status = 0)),
        ("/future", Box::new(|page| page.meta.response_time = u64::MAX - 1)),
        ("/date", Box::new(|page| page.meta.date = u64::MAX)),
        ("/modified", Box::new(|page| page.meta.last_modified = Some(u64::MAX))),
        (
            "/lengths",
            Box::new(|page| page.meta.flags = page.meta.flags.without(PageFlags::HAS_LENGTH)),
        ),
    ];
    for (target, way) in ways {
        let foreign = counted(&two, "foreign");
        let said = replaced(&fleet, &mut known, [&one, &two], target, |item| forge(item, &way));
        assert_eq!(said, format!("body of {target}"));
        wait_counted(&two, "foreign", foreign + 1);
    }
    let said = replaced(&fleet, &mut known, [&one, &two], "/good", |item| {
        forge(item, |page| page.body.reverse())
    });
    assert_eq!(said, "doog/ fo ydob", "what is forged well is taken: the forging works");
}

fn sizes_that_are_lies_are_not_believed(fleet: Fleet) {
    let origin = origin();
    let (one, two) = (fleet.larder(&origin, ""), fleet.larder(&origin, ""));
    let mut known = Vec::new();
    let before = larder_tests::Usage::of(two.pid()).unwrap().rss;
    const HUGE: u64 = 1 << 62;
    // Kind, flags, bytes of the record, bytes that follow.
    let heads: [(&str, u8, u8, [u64; 2], u32); 7] = [
        ("/huge", 0, 1, [HUGE, 0], 0),
        ("/bomb", 0, 1, [8 << 20, 0], 0),
        ("/index", 1, 0, [HUGE, HUGE], 4096),
        ("/parts", 1, 0, [8 << 20, 8 << 20], 4096),
        ("/more-parts", 1, 0, [8 << 20, 8 << 20], 100_000),
        ("/empty", 1, 0, [0, 0], 1),
        ("/part", 2, 0, [0, 0], 1),
    ];
    // 256 MiB of nothing in one zstd frame with a raw and RLE blocks: what unpacks to more than is
    // told is not unpacked.
    let bomb = zstd_bomb();
    for (target, kind, flags, [record, payload], number) in heads {
        let said = replaced(&fleet, &mut known, [&one, &two], target, |item| {
            let follows: &[u8] = if kind == 0 { &bomb } else { &[] };
            let payload = if kind == 0 { follows.len() as u64 } else { payload };
            [&head(item, kind, flags, [record, payload], number, follows)[..], follows].concat()
        });
        assert_eq!(said, format!("body of {target}"));
    }
    let after = larder_tests::Usage::of(two.pid()).unwrap().rss;
    assert!(after < before + (64 << 20), "from {before} to {after} bytes");
}

/// 256 MiB of zeros as one zstd frame (RFC 8878): blocks of one byte repeated, without a content
/// size.
fn zstd_bomb() -> Vec<u8> {
    let mut out = vec![0x28, 0xB5, 0x2F, 0xFD, 0x00, 0x58];
    for block in 0..2048u32 {
        let header = (128 << 10) << 3 | 1 << 1 | u32::from(block == 2047);
        out.extend_from_slice(&header.to_le_bytes()[..3]);
        out.push(0);
    }
    out
}

larder_tests::on_every_fleet! {
    a_head_that_would_break_the_connection_is_not_taken,
    sizes_that_are_lies_are_not_believed,
}
