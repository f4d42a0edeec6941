//! From the head of a request to the head that the origin is sent.
//!
//! One rule: on a request whose answer may be stored or shared the origin sees exactly what the key
//! knows. All that would say something else than scheme, host, target, method, coding and cookies
//! of the key is dropped, or written anew from the key, or in the key itself ([`KeyField`]).
//! Ordinary fields (User-Agent, Accept, Referer, ...) go on as they are: a site that answers by
//! them says `Vary`.
//!
//! Two exceptions, in italics below: the origin is told the address of the client whose request
//! makes the page, unless the site says otherwise ([`Site::tells_client`]), and CDN-Loop, without
//! which loops of caches would not end.
//!
//! | field | with an answer for many | past the cache |
//! |---|---|---|
//! | of the connection ([`strip::is_hop_by_hop`], named by Connection) | dropped | dropped |
//! | Accept-Encoding | as understood ([`Codings::field`]) | as it is |
//! | Available-Dictionary, Dictionary-ID | dropped where pages are compressed here | as they are |
//! | Cookie | those that count, in the key's form ([`cookie::write`]) | as it is |
//! | names with other characters than letters, digits and dashes | dropped, unless in the key | as it is |
//! | those of [`overrides::TABLE`] | dropped, unless in the key | as it is |
//! | X-Forwarded-Proto, -Host; host and proto of Forwarded | of the key | what trusted proxies said, and this hop |
//! | X-Forwarded-For; for of Forwarded | *the client's address, and the proxies* | what trusted proxies said, and this hop |
//! | Via | this hop, by the driver | the client's, and this hop |
//! | CDN-Loop | *the client's*, and this process | the client's, and this process |
//! | Client-Cert, X-SSL-Client-S-DN | dropped, unless in the key | of a verified certificate, else what trusted proxies said |
//! | conditions and ranges | the stored page's, or the range asked for | as they are |
//! | Cache-Control, Pragma | as they are, where the site obeys them | as they are |

use std::borrow::Cow;
use std::net::IpAddr;

use super::{Conditions, compress, strip};
use crate::http::cookie::{self, Cookie};
use crate::http::forwarded::{self, Hop};
use crate::http::overrides::{is_override, is_plain, same};
use crate::http::{Codings, Fields, Scheme, dictionary};

/// How the answer is to be used, which decides what goes with the request.
#[derive(Clone, Debug)]
pub enum Mode<'a> {
    /// Past the cache: as the client sent it. The answer is for this client alone, and is not
    /// stored.
    Pass,
    /// The whole page, for the store.
    Whole,
    /// The whole page, unless the stored one is still good.
    Validate(Conditions<'a>),
    /// The client's range.
    Range,
    /// The missing part of a stored one, should that still be current.
    Complete {
        /// The value of Range.
        range: String,
        /// The value of If-Range.
        validator: Vec<u8>,
    },
}

impl Mode<'_> {
    fn passes(&self) -> bool {
        matches!(self, Self::Pass)
    }

    /// Conditions and ranges are of the client's own copy, not of ours.
    fn keeps(&self, name: &str) -> bool {
        match self {
            Self::Pass => true,
            Self::Range => {
                !is_condition(name)
                    || ["range", "if-range"].iter().any(|n| name.eq_ignore_ascii_case(n))
            }
            Self::Whole | Self::Validate(_) | Self::Complete { .. } => !is_condition(name),
        }
    }
}

/// A request, and what is known of who sent it.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// Its fields.
    pub fields: Fields<'a>,
    /// The scheme in its key.
    pub scheme: Scheme,
    /// The host in its key, with the port where that is not the scheme's own.
    pub host: Option<&'a str>,
    /// The host that a trusted proxy named besides, which is in the key in lower case.
    pub forwarded_host: Option<&'a [u8]>,
    /// It came from a trusted proxy.
    pub trusted: bool,
    /// The addresses it came by ([`forwarded::chain`]); the last is who sent it.
    pub chain: &'a [IpAddr],
    /// The driver writes a traceparent of its own.
    pub traced: bool,
    /// The certificate that the client has shown.
    pub certificate: Option<Certificate<'a>>,
}

