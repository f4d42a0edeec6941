//! Rules: conditions on requests, and their actions. A rule's action overlays the site's policy
//! field by field.

use std::{sync::Arc, time::Duration};

use larder_proto::{
    http::{
        Codings,
        cookie::{self, Cookie, cookies},
        query::Pattern,
    },
    rules::{
        Esi, Policy, RefreshPattern, StatusTtl, Unframed, VaryField,
        forward::{KeyField, Site},
    },
};
use regex::Regex;

use super::{
    disk::DiskUse,
    handling::Handling,
    patterns::{CookiePattern, Glob},
    rate::Rate,
};

/// Rules of one site, those of its preset included.
pub const MAX_RULES: usize = 64;

/// Whether any field line of this name (any case) satisfies the test.
pub type AnyField<'a> = dyn Fn(&str, &mut dyn FnMut(&[u8]) -> bool) -> bool + 'a;

/// The parts of a request that rules check.
pub struct RequestView<'a> {
    /// As sent; it is case-sensitive.
    pub method: &'a str,
    /// Path without query, as sent, or as [`larder_proto::http::path::plain`] has it.
    pub path: &'a str,
    /// Its header fields.
    pub any: &'a AnyField<'a>,
}

/// The condition of a rule: all given parts must match.
#[derive(Clone, Debug, Default)]
pub struct Matcher {
    /// One of these over the whole path without query; empty: any path.
    pub paths: Vec<Glob>,
    /// Anywhere in the path without query.
    pub path_regex: Option<Regex>,
    /// One of these; empty: any method.
    pub methods: Vec<String>,
    /// A cookie of the request.
    pub cookie: Option<CookiePattern>,
    /// A field line of the request: name, and glob over its value.
    pub header: Option<(String, Glob)>,
}

impl Matcher {
    /// Whether it looks at more than the key of a page has. GET and HEAD have one page.
    fn is_unkeyed(&self) -> bool {
        let has = |name: &str| self.methods.iter().any(|method| method == name);
        self.cookie.is_some() || self.header.is_some() || has("GET") != has("HEAD")
    }

    /// Whether the request matches.
    pub fn matches(&self, request: &RequestView<'_>) -> bool {
        (self.paths.is_empty()
            || self.paths.iter().any(|glob| glob.matches(request.path.as_bytes())))
            && (self.methods.is_empty()
                || self.methods.iter().any(|method| method == request.method))
            && self.path_regex.as_ref().is_none_or(|regex| regex.is_match(request.path))
            && self.cookie.as_ref().is_none_or(|pattern| {
                (request.any)("cookie", &mut |line| {
                    cookies(line).any(|cookie| pattern.matches(&cookie))
                })
            })
            && self
                .header
                .as_ref()
                .is_none_or(|(name, glob)| (request.any)(name, &mut |value| glob.matches(value)))
    }
}

/// A condition and its action.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The condition.
    pub matcher: Matcher,
    /// The action.
    pub action: RuleAction,
    /// `action` over the site's defaults, ready for the common case that only this rule matches.
    pub alone: Arc<RulePolicy>,
}

impl Rule {
    /// `defaults`: those of the site the rule belongs to.
    pub fn new(matcher: Matcher, mut action: RuleAction, defaults: &RulePolicy) -> Rule {
        action.handling.under(matcher.is_unkeyed());
        let alone = Arc::new(action.over(defaults));
        Rule { matcher, action, alone }
    }
}

