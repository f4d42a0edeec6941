//! Without faults a disk is a map, through stops and kills.

#![allow(clippy::unwrap_used)]

mod common;

use common::Sim;
use larder_disk::{Disk, Options, PutError, Writer};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::Arc;

const NOW: u64 = 1_700_000_000_000;

fn open(files: &Sim, size: u64, random: u64) -> (Arc<Disk<Sim>>, Writer<Sim>) {
    let options = Options { size, write_limit: 0, random };
    let (disk, purges) = Disk::open(files.clone(), options).unwrap();
    assert!(purges.is_empty());
    let disk = Arc::new(disk);
    let writer = disk.writer().unwrap();
    disk.load(writer.first(), NOW);
    (disk, writer)
}

fn put(disk: &Disk<Sim>, writer: &mut Writer<Sim>, key: &[u8], value: &[u8], expires: Option<u64>) {
    let ticket = disk.ticket();
    assert!(disk.register(key, ticket));
    writer.put(key, &[value], ticket, expires, NOW).unwrap();
}

fn get(disk: &Disk<Sim>, key: &[u8], now: u64) -> Option<Vec<u8>> {
    let reading = disk.find(key, now)?;
    let record = disk.read(&reading, key).unwrap();
    assert_eq!(record.key(), key);
    Some(record.bytes().to_vec())
}

#[derive(Clone, Debug)]
enum Op {
    Put(u8, usize),
    Forget(u8),
    Purge(u8),
    Flush,
    Stop,
    Kill,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        6 => (0u8..20, 0usize..70_000).prop_map(|(key, length)| Op::Put(key, length)),
        1 => (0u8..20).prop_map(Op::Forget),
        2 => (0u8..20).prop_map(Op::Purge),
        2 => Just(Op::Flush),
        1 => Just(Op::Stop),
        1 => Just(Op::Kill),
    ];
    prop::collection::vec(op, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn it_is_a_map(ops in ops()) {
        let mut files = Sim::new(1, u64::MAX);
        let (mut disk, mut writer) = open(&files, 64 << 20, 1);
        // Forgotten records may come back after a start: these are not looked at any more.
        let (mut model, mut unsure) = (HashMap::new(), std::collections::HashSet::new());
        let mut number = 0u32;
        for op in ops {
            match op {
                Op::Put(key, length) => {
                    number += 1;
                    let value = number.to_le_bytes().repeat(length / 4 + 1);
                    disk.forget(&[key]);
                    put(&disk, &mut writer, &[key], &value, None);
                    unsure.remove(&key);
                    model.insert(key, value);
                }
                Op::Forget(key) => {
                    let there = disk.forget(&[key]);
                    prop_assert!(unsure.contains(&key) || there == model.contains_key(&key));
                    model.remove(&key);
                    unsure.insert(key);
                }
                Op::Purge(key) => {
                    let (there, _) = disk.purge_key(&[key], false);
                    prop_assert!(unsure.contains(&key) || there == model.contains_key(&key));
                    disk.write_purges().unwrap();
                    model.remove(&key);
                    unsure.remove(&key);
                }
                Op::Flush => writer.flush(NOW).unwrap(),
                Op::Stop | Op::Kill => {
                    match op {
                        Op::Stop => writer.close(NOW).unwrap(),
                        _ => writer.flush(NOW).unwrap(),
                    }
                    files = files.next_life(false);
                    (disk, writer) = open(&files, 64 << 20, 2);
                }
            }
            writer.flush(NOW).unwrap();
            for key in (0..20).filter(|key| !unsure.contains(key)) {
                prop_assert_eq!(get(&disk, &[key], NOW), model.get(&key).cloned());
            }
        }
    }
}

#[test]
fn old_records_make_room_and_those_asked_for_stay() {
    let files = Sim::new(1, u64::MAX);
    let (disk, mut writer) = open(&files, 16 << 20, 1);
    let key = |n: u32| n.to_le_bytes();
    let value = |n: u32| key(n).repeat(2500);
    for n in 0..6_000 {
        put(&disk, &mut writer, &key(n), &value(n), None);
        writer.flush(NOW).unwrap();
        // Ten keys that are asked for, again and again.
        for hot in 0..10.min(n) {
            assert_eq!(get(&disk, &key(hot), NOW), Some(value(hot)), "after {n}");
        }
    }
    let figures = disk.figures();
    assert!(figures.used <= figures.size, "{figures:?}");
    assert!(figures.evicted > 4_000 && figures.entries > 1_000, "{figures:?}");
    assert!(figures.rewritten > 0, "{figures:?}");
    assert!(figures.written * 10 <= figures.accepted * 13, "more than 1.3: {figures:?}");
    assert_eq!(get(&disk, &key(5_999), NOW), Some(value(5_999)));
    assert_eq!(get(&disk, &key(100), NOW), None);
    writer.close(NOW).unwrap();
    let found = figures.entries;
    let (disk, _) = open(&files.next_life(false), 16 << 20, 2);
    assert_eq!(disk.figures().entries, found, "found again");
    assert_eq!(get(&disk, &key(3), NOW), Some(value(3)));
}

