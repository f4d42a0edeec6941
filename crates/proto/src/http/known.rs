//! The request fields that a cache reads, found in one pass.
//!
//! A hit reads a dozen fields; searching the list for each of them costs more than parsing it.
//! [`Known`] stores for each the place of its first line in the list (two bytes each, so that
//! making, moving and dropping one is cheap), and whether there were more lines.

use super::fields::{Fields, is_word};
use httparse::Header;

macro_rules! known_fields {
    ($($(#[$doc:meta])* $variant:ident $method:ident $name:literal,)*) => {
        /// A field with a place in [`Known`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum KnownField {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
        }

        impl KnownField {
            /// Every one of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name, lower-case.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }

        impl<'a> Known<'a> {
            $(
                #[doc = concat!("The value of the first `", $name, "` line.")]
                #[inline]
                pub fn $method(&self) -> Option<&'a [u8]> {
                    self.get(KnownField::$variant)
                }
            )*
        }
    };
}

known_fields! {
    Accept accept "accept",
    AcceptEncoding accept_encoding "accept-encoding",
    AcceptLanguage accept_language "accept-language",
    Authorization authorization "authorization",
    CacheControl cache_control "cache-control",
    CdnLoop cdn_loop "cdn-loop",
    Connection connection "connection",
    ContentLength content_length "content-length",
    ContentType content_type "content-type",
    Cookie cookie "cookie",
    Expect expect "expect",
    Forwarded forwarded "forwarded",
    Host host "host",
    IfMatch if_match "if-match",
    IfModifiedSince if_modified_since "if-modified-since",
    IfNoneMatch if_none_match "if-none-match",
    IfRange if_range "if-range",
    IfUnmodifiedSince if_unmodified_since "if-unmodified-since",
    LarderDebug larder_debug "larder-debug",
    Pragma pragma "pragma",
    Range range "range",
    Referer referer "referer",
    SurrogateCapability surrogate_capability "surrogate-capability",
    Te te "te",
    TraceParent traceparent "traceparent",
    TransferEncoding transfer_encoding "transfer-encoding",
    Upgrade upgrade "upgrade",
    UserAgent user_agent "user-agent",
    Via via "via",
    XForwardedFor x_forwarded_for "x-forwarded-for",
    XForwardedHost x_forwarded_host "x-forwarded-host",
    XForwardedProto x_forwarded_proto "x-forwarded-proto",
}

const COUNT: usize = KnownField::ALL.len();
const _: () = assert!(COUNT <= u32::BITS as usize, "one bit of `repeated` each");

/// The places of the known fields of one request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known<'a> {
    list: &'a [Header<'a>],
    /// Place in `list` plus one; 0: absent.
    place: [u16; COUNT],
    /// One bit per field: the field was repeated.
    repeated: u32,
}

impl<'a> Known<'a> {
    /// One pass over `fields`. Lines past the 65,535th are ignored (no parser here yields so many).
    pub fn of(fields: Fields<'a>) -> Self {
        let list = fields.as_slice();
        let mut known = Self { list, place: [0; COUNT], repeated: 0 };
        for (header, place) in list.iter().zip(1..=u16::MAX) {
            if let Some(field) = recognise(header.name.as_bytes()) {
                let slot = &mut known.place[field as usize];
                if *slot == 0 {
                    *slot = place;
                } else {
                    known.repeated |= 1 << field as u32;
                }
            }
        }
        known
    }

    /// The same places in another copy of the same list.
    pub(super) const fn of_other<'b>(&self, list: &'b [Header<'b>]) -> Known<'b> {
        Known { list, place: self.place, repeated: self.repeated }
    }

    /// The value of the first line of `field`.
    #[inline]
    pub fn get(&self, field: KnownField) -> Option<&'a [u8]> {
        let place = self.place[field as usize];
        if place == 0 { None } else { self.list.get(usize::from(place) - 1).map(|h| h.value) }
    }

    /// Whether `field` came in more than one line.
    #[inline]
    pub const fn is_repeated(&self, field: KnownField) -> bool {
        self.repeated & (1 << field as u32) != 0
    }

    /// Every value of `field`, one for each line. No search unless the field is there and repeated.
    pub fn lines(&self, field: KnownField) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        let first = usize::from(self.place[field as usize]);
        let lines = match (first, self.is_repeated(field)) {
            (0, _) => &[][..],
            (_, false) => &self.list[first - 1..first],
            (_, true) => &self.list[first - 1..],
        };
        let name = field.name();
        lines.iter().filter(move |h| h.name.eq_ignore_ascii_case(name)).map(|h| h.value)
    }
}

