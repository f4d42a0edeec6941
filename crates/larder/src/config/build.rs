//! From typed values to settings. Second of two stages: the values are combined.

use std::{
    collections::HashMap,
    net::IpAddr,
    num::NonZero,
    path::{Path, PathBuf},
    sync::Arc,
};

use larder_server::settings::{
    AccessLogSettings, ErrorPages, Glob, HostPattern, HttpSettings, Limits, LogFormat, MAX_RULES,
    Matcher, Net, OriginGroup, Permission, Rule, Secret, Settings, Site, SnapshotSettings,
    UpgradeSettings,
};

use crate::control;

use super::{
    TOKEN_BYTES, acme, admin, app, bounded, dictionary, disk, error_pages, family, https, identity,
    lifetimes, machine, objects,
    options::Section,
    origin, policy, presets,
    problem::{Location, Problem, Report},
    publish, queue,
    reader::Values,
    remote, tracing,
};

/// Settings of a whole file. None: something is missing; the reason is in the report.
pub(crate) fn settings(root: &Values, directory: &Path, report: &mut Report) -> Option<Settings> {
    let before = report.errors.len();
    let http_values = root.table("http");
    let memory = root.get("memory")?;
    let memcached = objects::memcached(root, directory, report);
    let redis = objects::redis(root, directory, report);
    let queue = queue::queue(root, directory, report);
    let remote = remote::remote(root, directory, report);
    // With object faces alone, HTTP is not served unless it is configured.
    let only_objects = (memcached.is_some() || redis.is_some() || queue.is_some())
        && !root.is_set("http")
        && !root.is_set("https")
        && !root.is_set("site")
        && !root.is_written("site");
    let mut http = http(&http_values)?;
    http.error_pages = error_pages::error_pages(&http_values, None, directory, report);
    let apps = app::apps(root, directory, report);
    let mut sites = Vec::new();
    for values in root.tables("site") {
        if let Some(site) = site(root, &apps, &http, values, directory, report) {
            sites.push(Arc::new(site));
        }
    }
    if root.tables("site").is_empty() && !only_objects && before == 0 {
        let fix = "give --origin http://host:port, or a [[site]] with an origin in the \
                   configuration file";
        report
            .error(Problem::new(Location::Whole, "there is no origin to get pages from").fix(fix));
    }
    duplicate_hosts(root.tables("site"), report);
    let mut https = https::https(root, directory, report);
    // A listener that is there by default is not there beside others that were named.
    if only_objects || (https.is_some() && !http_values.is_set("listen")) {
        http.listen.clear();
    }
    acme::acme(root, directory, &sites, &http.listen, https.as_mut(), report);
    let publish = publish::publish(root, memcached.as_ref(), redis.as_ref(), report);
    let family = family::family(root, directory, &sites, report);
    let settings = Settings {
        memory,
        identity: identity::identity(root, report),
        control: control(root, directory),
        upgrade: upgrade(root),
        snapshot: snapshot(root, directory),
        threads: root.get("threads").unwrap_or_else(processors),
        http,
        https,
        sites,
        apps: apps.all,
        access_log: access_log(&http_values, directory),
        pages: objects::share(&http_values, report),
        memcached,
        publish,
        queue,
        redis,
        admin: admin::admin(root, directory, report),
        disk: disk::disk(root, directory, report),
        remote,
        family,
        tracing: tracing::tracing(root, report),
    };
    objects::look_at_shares(&settings, report);
    objects::look_at_disk(root, &settings, report);
    doubts(root, &settings, report);
    machine::doubt(root, &settings, report);
    (report.errors.len() == before).then_some(settings)
}

/// The path of the control socket; None: there is none.
fn control(root: &Values, directory: &Path) -> Option<PathBuf> {
    match root.maybe::<PathBuf>("control") {
        None => Some(control::default_path()),
        Some(path) if path.as_os_str() == "none" => None,
        Some(_) => Some(control::path_in(&file(root, "control", directory)?)),
    }
}

fn snapshot(root: &Values, directory: &Path) -> Option<SnapshotSettings> {
    let path = file(root, "snapshot", directory)?;
    Some(SnapshotSettings { path, max_age: root.get("snapshot_max_age")? })
}

