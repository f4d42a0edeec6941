//! Lives of a disk that fails: never a wrong byte, never a purged record, never a start that fails
//! because of what is on it. `LARDER_DISK_SEEDS=N` runs N seeds.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Faults, Sim};
use larder_disk::{Disk, Options, PutError, Writer};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::HashMap;
use std::sync::Arc;

const KEYS: u32 = 40;
const SIZE: u64 = 16 << 20;
/// Kind of the test's own purges: all records with a tag.
const TAG: u8 = 2;

/// A record that was given to the disk.
#[derive(Clone, Debug)]
struct Version {
    value: Vec<u8>,
    tag: u8,
    /// Purged durably: it may never be found again.
    purged: bool,
    /// Forgotten, or purged without success: it may not be found before the next crash.
    forgotten: bool,
    /// The purge that means it and is not durable yet.
    waits: Option<u64>,
}

struct World {
    rng: SmallRng,
    now: u64,
    versions: HashMap<Vec<u8>, Vec<Version>>,
    /// The test's purges: tag, number.
    tags: Vec<(u8, u64)>,
    counter: u32,
    found: u64,
}

fn key(n: u32) -> Vec<u8> {
    format!("key {n}").into_bytes()
}

impl World {
    fn value(&mut self) -> (Vec<u8>, u8) {
        self.counter += 1;
        let length = match self.rng.random_range(0..20) {
            0 => self.rng.random_range(0..300_000),
            1 => 0,
            _ => self.rng.random_range(0..20_000),
        };
        let tag = self.rng.random_range(0..4);
        let mut value = vec![0; length + 5];
        self.rng.fill(&mut value[..]);
        value[..4].copy_from_slice(&self.counter.to_le_bytes());
        value[4] = tag;
        (value, tag)
    }

    fn put(&mut self, disk: &Disk<Sim>, writer: &mut Writer<Sim>) {
        let key = key(self.rng.random_range(0..KEYS));
        let (value, tag) = self.value();
        let ticket = disk.ticket();
        // A newer page came into memory.
        if self.rng.random_range(0..4) > 0 {
            disk.forget(&key);
            let old = self.versions.entry(key.clone()).or_default();
            old.iter_mut().for_each(|version| version.forgotten = true);
        }
        let ticket = if self.rng.random_range(0..10) > 0 { disk.ticket() } else { ticket };
        if !disk.register(&key, ticket) {
            return;
        }
        let forgotten = self.rng.random_range(0..30) == 0;
        let version = Version { value, tag, purged: false, forgotten, waits: None };
        let of_key = self.versions.entry(key.clone()).or_default();
        of_key.push(version);
        let value = of_key.last().unwrap().value.clone();
        let middle = value.len() / 3;
        let pieces: [&[u8]; 2] = [&value[..middle], &value[middle..]];
        if forgotten {
            // It was replaced while it was on its way.
            disk.forget(&key);
            of_key.iter_mut().for_each(|version| version.forgotten = true);
        }
        let put = writer.put(&key, &pieces, ticket, None, self.now);
        assert!(!matches!(put, Err(PutError::TooLarge)));
    }

    fn look(&mut self, disk: &Disk<Sim>, key: &[u8]) {
        let Some(reading) = disk.find(key, self.now) else { return };
        let Ok(record) = disk.read(&reading, key) else { return };
        let tag = record.bytes().get(4).copied().unwrap();
        if self.tags.iter().any(|(of, number)| *of == tag && record.ticket < *number) {
            return disk.discard(&reading);
        }
        let known = self.versions.get(key).into_iter().flatten();
        let version = known.clone().find(|version| version.value == record.bytes());
        let version = version.unwrap_or_else(|| panic!("wrong bytes under {key:?}"));
        assert!(!version.purged, "a purged record");
        assert!(!version.forgotten, "an old record");
        self.found += 1;
    }

    fn purge(&mut self, disk: &Disk<Sim>) {
        if self.rng.random() {
            let key = key(self.rng.random_range(0..KEYS));
            let found = disk.take_out(&key);
            let (_, number) = disk.purge_key(&key, found);
            let of_key = self.versions.entry(key).or_default();
            for version in of_key {
                version.forgotten = true;
                version.waits = version.waits.or(Some(number));
            }
        } else {
            let tag = self.rng.random_range(0..4);
            let number = disk.purge(TAG, &[tag]);
            self.tags.push((tag, number));
            let all = self.versions.values_mut().flatten();
            for version in all.filter(|version| version.tag == tag) {
                version.forgotten = true;
                version.waits = version.waits.or(Some(number));
            }
        }
        if self.rng.random_range(0..3) > 0 {
            self.write_purges(disk);
        }
    }

