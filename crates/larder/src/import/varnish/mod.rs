//! VCL, and the flags of varnishd.

mod actions;
mod conditions;
mod parse;

use self::{
    actions::action,
    conditions::{conditions, covered},
    parse::{Declaration, Statement, parse, unquoted},
};
use super::{
    draft::{Draft, Keys, RuleDraft, SiteDraft, origin},
    times,
};

/// The draft of a VCL file and of varnishd's flags.
pub(super) fn draft(text: &str, flags: &[String]) -> Draft {
    let mut draft = Draft::default();
    let mut vcl = Vcl { site: SiteDraft::default(), ..Vcl::default() };
    let declarations = parse(text);
    for declaration in &declarations {
        match declaration.kind.as_str() {
            "backend" => vcl.backend(declaration, &mut draft),
            "acl" => vcl.acl(declaration, &mut draft),
            "vcl" | "import" | "probe" | "" => {}
            "include" => draft.leave(
                declaration.line,
                format!("include {}", declaration.name),
                "included files are not read",
            ),
            "sub" => {}
            kind => draft.leave(
                declaration.line,
                format!("{kind} {}", declaration.name),
                "no counterpart",
            ),
        }
    }
    for sub in declarations.iter().filter(|one| one.kind == "sub") {
        match sub.name.as_str() {
            "vcl_recv" => vcl.statements(&sub.inner, Side::Request, &mut draft),
            "vcl_backend_response" | "vcl_fetch" => vcl.statements(&sub.inner, Side::Response, &mut draft),
            "vcl_deliver" => vcl.statements(&sub.inner, Side::Deliver, &mut draft),
            "vcl_init" => vcl.init(&sub.inner, &mut draft),
            "vcl_hash" => vcl.hash(&sub.inner, &mut draft),
            "vcl_pipe" | "vcl_pass" | "vcl_purge" | "vcl_fini" => {}
            name => draft.leave(sub.line, format!("sub {name}"), "subroutines beside vcl_recv, vcl_backend_response and vcl_deliver have no counterpart"),
        }
    }
    vcl.pass_cookies(&declarations);
    if vcl.site.origin.is_empty() {
        vcl.site.origin = vcl.backends.first().map(|(_, url, _)| url.clone()).into_iter().collect();
    }
    if let [(_, _, keys), ..] = &vcl.backends[..] {
        vcl.site.origin_keys =
            if vcl.site.origin_keys.is_empty() { keys.clone() } else { vcl.site.origin_keys };
    }
    if vcl.site.origin.is_empty() {
        draft.leave(0, "backend", "there is none: Larder needs an origin");
    } else {
        draft.sites.push(vcl.site);
    }
    varnishd(flags, &mut draft);
    draft
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Request,
    Response,
    Deliver,
}

#[derive(Default)]
struct Vcl {
    site: SiteDraft,
    /// Name, URL, keys of the origin.
    backends: Vec<(String, String, Keys)>,
    acls: Vec<(String, Vec<String>)>,
}

impl Vcl {
    fn backend(&mut self, declaration: &Declaration, draft: &mut Draft) {
        let (mut host, mut port, mut tls) = (String::new(), String::new(), false);
        let mut keys = Keys::default();
        let mut probe = Keys::default();
        for statement in &declaration.inner {
            let Statement::Plain { line, words } = statement else { continue };
            let value = words.get(2).map_or("", |word| unquoted(word));
            let time = words.get(2..).map(|words| words.concat());
            let time = time.and_then(|time| times::time(unquoted(&time)));
            match (words[0].as_str(), time) {
                (".host", _) => value.clone_into(&mut host),
                (".port", _) => value.clone_into(&mut port),
                (".path", _) => host = format!("unix:{value}"),
                (".ssl", _) => tls = value == "1" || value == "true",
                (".host_header", _) => keys.text("host_header", value),
                (
                    ".connect_timeout" | ".first_byte_timeout" | ".between_bytes_timeout",
                    Some(time),
                ) => {
                    keys.text(&words[0][1..], &time);
                }
                (".max_connections", _) => keys.set("max_requests", value),
                (".url", _) => probe.text("path", value),
                (".interval", Some(time)) => probe.text("interval", &time),
                (".timeout", Some(time)) => probe.text("timeout", &time),
                (".probe" | ".window" | ".threshold" | ".initial", _) => {}
                _ => draft.leave(*line, words.join(" "), "no counterpart"),
            }
        }
        if probe.has("path") {
            let table = origin(&[], &probe).replacen("url = [], ", "", 1);
            keys.set("health", table);
        }
        let url = match host.strip_prefix("unix:") {
            Some(path) => format!("http+unix:{path}"),
            None => {
                let scheme = if tls { "https" } else { "http" };
                let port = if port.is_empty() { if tls { "443" } else { "80" } } else { &port };
                format!("{scheme}://{host}:{port}")
            }
        };
        if declaration.name != "none" && !host.is_empty() {
            self.backends.push((declaration.name.clone(), url, keys));
        }
    }

