//! Purges as the plugins of sites send them, and their meaning here.
//!
//! | who | request | means |
//! |---|---|---|
//! | WordPress, Proxy Cache Purge | `PURGE /path.*`, `X-Purge-Method: regex` | pages of this host whose URL matches from its start |
//! | Drupal, Purge | `BAN` or `PURGE`, `Cache-Tags` or `Purge-Cache-Tags: a b` | pages with one of these tags |
//! | Magento | `PURGE`, `X-Magento-Tags-Pattern: ((^\|,)a(,\|$))` | the same; `.*`: all of this host |
//! | TYPO3, Neos | `BAN` or `PURGE`, `X-Cache-Tags: a,b`; `Varnish-Ban-All: 1` | the same; all of this host |
//! | varnish-modules | `PURGE`, `xkey` or `xkey-purge: a b` | the same |
//! | others | `BAN /path` | the page of this URL |

use larder_proto::http::Fields;

/// Tags of one request that are looked at.
const MOST_TAGS: usize = 1024;

/// Fields that list tags.
const TAGS: [&str; 6] = [
    "cache-tags",
    "purge-cache-tags",
    "x-cache-tags",
    "x-magento-tags-pattern",
    "xkey",
    "xkey-purge",
];

/// The pages that a plugin wants purged.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Pages of this host whose URL matches this expression from its start.
    Pattern(String),
    /// Pages with one of these tags.
    Tags(Vec<Vec<u8>>),
    /// Pages with a tag that one of these expressions matches.
    TagPattern(String),
    /// All pages of this host.
    All,
}

/// The meaning of the fields. None: the page of the URL is meant.
pub(super) fn wanted(fields: Fields<'_>, target: &str) -> Option<Wanted> {
    if fields.get("varnish-ban-all").is_some_and(|value| value != b"0") {
        return Some(Wanted::All);
    }
    let method = fields.get("x-purge-method");
    if method.is_some_and(|method| method.eq_ignore_ascii_case(b"regex")) {
        return Some(Wanted::Pattern(target.to_owned()));
    }
    let name = TAGS.iter().find(|name| fields.has(name))?;
    let lines: Vec<&[u8]> = fields.all(name).collect();
    let text = String::from_utf8_lossy(&lines.join(&b","[..])).into_owned();
    tags(&text)
}

/// Parts of expressions that mean the end of a tag in a list.
const ENDS: [&str; 9] =
    ["(^|,)", "(,|$)", "(^|\\s)", "(\\s|$)", "(^| )", "( |$)", "(^|;)", "(;|$)", "\\b"];

fn tags(text: &str) -> Option<Wanted> {
    let text = ENDS.iter().fold(text.to_owned(), |text, end| text.replace(end, " "));
    let divides = |c: char| c.is_whitespace() || matches!(c, ',' | '|' | '(' | ')');
    let words = text.split(divides).filter(|word| !word.is_empty()).take(MOST_TAGS);
    let words: Vec<&str> = words.collect();
    if words.iter().any(|word| matches!(*word, ".*" | ".+" | "*")) {
        return Some(Wanted::All);
    }
    let is_pattern = |word: &&str| word.contains(['*', '+', '?', '[', '{', '^', '$']);
    if words.iter().any(is_pattern) {
        return Some(Wanted::TagPattern(words.join("|")));
    }
    let plain = |word: &&str| word.replace('\\', "").into_bytes();
    (!words.is_empty()).then(|| Wanted::Tags(words.iter().map(plain).collect()))
}

/// A text in an expression of bans.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use larder_proto::http::Header;

    use super::*;

    fn of(name: &str, value: &str) -> Option<Wanted> {
        let headers = [Header { name, value: value.as_bytes() }];
        wanted(Fields::new(&headers), "/news/.*")
    }

    fn tags(list: &[&str]) -> Option<Wanted> {
        Some(Wanted::Tags(list.iter().map(|tag| tag.as_bytes().to_vec()).collect()))
    }

    #[test]
    fn every_plugin_is_understood() {
        assert_eq!(of("X-Purge-Method", "regex"), Some(Wanted::Pattern("/news/.*".to_owned())));
        assert_eq!(of("X-Purge-Method", "default"), None);
        for value in ["node:1 node_list config:a.b", "node:1|node_list|config:a.b"] {
            assert_eq!(of("Cache-Tags", value), tags(&["node:1", "node_list", "config:a.b"]));
        }
        assert_eq!(of("Purge-Cache-Tags", "(^|\\s)node\\:1(\\s|$)"), tags(&["node:1"]));
        assert_eq!(
            of("X-Magento-Tags-Pattern", "((^|,)cat_p_1(,|$))|((^|,)cat_c_2(,|$))"),
            tags(&["cat_p_1", "cat_c_2"])
        );
        assert_eq!(of("X-Magento-Tags-Pattern", ".*"), Some(Wanted::All));
        assert_eq!(of("X-Cache-Tags", "pageId_1,tt_content"), tags(&["pageId_1", "tt_content"]));
        assert_eq!(
            of("X-Cache-Tags", "pageId_[0-9]+"),
            Some(Wanted::TagPattern("pageId_[0-9]+".to_owned()))
        );
        assert_eq!(of("Varnish-Ban-All", "1"), Some(Wanted::All));
        assert_eq!(of("xkey", "a b"), tags(&["a", "b"]));
        assert_eq!(of("Cache-Tags", " , "), None);
        assert_eq!(of("Host", "a"), None);
    }

    #[test]
    fn texts_of_expressions_are_quoted() {
        assert_eq!(quoted("^/a\\.b\"c"), "\"^/a\\\\.b\\\"c\"");
    }
}