#[test]
fn a_record_ends_with_its_expiry() {
    let files = Sim::new(1, u64::MAX);
    let (disk, mut writer) = open(&files, 16 << 20, 1);
    put(&disk, &mut writer, b"a", b"1", Some(NOW + 10_000));
    put(&disk, &mut writer, b"b", b"2", Some(NOW + 500_000));
    writer.close(NOW).unwrap();
    assert_eq!(get(&disk, b"a", NOW + 8_000), Some(b"1".to_vec()));
    assert_eq!(get(&disk, b"a", NOW + 10_000), None);
    let files = files.next_life(false);
    let options = Options { size: 16 << 20, write_limit: 0, random: 2 };
    let disk = Arc::new(Disk::open(files, options).unwrap().0);
    let writer = disk.writer().unwrap();
    assert_eq!(disk.load(writer.first(), NOW + 20_000).entries, 1);
    assert_eq!(get(&disk, b"b", NOW + 20_000), Some(b"2".to_vec()));
}

#[test]
fn bytes_per_second_are_limited() {
    let files = Sim::new(1, u64::MAX);
    let options = Options { size: 16 << 20, write_limit: 100_000, random: 1 };
    let disk = Arc::new(Disk::open(files, options).unwrap().0);
    let mut writer = disk.writer().unwrap();
    disk.load(writer.first(), NOW);
    let value = vec![7; 10_000];
    let mut taken = 0;
    for n in 0..1000u32 {
        let (key, now) = (n.to_le_bytes(), NOW + u64::from(n) * 10);
        assert!(disk.register(&key, disk.ticket()));
        match writer.put(&key, &[&value], disk.ticket(), None, now) {
            Ok(()) => taken += 1,
            Err(PutError::Limited) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    // Ten seconds, and two that may be used at once.
    assert!((90..=120).contains(&taken), "{taken} of 10 KB");
}

#[test]
fn another_size_of_segments_is_another_disk() {
    let files = Sim::new(1, u64::MAX);
    let (disk, mut writer) = open(&files, 16 << 20, 1);
    put(&disk, &mut writer, b"a", b"1", None);
    writer.close(NOW).unwrap();
    let files = files.next_life(false);
    let (disk, _) = open(&files, 32 << 20, 2);
    assert_eq!(get(&disk, b"a", NOW), Some(b"1".to_vec()), "segments of the same size");
    let files = files.next_life(false);
    let (disk, _) = open(&files, 1 << 30, 3);
    assert_eq!(get(&disk, b"a", NOW), None);
}

#[test]
fn many_purges_leave_room_for_more() {
    let files = Sim::new(1, u64::MAX);
    let (disk, mut writer) = open(&files, 16 << 20, 1);
    put(&disk, &mut writer, b"a", b"1", None);
    writer.flush(NOW).unwrap();
    // More than the journal holds: the oldest stand for all records from before them.
    for n in 0..20_000u32 {
        disk.purge(2, &n.to_le_bytes());
        if n % 100 == 0 {
            disk.write_purges().unwrap();
        }
    }
    put(&disk, &mut writer, b"b", b"2", None);
    writer.close(NOW).unwrap();
    let options = Options { size: 16 << 20, write_limit: 0, random: 2 };
    let (disk, purges) = Disk::open(files.next_life(false), options).unwrap();
    let disk = Arc::new(disk);
    let writer = disk.writer().unwrap();
    disk.load(writer.first(), NOW);
    assert!(purges.len() < 20_000);
    assert_eq!(get(&disk, b"b", NOW), Some(b"2".to_vec()));
    assert_eq!(get(&disk, b"a", NOW), None);
}

/// Purges that a slow device does not take: their queue has an end, and none of them is lost.
#[test]
fn purges_that_wait_are_so_many() {
    let files = Sim::new(1, u64::MAX);
    let (disk, mut writer) = open(&files, 1 << 30, 1);
    put(&disk, &mut writer, b"a", b"1", None);
    writer.flush(NOW).unwrap();
    for n in 0..20_000u32 {
        disk.purge(2, &n.to_le_bytes());
    }
    let last = disk.purge(2, b"last");
    let written = disk.write_purges().unwrap();
    assert!(written.written < 4_000, "{written:?}");
    assert_eq!(written.durable, last);
    put(&disk, &mut writer, b"b", b"2", None);
    writer.close(NOW).unwrap();
    let options = Options { size: 1 << 30, write_limit: 0, random: 2 };
    let disk = Arc::new(Disk::open(files.next_life(false), options).unwrap().0);
    let writer = disk.writer().unwrap();
    disk.load(writer.first(), NOW);
    assert_eq!(get(&disk, b"a", NOW), None);
    assert_eq!(get(&disk, b"b", NOW), Some(b"2".to_vec()));
}

#[test]
fn a_real_directory_has_one_owner_and_private_files() {
    use larder_disk::Directory;
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    let files = Directory::take(&path).unwrap();
    assert_eq!(Directory::take(&path).unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "taken");
    let options = Options { size: 16 << 20, write_limit: 0, random: 1 };
    let disk = Arc::new(Disk::open(files, options.clone()).unwrap().0);
    let mut writer = disk.writer().unwrap();
    disk.load(writer.first(), NOW);
    assert!(disk.register(b"k", disk.ticket()));
    writer.put(b"k", &[b"value"], disk.ticket(), None, NOW).unwrap();
    writer.close(NOW).unwrap();
    disk.purge_key(b"other", false);
    drop(writer);
    drop(disk);
    for file in std::fs::read_dir(&path).unwrap() {
        let mode = file.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let disk = Arc::new(Disk::open(Directory::take(&path).unwrap(), options).unwrap().0);
    let writer = disk.writer().unwrap();
    assert_eq!(disk.load(writer.first(), NOW).entries, 1);
    let reading = disk.find(b"k", NOW).unwrap();
    assert_eq!(disk.read(&reading, b"k").unwrap().bytes(), b"value");
}

/// A directory that others can change is not believed: its files say who is served which page.
#[test]
fn what_others_put_there_is_not_used() {
    use larder_disk::{Directory, Files};
    use std::os::unix::fs::{chown, lchown, symlink};
    let dir = tempfile::tempdir().unwrap();
    let (path, aside) = (dir.path().join("disk"), dir.path().join("aside"));
    let kind = |result: std::io::Result<Directory>| result.unwrap_err().kind();
    let denied = std::io::ErrorKind::PermissionDenied;
    std::fs::write(&aside, "a file of somebody").unwrap();
    let files = Directory::take(&path).unwrap();
    symlink(&aside, path.join("superblock")).unwrap();
    assert!(files.open("superblock").is_err(), "reached by a link");
    let options = Options { size: 16 << 20, write_limit: 0, random: 1 };
    assert!(Disk::open(files, options).is_err());
    assert_eq!(std::fs::read(&aside).unwrap(), b"a file of somebody");
    std::fs::remove_file(path.join("superblock")).unwrap();
    // An operator may have a link to another device.
    let link = dir.path().join("link");
    symlink(&path, &link).unwrap();
    drop(Directory::take(&link).unwrap());
    if !rustix::process::geteuid().is_root() {
        return;
    }
    lchown(&link, Some(1234), None).unwrap();
    assert_eq!(kind(Directory::take(&link)), denied, "a link of another user");
    std::fs::write(path.join("superblock"), "x").unwrap();
    chown(path.join("superblock"), Some(1234), None).unwrap();
    let files = Directory::take(&path).unwrap();
    assert_eq!(files.open("superblock").unwrap_err().kind(), denied, "a file of another user");
    drop(files);
    chown(&path, Some(1234), None).unwrap();
    assert_eq!(kind(Directory::take(&path)), denied, "a directory of another user");
    Directory::take_any(&path).unwrap();
}

/// The memory for a segment is bounded, whatever its file says of itself.
#[test]
fn a_file_longer_than_any_segment_is_none() {
    use larder_disk::{Directory, Files};
    let dir = tempfile::tempdir().unwrap();
    let files = Directory::take(&dir.path().join("disk")).unwrap();
    let options = Options { size: 16 << 20, write_limit: 0, random: 1 };
    let disk = Arc::new(Disk::open(files, options.clone()).unwrap().0);
    let mut writer = disk.writer().unwrap();
    disk.load(writer.first(), NOW);
    assert!(disk.register(b"k", disk.ticket()));
    writer.put(b"k", &[b"value"], disk.ticket(), None, NOW).unwrap();
    writer.close(NOW).unwrap();
    drop((writer, disk));
    let files = Directory::take(&dir.path().join("disk")).unwrap();
    let name = files.list().unwrap().into_iter().find(|name| name.ends_with(".segment")).unwrap();
    let file = files.open(&name).unwrap();
    file.set_len(1 << 40).unwrap();
    assert_eq!(larder_disk::scan(&file, 1, 1).unwrap(), None);
    let disk = Arc::new(Disk::open(files, options).unwrap().0);
    let writer = disk.writer().unwrap();
    let loaded = disk.load(writer.first(), NOW);
    assert_eq!((loaded.entries, loaded.removed), (0, 1));
}
