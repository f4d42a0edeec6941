//! Accept-Encoding and Accept-Language in one form for all clients that mean the same (RFC 9110
//! 12.5.3, 12.5.4).
//!
//! Browsers write these fields in dozens of ways; a cache with a variant for each way would rarely
//! find one.

use super::fields::{Elements, is_token, trim};
use std::ops::Deref;

/// A weight in thousandths, 0 to 1000; `None` if it is not a valid weight (RFC 9110 12.4.2).
fn weight(value: &[u8]) -> Option<u16> {
    let (whole, fraction) = match value {
        [whole] => (*whole, &[][..]),
        [whole, b'.', fraction @ ..] if fraction.len() <= 3 => (*whole, fraction),
        _ => return None,
    };
    if !matches!(whole, b'0' | b'1') || !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |at: usize| fraction.get(at).map_or(0, |d| u16::from(d - b'0'));
    let thousandths = u16::from(whole - b'0') * 1000 + digit(0) * 100 + digit(1) * 10 + digit(2);
    (thousandths <= 1000).then_some(thousandths)
}

/// Value and weight of one element; the weight is 1000 without `q`, and 0 if it cannot be read.
fn weighted(element: &[u8]) -> Option<(&[u8], u16)> {
    let mut parts = Elements::parameters(element);
    let value = parts.next()?;
    let q = parts.find_map(|p| match p {
        [b'q' | b'Q', b'=', q @ ..] => Some(weight(q).unwrap_or(0)),
        _ => None,
    });
    Some((value, q.unwrap_or(1000)))
}

/// Name and weight of one element of Accept-Encoding (RFC 9110 12.5.3): `coding [ ; q=weight ]` and
/// nothing else. A coding with anything else behind it is refused: weight 0. `None`: not even the
/// name is one.
fn coding(element: &[u8]) -> Option<(&[u8], u16)> {
    let mut parts = element.splitn(2, |&byte| byte == b';').map(trim);
    let name = parts.next().filter(|name| is_token(name))?;
    let q = match parts.next() {
        None => 1000,
        Some([b'q' | b'Q', b'=', q @ ..]) => weight(q).unwrap_or(0),
        Some(_) => 0,
    };
    Some((name, q))
}

/// Whether an element of Content-Encoding says that the content is coded. Every word does, whether
/// it is in IANA's registry or not: a client that did not ask for it may not be able to decode it.
/// Servers also write words there that are no codings, and whose content browsers show as it is:
/// those of [`MISTAKEN`], media types, and words in capitals, as character sets are written.
pub fn is_coding(name: &[u8]) -> bool {
    /// Codings that are known, in any spelling.
    const CODINGS: [&str; 20] = [
        "gzip",
        "x-gzip",
        "br",
        "zstd",
        "deflate",
        "compress",
        "x-compress",
        "dcb",
        "dcz",
        "exi",
        "aes128gcm",
        "pack200-gzip",
        "lzma",
        "xz",
        "x-xz",
        "lz4",
        "bzip2",
        "x-bzip2",
        "snappy",
        "sdch",
    ];
    CODINGS.iter().any(|coding| name.eq_ignore_ascii_case(coding.as_bytes()))
        || (is_token(name) && name.iter().any(u8::is_ascii_lowercase) && !is_mistaken(name))
}

/// Words in Content-Encoding that say nothing, in lower case: no coding at all, transfer codings
/// and those of mail, words of programs for "nothing", and character sets. A `*` at the end stands
/// for anything.
const MISTAKEN: [&str; 31] = [
    "identity",
    "none",
    "no",
    "off",
    "false",
    "null",
    "undefined",
    "default",
    "plain",
    "text",
    "html",
    "binary",
    "7bit",
    "8bit",
    "chunked",
    "aws-chunked",
    "utf*",
    "ascii",
    "us-ascii",
    "iso-*",
    "iso8859*",
    "windows-*",
    "cp125*",
    "latin*",
    "ansi",
    "unicode",
    "big5*",
    "gb*",
    "euc-*",
    "shift_jis",
    "koi8-*",
];

fn is_mistaken(name: &[u8]) -> bool {
    MISTAKEN.iter().any(|word| match word.strip_suffix('*') {
        Some(family) => name
            .get(..family.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(family.as_bytes())),
        None => name.eq_ignore_ascii_case(word.as_bytes()),
    })
}

/// A set of content codings a client takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Codings(u8);

