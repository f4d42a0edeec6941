//! Entity tags (RFC 9110 8.8.3) and the lists of them in If-Match and If-None-Match (13.1.1,
//! 13.1.2).

/// An entity tag as received. A value that is not an entity tag (`abc`, `w/"abc"`) is kept whole as
/// an odd tag: it equals only the same bytes, and it is never strong, so that nothing is combined
/// because of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EntityTag<'a> {
    /// The bytes between the quotes; the whole value of an odd tag.
    pub opaque: &'a [u8],
    /// The strength of the tag.
    pub kind: TagKind,
}

/// The strength of an [`EntityTag`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TagKind {
    /// `"x"`: the same tag means the same bytes.
    Strong,
    /// `W/"x"`: the same tag means an equivalent page.
    Weak,
    /// Not an entity tag by the grammar.
    Odd,
}

impl<'a> EntityTag<'a> {
    /// Reads a field value (already trimmed); `None` when it is empty.
    pub fn parse(value: &'a [u8]) -> Option<Self> {
        match value {
            [] => None,
            [b'W', b'/', quoted @ ..] if is_quoted(quoted) => {
                Some(Self::weak(&quoted[1..quoted.len() - 1]))
            }
            quoted if is_quoted(quoted) => {
                Some(Self { opaque: &quoted[1..quoted.len() - 1], kind: TagKind::Strong })
            }
            odd => Some(Self { opaque: odd, kind: TagKind::Odd }),
        }
    }

    const fn weak(opaque: &'a [u8]) -> Self {
        Self { opaque, kind: TagKind::Weak }
    }

    /// Whether both are strong and equal (RFC 9110 8.8.3.2): for ranges, If-Match and If-Range.
    pub fn strong_eq(&self, other: &EntityTag<'_>) -> bool {
        self.kind == TagKind::Strong && other.kind == TagKind::Strong && self.opaque == other.opaque
    }

    /// Whether they are equal without regard to `W/`: for If-None-Match.
    pub fn weak_eq(&self, other: &EntityTag<'_>) -> bool {
        (self.kind == TagKind::Odd) == (other.kind == TagKind::Odd) && self.opaque == other.opaque
    }
}

/// A quote, bytes other than quotes and controls, a quote. A backslash is an ordinary byte here.
fn is_quoted(value: &[u8]) -> bool {
    matches!(value, [b'"', inner @ .., b'"'] if inner.iter().all(|&b| b > b' ' && b != b'"' && b != 0x7f))
}

/// The members of one If-Match or If-None-Match line. Commas inside a tag do not separate, and a
/// backslash does not escape, so [`super::fields::Elements`] cannot be used.
#[derive(Clone, Copy, Debug)]
pub struct EntityTags<'a> {
    rest: &'a [u8],
}

impl<'a> EntityTags<'a> {
    /// The members of `value`.
    pub const fn of(value: &'a [u8]) -> Self {
        Self { rest: value }
    }
}

impl<'a> Iterator for EntityTags<'a> {
    type Item = EntityTag<'a>;

    fn next(&mut self) -> Option<EntityTag<'a>> {
        while !self.rest.is_empty() {
            let mut inside = false;
            let end = self.rest.iter().position(|&b| {
                inside ^= b == b'"';
                b == b',' && !inside
            });
            let (member, rest) = match end {
                Some(at) => (&self.rest[..at], &self.rest[at + 1..]),
                None => (self.rest, &[][..]),
            };
            self.rest = rest;
            if let Some(tag) = EntityTag::parse(super::fields::trim(member)) {
                return Some(tag);
            }
        }
        None
    }
}

/// The comparison used for a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// For If-Match.
    Strong,
    /// For If-None-Match.
    Weak,
}

/// Whether `*` or one of the tags in `lines` matches a representation with the tag `stored`. `*`
/// matches any existing representation, with or without a tag.
pub fn list_matches<'a>(
    lines: impl Iterator<Item = &'a [u8]>,
    stored: Option<&EntityTag<'_>>,
    comparison: Comparison,
) -> bool {
    lines.flat_map(EntityTags::of).any(|tag| {
        let same = |stored: &EntityTag<'_>| match comparison {
            Comparison::Strong => tag.strong_eq(stored),
            Comparison::Weak => tag.weak_eq(stored),
        };
        (tag.opaque == b"*" && tag.kind == TagKind::Odd) || stored.is_some_and(same)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_compared_as_rfc_9110_8_8_3_2_has_it() {
        for (a, b, strong, weak) in [
            (r#""1""#, r#""1""#, true, true),
            (r#""""#, r#""""#, true, true),
            (r#"W/"1""#, r#"W/"1""#, false, true),
            (r#"W/"1""#, r#"W/"2""#, false, false),
            (r#"W/"1""#, r#""1""#, false, true),
            (r#""1""#, r#""2""#, false, false),
            (r#"w/"1""#, r#"w/"1""#, false, true),
            (r#"w/"1""#, r#"W/"1""#, false, false),
            ("1", r#""1""#, false, false),
            ("1", "1", false, true),
            (r#""1"#, r#""1"#, false, true),
            (r#"""#, r#"""#, false, true),
        ] {
            let (a, b) = (EntityTag::parse(a.as_bytes()), EntityTag::parse(b.as_bytes()));
            let (a, b) = (a.expect("a tag"), b.expect("a tag"));
            assert_eq!((a.strong_eq(&b), a.weak_eq(&b)), (strong, weak), "{a:?} {b:?}");
            assert_eq!((b.strong_eq(&a), b.weak_eq(&a)), (strong, weak), "{b:?} {a:?}");
        }
        assert_eq!(EntityTag::parse(b""), None);
    }

    #[test]
    fn lists() {
        let one = EntityTag::parse(br#""1""#);
        let comma = EntityTag::parse(br#""a,b\""#);
        for (lines, stored, strong, weak) in [
            (&[r#""1""#][..], one, true, true),
            (&[r#""0", "1" , "2""#], one, true, true),
            (&[r#""0""#, r#"W/"1""#], one, false, true),
            (&["*"], one, true, true),
            (&["*"], None, true, true),
            (&[r#""*""#], one, false, false),
            (&[r#""x", "a,b\""#], comma, true, true),
            (&[r#""a", "b\""#], comma, false, false),
            (&["1"], one, false, false),
            (&["", ",,"], one, false, false),
            (&[r#""1""#], None, false, false),
        ] {
            for (comparison, expected) in [(Comparison::Strong, strong), (Comparison::Weak, weak)] {
                let lines_of = lines.iter().map(|l| l.as_bytes());
                assert_eq!(
                    list_matches(lines_of, stored.as_ref(), comparison),
                    expected,
                    "{lines:?}"
                );
            }
        }
    }
}
