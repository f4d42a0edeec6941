//! Internals of a key: OBJECT, MEMORY USAGE.

use std::sync::atomic::Ordering::Relaxed;

use larder_proto::resp::{
    Args,
    collection::{Head, Items, Kind, Root, Shape, facts_apart},
    hash::{self, Hash},
    number::{I64_TEXT, parse_i64},
};
use larder_store::Entry;

use super::super::ctx::Ctx;
use super::access::is_record;
use super::collection::{Tree, head_of, kind_of};
use super::errors::{NOT_INTEGER, SYNTAX};
use super::joined::Whole;

/// Longest `embstr` of Redis, in bytes.
const EMBEDDED: u64 = 44;
/// Bytes of a record beyond key and value, with its index slot.
const RECORD: u64 = 32;

const NO_FREQUENCY: &str = "ERR An LFU maxmemory policy is not selected, access frequency not \
                            tracked. Please note that when switching between policies at runtime \
                            LRU and LFU data will take some time to adjust.";

const HELP: &[&str] = &[
    "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "ENCODING <key>",
    "    Return the kind of internal representation used in order to store the value",
    "    associated with a <key>.",
    "FREQ <key>",
    "    Return the access frequency index of the <key>. The returned integer is",
    "    proportional to the logarithm of the recent access frequency of the key.",
    "IDLETIME <key>",
    "    Return the idle time of the <key>, that is the approximated number of",
    "    seconds elapsed since the last access to the key.",
    "REFCOUNT <key>",
    "    Return the number of references of the value associated with the specified",
    "    <key>.",
    "HELP",
    "    Prints this help.",
];

/// OBJECT HELP
pub(super) fn help(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    let mut reply = ctx.reply();
    reply.array(HELP.len());
    HELP.iter().for_each(|line| reply.simple(line));
}

/// OBJECT ENCODING key: Redis's encoding for such a value.
pub(super) fn encoding(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    match ctx.look(args.get(2)) {
        Some(entry) => {
            let name = name(ctx, args.get(2), &entry);
            ctx.reply().bulk(name.as_bytes());
        }
        None => ctx.reply().null(),
    }
}

fn name(ctx: &Ctx<'_>, key: &[u8], entry: &Entry<'static>) -> &'static str {
    match kind_of(entry) {
        Some(Kind::Hash) => return tree_name(ctx, key, entry),
        Some(kind) => return collection_name(ctx, entry, kind),
        None => {}
    }
    if is_record(entry) {
        let record = Whole::of(entry);
        let packed = Hash::read(&record).is_ok_and(|hash| is_packed(ctx, &hash));
        return match (packed, entry.flags() == hash::FLAGS) {
            (true, true) => "listpack",
            (true, false) => "listpackex",
            (false, _) => "hashtable",
        };
    }
    if entry.len() <= I64_TEXT as u64 && parse_i64(&Whole::of(entry)).is_some() {
        return "int";
    }
    if entry.len() <= EMBEDDED { "embstr" } else { "raw" }
}

/// Redis's encoding of a hash that is a tree: up to 512 fields it may be a listpack there.
fn tree_name(ctx: &Ctx<'_>, key: &[u8], entry: &Entry<'static>) -> &'static str {
    /// Most fields that are looked at in one go.
    const FIELDS: u64 = 4096;
    let config = &ctx.shared.config;
    let most = config.listpack_value.load(Relaxed);
    let Ok(Some(tree)) = ctx.coll(key, Some(entry.clone()), Kind::Hash) else { return "hashtable" };
    if tree.len() > config.listpack_entries.load(Relaxed).min(FIELDS) {
        return "hashtable";
    }
    let mut is_short = true;
    let looked = tree.each(Tree::Main, 0, &mut |item| {
        is_short &= item.bytes.len() as u64 <= most && item.value.len() as u64 <= most;
        is_short
    });
    match looked.is_ok() && is_short {
        true if entry.flags() == Kind::Hash.flags() => "listpack",
        true => "listpackex",
        false => "hashtable",
    }
}

