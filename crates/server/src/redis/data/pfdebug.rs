//! PFDEBUG and PFSELFTEST: the registers of HyperLogLogs, and a test of their counts.

use larder_proto::resp::{
    Args,
    hyperloglog::{Check, REGISTERS},
};
use larder_store::Entry;

use super::super::{
    ctx::{Class, Ctx},
    dispatch::text,
    job::{Job, Progress},
};
use super::access::string;
use super::errors::Outcome;
use super::hyperloglog::{of, put};

/// PFDEBUG GETREG | DECODE | ENCODING | TODENSE key
pub(super) fn pfdebug(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = debug(ctx, args);
    ctx.settle(outcome, args);
}

fn debug(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome {
    let key = args.get(2);
    let old = string(ctx.look(key))?.ok_or("ERR The specified key does not exist")?;
    let mut own = of(&old)?;
    if args.is(1, "encoding") {
        ctx.reply().simple(if own.is_dense() { "dense" } else { "sparse" });
    } else if args.is(1, "decode") {
        if own.is_dense() {
            return Err("ERR HLL encoding is not sparse".into());
        }
        let runs = own.runs().unwrap_or_default();
        ctx.reply().bulk(runs.as_bytes());
    } else if args.is(1, "todense") {
        let is_dense = own.is_dense();
        if !is_dense {
            make_dense(ctx, key, &old)?;
        }
        ctx.reply().integer((!is_dense).into());
    } else if args.is(1, "getreg") {
        if !own.is_dense() {
            make_dense(ctx, key, &old)?;
        }
        own.to_dense()?;
        let mut registers = Box::new([0; REGISTERS]);
        own.merge_into(&mut registers)?;
        let mut reply = ctx.reply();
        reply.array(REGISTERS);
        registers.iter().for_each(|value| reply.integer((*value).into()));
    } else {
        let error = format!("ERR Unknown PFDEBUG subcommand '{}'", text(args.get(1)));
        ctx.reply().error(error);
    }
    Ok(())
}

fn make_dense(ctx: &mut Ctx<'_>, key: &[u8], first: &Entry<'static>) -> Outcome {
    let mut old = Some(first.clone());
    ctx.retry(|ctx| {
        let entry = match old.take() {
            Some(entry) => Some(entry),
            None => string(ctx.look(key))?,
        };
        let mut own = entry.as_ref().map(of).transpose()?.unwrap_or_default();
        own.to_dense()?;
        put(ctx, key, entry.as_ref(), &own)
    })?;
    ctx.modified(Class::String, "pfdebug", key);
    Ok(())
}

/// PFSELFTEST
pub(super) fn pfselftest(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    ctx.go(SelfTest(Check::default()), args);
}

/// A PFSELFTEST in progress.
struct SelfTest(Check);

impl Job for SelfTest {
    fn is_apart(&self) -> bool {
        true
    }

    fn step(&mut self, ctx: &mut Ctx<'_>, _args: &Args<'_>) -> Progress {
        loop {
            match self.0.step() {
                Ok(true) => {}
                Ok(false) => {
                    ctx.reply().ok();
                    return Progress::Done;
                }
                Err(what) => {
                    ctx.reply().error(format!("TESTFAILED {what}"));
                    return Progress::Done;
                }
            }
            if ctx.is_over() {
                return Progress::Again;
            }
        }
    }
}
