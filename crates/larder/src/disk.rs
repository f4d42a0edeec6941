//! `larder disk`: looks at the pages on a disk, which a Larder may have open, and empties one.

use std::{
    collections::{HashMap, HashSet},
    io::{self, Write as _},
    path::Path,
    process::ExitCode,
    time::{SystemTime, UNIX_EPOCH},
};

use larder_disk::{Directory, Entry, Look, LookedSegment, Purged, Record};
use larder_proto::{
    http::key::{self, Scheme},
    page::{
        Kind, MAX_HEAD_LEN, PageFlags, Slices, Verify, is_slice_on_disk, object_of_disk,
        slice_on_disk, view,
    },
    rules::compress,
};

use crate::{
    cli::{DiskArgs, DiskCommand},
    exit,
};

type Segment = LookedSegment<std::fs::File>;

/// Runs the command.
pub(crate) fn run(args: &DiskArgs) -> ExitCode {
    let done = match &args.command {
        DiskCommand::List { directory } => opened(directory).and_then(|look| list(&look)),
        DiskCommand::Check { directory } => opened(directory).and_then(|look| check(&look)),
        DiskCommand::Dump { directory, url, head, variant } => {
            opened(directory).and_then(|look| dump(&look, url, *head, *variant))
        }
        DiskCommand::Empty { directory } => empty(directory),
    };
    match done {
        Ok(()) => exit::DONE,
        Err(reason) => {
            eprintln!("larder: {reason}");
            ExitCode::from(exit::NOTHING)
        }
    }
}

fn opened(directory: &Path) -> Result<Look<Directory>, String> {
    let path = directory.display();
    let files = Directory::look(directory).map_err(|error| format!("{path}: {error}"))?;
    Look::open(files).ok_or_else(|| format!("{path}: there is no disk, or it counts as empty"))
}

fn told(error: io::Error) -> String {
    format!("the disk cannot be read: {error}")
}

