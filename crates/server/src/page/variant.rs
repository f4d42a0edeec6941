//! Variants of a page: which stored response a request selects (RFC 9111 section 4.1).
//!
//! Where responses vary, a marker lies under the page's primary key. It lists the sets of selecting
//! fields that responses named, the latest first: each response is selected by its own Vary, so
//! that a page may change what it varies on. A variant lies under the primary key, the marker's
//! nonce, the names of its set and the request's values.
//!
//! Accept-Encoding selects by what the response is coded in, not by how the client words its wish:
//! a page that was gzipped for one browser is for every client that takes gzip. A response left
//! uncoded although its client takes codings is for all who take some; what was made for a client
//! that takes none is for its like.

use larder_proto::{
    http::{accept::Codings, key},
    page::{Encoding, Kind, PageView, Pairs, Verify, view},
    rules::{RequestView, vary, vary_by},
};
use larder_store::Store;

use crate::{clock::Ms, page::lookup::PAGES, settings::RulePolicy};

const ENCODING: &str = "accept-encoding";
/// Sets of selecting fields kept for one page; a page whose responses name more is looked for by
/// the latest only.
const MAX_SETS: usize = 4;

/// Selecting request fields (lower case) and their values in the form that is compared; None: the
/// request lacks it.
pub(crate) type Values = Vec<(String, Option<Vec<u8>>)>;

/// The record that names the variants of a page.
#[derive(Clone)]
pub(crate) struct Marker {
    pub(crate) sets: Vec<Vec<String>>,
    pub(crate) nonce: u64,
    /// Classes of codings that were stored, one bit each: no others are looked for.
    classes: [u8; 1],
}

/// The name under which a page record lists the classes; no field is called so.
const CLASSES: &str = "*";

impl Marker {
    /// The marker under a primary key, if one is there.
    pub(crate) fn load(store: &'static Store, primary: &[u8], now: Ms) -> Option<Marker> {
        let entry = store.peek(PAGES, primary, now)?;
        let page = view(entry.head(), entry.len(), Verify::Layout).ok()?;
        (page.meta.kind == Kind::VaryMarker).then(|| Marker::of(&page))
    }

    /// When all variants of the marker with this nonce were softly purged; 0 if they were not.
    pub(crate) fn soft_purged(store: &'static Store, primary: &[u8], nonce: u64, now: Ms) -> Ms {
        let Some(entry) = store.peek(PAGES, primary, now) else { return 0 };
        match view(entry.head(), entry.len(), Verify::Layout) {
            Ok(page) if page.meta.kind == Kind::VaryMarker && page.meta.nonce == nonce => {
                page.meta.soft_purged_at
            }
            _ => 0,
        }
    }

    /// The marker a record holds.
    pub(crate) fn of(page: &PageView<'_>) -> Marker {
        Marker {
            sets: sets(page.vary).map(Set::owned).collect(),
            nonce: page.meta.nonce,
            classes: [stored_classes(page.vary)],
        }
    }

    /// Adds what another marker of the same nonce knows. Whether it then says more than that one.
    pub(crate) fn add(&mut self, other: &Marker) -> bool {
        let more = !other.classes[0] & self.classes[0] != 0
            || self.sets.iter().any(|set| !other.sets.contains(set));
        self.classes[0] |= other.classes[0];
        for set in &other.sets {
            if self.sets.len() < MAX_SETS && !self.sets.contains(set) {
                self.sets.push(set.clone());
            }
        }
        more
    }

    /// The marker after a response with these values, and whether it differs from before.
    pub(crate) fn with(
        before: Option<Marker>,
        values: &Values,
        nonce: impl FnOnce() -> u64,
    ) -> (Marker, bool) {
        let mut marker =
            before.unwrap_or_else(|| Marker { sets: Vec::new(), nonce: nonce(), classes: [0] });
        let class = values
            .iter()
            .find(|(name, _)| name == ENCODING)
            .and_then(|(_, value)| value.as_deref());
        let classes = marker.classes[0] | class.map_or(0, bit);
        let names: Vec<String> = values.iter().map(|(name, _)| name.clone()).collect();
        if marker.sets.first() == Some(&names) && classes == marker.classes[0] {
            return (marker, false);
        }
        marker.classes = [classes];
        marker.sets.retain(|set| *set != names);
        marker.sets.insert(0, names);
        marker.sets.truncate(MAX_SETS);
        (marker, true)
    }

    /// The form in which a page record lists the sets: each name with the number of its set.
    pub(crate) fn pairs(&self) -> Vec<(&str, Option<&[u8]>)> {
        const NUMBERS: [&[u8]; MAX_SETS] = [&[0], &[1], &[2], &[3]];
        let mut out: Vec<(&str, Option<&[u8]>)> = vec![(CLASSES, Some(&self.classes))];
        for (set, number) in self.sets.iter().zip(NUMBERS) {
            // A set of no fields is one empty name.
            if set.is_empty() {
                out.push(("", Some(number)));
            }
            out.extend(set.iter().map(|name| (name.as_str(), Some(number))));
        }
        out
    }

