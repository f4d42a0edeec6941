//! CLIENT KILL, in the old form (an address) and the new form (filters).

use larder_proto::resp::{Args, number};

use crate::redis::{acl::Acl, ctx::Ctx, dispatch::text, known::Known};

use super::client::{Type, address, local_address, type_named, type_of};

/// Conditions that a connection must meet to be closed.
#[derive(Default)]
struct Filter<'a> {
    id: Option<u64>,
    kind: Option<Type>,
    address: Option<&'a [u8]>,
    local: Option<&'a [u8]>,
    user: Option<&'a [u8]>,
    /// Excludes the calling connection.
    skip_me: bool,
}

impl<'a> Filter<'a> {
    /// Parses pairs of name and value. `Err`: the error message.
    fn read(args: &Args<'a>, users: &Acl) -> Result<Filter<'a>, String> {
        let mut filter = Filter { skip_me: true, ..Filter::default() };
        let mut at = 2;
        while at < args.len() {
            if at + 1 >= args.len() {
                return Err("ERR syntax error".to_owned());
            }
            let value = args.get(at + 1);
            if args.is(at, "id") {
                let id = number::parse_i64(value).filter(|id| *id > 0);
                filter.id = Some(id.ok_or("ERR client-id should be greater than 0")? as u64);
            } else if args.is(at, "type") {
                let kind = type_named(value);
                filter.kind =
                    Some(kind.ok_or_else(|| format!("ERR Unknown client type '{}'", text(value)))?);
            } else if args.is(at, "addr") {
                filter.address = Some(value);
            } else if args.is(at, "laddr") {
                filter.local = Some(value);
            } else if args.is(at, "user") {
                if users.user(value).is_none() {
                    return Err(format!("ERR No such user '{}'", text(value)));
                }
                filter.user = Some(value);
            } else if args.is(at, "skipme") && (args.is(at + 1, "yes") || args.is(at + 1, "no")) {
                filter.skip_me = args.is(at + 1, "yes");
            } else {
                return Err("ERR syntax error".to_owned());
            }
            at += 2;
        }
        Ok(filter)
    }

    fn matches(&self, known: &Known, me: u64) -> bool {
        self.id.is_none_or(|id| id == known.id())
            && self.kind.is_none_or(|kind| kind == type_of(known))
            && self.address.is_none_or(|wanted| address(&known.client).as_bytes() == wanted)
            && self.local.is_none_or(|wanted| local_address(&known.client).as_bytes() == wanted)
            && self.user.is_none_or(|user| known.text.lock().user == user)
            && !(self.skip_me && known.id() == me)
    }
}

pub(crate) fn kill(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let old = args.len() == 3;
    let filter = if old {
        // The old form does not exclude the caller.
        Ok(Filter { address: Some(args.get(2)), ..Filter::default() })
    } else {
        Filter::read(args, &ctx.shared.acl)
    };
    let filter = match filter {
        Ok(filter) => filter,
        Err(error) => return ctx.reply().error(error),
    };
    let me = ctx.conn.known.id();
    let mut killed = 0;
    for known in ctx.shared.registry.list() {
        if !filter.matches(&known, me) {
            continue;
        }
        killed += 1;
        if known.id() == me {
            // The answer to this command is still sent.
            ctx.conn.closing = true;
        } else {
            known.client.kill();
        }
    }
    match (old, killed) {
        (true, 0) => ctx.reply().error("ERR No such client"),
        (true, _) => ctx.reply().ok(),
        (false, killed) => ctx.reply().integer(killed),
    }
}
