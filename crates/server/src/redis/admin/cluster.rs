//! CLUSTER, READONLY, READWRITE: there is no cluster.

use larder_proto::resp::{
    Args,
    table::{self, Id},
};

use crate::redis::{ctx::Ctx, dispatch::Handler};

pub(crate) fn handler(id: Id) -> Option<Handler> {
    let cluster = || table::find(b"cluster").into_iter().flat_map(|command| command.subcommands);
    match id {
        Id::Readonly | Id::Readwrite => Some(disabled),
        id if cluster().any(|command| command.id == id) => Some(disabled),
        _ => None,
    }
}

fn disabled(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    ctx.reply().error("ERR This instance has cluster support disabled");
}
