//! CONFIG.

use larder_proto::resp::{Args, glob};

use crate::redis::{
    config::params::{PARAMS, Param},
    ctx::Ctx,
    dispatch::text,
};

use super::info::figures;

pub(crate) fn get(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let shared = ctx.shared;
    let mut found: Vec<(Vec<u8>, String)> = Vec::new();
    if args.from(2).any(|wanted| wanted.len() > glob::LONGEST) {
        return ctx.reply().error(glob::TOO_LONG);
    }
    for wanted in args.from(2) {
        let pattern = wanted.iter().any(|byte| b"*?[".contains(byte));
        let lower = wanted.to_ascii_lowercase();
        for param in PARAMS {
            for name in [Some(param.name), param.alias].into_iter().flatten() {
                let is = if pattern {
                    glob::matches(&lower, name.as_bytes())
                } else {
                    name.as_bytes() == lower
                };
                // An exact name is answered in the client's spelling.
                let shown = if pattern { name.as_bytes() } else { wanted };
                if is && !found.iter().any(|(known, _)| known.eq_ignore_ascii_case(shown)) {
                    found.push((shown.to_vec(), param.value(shared)));
                }
            }
        }
    }
    let mut reply = ctx.reply();
    reply.map(found.len());
    for (name, value) in found {
        reply.bulk(&name);
        reply.bulk(value.as_bytes());
    }
}

/// Sets all or none: checks the names first, and restores earlier values if one is refused.
pub(crate) fn set(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    if !args.len().is_multiple_of(2) {
        return ctx.reply().error("ERR syntax error");
    }
    let mut found: Vec<(&Param, &[u8])> = Vec::new();
    for at in (2..args.len()).step_by(2) {
        let name = args.get(at);
        let Some(param) = PARAMS.iter().find(|param| param.is_named(name)) else {
            let error = format!(
                "ERR Unknown option or number of arguments for CONFIG SET - '{}'",
                text(name)
            );
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
    let error =
        format!("ERR CONFIG SET failed (possibly related to argument '{}') - {reason}", param.name);
    ctx.reply().error(error);
}

pub(crate) fn reset_statistics(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    ctx.shared.baseline.reset(figures(ctx.shared));
    ctx.shared.counters.iter().for_each(|worker| worker.hot.forget());
    ctx.reply().ok();
}

pub(crate) fn rewrite(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    ctx.reply().error("ERR The server is running without a config file");
}
