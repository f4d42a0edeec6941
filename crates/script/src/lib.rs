//! Lua scripts of the Redis face: one Lua 5.1 state in a coroutine with a stack of its own.
//!
//! A [`Machine`] runs one script at a time. [`Machine::resume`] returns when the script calls a
//! command, when its time slice is over, or when it has ended ([`Event`]); the caller goes on
//! whenever it likes. So a script never holds its thread: it can be left in the middle of any Lua
//! or native function, whatever C frames lie below.
//!
//! Pure: time comes in by a function, commands are executed by the caller.
//!
//! | file | contents |
//! |---|---|
//! | `machine.rs`, `pause.rs` | the coroutine, its events, time slices and the end by force |
//! | `world.rs`, `boot.lua` | the Lua state: globals that scripts see, and their protection |
//! | `libraries.rs` | libraries of functions |
//! | `api.rs` | the table `redis` |
//! | `resp.rs` | replies as Lua values, Lua values as replies |
//! | `strings.rs`, `pattern.rs` | functions of `string` whose time is not bounded by their input |
//! | `json.rs`, `json_read.rs`, `msgpack.rs`, `structs.rs`, `bits.rs` | libraries |
//! | `native.rs` | arguments and errors of native functions |
//! | `random.rs` | `math.random` as Redis's |

mod api;
mod bits;
mod json;
mod json_read;
mod libraries;
mod machine;
mod msgpack;
mod native;
mod pattern;
mod pause;
mod random;
mod resp;
mod strings;
mod structs;
mod tables;
#[cfg(test)]
mod tests;
mod world;

use aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY;

pub use machine::{Machine, Settings};
pub use pause::{Event, FLAGS, Registered, Task, Work};

/// SHA-1 of a text in lower-case hexadecimal digits: the name of a script.
pub fn sha1_hex(text: &[u8]) -> String {
    hex(aws_lc_rs::digest::digest(&SHA1_FOR_LEGACY_USE_ONLY, text).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from_digit(half.into(), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}