/// A certificate of a client that was verified.
#[derive(Clone, Copy, Debug)]
pub struct Certificate<'a> {
    /// The value of `Client-Cert` (RFC 9440 section 2.1).
    pub field: &'a str,
    /// Its subject (RFC 4514).
    pub subject: &'a str,
}

impl<'a> Certificate<'a> {
    /// The fields by which origins are told of it.
    fn lines(self) -> [(&'static str, &'a [u8]); 2] {
        [("client-cert", self.field.as_bytes()), ("x-ssl-client-s-dn", self.subject.as_bytes())]
    }
}

/// Settings of the site for its requests.
#[derive(Clone, Copy)]
pub struct Site<'a> {
    /// The only cookies that count; empty: all do.
    pub vary_cookies: &'a [String],
    /// Cookies that do not count.
    pub ignored: &'a dyn Fn(&Cookie<'_>) -> bool,
    /// Fields that are in the key.
    pub key_fields: &'a [KeyField],
    /// Cache-Control and Pragma of requests are obeyed.
    pub client_cache_control: bool,
    /// Pages are compressed here: the origin is asked for uncoded content.
    pub compresses: bool,
    /// The origin is told the client's address also where the answer may be stored.
    pub tells_client: bool,
}

/// A request field that is in the keys of a site's pages, and so reaches the origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyField {
    name: String,
    /// It is one by which proxies speak of their clients: from others than trusted proxies it does
    /// not count.
    of_proxies: bool,
}

impl KeyField {
    /// None: the field has its own place in the key, is written by this cache, or is about the
    /// connection.
    pub fn new(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let own = is_own(&name) || is_condition(&name) || strip::is_hop_by_hop(&name);
        let taken = own || is_rebuilt(&name) || HANDLED.contains(&name.as_str());
        (!taken).then(|| Self { of_proxies: is_override(&name), name })
    }

    /// In lower case.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// The lines of the fields that are in the key, by the order of `key_fields`. Those that tell of a
/// client's certificate are of `certificate` where there is one.
pub fn key_lines<'a>(
    fields: Fields<'a>,
    trusted: bool,
    certificate: Option<Certificate<'a>>,
    key_fields: &'a [KeyField],
) -> impl Iterator<Item = (&'a str, &'a [u8])> {
    key_fields.iter().flat_map(move |field| {
        let name = field.name.as_str();
        let own = certificate.and_then(|own| own.lines().into_iter().find(|(own, _)| *own == name));
        let believed = own.is_none() && (trusted || !field.of_proxies);
        let sent = fields.all(name).filter(move |_| believed);
        own.map(|(_, value)| value).into_iter().chain(sent).map(move |value| (name, value))
    })
}

/// A line of the head: name and value.
pub type Line<'a> = (Cow<'a, str>, Cow<'a, [u8]>);

