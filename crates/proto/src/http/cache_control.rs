//! Cache-Control and its targeted relatives (RFC 9111 5.2, RFC 5861, RFC 8246, RFC 9213,
//! Surrogate-Control).
//!
//! One set of directives, three grammars: [`CacheControl::parse`] reads Cache-Control as servers
//! really send it, [`CacheControl::parse_targeted`] reads CDN-Cache-Control as a structured field
//! (and ignores it whole when it is not one, RFC 9213 2.1), [`CacheControl::parse_surrogate`] reads
//! the Edge Architecture's Surrogate-Control.
//!
//! Unreadable values are read in the careful way: a lifetime that is not a number is 0 (RFC 9111
//! 4.2.1), a restriction with an odd argument applies to the whole response. Of a repeated
//! directive the first counts (RFC 9111 4.2.1).

use super::fields::{Elements, is_token, trim};
use super::structured::{Dictionary, Value};

/// The largest delta-seconds (RFC 9111 1.2.2): larger numbers count as this one.
pub const MAX_DELTA: u32 = 1 << 31;

/// A restriction that may name fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Restriction {
    /// Not found.
    #[default]
    Absent,
    /// For the named fields only, see [`field_names`].
    Fields,
    /// For the whole response.
    Whole,
}

/// The directives of one message. Times are in seconds, at most [`MAX_DELTA`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheControl {
    /// `max-age`; 0 when it is no number.
    pub max_age: Option<u32>,
    /// `s-maxage`; 0 when it is no number.
    pub s_maxage: Option<u32>,
    /// `stale-while-revalidate` (RFC 5861 3); absent when it is no number.
    pub stale_while_revalidate: Option<u32>,
    /// `stale-if-error` (RFC 5861 4); absent when it is no number.
    pub stale_if_error: Option<u32>,
    /// `min-fresh` of a request; absent when it is no number.
    pub min_fresh: Option<u32>,
    /// `max-stale` of a request: [`u32::MAX`] without argument; absent when it is no number.
    pub max_stale: Option<u32>,
    /// `no-cache`
    pub no_cache: Restriction,
    /// `private`
    pub private: Restriction,
    /// `no-store`
    pub no_store: bool,
    /// `no-transform`
    pub no_transform: bool,
    /// `public`
    pub public: bool,
    /// `must-revalidate`
    pub must_revalidate: bool,
    /// `proxy-revalidate`
    pub proxy_revalidate: bool,
    /// `must-understand` (RFC 9111 5.2.2.3)
    pub must_understand: bool,
    /// `immutable` (RFC 8246)
    pub immutable: bool,
    /// `only-if-cached` of a request
    pub only_if_cached: bool,
    /// Whether there was any directive at all, known or not.
    pub present: bool,
}

/// A directive's argument.
#[derive(Clone, Copy)]
enum Argument<'a> {
    None,
    /// A token or the inside of a quoted string, not yet unescaped.
    Text(&'a [u8]),
    /// Whitespace around `=`, or neither a token nor a closed quoted string.
    Odd,
}

