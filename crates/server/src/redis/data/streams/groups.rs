//! XGROUP.

use larder_proto::resp::{
    Args,
    collection::Kind,
    number::parse_i64,
    stream::{Group, StreamId, key},
};

use super::super::super::ctx::{Class, Ctx};
use super::super::collection::Coll;
use super::super::errors::{NOT_INTEGER, Outcome, Refused};
use super::{INVALID_ID, SOME, check_name, shown, strict_id};

const NO_STREAM: &str = "ERR The XGROUP subcommand requires the key to exist. Note that for \
                         CREATE you may want to use the MKSTREAM option to create an empty stream \
                         automatically.";

const HELP: &[&str] = &[
    "XGROUP <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CREATE <key> <groupname> <id|$> [option]",
    "    Create a new consumer group. Options are:",
    "    * MKSTREAM",
    "      Create the empty stream if it does not exist.",
    "    * ENTRIESREAD entries_read",
    "      Set the group's entries_read counter (internal use).",
    "CREATECONSUMER <key> <groupname> <consumer>",
    "    Create a new consumer in the specified group.",
    "DELCONSUMER <key> <groupname> <consumer>",
    "    Remove the specified consumer.",
    "DESTROY <key> <groupname>",
    "    Remove the specified group.",
    "SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
    "    Set the current group ID and entries_read counter.",
    "HELP",
    "    Prints this help.",
];

/// XGROUP HELP
pub(in super::super) fn group_help(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    let mut reply = ctx.reply();
    reply.array(HELP.len());
    HELP.iter().for_each(|line| reply.simple(line));
}

/// The options of CREATE and SETID; true: MKSTREAM.
fn options(args: &Args<'_>, creates: bool) -> Outcome<Option<(bool, Option<u64>)>> {
    let (mut makes, mut read, mut at) = (false, None, 5);
    while at < args.len() {
        if creates && args.is(at, "MKSTREAM") {
            makes = true;
            at += 1;
        } else if args.is(at, "ENTRIESREAD") && at + 1 < args.len() {
            read = match parse_i64(args.get(at + 1)).ok_or(NOT_INTEGER)? {
                -1 => None,
                ..0 => return Err("ERR value for ENTRIESREAD must be positive or -1".into()),
                number => Some(number as u64),
            };
            at += 2;
        } else {
            return Ok(None);
        }
    }
    Ok(Some((makes, read)))
}

impl Ctx<'_> {
    /// Answers the error of a subcommand whose arguments are wrong.
    pub(super) fn wrong_subcommand(&mut self, args: &Args<'_>) {
        let name = String::from_utf8_lossy(args.get(0)).to_ascii_uppercase();
        let sub = String::from_utf8_lossy(args.get(1)).into_owned();
        self.reply().error(format!(
            "ERR unknown subcommand or wrong number of arguments for '{sub}'. Try {name} HELP."
        ));
    }

    /// Answers that a stream has no such group.
    pub(super) fn no_such_group(&mut self, key: &[u8], group: &[u8]) {
        let (key, group) = (shown(key), shown(group));
        let text =
            [b"NOGROUP No such consumer group '", group, b"' for key name '", key, b"'"].concat();
        self.reply().error(text);
    }
}

/// XGROUP CREATE key group id | $ \[MKSTREAM] \[ENTRIESREAD number]
pub(in super::super) fn create(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        let Some((makes, read)) = options(args, true)? else {
            ctx.wrong_subcommand(args);
            return Ok(());
        };
        let (key, name) = (args.get(2), args.get(3));
        check_name(name)?;
        let old = ctx.open(key, Kind::Stream)?;
        if old.is_none() && !makes {
            return Err(NO_STREAM.into());
        }
        if args.len() > 8 {
            ctx.wrong_subcommand(args);
            return Ok(());
        }
        let id = match args.get(4) {
            b"$" => None,
            text => Some(strict_id(text)?),
        };
        let is_new = old.is_none();
        drop(old);
        ctx.retry(|ctx| {
            let mut stream = ctx.open_or_new(key, Kind::Stream)?;
            if stream.group(name)?.is_some() {
                return Err("BUSYGROUP Consumer Group name already exists".into());
            }
            let mut state = stream.state()?;
            let last = id.unwrap_or(state.last);
            let group = Group { number: state.numbers as u32, last, read, ..Group::default() };
            (state.numbers, state.groups) = (state.numbers + 1, state.groups + 1);
            stream.set_state(&state);
            stream.set_group(name, &group);
            stream.commit(ctx)
        })?;
        ctx.reply().ok();
        match is_new {
            true => ctx.streamed("xgroup-create", key),
            false => ctx.event(Class::Stream, "xgroup-create", key),
        }
        Ok(())
    })();
    ctx.settle(outcome, args);
}

/// XGROUP SETID key group id | $ \[ENTRIESREAD number]
pub(in super::super) fn setid(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        let Some((_, read)) = options(args, false)? else {
            ctx.wrong_subcommand(args);
            return Ok(());
        };
        let (key, name) = (args.get(2), args.get(3));
        if !ctx.has_group(key, name)? {
            return Ok(());
        }
        if args.len() != 5 && args.len() != 7 {
            ctx.wrong_subcommand(args);
            return Ok(());
        }
        let id = match args.get(4) {
            b"$" => None,
            text => Some(StreamId::parse_bound(text, 0).ok_or(INVALID_ID)?),
        };
        ctx.with_group(key, name, |stream, group| {
            group.last = id.unwrap_or(stream.state()?.last);
            group.read = read;
            Ok(())
        })?;
        ctx.reply().ok();
        ctx.event(Class::Stream, "xgroup-setid", key);
        Ok(())
    })();
    ctx.settle(outcome, args);
}

