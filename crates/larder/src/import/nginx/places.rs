//! Single directives of nginx: addresses, paths, files, the log.

use super::{
    super::{
        draft::{Draft, Keys, origin},
        times,
    },
    parse::Directive,
};

/// Keys of an origin with files: `try_files`, `index`, `autoindex`.
pub(super) fn tree(directives: &[Directive], keys: &mut Keys, draft: &mut Draft) {
    let proxied = directives.iter().any(|directive| directive.name() == "proxy_pass");
    for directive in directives {
        match directive.name() {
            "try_files" if directive.args().iter().any(|place| place.starts_with('@')) => {
                let why = "a file or else another server has no counterpart: give the paths of \
                           files a [[site.rule]] with origin = \"files:...\"";
                draft.leave(directive.line, directive.text(), why);
            }
            "try_files" if proxied => {
                let why = "files before a server have no counterpart: give their paths a \
                           [[site.rule]] with origin = \"files:...\"";
                draft.leave(directive.line, directive.text(), why);
            }
            _ if proxied => {}
            "try_files" if !keys.has("try_files") => {
                directive.args().iter().for_each(|place| keys.add("try_files", place));
            }
            "autoindex" if directive.arg() == "on" => keys.set("listing", "true"),
            _ => {}
        }
    }
}

/// The place in the path of a request that a location names, if it is the beginning of one.
fn beginning(location: Option<&Directive>) -> Option<&str> {
    let Some(location) = location else { return Some("/") };
    match location.args() {
        [path] if path.starts_with('/') => Some(path),
        [sign, path] if sign == "^~" => Some(path),
        _ => None,
    }
}

/// Scheme, server and path of `proxy_pass`: with a path, even `/`, nginx puts it in the place of
/// the location's.
pub(super) fn target(pass: &Directive) -> (&str, &str, Option<&str>) {
    let (scheme, rest) = pass.arg().split_once("://").unwrap_or(("http", pass.arg()));
    if let Some(socket) = rest.strip_prefix("unix:") {
        return match socket.split_once(':') {
            Some((socket, path)) => {
                let end = "unix:".len() + socket.len();
                (scheme, &rest[..end], Some(path).filter(|path| !path.is_empty()))
            }
            None => (scheme, rest, None),
        };
    }
    match rest.find('/') {
        Some(at) => (scheme, &rest[..at], Some(&rest[at..])),
        None => (scheme, rest, None),
    }
}

/// `strip_prefix` and `add_prefix`, where the server's path takes the place of the location's.
pub(super) fn prefixes(
    location: Option<&Directive>,
    directives: &[Directive],
    keys: &mut Keys,
    draft: &mut Draft,
) {
    let find = |name: &str| directives.iter().rev().find(|directive| directive.name() == name);
    let (directive, to) = match (find("proxy_pass"), find("alias")) {
        (Some(pass), _) => match target(pass).2 {
            Some(path) => (pass, path),
            None => return,
        },
        (None, Some(alias)) => (alias, "/"),
        (None, None) => return,
    };
    let from = beginning(location).filter(|from| {
        // `/api/` becomes `/v1`, and `/api/x` becomes `/v1x`.
        let cuts = from.ends_with('/') && !to.ends_with('/');
        !to.contains(['$', '?']) && !cuts
    });
    let Some(from) = from else {
        let why = "its path takes the place of the location's: strip_prefix and add_prefix of the \
                   [[site.rule]], by hand";
        return draft.leave(directive.line, directive.text(), why);
    };
    let (from, to) = (from.trim_end_matches('/'), to.trim_end_matches('/'));
    if from == to {
        return;
    }
    if !from.is_empty() {
        keys.text("strip_prefix", from);
    }
    if !to.is_empty() {
        keys.text("add_prefix", to);
    }
}

pub(super) fn with_scheme(scheme: &str, server: &str) -> String {
    match server.strip_prefix("unix:") {
        Some(path) if scheme == "fcgi" => format!("fcgi+unix:{path}"),
        Some(path) => format!("http+unix:{path}"),
        None if scheme == "fcgi" && !server.contains(':') => format!("fcgi://{server}:9000"),
        None => format!("{scheme}://{server}"),
    }
}

