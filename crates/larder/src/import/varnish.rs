//! VCL, and the flags of varnishd.

use super::{
    draft::{Draft, Keys, RuleDraft, SiteDraft},
    times,
    vcl::{Declaration, Statement, parse, unquoted},
};

/// The draft of a VCL file and of varnishd's flags.
pub(super) fn draft(text: &str, flags: &[String]) -> Draft {
    let mut draft = Draft::default();
    let mut vcl = Vcl { site: SiteDraft::default(), ..Vcl::default() };
    let declarations = parse(text);
    for declaration in &declarations {
        match declaration.kind.as_str() {
            "backend" => vcl.backend(declaration, &mut draft),
            "acl" => vcl.acl(declaration),
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
            let table = super::draft::origin(&[], &probe).replacen("url = [], ", "", 1);
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

    fn acl(&mut self, declaration: &Declaration) {
        let mut nets = Vec::new();
        for statement in &declaration.inner {
            let Statement::Plain { words, .. } = statement else { continue };
            let net = words.concat().replace('"', "");
            nets.extend(match net.as_str() {
                "localhost" => vec!["127.0.0.1".to_owned(), "::1".to_owned()],
                net if net.starts_with('!') => Vec::new(),
                net => vec![net.to_owned()],
            });
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
        let Some(rules) = conditions(condition, side) else {
            return draft.leave(line, format!("if {text}"), "its condition has no counterpart: path_regex, method, cookie, header of a [[site.rule]]");
        };
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

/// Conditions whose usual effect Larder has by itself.
fn covered(text: &str, side: Side) -> bool {
    let bare: String = text.chars().filter(|c| !c.is_whitespace() && !"()".contains(*c)).collect();
    let methods = bare.replace("req.method", "").replace("req.request", "");
    let only_methods = methods
        .split("&&")
        .all(|part| part.starts_with("!=\"") || part == "==\"POST\"" || part == "==\"OPTIONS\"");
    match side {
        Side::Request => {
            only_methods
                || bare == "req.http.Authorization"
                || bare == "req.restarts==0"
                || bare.contains("req.http.Upgrade~\"i?")
                || bare.contains("req.http.upgrade~\"?i")
                || bare.starts_with("req.http.X-Forwarded-For")
                || bare.starts_with("req.http.x-forwarded-for")
                || bare.contains("req.http.Accept-Encoding")
        }
        Side::Response => {
            bare.contains("beresp.ttl<=0s")
                || bare.contains("beresp.http.Set-Cookie&&")
                || bare.contains("beresp.uncacheable")
        }
        Side::Deliver => bare.starts_with("obj.hits"),
    }
}

/// The conditions of rules, one for each alternative. None: it has no counterpart.
fn conditions(words: &[String], side: Side) -> Option<Vec<Keys>> {
    let words: Vec<&str> =
        words.iter().map(String::as_str).filter(|word| !matches!(*word, "(" | ")")).collect();
    if words.contains(&"&&") && words.contains(&"||") {
        return None;
    }
    if words.contains(&"&&") {
        let mut all = Keys::default();
        for part in words.split(|word| *word == "&&") {
            one(part, side, &mut all)?;
        }
        return Some(vec![all]);
    }
    let each = words.split(|word| *word == "||").map(|part| {
        let mut keys = Keys::default();
        one(part, side, &mut keys).map(|()| keys)
    });
    each.collect()
}

fn one(words: &[&str], side: Side, keys: &mut Keys) -> Option<()> {
    let request = if side == Side::Request || side == Side::Deliver { "req." } else { "bereq." };
    match words {
        [subject, operator, value] => {
            let (subject, value) = (subject.strip_prefix(request)?, unquoted(value));
            match (subject, *operator) {
                ("url", "~") => keys.text("path_regex", &url_regex(value)?),
                ("url", "==") if !value.contains('?') => keys.text("path", value),
                ("method" | "request", "==") => keys.add("method", value),
                (field, "~") if field.eq_ignore_ascii_case("http.cookie") => {
                    let names = cookie_names(value)?;
                    keys.text("cookie", &names);
                }
                (field, "~") if field.starts_with("http.") => {
                    let plain = value.chars().all(|c| c.is_alphanumeric() || "-_/ ".contains(c));
                    plain.then(|| keys.text("header", &format!("{}: *{value}*", &field[5..])))?;
                }
                (field, "==")
                    if field.starts_with("http.") && !field.eq_ignore_ascii_case("http.host") =>
                {
                    keys.text("header", &format!("{}: {value}", &field[5..]));
                }
                _ => return None,
            }
        }
        [subject] => {
            let field = subject.strip_prefix(request)?.strip_prefix("http.")?;
            if field.eq_ignore_ascii_case("cookie") {
                keys.text("cookie", "*");
            } else {
                keys.text("header", &format!("{field}: *"));
            }
        }
        _ => return None,
    }
    Some(())
}

/// An expression over the URL as one over the path, which rules look at.
fn url_regex(pattern: &str) -> Option<String> {
    // The query is often spelled out behind the end of the path.
    let path = pattern.replace("(\\?.*)?$", "$").replace("(\\?.*|)$", "$").replace("(\\?|$)", "$");
    let path = path.replace("(\\?[^\\?]*)?$", "$");
    if path.contains("\\?") {
        return None;
    }
    times::regex(&path, false)
}

/// `wordpress_logged_in|PHPSESSID`, `(^|;\s*)(session)=`: the name of the only cookie.
fn cookie_names(pattern: &str) -> Option<String> {
    let bare =
        pattern.trim_start_matches("(^|;\\s*)").trim_start_matches("(^|; )").trim_end_matches('=');
    let bare = bare.trim_matches(['(', ')']);
    let plain = bare.chars().all(|c| c.is_alphanumeric() || "-_".contains(c)) && !bare.is_empty();
    plain.then(|| format!("{bare}*"))
}

/// A statement as keys. False: it has no counterpart.
fn action(words: &[String], side: Side, keys: &mut Keys) -> bool {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let rest = words.get(3..).unwrap_or_default();
    let value = rest.concat();
    let time = || times::time(unquoted(&value));
    match (side, words.as_slice()) {
        (Side::Request, ["return", "(", "pass" | "pipe", ")"]) => keys.set("pass", "true"),
        (_, ["return", "(", "hash" | "lookup" | "deliver" | "fetch", ")"] | ["return"]) => {}
        (Side::Request, ["unset" | "remove", field])
            if field.eq_ignore_ascii_case("req.http.cookie") =>
        {
            keys.set("ignore_cookies", "[\"*\"]");
        }
        (Side::Request, ["unset" | "remove", field]) if field.starts_with("req.http.") => {
            keys.add("request_fields", &format!("-{}", &field[9..]));
        }
        (Side::Request, ["set", field, "=", ..]) if field.starts_with("req.http.") => {
            let name = &field[9..];
            // The client's address, and the host, are told by themselves.
            if ["x-forwarded-for", "x-real-ip", "x-forwarded-proto", "host"]
                .contains(&name.to_ascii_lowercase().as_str())
            {
                return true;
            }
            let [one] = rest else { return false };
            if !one.starts_with('"') {
                return false;
            }
            keys.add("request_fields", &format!("{name}: {}", unquoted(one)));
        }
        (Side::Request, ["set", "req.backend_hint" | "req.backend", ..] | ["std", ..]) => {}
        (Side::Request, ["set", "req.url", "=", "std.querysort", ..]) => {
            keys.set("sort_query", "true")
        }
        (Side::Response, ["set", "beresp.ttl", "=", ..]) => match time() {
            Some(time) => keys.text("ttl", &time),
            None => return false,
        },
        (Side::Response, ["set", "beresp.grace", "=", ..]) => match time() {
            Some(time) => keys.text("grace", &time),
            None => return false,
        },
        (Side::Response, ["set", "beresp.keep", "=", ..]) => match time() {
            Some(time) => keys.text("keep", &time),
            None => return false,
        },
        (Side::Response, ["set", "beresp.uncacheable", "=", "true"]) => keys.set("pass", "true"),
        (Side::Response, ["set", "beresp.do_gzip", "=", "true"]) => {
            keys.set("compress", "[\"zstd\", \"br\", \"gzip\"]");
        }
        (
            Side::Response,
            ["set", "beresp.do_stream" | "beresp.do_esi" | "beresp.do_gunzip", "=", on],
        ) => {
            return words[1] == "beresp.do_stream" || *on == "false";
        }
        (Side::Response, ["unset" | "remove", field]) if field.starts_with("beresp.http.") => {
            keys.add("response_fields", &format!("-{}", &field[12..]));
        }
        (Side::Response, ["set", field, "=", one])
            if field.starts_with("beresp.http.") && one.starts_with('"') =>
        {
            keys.add("response_fields", &format!("{}: {}", &field[12..], unquoted(one)));
        }
        (Side::Deliver, ["unset" | "remove", field]) if field.starts_with("resp.http.") => {
            let name = &field[10..];
            if !["x-varnish", "via", "age"].contains(&name.to_ascii_lowercase().as_str()) {
                keys.add("response_fields", &format!("-{name}"));
            }
        }
        (Side::Deliver, ["set", field, "=", one])
            if field.starts_with("resp.http.") && one.starts_with('"') =>
        {
            let name = &field[10..];
            // X-Cache says hit or miss by itself.
            if !name.to_ascii_lowercase().starts_with("x-cache") {
                keys.add("response_fields", &format!("{name}: {}", unquoted(one)));
            }
        }
        (
            Side::Deliver,
            ["set", "resp.http.X-Cache" | "resp.http.X-Cache-Hits" | "resp.http.X-Hits", ..],
        ) => {}
        _ => return false,
    }
    true
}

/// varnishd's flags.
fn varnishd(flags: &[String], draft: &mut Draft) {
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
