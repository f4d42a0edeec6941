//! kill -9 at random moments, under load of fills, purges and evictions, with restarts on the same
//! disk: never a wrong byte, never a purged page. `LARDER_CRASH_ROUNDS=N` runs N rounds,
//! `LARDER_CRASH_SEED=N` the requests of a seed.

#![allow(clippy::unwrap_used)]

use larder_tests::{Admin, Larder, Origin, Scratch, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const TARGETS: u64 = 1_500;
/// Targets of one prefix, and of one tag.
const GROUPS: u64 = 20;

/// Splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// Few targets are asked for often.
    fn target(&mut self) -> u64 {
        let most = self.below(TARGETS) + 1;
        self.below(most)
    }
}

fn path(target: u64) -> String {
    let kind = if target.is_multiple_of(3) { "always" } else { "auto" };
    format!("/{}/{kind}/{target}", target % GROUPS)
}

/// The only body that a version of a target has.
fn body(target: u64, version: u64) -> Vec<u8> {
    let mut random = Random(target << 32 ^ version);
    let length = match target % 20 {
        0 => 300_000,
        _ => random.below(30_000),
    };
    let mut body = format!("{target} {version}\n").into_bytes();
    while (body.len() as u64) < length {
        body.extend_from_slice(&random.next().to_le_bytes());
    }
    body
}

/// The state of all pages, by which an answer is judged.
struct World {
    /// Number of the latest page that the origin made.
    versions: AtomicU64,
    /// By target: pages up to this number were purged.
    purged: Vec<AtomicU64>,
    served: AtomicU64,
    faults: Mutex<Vec<String>>,
}

/// Sends a request and reads the answer; `None`: the server is gone. Status and body.
fn ask(addr: SocketAddr, method: &str, path: &str, fields: &str) -> Option<(u16, Vec<u8>)> {
    let mut stream = TcpStream::connect(addr).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
    let request =
        format!("{method} {path} HTTP/1.1\r\nHost: site.test\r\n{fields}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    BufReader::new(stream).read_to_end(&mut answer).ok()?;
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&answer[..end]).to_lowercase();
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?;
    let body = answer[end + 4..].to_vec();
    // Broken off by the kill.
    (body.len() == length.parse::<usize>().ok()?).then_some((status, body))
}

impl World {
    fn origin(self: &Arc<Self>) -> Origin {
        let world = self.clone();
        Origin::start(move |seen, reply| {
            let target: u64 = seen.target.rsplit('/').next().unwrap().parse().unwrap();
            let version = world.versions.fetch_add(1, Ordering::SeqCst) + 1;
            let tag = format!("Surrogate-Key: tag{}", target % GROUPS);
            reply.ok(&["Cache-Control: max-age=6000", &tag], body(target, version));
        })
    }

    fn get(&self, addr: SocketAddr, target: u64) -> Option<()> {
        let purged = self.purged[target as usize].load(Ordering::SeqCst);
        let (status, got) = ask(addr, "GET", &path(target), "")?;
        let line = got.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let words = String::from_utf8_lossy(line).into_owned();
        let version = words.split_once(' ').and_then(|(of, version)| {
            (of.parse() == Ok(target)).then(|| version.parse::<u64>().ok()).flatten()
        });
        let fault = match version {
            _ if status != 200 => Some(format!("status {status}")),
            None => Some(format!("begins with {words:?}")),
            Some(version) if got != body(target, version) => Some("wrong bytes".to_owned()),
            Some(version) if version <= purged => {
                Some(format!("version {version}, purged up to {purged}"))
            }
            Some(_) => None,
        };
        self.served.fetch_add(1, Ordering::SeqCst);
        if let Some(fault) = fault {
            self.faults.lock().unwrap().push(format!("{}: {fault}", path(target)));
        }
        Some(())
    }

