//! Files of this machine: alone, or those beside an application.
//!
//! A file is an origin like any other: its answer has an entity tag and a date, it is stored for a
//! short time (`check`) and then validated, which here is a look at the file. Large files are not
//! stored, since the system has them in memory already; they are read for each request.
//!
//! Where nothing is changed of requests and answers, files are not fetched but [`kept`] ready.
//!
//! Absent: several ranges in one answer (the cache makes these of a stored page or a kept file).

mod content;
mod form;
mod kept;
mod listing;
#[cfg(test)]
mod tests;
mod watch;

use std::{io, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use larder_proto::{
    Secs,
    http::{
        ByteRange, ContentRange, DecodedPath, Fields, Header, Known, Method as MethodName,
        Satisfied, range::satisfy,
    },
    page::Meta,
    rules::{Precondition, RequestView, evaluate, range_applies},
};

pub(super) use self::content::Content;
use self::form::Form;
pub(crate) use self::{
    kept::{KeptContent, KeptFiles, KeptForm, Seen},
    watch::Watcher,
};
use super::{
    Body, OriginError, Request, Response,
    tree::{self, Asked, Found},
};
use crate::{clock::Clock, settings::TreeSettings};

/// Larger files are not stored.
const STORED_BYTES: u64 = 1 << 20;

/// A tree of files, as one worker sees it.
#[derive(Debug)]
pub(super) struct Files {
    tree: Arc<TreeSettings>,
    clock: Clock,
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
        let visited = request.visited(path);
        // The visitor's path is a prefix that was stripped, and what is left is the directory's.
        let lacks_slash = path.ends_with('/') && !visited.ends_with('/');
        match self.find(None, Asked { path, query, decoded: &decoded })? {
            Found::File(_) if lacks_slash => Ok(Response::moved_to_directory(visited, query)),
            Found::File(name) => self.respond(&name, &request.method, &request.headers),
            Found::Listing(name) => match request.method {
                Method::GET | Method::HEAD => self.list(&name, &request.method),
                _ => Ok(self.status(405, &request.method)),
            },
            Found::Directory => Ok(Response::moved_to_directory(visited, query)),
            Found::Status(status) => Ok(self.status(status, &request.method)),
            // Without scripts there is none.
            Found::Script(_) => Ok(self.status(404, &request.method)),
        }
    }

    /// A status, with the page that says it.
    pub(super) fn status(&self, status: u16, method: &Method) -> Response {
        Response::status(status, method, &self.tree.error_pages)
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
            let mut refused = self.status(405, method);
            refused.headers.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return Ok(refused);
        }
        let lines = lines(headers);
        let fields = Fields::new(&lines);
        let found = match tree::open(&self.tree, name) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Ok(self.status(403, method));
            }
            Err(error) => return Err(OriginError::Local(error)),
        };
        let Some(found) = found else { return Ok(self.status(404, method)) };
        let mut forms = form::open(found).map_err(OriginError::Local)?;
        let varies = forms.len() > 1;
        let sizes = forms.iter().map(|form| (form.coding, form.version.size));
        let opened = forms.swap_remove(form::choose(fields, sizes));
        let now = self.clock.now() / 1000;
        let etag = opened.version.etag();
        let headers = self.headers(name, &opened, varies, now);
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
            Precondition::Failed => return Ok(self.status(412, method)),
            Precondition::Full => {
                let applies = range_applies(&view, &meta, Some(etag.as_bytes()));
                known.range().filter(|_| applies && *method == Method::GET)
            }
        };
        Ok(send(opened, headers, method, part))
    }

    fn headers(&self, name: &[u8], form: &Form, varies: bool, now: Secs) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let mut set = |name: &str, value: &str| {
            let name = HeaderName::try_from(name);
            if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
                headers.insert(name, value);
            }
        };
        for (name, value) in form::fields(&self.tree, name, form, varies, now) {
            set(name, &value);
        }
        // For this cache alone: it takes the field out.
        let control = match form.version.size {
            ..=STORED_BYTES => format!("max-age={}", self.tree.check),
            _ => "no-store".to_owned(),
        };
        set("surrogate-control", &control);
        headers
    }
}

/// The whole file, or the part that is asked for. Several ranges get the whole.
fn send(opened: Form, mut headers: HeaderMap, method: &Method, range: Option<&[u8]>) -> Response {
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
            let content = Content::new(opened.open.file, opened.version, part.first, part.last + 1);
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
