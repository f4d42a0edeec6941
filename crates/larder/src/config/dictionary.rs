//! The dictionary of a site, from typed values.

use std::time::Duration;

use larder_proto::http::Codings;
use larder_server::settings::{DictionarySettings, RulePolicy};

use super::{
    problem::{Problem, Report},
    reader::Values,
};

/// None: pages of the site are not compressed with dictionaries.
pub(super) fn dictionary(
    root: &Values,
    site: &Values,
    defaults: &RulePolicy,
    report: &mut Report,
) -> Option<DictionarySettings> {
    let values = site.is_set("dictionary").then(|| site.table("dictionary"))?;
    if !values.get::<bool>("on")? {
        return None;
    }
    let location = || site.location("dictionary");
    let codes = |coding| defaults.cache.compress.contains(&coding);
    if !codes(Codings::BR) && !codes(Codings::ZSTD) {
        let message = "no page is compressed with a dictionary: `compress` has neither zstd nor br";
        let fix = "compress = [\"zstd\", \"br\", \"gzip\"]";
        report.warn(Problem::new(location(), message).fix(fix));
    }
    let proxied = root.table("http").is_set("trusted_proxies");
    if !root.is_set("https") && !proxied {
        let message = "no page is compressed with a dictionary: browsers use them over HTTPS alone";
        let fix = "serve [https], or name the proxies before this one that do: \
                   http.trusted_proxies";
        report.warn(Problem::new(location(), message).fix(fix));
    }
    let refresh: Duration = values.get("refresh")?;
    Some(DictionarySettings {
        size: values.get("size")?,
        pages: values.get("pages")?,
        refresh: u32::try_from(refresh.as_secs()).unwrap_or(u32::MAX),
    })
}
