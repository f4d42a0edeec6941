//! Which responses are searched for the markup of Edge Side Includes, and the facts of what is put
//! together.

use super::{Esi, Policy, ResponseFacts, compress};
use crate::http::Elements;

/// Whether responses with this status may have markup: those with a whole body that browsers show.
/// A theme writes its includes into the pages that say 404 or 500, too.
pub fn may_have_markup(status: u16) -> bool {
    matches!(status, 200..=203 | 207..=299 | 400..=599)
}

/// Whether a response is searched for markup: one that says so in Surrogate-Control (Edge
/// Architecture 1.0, 2.3), or whose type and rule do.
pub fn applies(resp: &ResponseFacts<'_>, policy: &Policy) -> bool {
    if !may_have_markup(resp.status) {
        return false;
    }
    match policy.esi {
        Esi::Never => false,
        Esi::Surrogate => announced(resp, policy),
        Esi::Always => {
            announced(resp, policy) || resp.fields.get("content-type").is_some_and(has_markup)
        }
    }
}

/// Whether Surrogate-Control says `content="ESI/1.0"`, for this cache or for any. The value is a
/// list of processors, separated by blanks.
pub fn announced(resp: &ResponseFacts<'_>, policy: &Policy) -> bool {
    policy.surrogate
        && resp.fields.elements("surrogate-control").any(|element| {
            let mut parts = Elements::parameters(element);
            let value = parts.next().and_then(|directive| {
                let at = directive.iter().position(|&byte| byte == b'=')?;
                let (name, value) = directive.split_at(at);
                name.trim_ascii().eq_ignore_ascii_case(b"content").then_some(value)
            });
            let meant = parts
                .next()
                .is_none_or(|target| target.eq_ignore_ascii_case(policy.surrogate_id.as_bytes()));
            let mut words = value.unwrap_or_default().split(|byte| b"=\" \t".contains(byte));
            meant && words.any(|word| word.eq_ignore_ascii_case(b"ESI/1.0"))
        })
}

/// Types in which markup of ESI is expected where it is not announced.
pub fn has_markup(content_type: &[u8]) -> bool {
    let essence = content_type.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
    let essence = essence.to_ascii_lowercase();
    essence == b"text/html"
        || essence == b"text/xml"
        || essence == b"application/xml"
        || essence.ends_with(b"+xml") && essence != b"image/svg+xml"
}

/// Whether the answer made of a page with this field has it too: not, if it is about the bytes of
/// the page or says which page it is.
pub fn sent(name: &str) -> bool {
    const OTHERS: [&str; 2] = ["last-modified", "accept-ranges"];
    !compress::OF_THE_BYTES.iter().chain(&OTHERS).any(|other| name.eq_ignore_ascii_case(other))
}

/// The same of an answer that is for its client alone: what tells caches to keep it is not true of
/// it, that of targeted fields (RFC 9213) included.
pub fn sent_to_one(name: &str) -> bool {
    const SHARED: [&str; 5] = ["cache-control", "expires", "age", "pragma", "surrogate-control"];
    const TARGETED: &str = "-cache-control";
    let end = name.len().saturating_sub(TARGETED.len());
    let targeted = name.as_bytes()[end..].eq_ignore_ascii_case(TARGETED.as_bytes());
    sent(name) && !targeted && !SHARED.iter().any(|other| name.eq_ignore_ascii_case(other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::test_support::{fields, response};

    fn applied(status: u16, list: &[(&str, &str)], esi: Esi) -> bool {
        applies(&response(status, &fields(list)), &Policy { esi, ..Policy::default() })
    }

    #[test]
    fn pages_say_that_they_have_markup() {
        for (value, expected) in [
            ("content=\"ESI/1.0\"", true),
            ("max-age=60, content=\"ESI/1.0\"", true),
            ("CONTENT=\"esi/1.0\"", true),
            ("content=\"Surrogate/1.0 ESI/1.0\"", true),
            ("content=\"ESI/1.0\";larder", true),
            ("content=\"ESI/1.0\";other", false),
            ("content=\"ESI/1.01\"", false),
            ("content", false),
            ("contents=\"ESI/1.0\"", false),
            ("max-age=60", false),
        ] {
            let list = [("Surrogate-Control", value)];
            assert_eq!(applied(200, &list, Esi::Surrogate), expected, "{value}");
            for status in [203, 404, 410, 500, 503] {
                assert_eq!(applied(status, &list, Esi::Surrogate), expected, "{status} {value}");
            }
            for status in [204, 205, 206, 301, 302, 304] {
                assert!(!applied(status, &list, Esi::Surrogate), "{status}");
            }
            assert!(!applied(200, &list, Esi::Never));
        }
        let policy = Policy { surrogate: false, ..Policy::default() };
        let list = fields(&[("Surrogate-Control", "content=\"ESI/1.0\"")]);
        assert!(!announced(&response(200, &list), &policy));
    }

    #[test]
    fn rules_say_that_types_have_markup() {
        for (value, expected) in [
            ("text/html; charset=utf-8", true),
            ("application/xhtml+xml", true),
            ("image/svg+xml", false),
            ("text/plain", false),
            ("application/json", false),
        ] {
            let list = [("Content-Type", value)];
            assert_eq!(applied(200, &list, Esi::Always), expected, "{value}");
            assert!(!applied(200, &list, Esi::Surrogate));
        }
    }
}