/// The fields to send to the origin, but for those that the driver writes itself: Via, CDN-Loop and
/// Surrogate-Capability, a traceparent, Upgrade, the framing.
pub fn head<'a>(received: &Received<'a>, site: &Site<'a>, mode: &Mode<'a>) -> Vec<Line<'a>> {
    let mut out: Vec<Line<'a>> = Vec::with_capacity(received.fields.len() + 8);
    // A client may name thousands of options: they are searched, not gone through for each field.
    let mut named: Vec<&[u8]> = received.fields.elements("connection").collect();
    named.sort_unstable_by(|a, b| without_case(a).cmp(without_case(b)));
    for (name, value) in received.fields.iter() {
        let order = |option: &&[u8]| without_case(option).cmp(without_case(name.as_bytes()));
        let listed = named.binary_search_by(order).is_ok();
        let dropped = listed
            || strip::is_hop_by_hop(name)
            || is_own(name)
            || is_rebuilt(name)
            || !mode.keeps(name)
            || (received.traced && name.eq_ignore_ascii_case("traceparent"));
        if !dropped && goes_on(name, received, site, mode) {
            let tags = mode.passes() && site.compresses && compares_tags(name);
            let value = match tags.then(|| compress::with_page_tags(value)).flatten() {
                Some(more) => Cow::Owned(more),
                None => Cow::Borrowed(value),
            };
            out.push((Cow::Borrowed(name), value));
        }
    }
    if !mode.passes() {
        counting_cookies(received, site, &mut out);
        let Received { fields, trusted, certificate, .. } = *received;
        out.extend(key_lines(fields, trusted, certificate, site.key_fields).map(borrowed));
        let codings = match site.compresses {
            true => Codings::IDENTITY,
            false => Codings::parse(received.fields.all("accept-encoding")),
        };
        push(&mut out, "accept-encoding", codings.field().into_bytes());
    } else if let Some(certificate) = received.certificate {
        out.extend(certificate.lines().map(borrowed));
    }
    if let Some(host) = received.host {
        push(&mut out, "host", host.as_bytes());
    }
    conditions(mode, &mut out);
    who_asks(received, site.tells_client, mode, &mut out);
    out
}

fn without_case(name: &[u8]) -> impl Iterator<Item = u8> {
    name.iter().map(u8::to_ascii_lowercase)
}

/// Whether a field goes on as it is.
fn goes_on(name: &str, received: &Received<'_>, site: &Site<'_>, mode: &Mode<'_>) -> bool {
    if mode.passes() {
        // Names with `_` are never a trusted proxy's.
        let vouched = received.trusted && is_plain(name);
        let claims = of_forwarding(name) && !vouched
            || of_certificate(name) && (!vouched || received.certificate.is_some());
        return !claims && !(same(name, "connection"));
    }
    let cache = ["cache-control", "pragma"].iter().any(|n| name.eq_ignore_ascii_case(n));
    is_plain(name)
        && !is_override(name)
        && !["accept-encoding", "cookie"].iter().any(|n| name.eq_ignore_ascii_case(n))
        && !site.key_fields.iter().any(|field| name.eq_ignore_ascii_case(&field.name))
        && (site.client_cache_control || !cache)
        && !(site.compresses && dictionary::is_request_field(name))
}

/// Fields that are written anew, or that the origin's driver writes, in any spelling. `Proxy` would
/// become HTTP_PROXY in a CGI program.
fn is_own(name: &str) -> bool {
    const NAMES: [&str; 8] = [
        "host",
        "content-length",
        "transfer-encoding",
        "expect",
        "via",
        "surrogate-capability",
        "proxy",
        "larder-debug",
    ];
    NAMES.iter().any(|own| same(name, own))
}

/// Fields by which the origin is told who asks; always written here.
fn is_rebuilt(name: &str) -> bool {
    ["forwarded", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host"]
        .iter()
        .any(|own| same(name, own))
}

/// Fields by which a proxy says for whom it asks. From a client that is no trusted proxy they are
/// an attempt.
fn of_forwarding(name: &str) -> bool {
    same(name, "x-real-ip") || name.get(..12).is_some_and(|start| same(start, "x-forwarded-"))
}

/// Fields by which a proxy tells of its client's certificate (RFC 9440, and recipes before it).
fn of_certificate(name: &str) -> bool {
    ["client-cert", "x-ssl-client-"]
        .iter()
        .any(|family| name.get(..family.len()).is_some_and(|start| same(start, family)))
}

/// Whether the field lists entity tags, which may be those of forms that were compressed here.
fn compares_tags(name: &str) -> bool {
    ["if-match", "if-none-match"].iter().any(|field| name.eq_ignore_ascii_case(field))
}

fn is_condition(name: &str) -> bool {
    const NAMES: [&str; 6] = [
        "if-none-match",
        "if-modified-since",
        "if-match",
        "if-unmodified-since",
        "if-range",
        "range",
    ];
    NAMES.iter().any(|condition| name.eq_ignore_ascii_case(condition))
}

/// Fields with a rule of their own.
const HANDLED: [&str; 6] =
    ["accept-encoding", "authorization", "cache-control", "cookie", "max-forwards", "pragma"];

fn borrowed<'a>((name, value): (&'a str, &'a [u8])) -> Line<'a> {
    (Cow::Borrowed(name), Cow::Borrowed(value))
}

fn push<'a>(out: &mut Vec<Line<'a>>, name: &'static str, value: impl Into<Cow<'a, [u8]>>) {
    out.push((Cow::Borrowed(name), value.into()));
}

