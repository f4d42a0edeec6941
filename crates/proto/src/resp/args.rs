//! One command's arguments, as ranges of the received bytes: nothing is copied.

/// Range of one argument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub(super) at: u32,
    pub(super) len: u32,
}

/// A command: its name and arguments, never empty.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    bytes: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Args<'a> {
    /// `spans` must lie within `bytes`; others read as empty.
    pub(super) fn new(bytes: &'a [u8], spans: &'a [Span]) -> Self {
        Self { bytes, spans }
    }

    /// Number of arguments, including the command's name.
    #[inline]
    #[allow(clippy::len_without_is_empty)] // there is always a name
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// The argument at `index` (0: the command's name); empty when there are not as many.
    #[inline]
    pub fn get(&self, index: usize) -> &'a [u8] {
        self.spans
            .get(index)
            .and_then(|span| self.bytes.get(span.at as usize..span.at as usize + span.len as usize))
            .unwrap_or_default()
    }

    /// The arguments from `index` on.
    pub fn from(
        &self,
        index: usize,
    ) -> impl DoubleEndedIterator<Item = &'a [u8]> + ExactSizeIterator + use<'a> {
        let args = *self;
        (index.min(args.len())..args.len()).map(move |i| args.get(i))
    }

    /// Is the argument at `index` equal to `word`, in any case? `word` may be in any case, too.
    #[inline]
    pub fn is(&self, index: usize, word: &str) -> bool {
        self.get(index).eq_ignore_ascii_case(word.as_bytes())
    }

    /// Bytes of all arguments.
    fn bytes(&self) -> usize {
        self.spans.iter().map(|span| span.len as usize).sum()
    }

    /// Size of [`Args::to_owned`] in bytes.
    pub fn owned_size(&self) -> usize {
        self.bytes() + size_of_val(self.spans)
    }

    /// A copy that outlives the received bytes.
    pub fn to_owned(&self) -> Owned {
        let mut owned = Owned { bytes: Vec::new(), spans: Vec::with_capacity(self.len()) };
        owned.bytes.reserve_exact(self.bytes());
        for arg in self.from(0) {
            owned.spans.push(Span { at: owned.bytes.len() as u32, len: arg.len() as u32 });
            owned.bytes.extend_from_slice(arg);
        }
        owned
    }
}

/// A command kept beyond its batch (queued by MULTI, the slow log).
#[derive(Clone, Debug, Default)]
pub struct Owned {
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

impl Owned {
    /// A command of these parts.
    pub fn new(parts: &[&[u8]]) -> Self {
        let mut owned = Self::default();
        for part in parts {
            owned.spans.push(Span { at: owned.bytes.len() as u32, len: part.len() as u32 });
            owned.bytes.extend_from_slice(part);
        }
        owned
    }

    /// The command in its usual form.
    pub fn args(&self) -> Args<'_> {
        Args::new(&self.bytes, &self.spans)
    }
}
