//! A configuration of Squid as a reverse proxy (`accel`).

mod values;

use std::collections::BTreeMap;

use self::values::{host_of, plain, regexes, squid_time};
use super::{
    draft::{Draft, RuleDraft, SiteDraft},
    times,
};

/// Directives that have no counterpart and need none.
const NEEDLESS: &[&str] = &[
    "collapsed_forwarding",
    "forwarded_for",
    "visible_hostname",
    "unique_hostname",
    "cache_replacement_policy",
    "memory_replacement_policy",
    "coredump_dir",
    "cache_effective_user",
    "cache_effective_group",
    "pid_filename",
    "cache_log",
    "cache_store_log",
    "logfile_rotate",
    "hierarchy_stoplist",
    "icp_port",
    "icp_access",
    "htcp_port",
    "snmp_port",
    "dns_nameservers",
    "never_direct",
    "always_direct",
    "server_persistent_connections",
    "client_persistent_connections",
    "pipeline_prefetch",
    "half_closed_clients",
    "shutdown_lifetime",
    "httpd_suppress_version_string",
    "cache_swap_low",
    "cache_swap_high",
    "cache_mgr",
    "via",
    "ipcache_size",
    "fqdncache_size",
    "buffered_logs",
    "logformat",
    "strip_query_terms",
    "error_directory",
    "refresh_all_ims",
    "minimum_object_size",
    "acl",
];

/// The draft of a file.
pub(super) fn draft(text: &str) -> Draft {
    let mut draft = Draft::default();
    let mut squid = Squid::default();
    let lines = joined(text);
    for (line, text) in &lines {
        let words: Vec<&str> = text.split_whitespace().collect();
        if let ["acl", name, kind, values @ ..] = words.as_slice() {
            let values = values.iter().map(|value| (*value).to_owned());
            squid
                .acls
                .entry((*name).to_owned())
                .or_insert((*line, (*kind).to_owned(), Vec::new()))
                .2
                .extend(values);
        }
    }
    for (line, text) in &lines {
        let words: Vec<&str> = text.split_whitespace().collect();
        squid.directive(*line, &words, &mut draft);
    }
    squid.finish(&mut draft);
    draft
}

/// Lines without comments, those with a backslash at their end joined, with their numbers.
fn joined(text: &str) -> Vec<(usize, String)> {
    let mut out: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('#') {
            continue;
        }
        let (bare, more) = line.strip_suffix('\\').map_or((line, false), |bare| (bare, true));
        match out.last_mut().filter(|_| open) {
            Some((_, held)) => held.push_str(&format!(" {bare}")),
            None if !bare.is_empty() => out.push((number + 1, bare.to_owned())),
            None => {}
        }
        open = more;
    }
    out
}

#[derive(Default)]
struct Squid {
    /// Line, kind and values of each name.
    acls: BTreeMap<String, (usize, String, Vec<String>)>,
    /// Name, URL.
    peers: Vec<(String, String)>,
    site: SiteDraft,
    /// Hosts that have peers of their own.
    by_host: Vec<(String, Vec<String>)>,
    balance: Option<&'static str>,
}