/// One line, byte for byte what selects where the page varies on Cookie.
fn counting_cookies<'a>(received: &Received<'a>, site: &Site<'a>, out: &mut Vec<Line<'a>>) {
    let mut value = Vec::new();
    if cookie::write(received.fields.all("cookie"), site.vary_cookies, site.ignored, &mut value) {
        push(out, "cookie", value);
    }
}

fn conditions<'a>(mode: &Mode<'a>, out: &mut Vec<Line<'a>>) {
    match mode {
        Mode::Validate(conditions) => {
            if let Some(etag) = conditions.if_none_match {
                push(out, "if-none-match", etag);
            }
            if let Some(date) = conditions.if_modified_since {
                push(out, "if-modified-since", date);
            }
        }
        Mode::Complete { range, validator } => {
            push(out, "range", range.clone().into_bytes());
            push(out, "if-range", validator.clone());
        }
        Mode::Pass | Mode::Whole | Mode::Range => {}
    }
}

/// X-Forwarded-For, Forwarded, X-Forwarded-Proto and X-Forwarded-Host. Scheme and hosts are those
/// of the key; the addresses are in no key.
fn who_asks<'a>(
    received: &Received<'a>,
    tells_client: bool,
    mode: &Mode<'a>,
    out: &mut Vec<Line<'a>>,
) {
    let (scheme, fields) = (received.scheme.as_str(), received.fields);
    let named =
        received.forwarded_host.filter(|host| !host.is_empty()).map(<[u8]>::to_ascii_lowercase);
    let named_host = named.as_deref().and_then(|host| std::str::from_utf8(host).ok());
    let (mut list, mut text) = (String::new(), String::new());
    match (received.chain, mode) {
        ([.., peer], Mode::Pass) => {
            let hop = Hop { client: Some(*peer), proto: scheme, host: received.host };
            let before = |name: &'static str| fields.all(name).filter(|_| received.trusted);
            hop.write_x_forwarded_for(before("x-forwarded-for"), &mut list);
            hop.write_forwarded(before("forwarded"), &mut text);
        }
        (..) if !tells_client => {
            let hop = Hop { client: None, proto: scheme, host: named_host.or(received.host) };
            hop.write_forwarded([], &mut text);
        }
        (chain, _) => {
            forwarded::write_chain(chain, &mut list);
            for (at, address) in chain.iter().enumerate() {
                let first = (at == 0).then_some(named_host).flatten();
                let host = first.or(received.host);
                let hop = Hop { client: Some(*address), proto: scheme, host };
                let before = std::mem::take(&mut text);
                hop.write_forwarded([before.as_bytes()], &mut text);
            }
        }
    }
    if !list.is_empty() {
        push(out, "x-forwarded-for", list.into_bytes());
    }
    push(out, "forwarded", text.into_bytes());
    push(out, "x-forwarded-proto", scheme.as_bytes());
    if let Some(host) = named.or(received.host.map(|host| host.as_bytes().to_vec())) {
        push(out, "x-forwarded-host", host);
    }
}

#[cfg(test)]
mod tests;