    fn purge(&self, addr: SocketAddr, random: &mut Random) -> Option<()> {
        let target = random.target();
        let group = target % GROUPS;
        let before = self.versions.load(Ordering::SeqCst);
        let (path, fields) = match random.below(8) {
            0 => (format!("/{group}/"), "Larder-Purge: prefix\r\n".to_owned()),
            1 => ("/".to_owned(), format!("Larder-Purge: tag\r\nSurrogate-Key: tag{group}\r\n")),
            2 => (format!("/{group}/.*"), "X-Purge-Method: regex\r\n".to_owned()),
            _ => (path(target), String::new()),
        };
        let (status, answer) = ask(addr, "PURGE", &path, &fields)?;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        if ![200, 404].contains(&status) || answer.contains("\"disk\":false") {
            self.faults.lock().unwrap().push(format!("purge of {path}: {status} {answer}"));
        }
        let of_group = (0..TARGETS).filter(|other| other % GROUPS == group);
        let meant: Vec<u64> = if fields.is_empty() { vec![target] } else { of_group.collect() };
        for target in meant {
            self.purged[target as usize].fetch_max(before, Ordering::SeqCst);
        }
        Some(())
    }

    /// Load until the server is gone.
    fn load(self: &Arc<Self>, addr: SocketAddr, seed: u64) -> Vec<std::thread::JoinHandle<()>> {
        let over = Arc::new(AtomicBool::new(false));
        (0..4u64)
            .map(|thread| {
                let (world, over) = (self.clone(), over.clone());
                std::thread::spawn(move || {
                    let mut random = Random(seed ^ thread << 48);
                    while !over.load(Ordering::SeqCst) {
                        let done = match thread {
                            3 => world.purge(addr, &mut random),
                            _ => world.get(addr, random.target()),
                        };
                        over.fetch_or(done.is_none(), Ordering::SeqCst);
                    }
                })
            })
            .collect()
    }
}

fn start(disk: &Scratch, origin: &Origin) -> Larder {
    Larder::with_config(&format!(
        "memory = \"16MiB\"\n[http]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = \
         \"127.0.0.1:0\"\n[disk]\npath = \"{}\"\nsize = \"16MiB\"\npatience = \"10s\"\n[[site]]\n\
         origin = \"{}\"\npurge = {{ from = [\"127.0.0.1\"] }}\n[[site.rule]]\npath = \
         \"/*/always/*\"\ndisk = \"always\"\n",
        disk.file("disk").display(),
        origin.url(),
    ))
}

#[test]
fn a_kill_brings_back_no_purged_page_and_no_wrong_byte() {
    let rounds = std::env::var("LARDER_CRASH_ROUNDS").ok().and_then(|n| n.parse().ok());
    let given = std::env::var("LARDER_CRASH_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| RandomState::new().hash_one(0u8));
    let mut random = Random(seed);
    let world = Arc::new(World {
        versions: AtomicU64::new(0),
        purged: (0..TARGETS).map(|_| AtomicU64::new(0)).collect(),
        served: AtomicU64::new(0),
        faults: Mutex::default(),
    });
    let (disk, origin) = (Scratch::new("crash"), world.origin());
    let (mut hits, mut found) = (0, 0);
    for round in 0..rounds.unwrap_or(5u32) {
        let mut larder = start(&disk, &origin);
        let load = world.load(larder.addr(), random.next());
        let enough = world.served.load(Ordering::SeqCst) + 100 + random.below(2_000);
        wait_until("enough is served", || world.served.load(Ordering::SeqCst) >= enough);
        let stats = Admin::of(&larder).json("/api/v1/stats");
        hits += stats["disk"]["hits"].as_u64().unwrap();
        found += stats["disk"]["loaded"].as_u64().unwrap();
        assert_eq!(stats["disk"]["up"], 1, "{}", larder.stderr());
        kill_process(Pid::from_raw(larder.pid() as i32).unwrap(), Signal::KILL).unwrap();
        larder.wait_exit();
        load.into_iter().for_each(|thread| thread.join().unwrap());
        let faults = std::mem::take(&mut *world.faults.lock().unwrap());
        assert_eq!(faults, Vec::<String>::new(), "round {round} of seed {seed}");
    }
    // Everything once more, at rest.
    let larder = start(&disk, &origin);
    for target in 0..TARGETS {
        world.get(larder.addr(), target).unwrap();
    }
    assert_eq!(*world.faults.lock().unwrap(), Vec::<String>::new(), "at rest, seed {seed}");
    assert!(hits > 0 && found > 0, "the disk did nothing: {hits} hits, {found} found");
}