/// The policy for a request and its response.
#[derive(Clone, Debug, PartialEq)]
pub struct RulePolicy {
    /// The request goes to the origin, without lookup or storing.
    pub pass: bool,
    /// A request with one of these cookies (and not ignored) is passed: the anonymous-visitor rule.
    pub bypass_cookies: Arc<[CookiePattern]>,
    /// Cookies that are treated as absent unless the request is passed; see `write_cookies`.
    pub ignore_cookies: Arc<[Glob]>,
    /// Request fields that are in the key, and so go to the origin.
    pub key_fields: Arc<[KeyField]>,
    /// Query parameters left out of key and request.
    pub drop_query: Arc<[Pattern]>,
    /// Query parameters sorted in key and request.
    pub sort_query: bool,
    /// A client that waits is told the links of the stored page (RFC 8297).
    pub early_hints: bool,
    /// A HEAD of a page that is not stored fetches it by GET, so that it is kept.
    pub convert_head: bool,
    /// Requests that one client may send; None: any number.
    pub limit: Option<Rate>,
    /// Places of exactly the origin's own address in its answers are named by their path.
    pub mend_redirects: bool,
    /// The origin is told the client's address also where the answer may be stored.
    pub forward_client: bool,
    /// Larger bodies are delivered and not stored.
    pub max_object: u64,
    /// Which pages are fetched and kept in slices.
    pub slice: Slicing,
    /// Of the forms of a page, the smallest alone is kept.
    pub one_form: bool,
    /// How pages are put together of parts, and how such parts are requested.
    pub parts: Parts,
    /// Use of the disk.
    pub disk: DiskUse,
    /// The choices that RFC 9111 leaves to the operator.
    pub cache: Policy,
    /// Beyond caching; None: nothing is changed.
    pub handling: Option<Arc<Handling>>,
}

impl Default for RulePolicy {
    fn default() -> Self {
        RulePolicy {
            pass: false,
            bypass_cookies: Arc::new([]),
            ignore_cookies: Arc::new([]),
            key_fields: Arc::new([]),
            drop_query: Arc::new([]),
            sort_query: false,
            early_hints: false,
            convert_head: true,
            mend_redirects: true,
            forward_client: true,
            limit: None,
            max_object: 1 << 30,
            slice: Slicing::Never,
            one_form: false,
            parts: Parts::default(),
            disk: DiskUse::Auto,
            cache: Policy::default(),
            handling: None,
        }
    }
}

impl RulePolicy {
    /// Whether a `Cookie` line makes the request pass.
    pub fn bypassed_by(&self, line: &[u8]) -> bool {
        !self.bypass_cookies.is_empty()
            && cookies(line).any(|cookie| {
                self.bypass_cookies.iter().any(|pattern| pattern.matches(&cookie))
                    && !self.ignores_cookie(&cookie)
            })
    }

    /// Whether a cookie is treated as absent. A lone `*` means all that no other list names.
    pub fn ignores_cookie(&self, cookie: &Cookie<'_>) -> bool {
        let listed = self.ignore_cookies.iter().filter(|glob| glob.as_str() != "*");
        if listed.into_iter().any(|glob| glob.matches(cookie.name())) {
            return true;
        }
        self.ignore_cookies.iter().any(|glob| glob.as_str() == "*") && !self.names_cookie(cookie)
    }

    /// Whether a cookie makes a request pass, or selects a variant.
    fn names_cookie(&self, cookie: &Cookie<'_>) -> bool {
        self.bypass_cookies.iter().any(|pattern| pattern.names(cookie))
            || self.cache.vary_cookies.iter().any(|held| held.as_bytes() == cookie.name())
    }

    /// Appends the cookies that are not ignored: `Vary: Cookie` compares them, and the origin gets
    /// them with a request whose answer may be stored. False: there are none.
    pub fn write_cookies<'a>(
        &self,
        lines: impl Iterator<Item = &'a [u8]> + Clone,
        out: &mut Vec<u8>,
    ) -> bool {
        cookie::write(lines, &self.cache.vary_cookies, |cookie| self.ignores_cookie(cookie), out)
    }

    /// Whether a lifetime that the site did not give is not for a request with these cookies: one
    /// of them counts. Not where `bypass_cookies` says which visitors are not like the others.
    pub fn counts_cookies<'a>(&self, lines: impl Iterator<Item = &'a [u8]>) -> bool {
        self.bypass_cookies.is_empty()
            && cookie::counts(lines, &self.cache.vary_cookies, |cookie| self.ignores_cookie(cookie))
    }

    /// The site's part of the rule for origin requests. `ignored` is
    /// [`RulePolicy::ignores_cookie`].
    pub fn forwarded<'a>(&'a self, ignored: &'a dyn Fn(&Cookie<'_>) -> bool) -> Site<'a> {
        Site {
            vary_cookies: &self.cache.vary_cookies,
            ignored,
            key_fields: &self.key_fields,
            client_cache_control: self.cache.honour_client_cc,
            compresses: !self.cache.compress.is_empty(),
            tells_client: self.forward_client,
        }
    }
}

