//! Beyond caching: where a request goes, what it looks like there, and what its answer looks like.
//!
//! None of this is in the key of a page, so it may only depend on what is: the rule's path. The
//! requests of a rule that looks at more (a cookie, a field, GET but not HEAD) are passed.

use std::{borrow::Cow, sync::Arc};

use http::{HeaderMap, HeaderName, HeaderValue};

use super::OriginGroup;

/// Changes of requests and answers. None: as the site has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Handling {
    /// The source of these pages.
    pub origin: Option<Arc<OriginGroup>>,
    /// Removed from the front of the path for the origin.
    pub strip_prefix: Option<Arc<str>>,
    /// Put before the path for the origin, after `strip_prefix`.
    pub add_prefix: Option<Arc<str>>,
    /// Changes of the fields of the request to the origin.
    pub request_fields: Option<Arc<[FieldEdit]>>,
    /// Changes of the fields of the origin's answer, before it is judged and stored.
    pub response_fields: Option<Arc<[FieldEdit]>>,
    /// The answer is another place; the origin is not asked.
    pub redirect: Option<Arc<Redirect>>,
    /// The rule looks at more of a request than its key has: it is passed.
    pub unkeyed: bool,
}

/// A change of the fields of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldEdit {
    /// One line of this name, instead of all.
    Set(HeaderName, HeaderValue),
    /// One line more.
    Add(HeaderName, HeaderValue),
    /// No line of this name.
    Remove(HeaderName),
}

impl FieldEdit {
    /// Changes the fields of a message.
    pub(crate) fn apply(&self, headers: &mut HeaderMap) {
        match self {
            FieldEdit::Set(name, value) => {
                headers.insert(name, value.clone());
            }
            FieldEdit::Add(name, value) => {
                headers.append(name, value.clone());
            }
            FieldEdit::Remove(name) => {
                headers.remove(name);
            }
        }
    }
}

/// Another place of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
    /// `$uri` stands for path and query of the request, `$host` for its host.
    pub to: String,
}

impl Redirect {
    /// The place for one request.
    pub(crate) fn location(&self, host: &str, target: &str) -> String {
        self.to.replace("$host", host).replace("$uri", target)
    }
}

impl Handling {
    /// Whether anything is set that the key of a page does not know.
    fn changes(&self) -> bool {
        self.origin.is_some()
            || self.strip_prefix.is_some()
            || self.add_prefix.is_some()
            || self.request_fields.is_some()
            || self.response_fields.is_some()
    }

    /// Whether requests or answers have other fields than those of the client and of the origin.
    pub(crate) fn edits(&self) -> bool {
        self.request_fields.is_some() || self.response_fields.is_some()
    }

    /// Notes whether the condition of its rule looks at more than a key has.
    pub(crate) fn under(&mut self, unkeyed: bool) {
        self.unkeyed = unkeyed && self.changes();
    }

    /// Whether the origin sees a part of its paths alone: dot segments would lead out of it.
    pub(crate) fn confines(&self) -> bool {
        self.strip_prefix.is_some() || self.add_prefix.is_some()
    }

    /// Changes the fields of an interim response as those of the answer: no field is added that it
    /// does not have.
    pub(crate) fn edit_interim(&self, headers: &mut HeaderMap) {
        for edit in self.response_fields.iter().flat_map(|edits| edits.iter()) {
            match edit {
                FieldEdit::Set(name, _) | FieldEdit::Add(name, _)
                    if !headers.contains_key(name) => {}
                edit => edit.apply(headers),
            }
        }
    }

    /// Sets unset fields from `other`.
    pub fn fill_from(&mut self, other: &Handling) {
        fn fill<T: Clone>(own: &mut Option<T>, other: &Option<T>) {
            if own.is_none() {
                own.clone_from(other);
            }
        }
        fill(&mut self.origin, &other.origin);
        fill(&mut self.strip_prefix, &other.strip_prefix);
        fill(&mut self.add_prefix, &other.add_prefix);
        fill(&mut self.request_fields, &other.request_fields);
        fill(&mut self.response_fields, &other.response_fields);
        fill(&mut self.redirect, &other.redirect);
        self.unkeyed |= other.unkeyed;
    }

