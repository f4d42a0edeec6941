//! Data commands. A command parses its arguments, changes the store and answers; it knows nothing
//! of connections, transactions and locks. Replies and errors are those of Redis 7.0, byte for
//! byte.
//!
//! A string is an entry with any flags except those of [`resp::hash`], which mark a hash, and those
//! of [`resp::collection::Kind`]. A write
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
//! | `collection/`, `trees.rs` | lists, sets, sorted sets and large hashes in the store |
//! | `lists.rs`, `list_search.rs`, `list_moves.rs`, `timeout.rs` | lists |
//! | `sets.rs`, `set_join.rs`, `drawing.rs` | sets |
//! | `zsets/` | sorted sets |
//! | `join.rs` | what joins of sets and of sorted sets have in common |
//! | `streams/` | streams |
//! | `hyperloglog.rs`, `geo/` | HyperLogLogs, positions |
//! | `dump/` | DUMP and RESTORE |
//! | `sort.rs` | SORT |
//! | `hash_record.rs`, `hash_ready.rs`, `hash_purge.rs`, `hashes.rs`, `hash_write.rs`, `hash_walk.rs`, `hash_expiry.rs`, `hash_get.rs` | hashes |

mod access;
mod bitfield;
mod bits;
mod collection;
mod counters;
mod drawing;
mod dump;
mod errors;
mod expiry;
mod geo;
mod hash_expiry;
mod hash_get;
mod hash_purge;
mod hash_ready;
mod hash_record;
mod hash_walk;
mod hash_write;
mod hashes;
mod hyperloglog;
mod join;
mod joined;
mod keys;
mod lcs;
mod list_moves;
mod list_search;
mod listing;
mod lists;
mod long;
mod moves;
mod object;
mod parts;
mod pfdebug;
mod random;
mod range;
mod set;
mod set_join;
mod sets;
mod sort;
mod streams;
mod strings;
#[cfg(test)]
mod tests;
mod timeout;
mod trees;
mod walk;
mod zsets;

use larder_proto::resp::{Args, table::Id};

use drawing::draws;
pub(super) use hash_purge::sweep_fields;
pub(super) use list_moves::Wish;
pub(super) use parts::{PART, is_one_step};
pub(super) use sort::reads_others;

use super::{ctx::Ctx, locks::StripeGuard, shared::Shared, waiter::Waiter};

/// Handler of a command. Dispatch has checked the number of arguments.
pub(crate) type Run = fn(&mut Ctx<'_>, &Args<'_>);

/// The handler of a data command; `None`: another command.
pub(crate) fn command(id: Id) -> Option<Run> {
    on_strings(id)
        .or_else(|| on_keys(id))
        .or_else(|| on_hashes(id))
        .or_else(|| on_lists(id))
        .or_else(|| on_sets(id))
        .or_else(|| on_sorted_sets(id))
        .or_else(|| streams::command(id))
        .or_else(|| geo::command(id))
        .or_else(|| hyperloglog::command(id))
        .or_else(|| dump::command(id))
}

/// Serves a client that waits for a key. False: nobody behind it can be served now. `held`: keys
/// that are held until all clients are served.
pub(super) fn serve_one<'s>(
    ctx: &mut Ctx<'_>,
    shared: &'s Shared,
    key: &[u8],
    waiter: &Waiter,
    held: &mut Vec<StripeGuard<'s>>,
) -> bool {
    match waiter.wish {
        Wish::Element(_) | Wish::Elements(..) | Wish::Move(..) => {
            list_moves::serve(ctx, shared, key, waiter, held)
        }
        Wish::Member { .. } | Wish::Members { .. } => zsets::serve(ctx, key, waiter),
        Wish::Entries(_) => {
            streams::serve(ctx, key, waiter);
            true
        }
        Wish::Nothing => true,
    }
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
        Id::Sort => sort::sort,
        Id::SortRo => sort::sort_ro,
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
        Id::Hexpire => hash_expiry::hexpire,
        Id::Hexpireat => hash_expiry::hexpireat,
        Id::Hexpiretime => hash_expiry::hexpiretime,
        Id::Hget => hashes::hget,
        Id::Hgetall => hashes::hgetall,
        Id::Hgetdel => hash_get::hgetdel,
        Id::Hgetex => hash_get::hgetex,
        Id::Hincrby => hash_write::hincrby,
        Id::Hincrbyfloat => hash_write::hincrbyfloat,
        Id::Hkeys => hashes::hkeys,
        Id::Hlen => hashes::hlen,
        Id::Hmget => hashes::hmget,
        Id::Hmset => hash_write::hmset,
        Id::Hpersist => hash_expiry::hpersist,
        Id::Hpexpire => hash_expiry::hpexpire,
        Id::Hpexpireat => hash_expiry::hpexpireat,
        Id::Hpexpiretime => hash_expiry::hpexpiretime,
        Id::Hpttl => hash_expiry::hpttl,
        Id::Hrandfield => hash_walk::hrandfield,
        Id::Hscan => hash_walk::hscan,
        Id::Hset => hash_write::hset,
        Id::Hsetex => hash_write::hsetex,
        Id::Hsetnx => hash_write::hsetnx,
        Id::Hstrlen => hashes::hstrlen,
        Id::Httl => hash_expiry::httl,
        Id::Hvals => hashes::hvals,
        _ => return None,
    })
}

