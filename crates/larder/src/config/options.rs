//! THE table of options. The parser, the defaults, docs/configuration.md and the help of the flags
//! all come from it.
//!
//! To add an option: a line here, a field in `larder_server::settings`, a line in `build.rs`. Then
//! `LARDER_BLESS=1 cargo test -p larder` writes the new docs/configuration.md.

mod acme;
mod admin;
mod app;
mod disk;
mod family;
mod flags;
mod http;
mod https;
mod objects;
mod origin;
mod publish;
mod queue;
mod remote;
mod root;
mod site;
mod tracing;

pub(crate) use flags::flag_help;

use acme::ACME;
use admin::ADMIN;
use app::{APP, APP_LIMITS};
use disk::DISK;
use family::{HTCP, ICP, PEER};
use http::{ACCESS_LOG, HTTP, LIMITS};
use https::{CERTIFICATE, HTTPS};
use objects::{FACE_TLS, MEMCACHED, REDIS};
use origin::{HEALTH, ORIGIN};
use publish::PUBLISH;
use queue::{QUEUE, QUEUE_NAMED, QUEUE_RULES};
use remote::REMOTE;
use root::ROOT;
use site::{DEBUG, DICTIONARY, POLICY, PRESET, PURGE, REFRESH, RULE, SITE};
use tracing::TRACING;

/// A table of the configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    /// Before the first header.
    Root,
    /// `[http]`
    Http,
    /// `[http.limits]`
    Limits,
    /// `[http.access_log]`
    AccessLog,
    /// `[https]`
    Https,
    /// An entry of `certificates`.
    Certificate,
    /// `[acme]`
    Acme,
    /// `[memcached]`
    Memcached,
    /// `[redis]`
    Redis,
    /// `tls` of an object face, or of the admin interface.
    FaceTls,
    /// `[admin]`
    Admin,
    /// `[disk]`
    Disk,
    /// `[remote]`
    Remote,
    /// `[[peer]]`
    Peer,
    /// `[icp]`
    Icp,
    /// `[htcp]`
    Htcp,
    /// `[publish]`
    Publish,
    /// `[queue]`
    Queue,
    /// `[[queue.named]]`
    QueueNamed,
    /// `[tracing]`
    Tracing,
    /// `[[app]]`
    App,
    /// `[app.limits]`
    AppLimits,
    /// `[[site]]`
    Site,
    /// `[site.origin]`
    Origin,
    /// `[site.origin.health]`
    Health,
    /// `[site.purge]`
    Purge,
    /// `[site.debug]`
    Debug,
    /// `dictionary = { .. }` of a site.
    Dictionary,
    /// `[[site.rule]]`
    Rule,
    /// `refresh = { .. }` of a site or rule.
    Refresh,
    /// A table of presets.toml; never in a user's file.
    Preset,
}

impl Section {
    /// The sections for users, in the order of the documentation.
    pub(crate) const DOCUMENTED: [Section; 30] = [
        Section::Root,
        Section::Http,
        Section::AccessLog,
        Section::Limits,
        Section::Https,
        Section::Certificate,
        Section::Acme,
        Section::Site,
        Section::Origin,
        Section::Health,
        Section::Purge,
        Section::Debug,
        Section::Dictionary,
        Section::Rule,
        Section::Refresh,
        Section::App,
        Section::AppLimits,
        Section::Memcached,
        Section::Redis,
        Section::FaceTls,
        Section::Queue,
        Section::QueueNamed,
        Section::Admin,
        Section::Disk,
        Section::Remote,
        Section::Peer,
        Section::Icp,
        Section::Htcp,
        Section::Publish,
        Section::Tracing,
    ];

    /// The header in a file.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Section::Root => "the top level",
            Section::Http => "[http]",
            Section::Limits => "[http.limits]",
            Section::AccessLog => "[http] access_log",
            Section::Https => "[https]",
            Section::Certificate => "[[https.certificates]]",
            Section::Acme => "[acme]",
            Section::Memcached => "[memcached]",
            Section::Redis => "[redis]",
            Section::FaceTls => "[memcached.tls], [redis.tls] and [admin.tls]",
            Section::Admin => "[admin]",
            Section::Disk => "[disk]",
            Section::Remote => "[remote]",
            Section::Peer => "[[peer]]",
            Section::Icp => "[icp]",
            Section::Htcp => "[htcp]",
            Section::Publish => "[publish]",
            Section::Queue => "[queue]",
            Section::QueueNamed => "[[queue.named]]",
            Section::Tracing => "[tracing]",
            Section::App => "[[app]]",
            Section::AppLimits => "[app.limits]",
            Section::Site => "[[site]]",
            Section::Origin => "[[site]] origin",
            Section::Health => "[[site]] origin.health",
            Section::Purge => "[[site]] purge",
            Section::Debug => "[[site]] debug",
            Section::Dictionary => "[[site]] dictionary",
            Section::Rule => "[[site.rule]]",
            Section::Refresh => "refresh",
            Section::Preset => "a preset",
        }
    }

    /// Its options: its own ones, and actions on requests if it may have them.
    pub(crate) fn options(self) -> impl Iterator<Item = &'static Opt> {
        let (own, shared): (&[Opt], &[Opt]) = match self {
            Section::Root => (ROOT, &[]),
            Section::Http => (HTTP, &[]),
            Section::Limits => (LIMITS, &[]),
            Section::AccessLog => (ACCESS_LOG, &[]),
            Section::Https => (HTTPS, &[]),
            Section::Certificate => (CERTIFICATE, &[]),
            Section::Acme => (ACME, &[]),
            Section::Memcached => (MEMCACHED, &[]),
            Section::Redis => (REDIS, &[]),
            Section::FaceTls => (FACE_TLS, &[]),
            Section::Admin => (ADMIN, &[]),
            Section::Disk => (DISK, &[]),
            Section::Remote => (REMOTE, &[]),
            Section::Peer => (PEER, &[]),
            Section::Icp => (ICP, &[]),
            Section::Htcp => (HTCP, &[]),
            Section::Publish => (PUBLISH, &[]),
            Section::Queue => (QUEUE, QUEUE_RULES),
            Section::QueueNamed => (QUEUE_NAMED, QUEUE_RULES),
            Section::Tracing => (TRACING, &[]),
            Section::App => (APP, &[]),
            Section::AppLimits => (APP_LIMITS, &[]),
            Section::Site => (SITE, POLICY),
            Section::Origin => (ORIGIN, &[]),
            Section::Health => (HEALTH, &[]),
            Section::Purge => (PURGE, &[]),
            Section::Debug => (DEBUG, &[]),
            Section::Dictionary => (DICTIONARY, &[]),
            Section::Rule => (RULE, POLICY),
            Section::Refresh => (REFRESH, &[]),
            Section::Preset => (PRESET, POLICY),
        };
        own.iter().chain(shared)
    }

    /// The option of this name.
    pub(crate) fn option(self, name: &str) -> Option<&'static Opt> {
        self.options().find(|opt| opt.name == name)
    }
}

