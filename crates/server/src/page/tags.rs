//! Tags of stored pages: surrogate keys, and the URL of a page that has more than the URL in its
//! key.

use larder_proto::http::key::{self, KeyParts};

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

/// All tags of the record under `key`, which is a page's or a variant's.
pub(crate) fn tags(site: &str, surrogate_keys: &[Box<[u8]>], key: &[u8]) -> Vec<Box<[u8]>> {
    let page = key::parse_variant_key(key).map_or(key, |(page, ..)| page);
    let url = Some(key::url_key(page)).filter(|url| url.len() < page.len());
    let own = surrogate_keys.iter().map(|tag| site_tag(site, tag));
    own.chain(url.map(url_tag)).map(Vec::into_boxed_slice).collect()
}
