//! A configuration of nginx with `proxy_cache` or `fastcgi_cache`: servers, locations, upstreams.

use std::collections::BTreeMap;

mod cache;
mod parse;
mod places;

use self::{
    cache::{Context, policy},
    parse::{Directive, parse},
    places::{
        access_log, body_size, disk, listen, order, overrides, path, prefixes, target, tree,
        value_of, with_scheme,
    },
};
use super::{
    draft::{Draft, Keys, RuleDraft, SiteDraft, origin},
    times,
};

/// Directives that have no counterpart and need none: Larder does it so, or it does not matter.
const NEEDLESS: &[&str] = &[
    "proxy_cache_lock",
    "proxy_cache_lock_timeout",
    "proxy_cache_lock_age",
    "proxy_http_version",
    "proxy_buffering",
    "proxy_buffers",
    "proxy_buffer_size",
    "proxy_busy_buffers_size",
    "proxy_temp_path",
    "proxy_redirect",
    "proxy_cache_revalidate",
    "proxy_cache_background_update",
    "proxy_max_temp_file_size",
    "proxy_request_buffering",
    "proxy_intercept_errors",
    "fastcgi_cache_lock",
    "fastcgi_buffers",
    "fastcgi_buffer_size",
    "fastcgi_keep_conn",
    "fastcgi_cache_background_update",
    "fastcgi_cache_revalidate",
    "fastcgi_index",
    "sendfile",
    "tcp_nopush",
    "tcp_nodelay",
    "keepalive",
    "keepalive_requests",
    "zone",
    "types_hash_max_size",
    "server_tokens",
    "default_type",
    "error_log",
    "pid",
    "events",
    "worker_connections",
    "log_not_found",
    "charset",
    "etag",
    "gzip_types",
    "gzip_vary",
    "gzip_proxied",
    "gzip_comp_level",
    "gzip_min_length",
    "gzip_disable",
    "brotli",
    "brotli_types",
    "brotli_comp_level",
    "ssl_session_cache",
    "ssl_session_timeout",
    "ssl_session_tickets",
    "ssl_ciphers",
    "ssl_prefer_server_ciphers",
    "ssl_dhparam",
    "ssl_ecdh_curve",
    "http2",
    "autoindex_exact_size",
    "set",
    "multi_accept",
    "use",
    "server_names_hash_bucket_size",
    "map_hash_bucket_size",
    "reset_timedout_connection",
];

/// The draft of a file.
pub(super) fn draft(text: &str) -> Draft {
    let mut draft = Draft::default();
    let mut all = Vec::new();
    for directive in parse(text) {
        match directive.name() {
            "http" => all.extend(directive.block.unwrap_or_default()),
            _ => all.push(directive),
        }
    }
    let mut nginx = Nginx { wordpress: text.contains("wordpress_logged_in"), ..Nginx::default() };
    nginx.collect(&all, &mut draft);
    for directive in &all {
        match directive.name() {
            "server" => nginx.server(directive, &mut draft),
            "upstream" | "proxy_cache_path" | "fastcgi_cache_path" | "limit_req_zone" => {}
            _ => nginx.global(directive, &mut draft),
        }
    }
    if draft.sites.is_empty() {
        draft.leave(0, "server", "no server has a proxy_pass, a fastcgi_pass or a root");
    }
    draft
}

/// Names that the servers refer to.
#[derive(Default)]
struct Nginx {
    /// Servers of each upstream, and the keys of its origin.
    upstreams: BTreeMap<String, (Vec<String>, Keys)>,
    /// `inactive` of each zone.
    zones: BTreeMap<String, String>,
    /// Rates of `limit_req_zone`.
    rates: BTreeMap<String, String>,
    /// The skip rules are those that WordPress's guides have.
    wordpress: bool,
    /// Directives of the level of `http` that every server has.
    common: Vec<Directive>,
}

impl Nginx {
    fn collect(&mut self, all: &[Directive], draft: &mut Draft) {
        for directive in all {
            match directive.name() {
                "upstream" => self.upstream(directive, draft),
                "proxy_cache_path" | "fastcgi_cache_path" => self.zone(directive, draft),
                "limit_req_zone" => {
                    let named = |key: &str| value_of(directive, key);
                    let zone =
                        named("zone").and_then(|zone| Some(zone.split(':').next()?.to_owned()));
                    if let (Some(zone), Some(rate)) = (zone, named("rate")) {
                        self.rates.insert(zone, rate.replace("r/", "/"));
                    }
                }
                name if name.starts_with("proxy_") || name.starts_with("fastcgi_") => {
                    self.common.push(directive.clone());
                }
                _ => {}
            }
        }
    }