impl Codings {
    /// The identity only: the meaning given to a request without Accept-Encoding. RFC 9110 12.5.3
    /// would allow any coding, but clients that do not send the field are those that decode
    /// nothing.
    pub const IDENTITY: Self = Self(0);
    /// `gzip`, `x-gzip`
    pub const GZIP: Self = Self(1);
    /// `br` (RFC 7932)
    pub const BR: Self = Self(2);
    /// `zstd` (RFC 8878)
    pub const ZSTD: Self = Self(4);
    /// `deflate`
    pub const DEFLATE: Self = Self(8);
    /// Not a coding: the identity is refused (`identity;q=0`, or `*;q=0` without identity).
    const NO_IDENTITY: u8 = 16;
    /// `dcb`: brotli with a dictionary that the request names (RFC 9842 4).
    pub const DCB: Self = Self(32);
    /// `dcz`: zstd with a dictionary that the request names (RFC 9842 5).
    pub const DCZ: Self = Self(64);
    /// Codings that need a dictionary. Only what this cache compresses itself is in one: they are
    /// in no normal form, and no origin is told of them.
    const WITH_DICTIONARY: [(Self, &'static str); 2] = [(Self::DCB, "dcb"), (Self::DCZ, "dcz")];
    const NAMES: [(Self, &'static str); 4] =
        [(Self::BR, "br"), (Self::DEFLATE, "deflate"), (Self::GZIP, "gzip"), (Self::ZSTD, "zstd")];

    /// Both sets together.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Reads the Accept-Encoding lines of a request. Weights above 0 make no difference; a coding
    /// that is both accepted and refused is refused; codings that have no name here are not taken.
    pub fn parse<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let (mut accepted, mut refused, mut star, mut identity) = (0, 0, None, None);
        for (name, q) in lines.into_iter().flat_map(Elements::of).filter_map(coding) {
            let bit = match Self::named(name) {
                Some(coding) => coding.0,
                None if name == b"*" => {
                    star = Some(q > 0 && star != Some(false));
                    continue;
                }
                None if name.eq_ignore_ascii_case(b"identity") => {
                    identity = Some(q > 0 && identity != Some(false));
                    continue;
                }
                None => match Self::with_dictionary(name) {
                    Some(coding) => coding.0,
                    None => continue,
                },
            };
            if q > 0 {
                accepted |= bit;
            } else {
                refused |= bit;
            }
        }
        let all = Self::NAMES.iter().fold(0, |set, (coding, _)| set | coding.0);
        // A star stands for no coding that needs a dictionary: clients name those.
        let mut set = if star == Some(true) { all | accepted } else { accepted };
        set &= !refused;
        if identity == Some(false) || (star == Some(false) && identity.is_none()) {
            set |= Self::NO_IDENTITY;
        }
        Self(set)
    }

    /// The coding of that name, in any case.
    pub fn named(name: &[u8]) -> Option<Self> {
        if name.eq_ignore_ascii_case(b"x-gzip") {
            return Some(Self::GZIP);
        }
        Self::NAMES
            .iter()
            .find(|(_, n)| n.as_bytes().eq_ignore_ascii_case(name))
            .map(|(coding, _)| *coding)
    }

    /// The coding of that name, in any case, if it is one that needs a dictionary.
    fn with_dictionary(name: &[u8]) -> Option<Self> {
        let mut codings = Self::WITH_DICTIONARY.iter();
        let found = codings.find(|(_, known)| known.as_bytes().eq_ignore_ascii_case(name));
        found.map(|(coding, _)| *coding)
    }

    /// Whether a coding with a dictionary is accepted.
    pub const fn takes_dictionary(self) -> bool {
        self.0 & (Self::DCB.0 | Self::DCZ.0) != 0
    }

    /// Whether every coding of `other` is accepted.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The codings in both sets, and whether the identity is refused: for an origin known to use
    /// only some of them.
    #[must_use]
    pub const fn only(self, those: Self) -> Self {
        Self(self.0 & (those.0 | Self::NO_IDENTITY))
    }

    /// Whether a representation without coding may be sent.
    pub const fn identity(self) -> bool {
        self.0 & Self::NO_IDENTITY == 0
    }

    /// Whether a representation with these elements of Content-Encoding may be sent. Several
    /// codings, or one without a name here, may not.
    pub fn allows<'a>(self, mut content_encoding: impl Iterator<Item = &'a [u8]>) -> bool {
        match (content_encoding.next(), content_encoding.next()) {
            (None, _) => self.identity(),
            (Some(name), None) if name.eq_ignore_ascii_case(b"identity") => self.identity(),
            (Some(name), None) => Self::named(name).is_some_and(|coding| self.contains(coding)),
            (Some(_), Some(_)) => false,
        }
    }

    /// The set in one form: names in order, `,` between them, `!identity` when that is refused;
    /// codings without a name here are left out.
    pub fn normalised(self) -> Normalised {
        let mut out = Normalised { bytes: [0; NORMALISED], len: 0 };
        for (_, name) in Self::NAMES.iter().filter(|(coding, _)| self.contains(*coding)) {
            out.push(name);
        }
        if !self.identity() {
            out.push("!identity");
        }
        out
    }
}

impl Codings {
    /// The set as the origin is told: every request with this set says the same.
    ///
    /// Where it is empty that is `identity`. A request without the field would allow any coding
    /// (RFC 9110 12.5.3), and an origin may take it at its word; this cache would have nobody to
    /// give the answer to.
    pub fn field(self) -> String {
        let mut out = String::new();
        let names =
            Self::NAMES.iter().filter(|(coding, _)| self.contains(*coding)).map(|(_, name)| *name);
        let coded = self.0 & !Self::NO_IDENTITY & !Self::DCB.0 & !Self::DCZ.0;
        let last = match (self.identity(), coded) {
            (false, _) => Some("identity;q=0"),
            (true, 0) => Some("identity"),
            (true, _) => None,
        };
        for name in names.chain(last) {
            if !out.is_empty() {
                out.push_str(", ");
            }
            out.push_str(name);
        }
        out
    }
}

/// Longest normal form: every name, every comma.
const NORMALISED: usize = "br,deflate,gzip,zstd,!identity".len();

/// A short text on the stack; reads as bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Normalised {
    bytes: [u8; NORMALISED],
    len: usize,
}

impl Normalised {
    fn push(&mut self, name: &str) {
        if self.len > 0 {
            self.bytes[self.len] = b',';
            self.len += 1;
        }
        self.bytes[self.len..self.len + name.len()].copy_from_slice(name.as_bytes());
        self.len += name.len();
    }
}

impl Deref for Normalised {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Most languages examined; a longer list stays as it is, except for case and whitespace.
const LANGUAGES: usize = 24;

/// Writes the Accept-Language lines of a request in one form: lower-case, ordered by falling weight
/// and then by name, without whitespace, weights without superfluous zeros. Allocates only to grow
/// `out`.
///
/// Languages of one weight are equally welcome (RFC 9110 12.5.4: clients cannot rely on their
/// order).
pub fn write_languages<'a>(lines: impl Iterator<Item = &'a [u8]> + Clone, out: &mut Vec<u8>) {
    let mut slots: [(u16, &[u8]); LANGUAGES] = [(0, b""); LANGUAGES];
    let elements = || lines.clone().flat_map(Elements::of).filter_map(weighted);
    let mut used = 0;
    for (name, q) in elements() {
        let Some(slot) = slots.get_mut(used) else {
            return write_each(elements(), out);
        };
        *slot = (q, name);
        used += 1;
    }
    let found = &mut slots[..used];
    found.sort_unstable_by(|(qa, a), (qb, b)| qb.cmp(qa).then_with(|| compare(a, b)));
    write_each(found.iter().map(|&(q, name)| (name, q)), out);
}

fn compare(a: &[u8], b: &[u8]) -> std::cmp::Ordering {
    a.iter().map(u8::to_ascii_lowercase).cmp(b.iter().map(u8::to_ascii_lowercase))
}

fn write_each<'a>(elements: impl Iterator<Item = (&'a [u8], u16)>, out: &mut Vec<u8>) {
    for (index, (name, q)) in elements.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend(name.iter().map(u8::to_ascii_lowercase));
        if q < 1000 {
            write_weight(q, out);
        }
    }
}

