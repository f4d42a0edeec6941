//! The dashboard's files, carried in the binary: page, style and icon as they are, the program
//! built from `src/` into `dist/`.
//!
//! `dist/` is committed, so that building Larder needs nothing but Rust;
//! `tests/dashboard/build.mjs` makes it anew, and a test holds it equal to its source. The files
//! load nothing from elsewhere and have no script or style inline, so that
//! `Content-Security-Policy: default-src 'self'` holds for them.

use std::sync::LazyLock;

/// One file of the dashboard, as it is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asset {
    /// The whole body.
    pub(crate) bytes: &'static [u8],
    /// Value of `Content-Type`.
    pub(crate) content_type: &'static str,
    /// Value of `ETag`, quotes included: a strong validator made from the bytes.
    pub(crate) etag: &'static str,
}

/// The file for the path of a request's target: `/` or `/assets/...`, without a query. `None`:
/// there is no such file.
pub(crate) fn asset(path: &str) -> Option<Asset> {
    ASSETS.iter().find(|(name, _)| *name == path).map(|(_, asset)| *asset)
}

static ASSETS: LazyLock<[(&str, Asset); 4]> = LazyLock::new(|| {
    [
        ("/", page(include_bytes!("index.html"), "text/html; charset=utf-8")),
        ("/assets/app.js", page(include_bytes!("dist/app.js"), "text/javascript; charset=utf-8")),
        ("/assets/style.css", page(include_bytes!("style.css"), "text/css; charset=utf-8")),
        ("/assets/icon.svg", page(include_bytes!("icon.svg"), "image/svg+xml")),
    ]
});

/// Runs once for each file of the table, so what it leaks is bounded.
fn page(bytes: &'static [u8], content_type: &'static str) -> Asset {
    let etag = format!("\"{:016x}\"", fnv1a(bytes)).leak();
    Asset { bytes, content_type, etag }
}

/// FNV-1a, 64 bits: tells one build's file from another's. Nobody sends us files to collide.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_names_only_files_that_are_there() {
        let html = std::str::from_utf8(asset("/").unwrap().bytes).unwrap();
        let named: Vec<_> = html
            .split(['"', '\''])
            .filter(|word| word.starts_with('/') || word.contains("://"))
            .collect();
        assert!(named.len() >= 3, "{named:?}");
        for path in named {
            assert!(asset(path).is_some(), "{path} is not there");
        }
    }

    #[test]
    fn the_page_has_nothing_inline() {
        let html = std::str::from_utf8(asset("/").unwrap().bytes).unwrap();
        assert!(
            !html.contains("<style") && !html.contains(" style=") && !html.contains(" onclick=")
        );
        assert_eq!(
            html.matches("<script").count(),
            html.matches("<script type=\"module\" src=").count()
        );
    }

    #[test]
    fn entity_tags_differ_and_are_quoted() {
        let mut tags: Vec<_> = ASSETS.iter().map(|(_, asset)| asset.etag).collect();
        assert!(
            tags.iter().all(|tag| tag.len() == 18 && tag.starts_with('"') && tag.ends_with('"'))
        );
        tags.sort_unstable();
        tags.dedup();
        assert_eq!(tags.len(), ASSETS.len());
    }

    #[test]
    fn fnv1a_of_a_known_text() {
        // From the tables of draft-eastlake-fnv, appendix C.
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn what_is_not_ours_is_not_there() {
        for path in ["", "/assets/", "/assets/../mod.rs", "/index.html", "//", "/assets/app.js/"] {
            assert!(asset(path).is_none(), "{path}");
        }
    }
}