    fn zone(&mut self, directive: &Directive, draft: &mut Draft) {
        let zone = value_of(directive, "keys_zone").unwrap_or_default();
        let name = zone.split(':').next().unwrap_or_default().to_owned();
        let inactive = value_of(directive, "inactive").and_then(|text| times::time(&text));
        self.zones.insert(name, inactive.unwrap_or_else(|| "10m".to_owned()));
        disk(directive, draft);
    }

    fn upstream(&mut self, directive: &Directive, draft: &mut Draft) {
        let (mut servers, mut keys) = (Vec::new(), Keys::default());
        for inner in directive.inner() {
            match inner.name() {
                "server" => {
                    let mut url = inner.arg().to_owned();
                    for word in &inner.args()[1.min(inner.args().len())..] {
                        match word.split_once('=').unwrap_or((word, "")) {
                            ("weight", weight) => url.push_str(&format!(" weight={weight}")),
                            ("backup", _) => url.push_str(" backup"),
                            ("max_fails", "0") => {}
                            ("max_fails", fails) => keys.set("max_failures", fails),
                            ("fail_timeout", time) => {
                                if let Some(time) = times::time(time) {
                                    keys.text("failure_pause", &time);
                                }
                            }
                            _ => draft.leave(
                                inner.line,
                                inner.text(),
                                format!("`{word}` has no counterpart"),
                            ),
                        }
                    }
                    servers.push(url);
                }
                "least_conn" | "random" => keys.text("balance", "least"),
                "ip_hash" => draft.leave(
                    inner.line,
                    "ip_hash",
                    "clients are bound to a server by a cookie: balance = \"hash:cookie NAME\"",
                ),
                "hash" => keys.text("balance", "hash:url"),
                name if NEEDLESS.contains(&name) || name.starts_with("keepalive") => {}
                _ => draft.leave(inner.line, inner.text(), "no counterpart"),
            }
        }
        let several = servers.len() > 1;
        if several && !keys.has("balance") {
            keys.text("balance", "round-robin");
        }
        self.upstreams.insert(
            directive.arg().to_owned(),
            (servers, if several { keys } else { Keys::default() }),
        );
    }

    /// A directive outside of servers.
    fn global(&self, directive: &Directive, draft: &mut Draft) {
        match directive.name() {
            "worker_processes" if directive.arg() != "auto" => {
                draft.root.set("threads", directive.arg())
            }
            "worker_processes" | "types" => {}
            "user" => draft.root.text("user", directive.arg()),
            "client_max_body_size" => body_size(directive, draft),
            "access_log" => access_log(directive, draft),
            "keepalive_timeout" => {
                if let Some(time) = times::time(directive.arg()) {
                    draft.limits.text("idle_timeout", &time);
                }
            }
            "include" if directive.arg().ends_with("mime.types") => {}
            "include" => draft.leave(
                directive.line,
                directive.text(),
                "included files are not read: import each, or the output of `nginx -T`",
            ),
            name if NEEDLESS.contains(&name) || self.common.contains(directive) => {}
            "gzip" => {}
            _ => draft.leave(directive.line, directive.text(), "no counterpart"),
        }
    }

    fn server(&self, server: &Directive, draft: &mut Draft) {
        let mut site = SiteDraft::default();
        let mut inherited = self.common.clone();
        let mut locations = Vec::new();
        let mut redirects = None;
        for inner in server.inner() {
            match inner.name() {
                "location" => locations.push(inner),
                "listen" => listen(inner, draft),
                "server_name" => {
                    let names =
                        inner.args().iter().filter(|name| *name != "_" && !name.starts_with('~'));
                    site.hosts.extend(names.map(|name| {
                        name.strip_prefix('.').map_or(name.clone(), |rest| format!("*.{rest}"))
                    }));
                }
                "ssl_certificate" => {
                    let key = server.inner().iter().find(|d| d.name() == "ssl_certificate_key");
                    let key = key.map_or(String::new(), |key| key.arg().to_owned());
                    draft.certificates.push((inner.arg().to_owned(), key));
                }
                "ssl_certificate_key" => {}
                "ssl_protocols" => {
                    if !inner.args().iter().any(|version| version == "TLSv1.2") {
                        draft.https.text("min_version", "1.3");
                    }
                }
                "return" if matches!(inner.arg(), "301" | "302" | "308") => redirects = Some(inner),
                "access_log" => access_log(inner, draft),
                "client_max_body_size" => body_size(inner, draft),
                "if" => self.condition(inner, &mut site, draft),
                "ssl" | "index" | "root" | "gzip" | "error_page" => inherited.push(inner.clone()),
                name if NEEDLESS.contains(&name) => {}
                name if name.starts_with("proxy_") || name.starts_with("fastcgi_") => {
                    inherited.push(inner.clone())
                }
                "add_header" | "expires" | "try_files" | "limit_req" | "include" | "autoindex" => {
                    inherited.push(inner.clone())
                }
                _ => draft.leave(inner.line, inner.text(), "no counterpart"),
            }
        }
        if let Some(redirect) = redirects {
            let place = redirect.args().get(1).map_or("", String::as_str);
            if place.starts_with("https://$") {
                draft.https.set("redirect", "true");
            } else {
                draft.leave(
                    redirect.line,
                    redirect.text(),
                    "a site with only a redirect: redirect in a [[site.rule]]",
                );
            }
            return;
        }
        self.locations(site, &inherited, locations, draft);
    }

