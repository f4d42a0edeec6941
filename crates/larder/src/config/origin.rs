//! From typed values to settings: the origin of a site, its servers.

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use larder_proto::proxy_protocol::Version;
use larder_server::settings::{
    Candidate, ErrorPages, FastCgiSettings, GroupMember, HealthCheck, OriginGroup, OriginScheme,
    OriginSettings, Release, TargetForm, TreeSettings,
};

use super::{
    app,
    build::file,
    https,
    problem::{Location, Problem, Report},
    reader::Values,
    value::{MemberUrl, OriginUrl, UrlScheme, split_authority},
};

/// For FastCGI: how long an idle connection is kept, unless the configuration says.
const IDLE_APPLICATION: Duration = Duration::from_secs(1);

/// Options of FastCGI origins alone.
const OF_FASTCGI: [&str; 4] = ["root", "split_path", "params", "app_root"];

/// Options of origins with files.
const OF_FILES: [&str; 7] =
    ["index", "try_files", "symlinks", "types", "check", "expires", "listing"];

/// The most servers of one origin. Each worker keeps connections to each.
const MAX_MEMBERS: usize = 64;

/// Options of origins with several servers.
const OF_SEVERAL: [&str; 5] =
    ["balance", "max_failures", "failure_pause", "slow_start", "retry_status"];

/// The origin of a site. None: a mistake, which is in the report.
pub(super) fn group(
    apps: &app::Apps,
    values: &Values,
    pages: &Arc<ErrorPages>,
    directory: &Path,
    report: &mut Report,
) -> Option<OriginGroup> {
    let urls: Vec<MemberUrl> = values.list("url");
    let Some(first) = urls.first().map(|one| one.url.scheme) else {
        // A mistake in an item is in the report.
        if values.is_set("url") && report.errors.is_empty() {
            report.error(Problem::new(values.location("url"), "an origin without a server"));
        }
        return None;
    };
    let mut wrong = |message: &str| {
        report.error(Problem::new(values.location("url"), message));
    };
    if urls.len() > MAX_MEMBERS {
        wrong(&format!("{} servers; at most {MAX_MEMBERS}", urls.len()));
    }
    if urls.iter().any(|one| one.url.scheme != first) {
        wrong("the servers of one origin speak the same protocol");
    }
    if urls.iter().all(|one| one.backup) {
        wrong("every server is a backup, and there is nothing that they stand in for");
    }
    let twice = |one: &&MemberUrl| urls.iter().filter(|other| one.url.is(&other.url)).count() > 1;
    if urls.iter().find(twice).is_some() {
        wrong("a server twice; for a larger share give it a weight: `http://10.0.0.1:80 weight=2`");
    }
    let several = urls.len() > 1;
    if several && first == UrlScheme::Files {
        wrong("files have one directory");
    }
    // A name may have several addresses, and other ones later.
    let named = urls.iter().any(|one| is_name(&one.url.host) && first != UrlScheme::App);
    if !named {
        useless(values, &["resolve"], "for origins with names", report);
    }
    if !(several || named && values.is_set("resolve")) {
        useless(values, &OF_SEVERAL, "for origins with several servers", report);
    }
    let (mut members, mut warnings) = (Vec::new(), None);
    for MemberUrl { url, weight, backup } in urls {
        members.push(GroupMember {
            origin: Arc::new(origin(apps, values, url, pages, directory, report)?),
            weight,
            backup,
        });
        // The options are the same for all: a doubt is told once.
        report.warnings.truncate(*warnings.get_or_insert(report.warnings.len()));
    }
    Some(OriginGroup {
        members,
        balance: values.get("balance")?,
        max_failures: values.get("max_failures")?,
        failure_pause: values.get("failure_pause")?,
        slow_start: values.get("slow_start")?,
        max_requests: values.get("max_requests"),
        adaptive_limit: values.get("adaptive_limit")?,
        retry_status: values.list("retry_status"),
        check: if values.is_set("health") {
            Some(check(&values.table("health"), report)?)
        } else {
            None
        },
        resolve: values.get("resolve"),
    })
}

