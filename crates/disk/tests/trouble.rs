//! A disk that cannot be read or is full, records that others took the place of, and the most that
//! eviction can have to do.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Faults, Sim};
use larder_disk::{Disk, Files, Loaded, Options, PutError, ReadError, Writer, is_full};
use std::io;
use std::sync::Arc;

const NOW: u64 = 1_700_000_000_000;
const SIZE: u64 = 16 << 20;
const UNREADABLE: Faults = Faults { read: 1000, write: 0, short: 0, flip: 0 };

fn options(size: u64) -> Options {
    Options { size, write_limit: 0, random: 7 }
}

fn try_open(files: &Sim, size: u64) -> io::Result<(Arc<Disk<Sim>>, Writer<Sim>)> {
    let disk = Arc::new(Disk::open(files.clone(), options(size))?.0);
    let writer = disk.writer()?;
    Ok((disk, writer))
}

fn open(files: &Sim, size: u64, now: u64) -> (Arc<Disk<Sim>>, Writer<Sim>, Loaded) {
    let (disk, writer) = try_open(files, size).unwrap();
    let loaded = disk.load(writer.first(), now);
    (disk, writer, loaded)
}

fn put(
    disk: &Disk<Sim>,
    writer: &mut Writer<Sim>,
    key: &[u8],
    value: &[u8],
    expires: Option<u64>,
) -> Result<(), PutError> {
    let ticket = disk.ticket();
    assert!(disk.register(key, ticket));
    writer.put(key, &[value], ticket, expires, NOW)
}

fn get(disk: &Disk<Sim>, key: &[u8], now: u64) -> Option<Vec<u8>> {
    let reading = disk.find(key, now)?;
    Some(disk.read(&reading, key).unwrap().bytes().to_vec())
}

/// A smaller disk with many small segments, of which all is asked for: room for one segment takes
/// several of them, and what is written again of these fills it.
#[test]
fn what_is_written_again_does_not_begin_another_segment() {
    let files = Sim::new(1, u64::MAX);
    let (disk, mut writer, _) = open(&files, 2 * SIZE, NOW);
    let key = |n: u32| n.to_le_bytes();
    for n in 0..360 {
        put(&disk, &mut writer, &key(n), &key(n).repeat(15_000), None).unwrap();
        if n % 3 == 2 {
            writer.close(NOW).unwrap();
        }
    }
    let (disk, mut writer, _) = open(&files.next_life(false), SIZE, NOW);
    assert!((0..360).all(|n| disk.find(&key(n), NOW).is_some()));
    for n in 360..363 {
        put(&disk, &mut writer, &key(n), &key(n).repeat(15_000), None).unwrap();
        writer.flush(NOW).unwrap();
    }
    let figures = disk.figures();
    assert!(figures.entries > 200 && figures.rewritten > 900_000, "{figures:?}");
    for n in (0..363).filter(|n| disk.has(&key(*n))) {
        assert_eq!(get(&disk, &key(n), NOW), Some(key(n).repeat(15_000)), "{n}");
    }
}

#[test]
fn a_start_that_cannot_read_removes_nothing() {
    let files = Sim::new(1, u64::MAX);
    let (disk, mut writer, _) = open(&files, SIZE, NOW);
    put(&disk, &mut writer, b"a", b"1", None).unwrap();
    put(&disk, &mut writer, b"b", b"2", None).unwrap();
    writer.close(NOW).unwrap();
    // Neither superblock nor journal.
    let files = files.next_life(false);
    files.faults(UNREADABLE);
    assert!(try_open(&files, SIZE).is_err());
    files.faults(Faults::default());
    // No segment.
    let (disk, writer) = try_open(&files, SIZE).unwrap();
    files.faults(UNREADABLE);
    let loaded = disk.load(writer.first(), NOW);
    assert_eq!((loaded.entries, loaded.removed, loaded.unread), (0, 0, 1));
    // Purges mean what the segment may have, however long that is not known.
    for minutes in 1..5 {
        disk.settle(NOW + minutes * 100_000);
    }
    assert_eq!(disk.needless(), 0);
    disk.purge_key(b"a", false);
    assert_eq!(disk.write_purges().unwrap().written, 1);
    let files = files.next_life(false);
    files.faults(Faults::default());
    let (disk, _, loaded) = open(&files, SIZE, NOW);
    assert_eq!((loaded.entries, loaded.unread), (1, 0));
    assert_eq!(get(&disk, b"b", NOW), Some(b"2".to_vec()));
}