impl Squid {
    fn directive(&mut self, line: usize, words: &[&str], draft: &mut Draft) {
        let text = words.join(" ");
        match words {
            ["http_port", address, options @ ..] => listen(line, address, options, false, draft),
            ["https_port", address, options @ ..] => listen(line, address, options, true, draft),
            ["cache_peer", host, _, port, _, options @ ..] => {
                self.peer(host, port, options, line, draft)
            }
            ["cache_peer_access", peer, "allow", names @ ..] => {
                self.peer_access(line, peer, names, draft)
            }
            ["cache_peer_access", _, "deny", ..] => {}
            ["cache_peer_domain", peer, hosts @ ..] => {
                let hosts = hosts.iter().map(|host| host_of(host)).collect();
                self.by_host.push(((*peer).to_owned(), hosts));
            }
            ["cache_mem", size @ ..] => match times::memory(&size.concat()) {
                Some(size) => draft.root.text("memory", &size),
                None => draft.leave(line, text, "its size is not understood"),
            },
            ["cache_dir", ..] => draft.leave(
                line,
                text,
                "Squid's directory cannot be read: name another one and a size in `[disk]`",
            ),
            ["maximum_object_size" | "maximum_object_size_in_memory", size @ ..] => {
                if let Some(size) = times::size(&size.concat()) {
                    self.site.keys.text("max_object", &size);
                }
            }
            ["refresh_pattern", rest @ ..] => self.refresh(line, rest, draft),
            ["cache" | "no_cache", "deny", name] => self.pass(line, name, draft),
            ["cache", "allow", ..] => {}
            ["http_access", "allow", names @ ..] => self.allow(line, names, draft),
            ["http_access", "deny", names @ ..] => self.deny(line, names, draft),
            ["access_log", "none", ..] => {}
            ["access_log", path, ..] => {
                let path = path
                    .trim_start_matches("daemon:")
                    .trim_start_matches("stdio:")
                    .replace("/squid/", "/larder/");
                draft.http.text("access_log", &path);
            }
            ["connect_timeout", time @ ..] => self.timeout("connect_timeout", time),
            ["read_timeout", time @ ..] => self.timeout("first_byte_timeout", time),
            ["negative_ttl", time @ ..] => {
                if let Some(time) = squid_time(time).filter(|time| time != "0s") {
                    self.site.keys.text("error_ttl", &time);
                }
            }
            ["workers", number] => draft.root.set("threads", *number),
            ["request_body_max_size", size @ ..] => {
                let size = times::size(&size.concat()).filter(|size| !size.starts_with('0'));
                size.iter().for_each(|size| draft.limits.text("request_body", size));
            }
            ["request_header_access" | "reply_header_access", field, "deny", "all"] => {
                let side = if words[0] == "request_header_access" {
                    "request_fields"
                } else {
                    "response_fields"
                };
                self.site.keys.add(side, &format!("-{field}"));
            }
            ["follow_x_forwarded_for", "allow", name] => match self.acls.get(*name) {
                Some((_, _, nets)) => {
                    nets.iter().for_each(|net| draft.http.add("trusted_proxies", net))
                }
                None => draft.leave(line, text, "name the proxies: http.trusted_proxies"),
            },
            ["follow_x_forwarded_for", "deny", "all"] => {}
            [name, ..] if NEEDLESS.contains(name) => {}
            _ => draft.leave(line, text, "no counterpart"),
        }
    }

    fn timeout(&mut self, key: &str, time: &[&str]) {
        if let Some(time) = squid_time(time) {
            self.site.origin_keys.text(key, &time);
        }
    }

    fn peer(&mut self, host: &str, port: &str, options: &[&str], line: usize, draft: &mut Draft) {
        let mut name = host.to_owned();
        let (mut scheme, mut more) = ("http", String::new());
        for option in options {
            match option.split_once('=').unwrap_or((option, "")) {
                ("name", value) => value.clone_into(&mut name),
                ("weight", value) => more.push_str(&format!(" weight={value}")),
                ("round-robin" | "weighted-round-robin", _) => self.balance = Some("round-robin"),
                ("carp", _) => self.balance = Some("hash:url"),
                ("ssl" | "tls", _) => scheme = "https",
                ("forceddomain", host) => self.site.origin_keys.text("host_header", host),
                ("sslcafile" | "tls-cafile", file) => self.site.origin_keys.text("ca", file),
                (
                    "originserver" | "no-query" | "no-digest" | "default" | "no-netdb-exchange",
                    _,
                ) => {}
                ("max-conn", number) => self.site.origin_keys.set("max_requests", number),
                ("connect-timeout", seconds) => {
                    if let Some(time) = times::time(seconds) {
                        self.site.origin_keys.text("connect_timeout", &time);
                    }
                }
                ("login", value) if value.starts_with("PASS") => {}
                _ => draft.leave(line, format!("cache_peer {host}: {option}"), "no counterpart"),
            }
        }
        if options.contains(&"originserver") {
            self.peers.push((name, format!("{scheme}://{host}:{port}{more}")));
        } else {
            draft.leave(
                line,
                format!("cache_peer {host}"),
                "caches beside this one share pages through [remote]",
            );
        }
    }

    fn peer_access(&mut self, line: usize, peer: &str, names: &[&str], draft: &mut Draft) {
        for name in names.iter().filter(|name| **name != "all") {
            match self.acls.get(*name).map(|(_, kind, values)| (kind.as_str(), values)) {
                Some(("dstdomain", hosts)) => {
                    let hosts = hosts.iter().map(|host| host_of(host)).collect();
                    self.by_host.push((peer.to_owned(), hosts));
                }
                Some(("urlpath_regex" | "url_regex", patterns)) => {
                    let Some((_, url)) = self.peers.iter().find(|(held, _)| held == peer) else {
                        continue;
                    };
                    for (regex, _) in regexes(patterns) {
                        let mut rule = RuleDraft::default();
                        rule.keys.text("path_regex", &regex);
                        rule.keys.text("origin", url);
                        self.site.rules.push(rule);
                    }
                }
                _ => draft.leave(
                    line,
                    format!("cache_peer_access {peer} allow {name}"),
                    "a site by its hosts, or an origin of a [[site.rule]]",
                ),
            }
        }
    }

