//! Which software made a page, as far as the page shows it: its fields, the cookies it sets, its
//! generator tag. For advice alone; nothing is decided by it.

use larder_proto::page::Encoding;

use crate::{
    counters::Software,
    page::{coding, head},
};

/// Bytes of a page that are looked at for its generator tag, without its coding.
const LOOKED_AT: usize = 16 * 1024;

const fn software(name: &'static str, preset: &'static str, hint: &'static str) -> Software {
    Software { name, preset, hint }
}

const WORDPRESS: Software = software("WordPress", "wordpress", "");
const MEDIAWIKI: Software = software(
    "MediaWiki",
    "mediawiki",
    "MediaWiki's pages are private until LocalSettings.php says `$wgUseCdn = true;`.",
);
const DRUPAL: Software = software(
    "Drupal",
    "drupal",
    "Drupal's pages are private until it has a maximum age for them: Configuration, Performance, \
     \"Browser and proxy cache maximum age\".",
);
const DJANGO: Software = software("Django", "django", "");
const TYPO3: Software = software(
    "TYPO3",
    "typo3",
    "TYPO3's pages are private until its TypoScript says `config.sendCacheHeaders = 1`.",
);
const MAGENTO: Software = software(
    "Magento",
    "magento",
    "Magento's pages are no-store until its page cache is set to Varnish: Stores, Configuration, \
     Advanced, System, Full Page Cache.",
);
const GHOST: Software = software("Ghost", "ghost", "");
const DISCOURSE: Software = software(
    "Discourse",
    "discourse",
    "Discourse's pages stay no-store, it keeps them for visitors itself; its files and feeds are \
     kept.",
);

const ALL: [Software; 8] = [WORDPRESS, MEDIAWIKI, DRUPAL, DJANGO, TYPO3, MAGENTO, GHOST, DISCOURSE];

/// By the preset that a site has.
pub(crate) fn by_preset(preset: &str) -> Option<Software> {
    ALL.into_iter().find(|software| software.preset == preset)
}

/// Fields, and a part of their value in lower case (empty: any value).
const FIELDS: [(&str, &str, Software); 14] = [
    ("link", "https://api.w.org/", WORDPRESS),
    ("x-redirect-by", "wordpress", WORDPRESS),
    ("x-pingback", "xmlrpc.php", WORDPRESS),
    ("x-generator", "drupal", DRUPAL),
    ("x-drupal-cache", "", DRUPAL),
    ("x-drupal-dynamic-cache", "", DRUPAL),
    ("x-typo3-parsetime", "", TYPO3),
    ("x-magento-tags", "", MAGENTO),
    ("x-magento-cache-debug", "", MAGENTO),
    ("x-ghost-cache-status", "", GHOST),
    ("x-discourse-route", "", DISCOURSE),
    ("server", "wsgiserver", DJANGO),
    ("x-powered-by", "mediawiki", MEDIAWIKI),
    ("x-powered-by", "typo3", TYPO3),
];

/// Beginnings of the names of cookies that are set.
const COOKIES: [(&str, Software); 9] = [
    ("wordpress_", WORDPRESS),
    ("wp-", WORDPRESS),
    ("csrftoken=", DJANGO),
    ("sess", DRUPAL),
    ("ssess", DRUPAL),
    ("fe_typo_user=", TYPO3),
    ("x-magento-vary=", MAGENTO),
    ("ghost-members", GHOST),
    ("_forum_session=", DISCOURSE),
];

/// Beginnings of generator tags in lower case.
const GENERATORS: [(&str, Software); 7] = [
    ("wordpress", WORDPRESS),
    ("mediawiki", MEDIAWIKI),
    ("drupal", DRUPAL),
    ("typo3", TYPO3),
    ("magento", MAGENTO),
    ("ghost", GHOST),
    ("discourse", DISCOURSE),
];

