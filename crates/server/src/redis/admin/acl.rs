//! ACL: users have passwords; every user may run every command.

use larder_proto::resp::{
    Args, number,
    table::{self, category},
};

use crate::redis::{ctx::Ctx, dispatch::text};

/// Default and maximum length of a generated password, in bits.
const PASSWORD_BITS: (i64, i64) = (256, 4096);

pub(crate) fn who_am_i(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    let user = ctx.conn.known.text.lock().user.clone();
    ctx.reply().bulk(&user);
}

/// All users, `default` first, and whether they need a password.
fn all_users(ctx: &Ctx<'_>) -> Vec<(String, bool)> {
    let config = &ctx.shared.config;
    let mut all = vec![("default".to_owned(), config.has_password())];
    all.extend(
        config.users().into_iter().filter(|name| name != "default").map(|name| (name, true)),
    );
    all
}

pub(crate) fn users(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    let all = all_users(ctx);
    ctx.reply().array(all.len());
    all.iter().for_each(|(name, _)| ctx.reply().bulk(name.as_bytes()));
}

pub(crate) fn list(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    let all = all_users(ctx);
    ctx.reply().array(all.len());
    for (name, secret) in all {
        // Passwords are not shown, not even as hashes.
        let line = format!("user {name} on {}~* &* +@all", if secret { "" } else { "nopass " });
        ctx.reply().bulk(line.as_bytes());
    }
}

pub(crate) fn get_user(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let all = all_users(ctx);
    let Some((_, secret)) = all.iter().find(|(name, _)| name.as_bytes() == args.get(2)) else {
        return ctx.reply().null();
    };
    let mut reply = ctx.reply();
    reply.map(6);
    reply.bulk(b"flags");
    reply.set(if *secret { 1 } else { 2 });
    reply.bulk(b"on");
    if !secret {
        reply.bulk(b"nopass");
    }
    reply.bulk(b"passwords");
    reply.array(0);
    for (name, value) in [("commands", "+@all"), ("keys", "~*"), ("channels", "&*")] {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"selectors");
    reply.array(0);
}

pub(crate) fn categories(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    if args.len() == 2 {
        let mut reply = ctx.reply();
        reply.array(category::NAMES.len());
        return category::NAMES.iter().for_each(|name| reply.bulk(name.as_bytes()));
    }
    if args.len() > 3 {
        return ctx
            .reply()
            .error("ERR unknown subcommand or wrong number of arguments for 'CAT'. Try ACL HELP.");
    }
    let wanted =
        category::NAMES.iter().position(|name| name.as_bytes().eq_ignore_ascii_case(args.get(2)));
    let Some(bit) = wanted.map(|at| 1u32 << at) else {
        let error = format!("ERR Unknown category '{}'", text(args.get(2)));
        return ctx.reply().error(error);
    };
    let commands: Vec<_> = table::all()
        .flat_map(|command| std::iter::once(command).chain(command.subcommands))
        .filter(|command| command.subcommands.is_empty() && command.categories & bit != 0)
        .collect();
    let mut reply = ctx.reply();
    reply.array(commands.len());
    commands.iter().for_each(|command| reply.bulk(command.name.as_bytes()));
}

pub(crate) fn generate(ctx: &mut Ctx<'_>, args: &Args<'_>) {
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
    // Seeds from the system for every 64 bits: the password must be unpredictable.
    let state = || {
        std::hash::BuildHasher::hash_one(
            &std::collections::hash_map::RandomState::new(),
            ctx.shared.random(),
        )
    };
    let digits = (bits as usize).div_ceil(4);
    let mut password = String::new();
    while password.len() < digits {
        password.push_str(&format!("{:016x}", state()));
    }
    ctx.reply().bulk(&password.as_bytes()[..digits]);
}

pub(crate) fn log(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    if args.is(2, "reset") { ctx.reply().ok() } else { ctx.reply().array(0) }
}

pub(crate) fn fixed(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    ctx.reply()
        .error("ERR Larder's users are those of its configuration: change redis.users there");
}