fn on_lists(id: Id) -> Option<Run> {
    Some(match id {
        Id::Blmove => list_moves::blmove,
        Id::Blmpop => list_moves::blmpop,
        Id::Blpop => list_moves::blpop,
        Id::Brpop => list_moves::brpop,
        Id::Brpoplpush => list_moves::brpoplpush,
        Id::Lindex => lists::lindex,
        Id::Linsert => lists::linsert,
        Id::Llen => lists::llen,
        Id::Lmove => list_moves::lmove,
        Id::Lmpop => list_moves::lmpop,
        Id::Lpop => lists::lpop,
        Id::Lpos => list_search::lpos,
        Id::Lpush => lists::lpush,
        Id::Lpushx => lists::lpushx,
        Id::Lrange => lists::lrange,
        Id::Lrem => list_search::lrem,
        Id::Lset => lists::lset,
        Id::Ltrim => lists::ltrim,
        Id::Rpop => lists::rpop,
        Id::Rpoplpush => list_moves::rpoplpush,
        Id::Rpush => lists::rpush,
        Id::Rpushx => lists::rpushx,
        _ => return None,
    })
}

fn on_sets(id: Id) -> Option<Run> {
    Some(match id {
        Id::Sadd => sets::sadd,
        Id::Scard => sets::scard,
        Id::Sdiff => set_join::sdiff,
        Id::Sdiffstore => set_join::sdiffstore,
        Id::Sinter => set_join::sinter,
        Id::Sintercard => set_join::sintercard,
        Id::Sinterstore => set_join::sinterstore,
        Id::Sismember => sets::sismember,
        Id::Smembers => sets::smembers,
        Id::Smismember => sets::smismember,
        Id::Smove => sets::smove,
        Id::Spop => sets::spop,
        Id::Srandmember => sets::srandmember,
        Id::Srem => sets::srem,
        Id::Sscan => sets::sscan,
        Id::Sunion => set_join::sunion,
        Id::Sunionstore => set_join::sunionstore,
        _ => return None,
    })
}

fn on_sorted_sets(id: Id) -> Option<Run> {
    Some(match id {
        Id::Bzmpop => zsets::bzmpop,
        Id::Bzpopmax => zsets::bzpopmax,
        Id::Bzpopmin => zsets::bzpopmin,
        Id::Zadd => zsets::zadd,
        Id::Zcard => zsets::zcard,
        Id::Zcount => zsets::zcount,
        Id::Zdiff => zsets::zdiff,
        Id::Zdiffstore => zsets::zdiffstore,
        Id::Zincrby => zsets::zincrby,
        Id::Zinter => zsets::zinter,
        Id::Zintercard => zsets::zintercard,
        Id::Zinterstore => zsets::zinterstore,
        Id::Zlexcount => zsets::zlexcount,
        Id::Zmpop => zsets::zmpop,
        Id::Zmscore => zsets::zmscore,
        Id::Zpopmax => zsets::zpopmax,
        Id::Zpopmin => zsets::zpopmin,
        Id::Zrandmember => zsets::zrandmember,
        Id::Zrange => zsets::zrange,
        Id::Zrangebylex => zsets::zrangebylex,
        Id::Zrangebyscore => zsets::zrangebyscore,
        Id::Zrangestore => zsets::zrangestore,
        Id::Zrank => zsets::zrank,
        Id::Zrem => zsets::zrem,
        Id::Zremrangebylex => zsets::zremrangebylex,
        Id::Zremrangebyrank => zsets::zremrangebyrank,
        Id::Zremrangebyscore => zsets::zremrangebyscore,
        Id::Zrevrange => zsets::zrevrange,
        Id::Zrevrangebylex => zsets::zrevrangebylex,
        Id::Zrevrangebyscore => zsets::zrevrangebyscore,
        Id::Zrevrank => zsets::zrevrank,
        Id::Zscan => sets::zscan,
        Id::Zscore => zsets::zscore,
        Id::Zunion => zsets::zunion,
        Id::Zunionstore => zsets::zunionstore,
        _ => return None,
    })
}