fn upgrade(root: &Values) -> UpgradeSettings {
    let default = UpgradeSettings::default();
    UpgradeSettings {
        timeout: root.get("upgrade_timeout").unwrap_or(default.timeout),
        memory: root.get("upgrade_memory").unwrap_or(default.memory),
    }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// The HTTP face with the defaults of the table of options.
pub(super) fn http_defaults() -> Option<HttpSettings> {
    http(&Values::empty(Section::Http, Location::Whole))
}

fn http(values: &Values) -> Option<HttpSettings> {
    Some(HttpSettings {
        listen: values.list("listen"),
        limits: limits(&values.table("limits"))?,
        x_cache: values.get("x_cache")?,
        cache_status: values.get("cache_status")?,
        announce: values.get("announce"),
        via: values.get("via").filter(|name: &String| !name.is_empty()),
        trusted_proxies: values.list("trusted_proxies"),
        proxy_protocol: values.get("proxy_protocol")?,
        h2c: values.get("h2c")?,
        sndbuf: values.get("sndbuf")?,
        sendfile_cache: values.get("sendfile_cache"),
        open_files: values.get("open_files")?,
        error_pages: Arc::default(),
    })
}

fn limits(values: &Values) -> Option<Limits> {
    Some(Limits {
        head_bytes: values.get("head_bytes")?,
        request_line: values.get("request_line")?,
        fields: values.get("fields")?,
        connections: values.get("connections")?,
        connections_per_client: values.get("connections_per_client"),
        client_prefix_v4: values.get("client_prefix_v4")?,
        client_prefix_v6: values.get("client_prefix_v6")?,
        request_body: values.get("request_body")?,
        header_timeout: values.get("header_timeout")?,
        idle_timeout: values.get("idle_timeout")?,
        body_timeout: values.get("body_timeout")?,
        send_timeout: values.get("send_timeout")?,
        pipeline: values.get("pipeline")?,
        streams: values.get("streams")?,
        drain: values.get("drain")?,
    })
}

fn access_log(http: &Values, directory: &Path) -> Option<AccessLogSettings> {
    let values = http.table("access_log");
    let path = file(&values, "path", directory)?;
    let format = match values.get::<String>("format")?.as_str() {
        "combined" => LogFormat::Combined,
        "json" => LogFormat::Json,
        _ => LogFormat::Squid,
    };
    Some(AccessLogSettings { path, format })
}

/// A path: relative to the directory of the configuration file, unchanged for a flag or `-`.
pub(super) fn file(values: &Values, name: &str, directory: &Path) -> Option<PathBuf> {
    files(values, name, directory).into_iter().next()
}

/// The same for a list of them.
pub(super) fn files(values: &Values, name: &str, directory: &Path) -> Vec<PathBuf> {
    let placed = |(path, location): (PathBuf, Location)| {
        let of_the_file = matches!(location, Location::File(_)) && path.as_os_str() != "-";
        if of_the_file { directory.join(path) } else { path }
    };
    values.items(name).unwrap_or_default().into_iter().map(placed).collect()
}

fn site(
    root: &Values,
    apps: &app::Apps,
    http: &HttpSettings,
    values: &Values,
    directory: &Path,
    report: &mut Report,
) -> Option<Site> {
    let memory: u64 = root.get("memory")?;
    let common = http.error_pages.clone();
    let pages = error_pages::error_pages(values, Some(common), directory, report);
    let preset = preset(values, report);
    let hosts: Vec<HostPattern> = values.list("hosts");
    let mut action = policy::action(values);
    if let Some(preset) = &preset {
        action.fill_from(&policy::action(preset));
    }
    let mut defaults = action.over(&policy::of_the_table());
    let dictionary = dictionary::dictionary(root, values, &defaults, report);
    defaults.cache.dictionary = dictionary.is_some();
    defaults.max_object = defaults.max_object.min(memory / 4);
    let mut rules = Vec::new();
    let of_preset = preset.iter().flat_map(|preset| preset.tables("rule"));
    for rule in values.tables("rule").iter().chain(of_preset) {
        let mut action = policy::action(rule);
        action.handling.origin = origin_of(apps, rule, &pages, directory, report);
        action.max_object = action.max_object.map(|bytes| bytes.min(memory / 4));
        rules.push(Rule::new(matcher(rule, report), action, &defaults));
    }
    lifetimes::doubt(values, &defaults, report);
    for (rule, built) in values.tables("rule").iter().zip(&rules) {
        lifetimes::doubt(rule, &built.alone, report);
    }
    if rules.len() > MAX_RULES {
        let message =
            format!("{} rules, those of the preset included; at most {MAX_RULES}", rules.len());
        report.error(Problem::new(values.location("rule"), message));
    }
    Some(Site {
        name: hosts.first().map_or_else(|| "default".to_owned(), HostPattern::to_string),
        hosts,
        origin: Arc::new(origin::group(apps, &values.table("origin"), &pages, directory, report)?),
        purge: permission(&values.table("purge"), directory, report),
        debug: permission(&values.table("debug"), directory, report),
        remote: values.get("remote")?,
        client_auth: https::client_auth(root, values, directory, report),
        error_pages: pages,
        dictionary,
        defaults: Arc::new(defaults),
        preset: values.maybe("preset"),
        rules,
    })
}

/// The origin of a rule.
fn origin_of(
    apps: &app::Apps,
    rule: &Values,
    pages: &Arc<ErrorPages>,
    directory: &Path,
    report: &mut Report,
) -> Option<Arc<OriginGroup>> {
    let origin = rule.is_set("origin").then(|| rule.table("origin"))?;
    origin::group(apps, &origin, pages, directory, report).map(Arc::new)
}

fn preset(values: &Values, report: &mut Report) -> Option<Values> {
    let name: String = values.maybe("preset")?;
    let read = presets::preset(&name);
    if read.is_none() {
        report.error(Problem::new(
            values.location("preset"),
            format!("the preset \"{name}\" cannot be read"),
        ));
    }
    read.map(|(values, _)| values)
}

fn matcher(values: &Values, report: &mut Report) -> Matcher {
    let matcher = Matcher {
        paths: values.list("path"),
        path_regex: values.maybe("path_regex"),
        methods: values.list("method"),
        cookie: values.maybe("cookie"),
        header: values.maybe("header"),
    };
    let names = ["path", "path_regex", "method", "cookie", "header"];
    if !names.iter().any(|name| values.is_written(name)) {
        let problem =
            Problem::new(values.location.clone(), "the rule does not say which requests it is for");
        report.error(problem.fix(
            "add `path`, `path_regex`, `method`, `cookie` or `header`; for all requests write it \
             into [[site]]",
        ));
    }
    for (glob, location) in values.items::<Glob>("path").unwrap_or_default() {
        if !glob.as_str().starts_with(['/', '*']) {
            let problem = Problem::new(
                location,
                format!("no path matches \"{}\": paths begin with a slash", glob.as_str()),
            );
            report.warn(problem.fix(format!("write \"/{0}\" or \"*/{0}\"", glob.as_str())));
        }
    }
    matcher
}

fn permission(values: &Values, directory: &Path, report: &mut Report) -> Permission {
    Permission {
        from: values.list("from"),
        token: token_file(values, "token_file", directory, report),
    }
}

/// The token in the file an option names; None: no file is named, or it is unusable, which is in
/// the report.
pub(super) fn token_file(
    values: &Values,
    name: &'static str,
    directory: &Path,
    report: &mut Report,
) -> Option<Secret> {
    let path = file(values, name, directory)?;
    match token(&path) {
        Ok((token, readable)) => {
            if readable {
                let problem = Problem::new(
                    values.location(name),
                    "every user of this machine can read the token",
                );
                report.warn(problem.fix(format!("chmod o-r {}", path.display())));
            }
            Some(token)
        }
        Err(reason) => {
            let kind = name.strip_suffix("_file").unwrap_or(name);
            let message = format!("cannot use the {kind} file {}: {reason}", path.display());
            report.error(Problem::new(values.location(name), message));
            None
        }
    }
}

/// The token of a file, blanks around it removed; and whether everybody may read it.
pub(crate) fn token(path: &Path) -> Result<(Secret, bool), String> {
    let (text, mode) = bounded::read(path, TOKEN_BYTES)?;
    let token = text.trim_ascii();
    if !token.iter().all(u8::is_ascii_graphic) {
        return Err("a token is one line of visible characters".to_owned());
    }
    let token = Secret::new(token).ok_or("it is empty")?;
    Ok((token, mode & 0o004 != 0))
}

/// Reports hosts of more than one site.
fn duplicate_hosts(sites: &[Values], report: &mut Report) {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for (index, site) in sites.iter().enumerate() {
        let hosts = site.items::<HostPattern>("hosts").unwrap_or_default();
        if hosts.is_empty() && seen.insert("any host".to_owned(), index).is_some() {
            let problem = Problem::new(
                site.location.clone(),
                "a second site without `hosts`: it would never be asked",
            );
            report.error(problem.fix("give each site its `hosts`; one may be left without"));
        }
        for (host, location) in hosts {
            let name = host.to_string();
            if seen.insert(name.clone(), index).is_some() {
                report.error(Problem::new(
                    location,
                    format!("the host \"{name}\" is already in use above"),
                ));
            }
        }
    }
}

/// Warns of settings that are allowed and probably mistakes.
fn doubts(root: &Values, settings: &Settings, report: &mut Report) {
    for site in root.tables("site") {
        std::iter::once(site).chain(site.tables("rule")).for_each(|one| policy::small(one, report));
        let nets = |name| site.table(name).items::<Net>("from").unwrap_or_default();
        for (_, location) in nets("debug").into_iter().filter(|(net, _)| anyone(*net)) {
            let problem =
                Problem::new(location, "anyone on the Internet may ask how answers come about");
            report.warn(problem.fix("name the machines that may, or use token_file"));
        }
        for (net, location) in nets("purge") {
            if anyone(net) {
                let problem = Problem::new(location, "anyone on the Internet may purge");
                report.warn(problem.fix("name the machines that may, or use token_file"));
            } else if settings.http.trusted_proxies.iter().any(|proxy| proxy.overlaps(&net)) {
                let message = "of requests through a trusted proxy, the client it names is \
                               judged, not the proxy";
                report.note(Problem::new(location, message));
            }
        }
    }
    if settings.http.proxy_protocol && settings.http.trusted_proxies.is_empty() {
        let location = root.table("http").location("proxy_protocol");
        let problem = Problem::new(location, "no proxy is trusted: no header is read");
        report.warn(problem.fix("name the proxies before this one: http.trusted_proxies"));
    }
    for (net, location) in root.table("http").items::<Net>("trusted_proxies").unwrap_or_default() {
        if anyone(net) {
            let problem =
                Problem::new(location, "anyone may say which address a request comes from");
            report.warn(problem.fix("name the proxies before this one"));
        }
    }
    let http = root.table("http");
    let by_flag = matches!(http.location("listen"), Location::Flag(_));
    if http.is_set("listen")
        && !by_flag
        && settings.http.listen.is_empty()
        && settings.https.is_none()
    {
        let problem = Problem::new(http.location("listen"), "pages are served nowhere");
        report.warn(problem.fix("name an address, or leave out listen"));
    }
    if settings.http.sendfile_cache.is_some_and(|bytes| bytes > 0)
        && settings.serves_pages()
        && settings.sendfile_cache() == 0
    {
        let message =
            format!("for {} threads that is less than 1 MiB each: there is none", settings.threads);
        let problem = Problem::new(root.table("http").location("sendfile_cache"), message);
        report.warn(problem.fix("more of it, fewer threads, or 0"));
    }
    for site in &settings.sites {
        let own = |address: &std::net::SocketAddr| {
            site.origins().flat_map(|origin| &origin.members).any(|member| {
                let origin: Option<IpAddr> = member.origin.host.parse().ok();
                address.port() == member.origin.port
                    && origin.is_some_and(|ip| {
                        ip == address.ip() || (ip.is_loopback() && address.ip().is_unspecified())
                    })
            })
        };
        if settings.http.listen.iter().any(own) {
            let message = format!("the origin of the site \"{}\" is this server itself", site.name);
            report.error(
                Problem::new(Location::Whole, message)
                    .fix("give the origin another port, or listen on another"),
            );
        }
    }
}

/// Whether a network is so large that it means everybody.
pub(super) fn anyone(net: Net) -> bool {
    net.contains(IpAddr::from([198, 51, 100, 1])) && net.contains(IpAddr::from([8, 8, 8, 8]))
        || net.contains(IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1]))
            && net.contains(IpAddr::from([0x2600, 0, 0, 0, 0, 0, 0, 1]))
}
