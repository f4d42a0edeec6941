//! ACL, but for LOAD and SAVE.

use std::collections::VecDeque;

use larder_proto::resp::{
    Args, Owned,
    acl::{self, Denied, User, merged},
    number,
    table::{self, category},
};

use crate::{
    redis::{
        acl::{DEFAULT, Revoked},
        ctx::Ctx,
        dispatch::text,
        job::{Job, Progress},
    },
    settings::sha256,
};

/// Default and maximum length of a generated password, in bits.
const PASSWORD_BITS: (i64, i64) = (256, 4096);
/// Entries that ACL LOG shows.
const SHOWN: i64 = 10;

pub(crate) fn who_am_i(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    let user = ctx.conn.known.text.lock().user.clone();
    ctx.reply().bulk(&user);
}

pub(crate) fn users(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    let names = ctx.shared.acl.names();
    ctx.reply().array(names.len());
    names.iter().for_each(|name| ctx.reply().bulk(name));
}

pub(crate) fn list(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let users = ctx.shared.acl.all();
    ctx.reply().array(users.len());
    ctx.go(List { users: users.into() }, args);
}

/// An ACL LIST in progress: to describe a user takes some microseconds for each selector.
struct List {
    users: VecDeque<(Box<[u8]>, std::sync::Arc<User>)>,
}

impl Job for List {
    fn is_apart(&self) -> bool {
        true
    }