/// By the head of an answer.
pub(crate) fn by_head(answer: &[u8]) -> Option<Software> {
    let has = |name: &str, part: &str| {
        head::field(answer, name)
            .is_some_and(|value| part.is_empty() || contains(&value.to_ascii_lowercase(), part))
    };
    let field = FIELDS.iter().find(|(name, part, _)| has(name, part));
    if let Some((.., software)) = field {
        return Some(*software);
    }
    // `sess` stands for a name of digits behind it: SESS0123456789abcdef=.
    let set = head::field(answer, "set-cookie").map(<[u8]>::to_ascii_lowercase).unwrap_or_default();
    let is = |start: &str| {
        let rest = set.strip_prefix(start.as_bytes());
        rest.is_some_and(|rest| {
            !start.ends_with("sess") || rest.iter().take(16).all(u8::is_ascii_hexdigit)
        })
    };
    if let Some((_, software)) = COOKIES.iter().find(|(start, _)| is(start)) {
        return Some(*software);
    }
    // Django's own middleware, none of whose fields is Django's alone.
    let security = [
        ("x-frame-options", "deny"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
    ];
    security.iter().all(|(name, part)| has(name, part)).then_some(DJANGO)
}

/// By the first piece of a page's content, which may be in a coding.
pub(crate) fn by_content(encoding: Encoding, piece: &[u8]) -> Option<Software> {
    let text = match encoding {
        Encoding::Identity => piece[..piece.len().min(LOOKED_AT)].to_ascii_lowercase(),
        _ => coding::beginning(encoding, piece, LOOKED_AT).to_ascii_lowercase(),
    };
    if contains(&text, "csrfmiddlewaretoken") {
        return Some(DJANGO);
    }
    // Programs that make pages shorter leave the quotes out.
    let names = ["name=\"generator\"", "name='generator'", "name=generator"];
    let at = names.iter().find_map(|name| find(&text, name.as_bytes()))?;
    // `content` may stand before or behind the name, in the same tag.
    let start = text[..at].iter().rposition(|byte| *byte == b'<')?;
    let tag = text[start..].split(|byte| *byte == b'>').next()?;
    let value = &tag[find(tag, b"content=")? + b"content=".len()..];
    let value = value.strip_prefix(b"\"").or_else(|| value.strip_prefix(b"'")).unwrap_or(value);
    GENERATORS
        .iter()
        .find(|(start, _)| value.starts_with(start.as_bytes()))
        .map(|(_, software)| *software)
}

fn contains(text: &[u8], part: &str) -> bool {
    find(text, part.as_bytes()).is_some()
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_are_recognised_by_their_heads() {
        let of = |fields: &str| {
            by_head(format!("HTTP/1.1 200 OK\r\n{fields}\r\n").as_bytes()).map(|known| known.preset)
        };
        for (fields, preset) in [
            ("Link: <http://a/wp-json/>; rel=\"https://api.w.org/\"\r\n", "wordpress"),
            ("X-Generator: Drupal 10 (https://www.drupal.org)\r\n", "drupal"),
            ("Set-Cookie: SESS0123456789abcdef0123456789abcdef=x; path=/\r\n", "drupal"),
            ("Set-Cookie: csrftoken=x; Path=/\r\n", "django"),
            ("Server: WSGIServer/0.2 CPython/3.11\r\n", "django"),
            (
                "X-Frame-Options: DENY\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: \
                 same-origin\r\nCross-Origin-Opener-Policy: same-origin\r\n",
                "django",
            ),
            ("Set-Cookie: fe_typo_user=x\r\n", "typo3"),
            ("X-Magento-Tags: cat_p_1\r\n", "magento"),
            ("X-Discourse-Route: list/latest\r\n", "discourse"),
        ] {
            assert_eq!(of(fields), Some(preset), "{fields}");
        }
        for other in ["Server: nginx\r\n", "Set-Cookie: session=1\r\n", "X-Frame-Options: DENY\r\n"]
        {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn sites_are_recognised_by_their_generator() {
        let of =
            |html: &str| by_content(Encoding::Identity, html.as_bytes()).map(|known| known.preset);
        assert_eq!(
            of("<head><meta name=\"generator\" content=\"WordPress 6.4\" />"),
            Some("wordpress")
        );
        assert_eq!(of("<meta content='MediaWiki 1.39' name='generator'>"), Some("mediawiki"));
        assert_eq!(of("<meta name=\"generator\" content=\"Ghost 5.8\">"), Some("ghost"));
        assert_eq!(of("<meta name=\"generator\" content=\"Hugo 0.1\">"), None);
        assert_eq!(of("<meta name=generator content=\"MediaWiki 1.39.1\">"), Some("mediawiki"));
        assert_eq!(of("<meta content=Drupal name=generator>"), Some("drupal"));
        assert_eq!(of("<p>WordPress</p>"), None);
        assert_eq!(of(""), None);
    }

    #[test]
    fn sites_are_recognised_behind_a_coding() {
        let filler = "<!-- nothing -->".repeat(400);
        let html = format!("<head><meta name=\"generator\" content=\"MediaWiki 1.39\">{filler}");
        let of = |encoding, body: &[u8]| by_content(encoding, body).map(|known| known.preset);
        for encoding in [Encoding::Gzip, Encoding::Br, Encoding::Zstd] {
            let body = coding::coded(encoding, coding::Effort::Good, html.as_bytes()).unwrap();
            assert_eq!(of(encoding, &body), Some("mediawiki"), "{encoding:?}");
            assert_eq!(of(Encoding::Other, &body), None);
            for cut in 0..body.len() {
                let _ = of(encoding, &body[..cut]);
            }
        }
        // The first piece of a longer page, and a page that says it late.
        let long: String =
            (0..20_000).map(|n: u32| format!("{:x} ", n.wrapping_mul(40_503))).collect();
        let early =
            coding::coded(Encoding::Gzip, coding::Effort::Fast, format!("{html}{long}").as_bytes());
        assert_eq!(of(Encoding::Gzip, &early.unwrap()[..16_000]), Some("mediawiki"));
        let late =
            coding::coded(Encoding::Gzip, coding::Effort::Fast, format!("{long}{html}").as_bytes());
        assert_eq!(of(Encoding::Gzip, &late.unwrap()), None);
    }

    #[test]
    fn presets_have_their_software() {
        assert_eq!(by_preset("mediawiki"), Some(MEDIAWIKI));
        assert_eq!(by_preset("anonymous"), None);
    }
}