fn write_weight(q: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(b";q=0");
    let digits = [q / 100, q / 10 % 10, q % 10];
    let used = digits.iter().rposition(|&d| d != 0).map_or(0, |last| last + 1);
    if used > 0 {
        out.push(b'.');
        out.extend(digits[..used].iter().map(|&d| b'0' + d as u8));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn codings(line: &str) -> String {
        String::from_utf8_lossy(&Codings::parse([line.as_bytes()]).normalised()).into_owned()
    }

    #[test]
    fn encodings_in_one_form() {
        for (line, expected) in [
            ("", ""),
            ("identity", ""),
            ("gzip", "gzip"),
            ("gzip, deflate, br, zstd", "br,deflate,gzip,zstd"),
            ("br;q=1.0,GZIP;q=0.8 , deflate; q=0.001", "br,deflate,gzip"),
            ("x-gzip", "gzip"),
            ("gzip;q=0", ""),
            ("gzip;q=0.000", ""),
            ("gzip;q=2", ""),
            ("gzip;q=", ""),
            ("gzip;q=0.1234", ""),
            ("gzip;q=5", ""),
            ("gzip;q=1.0000", ""),
            ("gzip;q=-1", ""),
            ("gzip;q", ""),
            ("gzip;", ""),
            ("gzip;level=9;Q=0.5", ""),
            ("gzip;q=1;q=1", ""),
            ("gzip ; Q=0.5", "gzip"),
            ("gzip;q =1", ""),
            ("gzip;q=1.", "gzip"),
            ("\"gzip\"", ""),
            ("notgzip, gzipped, gzip/1, x gzip", ""),
            ("gzip, gzip;q=0", ""),
            ("gzip;q=0, gzip", ""),
            ("*, gzip;q=5", "br,deflate,zstd"),
            ("*;q=0, *", "!identity"),
            ("*", "br,deflate,gzip,zstd"),
            ("*, br;q=0", "deflate,gzip,zstd"),
            ("br;q=0, *;q=0.1", "deflate,gzip,zstd"),
            ("*;q=0", "!identity"),
            ("gzip, *;q=0", "gzip,!identity"),
            ("gzip, identity, *;q=0", "gzip"),
            ("gzip, identity;q=0", "gzip,!identity"),
            ("*, identity;q=0", "br,deflate,gzip,zstd,!identity"),
            ("sdch, dcb", ""),
        ] {
            assert_eq!(codings(line), expected, "{line}");
        }
        let some = Codings::parse([&b"gzip, br, identity;q=0"[..]]).only(Codings::GZIP);
        assert_eq!(&*some.normalised(), b"gzip,!identity");
    }

    #[test]
    fn the_origin_is_told_what_was_understood() {
        for (line, expected) in [
            ("", "identity"),
            ("sdch, dcb", "identity"),
            ("gzip;q=5", "identity"),
            ("GZIP;q=0.1, br", "br, gzip"),
            ("*", "br, deflate, gzip, zstd"),
            ("gzip, identity;q=0", "gzip, identity;q=0"),
            ("*;q=0", "identity;q=0"),
        ] {
            let understood = Codings::parse([line.as_bytes()]);
            assert_eq!(understood.field(), expected, "{line}");
            let told = Codings::parse([expected.as_bytes()]);
            assert_eq!(told.normalised(), understood.normalised(), "{line}");
        }
    }

    #[test]
    fn codings_with_a_dictionary_are_named() {
        let takes = |line: &str| {
            let set = Codings::parse([line.as_bytes()]);
            let both = [set.contains(Codings::DCB), set.contains(Codings::DCZ)];
            assert_eq!(set.takes_dictionary(), both.contains(&true), "{line}");
            both
        };
        for (line, expected) in [
            ("gzip, deflate, br, zstd, dcb, dcz", [true, true]),
            ("DCB;q=0.5", [true, false]),
            ("dcz, dcb;q=0", [false, true]),
            ("dcz, dcz;q=0", [false, false]),
            ("*, dcz", [false, true]),
            ("*", [false, false]),
            ("gzip, br", [false, false]),
            ("", [false, false]),
        ] {
            assert_eq!(takes(line), expected, "{line}");
        }
        // An answer of an origin in such a coding is of no use to others.
        let set = Codings::parse([&b"dcz"[..]]);
        assert!(!set.allows([&b"dcz"[..]].into_iter()));
    }

    #[test]
    fn what_may_be_sent() {
        for (accepted, sent, expected) in [
            ("gzip", &[][..], true),
            ("gzip", &[&b"GZIP"[..]], true),
            ("gzip", &[b"identity"], true),
            ("gzip", &[b"br"], false),
            ("gzip", &[b"gzip", b"gzip"], false),
            ("*", &[b"compress"], false),
            ("gzip, *;q=0", &[], false),
        ] {
            let set = Codings::parse([accepted.as_bytes()]);
            assert_eq!(set.allows(sent.iter().copied()), expected, "{accepted} {sent:?}");
        }
    }

    fn languages(lines: &[&str]) -> String {
        let mut out = Vec::new();
        write_languages(lines.iter().map(|l| l.as_bytes()), &mut out);
        String::from_utf8(out).expect("ASCII in, ASCII out")
    }

    #[test]
    fn languages_in_one_form() {
        for (lines, expected) in [
            (&[][..], ""),
            (&["en, de"], "de,en"),
            (&["eN", " De "], "de,en"),
            (&["de-CH;q=0.80, en;q=1.000,fr ; q=0.9"], "en,fr;q=0.9,de-ch;q=0.8"),
            (&["*;q=0, en;q=0.05"], "en;q=0.05,*;q=0"),
            (&["en;q=1.5"], "en;q=0"),
        ] {
            assert_eq!(languages(lines), expected, "{lines:?}");
        }
        let many = vec!["En"; LANGUAGES + 1].join(" , ");
        assert_eq!(languages(&[&many]), vec!["en"; LANGUAGES + 1].join(","));
    }

    proptest! {
        #[test]
        fn the_normal_form_is_its_own(line in "[a-c*]{1,2}(;q=[01](\\.[0-9]{0,3})?)?(,[a-c*]{1,2}(;q=0\\.[0-9])?){0,5}") {
            let once = languages(&[&line]);
            prop_assert_eq!(languages(&[&once]), once);
        }

        #[test]
        fn no_bytes_make_it_panic(line in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Codings::parse([&line[..]]).normalised().len();
            write_languages([&line[..]].into_iter(), &mut Vec::new());
        }
    }
}