    fn step(&mut self, ctx: &mut Ctx<'_>, _args: &Args<'_>) -> Progress {
        while let Some((name, user)) = self.users.pop_front() {
            ctx.reply().bulk(&acl::line(&name, &user));
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

pub(crate) fn get_user(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    match ctx.shared.acl.user(args.get(2)) {
        Some(user) => user.reply(&mut ctx.reply()),
        None => ctx.reply().null(),
    }
}

/// ACL SETUSER username [rule ...]
pub(crate) fn set_user(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let name = args.get(2);
    if name.iter().any(|byte| matches!(byte, b' ' | b'\t'..=b'\r' | 0)) {
        return ctx.reply().error("ERR Usernames can't contain spaces or null characters");
    }
    let rules = match merged(args.from(3)) {
        Ok(rules) => rules,
        Err(at) => {
            let error = format!(
                "ERR Unmatched parenthesis in acl selector starting at '{}'.",
                text(args.get(at + 3))
            );
            return ctx.reply().error(error);
        }
    };
    let mut user = ctx.shared.acl.user(name).map_or_else(User::default, |user| (*user).clone());
    for rule in rules {
        if let Err(mistake) = user.apply(&rule, sha256) {
            let error = format!("ERR Error in ACL SETUSER modifier '{}': {mistake}", text(&rule));
            return ctx.reply().error(error);
        }
    }
    match ctx.shared.acl.set(ctx.shared, name, user) {
        Ok(before) => {
            let before = before.unwrap_or_default();
            match Revoked::new(ctx.shared, name, &before) {
                Some(revoked) => ctx.go(Revoking(revoked), args),
                None => ctx.reply().ok(),
            }
        }
        Err(full) => ctx.reply().error(full.error()),
    }
}

/// An ACL SETUSER that ends connections, in progress.
struct Revoking(Revoked);

impl Job for Revoking {
    fn is_apart(&self) -> bool {
        true
    }

    fn step(&mut self, ctx: &mut Ctx<'_>, _args: &Args<'_>) -> Progress {
        while self.0.step(ctx.shared, ctx.conn.known.id()) {
            if ctx.is_over() {
                return Progress::Again;
            }
        }
        // The answer to this command is still sent.
        ctx.conn.closing |= self.0.has_me;
        ctx.reply().ok();
        Progress::Done
    }
}

/// ACL DELUSER username [username ...]
pub(crate) fn delete(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    if args.from(2).any(|name| name == DEFAULT) {
        return ctx.reply().error("ERR The 'default' user cannot be removed");
    }
    let me = ctx.conn.known.id();
    let (deleted, has_me) = ctx.shared.acl.delete(ctx.shared, args.from(2), me);
    ctx.conn.closing |= has_me;
    ctx.reply().count(deleted);
}

/// ACL DRYRUN username command [arg ...]
pub(crate) fn dry_run(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let Some(user) = ctx.shared.acl.user(args.get(2)) else {
        return ctx.reply().error(format!("ERR User '{}' not found", text(args.get(2))));
    };
    let parts: Vec<&[u8]> = args.from(3).collect();
    let inner = Owned::new(&parts);
    let inner = inner.args();
    let command = table::find(inner.get(0)).and_then(|command| {
        match command.subcommands.is_empty() || inner.len() == 1 {
            true => Some(command),
            false => command.subcommand(inner.get(1)),
        }
    });
    let Some(command) = command else {
        return ctx.reply().error(format!("ERR Command '{}' not found", text(inner.get(0))));
    };
    if !command.takes(inner.len()) {
        let error = format!("ERR wrong number of arguments for '{}' command", command.name);
        return ctx.reply().error(error);
    }
    let refusal = "This user has no permissions to";
    let answer = match user.check(command, &inner) {
        Ok(()) => return ctx.reply().ok(),
        Err(Denied::Command) => format!("{refusal} run the '{}' command", command.name),
        Err(Denied::Key(at)) => format!("{refusal} access the '{}' key", text(inner.get(at))),
        Err(Denied::Channel(at)) => {
            format!("{refusal} access the '{}' channel", text(inner.get(at)))
        }
        Err(Denied::TooLong) => format!("{refusal} use so many or so long keys"),
    };
    ctx.reply().bulk(answer.as_bytes());
}

pub(crate) fn categories(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    if args.len() == 2 {
        let mut reply = ctx.reply();
        reply.array(category::NAMES.len());
        return category::NAMES.iter().for_each(|name| reply.bulk(name.as_bytes()));
    }
    if args.len() > 3 {
        return unknown(ctx, args);
    }
    let wanted =
        category::NAMES.iter().position(|name| name.as_bytes().eq_ignore_ascii_case(args.get(2)));
    let Some(bit) = wanted.map(|at| 1u32 << at) else {
        let error = format!("ERR Unknown category '{}'", text(args.get(2)));
        return ctx.reply().error(error);
    };
    let commands: Vec<_> = table::all()
        .flat_map(|command| std::iter::once(command).chain(command.subcommands))
        .filter(|command| command.categories & bit != 0)
        .collect();
    let mut reply = ctx.reply();
    reply.array(commands.len());
    commands.iter().for_each(|command| reply.bulk(command.name.as_bytes()));
}

/// Redis's answer to a subcommand with too many arguments.
fn unknown(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let name = text(args.get(1)).into_owned();
    ctx.reply().error(format!(
        "ERR unknown subcommand or wrong number of arguments for '{name}'. Try ACL HELP."
    ));
}

pub(crate) fn generate(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    if args.len() > 3 {
        return unknown(ctx, args);
    }
    let bits = if args.len() == 3 { number::parse_i64(args.get(2)) } else { Some(PASSWORD_BITS.0) };
    let Some(bits) = bits else {
        return ctx.reply().error("ERR value is not an integer or out of range");
    };
    if !(1..=PASSWORD_BITS.1).contains(&bits) {
        return ctx.reply().error(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a \
             positive number up to 4096",
        );
    }
    let digits = (bits as usize).div_ceil(4);
    let mut bytes = vec![0; digits.div_ceil(2)];
    let random = aws_lc_rs::rand::SystemRandom::new();
    if aws_lc_rs::rand::SecureRandom::fill(&random, &mut bytes).is_err() {
        return ctx.reply().error("ERR the system has no random numbers");
    }
    let password: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    ctx.reply().bulk(&password.as_bytes()[..digits]);
}

/// ACL LOG [count | RESET]
pub(crate) fn log(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    if args.len() > 3 {
        return unknown(ctx, args);
    }
    if args.is(2, "reset") {
        ctx.shared.acl.log.lock().clear();
        return ctx.reply().ok();
    }
    let count = if args.len() == 3 { number::parse_i64(args.get(2)) } else { Some(SHOWN) };
    let Some(count) = count else {
        return ctx.reply().error("ERR value is not an integer or out of range");
    };
    let entries = ctx.shared.acl.log.lock().latest(count.max(0) as usize);
    let now = ctx.shared.clock.now();
    let mut reply = ctx.reply();
    reply.array(entries.len());
    for entry in entries {
        reply.map(7);
        reply.bulk(b"count");
        reply.count(entry.count as usize);
        for (name, value) in [
            ("reason", entry.kind.0.word().as_bytes()),
            ("context", entry.kind.1.word().as_bytes()),
            ("object", &entry.object),
            ("username", &entry.user),
        ] {
            reply.bulk(name.as_bytes());
            reply.bulk(value);
        }
        reply.bulk(b"age-seconds");
        reply.double(now.saturating_sub(entry.at) as f64 / 1000.0);
        reply.bulk(b"client-info");
        reply.bulk(entry.client.as_bytes());
    }
}
