//! The content of memory in a file: written at a stop, read at the next start, and used once. A
//! server that is killed leaves none, so nothing comes back that was purged or replaced since.
//!
//! ```text
//! 8 B   LARDERS2
//! u64   when it was written (ms since the UNIX epoch), length of a segment, length of the image
//! u64   checksum of the 24 bytes before it and of the image
//!       the image
//!       of each segment: u64 number, u64 checksum bound to the number, its bytes
//! u64   all ones; u64: how many segments there are
//! u64   length of the notes, u64 checksum of them, the notes in JSON
//! ```
//! Numbers are little-endian. Segments are in the order of their worth; where the time was not
//! enough the last ones are missing.

use std::{
    fs::{self, File, Metadata, OpenOptions, Permissions},
    io::{self, BufReader, BufWriter, Read as _, Write as _},
    os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

use larder_store::{Options, Store};
use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};
use rustix::fs::OFlags;

use super::notes::Notes;
use crate::{
    clock::{Clock, Ms},
    settings::SnapshotSettings,
};

const MAGIC: &[u8; 8] = b"LARDERS2";
/// Stands where a number of a segment would.
const END: u64 = u64::MAX;
/// Bytes before the image.
const HEAD: usize = 8 + 3 * 8 + 8;
/// Bytes before a segment.
const BEFORE: u64 = 16;
/// Longest image: a segment has some hundred bytes in it, and the ghost a hundredth of the memory.
const IMAGE: u64 = 16 << 30;
/// Longest notes: libraries of functions have a megabyte.
const NOTES: u64 = 4 << 20;
/// Bytes after which the disk has to have them.
const SYNCED: usize = 64 << 20;
/// Wait for writes that are under way, in milliseconds.
const BUSY: Ms = 1000;

/// A snapshot that was written.
pub(super) struct Written {
    pub(super) segments: usize,
    pub(super) of: usize,
}

fn checksum(bytes: &[u8], bound_to: u64) -> u64 {
    rapidhash_v3_seeded(bytes, &RapidSecrets::seed(bound_to))
}

/// Writes what the store has, and empties it. The rest is left out when
/// it is `until`.
pub(super) fn write(
    store: &Store,
    notes: &Notes,
    settings: &SnapshotSettings,
    clock: Clock,
    until: Ms,
) -> io::Result<Written> {
    if let Ok(there) = fs::symlink_metadata(&settings.path)
        && !is_own(&there)
    {
        return Err(io::Error::other(NOT_OWN));
    }
    let beside = settings.path.with_extension("new");
    let written = write_to(&beside, store, notes, clock, until)
        .and_then(|written| fs::rename(&beside, &settings.path).map(|()| written));
    if written.is_err() {
        // The space on the disk is needed by others.
        let _ = fs::remove_file(&beside);
    }
    written
}

