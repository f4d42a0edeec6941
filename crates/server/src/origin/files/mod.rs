//! Files of this machine: alone, or those beside an application.
//!
//! A file is an origin like any other: its answer has an entity tag and a date, it is stored for a
//! short time (`check`) and then validated, which here is a look at the file. Large files are not
//! stored, since the system has them in memory already; they are read for each request.
//!
//! Absent: listings of directories, several ranges in one answer (the cache makes these of a stored
//! page), kept descriptors.

mod content;
#[cfg(test)]
mod tests;

use std::{fs::File, io, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use larder_proto::{
    Secs,
    http::{
        ByteRange, Codings, ContentRange, DecodedPath, Fields, Header, Known, Method as MethodName,
        Satisfied, date, range::satisfy,
    },
    page::Meta,
    rules::{Precondition, RequestView, evaluate, range_applies},
};

pub(super) use self::content::Content;
use self::content::Version;
use super::{
    Body, OriginError, Request, Response,
    tree::{self, Asked, Found},
};
use crate::{clock::Clock, settings::TreeSettings};

/// Larger files are not stored.
const STORED_BYTES: u64 = 1 << 20;

/// Compressed forms that may lie beside a file: coding and extension.
const CODINGS: [(&str, &str); 3] = [("br", ".br"), ("zstd", ".zst"), ("gzip", ".gz")];

/// A tree of files, as one worker sees it.
#[derive(Debug)]
pub(super) struct Files {
    tree: Arc<TreeSettings>,
    clock: Clock,
}

/// An open file, and the form in which it answers.
struct Opened {
    file: File,
    version: Version,
    /// The coding of a compressed form.
    coding: Option<&'static str>,
    /// There are several forms.
    varies: bool,
}

impl Files {
    pub(super) fn new(tree: Arc<TreeSettings>) -> Files {
        Files { tree, clock: Clock::start() }
    }

    /// Answers a request.
    pub(super) fn send(&self, request: &Request) -> Result<Response, OriginError> {
        let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
        let decoded = DecodedPath::new(path).ok_or_else(|| {
            OriginError::Unsendable(format!("the target {:?} is no path", request.target))
        })?;
        match self.find(None, Asked { path, query, decoded: &decoded })? {
            Found::File(name) => self.respond(&name, &request.method, &request.headers),
            Found::Directory => Ok(Response::moved_to_directory(path, query)),
            Found::Status(status) => Ok(Response::status(status, &request.method)),
            // Without scripts there is none.
            Found::Script(_) => Ok(Response::status(404, &request.method)),
        }
    }

    /// See [`tree::find`].
    pub(super) fn find(
        &self,
        scripts: Option<&[String]>,
        asked: Asked<'_>,
    ) -> Result<Found, OriginError> {
        tree::find(&self.tree, scripts, asked).map_err(OriginError::Local)
    }

    /// The answer with a file that was found.
    pub(super) fn respond(
        &self,
        name: &[u8],
        method: &Method,
        headers: &HeaderMap,
    ) -> Result<Response, OriginError> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            let mut refused = Response::status(405, method);
            refused.headers.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return Ok(refused);
        }
        let lines = lines(headers);
        let fields = Fields::new(&lines);
        let opened = self.open(name, fields).map_err(OriginError::Local)?;
        let Some(opened) = opened else { return Ok(Response::status(404, method)) };
        let now = self.clock.now() / 1000;
        let etag = opened.version.etag();
        let headers = self.headers(name, &opened, &etag, now);
        let meta = Meta {
            status: 200,
            response_time: now * 1000,
            date: now,
            last_modified: opened.version.last_modified(now),
            ..Meta::default()
        };
        let known = Known::of(fields);
        let view = RequestView { method: MethodName::of(method.as_str()), fields, known: &known };
        let part = match evaluate(&view, &meta, Some(etag.as_bytes())) {
            Precondition::NotModified => {
                return Ok(Response::local(304, headers, Body::empty()));
            }
            Precondition::Failed => return Ok(Response::status(412, method)),
            Precondition::Full => {
                let applies = range_applies(&view, &meta, Some(etag.as_bytes()));
                known.range().filter(|_| applies && *method == Method::GET)
            }
        };
        Ok(send(opened, headers, method, part))
    }

    /// Opens the form of a file that the client takes and that has the fewest bytes. None: it has
    /// gone.
    fn open(&self, name: &[u8], fields: Fields<'_>) -> io::Result<Option<Opened>> {
        let Some((file, stat)) = tree::open(&self.tree, name)? else { return Ok(None) };
        let version = Version::of(&stat);
        let mut best = Opened { file, version, coding: None, varies: false };
        let accepted = Codings::parse(fields.all("accept-encoding"));
        for (coding, extension) in CODINGS {
            let compressed = [name, extension.as_bytes()].concat();
            let Some((file, stat)) = tree::open(&self.tree, &compressed)? else { continue };
            let form = Version::of(&stat);
            // One that was made of an older file is of no use, nor one that is being made.
            if form.modified < version.modified || (form.size == 0 && version.size > 0) {
                continue;
            }
            best.varies = true;
            let wanted = accepted.allows(std::iter::once(coding.as_bytes()));
            if wanted && form.size < best.version.size {
                best = Opened { file, version: form, coding: Some(coding), varies: true };
            }
        }
        Ok(Some(best))
    }

    fn headers(&self, name: &[u8], opened: &Opened, etag: &str, now: Secs) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let mut set = |name, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        };
        set(header::CONTENT_TYPE, self.media_type(name));
        set(header::ETAG, etag);
        set(header::ACCEPT_RANGES, "bytes");
        if let Some(modified) = opened.version.last_modified(now) {
            set(header::LAST_MODIFIED, &String::from_utf8_lossy(&date::format(modified)));
        }
        if let Some(coding) = opened.coding {
            set(header::CONTENT_ENCODING, coding);
        }
        if opened.varies {
            set(header::VARY, "Accept-Encoding");
        }
        // For this cache alone: it takes the field out.
        let control = match opened.version.size {
            ..=STORED_BYTES => format!("max-age={}", self.tree.check),
            _ => "no-store".to_owned(),
        };
        set(header::HeaderName::from_static("surrogate-control"), &control);
        headers
    }

    /// By the extension of the name: as configured, else as usual.
    fn media_type(&self, name: &[u8]) -> &str {
        let dot = name.iter().rposition(|byte| *byte == b'.');
        let extension = dot.and_then(|at| std::str::from_utf8(&name[at + 1..]).ok());
        let extension = extension.unwrap_or_default().to_ascii_lowercase();
        let own = self.tree.types.iter().find(|(configured, _)| *configured == extension);
        own.map(|(_, media_type)| media_type.as_str())
            .or_else(|| mime_guess::from_ext(&extension).first_raw())
            .unwrap_or("application/octet-stream")
    }
}

