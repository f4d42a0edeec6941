//! Reading which records a segment has: by its summary, or by all its frames.

use std::io;

use crate::files::Storage;
use crate::format::{Footer, FrameHead, Home, LISTED, Listed, UNIT};
use crate::types::{LONGEST_SEGMENT, Ms};

/// Bytes read at once while frames are scanned.
const WINDOW: usize = 256 << 10;

/// A record in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Hash of its key.
    pub hash: u64,
    /// See [`crate::Record::ticket`].
    pub ticket: u64,
    /// Place of its frame, in bytes.
    pub at: u64,
    /// Bytes of its frame.
    pub length: u64,
    /// Time of its expiry, rounded down to a second; `None`: never.
    pub expires: Option<Ms>,
}

impl From<Listed> for Entry {
    fn from(listed: Listed) -> Self {
        Entry {
            hash: listed.hash,
            ticket: listed.ticket,
            at: u64::from(listed.at) * UNIT as u64,
            length: u64::from(listed.units) * UNIT as u64,
            expires: (listed.expires != u32::MAX).then(|| u64::from(listed.expires) * 1000),
        }
    }
}

/// The records of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scanned {
    /// In the order in which they were written.
    pub entries: Vec<Entry>,
    /// It has a summary.
    pub sealed: bool,
}

/// The records of a segment, for this crate.
pub(crate) struct Found {
    pub(crate) entries: Vec<Listed>,
    pub(crate) sealed: bool,
    /// Where its frames end.
    pub(crate) end: u64,
}

/// The records of a segment of the disk `disk` with the number `serial`; `None`: it is none. An
/// unreadable frame ends the list.
///
/// # Errors
/// The system's.
pub fn scan<S: Storage>(file: &S, disk: u64, serial: u64) -> io::Result<Option<Scanned>> {
    let found = find(file, Home { disk, serial })?;
    Ok(found.map(|found| Scanned {
        entries: found.entries.into_iter().map(Entry::from).collect(),
        sealed: found.sealed,
    }))
}

pub(crate) fn find<S: Storage>(file: &S, home: Home) -> io::Result<Option<Found>> {
    let mut head = [0; UNIT];
    let read = file.read_full(&mut head, 0)?;
    if read < UNIT || !home.begins(&head) {
        return Ok(None);
    }
    let length = file.length()?;
    // The memory that is taken for it is bounded by this, whatever the file says of itself.
    if length > LONGEST_SEGMENT {
        return Ok(None);
    }
    if let Some((entries, end)) = summary(file, home, length)? {
        return Ok(Some(Found { entries, sealed: true, end }));
    }
    let (entries, end) = frames(file, home, length)?;
    Ok(Some(Found { entries, sealed: false, end }))
}

/// The entries of the summary, and where it begins.
fn summary<S: Storage>(
    file: &S,
    home: Home,
    length: u64,
) -> io::Result<Option<(Vec<Listed>, u64)>> {
    let mut last = [0; UNIT];
    let Some(at) = length.checked_sub(UNIT as u64) else { return Ok(None) };
    if file.read_full(&mut last, at)? < UNIT {
        return Ok(None);
    }
    let Some(footer) = Footer::decode(home, &last, length) else { return Ok(None) };
    let mut bytes = vec![0; footer.entries as usize * LISTED];
    let read = file.read_full(&mut bytes, footer.at)?;
    let entries = footer.entries(home, &bytes[..read]);
    let fits = |entries: &Vec<Listed>| entries.iter().all(|entry| is_within(entry, footer.at));
    Ok(entries.filter(fits).map(|entries| (entries, footer.at)))
}

/// Whether an entry's frame lies between the head of its segment and `end`.
fn is_within(entry: &Listed, end: u64) -> bool {
    let entry = Entry::from(*entry);
    entry.at >= UNIT as u64 && entry.at + entry.length <= end
}

/// The heads of all frames up to the first place that has none.
fn frames<S: Storage>(file: &S, home: Home, length: u64) -> io::Result<(Vec<Listed>, u64)> {
    let (mut entries, mut at) = (Vec::new(), UNIT as u64);
    let (mut window, mut start) = (vec![0; WINDOW], 0);
    let mut valid = 0..0;
    while at + UNIT as u64 <= length {
        if !valid.contains(&at) || !valid.contains(&(at + UNIT as u64 - 1)) {
            start = at;
            let read = file.read_full(&mut window, start)? as u64;
            valid = start..start + read;
            if read < UNIT as u64 {
                break;
            }
        }
        let bytes = &window[(at - start) as usize..(valid.end - start) as usize];
        let head = FrameHead::decode(home, at, bytes);
        let Some(head) = head.filter(|head| at + head.frame() <= length) else { break };
        entries.push(Listed::of(&head, at));
        at += head.frame();
    }
    Ok((entries, at))
}
