//! From typed values to settings: `[[app]]`, and `app:NAME` of an origin.

use std::{
    collections::HashSet,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use larder_server::settings::{AppListen, AppProtocol, AppSettings, AppUse};

use super::{
    build::file,
    identity,
    options::Section,
    problem::{Location, Problem, Report, nearest},
    reader::Values,
    value::{OriginUrl, UrlScheme, address},
};

/// The longest path of a unix socket, in bytes: the kernel's limit, less the zero at the end.
const LONGEST_PATH: usize = 107;

/// Where an application listens, as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Auto,
    Unix(PathBuf),
    Tcp(SocketAddr),
}

/// `auto`, a path, `unix:` and a path, a port, an address and port.
pub(crate) fn place(text: &str) -> Result<Place, String> {
    if text == "auto" {
        return Ok(Place::Auto);
    }
    let path = text.strip_prefix("unix:").or(text.starts_with('/').then_some(text));
    if let Some(path) = path {
        return match path.len() {
            1..=LONGEST_PATH if !path.contains('\0') => Ok(Place::Unix(path.into())),
            _ => Err("a path of at most 107 bytes".to_owned()),
        };
    }
    let port = text.parse().ok().filter(|port| *port != 0);
    if let Some(port) = port {
        return Ok(Place::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, port))));
    }
    let expected = || "\"auto\", a path, a port, or an address and port".to_owned();
    let address = address(text).map_err(|_| expected())?;
    if address.port() == 0 { Err(expected()) } else { Ok(Place::Tcp(address)) }
}

/// The directory of sockets that Larder chooses: of the service if systemd made one, else of this
/// process.
fn own_directory() -> PathBuf {
    let given = std::env::var_os("RUNTIME_DIRECTORY")
        .and_then(|value| std::env::split_paths(&value).next().filter(|path| path.is_absolute()));
    let name = format!("larder-{}", std::process::id());
    given.unwrap_or_else(std::env::temp_dir).join(name)
}

/// The applications of a file.
pub(super) struct Apps {
    pub(super) all: Vec<Arc<AppSettings>>,
    /// The names of all, those with a mistake included.
    names: Vec<String>,
}

/// All applications. A mistake is in the report.
pub(super) fn apps(root: &Values, directory: &Path, report: &mut Report) -> Apps {
    let mut seen = HashSet::new();
    let mut places: Vec<AppListen> = Vec::new();
    let mut apps = Vec::new();
    for values in root.tables("app") {
        let Some(app) = app(values, directory, report) else { continue };
        if !seen.insert(app.name.clone()) {
            let message = format!("there are two applications of the name \"{}\"", app.name);
            report.error(Problem::new(values.location("name"), message));
        }
        if places.contains(&app.listen) {
            let message = "another application listens there";
            report.error(Problem::new(values.location("listen"), message));
        }
        if root.is_set("user") && (app.user.is_some() || app.group.is_some()) {
            let name = if app.user.is_some() { "user" } else { "group" };
            let message = "the server itself gives up the rights of root, so it cannot start a \
                           program as another user or group";
            report.error(Problem::new(values.location(name), message));
        }
        places.push(app.listen.clone());
        apps.push(Arc::new(app));
    }
    let names = root.tables("app").iter().filter_map(|values| values.maybe("name")).collect();
    Apps { all: apps, names }
}

fn app(values: &Values, directory: &Path, report: &mut Report) -> Option<AppSettings> {
    let name: String = values.maybe("name")?;
    let protocol = protocol(values);
    let listen = listen(values, &name, directory, report)?;
    let ready: Option<String> = values.maybe("ready");
    if let Some(path) = &ready {
        let whole = path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic());
        if !whole {
            let message = format!("expected a path such as \"/healthy\", found {path:?}");
            report.error(Problem::new(values.location("ready"), message));
        }
        if protocol == AppProtocol::FastCgi {
            let message = "`ready` is for `protocol = \"http\"`, and this is none";
            report.warn(Problem::new(values.location("ready"), message));
        }
    }
    let (user, group) = identity::owner(values, report)?;
    if (user.is_some() || group.is_some()) && !rustix::process::geteuid().is_root() {
        let name = if user.is_some() { "user" } else { "group" };
        let message = "only root may start programs as another user or group";
        report.warn(Problem::new(values.location(name), message));
    }
    Some(AppSettings {
        command: command(values, report)?,
        listen,
        protocol,
        processes: values.get("processes")?,
        user,
        group,
        env: values.list("env"),
        cwd: file(values, "cwd", directory),
        limits: limits(&values.table("limits")),
        max_age: values.maybe("max_age"),
        max_requests: values.maybe("max_requests"),
        usage: Arc::new(AppUse::new(&name)),
        ready,
        start_timeout: values.get("start_timeout")?,
        stop_timeout: values.get("stop_timeout")?,
        name,
    })
}