fn write_to(
    beside: &Path,
    store: &Store,
    notes: &Notes,
    clock: Clock,
    until: Ms,
) -> io::Result<Written> {
    let began = clock.now();
    let snapshot = loop {
        match store.snapshot(clock.now()) {
            Ok(snapshot) => break snapshot,
            Err(larder_store::GiveError::Busy) if clock.now() < began + BUSY => {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            Err(error) => return Err(io::Error::other(error)),
        }
    };
    let _ = fs::remove_file(beside);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(beside)?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let mut head = MAGIC.to_vec();
    let image = &snapshot.image;
    for number in [clock.now(), store.totals().segment, image.len() as u64] {
        head.extend_from_slice(&number.to_le_bytes());
    }
    let sum = checksum(image, checksum(&head, 0));
    head.extend_from_slice(&sum.to_le_bytes());
    out.write_all(&head)?;
    out.write_all(image)?;
    let (mut bytes, mut segments, mut since) = (Vec::new(), 0, 0);
    for segment in &snapshot.segments {
        if clock.now() >= until {
            break;
        }
        snapshot.copy(*segment, &mut bytes);
        let number = u64::from(*segment);
        out.write_all(&number.to_le_bytes())?;
        out.write_all(&checksum(&bytes, number).to_le_bytes())?;
        out.write_all(&bytes)?;
        segments += 1;
        // The time is for what is on the disk, and not for what the system still has to write.
        since += bytes.len();
        if since >= SYNCED {
            since = 0;
            out.flush()?;
            out.get_ref().sync_data()?;
        }
    }
    out.write_all(&END.to_le_bytes())?;
    out.write_all(&(segments as u64).to_le_bytes())?;
    let notes = notes.to_value().to_string();
    out.write_all(&(notes.len() as u64).to_le_bytes())?;
    out.write_all(&checksum(notes.as_bytes(), END).to_le_bytes())?;
    out.write_all(notes.as_bytes())?;
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()?;
    Ok(Written { segments, of: snapshot.segments.len() })
}

/// The reason for which something else in the snapshot's place is neither read nor replaced.
const NOT_OWN: &str = "it is not a file of this user";

fn is_own(of: &Metadata) -> bool {
    of.is_file() && of.uid() == rustix::process::geteuid().as_raw()
}

/// The store that a snapshot has, if there is one. It is used once: the file is removed.
///
/// # Errors
/// Why it is not used.
pub(super) fn read(
    options: Options,
    settings: &SnapshotSettings,
    now: Ms,
) -> Result<Option<(Store, Notes)>, String> {
    // Nothing but a file is waited for, or followed.
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits() as i32;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(&settings.path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(|error| error.to_string())?,
    };
    let of = file.metadata().map_err(|error| error.to_string())?;
    if !is_own(&of) {
        return Err(NOT_OWN.to_owned());
    }
    // First, so that a start that fails does not find it again and again.
    fs::remove_file(&settings.path).map_err(|error| error.to_string())?;
    // Nor may it come back when the power fails: what is purged from now on would, too.
    let of = settings.path.parent().filter(|path| !path.as_os_str().is_empty());
    let directory = File::open(of.unwrap_or(Path::new(".")));
    directory.and_then(|file| file.sync_all()).map_err(|error| error.to_string())?;
    let _ = file.set_permissions(Permissions::from_mode(0o600));
    let damaged = |_: io::Error| "it is damaged".to_owned();
    let opened = Opened::read(&file).map_err(damaged)?;
    let age = now.saturating_sub(opened.written);
    if age > settings.max_age.as_millis() as Ms {
        return Err(format!("it is {} s old", age / 1000));
    }
    let mut broken = false;
    let store = Store::restore(options, &opened.image, &mut |segment, into| {
        let Some(at) = opened.place(segment) else { return false };
        let read = into.len() as u64 == opened.length && file.read_exact_at(into, at + 8).is_ok();
        let mut sum = [0; 8];
        let whole = read
            && file.read_exact_at(&mut sum, at).is_ok()
            && u64::from_le_bytes(sum) == checksum(into, segment.into());
        broken |= !whole;
        whole
    });
    match store {
        _ if broken => Err("it is damaged".to_owned()),
        Ok(store) => Ok(Some((store, opened.notes))),
        Err(error) => Err(error.to_string()),
    }
}

/// The description in a snapshot, and the places of segments.
struct Opened {
    written: Ms,
    length: u64,
    image: Vec<u8>,
    /// By number: where the checksum lies; 0: it is missing.
    places: Vec<u64>,
    notes: Notes,
}

impl Opened {
    fn read(file: &File) -> io::Result<Opened> {
        let broken = || io::Error::from(io::ErrorKind::InvalidData);
        let mut from = BufReader::new(file);
        let mut head = [0; HEAD];
        from.read_exact(&mut head)?;
        let number = |n: usize| u64::from_le_bytes(std::array::from_fn(|i| head[8 + 8 * n + i]));
        let (written, length, image_length, sum) = (number(0), number(1), number(2), number(3));
        if &head[..8] != MAGIC || image_length > IMAGE.min(file.metadata()?.len()) {
            return Err(broken());
        }
        let mut image = vec![0; image_length as usize];
        from.read_exact(&mut image)?;
        if checksum(&image, checksum(&head[..HEAD - 8], 0)) != sum {
            return Err(broken());
        }
        let (mut at, mut places, mut count) = (HEAD as u64 + image_length, Vec::new(), 0);
        loop {
            let mut number = [0; 8];
            file.read_exact_at(&mut number, at)?;
            let number = u64::from_le_bytes(number);
            if number == END {
                break;
            }
            let number = usize::try_from(number).ok().filter(|n| *n < 1 << 21);
            let number = number.ok_or_else(broken)?;
            if places.len() <= number {
                places.resize(number + 1, 0);
            }
            places[number] = at + 8;
            let next = at.checked_add(BEFORE).and_then(|at| at.checked_add(length));
            (at, count) = (next.ok_or_else(broken)?, count + 1);
        }
        let mut end = [0; 24];
        file.read_exact_at(&mut end, at.checked_add(8).ok_or_else(broken)?)?;
        let number = |n: usize| u64::from_le_bytes(std::array::from_fn(|i| end[8 * n + i]));
        if number(0) != count || number(1) > NOTES {
            return Err(broken());
        }
        let mut notes = vec![0; number(1) as usize];
        file.read_exact_at(&mut notes, at + 32)?;
        if checksum(&notes, END) != number(2) {
            return Err(broken());
        }
        let notes = Notes::of_value(&serde_json::from_slice(&notes)?);
        Ok(Opened { written, length, image, places, notes })
    }

    fn place(&self, segment: u32) -> Option<u64> {
        self.places.get(segment as usize).copied().filter(|at| *at != 0)
    }
}
