//! From typed values to settings: `[memcached]` and `[redis]`, and the parts of the memory.

use std::{path::Path, time::Duration};

use larder_server::settings::{
    AclFile, FamilySettings, HttpSettings, Listen, MemcachedSettings, ObjectSpace, RedisSettings,
    Secret, Settings, Share, UpgradeSettings, Users, WireProtocol,
};

use super::{
    TOKEN_BYTES, bounded,
    build::{file, http_defaults},
    https,
    options::Section,
    problem::{Location, Problem, Report},
    reader::Values,
    users, value,
};

/// The memcached face; None: the file has no such table, or has a mistake in it, which is in the
/// report.
pub(super) fn memcached(
    root: &Values,
    directory: &Path,
    report: &mut Report,
) -> Option<MemcachedSettings> {
    if !root.is_set("memcached") {
        return None;
    }
    let values = root.table("memcached");
    let settings = memcached_of(&values, directory, report)?;
    let refuses = settings.auth.is_some() || settings.sasl.is_some();
    if refuses && !settings.udp.is_empty() {
        let problem =
            Problem::new(values.location("udp"), "over UDP nobody can be asked for a password");
        report.error(problem.fix("take out `udp`, or `auth_file` and `sasl_file`"));
    }
    let spoken = [
        ("auth_file", settings.auth.is_some(), WireProtocol::Binary, "text"),
        ("sasl_file", settings.sasl.is_some(), WireProtocol::Ascii, "binary"),
    ];
    for (name, set, other, needed) in spoken {
        if set && settings.protocol == other {
            let message = format!(
                "`{name}` is for the {needed} protocol, and `protocol` allows only the other"
            );
            report.error(Problem::new(values.location(name), message));
        }
    }
    if settings.auth.is_some() && settings.sasl.is_some() {
        let message = "`auth_file` refuses the binary protocol and `sasl_file` the text protocol: \
                       nothing is left";
        report.error(Problem::new(values.location("sasl_file"), message).fix("give one of them"));
    }
    if settings.tls.is_none() {
        no_listener(&values, &settings.listen, report);
    }
    Some(settings)
}

/// Whether values may go to the disk as the rest of the file stands.
pub(super) fn look_at_disk(root: &Values, settings: &Settings, report: &mut Report) {
    let Some(memcached) = settings.memcached.as_ref().filter(|memcached| memcached.disk) else {
        return;
    };
    let shares = settings.redis.as_ref().is_some_and(|redis| redis.share_memcached);
    let publish = settings.publish.as_ref();
    let is_page = publish.is_some_and(|publish| publish.objects == ObjectSpace::Memcached);
    let faults = [
        (!root.is_set("disk"), "`disk` needs a table [disk]", "add it, with `path` and `size`"),
        (
            memcached.no_evictions,
            "only evicted objects go to the disk, and `evict` is false",
            "take one of them out",
        ),
        (
            shares,
            "the objects are those of Redis, too (`share_memcached`), which reads no disk",
            "take one of them out",
        ),
        (
            is_page,
            "objects that are pages ([publish]) are not read from the disk",
            "take `disk` out, or publish Redis's objects",
        ),
    ];
    let values = root.table("memcached");
    for (_, message, fix) in faults.into_iter().filter(|(wrong, ..)| *wrong) {
        report.error(Problem::new(values.location("disk"), message).fix(fix));
    }
}

/// The message for an option without a default: a mistake in the table of options.
pub(crate) const NO_DEFAULT: &str = "the table of options lacks a default";

/// The settings of a program that serves object faces alone. None: see [`NO_DEFAULT`].
pub(crate) fn only(
    memory: u64,
    threads: usize,
    memcached: Option<MemcachedSettings>,
    redis: Option<RedisSettings>,
) -> Option<Settings> {
    Some(Settings {
        memory,
        threads,
        identity: None,
        control: None,
        upgrade: UpgradeSettings::default(),
        snapshot: None,
        http: HttpSettings { listen: Vec::new(), ..http_defaults()? },
        https: None,
        sites: Vec::new(),
        apps: Vec::new(),
        access_log: None,
        pages: Share::default(),
        memcached,
        redis,
        admin: None,
        disk: None,
        queue: None,
        remote: None,
        family: FamilySettings::default(),
        tracing: None,
        publish: None,
    })
}

/// A memcached face with the defaults of the table of options.
pub(crate) fn memcached_defaults() -> Option<MemcachedSettings> {
    let values = Values::empty(Section::Memcached, Location::Whole);
    memcached_of(&values, Path::new(""), &mut Report::new(None, ""))
}

