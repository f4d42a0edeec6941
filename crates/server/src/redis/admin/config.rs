//! CONFIG.

use larder_proto::resp::{
    Args,
    glob::{self, Pattern},
};

use crate::redis::{
    config::params::{PARAMS, Param},
    ctx::Ctx,
    dispatch::text,
    job::{Job, Progress},
    shared::Shared,
};

use super::info::figures;

pub(crate) fn get(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    if args.from(2).any(|wanted| wanted.len() > glob::LONGEST) {
        return ctx.reply().error(glob::TOO_LONG);
    }
    ctx.go(Get { at: 2, found: Vec::new() }, args);
}

/// A CONFIG GET in progress: each of a thousand patterns may take a tenth of a millisecond.
struct Get {
    /// The next argument.
    at: usize,
    found: Vec<(Vec<u8>, String)>,
}

impl Get {
    /// Adds the parameters that are named so, or match the pattern.
    fn find(&mut self, shared: &Shared, wanted: &[u8]) {
        let lower = wanted.to_ascii_lowercase();
        let is_pattern = wanted.iter().any(|byte| b"*?[".contains(byte));
        let pattern = is_pattern.then(|| Pattern::new(&lower));
        for param in PARAMS {
            for name in [Some(param.name), param.alias].into_iter().flatten() {
                let (is, shown) = match &pattern {
                    Some(pattern) => {
                        let is = !param.is_hidden() && pattern.matches(name.as_bytes());
                        (is, name.as_bytes())
                    }
                    // An exact name is answered in the client's spelling.
                    None => (name.as_bytes() == lower, wanted),
                };
                if is && !self.found.iter().any(|(known, _)| known.eq_ignore_ascii_case(shown)) {
                    self.found.push((shown.to_vec(), param.value(shared)));
                }
            }
        }
    }
}

impl Job for Get {
    fn is_apart(&self) -> bool {
        true
    }

    fn step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Progress {
        while self.at < args.len() {
            self.find(ctx.shared, args.get(self.at));
            self.at += 1;
            if ctx.is_over() {
                return Progress::Again;
            }
        }
        let mut reply = ctx.reply();
        reply.map(self.found.len());
        for (name, value) in &self.found {
            reply.bulk(name);
            reply.bulk(value.as_bytes());
        }
        Progress::Done
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
    // This call is the first of the new time.
    let own = |name: &str| u64::from(name == "command config|resetstat 0");
    let figures = figures(ctx.shared).map(|(name, value)| {
        let before = value - own(&name);
        (name, before)
    });
    ctx.shared.baseline.reset(figures);
    ctx.shared.counters.iter().for_each(|worker| {
        worker.hot.forget();
        worker.forget_latencies();
    });
    ctx.reply().ok();
}

pub(crate) fn rewrite(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    ctx.reply().error("ERR The server is running without a config file");
}
