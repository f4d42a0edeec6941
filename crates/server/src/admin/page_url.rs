//! URLs in requests of operators, and their pages.

use std::sync::Arc;

use larder_proto::http::{
    Authority, Method, Target,
    key::{self, KeyParts, Scheme},
    query,
};

use super::{App, answer::Refused};
use crate::settings::{RequestView, Settings, Site};

/// The page of a URL: the parts of its key.
pub(super) struct PageUrl {
    pub(super) site: Arc<Site>,
    pub(super) scheme: Scheme,
    pub(super) host: String,
    pub(super) port: Option<u16>,
    /// Path and query, after the site's query rules.
    pub(super) path: String,
}

impl PageUrl {
    /// The page of a URL.
    pub(super) fn of(app: &App, url: &str) -> Result<PageUrl, Refused> {
        let mut place = PageUrl::verbatim(app, url)?;
        let plain = place.path.split_once('?').map_or(place.path.as_str(), |(plain, _)| plain);
        let any = |_: &str, _: &mut dyn FnMut(&[u8]) -> bool| false;
        let policy = place.site.policy(&RequestView { method: "GET", path: plain, any: &any });
        place.path =
            query::normalise_query(&place.path, &policy.drop_query, policy.sort_query).into_owned();
        Ok(place)
    }

    /// The same with path and query unchanged, for prefixes.
    pub(super) fn verbatim(app: &App, url: &str) -> Result<PageUrl, Refused> {
        let wrong = || {
            let message =
                format!("expected a URL such as \"http://example.org/page\", found {url:?}");
            Refused::bad("bad_url", message)
        };
        let url = url.split('#').next().unwrap_or_default();
        let target = Target::parse(Method::Get, url).map_err(|_| wrong())?;
        let scheme = target.scheme.and_then(Scheme::named).ok_or_else(wrong)?;
        let authority = target
            .authority
            .and_then(|text| Authority::parse(text.as_bytes()))
            .ok_or_else(wrong)?;
        let settings = app.settings();
        let site = settings.site_for(authority.host).ok_or_else(|| {
            Refused::absent(
                "no_site",
                format!("no site of this server has the host {:?}", authority.host),
            )
        })?;
        Ok(PageUrl {
            site: site.clone(),
            scheme,
            host: authority.host.to_owned(),
            port: authority.port,
            path: target.path_and_query.to_owned(),
        })
    }

    /// Its key.
    pub(super) fn key(&self) -> Vec<u8> {
        let mut out = Vec::new();
        key::write_key(
            &mut out,
            self.scheme,
            &self.host,
            self.port.unwrap_or(0),
            self.path.as_bytes(),
        );
        out
    }
}

/// The URL of a key with its other parts: the host that a trusted proxy named, if any, and the
/// lines of the site's `key_fields`.
pub(super) fn url_of(key: &KeyParts<'_>) -> (String, Option<String>, Vec<String>) {
    let (path, behind) = key::split_behind(key.path_and_query);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let lines = behind.lines.iter().map(|(name, value)| format!("{}: {}", text(name), text(value)));
    let port = if key.port == 0 { String::new() } else { format!(":{}", key.port) };
    let url = format!("{}://{}{port}{}", key.scheme.as_str(), key.host, text(path));
    (url, behind.forwarded_host.map(text), lines.collect())
}

/// The name of the site that a host belongs to.
pub(super) fn site_name<'s>(settings: &'s Settings, host: &str) -> &'s str {
    settings.site_for(host).map_or("-", |site| &site.name)
}
