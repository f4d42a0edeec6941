//! RESP2 and RESP3, the protocols of Redis. Bytes in, commands out; replies in, bytes out. No I/O.
//!
//! | file | content |
//! |---|---|
//! | `decode.rs`, `inline.rs`, `args.rs` | parsing commands |
//! | `rest.rs` | the rest of a refused command |
//! | `ahead.rs` | a first look at pipelined commands |
//! | `reply.rs` | replies into bytes |
//! | `client.rs` | received bytes into replies, for clients |
//! | `number.rs` | integers and doubles as Redis reads and writes them |
//! | `float.rs`, `big.rs` | INCRBYFLOAT's arithmetic |
//! | `glob.rs` | patterns |
//! | `hash.rs` | a hash in one value |
//! | `hyperloglog.rs`, `geo.rs` | HyperLogLog in Redis's bytes, positions as scores |
//! | `collection/` | lists, sets and sorted sets as records |
//! | `stream/` | streams as records |
//! | `rdb/` | values as DUMP writes them |
//! | `table/` | the table of commands |
//! | `acl/` | users and their rights |

pub mod acl;
mod ahead;
mod args;
mod big;
pub mod client;
pub mod collection;
mod decode;
pub mod float;
pub mod geo;
pub mod glob;
pub mod hash;
pub mod hyperloglog;
pub mod inline;
pub mod number;
pub mod rdb;
mod reply;
mod rest;
mod short;
pub mod stream;
pub mod table;

pub use ahead::ahead;
pub use args::{Args, Owned, Span};
pub use decode::{Decoder, Limits, MAX_ARGS, MAX_LINE, Step, TooMuch};
pub use reply::{Reply, Version};
pub use rest::Rest;