/// Redis's encoding of such a list, set or sorted set.
fn collection_name(ctx: &Ctx<'_>, entry: &Entry<'_>, kind: Kind) -> &'static str {
    let head = match facts_apart(entry.head()) {
        // It has parts, and is none of the packed forms.
        Some(_) => Head { main: Root { level: 1, ..Root::default() }, ..Head::default() },
        None => match Head::read(&Whole::of(entry)) {
            Ok(head) => head,
            Err(_) => return "raw",
        },
    };
    let config = &ctx.shared.config;
    let shape = if kind == Kind::SortedSet { Shape::Scored } else { Shape::Bare };
    let all = |fits: &dyn Fn(&[u8]) -> bool| {
        head.main.level == 0
            && Items::new(shape, &head.main.bytes)
                .all(|item| item.is_ok_and(|item| fits(item.bytes)))
    };
    match kind {
        Kind::List => "quicklist",
        Kind::Set
            if head.count <= config.intset_entries.load(Relaxed)
                && all(&|item| parse_i64(item).is_some()) =>
        {
            "intset"
        }
        Kind::Set => "hashtable",
        Kind::Stream => "stream",
        Kind::Hash => "hashtable",
        Kind::SortedSet => {
            let most = config.scored_value.load(Relaxed);
            let is_packed = head.count <= config.scored_entries.load(Relaxed)
                && all(&|item| item.len() as u64 <= most);
            if is_packed { "listpack" } else { "skiplist" }
        }
    }
}

/// Returns whether Redis would encode it as a listpack.
pub(super) fn is_packed(ctx: &Ctx<'_>, hash: &Hash<'_>) -> bool {
    let config = &ctx.shared.config;
    let most = config.listpack_value.load(Relaxed);
    let short = |part: &[u8]| part.len() as u64 <= most;
    hash.len() as u64 <= config.listpack_entries.load(Relaxed)
        && hash.iter().all(|pair| pair.is_ok_and(|(field, value)| short(field) && short(value)))
}

/// OBJECT FREQ key: 0 to 3 if entries are evicted by frequency; Redis's error if nothing is
/// evicted.
pub(super) fn frequency(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    match ctx.look(args.get(2)) {
        Some(_) if ctx.shared.settings.no_evictions => ctx.reply().error(NO_FREQUENCY),
        Some(entry) => ctx.reply().integer(entry.frequency().into()),
        None => ctx.reply().null(),
    }
}

/// OBJECT IDLETIME key
pub(super) fn idle_time(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    match ctx.look(args.get(2)) {
        Some(entry) => {
            let idle = ctx.now.saturating_sub(entry.last_access()) / 1000;
            ctx.reply().integer(idle as i64);
        }
        None => ctx.reply().null(),
    }
}

/// OBJECT REFCOUNT key
pub(super) fn references(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    match ctx.look(args.get(2)) {
        Some(_) => ctx.reply().integer(1),
        None => ctx.reply().null(),
    }
}

/// Bytes of a head that does not lie under its key.
fn facts_bytes(entry: &Entry<'_>, head: &Head) -> u64 {
    if facts_apart(entry.head()).is_some() { head.write().len() as u64 } else { 0 }
}

/// MEMORY USAGE key [SAMPLES count]
pub(super) fn memory_usage(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let mut at = 3;
    while at < args.len() {
        if !args.is(at, "SAMPLES") || at + 1 >= args.len() {
            return ctx.reply().error(SYNTAX);
        }
        match parse_i64(args.get(at + 1)) {
            None => return ctx.reply().error(NOT_INTEGER),
            Some(..0) => return ctx.reply().error(SYNTAX),
            Some(_) => at += 2,
        }
    }
    let key = args.get(2);
    match ctx.look(key) {
        Some(entry) => {
            let parts = match kind_of(&entry) {
                Some(_) => head_of(ctx.shared, (ctx.ns, key), &entry, ctx.now)
                    .map_or(0, |head| head.bytes + facts_bytes(&entry, &head)),
                None => 0,
            };
            let bytes = RECORD + key.len() as u64 + entry.len() + parts;
            ctx.reply().integer(bytes as i64);
        }
        None => ctx.reply().null(),
    }
}
