//! Records from the server to the application.

use super::{HEADER_BYTES, VERSION, kind};

/// The role in a BEGIN_REQUEST record.
const RESPONDER: u8 = 1;
/// The flag of a BEGIN_REQUEST record: the application leaves the connection open.
const KEEP_CONNECTION: u8 = 1;

/// Most content of one record: the largest length that needs no padding to a multiple of 8.
const RECORD_CONTENT: usize = 65_528;

/// Appends the record that begins request `id` (not 0). `keep`: the connection stays open after it.
pub fn begin(id: u16, keep: bool, out: &mut Vec<u8>) {
    let flags = if keep { KEEP_CONNECTION } else { 0 };
    record(kind::BEGIN, id, &[0, RESPONDER, flags, 0, 0, 0, 0, 0], out);
}

/// Appends the record by which the server gives a request up.
pub fn abort(id: u16, out: &mut Vec<u8>) {
    record(kind::ABORT, id, &[], out);
}

/// Appends a piece of the request's body, in as many records as it needs. An empty piece appends
/// nothing: an empty record would end the body.
pub fn stdin(id: u16, data: &[u8], out: &mut Vec<u8>) {
    stream(kind::STDIN, id, data, out);
}

/// Appends the end of the request's body. Requests without a body have it too.
pub fn stdin_end(id: u16, out: &mut Vec<u8>) {
    record(kind::STDIN, id, &[], out);
}

/// The parameters of a request: the environment of a CGI program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Params {
    pairs: Vec<u8>,
}

impl Params {
    /// No parameters.
    pub fn new() -> Self {
        Self { pairs: Vec::with_capacity(1024) }
    }

    /// Adds one. The caller ensures that no name comes twice.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        length(name.len(), &mut self.pairs);
        length(value.len(), &mut self.pairs);
        self.pairs.extend_from_slice(name);
        self.pairs.extend_from_slice(value);
    }

    /// Appends them as records, with the record that ends them.
    pub fn write(&self, id: u16, out: &mut Vec<u8>) {
        stream(kind::PARAMS, id, &self.pairs, out);
        record(kind::PARAMS, id, &[], out);
    }
}

/// One byte for lengths up to 127, else four with the highest bit set (section 3.4).
fn length(bytes: usize, out: &mut Vec<u8>) {
    match u8::try_from(bytes) {
        Ok(short @ 0..=127) => out.push(short),
        _ => {
            let long = u32::try_from(bytes).unwrap_or(u32::MAX) | 1 << 31;
            out.extend_from_slice(&long.to_be_bytes());
        }
    }
}

fn stream(kind: u8, id: u16, data: &[u8], out: &mut Vec<u8>) {
    for piece in data.chunks(RECORD_CONTENT) {
        record(kind, id, piece, out);
    }
}

fn record(kind: u8, id: u16, content: &[u8], out: &mut Vec<u8>) {
    let [id_high, id_low] = id.to_be_bytes();
    let [high, low] = u16::try_from(content.len()).unwrap_or(u16::MAX).to_be_bytes();
    let padding = content.len().wrapping_neg() % 8;
    out.reserve(HEADER_BYTES + content.len() + padding);
    out.extend_from_slice(&[VERSION, kind, id_high, id_low, high, low, padding as u8, 0]);
    out.extend_from_slice(content);
    out.resize(out.len() + padding, 0);
}
