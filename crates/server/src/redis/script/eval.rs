//! EVAL, EVALSHA and their variants that only read.

use std::sync::Arc;

use larder_proto::resp::{Args, number::parse_i64};
use larder_script::{Task, Work, sha1_hex};

use super::{
    cache::Script,
    job::ScriptJob,
    running::BUSY,
    shebang::{self, NO_WRITES},
};
use crate::redis::{attention, ctx::Ctx, monitor};

/// EVAL script numkeys [key ...] [arg ...]
pub(super) fn eval(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    run(ctx, args, false, false);
}

/// EVALSHA sha1 numkeys [key ...] [arg ...]
pub(super) fn eval_sum(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    run(ctx, args, true, false);
}

/// EVAL_RO script numkeys [key ...] [arg ...]
pub(super) fn eval_read_only(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    run(ctx, args, false, true);
}

/// EVALSHA_RO sha1 numkeys [key ...] [arg ...]
pub(super) fn eval_sum_read_only(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    run(ctx, args, true, true);
}

/// Shows the script to the monitors, before its commands.
pub(super) fn show(ctx: &Ctx<'_>, args: &Args<'_>) {
    if attention::any(ctx.shared, attention::MONITOR) {
        monitor::show(ctx.face, ctx.conn, args);
    }
}

fn run(ctx: &mut Ctx<'_>, args: &Args<'_>, by_sum: bool, read_only: bool) {
    show(ctx, args);
    let keys = match keys(args) {
        Ok(keys) => keys,
        Err(text) => return ctx.reply().error(text),
    };
    let script = match find(ctx, args.get(1), by_sum) {
        Ok(script) => script,
        Err(text) => return ctx.reply().error(text),
    };
    let only_reads = script.flags.map(|flags| flags & NO_WRITES != 0);
    if read_only && only_reads == Some(false) {
        return ctx.reply().error(WRITES);
    }
    let read_only = read_only || only_reads == Some(true);
    let task = task(ctx, args, (script.name, script.text, Work::Run), keys);
    start(ctx, args, task, (read_only, script.flags));
}

/// Error for a script or function with flags, of which none says that it does not write.
pub(super) const WRITES: &str = "ERR Can not execute a script with write flag using *_ro command.";

/// The call of a script or function with so many keys.
pub(super) fn task(
    ctx: &Ctx<'_>,
    args: &Args<'_>,
    (name, text, work): (Arc<str>, Arc<[u8]>, Work),
    keys: usize,
) -> Task {
    let list =
        |from: usize, to: usize| args.from(from).take(to - from).map(<[u8]>::to_vec).collect();
    let (keys, args) = (list(3, 3 + keys), list(3 + keys, args.len()));
    Task { name, text, work, keys, args, version: ctx.version }
}

/// Runs or compiles a script: does it read only, and which flags has it?
pub(super) fn start(ctx: &mut Ctx<'_>, args: &Args<'_>, task: Task, kind: (bool, Option<u8>)) {
    let Some(state) = ctx.face.machines.take(ctx.face) else {
        return ctx.reply().error(BUSY);
    };
    let job = ScriptJob::new(ctx, args, state, task, kind);
    ctx.go(job, args);
}

/// The number of keys.
fn keys(args: &Args<'_>) -> Result<usize, &'static str> {
    let number = parse_i64(args.get(2)).ok_or("ERR value is not an integer or out of range")?;
    count(args, number)
}

/// The number of keys, which must be there.
pub(super) fn count(args: &Args<'_>, number: i64) -> Result<usize, &'static str> {
    let number = usize::try_from(number).map_err(|_| "ERR Number of keys can't be negative")?;
    if number > args.len() - 3 {
        return Err("ERR Number of keys can't be greater than number of args");
    }
    Ok(number)
}

fn find(ctx: &Ctx<'_>, given: &[u8], by_sum: bool) -> Result<Script, String> {
    if by_sum {
        return ctx
            .shared
            .scripts
            .get(given)
            .ok_or_else(|| "NOSCRIPT No matching script. Please use EVAL.".into());
    }
    script(ctx, given)
}

/// The script with this text, which is kept for EVALSHA.
pub(super) fn script(ctx: &Ctx<'_>, text: &[u8]) -> Result<Script, String> {
    let name = sha1_hex(text);
    if let Some(script) = ctx.shared.scripts.get(name.as_bytes()) {
        return Ok(script);
    }
    let flags = shebang::read(text)?;
    let script = Script { name: name.into(), text: Arc::from(text), flags };
    ctx.shared.scripts.add(ctx.shared.clients.room(), &script);
    Ok(script)
}
