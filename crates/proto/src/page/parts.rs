//! The sequences inside a record: vary pairs and tags.

/// Written as the value length of a field the request did not have.
const ABSENT: u32 = u32::MAX;

/// Request field names with their normalised values; `None` for a field the request did not have.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pairs<'a> {
    rest: &'a [u8],
}

impl<'a> Pairs<'a> {
    pub(super) fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    /// True when there is no pair.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The bytes as stored: equal bytes are equal selections.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.rest
    }

    /// Walks to the end; false when the bytes do not parse.
    pub(super) fn well_formed(mut self) -> bool {
        while self.next().is_some() {}
        self.rest.is_empty()
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a str, Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        let (len, rest) = self.rest.split_first_chunk::<2>()?;
        let (name, rest) = rest.split_at_checked(u16::from_le_bytes(*len).into())?;
        let name = std::str::from_utf8(name).ok()?;
        let (len, rest) = rest.split_first_chunk::<4>()?;
        let len = u32::from_le_bytes(*len);
        let (value, rest) = match len {
            ABSENT => (None, rest),
            _ => rest.split_at_checked(len as usize).map(|(v, r)| (Some(v), r))?,
        };
        self.rest = rest;
        Some((name, value))
    }
}

/// Surrogate keys of a page.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tags<'a> {
    rest: &'a [u8],
}

impl<'a> Tags<'a> {
    pub(super) fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    pub(super) fn well_formed(mut self) -> bool {
        while self.next().is_some() {}
        self.rest.is_empty()
    }
}

impl<'a> Iterator for Tags<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<Self::Item> {
        let (len, rest) = self.rest.split_first_chunk::<2>()?;
        let (tag, rest) = rest.split_at_checked(u16::from_le_bytes(*len).into())?;
        self.rest = rest;
        Some(tag)
    }
}

/// Appends one vary pair. False when the name is too long for the format; nothing is written then.
pub(super) fn push_pair(out: &mut Vec<u8>, name: &str, value: Option<&[u8]>) -> bool {
    let Ok(name_len) = u16::try_from(name.len()) else { return false };
    let value_len = match value.map(|v| u32::try_from(v.len())) {
        None => ABSENT,
        Some(Ok(len)) if len != ABSENT => len,
        Some(_) => return false,
    };
    out.extend_from_slice(&name_len.to_le_bytes());
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(&value_len.to_le_bytes());
    out.extend_from_slice(value.unwrap_or_default());
    true
}

/// Appends one tag. False when it is too long for the format; nothing is written then.
pub(super) fn push_tag(out: &mut Vec<u8>, tag: &[u8]) -> bool {
    let Ok(len) = u16::try_from(tag.len()) else { return false };
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(tag);
    true
}