/// Calls `f` with every record that a start would find, the newest first. Segments that are evicted
/// meanwhile are skipped.
fn each(
    look: &Look<Directory>,
    mut f: impl FnMut(&Segment, &Entry) -> Result<bool, String>,
) -> Result<(), String> {
    let purges = look.purges().ok_or(
        "the journal of purges is damaged: the next start empties the disk, as purged pages could \
         come back",
    )?;
    let purged = Purged::of(purges);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
    let mut seen = HashSet::new();
    for serial in look.segments().map_err(told)?.into_iter().rev() {
        let Ok(segment) = look.segment(serial) else { continue };
        for entry in segment.scanned.iter().flat_map(|scanned| scanned.entries.iter().rev()) {
            let expired = entry.expires.is_some_and(|at| at <= now);
            let shown = seen.insert(entry.hash) && !expired && !purged.mean(entry);
            if shown && !f(&segment, entry)? {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The page's URL, and whether it is a variant.
fn url(key: &[u8]) -> Option<(String, bool)> {
    let parts = key::parse_key(key)?;
    let port = match parts.port {
        0 => String::new(),
        port => format!(":{port}"),
    };
    let path = String::from_utf8_lossy(parts.path_and_query);
    let url = format!("{}://{}{port}{path}", parts.scheme.as_str(), parts.host);
    Some((url, key::parse_variant_key(key).is_some()))
}

fn list(look: &Look<Directory>) -> Result<(), String> {
    let mut out = io::stdout().lock();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
    each(look, |segment, entry| {
        let start = segment.start(entry, MAX_HEAD_LEN as u64).map_err(told)?;
        let Some(start) = start else { return Ok(true) };
        let Ok(page) = view(&start.bytes, start.length, Verify::Layout) else { return Ok(true) };
        let Some((url, variant)) = url(&start.key) else { return Ok(true) };
        if page.meta.kind != Kind::Page {
            return Ok(true);
        }
        let left = entry
            .expires
            .map_or_else(|| "-".to_owned(), |at| (at.saturating_sub(now) / 1000).to_string());
        let note = if variant { "  (variant)" } else { "" };
        // A reader that wants no more is no failure.
        let line = writeln!(
            out,
            "{:>11}  {}  {left:>9}  {}{note}",
            page.content_len(),
            page.meta.status,
            url.escape_debug()
        );
        Ok(line.is_ok())
    })
}

/// The record of an entry, if all of it is whole.
fn whole(segment: &Segment, entry: &Entry) -> Result<Option<Record>, String> {
    let record = segment.read(entry).map_err(told)?;
    Ok(record.filter(|record| {
        let bytes = record.bytes();
        // A slice has no checksum but that of its frame, and neither has a value of an object.
        if is_slice_on_disk(record.key()) || object_of_disk(record.key()).is_some() {
            return true;
        }
        view(bytes, bytes.len() as u64, Verify::All).is_ok_and(|page| page.key == record.key())
    }))
}

fn check(look: &Look<Directory>) -> Result<(), String> {
    let (mut good, mut damaged, mut bytes) = (0u64, 0u64, 0u64);
    each(look, |segment, entry| {
        match whole(segment, entry)? {
            Some(record) => {
                good += 1;
                bytes += record.bytes().len() as u64;
            }
            None => {
                damaged += 1;
                println!("damaged: segment {:016x} at {}", segment.serial, entry.at);
            }
        }
        Ok(true)
    })?;
    let segments = look.segments().map_err(told)?.len();
    let purges = look.purges().map_or(0, |purges| purges.len());
    println!(
        "{good} records of {bytes} bytes in {segments} segments, {damaged} damaged; {purges} purges"
    );
    if damaged > 0 { Err("damaged records are not served".to_owned()) } else { Ok(()) }
}

/// The key of a URL.
fn key_of(url: &str) -> Option<Vec<u8>> {
    let url = url.split('#').next().unwrap_or_default();
    let (scheme, rest) = url.split_once("://")?;
    let at = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(at);
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
        _ => (authority, 0),
    };
    let mut key = Vec::new();
    let path = if path.is_empty() { "/" } else { path };
    key::write_key(&mut key, Scheme::named(scheme)?, host, port, path.as_bytes());
    Some(key)
}

fn dump(look: &Look<Directory>, url: &str, head: bool, variant: usize) -> Result<(), String> {
    let wanted = key_of(url).ok_or_else(|| format!("{url} is not a URL"))?;
    let (mut found, mut left) = (None, variant.max(1));
    each(look, |segment, entry| {
        let start = segment.start(entry, MAX_HEAD_LEN as u64).map_err(told)?;
        let Some(start) = start else { return Ok(true) };
        let primary = key::parse_variant_key(&start.key).map_or(&start.key[..], |(key, ..)| key);
        let page = view(&start.bytes, start.length, Verify::Layout);
        if primary != wanted || page.map_or(true, |page| page.meta.kind != Kind::Page) {
            return Ok(true);
        }
        left -= 1;
        if left == 0 {
            found = Some(whole(segment, entry)?.ok_or("the page is damaged")?);
        }
        Ok(left > 0)
    })?;
    let record = found.ok_or_else(|| match left == variant.max(1) {
        true => format!("{url} is not on the disk"),
        false => format!("{url} has fewer variants there"),
    })?;
    let bytes = record.bytes();
    let page = view(bytes, bytes.len() as u64, Verify::All).map_err(|_| "the page is damaged")?;
    let body = &bytes[page.body_at..page.body_at + page.body_len as usize];
    let mut out = io::stdout().lock();
    let written = match head {
        true => {
            let packed = page.meta.flags.any(PageFlags::PACKED);
            let coding = compress::name(page.meta.encoding).filter(|_| packed);
            let line = coding.map(|name| format!("Content-Encoding: {name}\r\n"));
            out.write_all(page.head)
                .and_then(|()| out.write_all(line.unwrap_or_default().as_bytes()))
                .and_then(|()| out.write_all(b"\r\n"))
        }
        false => Ok(()),
    };
    written.map_err(|error| error.to_string())?;
    match Slices::of(&page, body) {
        Some(slices) => write_slices(look, &slices, &mut out),
        None => out.write_all(body).map_err(|error| error.to_string()),
    }
}

/// Writes the slices of a page one after the other, if all are there.
fn write_slices(
    look: &Look<Directory>,
    slices: &Slices,
    out: &mut impl io::Write,
) -> Result<(), String> {
    let numbers = 0..slices.count();
    let mut wanted: HashMap<Vec<u8>, u64> =
        numbers.clone().map(|n| (slice_on_disk(&slices.key(n)), n)).collect();
    let mut found: HashMap<u64, (u64, Entry)> = HashMap::new();
    each(look, |segment, entry| {
        let start = segment.start(entry, 0).map_err(told)?;
        if let Some(number) = start.and_then(|start| wanted.remove(&start.key)) {
            found.insert(number, (segment.serial, *entry));
        }
        Ok(!wanted.is_empty())
    })?;
    if !wanted.is_empty() {
        let (missing, count) = (wanted.len(), slices.count());
        return Err(format!("{missing} of the {count} slices of the page are not on the disk"));
    }
    for (serial, entry) in numbers.filter_map(|number| found.get(&number)) {
        let segment = look.segment(*serial).map_err(told)?;
        let record = segment.read(entry).map_err(told)?.ok_or("a slice is damaged")?;
        out.write_all(record.bytes()).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn empty(directory: &Path) -> Result<(), String> {
    let path = directory.display();
    // Not made where there is none.
    Directory::look(directory).map_err(|error| format!("{path}: {error}"))?;
    let files = Directory::take_any(directory).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => format!("{path}: a Larder uses it: stop it first"),
        _ => format!("{path}: {error}"),
    })?;
    larder_disk::empty(&files).map_err(|error| format!("{path}: {error}"))
}