impl CacheControl {
    /// Reads all Cache-Control lines of a message.
    pub fn parse<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut control = Self::default();
        for (name, argument) in lines.into_iter().flat_map(Elements::of).map(split) {
            control.apply(name, argument);
        }
        control
    }

    /// Reads all lines of a targeted field (CDN-Cache-Control and the like); `None` when the field
    /// must be ignored: absent, empty, or not a structured field dictionary (RFC 9213 2.1). Names
    /// may still be in any case.
    ///
    /// Arguments of a wrong type are ignored: `max-age="60"` has no effect.
    pub fn parse_targeted<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> Option<Self> {
        let mut control = Self::default();
        let mut members = 0;
        for line in lines {
            for member in Dictionary::of(line) {
                let (name, value) = member.ok()?;
                members += 1;
                control.apply_typed(name, value);
            }
        }
        control.present = members > 0;
        control.present.then_some(control)
    }

    /// Reads all Surrogate-Control lines for the surrogate called `device`; `None` when no
    /// directive is for it.
    ///
    /// A directive with a target (`max-age=60;device`) counts for that device only, and has
    /// precedence over one without (Edge Architecture 1.0, 2.3). The second number of
    /// `max-age=60+600` is the time for which the page may be served stale.
    pub fn parse_surrogate<'a>(
        lines: impl IntoIterator<Item = &'a [u8]>,
        device: &[u8],
    ) -> Option<Self> {
        let (mut ours, mut anyone) = (Self::default(), Self::default());
        for element in lines.into_iter().flat_map(Elements::of) {
            let mut parts = Elements::parameters(element);
            let Some(directive) = parts.next() else { continue };
            let control = match parts.next() {
                None => &mut anyone,
                Some(target) if target.eq_ignore_ascii_case(device) => &mut ours,
                Some(_) => continue,
            };
            control.apply_surrogate(directive);
        }
        if ours.present { Some(ours) } else { anyone.present.then_some(anyone) }
    }

    fn apply(&mut self, name: &[u8], argument: Argument<'_>) {
        let number = || match argument {
            Argument::Text(text) => delta_seconds(text),
            Argument::None | Argument::Odd => None,
        };
        let is = |directive: &[u8]| name.eq_ignore_ascii_case(directive);
        self.present = true;
        match (name.len(), name.first().map(u8::to_ascii_lowercase)) {
            (6, Some(b'p')) if is(b"public") => self.public = true,
            (7, Some(b'm')) if is(b"max-age") => first(&mut self.max_age, number().or(Some(0))),
            (7, Some(b'p')) if is(b"private") => self.private = restrict(self.private, argument),
            (8, Some(b'n')) if is(b"no-cache") => self.no_cache = restrict(self.no_cache, argument),
            (8, Some(b'n')) if is(b"no-store") => self.no_store = true,
            (8, Some(b's')) if is(b"s-maxage") => first(&mut self.s_maxage, number().or(Some(0))),
            (9, Some(b'i')) if is(b"immutable") => self.immutable = true,
            (9, Some(b'm')) if is(b"min-fresh") => first(&mut self.min_fresh, number()),
            (9, Some(b'm')) if is(b"max-stale") => first(
                &mut self.max_stale,
                match argument {
                    Argument::None => Some(u32::MAX),
                    _ => number(),
                },
            ),
            (12, Some(b'n')) if is(b"no-transform") => self.no_transform = true,
            (14, Some(b'o')) if is(b"only-if-cached") => self.only_if_cached = true,
            (14, Some(b's')) if is(b"stale-if-error") => first(&mut self.stale_if_error, number()),
            (15, Some(b'm')) if is(b"must-revalidate") => self.must_revalidate = true,
            (15, Some(b'm')) if is(b"must-understand") => self.must_understand = true,
            (16, Some(b'p')) if is(b"proxy-revalidate") => self.proxy_revalidate = true,
            (22, Some(b's')) if is(b"stale-while-revalidate") => {
                first(&mut self.stale_while_revalidate, number());
            }
            _ => {}
        }
    }

    /// A member of a dictionary: later ones replace earlier ones (RFC 9651 4.2.2).
    fn apply_typed(&mut self, name: &[u8], value: Value<'_>) {
        let mut new = Self::default();
        match value {
            Value::True => new.apply(name, Argument::None),
            Value::Integer(digits) => new.apply(name, Argument::Text(digits)),
            Value::Text(text) if takes_names(name) => new.apply(name, Argument::Text(text)),
            Value::False | Value::Text(_) | Value::List(_) | Value::Other => return,
        }
        self.replace_times(&new);
        self.no_cache = self.no_cache.max(new.no_cache);
        self.private = self.private.max(new.private);
        self.no_store |= new.no_store;
        self.no_transform |= new.no_transform;
        self.public |= new.public;
        self.must_revalidate |= new.must_revalidate;
        self.proxy_revalidate |= new.proxy_revalidate;
        self.must_understand |= new.must_understand;
        self.immutable |= new.immutable;
        self.only_if_cached |= new.only_if_cached;
    }

    fn replace_times(&mut self, new: &Self) {
        self.max_age = new.max_age.or(self.max_age);
        self.s_maxage = new.s_maxage.or(self.s_maxage);
        self.stale_while_revalidate = new.stale_while_revalidate.or(self.stale_while_revalidate);
        self.stale_if_error = new.stale_if_error.or(self.stale_if_error);
        self.min_fresh = new.min_fresh.or(self.min_fresh);
        self.max_stale = new.max_stale.or(self.max_stale);
    }

    fn apply_surrogate(&mut self, directive: &[u8]) {
        match split(directive) {
            (name, Argument::Text(text))
                if name.eq_ignore_ascii_case(b"max-age") && text.contains(&b'+') =>
            {
                let mut numbers = text.splitn(2, |&b| b == b'+').map(delta_seconds);
                let (fresh, stale) = (numbers.next().flatten(), numbers.next().flatten());
                self.apply(name, Argument::Odd);
                if let (Some(fresh), Some(stale), Some(0)) = (fresh, stale, self.max_age) {
                    self.max_age = Some(fresh);
                    self.stale_while_revalidate = Some(stale);
                }
            }
            (name, argument) => self.apply(name, argument),
        }
    }
}