    /// `refresh_pattern [-i] regex min percent max [options]`, in minutes.
    fn refresh(&mut self, line: usize, words: &[&str], draft: &mut Draft) {
        let (ignore_case, words) = match words {
            ["-i", rest @ ..] => (true, rest),
            rest => (false, rest),
        };
        let [pattern, min, percent, max, options @ ..] = words else {
            return draft.leave(line, words.join(" "), "expected pattern, min, percent, max");
        };
        if pattern.starts_with("^ftp") || pattern.starts_with("^gopher") {
            return;
        }
        let minutes =
            |text: &str| text.parse::<f64>().ok().map(|number| times::shown(number * 60.0));
        let percent = percent.trim_end_matches('%').parse::<u32>().ok();
        let (Some(min), Some(percent), Some(max)) = (minutes(min), percent, minutes(max)) else {
            return draft.leave(line, words.join(" "), "its numbers are not understood");
        };
        if percent > 100 {
            draft.leave(line, words.join(" "), "percent is 100 at most");
        }
        let value =
            format!("{{ min = \"{min}\", percent = {}, max = \"{max}\" }}", percent.min(100));
        let mut rule = RuleDraft::default();
        let everything = matches!(*pattern, "." | "^http:" | ".*");
        let keys = if everything { &mut self.site.keys } else { &mut rule.keys };
        for option in options {
            match *option {
                "override-expire" | "override-lastmod" if min != "0s" => keys.text("ttl", &min),
                "ignore-no-store" | "ignore-private" | "ignore-no-cache" => {
                    keys.set("cache", "true")
                }
                "ignore-reload" | "reload-into-ims" => keys.set("client_cache_control", "false"),
                "refresh-ims" => {}
                "ignore-auth" => keys.set("allow_authorization", "true"),
                _ => draft.leave(
                    line,
                    format!("refresh_pattern {pattern}: {option}"),
                    "no counterpart",
                ),
            }
        }
        keys.set("refresh", value);
        if !everything {
            let path = pattern.trim_start_matches("^http://[^/]*").replace("(\\?.*)?$", "$");
            if *pattern == "(/cgi-bin/|\\?)" {
                rule.keys.text("path", "*/cgi-bin/*");
                draft.leave(
                    line,
                    words.join(" "),
                    "queries are not in a rule's path: drop_query, or a lifetime from the site",
                );
            } else if let Some(regex) = times::regex(&path, ignore_case)
                .filter(|path| !path.contains("\\?") && !path.contains("://"))
            {
                rule.keys.text("path_regex", &regex);
            } else {
                return draft.leave(
                    line,
                    words.join(" "),
                    "rules look at the path alone, and read no look-around",
                );
            }
            self.site.rules.push(rule);
        }
    }

    /// Requests of an ACL are passed.
    fn pass(&mut self, line: usize, name: &str, draft: &mut Draft) {
        let mut rule = RuleDraft::default();
        let keys = &mut rule.keys;
        match self.acls.get(name).map(|(_, kind, values)| (kind.as_str(), &values[..])) {
            _ if name == "all" => return self.site.keys.set("pass", "true"),
            Some(("urlpath_regex" | "url_regex", patterns)) => {
                for (regex, _) in regexes(patterns) {
                    let mut rule = RuleDraft::default();
                    rule.keys.text("path_regex", &regex);
                    rule.keys.set("pass", "true");
                    self.site.rules.push(rule);
                }
                return;
            }
            Some(("method", [method])) if method == "PURGE" => return,
            Some(("method", methods)) => {
                methods.iter().for_each(|method| keys.add("method", method))
            }
            Some(("req_header", [field, pattern]))
                if field.eq_ignore_ascii_case("cookie") && plain(pattern) =>
            {
                keys.text("cookie", &format!("{pattern}*"));
            }
            _ => {
                return draft.leave(
                    line,
                    format!("cache deny {name}"),
                    "pass = true of a [[site.rule]] with path, cookie or header",
                );
            }
        }
        rule.keys.set("pass", "true");
        self.site.rules.push(rule);
    }

