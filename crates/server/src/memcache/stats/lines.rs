//! Composes names and values in the form of a client's protocol.

use std::io::Write;

/// The protocol of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `STAT name value` and `END`.
    Text,
    /// A packet per name, an empty one at the end (binary protocol, "Stat").
    Binary {
        /// The request's opaque.
        opaque: [u8; 4],
    },
}

/// The binary protocol's opcode, and its status for missing statistics.
const STAT: u8 = 0x10;
const NOT_FOUND: u16 = 0x01;

/// A value that can be written.
pub(crate) trait Value {
    /// Appends the value as text.
    fn write(&self, into: &mut Vec<u8>);
}

impl Value for u64 {
    fn write(&self, into: &mut Vec<u8>) {
        // Writing to a Vec does not fail.
        let _ = write!(into, "{self}");
    }
}

impl Value for bool {
    fn write(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(if *self { b"yes" } else { b"no" });
    }
}

impl Value for str {
    fn write(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(self.as_bytes());
    }
}

impl Value for [u8] {
    fn write(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(self);
    }
}

impl Value for std::fmt::Arguments<'_> {
    fn write(&self, into: &mut Vec<u8>) {
        let _ = into.write_fmt(*self);
    }
}

/// Composes one answer.
#[derive(Debug)]
pub(crate) struct Lines<'o> {
    out: &'o mut Vec<u8>,
    form: Form,
}

impl<'o> Lines<'o> {
    /// Appends an answer in `form` to `out`.
    pub(crate) fn new(out: &'o mut Vec<u8>, form: Form) -> Self {
        Self { out, form }
    }

    /// Appends a name and its value.
    pub(crate) fn stat(&mut self, name: &str, value: &(impl Value + ?Sized)) {
        self.named(name.as_bytes(), value);
    }

    /// As `stat`, with a composed name such as `1:chunk_size`.
    pub(crate) fn part(
        &mut self,
        group: std::fmt::Arguments<'_>,
        name: &str,
        value: &(impl Value + ?Sized),
    ) {
        let mut full = Vec::with_capacity(48);
        let _ = write!(full, "{group}{name}");
        self.named(&full, value);
    }

    fn named(&mut self, name: &[u8], value: &(impl Value + ?Sized)) {
        match self.form {
            Form::Text => {
                self.out.extend_from_slice(b"STAT ");
                self.out.extend_from_slice(name);
                self.out.push(b' ');
                value.write(self.out);
                self.out.extend_from_slice(b"\r\n");
            }
            Form::Binary { opaque } => {
                let start = header(self.out, 0, opaque, name.len());
                self.out.extend_from_slice(name);
                value.write(self.out);
                finish(self.out, start);
            }
        }
    }

    /// Ends the list.
    pub(crate) fn end(&mut self) {
        match self.form {
            Form::Text => self.out.extend_from_slice(b"END\r\n"),
            Form::Binary { opaque } => {
                let start = header(self.out, 0, opaque, 0);
                finish(self.out, start);
            }
        }
    }

    /// Appends a word instead of a list (`OK`, `RESET`), with its line end; the binary protocol has
    /// only the end.
    pub(crate) fn word(&mut self, text: &str) {
        match self.form {
            Form::Text => self.out.extend_from_slice(text.as_bytes()),
            Form::Binary { .. } => self.end(),
        }
    }

    /// Answers unknown or invalid statistics: `text` with its line end; "Not found" in the binary
    /// protocol.
    pub(crate) fn refuse(&mut self, text: &str) {
        match self.form {
            Form::Text => self.out.extend_from_slice(text.as_bytes()),
            Form::Binary { opaque } => {
                let start = header(self.out, NOT_FOUND, opaque, 0);
                self.out.extend_from_slice(b"Not found");
                finish(self.out, start);
            }
        }
    }

    /// Appends lines that are no list of names and values, end included. The binary protocol sends
    /// them as the value of one packet with this name.
    pub(crate) fn raw(&mut self, name: &str, write: impl FnOnce(&mut Vec<u8>)) {
        match self.form {
            Form::Text => write(self.out),
            Form::Binary { opaque } => {
                let start = header(self.out, 0, opaque, name.len());
                self.out.extend_from_slice(name.as_bytes());
                write(self.out);
                finish(self.out, start);
                self.end();
            }
        }
    }
}

/// Appends a response header with an open body length. Returns where the body begins.
fn header(out: &mut Vec<u8>, status: u16, opaque: [u8; 4], name: usize) -> usize {
    out.extend_from_slice(&[0x81, STAT]);
    out.extend_from_slice(&(name as u16).to_be_bytes());
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&status.to_be_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&opaque);
    out.extend_from_slice(&[0; 8]);
    out.len()
}

/// Sets the length of the body that begins at `start`.
fn finish(out: &mut [u8], start: usize) {
    let len = (out.len() - start) as u32;
    out[start - 16..start - 12].copy_from_slice(&len.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text() {
        let mut out = Vec::new();
        let mut lines = Lines::new(&mut out, Form::Text);
        lines.stat("pid", &7_u64);
        lines.stat("cas_enabled", &true);
        lines.part(format_args!("{}:", 1), "chunk_size", "96");
        lines.end();
        assert_eq!(out, b"STAT pid 7\r\nSTAT cas_enabled yes\r\nSTAT 1:chunk_size 96\r\nEND\r\n");
    }

    #[test]
    fn binary() {
        let mut out = Vec::new();
        let mut lines = Lines::new(&mut out, Form::Binary { opaque: [1, 2, 3, 4] });
        lines.stat("pid", "7");
        lines.end();
        let pid = b"\x81\x10\0\x03\0\0\0\0\0\0\0\x04\x01\x02\x03\x04\0\0\0\0\0\0\0\0pid7";
        let end = b"\x81\x10\0\0\0\0\0\0\0\0\0\0\x01\x02\x03\x04\0\0\0\0\0\0\0\0";
        assert_eq!(out, [pid.as_slice(), end].concat());
    }

    #[test]
    fn unknown_statistics() {
        let (mut text, mut binary) = (Vec::new(), Vec::new());
        Lines::new(&mut text, Form::Text).refuse("ERROR\r\n");
        Lines::new(&mut binary, Form::Binary { opaque: [0; 4] }).refuse("ERROR\r\n");
        assert_eq!(text, b"ERROR\r\n");
        assert_eq!(
            (&binary[6..8], &binary[8..12], &binary[24..]),
            (&[0, 1][..], &[0, 0, 0, 9][..], &b"Not found"[..])
        );
    }
}