/// The field with that name: at most two comparisons after a switch on length and first letter.
#[inline]
fn recognise(name: &[u8]) -> Option<KnownField> {
    use KnownField as F;
    let first = *name.first()? | 0x20;
    let field = match (name.len(), first) {
        (2, b't') if is_word(name, b"te") => F::Te,
        (3, b'v') if is_word(name, b"via") => F::Via,
        (4, b'h') if is_word(name, b"host") => F::Host,
        (5, b'r') if is_word(name, b"range") => F::Range,
        (6, b'a') if is_word(name, b"accept") => F::Accept,
        (6, b'c') if is_word(name, b"cookie") => F::Cookie,
        (6, b'e') if is_word(name, b"expect") => F::Expect,
        (6, b'p') if is_word(name, b"pragma") => F::Pragma,
        (7, b'r') if is_word(name, b"referer") => F::Referer,
        (7, b'u') if is_word(name, b"upgrade") => F::Upgrade,
        (8, b'c') if is_word(name, b"cdn-loop") => F::CdnLoop,
        (8, b'i') if is_word(name, b"if-match") => F::IfMatch,
        (8, b'i') if is_word(name, b"if-range") => F::IfRange,
        (9, b'f') if is_word(name, b"forwarded") => F::Forwarded,
        (10, b'c') if is_word(name, b"connection") => F::Connection,
        (10, b'u') if is_word(name, b"user-agent") => F::UserAgent,
        (12, b'l') if is_word(name, b"larder-debug") => F::LarderDebug,
        (11, b't') if is_word(name, b"traceparent") => F::TraceParent,
        (12, b'c') if is_word(name, b"content-type") => F::ContentType,
        (13, b'a') if is_word(name, b"authorization") => F::Authorization,
        (13, b'c') if is_word(name, b"cache-control") => F::CacheControl,
        (13, b'i') if is_word(name, b"if-none-match") => F::IfNoneMatch,
        (14, b'c') if is_word(name, b"content-length") => F::ContentLength,
        (15, b'a') if is_word(name, b"accept-encoding") => F::AcceptEncoding,
        (15, b'a') if is_word(name, b"accept-language") => F::AcceptLanguage,
        (15, b'x') if is_word(name, b"x-forwarded-for") => F::XForwardedFor,
        (16, b'x') if is_word(name, b"x-forwarded-host") => F::XForwardedHost,
        (17, b'i') if is_word(name, b"if-modified-since") => F::IfModifiedSince,
        (17, b't') if is_word(name, b"transfer-encoding") => F::TransferEncoding,
        (17, b'x') if is_word(name, b"x-forwarded-proto") => F::XForwardedProto,
        (19, b'i') if is_word(name, b"if-unmodified-since") => F::IfUnmodifiedSince,
        (20, b's') if is_word(name, b"surrogate-capability") => F::SurrogateCapability,
        _ => return None,
    };
    Some(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_recognised_in_any_case() {
        for &field in KnownField::ALL {
            let upper = field.name().to_ascii_uppercase();
            assert_eq!(recognise(field.name().as_bytes()), Some(field));
            assert_eq!(recognise(upper.as_bytes()), Some(field));
            let mut wrong = upper.into_bytes();
            *wrong.last_mut().expect("a name") = b'!';
            assert_eq!(recognise(&wrong), None, "{}", field.name());
        }
        assert_eq!(recognise(b""), None);
        assert_eq!(recognise(b"x-custom"), None);
    }

    #[test]
    fn first_values_and_repeated_lines() {
        let header = |name, value: &'static str| Header { name, value: value.as_bytes() };
        let list =
            [header("A", "0"), header("Cookie", "1"), header("HOST", "h"), header("cookie", "2")];
        let known = Known::of(Fields::new(&list));
        assert_eq!(known.cookie(), Some(&b"1"[..]));
        assert_eq!(known.host(), Some(&b"h"[..]));
        assert_eq!(known.range(), None);
        assert!(known.is_repeated(KnownField::Cookie) && !known.is_repeated(KnownField::Host));
        assert_eq!(known.lines(KnownField::Cookie).collect::<Vec<_>>(), [b"1", b"2"]);
        assert_eq!(known.lines(KnownField::Host).collect::<Vec<_>>(), [b"h"]);
        assert_eq!(known.lines(KnownField::Range).count(), 0);
    }
}
