//! Addresses of an origin in its own answers. A site that redirects to the address and port where
//! Larder asks it would send visitors past Larder, or nowhere: such a place is named by its path
//! instead (nginx: `proxy_redirect default`).

use crate::{
    page::head::Spelled,
    settings::{Handling, OriginGroup, OriginScheme, OriginSettings, RulePolicy},
};

/// Fields that name a place.
const PLACES: [&str; 2] = ["location", "content-location"];

/// Mends the fields of an answer that name a place of exactly the origin's own scheme, host and
/// port.
pub(crate) fn mend(spelled: &mut Spelled, origin: &OriginGroup, policy: &RulePolicy) {
    if !policy.mend_redirects {
        return;
    }
    let handling = policy.handling.as_deref();
    let place = |value: &[u8]| {
        let mut members = origin.members.iter();
        members
            .find_map(|member| path_of(value, &member.origin))
            .and_then(|path| seen(path, handling))
    };
    for name in PLACES {
        spelled.change(name, place);
    }
    spelled.change("refresh", |value| {
        let at = value.windows(4).position(|four| four.eq_ignore_ascii_case(b"url="))? + 4;
        let (before, url) = value.split_at(at);
        let quoted = usize::from(url.first().is_some_and(|byte| matches!(byte, b'"' | b'\'')));
        let (quote, url) = url.split_at(quoted);
        Some([before, quote, &place(url)?].concat())
    });
}

/// Path, query and fragment of a URL of this server; None: it is another's.
fn path_of<'v>(value: &'v [u8], origin: &OriginSettings) -> Option<&'v [u8]> {
    let (scheme, port): (&[u8], u16) = match origin.scheme {
        OriginScheme::Http => (b"http://", 80),
        OriginScheme::Https(_) => (b"https://", 443),
        OriginScheme::FastCgi(_) | OriginScheme::Files(_) => return None,
    };
    let start = value.get(..scheme.len())?;
    if !start.eq_ignore_ascii_case(scheme) {
        return None;
    }
    let rest = &value[scheme.len()..];
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#'));
    let (authority, path) = rest.split_at(end.unwrap_or(rest.len()));
    let host =
        if origin.host.contains(':') { format!("[{}]", origin.host) } else { origin.host.clone() };
    let is = |known: &str| authority.eq_ignore_ascii_case(known.as_bytes());
    let own = is(&format!("{host}:{}", origin.port))
        || (origin.port == port && is(&host))
        || origin.host_header.as_deref().is_some_and(is);
    own.then_some(path)
}

/// The path as visitors have it. None: it cannot be named by a path alone, or is not below the
/// prefix that is put before the visitors' paths.
fn seen(path: &[u8], handling: Option<&Handling>) -> Option<Vec<u8>> {
    if path.iter().any(u8::is_ascii_control) {
        return None;
    }
    let add = prefix(handling.and_then(|handling| handling.add_prefix.as_deref()));
    let strip = prefix(handling.and_then(|handling| handling.strip_prefix.as_deref()));
    let rest = path.strip_prefix(add)?;
    if !add.is_empty() && !matches!(rest.first(), None | Some(b'/' | b'?' | b'#')) {
        return None;
    }
    let mut out = strip.to_vec();
    if rest.first() != Some(&b'/') {
        out.push(b'/');
    } else if out.is_empty() && matches!(rest.get(1), Some(b'/' | b'\\')) {
        // Two slashes at the beginning would name a host.
        out.extend_from_slice(b"/.");
    }
    out.extend_from_slice(rest);
    Some(out)
}

fn prefix(text: Option<&str>) -> &[u8] {
    text.unwrap_or_default().trim_end_matches('/').as_bytes()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::{HeaderMap, HeaderValue};

    use super::*;

    fn mended(value: &str, name: &'static str, handling: Option<Handling>) -> String {
        let settings =
            OriginSettings { port: 9000, host_header: Some("app".into()), ..Default::default() };
        let origin = OriginGroup::single(Arc::new(settings));
        let policy = RulePolicy { handling: handling.map(Arc::new), ..RulePolicy::default() };
        let mut fields = HeaderMap::new();
        fields.insert(name, HeaderValue::from_str(value).expect("a value"));
        let mut spelled = Spelled::of(&fields);
        mend(&mut spelled, &origin, &policy);
        String::from_utf8(spelled.headers()[0].value.to_vec()).expect("ASCII")
    }

    #[test]
    fn exactly_the_address_of_the_origin_is_mended() {
        for (value, expected) in [
            ("http://127.0.0.1:9000/a?b#c", "/a?b#c"),
            ("HTTP://127.0.0.1:9000", "/"),
            ("http://127.0.0.1:9000?x", "/?x"),
            ("http://APP/login", "/login"),
            ("http://127.0.0.1:9000//evil.org/", "/.//evil.org/"),
            ("http://127.0.0.1:9000/\\evil.org/", "/./\\evil.org/"),
        ] {
            assert_eq!(mended(value, "location", None), expected);
            assert_eq!(mended(value, "content-location", None), expected);
        }
        for other in [
            "https://127.0.0.1:9000/",
            "http://127.0.0.1:9001/",
            "http://127.0.0.1/",
            "http://127.0.0.1:9000@evil.org/",
            "http://user@127.0.0.1:9000/",
            "http://127.0.0.1:9000.evil.org/",
            "http://127.0.0.1:9000/a\tb",
            "http://apps/",
            "/a",
            "",
        ] {
            assert_eq!(mended(other, "location", None), other);
        }
    }

    #[test]
    fn refresh_names_a_place_too() {
        let refresh = |value| mended(value, "refresh", None);
        assert_eq!(refresh("5; url=http://127.0.0.1:9000/a"), "5; url=/a");
        assert_eq!(refresh("5;URL='http://127.0.0.1:9000/a'"), "5;URL='/a'");
        assert_eq!(refresh("5; url=http://other/a"), "5; url=http://other/a");
        assert_eq!(refresh("5"), "5");
    }

    #[test]
    fn prefixes_are_turned_round() {
        let handling = |strip: &str, add: &str| {
            let of = |text: &str| (!text.is_empty()).then(|| Arc::from(text));
            Some(Handling { strip_prefix: of(strip), add_prefix: of(add), ..Handling::default() })
        };
        let origin = "http://127.0.0.1:9000";
        for (strip, add, path, expected) in [
            ("/api", "", "/v1", "/api/v1"),
            ("/api/", "/app/", "/app/v1", "/api/v1"),
            ("", "/app", "/app", "/"),
        ] {
            let value = format!("{origin}{path}");
            assert_eq!(mended(&value, "location", handling(strip, add)), expected);
        }
        let outside = format!("{origin}/apps/v1");
        assert_eq!(mended(&outside, "location", handling("", "/app")), outside);
    }
}
