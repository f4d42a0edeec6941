//! Streams.
//!
//! | file | commands |
//! |---|---|
//! | `add.rs` | XADD, XTRIM, XLEN, XSETID |
//! | `delete.rs` | XDEL, XACK |
//! | `range.rs` | XRANGE, XREVRANGE |
//! | `read.rs` | XREAD, XREADGROUP |
//! | `deliver.rs` | entries to the consumers of groups, and to clients that wait |
//! | `groups.rs` | XGROUP |
//! | `pending.rs` | XPENDING |
//! | `claim.rs` | XCLAIM, XAUTOCLAIM |
//! | `info.rs`, `full.rs` | XINFO |

mod add;
mod claim;
mod delete;
mod deliver;
mod full;
mod groups;
mod info;
mod pending;
mod range;
mod read;

pub(in super::super) use deliver::Reading;
pub(super) use deliver::serve;

use larder_proto::resp::{
    Reply,
    stream::{Consumer, Entry, Group, Pending, StreamId, key},
    table::Id,
};

use super::super::ctx::{Class, Ctx};
use super::Run;
use super::collection::Coll;
use super::errors::Outcome;

const INVALID_ID: &str = "ERR Invalid stream ID specified as stream command argument";
/// Entries, or records of groups, that are written between two checks of the clock.
const SOME: usize = 64;

/// The handler of a command on streams; None: another command.
pub(super) fn command(id: Id) -> Option<Run> {
    Some(match id {
        Id::Xack => delete::xack,
        Id::Xadd => add::xadd,
        Id::Xautoclaim => claim::xautoclaim,
        Id::Xclaim => claim::xclaim,
        Id::Xdel => delete::xdel,
        Id::XgroupCreate => groups::create,
        Id::XgroupCreateconsumer => groups::createconsumer,
        Id::XgroupDelconsumer => groups::delconsumer,
        Id::XgroupDestroy => groups::destroy,
        Id::XgroupHelp => groups::group_help,
        Id::XgroupSetid => groups::setid,
        Id::XinfoConsumers => info::consumers,
        Id::XinfoGroups => info::groups,
        Id::XinfoHelp => info::info_help,
        Id::XinfoStream => info::stream,
        Id::Xlen => add::xlen,
        Id::Xpending => pending::xpending,
        Id::Xrange => range::xrange,
        Id::Xread => read::xread,
        Id::Xreadgroup => read::xreadgroup,
        Id::Xrevrange => range::xrevrange,
        Id::Xsetid => add::xsetid,
        Id::Xtrim => add::xtrim,
        _ => return None,
    })
}

/// Longest name of a group or consumer, in bytes: names are compared and copied with their records.
const NAME: usize = 64 * 1024;

/// Refuses a name of a group or consumer that is too long.
pub(super) fn check_name(name: &[u8]) -> Outcome {
    if name.len() > NAME {
        return Err("ERR the name is longer than 65536 bytes".into());
    }
    Ok(())
}

/// Parses an ID without `-` and `+`.
fn strict_id(text: &[u8]) -> Outcome<StreamId> {
    Ok(StreamId::parse(text, 0).ok_or(INVALID_ID)?)
}

/// The bounds of a range of IDs, each `(` and an ID for one that is not in it.
fn interval(start: &[u8], end: &[u8]) -> Outcome<(StreamId, StreamId)> {
    Ok((interval_start(start)?, interval_end(end)?))
}

/// Splits the mark of an open bound from it.
fn open_bound(text: &[u8]) -> Option<&[u8]> {
    text.strip_prefix(b"(").filter(|rest| !rest.is_empty())
}

fn interval_start(text: &[u8]) -> Outcome<StreamId> {
    const INVALID: &str = "ERR invalid start ID for the interval";
    match open_bound(text) {
        Some(text) => Ok(strict_id(text)?.next().ok_or(INVALID)?),
        None => Ok(StreamId::parse_bound(text, 0).ok_or(INVALID_ID)?),
    }
}

fn interval_end(text: &[u8]) -> Outcome<StreamId> {
    const INVALID: &str = "ERR invalid end ID for the interval";
    match open_bound(text) {
        Some(text) => {
            let end = StreamId::parse(text, u64::MAX).ok_or(INVALID_ID)?;
            Ok(end.before().ok_or(INVALID)?)
        }
        None => Ok(StreamId::parse_bound(text, u64::MAX).ok_or(INVALID_ID)?),
    }
}

fn write_id(reply: &mut Reply<'_>, id: StreamId) {
    reply.bulk(&id.text());
}