/// The kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `true` or `false`.
    Bool,
    /// A number from `min` to `max`.
    Count(u64, u64),
    /// Bytes from `min` to `max`.
    Size(u64, u64),
    /// Bytes up to `max`, or `auto`, which is [`u64::MAX`].
    SizeOrAuto(u64),
    /// Milliseconds from `min` to `max`.
    Time(u64, u64),
    /// Any text.
    Text,
    /// A file; in a configuration file relative to its directory.
    File,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// An address and port.
    Address,
    /// An address and port, or `unix:` and a path.
    Listen,
    /// The socket of an application: `auto`, a path, a port, an address and port.
    AppListen,
    /// A server of the remote tier: an address or socket, and its weight.
    RemoteServer,
    /// Permissions of a file, in octal.
    Mode,
    /// One visible ASCII character.
    Char,
    /// An address or network.
    Net,
    /// A host name, or `*.` and a domain.
    Host,
    /// A pattern with `*` and `?`.
    Glob,
    /// The name of a query parameter, or a prefix: `utm_*`.
    Parameter,
    /// A glob over a cookie's name, or `name=value`.
    Cookie,
    /// A name as RFC 9110 has it (a token): a method, a field, a cookie.
    Token,
    /// The name of a request field that may be in the key.
    KeyField,
    /// A status, or statuses from one to another: `200`, `2xx`, `200-399`.
    Statuses,
    /// Seconds by status: `404 10s`, `5xx 1s`, `500-504 1s`, `10s`.
    StatusTtl,
    /// A regular expression.
    Regex,
    /// `Name: glob`.
    HeaderMatch,
    /// `Name: value`.
    HeaderLine,
    /// The name of this cache in `Via`; may be empty.
    ViaName,
    /// `http://host:port`.
    Origin,
    /// A server of an origin: its URL, its weight, whether it is a backup.
    Member,
    /// How requests are divided among servers.
    Balance,
    /// A change of a field: `Name: value`, `+Name: value`, `-Name`.
    FieldEdit,
    /// Another place of a page, with a status or not.
    Redirect,
    /// Requests in a time.
    Rate,
    /// The beginning of a path.
    Prefix,
    /// A place to look at for a path: `$uri`.
    Candidate,
    /// A parameter of an application: `NAME=value` or `-NAME`.
    Param,
    /// The media type of files by extension: `wasm=application/wasm`.
    MediaType,
    /// A time, with a pattern of media types before it or not: `image/* 30d`.
    Expires,
    /// The beginning of paths, and a directory: `/files/=/srv/files`.
    SendFiles,
    /// A status, or several, and the file of a page: a key and its value.
    ErrorPage,
    /// A table; a plain value stands for a table with only this key set.
    Table(Section, Option<&'static str>),
    /// Any number of tables.
    Tables(Section),
}

/// One option.
#[derive(Debug)]
pub(crate) struct Opt {
    /// The key.
    pub(crate) name: &'static str,
    /// The kind of its value.
    pub(crate) kind: Kind,
    /// Whether several values may be given, as a list.
    pub(crate) list: bool,
    /// As written in a file, values of a list divided by blanks; empty: not set.
    pub(crate) default: &'static str,
    /// Whether it must be given.
    pub(crate) required: bool,
    /// Its effect, for the documentation and for `--help`.
    pub(crate) help: &'static str,
}

const fn opt(name: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Opt {
    Opt { name, kind, list: false, default, required: false, help }
}

const fn list(name: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Opt {
    Opt { name, kind, list: true, default, required: false, help }
}

const fn required(name: &'static str, kind: Kind, help: &'static str) -> Opt {
    Opt { name, kind, list: false, default: "", required: true, help }
}

/// The guaranteed share of the memory.
const fn floor(help: &'static str) -> Opt {
    opt("floor", Kind::Size(0, 64 * TIB), "", help)
}

/// The limit of the share of the memory.
const fn ceiling(help: &'static str) -> Opt {
    opt("ceiling", Kind::Size(MIB, 64 * TIB), "", help)
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;
const SECOND: u64 = 1_000;
const HOUR: u64 = 3_600 * SECOND;
const DAY: u64 = 86_400 * SECOND;
const YEAR: u64 = 366 * DAY;
