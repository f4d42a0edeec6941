//! Commands outside Larder's table of Redis 7.0 that clients and tools send: newer ones, and a few
//! that answer that the feature is absent.

use larder_proto::resp::{Args, table};

use super::{
    conn::client,
    ctx::Ctx,
    dispatch::{Found, Handler},
};

/// Name, subcommand (empty: any), minimum and maximum of arguments, handler, and the command that
/// counts it.
static EXTRA: &[(&str, &str, usize, usize, Handler, &str)] = &[
    ("client", "setinfo", 4, 4, client::set_info, "client"),
    ("client", "no-touch", 3, 3, client::no_touch, "client"),
    ("module", "list", 2, 2, empty, "command"),
];

/// The handler of a command that is missing in the table.
#[cold]
pub(crate) fn find(args: &Args<'_>) -> Option<Found> {
    let fits =
        |(name, subcommand, least, most, ..): &&(&str, &str, usize, usize, Handler, &str)| {
            args.is(0, name)
                && (subcommand.is_empty() || args.is(1, subcommand))
                && (*least..=*most).contains(&args.len())
        };
    let (.., handler, counted) = EXTRA.iter().find(fits)?;
    Some(Found { command: table::find(counted.as_bytes())?, handler: *handler })
}

fn empty(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    ctx.reply().array(0);
}