fn memcached_of(
    values: &Values,
    directory: &Path,
    report: &mut Report,
) -> Option<MemcachedSettings> {
    Some(MemcachedSettings {
        listen: plain_listen(values, directory),
        tls: https::face_tls(values, |tls| listen(tls, directory), directory, report),
        proxies: values.list("proxies"),
        udp: values.list("udp"),
        item_size: values.get("item_size")?,
        connections: values.get("connections")?,
        connections_fast: values.get("connections_fast")?,
        idle_timeout: values.get("idle_timeout")?,
        receive_timeout: values.get("receive_timeout")?,
        send_timeout: values.get("send_timeout")?,
        protocol: match values.get::<String>("protocol")?.as_str() {
            "ascii" => WireProtocol::Ascii,
            "binary" => WireProtocol::Binary,
            _ => WireProtocol::Auto,
        },
        auth: users_of(values, "auth_file", directory, report),
        sasl: users_of(values, "sasl_file", directory, report),
        cas: values.get("cas")?,
        flush_all: values.get("flush_all")?,
        dump: values.get("dump")?,
        watch: values.get("watch")?,
        shutdown: values.get("shutdown")?,
        no_evictions: !values.get::<bool>("evict")?,
        disk: values.get("disk")?,
        prefix_delimiter: values.get("prefix_delimiter")?,
        detail: values.get("detail")?,
        sizes: false,
        watcher_buffer: values.get("watcher_buffer")?,
        requests_per_event: values.get("requests_per_event")?,
        backlog: values.get("backlog")?,
        verbosity: values.get("verbosity")?,
        share: share(values, report),
    })
}

/// The Redis face; None: the file has no such table, or has a mistake in it, which is in the
/// report.
pub(super) fn redis(root: &Values, directory: &Path, report: &mut Report) -> Option<RedisSettings> {
    if !root.is_set("redis") {
        return None;
    }
    let values = root.table("redis");
    let settings = redis_of(&values, directory, report)?;
    if settings.tls.is_none() {
        no_listener(&values, &settings.listen, report);
    }
    if settings.share_memcached && !root.is_set("memcached") {
        let message = "database 0 cannot be shared with [memcached], which is not there";
        report.error(Problem::new(values.location("share_memcached"), message));
    }
    Some(settings)
}

/// A Redis face with the defaults of the table of options.
pub(crate) fn redis_defaults() -> Option<RedisSettings> {
    let values = Values::empty(Section::Redis, Location::Whole);
    redis_of(&values, Path::new(""), &mut Report::new(None, ""))
}

fn redis_of(values: &Values, directory: &Path, report: &mut Report) -> Option<RedisSettings> {
    let slow: u64 = values.get("slowlog_micros")?;
    Some(RedisSettings {
        listen: plain_listen(values, directory),
        tls: https::face_tls(values, |tls| listen(tls, directory), directory, report),
        proxies: values.list("proxies"),
        databases: values.get("databases")?,
        item_size: values.get("item_size")?,
        bulk: values.get("bulk")?,
        connections: values.get("connections")?,
        idle_timeout: values.get::<Duration>("idle_timeout")?,
        receive_timeout: values.get::<Duration>("receive_timeout")?,
        send_timeout: values.get::<Duration>("send_timeout")?,
        subscriber_buffer: values.get("subscriber_buffer")?,
        password: password(values, directory, report),
        users: users_of(values, "users_file", directory, report),
        acl: acl(values, directory, report),
        protected: values.get("protected")?,
        shutdown: values.get("shutdown")?,
        share_memcached: values.get("share_memcached")?,
        no_evictions: !values.get::<bool>("evict")?,
        slowlog_micros: values.get::<bool>("slowlog")?.then_some(slow),
        backlog: values.get("backlog")?,
        share: share(values, report),
    })
}

/// The addresses of a face without TLS. One that is there by default is not there beside TLS.
fn plain_listen(values: &Values, directory: &Path) -> Vec<Listen> {
    let alone = values.is_set("tls") && !values.is_set("listen");
    if alone { Vec::new() } else { listen(values, directory) }
}

/// The addresses of a face: sockets have the permissions of `unix_mode`, and paths of the file are
/// relative to its directory.
pub(super) fn listen(values: &Values, directory: &Path) -> Vec<Listen> {
    let mode: u32 = values.get("unix_mode").unwrap_or(value::SOCKET_MODE);
    let placed = |(listen, location)| match listen {
        Listen::Unix { path, .. } if matches!(location, Location::File(_)) => {
            Listen::Unix { path: directory.join(path), mode }
        }
        Listen::Unix { path, .. } => Listen::Unix { path, mode },
        tcp => tcp,
    };
    match values.items::<Listen>("listen") {
        Some(items) => items.into_iter().map(placed).collect(),
        None => values.list("listen"),
    }
}