#[test]
fn a_record_that_cannot_be_read_is_asked_for_once() {
    let files = Sim::new(1, u64::MAX);
    let (disk, mut writer, _) = open(&files, SIZE, NOW);
    put(&disk, &mut writer, b"a", b"1", None).unwrap();
    writer.flush(NOW).unwrap();
    files.faults(UNREADABLE);
    let reading = disk.find(b"a", NOW).unwrap();
    assert!(matches!(disk.read(&reading, b"a"), Err(ReadError::Io(_))));
    assert!(!disk.has(b"a"));
    // A start may be able to read it, and does not: memory may get a newer record, of which
    // nobody could tell the disk any more.
    assert!(!disk.forget(b"a"));
    assert_eq!(disk.write_purges().unwrap().written, 1);
    let files = files.next_life(false);
    files.faults(Faults::default());
    let (disk, ..) = open(&files, SIZE, NOW);
    assert_eq!(get(&disk, b"a", NOW), None);
}

#[test]
fn what_was_replaced_stays_away_after_a_stop() {
    let files = Sim::new(1, u64::MAX);
    let (disk, mut writer, _) = open(&files, SIZE, NOW);
    put(&disk, &mut writer, b"a", b"1", None).unwrap();
    put(&disk, &mut writer, b"b", b"1", None).unwrap();
    writer.flush(NOW).unwrap();
    assert!(disk.forget(b"a") && disk.forget(b"b") && !disk.forget(b"c"));
    put(&disk, &mut writer, b"b", b"2", None).unwrap();
    assert_eq!(disk.write_purges().unwrap().written, 2);
    writer.close(NOW).unwrap();
    let (disk, ..) = open(&files.next_life(false), SIZE, NOW);
    assert_eq!(get(&disk, b"a", NOW), None);
    assert_eq!(get(&disk, b"b", NOW), Some(b"2".to_vec()));
}

/// A kill before the replacement was noted: the newer record is known by its own.
#[test]
fn an_older_record_does_not_come_back_when_the_newer_one_expires() {
    let files = Sim::new(1, u64::MAX);
    let (disk, mut writer, _) = open(&files, SIZE, NOW);
    put(&disk, &mut writer, b"a", b"1", None).unwrap();
    writer.flush(NOW).unwrap();
    disk.forget(b"a");
    put(&disk, &mut writer, b"a", b"2", Some(NOW + 10_000)).unwrap();
    put(&disk, &mut writer, b"b", b"1", Some(NOW + 90_000)).unwrap();
    writer.flush(NOW).unwrap();
    let later = NOW + 20_000;
    let (disk, _, loaded) = open(&files.next_life(false), SIZE, later);
    assert_eq!((loaded.entries, disk.figures().entries), (1, 1));
    assert_eq!(get(&disk, b"a", later), None);
    assert_eq!(get(&disk, b"b", later), Some(b"1".to_vec()));
}

/// Many replacements between two writes of the journal: all are kept, in place of nothing.
#[test]
fn replacements_never_stand_for_everything() {
    let files = Sim::new(1, u64::MAX);
    let (disk, mut writer, _) = open(&files, 64 << 20, NOW);
    put(&disk, &mut writer, b"kept", b"1", None).unwrap();
    for n in 0..30_000u32 {
        let key = n.to_le_bytes();
        put(&disk, &mut writer, &key, b"1", None).unwrap();
        assert!(disk.forget(&key));
    }
    writer.close(NOW).unwrap();
    disk.write_purges().unwrap();
    let files = files.next_life(false);
    let (disk, ..) = open(&files, 64 << 20, NOW);
    assert_eq!(disk.figures().entries, 1);
    assert_eq!(get(&disk, b"kept", NOW), Some(b"1".to_vec()));
    // The journal is full, and written anew: it has the keys still.
    for n in 0..20_000u32 {
        disk.purge(2, &n.to_le_bytes());
        if n % 100 == 0 {
            disk.write_purges().unwrap();
        }
    }
    let (disk, ..) = open(&files.next_life(false), 64 << 20, NOW);
    assert!(!disk.has(&7u32.to_le_bytes()) && !disk.has(&29_999u32.to_le_bytes()));
}

