//! From the path of a request to a file or a script below a root.
//!
//! The places of `try_files` are looked at in order. A name is only looked up if it is made of
//! plain segments (`proto::http::path`), and only what exists below the root is found, so that an
//! application is never handed the name of another file (`/upload/evil.jpg/x.php`).

mod root;
#[cfg(test)]
mod tests;

use std::{borrow::Cow, io};

use larder_proto::http::{DecodedPath, path::names_file};

use self::root::Entry;
pub(super) use self::root::{OpenFile, Root};
use crate::settings::{Candidate, NamePattern, TreeSettings};

/// The result of a search.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A script, and the rest of the path.
    Script(Script),
    /// A file that is served as it is, by its name below the root.
    File(Vec<u8>),
    /// A directory that was asked for without a slash at the end.
    Directory,
    /// A directory without an index, by its name below the root, where listings are wanted.
    Listing(Vec<u8>),
    /// Nothing: the answer has this status.
    Status(u16),
}

/// A script that answers a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Script {
    /// Its name below the root; begins with a slash.
    pub(super) name: Vec<u8>,
    /// The path behind the script's name: empty, or it begins with a slash.
    pub(super) path_info: Vec<u8>,
    /// The query; None: that of the request.
    pub(super) query: Option<String>,
}

/// The target of a request, taken apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    /// Path as written.
    pub(super) path: &'a str,
    /// Query as written, without the question mark.
    pub(super) query: &'a str,
    pub(super) decoded: &'a DecodedPath,
}

/// Finds what answers a path. `scripts`: ends of the names of scripts; empty: every file is one. An
/// error: the root cannot be read.
pub(super) fn find(
    tree: &TreeSettings,
    scripts: Option<&[String]>,
    asked: Asked<'_>,
) -> io::Result<Found> {
    let root = Root::open(&tree.root, tree.follow_links)?;
    Search { tree, scripts, asked, root }.find()
}

/// A file that answers a path, open.
#[derive(Debug)]
pub(super) struct FoundFile {
    /// Its name below the root.
    pub(super) name: Vec<u8>,
    pub(super) open: OpenFile,
    pub(super) root: Root,
}

/// Finds and opens the file that answers a path, where there are no scripts. None: something else
/// answers.
pub(super) fn find_file(
    tree: &TreeSettings,
    root: Root,
    asked: Asked<'_>,
) -> io::Result<Option<FoundFile>> {
    let search = Search { tree, scripts: None, asked, root };
    // The usual case: no other look at it is necessary.
    if let Some(name) = search.first_name()
        && let Some(open) = search.root.read(&name)?
    {
        return Ok(Some(FoundFile { name, open, root: search.root }));
    }
    let Found::File(name) = search.find()? else { return Ok(None) };
    let read = search.root.read(&name)?;
    Ok(read.map(|open| FoundFile { name, open, root: search.root }))
}

/// The name of the file that answers a path if it exists, whatever else does. None: that cannot be
/// told.
pub(super) fn first_name(tree: &TreeSettings, asked: Asked<'_>) -> Option<Vec<u8>> {
    if !asked.path.ends_with('/') {
        let Some(Candidate::Name(pattern)) = tree.try_files.first() else { return None };
        return plain_name(pattern, asked);
    }
    // No file has the name of a directory.
    let [Candidate::Name(file), Candidate::Name(directory), ..] = &tree.try_files[..] else {
        return None;
    };
    let is_path = |pattern: &NamePattern| {
        pattern.before.is_empty() && pattern.after.as_deref() == Some("") && pattern.query.is_none()
    };
    if file.directory || !directory.directory || !is_path(file) || !is_path(directory) {
        return None;
    }
    let path = asked.decoded.as_bytes();
    let name = [path, tree.index.first()?.as_bytes()].concat();
    (asked.decoded.plain() == path.len() && names_file(&name)).then_some(name)
}

fn plain_name(pattern: &NamePattern, asked: Asked<'_>) -> Option<Vec<u8>> {
    let name = name_of(pattern, asked);
    let length = name.bytes.len();
    let plain = !pattern.directory && length > 0 && name.is_plain(length);
    plain.then(|| name.bytes.into_owned())
}

/// Opens a file that was found. None: it has gone. An error: it cannot be read.
pub(super) fn open(tree: &TreeSettings, name: &[u8]) -> io::Result<Option<FoundFile>> {
    let root = Root::open(&tree.root, tree.follow_links)?;
    let read = root.read(name)?;
    Ok(read.map(|open| FoundFile { name: name.to_vec(), open, root }))
}

struct Search<'a> {
    tree: &'a TreeSettings,
    /// None: there are no scripts.
    scripts: Option<&'a [String]>,
    asked: Asked<'a>,
    root: Root,
}

/// A name to look for.
struct Name<'a> {
    bytes: Cow<'a, [u8]>,
    /// Number of bytes before the first slash that was written as `%2F`.
    plain: usize,
}

impl Name<'_> {
    /// Whether the first `length` bytes may name a file or directory.
    fn is_plain(&self, length: usize) -> bool {
        length <= self.plain && names_file(&self.bytes[..length])
    }
}

