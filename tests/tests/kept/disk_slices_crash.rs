//! kill -9 at random moments while clients read ranges of large files that change and are purged:
//! never bytes of two versions in one answer, never a purged one. `LARDER_CRASH_ROUNDS=N` runs N
//! rounds.

#![allow(clippy::unwrap_used)]

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use larder_tests::{Larder, Origin, wait_until};

use crate::disk::{Place, figure, kill, purge};
use crate::disk_slices::{SIZE, content};

const FILES: u64 = 12;
const SLICES: u64 = 30;
const LENGTH: u64 = SLICES * SIZE as u64 - 7;
const SITE: &str = "slice = \"64KiB\"\n[[site.rule]]\npath = \"/*/always/*\"\ndisk = \"always\"\n";

/// Splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

fn path(file: u64) -> String {
    format!("/{}/{}/{file}", file % 4, if file.is_multiple_of(3) { "auto" } else { "always" })
}

struct File {
    /// Of the origin, now.
    version: AtomicU64,
    /// Versions before this one were purged.
    least: AtomicU64,
}

struct World {
    files: Vec<File>,
    served: AtomicU64,
    faults: Mutex<Vec<String>>,
}

/// An answer: its status and body.
enum Asked {
    Answer(u16, Vec<u8>),
    /// Cut in the middle: the file has changed, or the server is being killed.
    Cut,
    /// Nobody listens.
    Gone,
}

fn ask(addr: SocketAddr, path: &str, range: (u64, u64)) -> Asked {
    let Ok(mut stream) = TcpStream::connect(addr) else { return Asked::Gone };
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let (first, last) = range;
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: site.test\r\nRange: bytes={first}-{last}\r\nConnection: \
         close\r\n\r\n"
    );
    let mut answer = Vec::new();
    if stream.write_all(request.as_bytes()).is_err() || stream.read_to_end(&mut answer).is_err() {
        return Asked::Cut;
    }
    let Some(end) = answer.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Asked::Cut;
    };
    let head = String::from_utf8_lossy(&answer[..end]).to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let body = answer[end + 4..].to_vec();
    if length.unwrap().parse() != Ok(body.len()) {
        return Asked::Cut;
    }
    Asked::Answer(head.split(' ').nth(1).unwrap().parse().unwrap(), body)
}

impl World {
    fn origin(self: &Arc<Self>) -> Origin {
        let world = self.clone();
        Origin::start(move |seen, reply| {
            let file: usize = seen.target.rsplit('/').next().unwrap().parse().unwrap();
            let version = world.files[file].version.load(SeqCst);
            let etag = format!("ETag: \"v{version}\"");
            let tag = format!("Surrogate-Key: tag{}", file % 4);
            let fields = ["Cache-Control: max-age=6000", &etag, &tag];
            let same = seen.get("if-range").is_none_or(|named| etag.ends_with(named));
            let range = seen.get("range").filter(|_| same);
            let Some((first, last)) = range.and_then(|r| r.strip_prefix("bytes=")?.split_once('-'))
            else {
                reply.ok(&fields, content(version, 0, LENGTH as usize - 1));
                return;
            };
            let first: usize = first.parse().unwrap();
            let last = last.parse().unwrap_or(usize::MAX).min(LENGTH as usize - 1);
            let place = format!("Content-Range: bytes {first}-{last}/{LENGTH}");
            let [control, etag, tag] = fields;
            reply.answer(206, &[control, etag, tag, &place], content(version, first, last));
        })
    }

    fn get(&self, addr: SocketAddr, random: &mut Random) -> bool {
        let file = random.below(FILES);
        let first = random.below(LENGTH);
        let last = (first + random.below(4 * SIZE as u64)).min(LENGTH - 1);
        let least = self.files[file as usize].least.load(SeqCst);
        let (status, body) = match ask(addr, &path(file), (first, last)) {
            Asked::Answer(status, body) => (status, body),
            Asked::Cut => return true,
            Asked::Gone => return false,
        };
        // A line tells its version, the whole answer is to be of that one.
        let now = self.files[file as usize].version.load(SeqCst);
        let line = body.get((first as usize).next_multiple_of(16) - first as usize..);
        let digits = line.and_then(|line| std::str::from_utf8(line.get(..7)?).ok());
        let told = digits.and_then(|digits| digits.parse().ok());
        // An answer without the beginning of a line is short.
        let possible = told.map_or(least..=now, |told| told..=told);
        let whole = |version| content(version, first as usize, last as usize) == body;
        let fault = match possible.clone().find(|version| whole(*version)) {
            _ if status != 206 => Some(format!("status {status}")),
            Some(version) if (least..=now).contains(&version) => None,
            found => {
                Some(format!("{found:?} of {possible:?}, not {least} to {now}: {}", text(&body)))
            }
        };
        self.served.fetch_add(1, SeqCst);
        if let Some(fault) = fault {
            self.faults.lock().unwrap().push(format!("{} {first}-{last}: {fault}", path(file)));
        }
        true
    }

