//! One purge in the journal: its author, its target, and its bytes.

use larder_proto::http::key::KeyParts;

use crate::clock::Ms;

/// Longest target in bytes; a purge with a longer one is executed, and not shared.
pub(crate) const MOST: usize = 16 << 10;

/// The target of a purge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A page, by its primary keys.
    Keys(Vec<Vec<u8>>),
    /// Pages of a host and port (0: the default one) by the start of path and query.
    Prefix(String, u16, Vec<u8>),
    /// Pages with a tag of a site.
    Tag(Vec<u8>),
    /// Pages that match an expression.
    Ban(String),
}

/// A purge for all Larders of a fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The time of the purge, by its author's clock.
    pub(crate) at: Ms,
    /// Mark as stale instead of deleting.
    pub(crate) soft: bool,
    pub(crate) what: What,
}

impl What {
    pub(crate) fn prefix(wanted: &KeyParts<'_>) -> What {
        What::Prefix(wanted.host.to_owned(), wanted.port, wanted.path_and_query.to_vec())
    }
}

impl Entry {
    /// Bytes it takes.
    pub(crate) fn len(&self) -> usize {
        let of = |text: usize| 4 + text;
        10 + match &self.what {
            What::Keys(keys) => 4 + keys.iter().map(|key| of(key.len())).sum::<usize>(),
            What::Prefix(host, _, path) => 2 + of(host.len()) + of(path.len()),
            What::Tag(tag) => of(tag.len()),
            What::Ban(text) => of(text.len()),
        }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.at.to_le_bytes());
        let text = |out: &mut Vec<u8>, text: &[u8]| {
            out.extend_from_slice(&(text.len() as u32).to_le_bytes());
            out.extend_from_slice(text);
        };
        let kind = match &self.what {
            What::Keys(_) => 0,
            What::Prefix(..) => 1,
            What::Tag(_) => 2,
            What::Ban(_) => 3,
        };
        out.extend_from_slice(&[kind, u8::from(self.soft)]);
        match &self.what {
            What::Keys(keys) => {
                out.extend_from_slice(&(keys.len() as u32).to_le_bytes());
                keys.iter().for_each(|key| text(out, key));
            }
            What::Prefix(host, port, path) => {
                out.extend_from_slice(&port.to_le_bytes());
                text(out, host.as_bytes());
                text(out, path);
            }
            What::Tag(tag) => text(out, tag),
            What::Ban(expression) => text(out, expression.as_bytes()),
        }
    }

    pub(super) fn decode(from: &mut Reader<'_>) -> Option<Entry> {
        let at = from.u64()?;
        let (kind, soft) = (from.byte()?, from.byte()? != 0);
        let what = match kind {
            0 => {
                let count = from.u32()?;
                What::Keys(
                    (0..count).map(|_| from.text().map(<[u8]>::to_vec)).collect::<Option<_>>()?,
                )
            }
            1 => {
                let port = from.u16()?;
                What::Prefix(from.string()?, port, from.text()?.to_vec())
            }
            2 => What::Tag(from.text()?.to_vec()),
            3 => What::Ban(from.string()?),
            _ => return None,
        };
        Some(Entry { at, soft, what })
    }
}

/// Parses bytes of others.
pub(super) struct Reader<'b>(pub(super) &'b [u8]);

impl<'b> Reader<'b> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take().map(|[byte]| byte)
    }

    fn text(&mut self) -> Option<&'b [u8]> {
        let length = self.u32()? as usize;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(text)
    }

    fn string(&mut self) -> Option<String> {
        std::str::from_utf8(self.text()?).ok().map(str::to_owned)
    }
}