fn protocol(values: &Values) -> AppProtocol {
    match values.maybe::<String>("protocol").as_deref() {
        Some("http") => AppProtocol::Http,
        _ => AppProtocol::FastCgi,
    }
}

/// A single text with blanks is a line for the shell, which the program then takes the place of.
fn command(values: &Values, report: &mut Report) -> Option<Vec<String>> {
    let words: Vec<String> = values.list("command");
    let wrong = words.iter().any(|word| word.contains('\0'))
        || words.first().is_none_or(|word| word.trim().is_empty());
    if wrong {
        let message = "expected a program, such as [\"php-cgi\"]";
        report.error(Problem::new(values.location("command"), message));
        return None;
    }
    match words.as_slice() {
        [line] if line.contains(char::is_whitespace) => {
            Some(vec!["/bin/sh".to_owned(), "-c".to_owned(), format!("exec {line}")])
        }
        _ => Some(words),
    }
}

fn listen(values: &Values, name: &str, directory: &Path, report: &mut Report) -> Option<AppListen> {
    let place: Place = values.get("listen")?;
    let listen = match place {
        Place::Tcp(address) => return Some(AppListen::Tcp(address)),
        Place::Unix(path) => {
            let path = std::path::absolute(directory.join(path)).ok()?;
            AppListen::Unix { path, own: false }
        }
        Place::Auto => {
            let path = own_directory().join(format!("{name}.sock"));
            AppListen::Unix { path, own: true }
        }
    };
    if let AppListen::Unix { path, .. } = &listen
        && path.as_os_str().len() > LONGEST_PATH - SPARE
    {
        let message = format!("the path {} is too long for a unix socket", path.display());
        report.error(Problem::new(values.location("listen"), message));
        return None;
    }
    Some(listen)
}

/// Bytes behind the path for the name under which a new socket is opened first.
const SPARE: usize = 4;

/// The limits that are set, in units of setrlimit(2).
fn limits(values: &Values) -> Vec<(&'static str, u64)> {
    let limit = |name: &'static str| {
        let value = match name {
            "cpu" => values.maybe::<Duration>(name)?.as_secs(),
            _ => values.maybe::<u64>(name)?,
        };
        Some((name, value))
    };
    Section::AppLimits.options().filter_map(|opt| limit(opt.name)).collect()
}

/// The application of `app:NAME`. None: a mistake, which is in the report.
pub(super) fn resolve<'a>(
    apps: &'a Apps,
    name: &String,
    location: Location,
    report: &mut Report,
) -> Option<&'a AppSettings> {
    let found = apps.all.iter().find(|app| app.name == *name);
    // The mistakes of one are told once.
    if found.is_none() && !apps.names.contains(name) {
        let problem = Problem::new(location, format!("there is no [[app]] \"{name}\""));
        report.error(match nearest(name, apps.names.iter().map(String::as_str)) {
            Some(near) => problem.fix(format!("did you mean \"app:{near}\"?")),
            None => problem,
        });
    }
    found.map(Arc::as_ref)
}

/// The address of an application, as that of any other origin.
pub(super) fn url(app: &AppSettings) -> OriginUrl {
    let scheme = match app.protocol {
        AppProtocol::Http => UrlScheme::Http,
        AppProtocol::FastCgi => UrlScheme::FastCgi,
    };
    match &app.listen {
        AppListen::Tcp(address) => OriginUrl {
            scheme,
            host: address.ip().to_string(),
            port: address.port(),
            path: PathBuf::new(),
        },
        AppListen::Unix { path, .. } => {
            OriginUrl { scheme, host: String::new(), port: 0, path: path.clone() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        let tcp = |text: &str| Ok(Place::Tcp(text.parse().expect("an address")));
        assert_eq!(place("auto"), Ok(Place::Auto));
        assert_eq!(place("9001"), tcp("127.0.0.1:9001"));
        assert_eq!(place("[::1]:9001"), tcp("[::1]:9001"));
        assert_eq!(place("/run/app.sock"), Ok(Place::Unix("/run/app.sock".into())));
        assert_eq!(place("unix:app.sock"), Ok(Place::Unix("app.sock".into())));
        let long = format!("/{}", "a".repeat(LONGEST_PATH));
        for text in ["", "0", "65536", "app.sock", "unix:", "127.0.0.1:0", "127.0.0.1", &long] {
            assert!(place(text).is_err(), "{text}");
        }
    }
}
