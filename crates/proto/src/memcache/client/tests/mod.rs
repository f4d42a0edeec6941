//! The client's output is checked with the reader of our own server, and the server's output with
//! the client's.

mod any;
mod replies;
mod requests;

use super::{Decoded, Replies, Reply};

/// The replies in `buffer`, which has complete ones only.
fn all<'a>(replies: &Replies, mut buffer: &'a [u8]) -> Vec<Reply<'a>> {
    let mut read = Vec::new();
    while !buffer.is_empty() {
        match replies.next(buffer) {
            Decoded::Reply(reply, used) => {
                buffer = &buffer[used..];
                read.push(reply);
            }
            other => panic!("{other:?} of {:?}", buffer.escape_ascii().to_string()),
        }
    }
    read
}
