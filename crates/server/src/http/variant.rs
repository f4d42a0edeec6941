//! Variants of a page: which stored response a request selects (RFC 9111 section 4.1).
//!
//! Where responses vary, a marker lies under the page's primary key. It lists the sets of selecting fields that
//! responses named, the latest first: each response is selected by its own Vary, so that a page may change what it
//! varies on. A variant lies under the primary key, the marker's nonce, the names of its set and the request's values.
//!
//! Accept-Encoding selects by what the response is coded in, not by how the client words its wish: a page that was
//! gzipped for one browser is for every client that takes gzip. A response left uncoded although its client takes
//! codings is for all who take some; what was made for a client that takes none is for its like.

use larder_proto::{
    http::{Fields, Header, accept::Codings, key},
    page::{Encoding, Kind, Pairs, Verify, view},
    rules::{RequestView, vary},
};
use larder_store::Store;

use super::lookup::PAGES;
use crate::{clock::Ms, settings::RulePolicy};

const ENCODING: &str = "accept-encoding";
/// Sets of selecting fields kept for one page; a page whose responses name more is looked for by the latest only.
const MAX_SETS: usize = 4;

/// Selecting request fields (lower case) and their values in the form that is compared; None: the request lacks it.
pub(super) type Values = Vec<(String, Option<Vec<u8>>)>;

/// What names the variants of a page.
#[derive(Clone)]
pub(super) struct Marker {
    pub(super) sets: Vec<Vec<String>>,
    pub(super) nonce: u64,
}

impl Marker {
    /// The marker under a primary key, if one is there.
    pub(super) fn load(store: &'static Store, primary: &[u8], now: Ms) -> Option<Marker> {
        let entry = store.peek(PAGES, primary, now)?;
        let page = view(entry.head(), entry.len(), Verify::Layout).ok()?;
        (page.meta.kind == Kind::VaryMarker)
            .then(|| Marker { sets: sets(page.vary).collect(), nonce: page.meta.nonce })
    }

    /// The marker after a response with this set, and whether it differs from before.
    pub(super) fn with(
        before: Option<Marker>,
        names: &[String],
        nonce: impl FnOnce() -> u64,
    ) -> (Marker, bool) {
        let mut marker = before.unwrap_or_else(|| Marker { sets: Vec::new(), nonce: nonce() });
        if marker.sets.first().is_some_and(|first| first == names) {
            return (marker, false);
        }
        marker.sets.retain(|set| set != names);
        marker.sets.insert(0, names.to_vec());
        marker.sets.truncate(MAX_SETS);
        (marker, true)
    }

