//! COMMAND: properties of the commands.

use larder_proto::resp::{
    Args, Owned,
    glob::{self, Pattern},
    table::{self, Command, category, docs, flag, key, names},
};

use crate::redis::{
    ctx::Ctx,
    job::{Job, Progress},
};

pub(crate) fn command(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    let mut reply = ctx.reply();
    reply.array(table::all().count());
    table::all().for_each(|command| docs::describe(&mut reply, command));
}

pub(crate) fn count(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    ctx.reply().count(table::all().count());
}

/// Finds a command by its name, a subcommand by both names (`config|get`).
fn named(name: &[u8]) -> Option<&'static Command> {
    let mut words = name.splitn(2, |&b| b == b'|');
    let command = table::find(words.next()?)?;
    match words.next() {
        Some(subcommand) => command.subcommand(subcommand),
        None => Some(command),
    }
}

pub(crate) fn info(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    if args.len() == 2 {
        return command(ctx, args);
    }
    ctx.reply().array(args.len() - 2);
    ctx.go(Info { at: 2 }, args);
}

/// A COMMAND INFO in progress.
struct Info {
    /// The next name.
    at: usize,
}

impl Job for Info {
    fn is_apart(&self) -> bool {
        true
    }

    fn step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Progress {
        while self.at < args.len() {
            match named(args.get(self.at)) {
                Some(command) => docs::describe(&mut ctx.reply(), command),
                None => ctx.reply().null(),
            }
            self.at += 1;
            if ctx.overflows() {
                break;
            }
            if ctx.is_over() {
                return Progress::Again;
            }
        }
        Progress::Done
    }
}

pub(crate) fn docs(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let commands = if args.len() == 2 { table::all().collect() } else { Vec::new() };
    ctx.go(Docs { commands, at: 2, written: None }, args);
}

/// A COMMAND DOCS in progress.
struct Docs {
    commands: Vec<&'static Command>,
    /// The next name to look up.
    at: usize,
    /// Number of commands answered; `None` before the head.
    written: Option<usize>,
}

impl Job for Docs {
    fn is_apart(&self) -> bool {
        true
    }

    fn step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Progress {
        while self.at < args.len() {
            self.commands.extend(named(args.get(self.at)));
            self.at += 1;
            if self.at.is_multiple_of(64) && ctx.is_over() {
                return Progress::Again;
            }
        }
        if self.written.is_none() {
            ctx.reply().map(self.commands.len());
        }
        let written = self.written.get_or_insert(0);
        while let Some(command) = self.commands.get(*written) {
            docs::write(&mut ctx.reply(), command);
            *written += 1;
            if ctx.overflows() {
                break;
            }
            if ctx.is_over() {
                return Progress::Again;
            }
        }
        Progress::Done
    }
}

pub(crate) fn list(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let value = args.get(4);
    let everything =
        || table::all().flat_map(|command| std::iter::once(command).chain(command.subcommands));
    let chosen: Vec<&str> = match args.len() {
        2 => everything().map(|command| command.name).collect(),
        5 if args.is(2, "filterby") && args.is(3, "module") => Vec::new(),
        5 if args.is(2, "filterby") && args.is(3, "aclcat") => {
            let wanted =
                category::NAMES.iter().position(|name| name.as_bytes().eq_ignore_ascii_case(value));
            let bit = wanted.map_or(0, |at| 1u32 << at);
            everything()
                .filter(|command| command.categories & bit != 0)
                .map(|command| command.name)
                .collect()
        }
        5 if args.is(2, "filterby") && args.is(3, "pattern") => {
            if value.len() > glob::LONGEST {
                return ctx.reply().error(glob::TOO_LONG);
            }
            let value = value.to_ascii_lowercase();
            let pattern = Pattern::new(&value);
            everything()
                .map(|command| command.name)
                .filter(|name| pattern.matches(name.as_bytes()))
                .collect()
        }
        _ => return ctx.reply().error("ERR syntax error"),
    };
    let mut reply = ctx.reply();
    reply.array(chosen.len());
    chosen.iter().for_each(|name| reply.bulk(name.as_bytes()));
}

/// The command that the arguments from the third on form.
fn inner(args: &Args<'_>) -> Owned {
    let parts: Vec<&[u8]> = args.from(2).collect();
    Owned::new(&parts)
}

/// The same command as the table has it, and the positions of its keys.
fn keys(args: &Args<'_>) -> Result<(&'static Command, Vec<usize>), &'static str> {
    let inner = inner(args);
    let inner = inner.args();
    let name = inner.get(0);
    let command = table::find(name).and_then(|own| match own.subcommands {
        [_, ..] if inner.len() > 1 => own.subcommand(inner.get(1)),
        _ => Some(own),
    });
    let Some(command) = command else { return Err("ERR Invalid command specified") };
    if command.first == 0 && !command.has(flag::MOVABLEKEYS) {
        return Err("ERR The command has no key arguments");
    }
    if !command.takes(inner.len()) {
        return Err("ERR Invalid number of arguments specified for command");
    }
    let is_valid = command.keys.iter().all(|spec| spec.is_valid(&inner));
    let places = if is_valid { command.places(&inner) } else { Vec::new() };
    if places.is_empty() && !command.has(flag::NO_MANDATORY_KEYS) {
        return Err("ERR Invalid arguments specified for command");
    }
    Ok((command, places))
}

pub(crate) fn get_keys(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    match keys(args) {
        Ok((_, places)) => {
            let mut reply = ctx.reply();
            reply.array(places.len());
            places.iter().for_each(|place| reply.bulk(args.get(place + 2)));
        }
        Err(error) => ctx.reply().error(error),
    }
}

pub(crate) fn get_keys_and_flags(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let (command, places) = match keys(args) {
        Ok(found) => found,
        Err(error) => return ctx.reply().error(error),
    };
    let inner = inner(args);
    let uses = command.uses(&inner.args());
    let mut reply = ctx.reply();
    reply.array(places.len());
    for (nth, place) in places.iter().enumerate() {
        // One specification per key, or one for all keys.
        let spec = command.keys.get(nth).or(command.keys.last());
        let flags = || spec.map_or(0, |spec| command.flags_with(spec.flags, &inner.args()));
        let used = uses.iter().find(|(used, _)| used == place).filter(|_| uses.len() > 1);
        let flags = used.map_or_else(flags, |(_, flags)| *flags);
        reply.array(2);
        reply.bulk(args.get(place + 2));
        reply.set(flags.count_ones() as usize);
        names(flags, &key::NAMES).for_each(|name| reply.simple(name));
    }
}
