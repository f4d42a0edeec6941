//! SCRIPT.

use larder_proto::resp::Args;
use larder_script::{Task, Work};

use super::{eval, running};
use crate::redis::ctx::Ctx;

/// SCRIPT LOAD script: its SHA-1, or the compiler's error.
pub(super) fn load(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let script = match eval::script(ctx, args.get(2)) {
        Ok(script) => script,
        Err(text) => return ctx.reply().error(text),
    };
    let task = Task {
        name: script.name,
        text: script.text,
        work: Work::Compile,
        keys: Vec::new(),
        args: Vec::new(),
        version: ctx.version,
    };
    eval::start(ctx, args, task, (true, None));
}

/// SCRIPT EXISTS sha1 [sha1 ...]
pub(super) fn exists(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    ctx.reply().array(args.len() - 2);
    for name in args.from(2) {
        let is_known = ctx.shared.scripts.get(name).is_some();
        ctx.reply().integer(is_known.into());
    }
}

/// SCRIPT FLUSH [ASYNC | SYNC]
pub(super) fn flush(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let is_mode = args.is(2, "sync") || args.is(2, "async");
    if args.len() > 3 || (args.len() == 3 && !is_mode) {
        return ctx.reply().error("ERR SCRIPT FLUSH only support SYNC|ASYNC option");
    }
    ctx.shared.scripts.flush();
    ctx.reply().ok();
}

/// SCRIPT KILL
pub(super) fn kill(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    match running::kill(ctx.shared, false) {
        Ok(()) => ctx.reply().ok(),
        Err(text) => ctx.reply().error(text),
    }
}

/// SCRIPT DEBUG: there is no debugger; NO is what it is.
pub(super) fn debug(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    if args.is(2, "no") {
        return ctx.reply().ok();
    }
    if args.is(2, "yes") || args.is(2, "sync") {
        return ctx.reply().error("ERR Larder has no debugger of scripts");
    }
    ctx.reply().error("ERR Use SCRIPT DEBUG YES/SYNC/NO");
}
