//! Conversations with the HTTP/2 connection: the rules of RFC 9113 by section, as h2spec tests
//! them, windows, turns, floods, and random bytes.

#![allow(clippy::unwrap_used)]

mod drain;
mod floods;
mod frames;
mod oracle;
mod peer;
mod priorities;
mod random;
mod requests;
mod responses;
mod states;
mod windows;