impl Search<'_> {
    fn find(&self) -> io::Result<Found> {
        for candidate in &self.tree.try_files {
            let found = match candidate {
                Candidate::Status(status) => return Ok(Found::Status(*status)),
                Candidate::Name(pattern) if pattern.directory => self.directory(pattern),
                Candidate::Name(pattern) => self.file(pattern),
            };
            match found {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    return Ok(Found::Status(403));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Found::Status(404))
    }

    /// The name of the file that is looked for first.
    fn first_name(&self) -> Option<Vec<u8>> {
        first_name(self.tree, self.asked)
    }

    /// A script whose name the path begins with, or a file.
    fn file(&self, pattern: &NamePattern) -> io::Result<Option<Found>> {
        let name = self.name(pattern);
        for end in self.ends_of_scripts(&name.bytes) {
            if !name.is_plain(end) {
                break;
            }
            match self.root.look(&name.bytes[..end])? {
                Entry::File => {
                    let path_info = name.bytes[end..].to_vec();
                    return Ok(Some(self.script(pattern, &name.bytes[..end], path_info)));
                }
                Entry::Directory => {}
                // Nothing is below it either.
                Entry::Nothing => break,
            }
        }
        let length = name.bytes.len();
        if length == 0 || !name.is_plain(length) || self.root.look(&name.bytes)? != Entry::File {
            return Ok(None);
        }
        Ok(self.found(pattern, &name.bytes))
    }

    /// The index of a directory.
    fn directory(&self, pattern: &NamePattern) -> io::Result<Option<Found>> {
        let name = self.name(pattern);
        let length = name.bytes.len();
        // The path may have the slash that the pattern adds.
        let length = if name.bytes.ends_with(b"/") { length - 1 } else { length };
        let directory = &name.bytes[..length];
        if !name.is_plain(length) || self.root.look(directory)? != Entry::Directory {
            return Ok(None);
        }
        if pattern.after.is_some() && !self.asked.path.ends_with('/') {
            return Ok(Some(Found::Directory));
        }
        for index in &self.tree.index {
            let file = [directory, b"/", index.as_bytes()].concat();
            if names_file(&file) && self.root.look(&file)? == Entry::File {
                return Ok(self.found(pattern, &file));
            }
        }
        let lists = self.tree.listing && self.scripts.is_none();
        Ok(lists.then(|| Found::Listing(directory.to_vec())))
    }

    /// A file that exists. The source of a script is not for visitors.
    fn found(&self, pattern: &NamePattern, name: &[u8]) -> Option<Found> {
        match self.scripts {
            Some(ends) if ends.is_empty() || ends.iter().any(|end| is_script(name, end)) => {
                Some(self.script(pattern, name, Vec::new()))
            }
            Some(_) if is_source(name) => None,
            _ => Some(Found::File(name.to_vec())),
        }
    }

    fn script(&self, pattern: &NamePattern, name: &[u8], path_info: Vec<u8>) -> Found {
        let query = pattern.query.as_ref().map(|query| {
            // The pattern is expanded, and not what a path has in common with it.
            let query = query.replace("$query_string", "$args");
            let parts = query.split("$args").map(|part| part.replace("$uri", self.asked.path));
            parts.collect::<Vec<_>>().join(self.asked.query)
        });
        Found::Script(Script { name: name.to_vec(), path_info, query })
    }

    fn name<'n>(&self, pattern: &'n NamePattern) -> Name<'n> {
        name_of(pattern, self.asked)
    }

    /// Places in a path at which the name of a script may end: before a slash, or at the end.
    fn ends_of_scripts(&self, name: &[u8]) -> Vec<usize> {
        let ends = self.scripts.unwrap_or_default();
        let slashes = name.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let places = slashes.chain([name.len()]);
        places.filter(|at| ends.iter().any(|end| is_script(&name[..*at], end))).collect()
    }
}

fn name_of<'n>(pattern: &'n NamePattern, asked: Asked<'_>) -> Name<'n> {
    let before = pattern.before.as_bytes();
    match &pattern.after {
        None => Name { bytes: Cow::Borrowed(before), plain: before.len() },
        Some(after) => {
            let path = asked.decoded;
            let bytes = [before, path.as_bytes(), after.as_bytes()].concat();
            let cut = path.plain() < path.as_bytes().len();
            let plain = if cut { before.len() + path.plain() } else { bytes.len() };
            Name { bytes: Cow::Owned(bytes), plain }
        }
    }
}

fn last_segment(name: &[u8]) -> &[u8] {
    name.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

fn is_script(name: &[u8], end: &str) -> bool {
    let file = last_segment(name);
    file.len() > end.len() && file.ends_with(end.as_bytes())
}

/// Whether a file beside PHP's scripts may be PHP itself: `.PHP`, `.php5`, `.phtml`, `.phar`.
fn is_source(name: &[u8]) -> bool {
    let file = last_segment(name);
    let dot = file.iter().rposition(|byte| *byte == b'.');
    let extension = dot.map(|at| file[at + 1..].to_ascii_lowercase()).unwrap_or_default();
    ["php", "pht", "phar", "phps"].iter().any(|start| extension.starts_with(start.as_bytes()))
}
