//! The directives that govern a response or a request.
//!
//! A response may have directives for several kinds of caches. The most specific readable field for
//! this cache replaces Cache-Control and Expires altogether (RFC 9213 2.2): first the targeted
//! fields, then Surrogate-Control.

use super::{Policy, RequestView};
use crate::http::{CacheControl, Fields, KnownField};

/// Source of the governing directives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Cache-Control, with Expires.
    CacheControl,
    /// CDN-Cache-Control or another targeted field: Expires does not count.
    Targeted,
    /// Surrogate-Control: Expires does not count.
    Surrogate,
}

/// The directives by which a response is stored and reused.
pub fn governing(response: Fields<'_>, policy: &Policy) -> (CacheControl, Source) {
    for target in &policy.targets {
        if let Some(directives) = CacheControl::parse_targeted(response.all(target)) {
            return (directives, Source::Targeted);
        }
    }
    if policy.surrogate {
        let device = policy.surrogate_id.as_bytes();
        if let Some(directives) =
            CacheControl::parse_surrogate(response.all("surrogate-control"), device)
            && (directives.max_age.is_some() || directives.no_store)
        {
            return (directives, Source::Surrogate);
        }
    }
    (CacheControl::parse(response.all("cache-control")), Source::CacheControl)
}

/// The request's directives as far as the operator allows them. `Pragma: no-cache` means `no-cache`
/// if there is no Cache-Control (RFC 9111 5.4).
#[inline]
pub fn of_request(req: &RequestView<'_>, policy: &Policy) -> CacheControl {
    if !policy.honour_client_cc {
        return CacheControl::default();
    }
    if req.known.cache_control().is_some() {
        return CacheControl::parse(req.known.lines(KnownField::CacheControl));
    }
    match req.known.pragma() {
        Some(_) => pragma(req.known.lines(KnownField::Pragma)),
        None => CacheControl::default(),
    }
}

/// The only directive of Pragma is no-cache.
fn pragma<'a>(lines: impl Iterator<Item = &'a [u8]>) -> CacheControl {
    CacheControl { no_cache: CacheControl::parse(lines).no_cache, ..CacheControl::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::test_support::fields;

    #[test]
    fn the_most_specific_readable_field_governs() {
        let policy = Policy::default();
        for (list, source, max_age) in [
            (&[("Cache-Control", "max-age=1")][..], Source::CacheControl, Some(1)),
            (
                &[("Cache-Control", "max-age=1"), ("CDN-Cache-Control", "max-age=2")],
                Source::Targeted,
                Some(2),
            ),
            (
                &[("Cache-Control", "max-age=1"), ("CDN-Cache-Control", "max-age=2,")],
                Source::CacheControl,
                Some(1),
            ),
            (
                &[("Cache-Control", "max-age=1"), ("CDN-Cache-Control", "")],
                Source::CacheControl,
                Some(1),
            ),
            (
                &[("Cache-Control", "max-age=1"), ("CDN-Cache-Control", "&&&")],
                Source::CacheControl,
                Some(1),
            ),
            (
                &[("Cache-Control", "no-store"), ("CDN-Cache-Control", "no-cache")],
                Source::Targeted,
                None,
            ),
            (
                &[("Cache-Control", "no-store"), ("Surrogate-Control", "max-age=3")],
                Source::Surrogate,
                Some(3),
            ),
            (
                &[("Cache-Control", "max-age=1"), ("Surrogate-Control", "max-age=3;larder")],
                Source::Surrogate,
                Some(3),
            ),
            (
                &[("Cache-Control", "max-age=1"), ("Surrogate-Control", "max-age=3;other")],
                Source::CacheControl,
                Some(1),
            ),
            (
                &[("Cache-Control", "max-age=1"), ("Surrogate-Control", "content=\"ESI/1.0\"")],
                Source::CacheControl,
                Some(1),
            ),
            (
                &[("Surrogate-Control", "max-age=3"), ("CDN-Cache-Control", "max-age=2")],
                Source::Targeted,
                Some(2),
            ),
        ] {
            let held = fields(list);
            let (directives, from) = governing(Fields::new(&held), &policy);
            assert_eq!((from, directives.max_age), (source, max_age), "{list:?}");
        }
    }

    #[test]
    fn an_operator_names_the_targets() {
        let policy = Policy {
            targets: vec!["Larder-CC".into(), "CDN-Cache-Control".into()],
            surrogate: false,
            ..Policy::default()
        };
        let held = fields(&[
            ("CDN-Cache-Control", "max-age=2"),
            ("larder-cc", "max-age=4"),
            ("Surrogate-Control", "no-store"),
        ]);
        assert_eq!(governing(Fields::new(&held), &policy).0.max_age, Some(4));
        assert_eq!(governing(Fields::new(&held[2..]), &policy).1, Source::CacheControl);
    }
}
