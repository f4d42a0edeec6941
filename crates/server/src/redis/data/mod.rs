//! Data commands. A command parses its arguments, changes the store and answers; it knows nothing
//! of connections, transactions and locks. Replies and errors are those of Redis 7.0, byte for
//! byte.
//!
//! A string is an entry with any flags except [`resp::hash::FLAGS`], which mark a hash. A write
//! that depends on the present value looks it up, computes, and replaces the entry that it saw. If
//! that entry has changed (by the memcached face or an eviction), it starts again. Commands of this
//! face do not interrupt each other: dispatch holds the key's lock.
//!
//! | file | contents |
//! |---|---|
//! | `access.rs`, `joined.rs`, `errors.rs`, `random.rs` | shared by the commands |
//! | `parts.rs`, `long.rs` | many arguments, long strings: processed in parts |
//! | `strings.rs`, `set.rs`, `range.rs`, `counters.rs`, `lcs.rs` | strings |
//! | `bits.rs`, `bitfield.rs` | bits of strings |
//! | `keys.rs`, `expiry.rs`, `moves.rs`, `walk.rs`, `listing.rs`, `object.rs` | keys of any type |
//! | `hashes.rs`, `hash_write.rs`, `hash_walk.rs` | hashes |

mod access;
mod bitfield;
mod bits;
mod counters;
mod errors;
mod expiry;
mod hash_walk;
mod hash_write;
mod hashes;
mod joined;
mod keys;
mod lcs;
mod listing;
mod long;
mod moves;
mod object;
mod parts;
mod random;
mod range;
pub(crate) mod scripts;
mod set;
mod strings;
#[cfg(test)]
mod tests;
mod walk;

use larder_proto::resp::{Args, table::Id};

pub(super) use parts::PART;

use super::ctx::Ctx;

/// Handler of a command. Dispatch has checked the number of arguments.
pub(crate) type Run = fn(&mut Ctx<'_>, &Args<'_>);

/// The handler of a data command; `None`: another command.
pub(crate) fn command(id: Id) -> Option<Run> {
    on_strings(id).or_else(|| on_keys(id)).or_else(|| on_hashes(id))
}

fn on_strings(id: Id) -> Option<Run> {
    Some(match id {
        Id::Append => strings::append,
        Id::Bitcount => bits::bitcount,
        Id::Bitfield => bitfield::bitfield,
        Id::BitfieldRo => bitfield::bitfield_ro,
        Id::Bitop => bits::bitop,
        Id::Bitpos => bits::bitpos,
        Id::Decr => counters::decr,
        Id::Decrby => counters::decrby,
        Id::Get => strings::get,
        Id::Getbit => bits::getbit,
        Id::Getdel => strings::getdel,
        Id::Getex => strings::getex,
        Id::Getrange | Id::Substr => range::getrange,
        Id::Getset => strings::getset,
        Id::Incr => counters::incr,
        Id::Incrby => counters::incrby,
        Id::Incrbyfloat => counters::incrbyfloat,
        Id::Lcs => lcs::lcs,
        Id::Mget => strings::mget,
        Id::Mset => strings::mset,
        Id::Msetnx => strings::msetnx,
        Id::Psetex => set::psetex,
        Id::Set => set::set,
        Id::Setbit => bits::setbit,
        Id::Setex => set::setex,
        Id::Setnx => set::setnx,
        Id::Setrange => range::setrange,
        Id::Strlen => strings::strlen,
        _ => return None,
    })
}

fn on_keys(id: Id) -> Option<Run> {
    Some(match id {
        Id::Copy => moves::copy,
        Id::Dbsize => walk::dbsize,
        Id::Del | Id::Unlink => keys::del,
        Id::Exists => keys::exists,
        Id::Expire => expiry::expire,
        Id::Expireat => expiry::expireat,
        Id::Expiretime => expiry::expiretime,
        Id::Flushall => keys::flushall,
        Id::Flushdb => keys::flushdb,
        Id::Keys => listing::keys,
        Id::MemoryUsage => object::memory_usage,
        Id::Move => moves::move_to,
        Id::ObjectEncoding => object::encoding,
        Id::ObjectFreq => object::frequency,
        Id::ObjectHelp => object::help,
        Id::ObjectIdletime => object::idle_time,
        Id::ObjectRefcount => object::references,
        Id::Persist => expiry::persist,
        Id::Pexpire => expiry::pexpire,
        Id::Pexpireat => expiry::pexpireat,
        Id::Pexpiretime => expiry::pexpiretime,
        Id::Pttl => expiry::pttl,
        Id::Randomkey => keys::randomkey,
        Id::Rename => moves::rename,
        Id::Renamenx => moves::renamenx,
        Id::Scan => walk::scan,
        Id::Swapdb => moves::swapdb,
        Id::Touch => keys::touch,
        Id::Ttl => expiry::ttl,
        Id::Type => keys::kind,
        Id::Wait => keys::wait,
        _ => return None,
    })
}

fn on_hashes(id: Id) -> Option<Run> {
    Some(match id {
        Id::Hdel => hashes::hdel,
        Id::Hexists => hashes::hexists,
        Id::Hget => hashes::hget,
        Id::Hgetall => hashes::hgetall,
        Id::Hincrby => hash_write::hincrby,
        Id::Hincrbyfloat => hash_write::hincrbyfloat,
        Id::Hkeys => hashes::hkeys,
        Id::Hlen => hashes::hlen,
        Id::Hmget => hashes::hmget,
        Id::Hmset => hash_write::hmset,
        Id::Hrandfield => hash_walk::hrandfield,
        Id::Hscan => hash_walk::hscan,
        Id::Hset => hash_write::hset,
        Id::Hsetnx => hash_write::hsetnx,
        Id::Hstrlen => hashes::hstrlen,
        Id::Hvals => hashes::hvals,
        _ => return None,
    })
}
