//! Expected lengths of values that are read.

use super::Sizes;

/// Knowledge about the lengths of values that are read.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Lengths {
    /// None: they were written with the sizes of a trace.
    #[default]
    Any,
    /// They may be from another run with other sizes; none is empty.
    NotEmpty,
    /// Each key has a known size.
    Known(Sizes),
}

impl Lengths {
    /// Whether the value of `key` may have this length.
    #[inline]
    pub(crate) fn allow(&self, key: &[u8], length: usize) -> bool {
        match self {
            Lengths::Any => true,
            Lengths::NotEmpty => length > 0,
            Lengths::Known(sizes) => sizes.of(key) == length,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_of_the_keys() {
        let sizes = Sizes::parse("lognormal:4k:1.2").unwrap();
        let known = Lengths::Known(sizes.clone());
        for key in [&b"a"[..], b"b", b"c"] {
            assert!(known.allow(key, sizes.of(key)));
            assert!(!known.allow(key, 0) && !known.allow(key, sizes.of(key) + 1));
        }
        assert!(Lengths::Known(Sizes::fixed(0)).allow(b"a", 0));
        assert!(Lengths::NotEmpty.allow(b"a", 7) && !Lengths::NotEmpty.allow(b"a", 0));
        assert!(Lengths::Any.allow(b"a", 0));
    }
}
