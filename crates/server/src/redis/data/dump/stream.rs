//! A stream in a payload: a listpack for each run of entries, the facts, the groups.

use larder_proto::resp::{
    rdb::{Listpack, push_len, push_string},
    stream::{Run, StreamId, key},
};

use super::super::collection::{At, Coll, Tree};
use super::super::errors::Outcome;

/// Records of groups that are written between two checks of the clock.
const SOME: usize = 256;
/// An entry has the fields of the first.
const SAME_FIELDS: i64 = 2;

/// A stream that is being written.
pub(super) struct Writing {
    /// The position of the next run; None: all are written.
    entries: Option<u64>,
    /// Names from which the next group and the next consumer are looked for.
    next_group: Vec<u8>,
    group: Option<(u32, Vec<u8>)>,
    rows: Option<Rows>,
}

/// Pending entries that are being written, of a group or of one of its consumers.
struct Rows {
    consumer: Option<u32>,
    from: StreamId,
    left: u64,
}

impl Writing {
    pub(super) fn begin(stream: &Coll<'_>, payload: &mut Vec<u8>) -> Outcome<Writing> {
        push_len(payload, stream.blocks()?.0);
        Ok(Writing { entries: Some(0), next_group: Vec::new(), group: None, rows: None })
    }

    /// Writes some more. True: all is written.
    pub(super) fn step(&mut self, stream: &Coll<'_>, payload: &mut Vec<u8>) -> Outcome<bool> {
        if let Some(at) = self.entries {
            if at < stream.len() {
                self.entries = Some(push_entries(stream, at, payload)?);
            } else {
                push_facts(stream, payload)?;
                self.entries = None;
            }
            return Ok(false);
        }
        if self.rows.is_some() {
            self.rows(stream, payload)?;
            return Ok(false);
        }
        if let Some((group, from)) = &mut self.group {
            let group = *group;
            if let Some(consumer) = stream.next_consumer(group, from)? {
                *from = [&consumer.name[..], &[0]].concat();
                push_string(payload, &consumer.name);
                payload.extend_from_slice(&consumer.seen.to_le_bytes());
                push_len(payload, consumer.pending);
                let (number, left) = (Some(consumer.number), consumer.pending);
                self.rows = Some(Rows { consumer: number, from: StreamId::MIN, left });
                return Ok(false);
            }
            self.group = None;
        }
        let Some((name, group)) = stream.next_group(&self.next_group)? else { return Ok(true) };
        push_string(payload, &name);
        push_id(payload, group.last);
        push_len(payload, group.read.unwrap_or(u64::MAX));
        push_len(payload, group.pending);
        self.rows = Some(Rows { consumer: None, from: StreamId::MIN, left: group.pending });
        self.next_group = [&name[..], &[0]].concat();
        self.group = Some((group.number, Vec::new()));
        Ok(false)
    }

    fn rows(&mut self, stream: &Coll<'_>, payload: &mut Vec<u8>) -> Outcome {
        let (Some(rows), Some((group, _))) = (&mut self.rows, &self.group) else { return Ok(()) };
        let most = rows.left.min(SOME as u64) as usize;
        let mut found = 0;
        if most > 0 {
            for (id, pending) in stream.some_pending(*group, rows.consumer, rows.from, most)? {
                payload.extend_from_slice(&id.to_key());
                if rows.consumer.is_none() {
                    payload.extend_from_slice(&pending.time.to_le_bytes());
                    push_len(payload, pending.count);
                }
                rows.from = id.next().unwrap_or(id);
                found += 1;
            }
        }
        rows.left = rows.left.saturating_sub(found);
        if found == 0 || rows.left == 0 {
            if rows.consumer.is_none() {
                push_len(payload, stream.consumers_of(*group)?);
            }
            self.rows = None;
        }
        Ok(())
    }
}

fn push_id(payload: &mut Vec<u8>, id: StreamId) {
    push_len(payload, id.ms);
    push_len(payload, id.seq);
}

fn push_facts(stream: &Coll<'_>, payload: &mut Vec<u8>) -> Outcome {
    let state = stream.state()?;
    push_len(payload, stream.len());
    push_id(payload, state.last);
    push_id(payload, stream.first_id()?.unwrap_or_default());
    push_id(payload, state.max_deleted);
    push_len(payload, state.added);
    push_len(payload, state.groups);
    Ok(())
}

/// Writes the run with the entry at a position. Returns the position behind it.
fn push_entries(stream: &Coll<'_>, at: u64, payload: &mut Vec<u8>) -> Outcome<u64> {
    let found = stream.locate(Tree::Main, At::Position(at))?;
    let run = found.run.whole();
    let entries: Result<Vec<_>, _> = Run::read(&run)?.entries().collect();
    let entries = entries?;
    let Some(first) = entries.first() else { return Ok(stream.len()) };
    let names: Vec<&[u8]> = first.pairs.map(|(name, _)| name).collect();
    let mut list = Listpack::default();
    [entries.len() as i64, 0, names.len() as i64].iter().for_each(|n| list.push_number(*n));
    names.iter().for_each(|name| list.push(name));
    list.push_number(0);
    for entry in &entries {
        let count = entry.count as i64;
        let is_same = entry.pairs.map(|(name, _)| name).eq(names.iter().copied());
        list.push_number(if is_same { SAME_FIELDS } else { 0 });
        list.push_number(entry.id.ms.wrapping_sub(first.id.ms) as i64);
        list.push_number(entry.id.seq.wrapping_sub(first.id.seq) as i64);
        if !is_same {
            list.push_number(count);
        }
        for (name, value) in entry.pairs {
            if !is_same {
                list.push(name);
            }
            list.push(value);
        }
        list.push_number(if is_same { count + 3 } else { 2 * count + 4 });
    }
    push_string(payload, &first.id.to_key());
    push_string(payload, &list.into_bytes());
    Ok(found.before + found.count)
}

impl Coll<'_> {
    /// Number of consumers of a group.
    fn consumers_of(&self, group: u32) -> Outcome<u64> {
        let start = key::start(4, group);
        let end = [&start[..], &[0xff; 8]].concat();
        // Names are above their start; the next group's begin with a greater number.
        let next = group.checked_add(1).map_or(end, |next| key::start(4, next));
        Ok(self.records_below(&next)?.saturating_sub(self.records_below(&start)?))
    }
}
