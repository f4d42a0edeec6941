//! An origin of pages by their size, for tests of the wires of HTTP.

use crate::Origin;

/// A page is kept for ten minutes.
pub const KEPT: &str = "Cache-Control: max-age=600";

/// The body of so many bytes.
pub fn content(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
}

/// Pages `/N` of N bytes; an upload is answered with itself; any other path shows what was asked.
pub fn origin() -> Origin {
    Origin::start(|seen, reply| match seen.path()[1..].parse::<usize>() {
        Ok(len) => {
            reply.ok(&[KEPT, "ETag: \"one\"", "Content-Type: text/plain"], content(len));
        }
        Err(_) if seen.method == "POST" => {
            reply.ok(&[], &seen.body);
        }
        Err(_) => {
            reply.ok(&[KEPT], format!("{:?}", seen.fields.0));
        }
    })
}