/// Which pages are fetched and kept in slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slicing {
    /// All are kept whole.
    Never,
    /// All, in slices of so many bytes.
    Every(u64),
    /// Large ones that are asked for by ranges.
    Auto,
}

/// Pages that are put together of parts (ESI).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// As a part, a page of this rule is requested with the cookies and credentials of the visitor.
    pub credentials: bool,
    /// A part that fails leaves a comment.
    pub comment: bool,
    /// Parts of parts, this deep.
    pub depth: u32,
    /// Parts of one answer, parts of parts included.
    pub number: u32,
    /// Longest page that is searched for markup, in bytes.
    pub size: u64,
    /// A part that has not begun to come by then has failed.
    pub timeout: Duration,
}

impl Default for Parts {
    fn default() -> Self {
        Parts {
            credentials: false,
            comment: true,
            depth: 5,
            number: 256,
            size: 4 << 20,
            timeout: Duration::from_secs(30),
        }
    }
}

/// Declares the overlay of a policy: the same fields, each optional, and the two ways to combine
/// them.
macro_rules! overlay {
    ($(#[$doc:meta])*
     $name:ident over $target:ident { $($field:ident: $type:ty),* $(,)? }
     $(nested { $($inner:ident: $inner_type:ty),* })?) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name {
            $(#[allow(missing_docs)] pub $field: Option<$type>,)*
            $($(#[allow(missing_docs)] pub $inner: $inner_type,)*)?
        }

        impl $name {
            /// Sets unset fields from `other`.
            pub fn fill_from(&mut self, other: &$name) {
                $(if self.$field.is_none() { self.$field.clone_from(&other.$field); })*
                $($(self.$inner.fill_from(&other.$inner);)*)?
            }

            /// `base` with the fields that are set here.
            pub fn over(&self, base: &$target) -> $target {
                let mut out = base.clone();
                $(if let Some(value) = &self.$field { out.$field = value.clone(); })*
                $($(out.$inner = self.$inner.over(&base.$inner);)*)?
                out
            }
        }
    };
}

overlay! {
    /// The fields of `Parts` that a rule sets. None: not set.
    PartsAction over Parts {
        credentials: bool,
        comment: bool,
        depth: u32,
        number: u32,
        size: u64,
        timeout: Duration,
    }
}

overlay! {
    /// The fields of `RulePolicy` that a rule sets; they are described there. None: not set.
    RuleAction over RulePolicy {
        pass: bool,
        bypass_cookies: Arc<[CookiePattern]>,
        ignore_cookies: Arc<[Glob]>,
        key_fields: Arc<[KeyField]>,
        drop_query: Arc<[Pattern]>,
        sort_query: bool,
        early_hints: bool,
        convert_head: bool,
        mend_redirects: bool,
        forward_client: bool,
        limit: Option<Rate>,
        max_object: u64,
        disk: DiskUse,
        slice: Slicing,
        one_form: bool,
    } nested { parts: PartsAction, cache: CacheAction, handling: Handling }
}

overlay! {
    /// The fields of `larder_proto::rules::Policy` that a rule sets; they are described there.
    /// None: not set.
    CacheAction over Policy {
        ttl: Option<u32>,
        status_ttl: Vec<StatusTtl>,
        grace: Option<u32>,
        keep: Option<u32>,
        disconnected: u32,
        refresh: Option<RefreshPattern>,
        allow_set_cookie: bool,
        allow_authorization: bool,
        force_cache: bool,
        stale_against_origin: bool,
        honour_client_cc: bool,
        targets: Vec<String>,
        surrogate: bool,
        strip_s_maxage: bool,
        vary_cookies: Vec<String>,
        vary_fields: Vec<VaryField>,
        unframed: Unframed,
        compress: Vec<Codings>,
        esi: Esi,
    }
}