/// Share of [`SOME`] that an entry takes.
fn weight(entry: &Entry<'_>) -> usize {
    1 + entry.pairs.size() / 256
}

/// Answers an entry: its ID and its fields with their values.
fn write_entry(reply: &mut Reply<'_>, entry: &Entry<'_>) {
    reply.array(2);
    write_id(reply, entry.id);
    reply.array(2 * entry.count as usize);
    for (name, value) in entry.pairs {
        reply.bulk(name);
        reply.bulk(value);
    }
}

impl Coll<'_> {
    /// The group with this name.
    pub(in super::super) fn group(&self, name: &[u8]) -> Outcome<Option<Group>> {
        let record = self.record(&key::group(name))?;
        Ok(record.map(|record| Group::read(&record)).transpose()?)
    }

    pub(in super::super) fn set_group(&mut self, name: &[u8], group: &Group) {
        self.set_record(key::group(name), Some(group.write()));
    }

    /// The consumer with this name.
    pub(in super::super) fn consumer(&self, group: u32, name: &[u8]) -> Outcome<Option<Consumer>> {
        let Some(number) = self.record(&key::name(group, name))? else { return Ok(None) };
        let number = number[..].try_into().map(u32::from_be_bytes);
        self.consumer_by(group, number.map_err(|_| larder_proto::resp::collection::Damaged)?)
    }

    fn consumer_by(&self, group: u32, number: u32) -> Outcome<Option<Consumer>> {
        let record = self.record(&key::consumer(group, number))?;
        Ok(record.map(|record| Consumer::read(&record)).transpose()?)
    }

    pub(in super::super) fn set_consumer(&mut self, group: u32, consumer: &Consumer) {
        self.set_record(key::consumer(group, consumer.number), Some(consumer.write()));
    }

    /// Makes a consumer; the group counts it.
    pub(in super::super) fn new_consumer(
        &mut self,
        group: &mut Group,
        name: &[u8],
        now: u64,
    ) -> Outcome<Consumer> {
        check_name(name)?;
        let mut state = self.state()?;
        let number = state.numbers as u32;
        state.numbers += 1;
        self.set_state(&state);
        group.consumers += 1;
        let consumer = Consumer { number, seen: now, pending: 0, name: name.to_vec() };
        self.set_record(key::name(group.number, name), Some(number.to_be_bytes().to_vec()));
        self.set_consumer(group.number, &consumer);
        Ok(consumer)
    }

    pub(in super::super) fn pending(&self, group: u32, id: StreamId) -> Outcome<Option<Pending>> {
        let record = self.record(&key::pending(group, id))?;
        Ok(record.map(|record| Pending::read(&record)).transpose()?)
    }

    /// Writes a pending entry, which is new or was another consumer's.
    pub(in super::super) fn set_pending(
        &mut self,
        group: u32,
        id: StreamId,
        old: Option<u32>,
        pending: &Pending,
    ) {
        self.set_record(key::pending(group, id), Some(pending.write()));
        if old == Some(pending.consumer) {
            return;
        }
        self.set_record(key::owned(group, pending.consumer, id), Some(Vec::new()));
        if let Some(old) = old {
            self.set_record(key::owned(group, old, id), None);
        }
    }

    fn drop_pending(&mut self, group: u32, id: StreamId, consumer: u32) {
        self.set_record(key::pending(group, id), None);
        self.set_record(key::owned(group, consumer, id), None);
    }

    /// A consumer has one pending entry less.
    fn release(&mut self, group: u32, consumer: u32) -> Outcome {
        if let Some(mut consumer) = self.consumer_by(group, consumer)? {
            consumer.pending = consumer.pending.saturating_sub(1);
            self.set_consumer(group, &consumer);
        }
        Ok(())
    }
}

impl Ctx<'_> {
    /// Reports a change of a stream.
    fn streamed(&mut self, event: &'static str, key: &[u8]) {
        self.modified(Class::Stream, event, key);
    }

    /// Puts the head of an array before what was answered since `from`.
    fn prepend_array(&mut self, from: usize, len: usize) {
        let mut head = Vec::new();
        Reply::new(&mut head, self.version).array(len);
        self.out.scratch().splice(from..from, head);
    }

    /// Answers that there is no such key or group.
    fn no_group(&mut self, key: &[u8], group: &[u8]) {
        let (key, group) = (shown(key), shown(group));
        let text = [b"NOGROUP No such key '", key, b"' or consumer group '", group, b"'"].concat();
        self.reply().error(text);
    }
}

/// A name in an error: as C has it, up to the first NUL.
fn shown(name: &[u8]) -> &[u8] {
    name.split(|byte| *byte == 0).next().unwrap_or_default()
}
