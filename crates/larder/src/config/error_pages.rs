//! From typed values to settings: pages for errors of Larder's own.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use larder_server::settings::{ErrorPage, ErrorPages};

use super::{
    bounded,
    problem::{Location, Problem, Report},
    reader::Values,
};

/// Largest page: each answer that says no has all of it.
const PAGE_BYTES: usize = 64 << 10;

/// The first and the last status of a page, and its file.
type Named = ((u16, u16), PathBuf);

/// The pages of `[http]`, or those of a site before `common` ones.
pub(super) fn error_pages(
    values: &Values,
    common: Option<Arc<ErrorPages>>,
    directory: &Path,
    report: &mut Report,
) -> Arc<ErrorPages> {
    let named: Vec<(Named, Location)> = values.items("error_pages").unwrap_or_default();
    let mut own = Vec::new();
    for (((first, last), path), location) in named {
        let path = directory.join(path);
        match read(&path) {
            Ok((content_type, text)) => own.push(ErrorPage { first, last, content_type, text }),
            Err(reason) => {
                let message = format!("cannot use the page {}: {reason}", path.display());
                report.error(Problem::new(location, message));
            }
        }
    }
    match common {
        Some(common) if own.is_empty() => common,
        common => Arc::new(ErrorPages { own, common }),
    }
}

fn read(path: &Path) -> Result<(String, String), String> {
    let (bytes, _) = bounded::read(path, PAGE_BYTES)?;
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())?;
    Ok((media_type(path)?.to_owned(), text))
}

fn media_type(path: &Path) -> Result<&'static str, String> {
    let extension = path.extension().and_then(|extension| extension.to_str());
    match extension.unwrap_or_default().to_ascii_lowercase().as_str() {
        "html" | "htm" => Ok("text/html; charset=utf-8"),
        "txt" | "" => Ok("text/plain; charset=utf-8"),
        "json" => Ok("application/json"),
        "xml" => Ok("application/xml"),
        "svg" => Ok("image/svg+xml"),
        other => Err(format!("a page is .html, .txt, .json, .xml or .svg, not .{other}")),
    }
}