/// With more keys than the journal has room for, their purges stand for everything.
#[test]
fn replacements_beyond_all_room_stand_for_older_records() {
    let files = Sim::new(1, u64::MAX);
    let (disk, mut writer, _) = open(&files, SIZE, NOW);
    for n in 0..20_000u32 {
        put(&disk, &mut writer, &n.to_le_bytes(), b"1", None).unwrap();
        assert!(disk.forget(&n.to_le_bytes()));
    }
    put(&disk, &mut writer, b"newer", b"1", None).unwrap();
    writer.close(NOW).unwrap();
    disk.write_purges().unwrap();
    let (disk, ..) = open(&files.next_life(false), SIZE, NOW);
    assert_eq!(disk.figures().entries, 1);
    assert!(disk.has(b"newer"));
}

/// A purge of a key costs the same however many segments there are: they are looked at when the
/// journal is written. Those of keys that no segment has are not written, and push out nothing.
#[test]
fn purges_of_keys_that_are_not_on_disk_write_nothing() {
    let files = Sim::new(1, u64::MAX);
    let (disk, mut writer, _) = open(&files, SIZE, NOW);
    put(&disk, &mut writer, b"a", b"1", None).unwrap();
    put(&disk, &mut writer, b"kept", b"1", None).unwrap();
    writer.close(NOW).unwrap();
    let mut last = 0;
    for n in 0..10_000u32 {
        let found = disk.take_out(&n.to_be_bytes());
        last = disk.purge_key(&n.to_be_bytes(), found).1;
    }
    let journalled = disk.write_purges().unwrap();
    assert!(journalled.written < 50, "{journalled:?}");
    assert_eq!(journalled.durable, last);
    // One that is forgotten already is on the disk as long as its bytes are.
    assert!(disk.forget(b"a"));
    disk.write_purges().unwrap();
    disk.purge_key(b"a", false);
    assert_eq!(disk.write_purges().unwrap().written, 1);
    let (disk, ..) = open(&files.next_life(false), SIZE, NOW);
    assert!(disk.has(b"kept") && !disk.has(b"a"));
}

#[test]
fn a_full_file_system_costs_old_segments() {
    let files = Sim::new(1, SIZE / 2);
    let (disk, mut writer, _) = open(&files, SIZE, NOW);
    let value = vec![7; 100_000];
    for n in 0..400u32 {
        put(&disk, &mut writer, &n.to_le_bytes(), &value, None).unwrap();
    }
    writer.flush(NOW).unwrap();
    let figures = disk.figures();
    assert!(figures.used <= SIZE / 2 && figures.entries > 30, "{figures:?}");
    assert_eq!(get(&disk, &399u32.to_le_bytes(), NOW), Some(value));
}

/// A reader has a record; memory gets a newer one, or a purge comes, before it has stored it.
#[test]
fn a_reader_can_tell_that_its_record_was_forgotten_meanwhile() {
    let files = Sim::new(1, u64::MAX);
    let (disk, mut writer, _) = open(&files, SIZE, NOW);
    for key in [b"replaced", b"purged..", b"both....", b"kept...."] {
        put(&disk, &mut writer, key, b"1", None).unwrap();
    }
    writer.flush(NOW).unwrap();
    let reading = |key: &[u8]| {
        let reading = disk.find(key, NOW).unwrap();
        disk.read(&reading, key).unwrap();
        reading
    };
    let readings = [b"replaced", b"purged..", b"both....", b"kept...."].map(|key| reading(key));
    assert!(readings.iter().all(|reading| disk.still(reading)));
    disk.forget(b"replaced");
    disk.take_out(b"purged..");
    disk.forget(b"both....");
    put(&disk, &mut writer, b"both....", b"2", None).unwrap();
    writer.flush(NOW).unwrap();
    assert_eq!(readings.map(|reading| disk.still(&reading)), [false, false, false, true]);
}

/// The records of a buffer that could not be written may be in the file: newer ones of their keys
/// are not known to the index, and they must not come back.
#[test]
fn records_of_a_buffer_that_failed_do_not_come_back() {
    let files = Sim::new(1, u64::MAX);
    let (disk, mut writer, _) = open(&files, SIZE, NOW);
    put(&disk, &mut writer, b"kept", b"1", None).unwrap();
    writer.flush(NOW).unwrap();
    let mut round = 0u32;
    // Half of the writes that fail have been done all the same.
    for _ in 0..20 {
        files.faults(Faults { write: 1000, ..Faults::default() });
        round += 1;
        if put(&disk, &mut writer, &round.to_le_bytes(), b"old", None).is_ok() {
            assert!(writer.flush(NOW).is_err());
        }
        files.faults(Faults::default());
        assert!(!disk.forget(&round.to_le_bytes()));
        put(&disk, &mut writer, b"between", b"1", None).unwrap();
        writer.flush(NOW).unwrap();
        disk.forget(b"between");
    }
    disk.write_purges().unwrap();
    let (disk, ..) = open(&files.next_life(false), SIZE, NOW);
    assert!((1..=round).all(|n| !disk.has(&n.to_le_bytes())));
    assert_eq!(get(&disk, b"kept", NOW), Some(b"1".to_vec()));
}

