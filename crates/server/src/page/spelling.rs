//! Spellings of a query that are one page (No-Vary-Search).
//!
//! A page whose response has a rule lies under the key of its canonical spelling. The rules that
//! responses of a path have are kept in a record under a key of the path: a request that finds
//! nothing under its own spelling looks there, and then under the canonical one. A page found so
//! has to say itself that it answers the spelling asked for: its own rule counts, and no other
//! page's.
//!
//! The record is read where nothing was found, and by purges. It holds no content, and survives
//! them.

use larder_proto::{
    http::{Fields, key},
    page::{Kind, Meta, PageView, Verify, view},
    rules::{
        no_vary_search::{FIELD, Rule},
        split_head,
        update::with_fields,
    },
};
use larder_store::Store;

use crate::{
    clock::Ms,
    page::{
        head,
        lookup::{PAGES, StoredPage},
        tags::path_tag,
    },
};

/// Rules kept for one path. Sites have one; some send others by a parameter. Pages with a rule that
/// gave way to others are found by their canonical spelling alone.
const MOST: usize = 4;
/// Time after which the rules of a path are forgotten unless a response has one of them again, in
/// milliseconds.
pub(crate) const LASTING: Ms = 24 * 3_600_000;
/// Age of a record from which on it is written again, in milliseconds.
const OLD: Ms = 3_600_000;
/// The name of a rule that gave way, in a record; no field is called so.
const MORE: &str = "*";

/// The rules that responses of a path have had, the latest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    rules: Vec<Rule>,
    /// Pages may be stored with rules that are not here.
    pub(crate) more: bool,
    written: Ms,
}

/// The key of the record of rules. It is no key of a page ([`key::parse_key`]), so that no purge
/// and no list of pages means it.
pub(crate) fn rules_key(page: &[u8]) -> Vec<u8> {
    [b"S", path_of(page)].concat()
}

/// A page's key up to its query.
pub(crate) fn path_of(page: &[u8]) -> &[u8] {
    let Some(at) = path_at(page) else { return page };
    let end = page[at..].iter().position(|byte| matches!(byte, b'?' | 0));
    &page[..end.map_or(page.len(), |end| at + end)]
}

/// Whether the URL of a page's key has a query.
pub(crate) fn has_query(page: &[u8]) -> bool {
    page.get(path_of(page).len()) == Some(&b'?')
}

/// The place of path and query in a page's key.
fn path_at(page: &[u8]) -> Option<usize> {
    Some(page.len() - key::parse_key(page)?.path_and_query.len())
}

/// The key of a page by the canonical spelling of its query.
pub(crate) fn canonical(rule: &Rule, page: &[u8]) -> Vec<u8> {
    let Some(at) = path_at(page) else { return page.to_vec() };
    let (before, rest) = page.split_at(at);
    let (path, _) = key::split_behind(rest);
    [before, &rule.canonical(path), &rest[path.len()..]].concat()
}

