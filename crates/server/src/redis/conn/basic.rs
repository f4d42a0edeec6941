//! AUTH, HELLO, PING, ECHO, SELECT, QUIT, RESET.

use larder_proto::resp::{Args, Version, number};

use crate::redis::{
    acl::{self, Context, Reason},
    ctx::Ctx,
    dispatch::text,
    job::{Job, Progress},
    monitor, multi,
    state::{Answers, gate},
};

use super::{client, pubsub, tracking};

/// The Redis version that this face follows; clients choose their commands by it.
pub(crate) const REDIS_VERSION: &str = "7.0.15";

const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";

pub(crate) fn ping(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    if args.len() > 2 {
        return ctx.reply().error("ERR wrong number of arguments for 'ping' command");
    }
    if ctx.conn.gates & gate::SUBSCRIBER != 0 {
        // Subscribers in RESP2 parse everything as messages.
        ctx.reply().array(2);
        ctx.reply().bulk(b"pong");
        return ctx.reply().bulk(args.get(1));
    }
    match args.len() {
        1 => ctx.reply().raw(b"+PONG\r\n"),
        _ => ctx.reply().bulk(args.get(1)),
    }
}

pub(crate) fn echo(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    ctx.reply().bulk(args.get(1));
}

pub(crate) fn select(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let Some(db) = number::parse_i64(args.get(1)) else {
        return ctx.reply().error("ERR value is not an integer or out of range");
    };
    if i32::try_from(db).is_err() {
        let error =
            format!("ERR value is out of range, value must between {} and {}", i32::MIN, i32::MAX);
        return ctx.reply().error(error);
    }
    match u8::try_from(db).ok().filter(|db| *db < ctx.shared.databases()) {
        Some(db) => {
            ctx.conn.select(db, ctx.shared);
            ctx.reply().ok();
        }
        None => ctx.reply().error("ERR DB index is out of range"),
    }
}

/// Ends what others send to this client: subscriptions, MONITOR, tracking. `false`: there are so
/// many subscriptions that the rest is for another step.
fn leave(ctx: &mut Ctx<'_>) -> bool {
    while pubsub::leave_some(ctx.shared, ctx.conn) {
        if ctx.is_over() {
            return false;
        }
    }
    ctx.conn.settle();
    monitor::leave(ctx.shared, &ctx.conn.known);
    tracking::off(ctx.shared, ctx.conn);
    true
}

pub(crate) fn quit(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    ctx.go(Quit, args);
}

/// A QUIT in progress. For others the client is gone before it has its answer, as in Redis: it is
/// no receiver of messages and invalidations any more.
struct Quit;

impl Job for Quit {
    fn is_apart(&self) -> bool {
        true
    }

    fn step(&mut self, ctx: &mut Ctx<'_>, _args: &Args<'_>) -> Progress {
        if !leave(ctx) {
            return Progress::Again;
        }
        ctx.shared.registry.leave(ctx.conn.known.id());
        ctx.take_messages();
        ctx.conn.closing = true;
        ctx.reply().ok();
        Progress::Done
    }
}

pub(crate) fn reset(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    ctx.go(Reset, args);
}

/// A RESET in progress: a connection may have many subscriptions.
struct Reset;

impl Job for Reset {
    fn is_apart(&self) -> bool {
        true
    }

    fn step(&mut self, ctx: &mut Ctx<'_>, _args: &Args<'_>) -> Progress {
        if !leave(ctx) {
            return Progress::Again;
        }
        multi::end(ctx.conn);
        // Earlier messages precede the confirmation that the subscription has ended.
        ctx.take_messages();
        let Ctx { conn, shared, .. } = ctx;
        if conn.answers != Answers::On {
            conn.answers = Answers::Reset;
        }
        conn.select(0, shared);
        conn.known.text.lock().name.clear();
        conn.known.text.lock().user = acl::DEFAULT.to_vec();
        acl::enter(shared, conn);
        conn.set_version(Version::V2);
        ctx.version = Version::V2;
        ctx.reply().simple("RESET");
        Progress::Done
    }
}

/// Authenticates the connection if name and password are right; else answers.
fn authenticate(ctx: &mut Ctx<'_>, command: &[u8], user: &[u8], password: &[u8]) -> bool {
    if let Some(slot) = ctx.shared.acl.admitted(user, password) {
        acl::log_in(ctx.shared, ctx.conn, slot);
        return true;
    }
    ctx.face.counters.acl_access_denied_auth.one();
    let context = if ctx.conn.in_exec { Context::Multi } else { Context::Top };
    acl::refusal(ctx.shared, ctx.conn, Reason::Auth, context, command, Some(user));
    ctx.reply().error(WRONG_PASSWORD);
    false
}

pub(crate) fn auth(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    if args.len() > 3 {
        return ctx.reply().error("ERR syntax error");
    }
    if args.len() == 2 && ctx.shared.acl.is_open() {
        return ctx.reply().error(
            "ERR AUTH <password> called without any password configured for the default user. Are \
             you sure your configuration is correct?",
        );
    }
    let (user, password) =
        if args.len() == 2 { (acl::DEFAULT, args.get(1)) } else { (args.get(1), args.get(2)) };
    if authenticate(ctx, args.get(0), user, password) {
        ctx.reply().ok();
    }
}

pub(crate) fn hello(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let version = match args.len() {
        1 => None,
        _ => match number::parse_i64(args.get(1)) {
            Some(2) => Some(Version::V2),
            Some(3) => Some(Version::V3),
            Some(_) => return ctx.reply().error("NOPROTO unsupported protocol version"),
            None => {
                return ctx.reply().error("ERR Protocol version is not an integer or out of range");
            }
        },
    };
    let (mut credentials, mut name) = (None, None);
    let mut at = 2;
    while at < args.len() {
        let more = args.len() - 1 - at;
        if args.is(at, "auth") && more >= 2 {
            credentials = Some((args.get(at + 1), args.get(at + 2)));
            at += 3;
        } else if args.is(at, "setname") && more >= 1 {
            let wanted = args.get(at + 1);
            if !client::is_name(wanted) {
                return ctx.reply().error(client::BAD_NAME);
            }
            name = Some(wanted);
            at += 2;
        } else {
            let error = format!("ERR Syntax error in HELLO option '{}'", text(args.get(at)));
            return ctx.reply().error(error);
        }
    }
    if let Some((user, password)) = credentials
        && !authenticate(ctx, args.get(0), user, password)
    {
        return;
    }
    if ctx.conn.gates & gate::STRANGER != 0 {
        return ctx.reply().error(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
             HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and \
             select the RESP protocol version at the same time",
        );
    }
    if let Some(name) = name {
        ctx.conn.known.text.lock().name = name.to_vec();
    }
    if let Some(version) = version {
        ctx.conn.set_version(version);
        ctx.version = version;
    }
    greet(ctx);
}

fn greet(ctx: &mut Ctx<'_>) {
    let (version, id) = (ctx.version, ctx.conn.known.id());
    let mut reply = ctx.reply();
    reply.map(7);
    reply.bulk(b"server");
    reply.bulk(b"redis");
    reply.bulk(b"version");
    reply.bulk(REDIS_VERSION.as_bytes());
    reply.bulk(b"proto");
    reply.integer(if version == Version::V3 { 3 } else { 2 });
    reply.bulk(b"id");
    reply.integer(id as i64);
    reply.bulk(b"mode");
    reply.bulk(b"standalone");
    reply.bulk(b"role");
    reply.bulk(b"master");
    reply.bulk(b"modules");
    reply.array(0);
}
