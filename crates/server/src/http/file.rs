//! The answer from a file of this machine that is kept ready (`origin::files::kept`).
//!
//! The store is looked up first: a page that was published under the URL of a file covers it, and
//! one that is on the disk is fetched from there. A fetch also answers where rules edit fields, and
//! for every path that leads to no file.

use larder_proto::rules::{Esi, Forward};

use super::{
    deliver::{self, Body, Delivered, Spans, content_type},
    exchange::Exchange,
    log::{finish, logged_status},
    served::Served,
};
use crate::{
    access_log::Hierarchy,
    clock::Ms,
    net::out::Out,
    origin::{KeptContent, KeptForm, Seen},
    request::route::Route,
    wire::h1::HeadWriter,
};

/// Answers from a file. None: something else answers; true: the connection goes on.
pub(super) fn answer(
    exchange: &Exchange<'_, '_>,
    out: &mut Out,
    route: &Route<'_>,
    now: Ms,
) -> Option<bool> {
    let handling = route.policy.handling.as_ref();
    let tree = handling
        .and_then(|handling| handling.origin.as_ref())
        .unwrap_or(&route.site.origin)
        .files()?;
    if handling.is_some_and(|handling| handling.edits()) {
        return None;
    }
    let pages = exchange.request.pages;
    if pages.shared.disk.as_ref().is_some_and(|disk| disk.may_be_published(&route.key)) {
        return None;
    }
    let target = handling.map(|handling| handling.target(&route.path));
    let target = target.as_deref().unwrap_or(&route.path);
    if is_directory(target) && !is_directory(&route.path) {
        // The visitor's path is a prefix that was stripped: he is sent to the directory's own.
        return None;
    }
    let (file, seen) = pages.files.find(tree, target, now, pages.shared.flights.purges())?;
    let form = file.form(exchange.request.head.fields);
    let made = form.may_have_markup() && route.policy.cache.esi == Esi::Always;
    if made || (form.is_compressible() && !route.policy.cache.compress.is_empty()) {
        return None;
    }
    let delivered = compose(exchange, out, form, seen, now)?;
    let why = match seen {
        Seen::Kept => None,
        Seen::Opened => Some(Forward::UriMiss),
        Seen::Changed => Some(Forward::Stale),
    };
    if let Some(why) = why {
        exchange.request.stats.forwarded(why);
        pages.counters.files_opened.one();
    }
    Some(finish(exchange, &delivered))
}

/// Whether a file of this machine answers a path, so that a purge of it has an effect.
pub(super) fn is_there(exchange: &Exchange<'_, '_>, route: &Route<'_>) -> bool {
    let handling = route.policy.handling.as_ref();
    let origin = handling.and_then(|handling| handling.origin.as_ref());
    let Some(tree) = origin.unwrap_or(&route.site.origin).files() else { return false };
    let target = handling.map(|handling| handling.target(&route.path));
    let target = target.as_deref().unwrap_or(&route.path);
    let pages = exchange.request.pages;
    let purges = pages.shared.flights.purges();
    pages.files.find(tree, target, exchange.request.now(), purges).is_some()
}

/// Whether the path of a target is written as that of a directory.
fn is_directory(target: &str) -> bool {
    target.split('?').next().is_some_and(|path| path.ends_with('/'))
}

fn compose(
    exchange: &Exchange<'_, '_>,
    out: &mut Out,
    form: &KeptForm,
    seen: Seen,
    now: Ms,
) -> Option<Delivered> {
    let page = form.page()?;
    let mut meta = page.meta;
    (meta.response_time, meta.date) = (now, now / 1000);
    let part = deliver::part(exchange, &page, &meta)?;
    let served = Served::file(seen);
    let before = out.pending();
    let keep = exchange.keep();
    let head = HeadWriter(out.scratch());
    let Spans { status, body } =
        deliver::compose_page(exchange, head, &page, &meta, &served, &part, keep);
    let head_bytes = out.pending() - before;
    if !exchange.request.is_head() {
        send(out, form.content(), body);
    }
    let bytes = out.pending() - before;
    Some(Delivered {
        status,
        bytes,
        body_bytes: bytes - head_bytes,
        keep,
        result: served.result(status),
        hierarchy: Hierarchy::None,
        content_type: exchange.worker.shows().then(|| content_type(page.head)).flatten(),
        cache_status: logged_status(exchange, &served.meta().cache_status),
    })
}

fn send(out: &mut Out, content: &KeptContent, body: Body) {
    match body {
        Body::None => {}
        Body::One(range) => append(out, content, (range.first, range.last + 1)),
        Body::Many(parts, end) => {
            for (before, range) in parts {
                out.scratch().extend_from_slice(&before);
                append(out, content, (range.first, range.last + 1));
            }
            out.scratch().extend_from_slice(&end);
        }
    }
}

fn append(out: &mut Out, content: &KeptContent, (from, to): (u64, u64)) {
    match content {
        KeptContent::Memory(bytes) => {
            let part = bytes.get(from as usize..to as usize).unwrap_or_default();
            out.scratch().extend_from_slice(part);
        }
        KeptContent::File(file) => out.copied(file.clone(), from, to),
    }
}
