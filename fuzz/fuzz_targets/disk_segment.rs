//! The reader of a disk's segments: whatever is in the file, nothing panics, entries lie within the
//! file, and a record that reads is one that was written.
//!
//! Input: a byte that chooses the segment (sealed or not), then edits of it: position, length to
//! which it is cut where that is odd, byte.

#![no_main]

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, LazyLock, Mutex};

use larder_disk::{Disk, Files, Look, Options, Storage};
use libfuzzer_sys::fuzz_target;

#[derive(Clone, Default)]
struct Memory(Arc<Mutex<BTreeMap<String, Bytes>>>);

#[derive(Clone, Default)]
struct Bytes(Arc<Mutex<Vec<u8>>>);

impl Files for Memory {
    type File = Bytes;

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.0.lock().unwrap().keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Bytes> {
        self.0.lock().unwrap().get(name).cloned().ok_or(io::ErrorKind::NotFound.into())
    }

    fn create(&self, name: &str) -> io::Result<Bytes> {
        let file = Bytes::default();
        self.0.lock().unwrap().insert(name.to_owned(), file.clone());
        Ok(file)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.lock().unwrap().remove(name).map(drop).ok_or(io::ErrorKind::NotFound.into())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let file = self.open(from)?;
        self.remove(from)?;
        self.0.lock().unwrap().insert(to.to_owned(), file);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

impl Storage for Bytes {
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize> {
        let data = self.0.lock().unwrap();
        let rest = data.get(at as usize..).unwrap_or_default();
        let length = rest.len().min(bytes.len());
        bytes[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        let mut data = self.0.lock().unwrap();
        let end = at as usize + bytes.len();
        if data.len() < end {
            data.resize(end, 0);
        }
        data[at as usize..end].copy_from_slice(bytes);
        Ok(bytes.len())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().len() as u64)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.0.lock().unwrap().resize(length as usize, 0);
        Ok(())
    }

    /// The segments of the seeds are short.
    fn allocate(&self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

fn value(n: u32) -> Vec<u8> {
    n.to_le_bytes().repeat(n as usize * 7 % 60)
}

/// A disk with one segment of some records: the disk's files, and the segment as it was.
fn disk(sealed: bool) -> (Memory, Vec<u8>) {
    let files = Memory::default();
    let options = Options { size: 16 << 20, write_limit: 0, random: 1 };
    let disk = Arc::new(Disk::open(files.clone(), options).unwrap().0);
    let mut writer = disk.writer().unwrap();
    disk.load(writer.first(), 0);
    for n in 0..20u32 {
        let (key, ticket) = (n.to_le_bytes(), disk.ticket());
        assert!(disk.register(&key, ticket));
        writer.put(&key, &[&value(n)], ticket, Some(u64::from(n) << 30), 0).unwrap();
    }
    match sealed {
        true => writer.close(0).unwrap(),
        false => writer.flush(0).unwrap(),
    }
    let segment = files.open("0000000000000001.segment").unwrap();
    let bytes = segment.0.lock().unwrap().clone();
    (files, bytes)
}

static DISKS: LazyLock<[(Memory, Vec<u8>); 2]> = LazyLock::new(|| [disk(false), disk(true)]);

fuzz_target!(|input: &[u8]| {
    let Some((which, edits)) = input.split_first() else { return };
    let (files, bytes) = &DISKS[usize::from(which & 1)];
    let mut bytes = bytes.clone();
    for edit in edits.chunks_exact(4) {
        let at = usize::from(u16::from_le_bytes([edit[0], edit[1]])) % (bytes.len() + 1);
        match (edit[2] & 1, bytes.get_mut(at)) {
            (1, _) => bytes.resize(at.max(1), 0),
            (_, Some(byte)) => *byte = edit[3],
            _ => bytes.push(edit[3]),
        }
    }
    let length = bytes.len() as u64;
    *files.open("0000000000000001.segment").unwrap().0.lock().unwrap() = bytes;
    let look = Look::open(files.clone()).unwrap();
    let segment = look.segment(1).unwrap();
    let Some(scanned) = &segment.scanned else { return };
    for entry in &scanned.entries {
        assert!(entry.at + entry.length <= length);
        if let Some(record) = segment.read(entry).unwrap() {
            let n = u32::from_le_bytes(record.key().try_into().unwrap());
            assert!(n < 20 && record.bytes() == value(n));
        }
    }
});
