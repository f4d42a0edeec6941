//! The list of what a directory has, for those who have turned it on.

use std::io;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use rustix::fs::{Dir, FileType};

use super::Files;
use crate::origin::{Body, OriginError, Response, tree::Root};

/// The most entries that are read of a directory.
const MOST: usize = 10_000;

impl Files {
    /// The answer with the list of a directory, by its name below the root.
    pub(super) fn list(&self, name: &[u8], method: &Method) -> Result<Response, OriginError> {
        let root = Root::open(&self.tree.root, self.tree.follow_links);
        let entries = root.and_then(|root| entries(&root, name));
        let page = match entries {
            Ok(entries) => Bytes::from(page(name, &entries)),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Ok(self.status(403, method));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(self.status(404, method));
            }
            Err(error) => return Err(OriginError::Local(error)),
        };
        let mut headers = HeaderMap::new();
        let mut set = |name: header::HeaderName, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        };
        set(header::CONTENT_TYPE, "text/html; charset=utf-8");
        set(header::CONTENT_SECURITY_POLICY, "default-src 'none'");
        set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
        set(header::CONTENT_LENGTH, &page.len().to_string());
        let control = format!("max-age={}", self.tree.check);
        set(header::HeaderName::from_static("surrogate-control"), &control);
        let body = if *method == Method::HEAD { Body::empty() } else { Body::ready(page) };
        Ok(Response::local(200, headers, body))
    }
}

/// Names of files, and of directories with a slash behind them, in order.
fn entries(root: &Root, name: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let mut entries = Vec::new();
    for entry in Dir::new(root.open_directory(name)?)?.take(MOST) {
        let entry = entry?;
        let found = entry.file_name().to_bytes();
        if found.starts_with(b".") {
            continue;
        }
        let path = || [name, b"/", found].concat();
        let directory = match entry.file_type() {
            FileType::RegularFile => false,
            FileType::Directory => true,
            // A link, or a file system that does not tell.
            FileType::Symlink | FileType::Unknown => match root.is_directory(&path()) {
                Some(directory) => directory,
                None => continue,
            },
            _ => continue,
        };
        let slash: &[u8] = if directory { b"/" } else { b"" };
        entries.push([found, slash].concat());
    }
    entries.sort_unstable();
    Ok(entries)
}

fn page(name: &[u8], entries: &[Vec<u8>]) -> String {
    let title = escaped(&[name, b"/"].concat());
    let mut page = format!(
        "<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><title>{title}</title></head>\n\
         <body><h1>{title}</h1>\n<ul>\n"
    );
    if !name.is_empty() {
        page.push_str("<li><a href=\"../\">../</a></li>\n");
    }
    for entry in entries {
        let (link, text) = (linked(entry), escaped(entry));
        page.push_str(&format!("<li><a href=\"{link}\">{text}</a></li>\n"));
    }
    page.push_str("</ul></body></html>\n");
    page
}

/// A name as text of HTML. Bytes that are no UTF-8 are shown as such.
fn escaped(name: &[u8]) -> String {
    let mut out = String::new();
    for character in String::from_utf8_lossy(name).chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            control if control.is_control() => out.push(char::REPLACEMENT_CHARACTER),
            other => out.push(other),
        }
    }
    out
}

/// A name as a relative reference: with `./`, so that a colon in it makes no scheme.
fn linked(name: &[u8]) -> String {
    let mut out = "./".to_owned();
    for byte in name {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                out.push(char::from(*byte));
            }
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}
