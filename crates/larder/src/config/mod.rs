//! The configuration: from a file and flags to `larder_server::settings::Settings`, in two stages.
//!
//! `reader` turns TOML into typed values by the table in `options`; `build` combines those to
//! settings. All mistakes are collected in a `Report`; with a mistake nothing is started.

use std::path::{Path, PathBuf};

use larder_server::settings::Settings;

mod acme;
mod admin;
pub(crate) mod app;
pub(crate) mod bounded;
mod build;
mod dictionary;
mod directory;
mod disk;
mod error_pages;
mod family;
mod https;
mod identity;
pub(crate) mod item;
mod lifetimes;
mod machine;
pub(crate) mod objects;
pub(crate) mod options;
mod origin;
mod policy;
pub(crate) mod presets;
pub(crate) mod problem;
mod publish;
mod queue;
pub(crate) mod reader;
mod remote;
mod tls_files;
mod tracing;
pub(crate) mod users;
pub(crate) mod value;

use options::Section;
use problem::{Location, Problem, Report};
use reader::Values;
pub(crate) use tls_files::TlsFiles;

/// The file that is read by default, if it exists.
pub(crate) const DEFAULT_FILE: &str = "larder.toml";

/// Largest configuration file, in bytes.
const FILE_BYTES: usize = 16 << 20;

/// Largest token file, in bytes.
pub(crate) const TOKEN_BYTES: usize = 4096;

/// The flags of the command line, as typed. They override the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flags {
    pub(crate) config: Option<PathBuf>,
    pub(crate) memory: Option<String>,
    pub(crate) threads: Option<String>,
    pub(crate) user: Option<String>,
    pub(crate) group: Option<String>,
    pub(crate) http: Vec<String>,
    pub(crate) https: Vec<String>,
    pub(crate) http3: bool,
    pub(crate) cert: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) acme: Option<String>,
    pub(crate) names: Vec<String>,
    pub(crate) origin: Vec<String>,
    pub(crate) root: Option<String>,
    pub(crate) preset: Option<String>,
    pub(crate) ttl: Option<String>,
    pub(crate) purge_from: Vec<String>,
    pub(crate) access_log: Option<String>,
    pub(crate) access_log_format: Option<String>,
    pub(crate) memcached: Vec<String>,
    pub(crate) redis: Vec<String>,
    pub(crate) admin: Vec<String>,
    pub(crate) disk: Option<String>,
    pub(crate) disk_size: Option<String>,
    pub(crate) snapshot: Option<String>,
}

/// A checked configuration.
pub(crate) struct Loaded {
    /// None: there are errors in the report.
    pub(crate) settings: Option<Settings>,
    /// Its problems.
    pub(crate) report: Report,
}

/// Reads file and flags. An error means that a file cannot be read; mistakes in it are in the
/// report.
pub(crate) fn load(flags: &Flags) -> Result<Loaded, String> {
    let path = flags
        .config
        .clone()
        .or_else(|| Some(PathBuf::from(DEFAULT_FILE)).filter(|path| path.exists()));
    let text = match &path {
        Some(path) => read(path)?,
        None => String::new(),
    };
    Ok(parse(path.as_deref(), &text, flags))
}

fn read(path: &Path) -> Result<String, String> {
    let text = bounded::read(path, FILE_BYTES).and_then(|(bytes, _)| {
        String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())
    });
    text.map_err(|reason| format!("{}: cannot read the configuration: {reason}\n", path.display()))
}

/// Reads a configuration from its text. `path` names it in messages, and relative paths begin at
/// its directory.
pub(crate) fn parse(path: Option<&Path>, text: &str, flags: &Flags) -> Loaded {
    let mut report = Report::new(path, text);
    let mut root = reader::read_root(text, &mut report);
    apply(flags, &mut root, &mut report);
    let directory = path.and_then(Path::parent).unwrap_or(Path::new("")).to_owned();
    let settings = build::settings(&root, &directory, &mut report);
    report.sort();
    Loaded { settings: settings.filter(|_| report.errors.is_empty()), report }
}