impl Version {
    /// Strong: a change of the file changes it.
    fn etag(&self) -> String {
        let (seconds, nanoseconds) = self.modified;
        format!("\"{:x}-{:x}-{seconds:x}.{nanoseconds:x}\"", self.inode, self.size)
    }

    /// Never later than now (RFC 9110 section 8.8.2.1).
    fn last_modified(&self, now: Secs) -> Option<Secs> {
        u64::try_from(self.modified.0).ok().filter(|modified| *modified <= now)
    }
}

/// The whole file, or the part that is asked for. Several ranges get the whole.
fn send(opened: Opened, mut headers: HeaderMap, method: &Method, range: Option<&[u8]>) -> Response {
    let size = opened.version.size;
    let mut content_range = |range: ContentRange| {
        let mut value = Vec::new();
        range.write(&mut value);
        if let Ok(value) = HeaderValue::from_bytes(&value) {
            headers.insert(header::CONTENT_RANGE, value);
        }
    };
    let (status, part) = match range.map(|value| satisfy(value, size)) {
        Some(Satisfied::One(part)) => {
            content_range(ContentRange::Bytes { range: part, total: Some(size) });
            (206, Some(part))
        }
        Some(Satisfied::Unsatisfiable) => {
            content_range(ContentRange::Unsatisfied { total: size });
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(0));
            return Response::local(416, headers, Body::ready(Bytes::new()));
        }
        _ => (200, size.checked_sub(1).map(|last| ByteRange { first: 0, last })),
    };
    let length = part.map_or(0, |part| part.len());
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    let body = match part {
        _ if *method == Method::HEAD => Body::empty(),
        None => Body::ready(Bytes::new()),
        Some(part) => {
            let content = Content::new(opened.file, opened.version, part.first, part.last + 1);
            Body::of_file(content, length)
        }
    };
    Response::local(status, headers, body)
}

/// The fields as the rules read them.
fn lines(headers: &HeaderMap) -> Vec<Header<'_>> {
    headers
        .iter()
        .map(|(name, value)| Header { name: name.as_str(), value: value.as_bytes() })
        .collect()
}