    /// The VCL that is built in passes requests with cookies, where a file does not remove them or
    /// ends before it.
    fn pass_cookies(&mut self, declarations: &[Declaration]) {
        let ends = |statement: &Statement| match statement {
            Statement::Plain { words, .. } => words.starts_with(&["return".to_owned()]),
            _ => false,
        };
        let mut all = declarations.iter().filter(|one| one.name == "vcl_recv");
        if all.any(|one| one.inner.iter().any(ends)) || self.site.keys.has("bypass_cookies") {
            return;
        }
        self.site.keys.set("bypass_cookies", "[\"*\"]");
        let note = "Varnish passes requests with cookies unless the VCL removes them: name those \
                    that matter in bypass_cookies, and ignore the others.";
        self.site.notes.push(note.to_owned());
    }

    /// A list with an exception names nobody: without the exception, it would name too many.
    fn acl(&mut self, declaration: &Declaration, draft: &mut Draft) {
        let (mut nets, mut excepts) = (Vec::new(), false);
        for statement in &declaration.inner {
            let Statement::Plain { line, words } = statement else { continue };
            let net = words.concat().replace('"', "");
            match net.as_str() {
                "localhost" => nets.extend(["127.0.0.1".to_owned(), "::1".to_owned()]),
                net if net.starts_with('!') => {
                    excepts = true;
                    let text = format!("acl {}: {}", declaration.name, words.join(" "));
                    let why = "a list has no exceptions here, so nobody of it may purge: name \
                               those that may, purge = { from = [...] }";
                    draft.leave(*line, text, why);
                }
                net => nets.push(net.to_owned()),
            }
        }
        if excepts {
            nets.clear();
        }
        self.acls.push((declaration.name.clone(), nets));
    }

    /// Directors: every backend that is added is a server of the site.
    fn init(&mut self, statements: &[Statement], draft: &mut Draft) {
        for statement in statements {
            let Statement::Plain { line, words } = statement else { continue };
            let text = words.join(" ");
            if text.contains("add_backend") {
                let name = words
                    .iter()
                    .rev()
                    .find(|word| self.backends.iter().any(|(held, ..)| held == *word));
                let found =
                    name.and_then(|name| self.backends.iter().find(|(held, ..)| held == name));
                self.site.origin.extend(found.map(|(_, url, _)| url.clone()));
            } else if text.contains("round_robin") {
                self.site.origin_keys.text("balance", "round-robin");
            } else if text.contains("random") || text.contains("fallback") {
                self.site.origin_keys.text("balance", "least");
            } else if text.contains("hash") || text.contains("shard") {
                self.site.origin_keys.text("balance", "hash:url");
            } else {
                draft.leave(*line, text, "no counterpart");
            }
        }
    }

    fn hash(&mut self, statements: &[Statement], draft: &mut Draft) {
        for statement in statements {
            let Statement::Plain { line, words } = statement else {
                draft.leave(
                    line_of(statement),
                    "if in vcl_hash",
                    "key_fields and vary_cookies name what is in the key",
                );
                continue;
            };
            let text = words.concat();
            match text.strip_prefix("hash_data(").map(|rest| rest.trim_end_matches(')')) {
                Some("req.url" | "req.http.host" | "server.ip") => {}
                Some(field) if field.starts_with("req.http.") => {
                    let field = &field["req.http.".len()..];
                    match field.to_ascii_lowercase().as_str() {
                        "cookie" => draft.leave(
                            *line,
                            &text,
                            "name the cookies that select a page: vary_cookies",
                        ),
                        "x-forwarded-proto" => {}
                        _ => self.site.keys.add("key_fields", field),
                    }
                }
                None if text.starts_with("return") => {}
                _ => draft.leave(*line, text, "it cannot be in the key"),
            }
        }
    }

    fn statements(&mut self, statements: &[Statement], side: Side, draft: &mut Draft) {
        for statement in statements {
            match statement {
                Statement::If { line, condition, inner } => {
                    self.condition(*line, condition, inner, side, draft)
                }
                Statement::Else { line, condition, .. } => {
                    let text = format!("else {}", condition.join(" "));
                    draft.leave(
                        *line,
                        text.trim(),
                        "rules are looked at one by one: write its condition into a [[site.rule]]",
                    );
                }
                Statement::Plain { line, words } => {
                    let mut keys = std::mem::take(&mut self.site.keys);
                    if !action(words, side, &mut keys) {
                        draft.leave(*line, words.join(" "), "no counterpart");
                    }
                    self.site.keys = keys;
                }
            }
        }
    }