/// The rule in the head of a stored page.
pub(crate) fn rule_of(stored: &[u8]) -> Option<Rule> {
    head::field(stored, FIELD)?;
    let (_, lines) = split_head(stored)?;
    with_fields(lines, |fields: Fields<'_>| Rule::of(fields)).ok()?
}

/// Whether a page that was found under a canonical key answers the spelling `asked`.
pub(crate) fn answers(held: &StoredPage, asked: &[u8]) -> bool {
    let Ok(page) = view(held.entry.head(), held.entry.len(), Verify::Layout) else { return false };
    let found = key::parse_variant_key(page.key).map_or(page.key, |(primary, ..)| primary);
    found == asked || rule_of(page.head).is_some_and(|rule| canonical(&rule, asked) == found)
}

/// The spellings of a URL that a response answers.
pub(crate) struct Spelling {
    /// The primary key by the spelling that it was fetched by.
    pub(crate) asked: Vec<u8>,
    pub(crate) rule: Option<Rule>,
}

impl Spelling {
    /// Whether it answers a request with this primary key.
    pub(crate) fn answers(&self, asked: &[u8]) -> bool {
        let same = |rule: &Rule| canonical(rule, asked) == canonical(rule, &self.asked);
        self.asked == asked || self.rule.as_ref().is_some_and(same)
    }
}

impl Rules {
    /// The rules of the path of a page.
    pub(crate) fn load(store: &'static Store, page: &[u8], now: Ms) -> Option<Self> {
        let entry = store.peek(PAGES, &rules_key(page), now)?;
        Self::of(&view(entry.head(), entry.len(), Verify::Layout).ok()?)
    }

    /// The rules of a record.
    pub(crate) fn of(page: &PageView<'_>) -> Option<Self> {
        let Meta { kind, response_time, .. } = page.meta;
        if kind != Kind::VaryMarker {
            return None;
        }
        let mut found = Self { written: response_time, ..Self::default() };
        for (name, value) in page.vary.take(MOST + 1) {
            match (name, value.and_then(|text| Rule::parse(std::iter::once(text)))) {
                (FIELD, Some(rule)) => found.rules.push(rule),
                _ => found.more = true,
            }
        }
        (!found.rules.is_empty()).then_some(found)
    }

    /// The rules once a response has this one, where they have to be written.
    pub(crate) fn with(store: &'static Store, rule: &Rule, page: &[u8], now: Ms) -> Option<Self> {
        let mut rules = match Self::load(store, page, now) {
            Some(rules) if rules.rules.first() == Some(rule) && now < rules.written + OLD => {
                return None;
            }
            Some(rules) => rules,
            // Pages outlive the record of their rules.
            None => {
                Self { more: !store.tagged(PAGES, &path_tag(page)).is_empty(), ..Self::default() }
            }
        };
        rules.rules.retain(|held| held != rule);
        rules.rules.insert(0, rule.clone());
        rules.more |= rules.rules.len() > MOST;
        rules.rules.truncate(MOST);
        rules.written = now;
        Some(rules)
    }

    /// The canonical keys of a page by each rule, by the latest first; one may be the page's own.
    pub(crate) fn keys<'r>(&'r self, page: &'r [u8]) -> impl Iterator<Item = Vec<u8>> + 'r {
        self.rules.iter().map(|rule| canonical(rule, page))
    }

    /// When they were written last.
    pub(crate) fn written(&self) -> Ms {
        self.written
    }

    /// The form in which a record lists the rules.
    pub(crate) fn pairs(&self) -> Vec<(&str, Option<&[u8]>)> {
        let more = self.more.then_some((MORE, None));
        self.rules.iter().map(|rule| (FIELD, Some(rule.text()))).chain(more).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(path: &str, port: u16) -> Vec<u8> {
        let mut out = Vec::new();
        key::write_key(&mut out, key::Scheme::Http, "a.test", port, path.as_bytes());
        out
    }

    #[test]
    fn keys_of_paths_and_canonical_spellings() {
        let rule = Rule::parse(std::iter::once(&b"params, except=(\"id\")"[..])).expect("a rule");
        // A port whose bytes are question marks.
        for port in [0, 0x3f3f] {
            let mut asked = page("/p?utm=1&id=7", port);
            assert_eq!(path_of(&asked), page("/p", port));
            assert!(has_query(&asked) && !has_query(&page("/p", port)));
            assert_eq!(canonical(&rule, &asked), page("/p?id=7", port));
            key::write_behind(&mut asked, Some(b"b.test"), std::iter::empty());
            let mut expected = page("/p?id=7", port);
            key::write_behind(&mut expected, Some(b"b.test"), std::iter::empty());
            assert_eq!(canonical(&rule, &asked), expected);
            let mut plain = page("/p", port);
            key::write_behind(&mut plain, Some(b"b?"), std::iter::empty());
            assert!(!has_query(&plain));
            assert_eq!(rules_key(&plain), rules_key(&asked));
            assert_eq!(key::parse_key(&rules_key(&plain)), None);
        }
    }

    #[test]
    fn the_rule_of_a_stored_head() {
        let of = |lines: &str| rule_of(format!("HTTP/1.1 200 OK\r\n{lines}").as_bytes());
        assert_eq!(of("Content-Type: a\r\n"), None);
        assert_eq!(of("No-Vary-Search: ?\r\n"), None);
        let rule = of("A: b\r\nNo-Vary-Search: params\r\nno-vary-search: except=(\"a\")\r\n");
        assert_eq!(rule.expect("a rule").canonical(b"/?b&a"), b"/?a");
    }
}
