//! From typed values to settings: the origin of a site.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use larder_server::settings::{
    Candidate, FastCgiSettings, OriginScheme, OriginSettings, Release, TreeSettings,
};

use super::{
    build::file,
    https,
    problem::{Problem, Report},
    reader::Values,
    value::{OriginUrl, UrlScheme, split_authority},
};

/// For FastCGI: how long an idle connection is kept, unless the configuration says.
const IDLE_APPLICATION: Duration = Duration::from_secs(1);

/// Options of FastCGI origins alone.
const OF_FASTCGI: [&str; 7] =
    ["root", "index", "try_files", "split_path", "symlinks", "params", "app_root"];

/// The origin of a site. None: a mistake, which is in the report.
pub(super) fn origin(
    values: &Values,
    directory: &Path,
    report: &mut Report,
) -> Option<OriginSettings> {
    let url: OriginUrl = values.get("url")?;
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
            https::origin_scheme(values, &url, directory, report)?
        }
        UrlScheme::FastCgi => {
            useless(values, &https::OF_HTTPS, "for https origins", report);
            if !values.is_set("idle_timeout") {
                idle_timeout = IDLE_APPLICATION;
            }
            OriginScheme::FastCgi(Arc::new(fastcgi(values, &url, directory, report)?))
        }
    };
    Some(OriginSettings {
        scheme,
        host: url.host,
        port: url.port,
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
        let names = ["index", "try_files", "split_path", "symlinks", "app_root"];
        useless(values, &names, "for origins with a `root`", report);
    }
    let tree = match root {
        Some(root) => Some(tree(values, root, report)?),
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

fn tree(values: &Values, root: PathBuf, report: &mut Report) -> Option<TreeSettings> {
    let root = std::path::absolute(&root).unwrap_or(root);
    if !root.is_dir() {
        let message = format!("{} is no directory, or cannot be read", root.display());
        report.warn(Problem::new(values.location("root"), message));
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
    })
}