impl Restriction {
    fn max(self, other: Self) -> Self {
        match (self, other) {
            (Self::Whole, _) | (_, Self::Whole) => Self::Whole,
            (Self::Fields, _) | (_, Self::Fields) => Self::Fields,
            _ => Self::Absent,
        }
    }
}

/// The field names in the `no-cache="..."` or `private="..."` directives of these lines
/// (`directive` gives the name). Trimmed, as received; none when the directive restricts the whole
/// response.
pub fn field_names<'a>(
    lines: impl IntoIterator<Item = &'a [u8]>,
    directive: &'static str,
) -> impl Iterator<Item = &'a [u8]> {
    lines
        .into_iter()
        .flat_map(Elements::of)
        .map(split)
        .filter(move |(name, _)| name.eq_ignore_ascii_case(directive.as_bytes()))
        .filter_map(|(_, argument)| match argument {
            Argument::Text(text) => Some(text),
            Argument::None | Argument::Odd => None,
        })
        .flat_map(Elements::of)
}

/// Digits only; numbers above [`MAX_DELTA`] are [`MAX_DELTA`]. No sign, no fraction, no whitespace
/// (RFC 9111 1.2.2).
pub fn delta_seconds(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number =
        digits.iter().fold(0_u64, |n, d| (n * 10 + u64::from(d - b'0')).min(u64::from(MAX_DELTA)));
    u32::try_from(number).ok()
}

/// Name and argument of one directive.
fn split(element: &[u8]) -> (&[u8], Argument<'_>) {
    let Some(equals) = element.iter().position(|&b| b == b'=') else {
        return (element, Argument::None);
    };
    let (name, value) = (&element[..equals], &element[equals + 1..]);
    let argument = match value {
        _ if trim(name) != name || trim(value) != value => Argument::Odd,
        [b'"', inner @ .., b'"'] => Argument::Text(inner),
        token if is_token(token) => Argument::Text(token),
        _ => Argument::Odd,
    };
    (trim(name), argument)
}

/// Keeps the first of several values.
fn first(slot: &mut Option<u32>, value: Option<u32>) {
    *slot = slot.or(value);
}

/// Any argument but a list of field names restricts the whole response.
fn restrict(before: Restriction, argument: Argument<'_>) -> Restriction {
    let now = match argument {
        Argument::Text(text)
            if Elements::of(text).next().is_some() && Elements::of(text).all(is_token) =>
        {
            Restriction::Fields
        }
        _ => Restriction::Whole,
    };
    before.max(now)
}

fn takes_names(directive: &[u8]) -> bool {
    directive.eq_ignore_ascii_case(b"no-cache") || directive.eq_ignore_ascii_case(b"private")
}

#[cfg(test)]
mod tests;
