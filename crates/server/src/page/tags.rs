//! Surrogate keys of pages.

/// Tags are a site's own: who may purge one site must not reach into another.
pub(crate) fn site_tag(site: &str, tag: &[u8]) -> Vec<u8> {
    [site.as_bytes(), b"\0", tag].concat()
}