    /// The key of the variant with these values.
    pub(crate) fn key(&self, primary: &[u8], values: &Values) -> Vec<u8> {
        let mut out = Vec::with_capacity(primary.len() + 96);
        key::start_variant_key(&mut out, primary, self.nonce);
        push_names(&mut out, values.iter().map(|(name, _)| name.as_str()));
        for (_, value) in values.iter().filter(|(name, _)| name != ENCODING) {
            push_value(&mut out, value.as_deref());
        }
        if let Some((_, Some(class))) = values.iter().find(|(name, _)| name == ENCODING) {
            key::push_variant_value(&mut out, |out| out.extend_from_slice(class));
        }
        out
    }
}

/// One set of a marker, in place: the pairs of one number.
#[derive(Clone, Copy)]
struct Set<'m> {
    pairs: Pairs<'m>,
    number: Option<&'m [u8]>,
}

impl<'m> Set<'m> {
    fn names(self) -> impl Iterator<Item = &'m str> {
        let mine = move |pair: &(&'m str, Option<&'m [u8]>)| pair.1 == self.number;
        self.pairs.take_while(mine).map(|(name, _)| name).filter(|name| !name.is_empty())
    }

    fn owned(self) -> Vec<String> {
        self.names().map(str::to_owned).collect()
    }

    /// Starts the key of a request's variant by this set. Whether the class of a coding is still
    /// missing.
    fn start_key(
        self,
        out: &mut Vec<u8>,
        primary: &[u8],
        nonce: u64,
        request: &RequestView<'_>,
        policy: &RulePolicy,
    ) -> bool {
        out.clear();
        key::start_variant_key(out, primary, nonce);
        push_names(out, self.names());
        let mut coded = false;
        for name in self.names() {
            if name == ENCODING {
                coded = true;
            } else {
                push_value(out, normalise(name, request, policy).as_deref());
            }
        }
        coded
    }
}

/// The sets a marker lists.
fn sets(pairs: Pairs<'_>) -> impl Iterator<Item = Set<'_>> {
    let mut rest = pairs;
    std::iter::from_fn(move || {
        loop {
            let set = rest;
            let (name, number) = rest.next()?;
            if name == CLASSES {
                continue;
            }
            // Skip what belongs to this set.
            let mut after = rest;
            while let Some((_, of)) = after.next()
                && of == number
            {
                rest = after;
            }
            return Some(Set { pairs: set, number });
        }
    })
}

fn stored_classes(mut pairs: Pairs<'_>) -> u8 {
    let found = pairs.find(|(name, _)| *name == CLASSES);
    found.and_then(|(_, value)| value?.first().copied()).unwrap_or(u8::MAX)
}

fn push_names<'n>(out: &mut Vec<u8>, names: impl Iterator<Item = &'n str>) {
    key::push_variant_value(out, |out| {
        for name in names {
            out.extend_from_slice(name.as_bytes());
            out.push(b',');
        }
    });
}

/// An absent field and an empty one are different selections.
fn push_value(out: &mut Vec<u8>, value: Option<&[u8]>) {
    key::push_variant_value(out, |out| {
        if let Some(value) = value {
            out.push(b'=');
            out.extend_from_slice(value);
        }
    });
}

/// Calls `look` with the keys of the variants a request selects, best first, until it returns
/// something.
pub(crate) fn select<T>(
    primary: &[u8],
    nonce: u64,
    pairs: Pairs<'_>,
    request: &RequestView<'_>,
    policy: &RulePolicy,
    mut look: impl FnMut(&[u8]) -> Option<T>,
) -> Option<T> {
    let mut key = Vec::with_capacity(primary.len() + 96);
    let stored = stored_classes(pairs);
    for set in sets(pairs) {
        if !set.start_key(&mut key, primary, nonce, request, policy) {
            if let Some(found) = look(&key) {
                return Some(found);
            }
            continue;
        }
        let (codings, base) = (codings(request), key.len());
        let mut try_class = |class: &[u8]| {
            key.truncate(base);
            key::push_variant_value(&mut key, |out| out.extend_from_slice(class));
            look(&key)
        };
        let known = |class: &&[u8]| stored & bit(class) != 0;
        if let Some(found) = classes(codings).filter(known).find_map(&mut try_class) {
            return Some(found);
        }
        if stored & EXACT != 0
            && let Some(found) = try_class(&exactly(codings))
        {
            return Some(found);
        }
    }
    None
}