    /// A file changes, and some of them are purged.
    fn change(&self, larder: &Larder, random: &mut Random) {
        let file = random.below(FILES);
        self.files[file as usize].version.fetch_add(1, SeqCst);
        let group = file % 4;
        let (path, fields) = match random.below(5) {
            // Found out by a slice that is missing.
            0 => return,
            1 => (format!("/{group}/"), vec!["Larder-Purge: prefix".to_owned()]),
            2 => {
                let tag = format!("Surrogate-Key: tag{group}");
                ("/".to_owned(), vec!["Larder-Purge: tag".to_owned(), tag])
            }
            3 => (format!("/{group}/.*"), vec!["X-Purge-Method: regex".to_owned()]),
            _ => (path(file), Vec::new()),
        };
        let meant = |other: u64| if fields.is_empty() { other == file } else { other % 4 == group };
        let meant: Vec<u64> = (0..FILES).filter(|other| meant(*other)).collect();
        let now = |file: u64| self.files[file as usize].version.load(SeqCst);
        let least: Vec<u64> = meant.iter().map(|file| now(*file)).collect();
        purge(larder, &path, &fields.iter().map(String::as_str).collect::<Vec<_>>());
        for (file, least) in meant.into_iter().zip(least) {
            self.files[file as usize].least.fetch_max(least, SeqCst);
        }
    }
}

fn text(body: &[u8]) -> String {
    String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned()
}

#[test]
fn a_kill_mixes_no_versions_of_slices_and_brings_no_purged_one_back() {
    let rounds = std::env::var("LARDER_CRASH_ROUNDS").ok().and_then(|n| n.parse().ok());
    let seed = RandomState::new().hash_one(0u8);
    let mut random = Random(seed);
    let file = || File { version: AtomicU64::new(1), least: AtomicU64::new(1) };
    let world = Arc::new(World {
        files: (0..FILES).map(|_| file()).collect(),
        served: AtomicU64::new(0),
        faults: Mutex::default(),
    });
    let (place, origin) = (Place::new(), world.origin());
    let (mut hits, mut found) = (0, 0);
    for round in 0..rounds.unwrap_or(4u32) {
        let larder = place.start_with(&origin, "memory = \"16MiB\"", SITE);
        let over = Arc::new(AtomicBool::new(false));
        let load: Vec<_> = (0..3u64)
            .map(|thread| {
                let (world, over, addr) = (world.clone(), over.clone(), larder.addr());
                let mut random = Random(seed ^ (thread + 1) << 48 ^ u64::from(round));
                std::thread::spawn(
                    move || {
                        while !over.load(SeqCst) && world.get(addr, &mut random) {}
                    },
                )
            })
            .collect();
        let enough = world.served.load(SeqCst) + 100 + random.below(500);
        while world.served.load(SeqCst) < enough {
            world.change(&larder, &mut random);
            let before = world.served.load(SeqCst);
            wait_until("some are served", || world.served.load(SeqCst) > before + 20);
        }
        hits += figure(&larder, "slice_hits");
        found += figure(&larder, "loaded");
        assert_eq!(figure(&larder, "up"), 1, "{}", larder.stderr());
        kill(larder);
        over.store(true, SeqCst);
        load.into_iter().for_each(|thread| thread.join().unwrap());
        let faults = std::mem::take(&mut *world.faults.lock().unwrap());
        assert_eq!(faults, Vec::<String>::new(), "round {round} of seed {seed}");
    }
    assert!(hits > 0 && found > 0, "the disk did nothing: {hits} hits, {found} found");
}
