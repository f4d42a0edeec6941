//! Tags of stored pages: surrogate keys, and the URL of a page that has more than the URL in its
//! key.

use larder_proto::http::key::{self, KeyParts};

use crate::page::spelling;

/// Fields of surrogate keys that are separated by blanks or commas.
pub(crate) const TAG_FIELDS: [&str; 6] =
    ["surrogate-key", "xkey", "cache-tags", "purge-cache-tags", "x-cache-tags", "x-magento-tags"];

/// A surrogate key as the store knows it. Tags belong to a site: a purge of one site does not reach
/// another.
pub(crate) fn site_tag(site: &str, tag: &[u8]) -> Vec<u8> {
    [site.as_bytes(), b"\0", tag].concat()
}

/// The surrogate key that stands for a group of pages of one host and port (RFC 9875). A surrogate
/// key that an origin names has no control characters. `page` is the key of a page there.
pub(crate) fn group_tag(page: &[u8], group: &[u8]) -> Option<Vec<u8>> {
    let KeyParts { host, port, .. } = key::parse_key(page)?;
    Some([b"\x01", host.as_bytes(), b"\x01", &port.to_be_bytes(), group].concat())
}

/// The tag of all pages whose key is that of the URL and something behind it. No site has an empty
/// name.
pub(crate) fn url_tag(url_key: &[u8]) -> Vec<u8> {
    [b"\0", url_key].concat()
}

/// The tag of all pages of a path whose responses have a rule of No-Vary-Search. `page` is the key
/// of one. No key of a URL begins so.
pub(crate) fn path_tag(page: &[u8]) -> Vec<u8> {
    [b"\0?", spelling::path_of(page)].concat()
}

/// Tags of a page besides those of its site: its URL's, and its path's.
pub(crate) const OWN_TAGS: usize = 2;

/// All tags of the record under `key`, which is a page's or a variant's. `spelled`: its response
/// has a rule of No-Vary-Search.
pub(crate) fn tags(
    site: &str,
    surrogate_keys: &[Box<[u8]>],
    key: &[u8],
    spelled: bool,
) -> Vec<Box<[u8]>> {
    let page = key::parse_variant_key(key).map_or(key, |(page, ..)| page);
    let url = Some(key::url_key(page)).filter(|url| url.len() < page.len());
    let path = spelled.then(|| path_tag(page));
    let own = surrogate_keys.iter().map(|tag| site_tag(site, tag));
    own.chain(url.map(url_tag)).chain(path).map(Vec::into_boxed_slice).collect()
}