    /// The site of a server: its main location is the site, the others are rules.
    fn locations(
        &self,
        mut site: SiteDraft,
        inherited: &[Directive],
        mut locations: Vec<&Directive>,
        draft: &mut Draft,
    ) {
        locations.sort_by_key(|location| order(location));
        let main = locations.iter().position(|location| location.args() == ["/"]);
        let main = main.map(|at| locations.remove(at));
        let context = |location: Option<&Directive>| {
            let own = location.map(Directive::inner).unwrap_or_default();
            let mut all = inherited.to_vec();
            all.retain(|outer| !own.iter().any(|inner| overrides(inner, outer)));
            all.extend(own.iter().cloned());
            all
        };
        let mut directives = context(main);
        // Scripts of the front controller: Larder serves the files beside them by itself.
        let is_php = |location: &&Directive| {
            location.text().contains("\\.php")
                && location.inner().iter().any(|d| d.name() == "fastcgi_pass")
        };
        let proxied = directives.iter().any(|d| d.name() == "proxy_pass");
        if let Some(at) = locations.iter().position(|one| !proxied && is_php(one)) {
            directives.extend(context(Some(locations.remove(at))));
        }
        let mut extra = Keys::default();
        let urls = self.source(&directives, &mut extra, draft);
        site.origin = urls;
        site.origin_keys = extra;
        tree(&directives, &mut site.origin_keys, draft);
        prefixes(main, &directives, &mut site.keys, draft);
        let context_of = Context { zones: &self.zones, rates: &self.rates, needless: NEEDLESS };
        policy(&context_of, &directives, &mut site.keys, &mut site.origin_keys, draft);
        if self.wordpress {
            site.keys.text("preset", "wordpress");
        }
        for location in locations {
            self.location(location, &context(Some(location)), &mut site, draft);
        }
        if !site.origin.is_empty() {
            draft.sites.push(site);
        }
    }

    /// A rule for a location; the first with a source is the site's, if it has none.
    fn location(
        &self,
        location: &Directive,
        directives: &[Directive],
        site: &mut SiteDraft,
        draft: &mut Draft,
    ) {
        let mut rule = RuleDraft::default();
        if !path(location, &mut rule.keys) {
            let why = match location.arg().starts_with('@') {
                true => "a named location: its settings are those of a [[site.rule]], by hand",
                false => "its expression is not understood here",
            };
            return draft.leave(location.line, location.text(), why);
        }
        let own = location.inner();
        let refuses = |d: &&Directive| {
            d.name() == "deny" || (d.name() == "return" && d.arg().starts_with('4'))
        };
        if own.iter().any(|d| d.name() == "internal") {
            // Its files may lie below the root of the others.
            let why = "no path is internal here: let the origin refuse it, or give it a \
                       [[site.rule]] with a files origin and try_files = [\"=404\"]; files that \
                       X-Accel-Redirect names are found by send_files of the origin";
            return draft.leave(location.line, format!("{}: internal", location.text()), why);
        }
        if let Some(denied) = own.iter().find(refuses) {
            let why = "no path is refused here, and this one is served: let the origin refuse it, \
                       or try_files = [\"=404\"] of a files origin";
            let text = format!("{}: {}", location.text(), denied.text());
            return draft.leave(denied.line, text, why);
        }
        if let Some(moved) = own.iter().find(|d| d.name() == "return") {
            let place = moved.args().get(1).map_or("", String::as_str);
            let place = place.replace("$request_uri", "$uri");
            rule.keys.text("redirect", &format!("{} {place}", moved.arg()));
            return site.rules.push(rule);
        }
        let mut keys = Keys::default();
        let mut urls = self.source(directives, &mut keys, draft);
        let of_files = urls.iter().any(|url| url.starts_with("files:"));
        let names_one = own.iter().any(|d| matches!(d.name(), "root" | "alias"));
        if of_files && !names_one && site.origin.iter().any(|url| url.starts_with("fcgi")) {
            // The root of scripts: their origin serves the files beside them.
            urls.clear();
        }
        if urls.is_empty() {
            own.iter().filter(|d| matches!(d.name(), "try_files" | "autoindex")).for_each(|d| {
                let why = "it is a key of an origin: give the rule an origin of its own";
                draft.leave(d.line, format!("{}: {}", location.text(), d.text()), why);
            });
        } else {
            tree(own, &mut keys, draft);
        }
        prefixes(Some(location), directives, &mut rule.keys, draft);
        let stays = site.keys.has("add_prefix") && !rule.keys.has("add_prefix");
        if stays && !urls.is_empty() {
            let why = "add_prefix of the site is one of its rules too: move it to a rule for `/*` \
                       behind this one";
            draft.leave(location.line, location.text(), why);
        }
        let context = Context { zones: &self.zones, rates: &self.rates, needless: NEEDLESS };
        policy(&context, directives, &mut rule.keys, &mut keys, draft);
        if !urls.is_empty() && site.origin.is_empty() {
            (site.origin, site.origin_keys) = (urls, keys);
        } else if !urls.is_empty() && (urls != site.origin || keys != site.origin_keys) {
            rule.keys.set("origin", origin(&urls, &keys));
        }
        // One with a condition alone changes nothing.
        if rule.keys.len() > 1 {
            site.rules.push(rule);
        }
    }