/// The key under which those wait together who would select the same variant whatever the origin
/// sends: the latest set.
pub(crate) fn flight_key(
    primary: &[u8],
    nonce: u64,
    pairs: Pairs<'_>,
    request: &RequestView<'_>,
    policy: &RulePolicy,
) -> Vec<u8> {
    let mut key = Vec::with_capacity(primary.len() + 96);
    if let Some(set) = sets(pairs).next()
        && set.start_key(&mut key, primary, nonce, request, policy)
    {
        let class = exactly(codings(request));
        key::push_variant_value(&mut key, |out| out.extend_from_slice(&class));
    }
    key
}

/// The values by which a response to this request is selected later.
pub(crate) fn values(
    names: &[String],
    request: &RequestView<'_>,
    policy: &RulePolicy,
    content_encoding: Option<&[u8]>,
) -> Values {
    let value = |name: &String| {
        if name == ENCODING {
            Some(class(codings(request), content_encoding))
        } else {
            normalise(name, request, policy)
        }
    };
    names.iter().map(|name| (name.clone(), value(name))).collect()
}

/// Whether a request selects the response with these values.
pub(crate) fn selects(values: &Values, request: &RequestView<'_>, policy: &RulePolicy) -> bool {
    values.iter().all(|(name, value)| {
        if name == ENCODING {
            let codings = codings(request);
            value
                .as_deref()
                .is_some_and(|v| classes(codings).any(|c| c == v) || exactly(codings) == v)
        } else {
            normalise(name, request, policy) == *value
        }
    })
}

fn codings(request: &RequestView<'_>) -> Codings {
    Codings::parse(request.fields.all(ENCODING))
}

const CODED: [(Codings, Encoding, &[u8]); 4] = [
    (Codings::BR, Encoding::Br, b"br"),
    (Codings::ZSTD, Encoding::Zstd, b"zstd"),
    (Codings::GZIP, Encoding::Gzip, b"gzip"),
    (Codings::DEFLATE, Encoding::Deflate, b"deflate"),
];
/// Uncoded, although the client would have taken a coding.
const PLAIN: &[u8] = b"plain";
/// Uncoded, as its client takes nothing else.
const BARE: &[u8] = b"bare";

/// The classes of responses that are for a client, best first.
fn classes(codings: Codings) -> impl Iterator<Item = &'static [u8]> {
    let coded = CODED
        .into_iter()
        .filter(move |(coding, ..)| codings.contains(*coding))
        .map(|(.., name)| name);
    let uncoded = codings.identity().then_some(if takes_coding(codings) { PLAIN } else { BARE });
    coded.chain(uncoded)
}

fn takes_coding(codings: Codings) -> bool {
    CODED.iter().any(|(coding, ..)| codings.contains(*coding))
}

/// The class of a response to a client.
fn class(codings: Codings, content_encoding: Option<&[u8]>) -> Vec<u8> {
    let encoding = Encoding::of(content_encoding);
    let coded = CODED.iter().find(|(coding, of, _)| *of == encoding && codings.contains(*coding));
    match (coded, encoding) {
        (Some((.., name)), _) => name.to_vec(),
        (None, Encoding::Identity) if !codings.identity() => exactly(codings),
        (None, Encoding::Identity) if takes_coding(codings) => PLAIN.to_vec(),
        (None, Encoding::Identity) => BARE.to_vec(),
        // A coding without a name here, or one that was not asked for: for who asks in the same
        // words only.
        (None, _) => exactly(codings),
    }
}

/// The class of exactly this wish.
fn exactly(codings: Codings) -> Vec<u8> {
    let mut out = b"=".to_vec();
    out.extend_from_slice(&codings.normalised());
    out
}

/// The bit of a class in a marker.
fn bit(class: &[u8]) -> u8 {
    match class {
        b"br" => 1,
        b"zstd" => 2,
        b"gzip" => 4,
        b"deflate" => 8,
        PLAIN => 16,
        BARE => 32,
        _ => EXACT,
    }
}

const EXACT: u8 = 64;

/// The value of a selecting field in the form that is compared.
fn normalise(name: &str, request: &RequestView<'_>, policy: &RulePolicy) -> Option<Vec<u8>> {
    let by_parts = vary_by::field_of(name);
    if by_parts.unwrap_or(name) != "cookie" {
        return vary::normalise(name, request, &policy.cache);
    }
    let mut out = Vec::new();
    if by_parts.is_some() {
        let mut cookies = Vec::new();
        policy.write_cookies(request.fields.all("cookie"), &mut cookies);
        vary_by::write_results(name, &cookies, &mut out);
        return Some(out);
    }
    request.known.cookie()?;
    policy.write_cookies(request.fields.all("cookie"), &mut out).then_some(out)
}