/// A file system that reserves nothing, and that others fill.
#[test]
fn a_full_file_system_stops_writes_until_there_is_room() {
    let files = Sim::new(1, u64::MAX);
    let (disk, mut writer, _) = open(&files, SIZE, NOW);
    let value = vec![7; 100_000];
    for n in 0..80u32 {
        put(&disk, &mut writer, &n.to_le_bytes(), &value, None).unwrap();
    }
    writer.close(NOW).unwrap();
    // The journal is full, and has to be written anew.
    for n in 0..3_000u32 {
        disk.purge(2, &n.to_le_bytes());
    }
    disk.write_purges().unwrap();
    let segments = disk.figures().segments;
    files.room(files.used());
    for n in 0..3_000u32 {
        disk.purge(2, &n.to_le_bytes());
    }
    let last = disk.purge(2, b"last");
    let (error, emptied) = disk.write_purges().unwrap_err();
    assert!(is_full(&error) && emptied, "{error}");
    // A segment makes room for it.
    writer.tick(NOW).unwrap();
    assert_eq!(disk.figures().segments, segments - 1);
    assert_eq!(disk.write_purges().unwrap().durable, last);
    assert!(disk.figures().entries > 30);
    let (_, purges) = Disk::open(files.next_life(false), options(SIZE)).unwrap();
    assert_eq!(purges.last().map(|purge| purge.number), Some(last));
}

#[test]
fn a_quota_is_a_full_file_system() {
    for error in [rustix::io::Errno::NOSPC, rustix::io::Errno::DQUOT] {
        assert!(is_full(&error.into()));
    }
    assert!(!is_full(&rustix::io::Errno::IO.into()));
}

#[test]
fn loading_can_be_stopped() {
    let files = Sim::new(1, u64::MAX);
    let (disk, mut writer, _) = open(&files, SIZE, NOW);
    for n in 0..5u8 {
        put(&disk, &mut writer, &[n], b"1", None).unwrap();
        writer.close(NOW).unwrap();
    }
    let (disk, writer) = try_open(&files.next_life(false), SIZE).unwrap();
    disk.stop_loading();
    let loaded = disk.load(writer.first(), NOW);
    assert!(loaded.stopped && loaded.segments == 0);
    // Keys that are not in the index are purged durably all the same.
    disk.purge_key(&[1], false);
    assert_eq!(disk.write_purges().unwrap().written, 1);
    let (disk, ..) = open(&files.next_life(false), SIZE, NOW);
    assert_eq!((disk.figures().entries, disk.has(&[1])), (4, false));
}

#[test]
fn a_record_of_many_seconds_has_its_turn() {
    let files = Sim::new(1, u64::MAX);
    let options = Options { size: SIZE, write_limit: 10_000, random: 1 };
    let disk = Arc::new(Disk::open(files, options).unwrap().0);
    let mut writer = disk.writer().unwrap();
    disk.load(writer.first(), NOW);
    let mut put = |key: &[u8], length, seconds: u64| {
        let ticket = disk.ticket();
        assert!(disk.register(key, ticket));
        writer.put(key, &[&vec![7; length]], ticket, None, NOW + seconds * 1000)
    };
    put(b"long", 100_000, 0).unwrap();
    // It used what ten seconds give, two of which were there.
    assert!(matches!(put(b"short", 1_000, 7), Err(PutError::Limited)));
    put(b"short", 1_000, 9).unwrap();
}

#[test]
fn the_greatest_number_is_no_segment() {
    let files = Sim::new(1, u64::MAX);
    let (_, mut writer, _) = open(&files, SIZE, NOW);
    writer.close(NOW).unwrap();
    let files = files.next_life(false);
    files.create("ffffffffffffffff.segment").unwrap();
    let (disk, mut writer, _) = open(&files, SIZE, NOW);
    put(&disk, &mut writer, b"a", b"1", None).unwrap();
    writer.close(NOW).unwrap();
    let (disk, ..) = open(&files.next_life(false), SIZE, NOW);
    assert_eq!(get(&disk, b"a", NOW), Some(b"1".to_vec()));
}