/// The value of `name=value` among the arguments.
pub(super) fn value_of(directive: &Directive, name: &str) -> Option<String> {
    let of = |word: &String| Some(word.strip_prefix(name)?.strip_prefix('=')?.to_owned());
    directive.args().iter().find_map(of)
}

/// Whether an inner directive replaces an outer one.
pub(super) fn overrides(inner: &Directive, outer: &Directive) -> bool {
    let list = matches!(
        outer.name(),
        "proxy_cache_valid" | "fastcgi_cache_valid" | "add_header" | "proxy_set_header"
    );
    let sources = ["proxy_pass", "fastcgi_pass", "root", "alias"];
    let both = sources.contains(&inner.name())
        && sources.contains(&outer.name())
        && inner.name() != "root"
        && outer.name() != "root";
    (!list && inner.name() == outer.name()) || both
}

/// The order in which nginx looks at locations; the first match counts here.
pub(super) fn order(location: &Directive) -> (u8, std::cmp::Reverse<usize>) {
    let length = std::cmp::Reverse(location.args().last().map_or(0, String::len));
    match location.arg() {
        "=" => (0, length),
        "^~" => (1, length),
        "~" | "~*" => (2, std::cmp::Reverse(0)),
        _ => (3, length),
    }
}

/// The condition of a location. False: it cannot be said.
pub(super) fn path(location: &Directive, keys: &mut Keys) -> bool {
    let pattern = location.args().last().map_or("", String::as_str);
    match location.arg() {
        "=" => keys.text("path", pattern),
        "~" | "~*" => match times::regex(pattern, location.arg() == "~*") {
            Some(regex) => keys.text("path_regex", &regex),
            None => return false,
        },
        name if name.starts_with('@') => return false,
        _ => keys.text("path", &format!("{pattern}*")),
    }
    true
}

pub(super) fn listen(directive: &Directive, draft: &mut Draft) {
    let tls = directive.args().iter().any(|word| word == "ssl");
    if directive.args().iter().any(|word| word == "quic") {
        draft.https.set("http3", "true");
        return;
    }
    match times::listen(directive.arg(), 80) {
        Some(address) if tls => draft.https.add("listen", &address),
        Some(address) => draft.http.add("listen", &address),
        None => {
            draft.leave(directive.line, directive.text(), "pages are served on TCP addresses only")
        }
    }
    if directive.args().iter().any(|word| word == "proxy_protocol") {
        draft.http.set("proxy_protocol", "true");
        draft.leave(directive.line, directive.text(), "name the proxies: http.trusted_proxies");
    }
}

pub(super) fn body_size(directive: &Directive, draft: &mut Draft) {
    match times::size(directive.arg()) {
        Some(size) if size != "0" => draft.limits.text("request_body", &size),
        _ => {}
    }
}

pub(super) fn access_log(directive: &Directive, draft: &mut Draft) {
    if directive.arg() == "off" || draft.http.has("access_log") {
        return;
    }
    let path = directive.arg().replace("/nginx/", "/larder/");
    let format = directive.args().get(1).map_or("combined", String::as_str);
    let format = if format.contains("json") { "json" } else { "combined" };
    let mut log = Keys::default();
    log.text("path", &path);
    log.text("format", format);
    let log = origin(&[], &log);
    draft.http.set("access_log", log.replacen("url = [], ", "", 1));
}

/// The directory of a cache, as `[disk]`.
pub(super) fn disk(directive: &Directive, draft: &mut Draft) {
    let Some(size) = value_of(directive, "max_size").and_then(|text| times::memory(&text)) else {
        return draft.notes.push(format!(
            "nginx keeps pages in {}; Larder keeps them in memory, and evicts the least used. \
             `[disk]` keeps more of them.",
            directive.arg()
        ));
    };
    if draft.disk.has("path") {
        let why = "there is one disk for all sites: add this to the size of [disk]";
        return draft.leave(directive.line, directive.text(), why);
    }
    let path = directive.arg().trim_end_matches('/');
    let own = path.replace("nginx", "larder");
    draft.disk.text("path", &if own == path { format!("{path}-larder") } else { own });
    draft.disk.text("size", &size);
    draft.notes.push(format!(
        "Pages that leave memory are kept in up to {size} on disk, as nginx keeps them all; \
         `memory` is beside it: give it what the machine can spare. The directory is Larder's \
         own."
    ));
}