    /// The URLs that a context's pages come from.
    fn source(&self, directives: &[Directive], keys: &mut Keys, draft: &mut Draft) -> Vec<String> {
        let find = |name: &str| directives.iter().rev().find(|d| d.name() == name);
        let root = find("root").map(|root| root.arg().to_owned());
        if let Some(pass) = find("proxy_pass") {
            let (scheme, name, _) = target(pass);
            if name.contains('$') {
                draft.leave(
                    pass.line,
                    pass.text(),
                    "a server chosen by a variable: write each as an origin",
                );
                return Vec::new();
            }
            let Some((servers, more)) = self.upstreams.get(name) else {
                return vec![match name.strip_prefix("unix:") {
                    Some(path) => format!("http+unix:{path}"),
                    None => format!("{scheme}://{name}"),
                }];
            };
            keys.clone_from(more);
            return servers.iter().map(|server| with_scheme(scheme, server)).collect();
        }
        if let Some(pass) = find("fastcgi_pass").or(find("php_fastcgi_pass")) {
            if let Some(root) = root {
                keys.text("root", &root);
            }
            let upstream = self.upstreams.get(pass.arg()).map(|(servers, _)| servers.clone());
            let servers = upstream.unwrap_or_else(|| vec![pass.arg().to_owned()]);
            return servers.iter().map(|server| with_scheme("fcgi", server)).collect();
        }
        let alias = find("alias").map(|alias| alias.arg().trim_end_matches('/').to_owned());
        if alias.as_ref().is_some_and(|alias| alias.contains('$')) {
            // It is told with its prefix.
            return Vec::new();
        }
        alias.or(root).map(|root| format!("files:{root}")).into_iter().collect()
    }

    /// `if` of a server.
    fn condition(&self, directive: &Directive, site: &mut SiteDraft, draft: &mut Draft) {
        let text = directive.args().join(" ");
        let text = text.trim_start_matches('(').trim_end_matches(')').trim();
        let skips = directive.inner().iter().any(|inner| {
            inner.name() == "set" && inner.args().last().is_some_and(|value| value != "0")
        });
        let words: Vec<&str> = text.splitn(3, ' ').collect();
        match words.as_slice() {
            ["$request_method", "=", "POST"] if skips => {}
            ["$http_cookie", ..] if skips && self.wordpress => {}
            ["$request_uri", operator @ ("~" | "~*"), pattern] if skips => {
                match times::regex(pattern.trim_matches(['"', '\'']), *operator == "~*") {
                    Some(regex) => {
                        let mut rule = RuleDraft::default();
                        rule.keys.text("path_regex", &regex);
                        rule.keys.set("pass", "true");
                        site.rules.push(rule);
                    }
                    None => draft.leave(
                        directive.line,
                        directive.text(),
                        "its expression is not understood here",
                    ),
                }
            }
            _ => draft.leave(
                directive.line,
                directive.text(),
                "conditions are rules here: cookie, header, path_regex of a [[site.rule]]",
            ),
        }
    }
}