/// Overrides the file with the flags.
fn apply(flags: &Flags, root: &mut Values, report: &mut Report) {
    let one = |text: &Option<String>| text.as_slice().to_vec();
    for (name, flag, value) in [
        ("memory", "--memory", &flags.memory),
        ("threads", "--threads", &flags.threads),
        ("user", "--user", &flags.user),
        ("group", "--group", &flags.group),
        ("snapshot", "--snapshot", &flags.snapshot),
    ] {
        if value.is_some() {
            root.set_from_flag(name, flag, &one(value), report);
        }
    }
    apply_certificate(flags, root, report);
    apply_disk(flags, root, report);
    let ordered = flags.acme.is_some() || !flags.names.is_empty();
    if let Some(acme) = ordered.then(|| root.table_mut("acme")).flatten() {
        if flags.acme.is_some() {
            acme.set_from_flag("email", "--acme", &one(&flags.acme), report);
        }
        if !flags.names.is_empty() {
            acme.set_from_flag("names", "--name", &flags.names, report);
        }
    }
    for (table, flag, addresses) in [
        ("https", "--https", &flags.https),
        ("memcached", "--memcached", &flags.memcached),
        ("redis", "--redis", &flags.redis),
        ("admin", "--admin", &flags.admin),
    ] {
        let table = (!addresses.is_empty()).then(|| root.table_mut(table)).flatten();
        if let Some(table) = table {
            table.set_from_flag("listen", flag, addresses, report);
        }
    }
    if let Some(https) = flags.http3.then(|| root.table_mut("https")).flatten() {
        https.set_from_flag("http3", "--http3", &["true".to_owned()], report);
    }
    let of_http =
        !flags.http.is_empty() || flags.access_log.is_some() || flags.access_log_format.is_some();
    if let Some(http) = of_http.then(|| root.table_mut("http")).flatten() {
        if !flags.http.is_empty() {
            http.set_from_flag("listen", "--http", &flags.http, report);
        }
        let log = (flags.access_log.is_some() || flags.access_log_format.is_some()).then_some(http);
        if let Some(log) = log.and_then(|http| http.table_mut("access_log")) {
            if flags.access_log.is_some() {
                log.set_from_flag("path", "--access-log", &one(&flags.access_log), report);
            }
            if flags.access_log_format.is_some() {
                log.set_from_flag(
                    "format",
                    "--access-log-format",
                    &one(&flags.access_log_format),
                    report,
                );
            }
        }
    }
    let flags = [
        ("--origin", Some("origin"), "url", flags.origin.clone()),
        ("--root", Some("origin"), "root", one(&flags.root)),
        ("--preset", None, "preset", one(&flags.preset)),
        ("--ttl", None, "ttl", one(&flags.ttl)),
        ("--purge-from", Some("purge"), "from", flags.purge_from.clone()),
    ];
    for (flag, table, name, values) in flags.iter().filter(|(.., values)| !values.is_empty()) {
        let Some(site) = the_site(flag, root, report) else { continue };
        let table = match table {
            Some(table) => site.table_mut(table),
            None => Some(site),
        };
        if let Some(table) = table {
            table.set_from_flag(name, flag, values, report);
        }
    }
}

/// `--disk` and `--disk-size`.
fn apply_disk(flags: &Flags, root: &mut Values, report: &mut Report) {
    for (name, flag, value) in
        [("path", "--disk", &flags.disk), ("size", "--disk-size", &flags.disk_size)]
    {
        let table = value.is_some().then(|| root.table_mut("disk")).flatten();
        if let Some(table) = table {
            table.set_from_flag(name, flag, value.as_slice(), report);
        }
    }
}

/// `--cert` and `--key` are one certificate, instead of those of the file.
fn apply_certificate(flags: &Flags, root: &mut Values, report: &mut Report) {
    let one = |text: &Option<String>| text.as_slice().to_vec();
    if flags.cert.is_none() && flags.key.is_none() {
        return;
    }
    let Some(https) = root.table_mut("https") else { return };
    let Some(certificates) = https.tables_mut("certificates") else { return };
    certificates.clear();
    let mut certificate = Values::empty(Section::Certificate, Location::Flag("--cert"));
    for (name, flag, file) in [("cert", "--cert", &flags.cert), ("key", "--key", &flags.key)] {
        match file {
            Some(_) => certificate.set_from_flag(name, flag, &one(file), report),
            None => report.error(Problem::new(
                Location::Flag(flag),
                "a certificate and its key are two files: --cert FILE --key FILE",
            )),
        }
    }
    certificates.push(certificate);
}

/// The one site, which a flag such as `--origin` is about. Without any site, `--origin` makes one
/// for every host.
fn the_site<'r>(
    flag: &'static str,
    root: &'r mut Values,
    report: &mut Report,
) -> Option<&'r mut Values> {
    let sites = root.tables_mut("site")?;
    if sites.is_empty() && flag == "--origin" {
        sites.push(Values::empty(Section::Site, Location::Flag(flag)));
    }
    match sites.as_mut_slice() {
        [site] => Some(site),
        [] => {
            let problem = Problem::new(Location::Flag(flag), "there is no site that it is about");
            report.error(problem.fix("say where the site is: --origin URL"));
            None
        }
        several => {
            let message =
                format!("the configuration has {} sites: which one is meant?", several.len());
            let fix = "write it into the [[site]] it belongs to";
            report.error(Problem::new(Location::Flag(flag), message).fix(fix));
            None
        }
    }
}

#[cfg(test)]
mod tests;