    fn condition(
        &mut self,
        line: usize,
        condition: &[String],
        inner: &[Statement],
        side: Side,
        draft: &mut Draft,
    ) {
        let text = condition.join(" ");
        if inner
            .iter()
            .flat_map(flat)
            .any(|words| words.contains("return ( purge )") || words.contains("ban ("))
        {
            return self.purges(line, &text, condition, inner, draft);
        }
        if covered(&text, side) {
            return;
        }
        let Some((rules, whole)) = conditions(condition, side) else {
            return draft.leave(line, format!("if {text}"), "its condition has no counterpart: path_regex, method, cookie, header of a [[site.rule]]");
        };
        if !whole {
            let why = "a part of it has no counterpart (rules do not look at the query): the other \
                       parts are rules";
            draft.leave(line, format!("if {text}"), why);
        }
        let mut effects = Keys::default();
        for statement in inner {
            match statement {
                Statement::Plain { line, words } => {
                    if !action(words, side, &mut effects) {
                        draft.leave(*line, words.join(" "), "no counterpart");
                    }
                }
                _ => draft.leave(
                    line_of(statement),
                    "a condition in a condition",
                    "write a [[site.rule]] with both",
                ),
            }
        }
        if effects.is_empty() {
            return;
        }
        for mut keys in rules {
            keys.extend(&effects);
            self.site.rules.push(RuleDraft { keys, notes: Vec::new() });
        }
    }

    /// PURGE and BAN: who may.
    fn purges(
        &mut self,
        line: usize,
        text: &str,
        condition: &[String],
        inner: &[Statement],
        draft: &mut Draft,
    ) {
        let all: String = inner.iter().flat_map(flat).collect::<Vec<_>>().join(" ");
        let everything = format!("{} {all}", condition.join(" "));
        let named =
            self.acls.iter().find(|(name, _)| everything.split(' ').any(|word| word == name));
        match named {
            Some((_, nets)) => self.site.purge_from.extend(nets.iter().cloned()),
            None => draft.leave(
                line,
                format!("if {text}"),
                "nobody is named who may purge: purge = { from = [...] }",
            ),
        }
        if all.contains("ban (") {
            draft.leave(line, format!("if {text}"), "bans by expression: `larder purge --ban`, or the purge methods of the presets (BAN, PURGE with Cache-Tags)");
        }
    }
}

/// All statements below one, as text.
fn flat(statement: &Statement) -> Vec<String> {
    match statement {
        Statement::Plain { words, .. } => vec![words.join(" ")],
        Statement::If { condition, inner, .. } | Statement::Else { condition, inner, .. } => {
            let mut all = vec![condition.join(" ")];
            all.extend(inner.iter().flat_map(flat));
            all
        }
    }
}

fn line_of(statement: &Statement) -> usize {
    match statement {
        Statement::If { line, .. }
        | Statement::Else { line, .. }
        | Statement::Plain { line, .. } => *line,
    }
}

/// varnishd's flags.
fn varnishd(flags: &[String], draft: &mut Draft) {
    if !flags.iter().any(|flag| flag.starts_with("-a")) {
        draft.http.add("listen", "0.0.0.0:80");
        draft.notes.push("varnishd listens on port 80 unless `-a` says otherwise.".to_owned());
    }
    let mut words = flags.iter().map(String::as_str).peekable();
    while let Some(word) = words.next() {
        let (flag, mut value) = word.split_at(word.len().min(2));
        if value.is_empty() && "-a-s-b-t-f-T-S-n-p-j-P-i-l-M-u-g".contains(flag) && flag.len() == 2
        {
            value = words.next().unwrap_or_default();
        }
        match flag {
            "-a" => {
                let bare = value.split_once('=').map_or(value, |(_, address)| address);
                let (address, protocol) = bare.split_once(',').unwrap_or((bare, ""));
                match times::listen(address, 80) {
                    Some(address) => draft.http.add("listen", &address),
                    None => draft.leave(
                        0,
                        format!("-a {value}"),
                        "pages are served on TCP addresses only",
                    ),
                }
                if protocol.contains("PROXY") {
                    draft.http.set("proxy_protocol", "true");
                    draft.leave(0, format!("-a {value}"), "name the proxies: http.trusted_proxies");
                }
            }
            "-s" => {
                let size = value.split(',').next_back().and_then(times::memory);
                match size {
                    Some(size) if !value.contains("Transient") => draft.root.text("memory", &size),
                    _ => draft.leave(
                        0,
                        format!("-s {value}"),
                        "memory is one size: memory = \"1GiB\"",
                    ),
                }
            }
            "-b" if draft.sites.is_empty() => {
                let origin = vec![format!("http://{value}")];
                draft.sites.push(SiteDraft { origin, ..SiteDraft::default() });
            }
            "-t" => {
                if let (Some(time), Some(site)) = (times::time(value), draft.sites.first_mut()) {
                    site.keys.set(
                        "refresh",
                        format!("{{ min = \"{time}\", percent = 0, max = \"{time}\" }}"),
                    );
                }
            }
            "-f" | "-F" | "-j" | "-P" | "-n" | "-d" | "-i" => {}
            _ => draft.leave(0, format!("{flag} {value}").trim(), "no counterpart"),
        }
    }
}
