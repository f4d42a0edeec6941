//! Replies: values in, bytes out, in RESP2 or RESP3. No formatting machinery, because this runs for
//! every command.

use super::number;

/// The RESP version of a connection (HELLO).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// RESP2: the start of every connection.
    #[default]
    V2,
    /// RESP3.
    V3,
}

/// Appends replies to a buffer.
#[derive(Debug)]
pub struct Reply<'a> {
    out: &'a mut Vec<u8>,
    version: Version,
}

impl<'a> Reply<'a> {
    /// Replies of `version`, appended to `out`.
    #[inline]
    pub fn new(out: &'a mut Vec<u8>, version: Version) -> Self {
        Self { out, version }
    }

    /// The RESP version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Appends bytes that are already encoded.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// `+OK`
    #[inline]
    pub fn ok(&mut self) {
        self.raw(b"+OK\r\n");
    }

    /// A status without line ends in it.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// An error, its code first (`ERR syntax error`). Line ends in it become spaces, as in Redis.
    pub fn error(&mut self, text: impl AsRef<[u8]>) {
        self.out.push(b'-');
        let text = text.as_ref();
        self.out.extend(text.iter().map(|&b| if b == b'\r' || b == b'\n' { b' ' } else { b }));
        self.raw(b"\r\n");
    }

    /// A number.
    #[inline]
    pub fn integer(&mut self, value: i64) {
        self.out.push(b':');
        number::push_i64(self.out, value);
        self.raw(b"\r\n");
    }

    /// A length or count.
    #[inline]
    pub fn count(&mut self, value: usize) {
        self.head(b':', value);
    }

    /// A string of any bytes.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.out.reserve(bytes.len() + 16);
        self.bulk_head(bytes.len());
        self.raw(bytes);
        self.bulk_end();
    }

    /// The start of a string whose `len` bytes the caller appends, followed by [`Reply::bulk_end`].
    #[inline]
    pub fn bulk_head(&mut self, len: usize) {
        self.head(b'$', len);
    }

    /// The end of a string begun with [`Reply::bulk_head`].
    #[inline]
    pub fn bulk_end(&mut self) {
        self.raw(b"\r\n");
    }

    /// A number as a string.
    pub fn bulk_integer(&mut self, value: i64) {
        let mut text = number::Text::default();
        self.bulk(text.i64(value));
    }

    /// Null, where a string is expected.
    #[inline]
    pub fn null(&mut self) {
        self.raw(if self.version == Version::V3 { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// Null, where an array is expected.
    pub fn null_array(&mut self) {
        self.raw(if self.version == Version::V3 { b"_\r\n" } else { b"*-1\r\n" });
    }

    /// An array; its `len` elements follow.
    #[inline]
    pub fn array(&mut self, len: usize) {
        self.head(b'*', len);
    }

    /// A map; its `len` pairs follow. In RESP2 a flat array.
    pub fn map(&mut self, len: usize) {
        match self.version {
            Version::V3 => self.head(b'%', len),
            Version::V2 => self.head(b'*', len * 2),
        }
    }

    /// A set; its `len` elements follow. In RESP2 an array.
    pub fn set(&mut self, len: usize) {
        self.head(if self.version == Version::V3 { b'~' } else { b'*' }, len);
    }

    /// An unsolicited message; its `len` elements follow. In RESP2 an array.
    pub fn push(&mut self, len: usize) {
        self.head(if self.version == Version::V3 { b'>' } else { b'*' }, len);
    }

    /// A floating-point number, as `%.17g` prints it. In RESP2 a string.
    pub fn double(&mut self, value: f64) {
        let text = number::double(value);
        match self.version {
            Version::V3 => self.line(b',', text.as_bytes()),
            Version::V2 => self.bulk(text.as_bytes()),
        }
    }

    /// A floating-point number in decimal, with up to 17 digits behind the point. In RESP2 a
    /// string.
    pub fn fixed(&mut self, value: f64) {
        let text = number::fixed(value);
        match self.version {
            Version::V3 => self.line(b',', text.as_bytes()),
            Version::V2 => self.bulk(text.as_bytes()),
        }
    }

    /// An integer of any size, in decimal. In RESP2 a string.
    pub fn big_number(&mut self, digits: &str) {
        match self.version {
            Version::V3 => self.line(b'(', digits.as_bytes()),
            Version::V2 => self.bulk(digits.as_bytes()),
        }
    }

    /// True or false. In RESP2 1 or 0.
    pub fn boolean(&mut self, value: bool) {
        self.raw(match (self.version, value) {
            (Version::V3, true) => b"#t\r\n",
            (Version::V3, false) => b"#f\r\n",
            (Version::V2, true) => b":1\r\n",
            (Version::V2, false) => b":0\r\n",
        });
    }

    /// Text for people to read; `format` has three bytes (`txt`, `mkd`). In RESP2 a string.
    pub fn verbatim(&mut self, format: &str, text: &[u8]) {
        self.verbatim_head(format, text.len());
        self.raw(text);
        self.raw(b"\r\n");
    }

    /// The head of such a text of `len` bytes, which the caller adds; then
    /// [`Reply::bulk_end`].
    pub fn verbatim_head(&mut self, format: &str, len: usize) {
        if self.version == Version::V2 {
            return self.bulk_head(len);
        }
        self.head(b'=', len + 4);
        self.raw(format.as_bytes());
        self.raw(b":");
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.out.push(kind);
        self.raw(text);
        self.raw(b"\r\n");
    }

    #[inline]
    fn head(&mut self, kind: u8, len: usize) {
        if len < 10 {
            return self.raw(&[kind, b'0' + len as u8, b'\r', b'\n']);
        }
        self.out.push(kind);
        number::push_u64(self.out, len as u64);
        self.raw(b"\r\n");
    }
}
