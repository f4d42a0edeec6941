//! Streams as records of a store. Pure: bytes in, bytes out.
//!
//! A stream is a collection ([`super::collection`]) with two trees: its entries in runs, in the
//! order of their IDs, and the records of its consumer groups, in the order of their keys.
//!
//! | file | contents |
//! |---|---|
//! | `id.rs` | IDs of entries |
//! | `run.rs` | a run of entries |
//! | `state.rs` | the facts of a stream beside its entries |
//! | `group.rs` | the records of consumer groups |

mod group;
mod id;
mod run;
mod state;

pub use group::{Consumer, Group, Pending, key};
pub use id::StreamId;
pub use run::{Entry, Pairs, Run, push_entry};
pub use state::State;

use super::collection::Damaged;

/// The ID at `at`, as two numbers, and where it ends.
fn id_at(bytes: &[u8], at: usize) -> Result<(StreamId, usize), Damaged> {
    let (ms, at) = super::collection::number(bytes, at)?;
    let (seq, at) = super::collection::number(bytes, at)?;
    Ok((StreamId { ms, seq }, at))
}

fn push_id(out: &mut Vec<u8>, id: StreamId) {
    super::collection::push_number(out, id.ms);
    super::collection::push_number(out, id.seq);
}

#[cfg(test)]
mod tests;