pub(super) fn no_listener(values: &Values, listen: &[Listen], report: &mut Report) {
    if listen.is_empty() {
        let problem = Problem::new(values.location("listen"), "it listens nowhere");
        report
            .error(problem.fix(format!("name an address, or take out {}", values.section.title())));
    }
}

fn users_of(values: &Values, name: &str, directory: &Path, report: &mut Report) -> Option<Users> {
    let path = file(values, name, directory)?;
    match users::read(&path) {
        Ok((users, readable)) => {
            readable_by_all(values, name, &path, readable, report);
            Some(users)
        }
        Err(reason) => {
            let message = format!("cannot use {}: {reason}", path.display());
            report.error(
                Problem::new(values.location(name), message).fix("a line is `user:password`"),
            );
            None
        }
    }
}

/// The file of users with rules.
fn acl(values: &Values, directory: &Path, report: &mut Report) -> Option<AclFile> {
    let path = file(values, "acl_file", directory)?;
    for other in ["password_file", "users_file"].into_iter().filter(|name| values.is_set(name)) {
        let message = format!("`acl_file` has all users, and `{other}` would have others");
        let problem = Problem::new(values.location(other), message);
        report.error(problem.fix("take one of them out; a line of a user is `user NAME on #HASH`"));
    }
    match acl_of(&path) {
        Ok((file, readable)) => {
            readable_by_all(values, "acl_file", &path, readable, report);
            Some(file)
        }
        Err(reason) => {
            let problem = Problem::new(values.location("acl_file"), reason);
            report.error(problem.fix("a line is `user NAME RULE ...`, as ACL LIST shows it"));
            None
        }
    }
}

/// A file of users with rules, and whether everybody may read it. The error says all.
pub(crate) fn acl_of(path: &Path) -> Result<(AclFile, bool), String> {
    let (text, mode) = bounded::read(path, AclFile::BYTES)
        .map_err(|reason| format!("cannot use {}: {reason}", path.display()))?;
    // The end of Redis's message is about a running server.
    let parsed = AclFile::parse(path.to_owned(), &text).map_err(|mistakes| {
        mistakes.split(" WARNING: ACL errors").next().unwrap_or_default().trim_end().to_owned()
    })?;
    Ok((parsed, mode & 0o004 != 0))
}

fn password(values: &Values, directory: &Path, report: &mut Report) -> Option<Secret> {
    let path = file(values, "password_file", directory)?;
    let read = bounded::read(&path, TOKEN_BYTES).and_then(|(text, mode)| {
        let line = text.strip_suffix(b"\n").unwrap_or(&text);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        Ok((Secret::new(line).ok_or("it is empty")?, mode & 0o004 != 0))
    });
    match read {
        Ok((password, readable)) => {
            readable_by_all(values, "password_file", &path, readable, report);
            Some(password)
        }
        Err(reason) => {
            let message = format!("cannot use the password file {}: {reason}", path.display());
            report.error(Problem::new(values.location("password_file"), message));
            None
        }
    }
}

pub(super) fn readable_by_all(
    values: &Values,
    name: &str,
    path: &Path,
    readable: bool,
    report: &mut Report,
) {
    if readable {
        let problem = Problem::new(
            values.location(name),
            "every user of this machine can read the passwords",
        );
        report.warn(problem.fix(format!("chmod o-r {}", path.display())));
    }
}

/// The share of the memory in a table.
pub(super) fn share(values: &Values, report: &mut Report) -> Share {
    let share = Share { floor: values.get("floor"), ceiling: values.get("ceiling") };
    if let (Some(floor), Some(ceiling)) = (share.floor, share.ceiling)
        && floor > ceiling
    {
        let message = format!(
            "the floor ({}) is above the ceiling ({})",
            value::show_size(floor),
            value::show_size(ceiling)
        );
        report.error(Problem::new(values.location("floor"), message));
    }
    share
}

/// Reports guaranteed memory that exceeds the budget.
pub(super) fn look_at_shares(settings: &Settings, report: &mut Report) {
    let of_faces = [
        Some(settings.pages),
        settings.memcached.as_ref().map(|face| face.share),
        settings.redis.as_ref().map(|face| face.share),
    ];
    let promised =
        of_faces.iter().flatten().filter_map(|share| share.floor).fold(0u64, u64::saturating_add);
    if promised >= settings.store() {
        let without =
            if settings.sendfile_cache() > 0 { " without `http.sendfile_cache`" } else { "" };
        let message = format!(
            "the floors are {} together, and `memory` is {}{without}",
            value::show_size(promised),
            value::show_size(settings.store())
        );
        report.error(
            Problem::new(Location::Whole, message)
                .fix("floors together must be less than `memory`"),
        );
    }
}
