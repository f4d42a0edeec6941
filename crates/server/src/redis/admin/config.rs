//! CONFIG.

use larder_proto::resp::{Args, glob};

use crate::redis::{
    config::params::{PARAMS, Param},
    ctx::Ctx,
    dispatch::text,
};

use super::info::figures;

pub(crate) fn get(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let patterns: Vec<Vec<u8>> = args.from(2).map(<[u8]>::to_ascii_lowercase).collect();
    let wanted = |name: &str| patterns.iter().any(|pattern| glob::matches(pattern, name.as_bytes()));
    let names = |param: &'static Param| [Some(param.name), param.alias].into_iter().flatten();
    let shared = ctx.shared;
    let found: Vec<(&str, String)> = PARAMS
        .iter()
        .flat_map(|param| names(param).filter(|name| wanted(name)).map(move |name| (name, param.value(shared))))
        .collect();
    let mut reply = ctx.reply();
    reply.map(found.len());
    for (name, value) in found {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
}

/// All or none: names are looked at before anything is set, and what was set is set back when a value is refused.
pub(crate) fn set(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    if args.len() % 2 != 0 {
        return ctx.reply().error("ERR syntax error");
    }
    let mut found: Vec<(&Param, &[u8])> = Vec::new();
    for at in (2..args.len()).step_by(2) {
        let name = args.get(at);
        let Some(param) = PARAMS.iter().find(|param| param.is(name)) else {
            let error = format!("ERR Unknown option or number of arguments for CONFIG SET - '{}'", text(name));
            return ctx.reply().error(error);
        };
        if found.iter().any(|(known, _)| std::ptr::eq(*known, param)) {
            return refuse(ctx, param, "duplicate parameter");
        }
        found.push((param, args.get(at + 1)));
    }
    let mut before: Vec<(&Param, String)> = Vec::new();
    for (param, value) in found {
        let old = param.value(ctx.shared);
        if let Err(reason) = param.set(ctx.shared, value) {
            for (param, old) in before {
                let _ = param.set(ctx.shared, old.as_bytes());
            }
            return refuse(ctx, param, &reason);
        }
        before.push((param, old));
    }
    ctx.reply().ok();
}

fn refuse(ctx: &mut Ctx<'_>, param: &Param, reason: &str) {
    let error = format!("ERR CONFIG SET failed (possibly related to argument '{}') - {reason}", param.name);
    ctx.reply().error(error);
}

pub(crate) fn reset_statistics(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    ctx.shared.baseline.reset(figures(ctx.shared));
    ctx.reply().ok();
}

pub(crate) fn rewrite(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    ctx.reply().error("ERR The server is running without a config file");
}