    fn write_purges(&mut self, disk: &Disk<Sim>) {
        let durable = match disk.write_purges() {
            Ok(journalled) => journalled.durable,
            // The disk is empty for the next life: as good.
            Err((_, true)) => u64::MAX,
            Err((_, false)) => return,
        };
        for version in self.versions.values_mut().flatten() {
            if version.waits.is_some_and(|number| number <= durable) {
                version.purged = true;
            }
        }
    }

    fn live(&mut self, disk: &Arc<Disk<Sim>>, writer: &mut Writer<Sim>, steps: u32) {
        for _ in 0..steps {
            self.now += self.rng.random_range(0..100);
            match self.rng.random_range(0..100) {
                0..45 => self.put(disk, writer),
                45..75 => {
                    let key = key(self.rng.random_range(0..KEYS));
                    self.look(disk, &key);
                }
                75..83 => self.purge(disk),
                83..85 => self.write_purges(disk),
                85..88 => {
                    let key = key(self.rng.random_range(0..KEYS));
                    disk.forget(&key);
                    let of_key = self.versions.entry(key).or_default();
                    of_key.iter_mut().for_each(|version| version.forgotten = true);
                }
                88..90 => {
                    self.now += 40_000;
                    disk.settle(self.now);
                }
                _ => drop(writer.tick(self.now)),
            }
        }
    }
}

fn options(random: u64) -> Options {
    Options { size: SIZE, write_limit: 0, random }
}

/// Opens the disk; while the device fails, again and again.
fn open(files: &Sim, rng: &mut SmallRng) -> (Arc<Disk<Sim>>, Vec<(u8, u64)>) {
    for attempt in 0.. {
        match Disk::open(files.clone(), options(rng.random())) {
            Ok((disk, purges)) => {
                let tag = |purge: &larder_disk::Purge| (purge.what[0], purge.number);
                return (Arc::new(disk), purges.iter().map(tag).collect());
            }
            Err(_) if attempt < 1000 => {}
            Err(error) => panic!("no start in 1000: {error}"),
        }
    }
    unreachable!()
}

fn run(seed: u64) -> u64 {
    let mut rng = SmallRng::seed_from_u64(seed);
    let kind = seed % 4;
    let room = if kind == 3 { SIZE / 2 } else { SIZE + (4 << 20) };
    let mut files = Sim::new(seed ^ 0x5eed, room);
    let mut world = World {
        rng: SmallRng::seed_from_u64(seed + 1),
        now: 1_700_000_000_000,
        versions: HashMap::new(),
        tags: Vec::new(),
        counter: 0,
        found: 0,
    };
    for life in 0..4 {
        files.faults(match kind {
            0 => Faults { short: 50, ..Faults::default() },
            _ => Faults { read: 5, write: 10, short: 50, flip: 5 },
        });
        let (disk, tags) = open(&files, &mut rng);
        world.tags = tags;
        let mut writer = disk.writer();
        for _ in 0..100 {
            if writer.is_ok() {
                break;
            }
            writer = disk.writer();
        }
        let mut writer = writer.unwrap();
        let first = writer.first();
        // Served while the index is being filled.
        world.live(&disk, &mut writer, 20);
        disk.load(first, world.now);
        for n in 0..KEYS {
            world.look(&disk, &key(n));
        }
        let steps = rng.random_range(50..800);
        world.live(&disk, &mut writer, steps);
        if rng.random_range(0..3) == 0 {
            let _ = writer.close(world.now);
        }
        files = files.next_life(kind != 0 && rng.random());
        if kind == 2 && life < 3 {
            for _ in 0..rng.random_range(0..4) {
                files.flip_one(|_| true);
            }
        }
        for version in world.versions.values_mut().flatten() {
            version.forgotten = false;
            version.waits = None;
        }
    }
    world.found
}

#[test]
fn never_a_wrong_byte_and_never_a_purged_record() {
    let seeds = std::env::var("LARDER_DISK_SEEDS").ok().and_then(|n| n.parse().ok());
    let seeds: u64 = seeds.unwrap_or(400);
    let found: u64 = (0..seeds).map(run).sum();
    assert!(found > seeds * 100, "the disk keeps nothing: {found} records found");
}
