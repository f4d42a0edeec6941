//! How long the values are that a read is to find.

use super::Sizes;

/// What is known of the lengths of values that are read.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Lengths {
    /// Nothing: they were written as a trace recorded it, line by line.
    #[default]
    Any,
    /// Another run may have written them, with sizes of its own; none of them is empty.
    NotEmpty,
    /// Each key has its own.
    Known(Sizes),
}

impl Lengths {
    /// Whether `key`'s value may have so many bytes.
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
