//! Answers that name a file instead of sending it: `X-Accel-Redirect`, as for nginx, and
//! `X-Sendfile`, as for Apache and lighttpd.
//!
//! The application decides who may have a file; Larder sends it, with ranges and conditions. A file
//! is named by a path below one of the configured directories, made of plain segments, and the
//! system resolves it below that directory, as for any other file (`origin/tree`). The
//! application's fields stay, but those of the body that it did not send. It also decides what is
//! stored: without a word about that, nothing is.

use std::{cell::Cell, sync::Arc};

use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use larder_proto::http::{DecodedPath, path::names_file};

use tokio::time::Instant;

use super::{OriginError, Request, Response, due, files::Files};
use crate::settings::{ErrorPages, TreeSettings};

const ACCEL_REDIRECT: HeaderName = HeaderName::from_static("x-accel-redirect");
const SENDFILE: HeaderName = HeaderName::from_static("x-sendfile");
const SURROGATE_CONTROL: HeaderName = HeaderName::from_static("surrogate-control");
const CDN_CACHE_CONTROL: HeaderName = HeaderName::from_static("cdn-cache-control");

/// Fields about the body that the application did not send.
const OF_THE_BODY: [HeaderName; 9] = [
    header::CONTENT_LENGTH,
    header::CONTENT_ENCODING,
    header::CONTENT_RANGE,
    header::ACCEPT_RANGES,
    header::ETAG,
    header::LAST_MODIFIED,
    header::LOCATION,
    ACCEL_REDIRECT,
    SENDFILE,
];

/// Fields by which an application says how long its answer may be stored.
const OF_STORING: [HeaderName; 4] =
    [header::CACHE_CONTROL, header::EXPIRES, SURROGATE_CONTROL, CDN_CACHE_CONTROL];

/// Fields of a request that choose the form and the part of a file.
const OF_THE_CHOICE: [HeaderName; 7] = [
    header::ACCEPT_ENCODING,
    header::RANGE,
    header::IF_RANGE,
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_UNMODIFIED_SINCE,
];

/// The directories whose files an origin may name.
#[derive(Debug)]
pub(super) struct Accel {
    roots: Vec<Root>,
    /// When a name of no file was printed last.
    printed: Cell<Option<Instant>>,
}

#[derive(Debug)]
struct Root {
    /// Begins and ends with a slash.
    prefix: String,
    /// The directory, with a slash at its end.
    directory: Vec<u8>,
    files: Files,
}

/// A request, as far as it matters for a file.
#[derive(Debug)]
pub(super) struct Wanted {
    method: Method,
    headers: HeaderMap,
}

impl Accel {
    /// None: the origin may name no files.
    pub(super) fn new(settings: &[(String, Arc<TreeSettings>)]) -> Option<Accel> {
        let root = |(prefix, tree): &(String, Arc<TreeSettings>)| {
            let mut directory = tree.root.as_os_str().as_encoded_bytes().to_vec();
            if !directory.ends_with(b"/") {
                directory.push(b'/');
            }
            Root { prefix: prefix.clone(), directory, files: Files::new(tree.clone()) }
        };
        let roots: Vec<Root> = settings.iter().map(root).collect();
        (!roots.is_empty()).then_some(Accel { roots, printed: Cell::new(None) })
    }

    /// Of a request that is about to be sent. The answer to another method than GET and HEAD is the
    /// whole file, as nginx has it.
    pub(super) fn wanted(request: &Request) -> Wanted {
        let safe = matches!(request.method, Method::GET | Method::HEAD);
        let names = if safe { &OF_THE_CHOICE[..] } else { &OF_THE_CHOICE[..1] };
        let mut headers = HeaderMap::new();
        for name in names {
            for value in request.headers.get_all(name) {
                headers.append(name, value.clone());
            }
        }
        let method = if safe { request.method.clone() } else { Method::GET };
        Wanted { method, headers }
    }

    /// The answer itself, or the file that it names. The fields that name files never go on.
    pub(super) fn follow(
        &self,
        mut response: Response,
        wanted: &Wanted,
    ) -> Result<Response, OriginError> {
        let accel = response.headers.remove(ACCEL_REDIRECT);
        let sendfile = response.headers.remove(SENDFILE);
        if !(200..300).contains(&response.status) {
            return Ok(response);
        }
        let (target, named) = match (accel, sendfile) {
            (Some(target), _) => (self.of_path(&target), target),
            (None, Some(target)) => (self.of_file(target.as_bytes()), target),
            (None, None) => return Ok(response),
        };
        let mut file = match target {
            Some((root, name)) => root.files.respond(&name, &wanted.method, &wanted.headers)?,
            None => {
                self.print(&named);
                Response::status(404, &wanted.method, &ErrorPages::default())
            }
        };
        merge(&response.headers, &mut file);
        (file.peer, file.reused) = (response.peer, response.reused);
        response.body.discard();
        Ok(file)
    }

    fn print(&self, named: &HeaderValue) {
        if due(&self.printed) {
            eprintln!("larder: an application names {named:?}, which is not in `send_files`");
        }
    }

    /// Of X-Accel-Redirect: a path, escaped as in a URL; a query has no meaning.
    fn of_path(&self, target: &HeaderValue) -> Option<(&Root, Vec<u8>)> {
        let path = target.to_str().ok()?.split('?').next()?;
        let decoded = DecodedPath::new(path)?;
        let bytes = decoded.as_bytes();
        if decoded.plain() < bytes.len() {
            return None;
        }
        self.below(bytes, |root| root.prefix.as_bytes())
    }

    /// Of X-Sendfile: the name of a file, as it is.
    fn of_file(&self, target: &[u8]) -> Option<(&Root, Vec<u8>)> {
        self.below(target, |root| &root.directory)
    }

    /// The most exact of the directories, and the name below it.
    fn below<'a>(
        &'a self,
        path: &[u8],
        begin: impl Fn(&'a Root) -> &'a [u8],
    ) -> Option<(&'a Root, Vec<u8>)> {
        let roots = self.roots.iter().filter(|root| path.starts_with(begin(root)));
        let root = roots.max_by_key(|root| begin(root).len())?;
        // With the slash at the end of the beginning.
        let name = &path[begin(root).len() - 1..];
        (name.len() > 1 && names_file(name)).then(|| (root, name.to_vec()))
    }
}

/// Adds the application's fields to an answer with a file, or without one (404).
fn merge(of_application: &HeaderMap, file: &mut Response) {
    let found = matches!(file.status, 200 | 206 | 304 | 416);
    let decides = found && OF_STORING.iter().any(|name| of_application.contains_key(name));
    if decides {
        file.headers.remove(SURROGATE_CONTROL);
    } else {
        file.headers.insert(SURROGATE_CONTROL, HeaderValue::from_static("no-store"));
    }
    for name in of_application.keys().filter(|name| !OF_THE_BODY.contains(name)) {
        let of_missing = *name == header::CONTENT_TYPE || OF_STORING.contains(name);
        if !found && of_missing {
            continue;
        }
        if *name != header::VARY {
            file.headers.remove(name);
        }
        for value in of_application.get_all(name) {
            file.headers.append(name, value.clone());
        }
    }
}