fn check(values: &Values, report: &mut Report) -> Option<HealthCheck> {
    let path: String = values.get("path")?;
    if !path.starts_with('/') || path.bytes().any(|byte| !(0x21..0x7f).contains(&byte)) {
        let message = format!("expected a path such as \"/ping\", found {path:?}");
        report.error(Problem::new(values.location("path"), message));
    }
    if values.maybe::<String>("body").is_some_and(|body| body.is_empty()) {
        let message = "expected a text that the page of a well server has";
        report.error(Problem::new(values.location("body"), message));
    }
    Some(HealthCheck {
        path,
        host: values.get("host"),
        interval: values.get("interval")?,
        timeout: values.get("timeout")?,
        status: values.list("status"),
        body: values.get("body"),
    })
}

/// Whether a host is looked up: neither an address nor nothing (a socket, files).
fn is_name(host: &str) -> bool {
    !host.is_empty() && host.parse::<IpAddr>().is_err()
}

/// One of its servers.
fn origin(
    apps: &app::Apps,
    values: &Values,
    mut url: OriginUrl,
    pages: &Arc<ErrorPages>,
    directory: &Path,
    report: &mut Report,
) -> Option<OriginSettings> {
    let mut app = None;
    if url.scheme == UrlScheme::App {
        let known = app::resolve(apps, &url.host, values.location("url"), report)?;
        app = Some(known.usage.clone());
        url = app::url(known);
    }
    let host_header: Option<String> = values.maybe("host_header");
    if let Some(host) = &host_header
        && split_authority(host).is_none()
    {
        let message = format!("expected a host such as \"wiki.example.org\", found {host:?}");
        report.error(Problem::new(values.location("host_header"), message));
    }
    let mut idle_timeout = values.get("idle_timeout")?;
    let scheme = match url.scheme {
        UrlScheme::Http | UrlScheme::Https => {
            useless(values, &OF_FASTCGI, "for FastCGI origins", report);
            if !values.is_set("send_files") {
                useless(values, &OF_FILES, "for origins with files", report);
            }
            https::origin_scheme(values, &url, directory, report)?
        }
        UrlScheme::FastCgi => {
            useless(values, &["proxy_protocol"], "for HTTP origins", report);
            useless(values, &https::OF_HTTPS, "for https origins", report);
            if !values.is_set("idle_timeout") {
                idle_timeout = IDLE_APPLICATION;
            }
            OriginScheme::FastCgi(Arc::new(fastcgi(values, pages, directory, report)?))
        }
        // Resolved above.
        UrlScheme::App => return None,
        UrlScheme::Files => {
            useless(values, &["proxy_protocol"], "for HTTP origins", report);
            useless(values, &OF_FASTCGI, "for FastCGI origins", report);
            useless(values, &https::OF_HTTPS, "for https origins", report);
            let root = of_the_file(values, &url, directory);
            OriginScheme::Files(Arc::new(files(values, root, pages, report)?))
        }
    };
    let is_socket = url.scheme != UrlScheme::Files && !url.path.as_os_str().is_empty();
    let socket = is_socket.then_some(url.path);
    if let Some(path) = socket.as_ref().filter(|path| app.is_none() && !path.exists()) {
        let message = format!("{} is not there: nobody listens on it yet", path.display());
        report.warn(Problem::new(values.location("url"), message));
    }
    Some(OriginSettings {
        scheme,
        target: TargetForm::Origin,
        socket,
        host: url.host,
        port: url.port,
        address: None,
        app,
        send_files: send_files(values, directory, report)?,
        proxy_protocol: match values.maybe::<String>("proxy_protocol").as_deref() {
            Some("v1") => Some(Version::One),
            Some(_) => Some(Version::Two),
            None => None,
        },
        host_header,
        connect_timeout: values.get("connect_timeout")?,
        first_byte_timeout: values.get("first_byte_timeout")?,
        between_bytes_timeout: values.get("between_bytes_timeout")?,
        total_timeout: values.get("total_timeout")?,
        max_connections: values.get("max_connections")?,
        max_waiting: values.get("max_waiting")?,
        max_wait: values.get("max_wait").or_else(|| values.get("first_byte_timeout"))?,
        idle_connections: values.get("idle_connections")?,
        idle_timeout,
    })
}