    /// `base` with the fields that are set here; None: nothing is set.
    pub fn over(&self, base: &Option<Arc<Handling>>) -> Option<Arc<Handling>> {
        if *self == Handling::default() {
            return base.clone();
        }
        let mut out = self.clone();
        base.iter().for_each(|base| out.fill_from(base));
        Some(Arc::new(out))
    }

    /// Path and query as the origin is asked for them.
    pub(crate) fn target<'t>(&self, target: &'t str) -> Cow<'t, str> {
        // The target of OPTIONS may be `*`.
        if !target.starts_with('/') {
            return Cow::Borrowed(target);
        }
        let mut rest = target;
        if let Some(prefix) = self.strip_prefix.as_deref() {
            let stripped = target.strip_prefix(prefix.trim_end_matches('/'));
            // Whole segments only.
            rest = stripped
                .filter(|rest| rest.is_empty() || rest.starts_with(['/', '?']))
                .unwrap_or(target);
        }
        let before = self.add_prefix.as_deref().unwrap_or_default().trim_end_matches('/');
        match (before, rest.starts_with('/')) {
            ("", true) => Cow::Borrowed(rest),
            (before, true) => Cow::Owned(format!("{before}{rest}")),
            (before, false) => Cow::Owned(format!("{before}/{rest}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(strip: Option<&str>, add: Option<&str>, target: &str) -> String {
        let handling = Handling {
            strip_prefix: strip.map(Arc::from),
            add_prefix: add.map(Arc::from),
            ..Handling::default()
        };
        handling.target(target).into_owned()
    }

    #[test]
    fn prefixes_are_whole_segments() {
        for (target, expected) in [
            ("/api/v1?a=/api/", "/v1?a=/api/"),
            ("/api/", "/"),
            ("/api", "/"),
            ("/api?x=1", "/?x=1"),
            ("/apis", "/apis"),
            ("/x/api/", "/x/api/"),
            ("/api//x", "//x"),
            ("*", "*"),
        ] {
            assert_eq!(sent(Some("/api"), None, target), expected);
            assert_eq!(sent(Some("/api/"), None, target), expected);
        }
        assert_eq!(sent(None, Some("/v2/"), "/x?y"), "/v2/x?y");
        assert_eq!(sent(Some("/api"), Some("/v2"), "/api"), "/v2/");
        assert_eq!(sent(Some("/"), None, "/x"), "/x");
    }

    #[test]
    fn a_place_has_the_parts_of_the_request() {
        let redirect = Redirect { status: 301, to: "https://www.$host/new$uri".to_owned() };
        assert_eq!(redirect.location("a.org", "/x?y"), "https://www.a.org/new/x?y");
    }

    #[test]
    fn only_changes_make_a_rule_depend_on_more_than_the_key() {
        let mut nothing = Handling::default();
        nothing.under(true);
        assert_eq!(nothing.over(&None), None);
        let mut stripped = Handling { strip_prefix: Some("/a".into()), ..Handling::default() };
        stripped.under(false);
        assert!(!stripped.unkeyed);
        let mut other = Handling { add_prefix: Some("/b".into()), ..Handling::default() };
        other.under(true);
        stripped.fill_from(&other);
        assert!(stripped.unkeyed && stripped.add_prefix.is_some());
        let base = Some(Arc::new(stripped));
        let redirect = Redirect { status: 302, to: "/".to_owned() };
        let over = Handling { redirect: Some(Arc::new(redirect)), ..Handling::default() };
        let both = over.over(&base).expect("something is set");
        assert!(both.redirect.is_some() && both.strip_prefix.is_some() && both.unkeyed);
    }
}