    /// The form in which a page record lists the sets: each name with the number of its set.
    pub(super) fn pairs(&self) -> Vec<(&str, Option<&[u8]>)> {
        const NUMBERS: [&[u8]; MAX_SETS] = [&[0], &[1], &[2], &[3]];
        let mut out = Vec::new();
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
    pub(super) fn key(&self, primary: &[u8], values: &Values) -> Vec<u8> {
        let names: Vec<&str> = values.iter().map(|(name, _)| name.as_str()).collect();
        let encoding =
            values.iter().find(|(name, _)| name == ENCODING).and_then(|(_, value)| value.as_deref());
        let others = values.iter().filter(|(name, _)| name != ENCODING).map(|(_, value)| value.as_deref());
        variant_key(primary, self.nonce, &names.join(","), others, encoding)
    }
}

/// The sets a marker lists.
fn sets(mut pairs: Pairs<'_>) -> impl Iterator<Item = Vec<String>> {
    let mut next = pairs.next();
    std::iter::from_fn(move || {
        let (_, number) = next?;
        let mut set = Vec::new();
        while let Some((name, of)) = next
            && of == number
        {
            if !name.is_empty() {
                set.push(name.to_owned());
            }
            next = pairs.next();
        }
        Some(set)
    })
}

/// Calls `look` with the keys of the variants a request selects, best first, until it returns something. The first key
/// is the one under which to wait for somebody else's fetch.
pub(super) fn select<T>(
    primary: &[u8],
    nonce: u64,
    pairs: Pairs<'_>,
    request: &RequestView<'_>,
    policy: &RulePolicy,
    mut look: impl FnMut(&[u8]) -> Option<T>,
) -> Option<T> {
    for set in sets(pairs) {
        let names = set.join(",");
        let values: Vec<_> = set
            .iter()
            .filter(|name| *name != ENCODING)
            .map(|name| normalise(name, request, policy))
            .collect();
        let mut try_one = |encoding: Option<&[u8]>| {
            look(&variant_key(primary, nonce, &names, values.iter().map(Option::as_deref), encoding))
        };
        if !set.iter().any(|name| name == ENCODING) {
            if let Some(found) = try_one(None) {
                return Some(found);
            }
            continue;
        }
        let codings = codings(request);
        if let Some(found) = classes(codings).find_map(|class| try_one(Some(class))) {
            return Some(found);
        }
        if let Some(found) = try_one(Some(&exactly(codings))) {
            return Some(found);
        }
    }
    None
}

/// The key under which those wait together who would select the same variant whatever the origin sends: the latest set.
pub(super) fn flight_key(
    primary: &[u8],
    nonce: u64,
    pairs: Pairs<'_>,
    request: &RequestView<'_>,
    policy: &RulePolicy,
) -> Vec<u8> {
    let set = sets(pairs).next().unwrap_or_default();
    let values: Vec<_> =
        set.iter().filter(|name| *name != ENCODING).map(|name| normalise(name, request, policy)).collect();
    let encoding = set.iter().any(|name| name == ENCODING).then(|| exactly(codings(request)));
    variant_key(primary, nonce, &set.join(","), values.iter().map(Option::as_deref), encoding.as_deref())
}

/// The values by which a response to this request is selected later.
pub(super) fn values(
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
pub(super) fn selects(values: &Values, request: &RequestView<'_>, policy: &RulePolicy) -> bool {
    values.iter().all(|(name, value)| {
        if name == ENCODING {
            let codings = codings(request);
            value.as_deref().is_some_and(|v| classes(codings).any(|c| c == v) || exactly(codings) == v)
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
    let coded =
        CODED.into_iter().filter(move |(coding, ..)| codings.contains(*coding)).map(|(.., name)| name);
    let uncoded = codings.identity().then_some(if takes_coding(codings) { PLAIN } else { BARE });
    coded.chain(uncoded)
}

fn takes_coding(codings: Codings) -> bool {
    codings.has_other() || CODED.iter().any(|(coding, ..)| codings.contains(*coding))
}

/// The class of a response to a client.
fn class(codings: Codings, content_encoding: Option<&[u8]>) -> Vec<u8> {
    let encoding = Encoding::of(content_encoding);
    let coded = CODED.iter().find(|(coding, of, _)| *of == encoding && codings.contains(*coding));
    match (coded, encoding) {
        (Some((.., name)), _) => name.to_vec(),
        (None, Encoding::Identity) if takes_coding(codings) => PLAIN.to_vec(),
        (None, Encoding::Identity) => BARE.to_vec(),
        // A coding without a name here, or one that was not asked for: for who asks in the same words only.
        (None, _) => exactly(codings),
    }
}

/// The class of exactly this wish.
fn exactly(codings: Codings) -> Vec<u8> {
    let mut out = b"=".to_vec();
    out.extend_from_slice(&codings.normalised());
    out
}

fn variant_key<'v>(
    primary: &[u8],
    nonce: u64,
    names: &str,
    values: impl Iterator<Item = Option<&'v [u8]>>,
    encoding: Option<&[u8]>,
) -> Vec<u8> {
    // An absent field and an empty one are different selections.
    let marked =
        |value: Option<&[u8]>| -> Vec<u8> { value.map_or_else(Vec::new, |value| [value, b"="].concat()) };
    let parts: Vec<Vec<u8>> = std::iter::once(names.as_bytes().to_vec())
        .chain(values.map(marked))
        .chain(encoding.map(<[u8]>::to_vec))
        .collect();
    let mut out = Vec::with_capacity(primary.len() + 64);
    key::write_variant_key(&mut out, primary, nonce, parts.iter().map(Vec::as_slice));
    out
}

/// The value of a selecting field in the form that is compared.
fn normalise(name: &str, request: &RequestView<'_>, policy: &RulePolicy) -> Option<Vec<u8>> {
    if name != "cookie" {
        return vary::normalise(name, request, &policy.cache);
    }
    let lines: Vec<_> = request.fields.all("cookie").map(|line| policy.significant_cookies(line)).collect();
    let headers: Vec<Header<'_>> = lines
        .iter()
        .filter(|line| !line.is_empty())
        .map(|line| Header { name: "cookie", value: line })
        .collect();
    vary::normalise(name, &RequestView { fields: Fields::new(&headers), ..*request }, &policy.cache)
}