/// The directories whose files its answers may name.
fn send_files(
    values: &Values,
    directory: &Path,
    report: &mut Report,
) -> Option<Vec<(String, Arc<TreeSettings>)>> {
    let named: Vec<(String, PathBuf)> = values.list("send_files");
    let root = |(prefix, path): (String, PathBuf)| {
        let tree = tree(values, "send_files", directory.join(path), report)?;
        Some((prefix, Arc::new(tree)))
    };
    named.into_iter().map(root).collect()
}

/// Warns of options that have no effect on this kind of origin.
pub(super) fn useless(values: &Values, names: &[&'static str], of: &str, report: &mut Report) {
    for name in names.iter().filter(|name| values.is_set(name)) {
        let message = format!("`{name}` is {of}, and this is none");
        report.warn(Problem::new(values.location(name), message));
    }
}

/// The tree of a `files:` origin.
fn files(
    values: &Values,
    root: PathBuf,
    pages: &Arc<ErrorPages>,
    report: &mut Report,
) -> Option<TreeSettings> {
    let mut tree = tree(values, "url", root, report)?;
    tree.error_pages = pages.clone();
    if !values.is_set("index") {
        tree.index = vec!["index.html".to_owned()];
    }
    Some(tree)
}

fn fastcgi(
    values: &Values,
    pages: &Arc<ErrorPages>,
    directory: &Path,
    report: &mut Report,
) -> Option<FastCgiSettings> {
    let root = file(values, "root", directory);
    if root.is_none() {
        useless(values, &OF_FILES, "for origins with a `root`", report);
        useless(values, &["split_path", "app_root"], "for origins with a `root`", report);
    }
    let tree = match root {
        Some(root) => {
            let tree = tree(values, "root", root, report)?;
            Some(Arc::new(TreeSettings { error_pages: pages.clone(), ..tree }))
        }
        None => None,
    };
    Some(FastCgiSettings {
        tree,
        app_root: values.maybe::<String>("app_root").map(PathBuf::from),
        split_path: values.list("split_path"),
        params: values.list("params"),
        release: Release::default(),
    })
}

/// The directory of a `files:` URL; in a configuration file relative to the file's directory.
fn of_the_file(values: &Values, url: &OriginUrl, directory: &Path) -> PathBuf {
    match values.location("url") {
        Location::File(_) => directory.join(&url.path),
        _ => url.path.clone(),
    }
}

fn tree(
    values: &Values,
    named: &'static str,
    root: PathBuf,
    report: &mut Report,
) -> Option<TreeSettings> {
    let root = std::path::absolute(&root).unwrap_or(root);
    if !root.is_dir() {
        let message = format!("{} is no directory, or cannot be read", root.display());
        report.warn(Problem::new(values.location(named), message));
    }
    let try_files: Vec<Candidate> = values.list("try_files");
    for (index, location) in values.items::<String>("index").unwrap_or_default() {
        if index.contains('/') {
            let message = format!("expected the name of a file, found {index:?}");
            report.error(Problem::new(location, message));
        }
    }
    Some(TreeSettings {
        root,
        index: values.list("index"),
        try_files,
        follow_links: values.get::<String>("symlinks")? == "follow",
        types: values.list("types"),
        check: values.get::<Duration>("check")?.as_secs() as u32,
        expires: values.list("expires"),
        listing: values.get("listing")?,
        error_pages: Arc::default(),
    })
}
