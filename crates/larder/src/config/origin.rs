//! From typed values to settings: the origin of a site.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use larder_proto::proxy_protocol::Version;
use larder_server::settings::{
    Candidate, FastCgiSettings, OriginScheme, OriginSettings, Release, TreeSettings,
};

use super::{
    app,
    build::file,
    https,
    problem::{Location, Problem, Report},
    reader::Values,
    value::{OriginUrl, UrlScheme, split_authority},
};

/// For FastCGI: how long an idle connection is kept, unless the configuration says.
const IDLE_APPLICATION: Duration = Duration::from_secs(1);

/// Options of FastCGI origins alone.
const OF_FASTCGI: [&str; 4] = ["root", "split_path", "params", "app_root"];

/// Options of origins with files.
const OF_FILES: [&str; 5] = ["index", "try_files", "symlinks", "types", "check"];

/// The origin of a site. None: a mistake, which is in the report.
pub(super) fn origin(
    root: &Values,
    values: &Values,
    directory: &Path,
    report: &mut Report,
) -> Option<OriginSettings> {
    let mut url: OriginUrl = values.get("url")?;
    let mut app = None;
    if url.scheme == UrlScheme::App {
        app = Some(url.host.clone());
        url = app::resolve(root, &url, values.location("url"), directory, report)?;
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
            useless(values, &OF_FILES, "for origins with files", report);
            https::origin_scheme(values, &url, directory, report)?
        }
        UrlScheme::FastCgi => {
            useless(values, &["proxy_protocol"], "for HTTP origins", report);
            useless(values, &https::OF_HTTPS, "for https origins", report);
            if !values.is_set("idle_timeout") {
                idle_timeout = IDLE_APPLICATION;
            }
            OriginScheme::FastCgi(Arc::new(fastcgi(values, &url, directory, report)?))
        }
        // Resolved above.
        UrlScheme::App => return None,
        UrlScheme::Files => {
            useless(values, &["proxy_protocol"], "for HTTP origins", report);
            useless(values, &OF_FASTCGI, "for FastCGI origins", report);
            useless(values, &https::OF_HTTPS, "for https origins", report);
            let mut tree = tree(values, "url", of_the_file(values, &url, directory), report)?;
            if !values.is_set("index") {
                tree.index = vec!["index.html".to_owned()];
            }
            OriginScheme::Files(Arc::new(tree))
        }
    };
    Some(OriginSettings {
        scheme,
        host: url.host,
        port: url.port,
        app,
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
        idle_connections: values.get("idle_connections")?,
        idle_timeout,
    })
}

/// Warns of options that have no effect on this kind of origin.
pub(super) fn useless(values: &Values, names: &[&'static str], of: &str, report: &mut Report) {
    for name in names.iter().filter(|name| values.is_set(name)) {
        let message = format!("`{name}` is {of}, and this is none");
        report.warn(Problem::new(values.location(name), message));
    }
}

fn fastcgi(
    values: &Values,
    url: &OriginUrl,
    directory: &Path,
    report: &mut Report,
) -> Option<FastCgiSettings> {
    let root = file(values, "root", directory);
    if root.is_none() {
        useless(values, &OF_FILES, "for origins with a `root`", report);
        useless(values, &["split_path", "app_root"], "for origins with a `root`", report);
    }
    let tree = match root {
        Some(root) => Some(Arc::new(tree(values, "root", root, report)?)),
        None => None,
    };
    Some(FastCgiSettings {
        socket: (!url.path.as_os_str().is_empty()).then(|| url.path.clone()),
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
    })
}
