//! From typed values to settings: `[admin]`.

use std::{net::SocketAddr, path::Path};

use larder_server::settings::{AdminSettings, HostPattern, Listen, ReadAccess};

use super::{
    build::token_file,
    https,
    problem::{Problem, Report},
    reader::Values,
};

/// The admin interface; None: the file has no such table, or has a mistake in it, which is in the
/// report.
pub(super) fn admin(root: &Values, directory: &Path, report: &mut Report) -> Option<AdminSettings> {
    if !root.is_set("admin") {
        return None;
    }
    let values = root.table("admin");
    let mut settings = AdminSettings {
        listen: plain_listen(&values),
        tls: https::face_tls(&values, |tls| tls.list("listen"), directory, report),
        token: token_file(&values, "token_file", directory, report),
        hosts: hosts(&values, report),
        read: ReadAccess::Open,
        name: values.get::<String>("name").unwrap_or_else(machine),
        monkey_api: values.get("monkey_api")?,
        connections: values.get("connections")?,
        page_size: values.get("page_size")?,
    };
    settings.read = match values.get::<String>("read").as_deref() {
        Some("token") => ReadAccess::Token,
        Some(_) => ReadAccess::Open,
        None if settings.is_local() => ReadAccess::Open,
        None => ReadAccess::Token,
    };
    if let Some(tls) = &settings.tls
        && tls.listen.iter().any(|listen| matches!(listen, Listen::Unix { .. }))
    {
        let message = "the admin interface has no unix sockets";
        report.error(Problem::new(values.table("tls").location("listen"), message));
    }
    if settings.listen.is_empty() && settings.tls.is_none() {
        let problem = Problem::new(values.location("listen"), "it listens nowhere");
        report.error(problem.fix("name an address, or take out [admin]"));
    }
    if settings.read == ReadAccess::Open && !settings.is_local() {
        let message =
            "other machines can reach it, and every one of them may look: URLs, clients, pages";
        report.warn(Problem::new(values.location("read"), message).fix("write read = \"token\""));
    }
    Some(settings)
}

/// The addresses without TLS. One that is there by default is not there beside TLS.
fn plain_listen(values: &Values) -> Vec<SocketAddr> {
    let alone = values.is_set("tls") && !values.is_set("listen");
    if alone { Vec::new() } else { values.list("listen") }
}

fn machine() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Names are compared as a whole: a pattern could match names that others can register.
fn hosts(values: &Values, report: &mut Report) -> Vec<String> {
    let mut out = Vec::new();
    for (host, location) in values.items::<HostPattern>("hosts").unwrap_or_default() {
        match host {
            HostPattern::Exact(name) => out.push(name),
            HostPattern::Suffix(suffix) => {
                let message =
                    format!("expected a name such as \"cache.example.org\", found \"*{suffix}\"");
                report.error(Problem::new(location, message).fix("name each host"));
            }
        }
    }
    out
}