    fn allow(&mut self, line: usize, names: &[&str], draft: &mut Draft) {
        let kind =
            |name: &&str| self.acls.get(*name).map(|(_, kind, values)| (kind.as_str(), values));
        let purges = |name: &&str| {
            kind(name).is_some_and(|(kind, values)| {
                kind == "method" && values.iter().any(|value| value == "PURGE")
            })
        };
        if !names.iter().any(purges) {
            return;
        }
        let mut from = Vec::new();
        for name in names {
            match kind(name) {
                Some(("src", nets)) => from.extend(nets.iter().cloned()),
                _ if *name == "localhost" => from.push("127.0.0.1".to_owned()),
                _ => {}
            }
        }
        if from.is_empty() {
            draft.leave(
                line,
                format!("http_access allow {}", names.join(" ")),
                "nobody is named who may purge: purge = { from = [...] }",
            );
        }
        self.site.purge_from.extend(from);
    }

    fn deny(&self, line: usize, names: &[&str], draft: &mut Draft) {
        let usual = |name: &str| {
            let bare = name.trim_start_matches('!');
            matches!(
                bare,
                "all"
                    | "manager"
                    | "Safe_ports"
                    | "SSL_ports"
                    | "CONNECT"
                    | "to_localhost"
                    | "to_linklocal"
            ) || self.acls.get(bare).is_some_and(|(_, kind, _)| kind == "method")
        };
        if !names.iter().all(|name| usual(name)) {
            draft.leave(line, format!("http_access deny {}", names.join(" ")), "clients are not refused by address or path here: do it in the firewall or the origin");
        }
    }

    fn finish(mut self, draft: &mut Draft) {
        let urls = |names: &[&String]| -> Vec<String> {
            self.peers
                .iter()
                .filter(|(name, _)| names.contains(&name))
                .map(|(_, url)| url.clone())
                .collect()
        };
        let named: Vec<&String> = self.by_host.iter().map(|(peer, _)| peer).collect();
        let mut sites: Vec<SiteDraft> = Vec::new();
        for (peer, hosts) in &self.by_host {
            match sites.iter_mut().find(|site| site.hosts == *hosts) {
                Some(site) => site.origin.extend(urls(&[peer])),
                None => sites.push(SiteDraft {
                    hosts: hosts.clone(),
                    origin: urls(&[peer]),
                    ..self.site.clone()
                }),
            }
        }
        let rest: Vec<&String> =
            self.peers.iter().map(|(name, _)| name).filter(|name| !named.contains(name)).collect();
        let of_rules =
            |url: &String| self.site.rules.iter().any(|rule| rule.keys.is("origin", url));
        let rest: Vec<String> = urls(&rest).into_iter().filter(|url| !of_rules(url)).collect();
        if !rest.is_empty() {
            self.site.origin = rest;
            sites.push(self.site);
        }
        for site in &mut sites {
            if let Some(balance) = self.balance.filter(|_| site.origin.len() > 1) {
                site.origin_keys.text("balance", balance);
            }
        }
        if sites.is_empty() {
            draft.leave(
                0,
                "cache_peer",
                "there is no originserver: a forward proxy has no counterpart",
            );
        }
        draft.sites = sites;
    }
}

fn listen(line: usize, address: &str, options: &[&str], tls: bool, draft: &mut Draft) {
    let accel = options.iter().any(|option| {
        matches!(*option, "accel" | "vhost" | "transparent") || option.starts_with("defaultsite")
    });
    if !accel {
        draft.leave(
            line,
            format!("http_port {address}"),
            "a forward proxy has no counterpart: this address is not served",
        );
        return;
    }
    match times::listen(address, if tls { 443 } else { 80 }) {
        Some(address) if tls => draft.https.add("listen", &address),
        Some(address) => draft.http.add("listen", &address),
        None => draft.leave(line, format!("http_port {address}"), "expected an address and port"),
    }
    let named = |names: [&str; 2]| {
        options.iter().find_map(|option| {
            names.iter().find_map(|name| option.strip_prefix(name)?.strip_prefix('='))
        })
    };
    if let (true, Some(cert)) = (tls, named(["cert", "tls-cert"])) {
        let key = named(["key", "tls-key"]).unwrap_or(cert);
        draft.certificates.push((cert.to_owned(), key.to_owned()));
    }
}