impl Ctx<'_> {
    /// Is there this group? Answers if not.
    fn has_group(&mut self, key: &[u8], name: &[u8]) -> Outcome<bool> {
        let stream = self.open(key, Kind::Stream)?.ok_or(NO_STREAM)?;
        if stream.group(name)?.is_some() {
            return Ok(true);
        }
        self.no_such_group(key, name);
        Ok(false)
    }

    /// Changes a group that is there.
    fn with_group<T>(
        &mut self,
        key: &[u8],
        name: &[u8],
        change: impl Fn(&mut Coll<'_>, &mut Group) -> Outcome<T>,
    ) -> Outcome<T> {
        self.retry(|ctx| {
            let mut stream = ctx.open(key, Kind::Stream)?.ok_or(NO_STREAM)?;
            let mut group = stream.group(name)?.ok_or(NO_STREAM)?;
            let result = change(&mut stream, &mut group)?;
            stream.set_group(name, &group);
            Ok(stream.commit(ctx)?.map(|()| result))
        })
    }
}

/// XGROUP CREATECONSUMER key group consumer
pub(in super::super) fn createconsumer(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        let (key, name, consumer) = (args.get(2), args.get(3), args.get(4));
        if !ctx.has_group(key, name)? {
            return Ok(());
        }
        let now = ctx.now;
        let made = ctx.with_group(key, name, |stream, group| {
            let is_new = stream.consumer(group.number, consumer)?.is_none();
            if is_new {
                stream.new_consumer(group, consumer, now)?;
            }
            Ok(is_new)
        })?;
        ctx.reply().integer(made.into());
        if made {
            ctx.event(Class::Stream, "xgroup-createconsumer", key);
        }
        Ok(())
    })();
    ctx.settle(outcome, args);
}

/// XGROUP DELCONSUMER key group consumer
pub(in super::super) fn delconsumer(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        let (key, name) = (args.get(2), args.get(3));
        if !ctx.has_group(key, name)? {
            return Ok(());
        }
        ctx.steps(args, delconsumer, None, |ctx, args, pending: &mut Option<u64>| {
            let (key, name, consumer) = (args.get(2), args.get(3), args.get(4));
            let removed = ctx.with_group(key, name, |stream, group| {
                let own = stream.consumer(group.number, consumer)?;
                let Some(own) = own else { return Ok(None) };
                Ok(Some((own.pending, stream.remove_some_of(group, &own.name, own.number)?)))
            })?;
            let first = removed.map_or(0, |(left, _)| left);
            let pending = *pending.get_or_insert(first);
            if let Some((_, false)) = removed {
                return Ok(false);
            }
            ctx.reply().integer(pending as i64);
            if removed.is_some() {
                ctx.event(Class::Stream, "xgroup-delconsumer", key);
            }
            Ok(true)
        });
        Ok(())
    })();
    ctx.settle(outcome, args);
}

impl Coll<'_> {
    /// Removes some pending entries of a consumer, and it with the last. True: it is removed.
    fn remove_some_of(&mut self, group: &mut Group, name: &[u8], consumer: u32) -> Outcome<bool> {
        let mut ids = Vec::new();
        self.owned(group.number, consumer, StreamId::MIN, &mut |id| {
            ids.push(id);
            ids.len() < SOME
        })?;
        ids.iter().for_each(|id| self.drop_pending(group.number, *id, consumer));
        group.pending = group.pending.saturating_sub(ids.len() as u64);
        if ids.len() == SOME {
            return Ok(false);
        }
        self.set_record(key::name(group.number, name), None);
        self.set_record(key::consumer(group.number, consumer), None);
        group.consumers = group.consumers.saturating_sub(1);
        Ok(true)
    }
}

/// XGROUP DESTROY key group
pub(in super::super) fn destroy(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        let (key, name) = (args.get(2), args.get(3));
        let destroyed = ctx.retry(|ctx| {
            let mut stream = ctx.open(key, Kind::Stream)?.ok_or(NO_STREAM)?;
            let Some(group) = stream.group(name)? else { return Ok(Some(None)) };
            let mut state = stream.state()?;
            state.groups = state.groups.saturating_sub(1);
            stream.set_state(&state);
            stream.set_record(key::group(name), None);
            Ok(stream.commit(ctx)?.map(|()| Some(group.number)))
        })?;
        let Some(number) = destroyed else {
            ctx.reply().integer(0);
            return Ok(());
        };
        ctx.steps(args, destroy, (number, 1), |ctx, args, (number, kind)| {
            let key = args.get(2);
            if remove_records(ctx, key, *number, *kind)? {
                *kind += 1;
            }
            if *kind <= 4 {
                return Ok(false);
            }
            ctx.reply().integer(1);
            ctx.event(Class::Stream, "xgroup-destroy", key);
            // Clients that wait for the group get an error.
            ctx.face.signal(ctx.ns, key);
            Ok(true)
        });
        Ok(())
    })();
    ctx.settle(outcome, args);
}

/// Removes some records of a kind of a group. True: none is left.
fn remove_records(ctx: &mut Ctx<'_>, key: &[u8], group: u32, kind: u8) -> Outcome<bool> {
    ctx.retry(|ctx| {
        let mut stream = ctx.open(key, Kind::Stream)?.ok_or(Refused::Lost)?;
        let (start, mut keys) = (key::start(kind, group), Vec::new());
        stream.scan_records(&start, &mut |found, _| {
            let is_own = found.starts_with(&start);
            if is_own {
                keys.push(found.to_vec());
            }
            is_own && keys.len() < SOME
        })?;
        if keys.is_empty() {
            return Ok(Some(true));
        }
        let is_last = keys.len() < SOME;
        keys.into_iter().for_each(|key| stream.set_record(key, None));
        Ok(stream.commit(ctx)?.map(|()| is_last))
    })
}
