//! EVAL and FCALL: Lua scripts and functions, in steps between which the worker serves others.
//!
//! A script runs in a [`Machine`](larder_script::Machine) on its worker, and is a command in steps
//! ([`super::job`]): it is left when its time is over, wherever it is, and its keys stay locked
//! until it ends. Decision 30 has the reasons.
//!
//! | file | contents |
//! |---|---|
//! | `eval.rs`, `commands.rs` | EVAL and its variants; SCRIPT |
//! | `cache.rs`, `shebang.rs` | the texts of scripts, and their first line |
//! | `job.rs`, `calls.rs` | a script in progress, and the commands it calls |
//! | `machines.rs` | the Lua states of a worker |
//! | `libraries.rs`, `functions.rs` | libraries of functions; FCALL and FUNCTION |
//! | `declared.rs` | scripts known to use no keys but the declared ones |
//! | `running.rs` | scripts in progress: SCRIPT KILL, BUSY |

mod cache;
mod calls;
mod commands;
mod declared;
mod eval;
mod functions;
mod job;
mod libraries;
mod machines;
mod running;
mod shebang;

use larder_proto::resp::{Args, table::Id};

use super::{dispatch::Handler, shared::Shared};

pub(crate) use cache::Scripts;
pub(crate) use declared::Declared;
pub(crate) use libraries::{Functions, Libraries};
pub(crate) use machines::Machines;
pub(crate) use running::busy;

/// The handler of a command about scripts; None: another command.
pub(crate) fn handler(id: Id) -> Option<Handler> {
    Some(match id {
        Id::Eval => eval::eval,
        Id::Evalsha => eval::eval_sum,
        Id::EvalRo => eval::eval_read_only,
        Id::EvalshaRo => eval::eval_sum_read_only,
        Id::Fcall => functions::call,
        Id::FcallRo => functions::call_read_only,
        Id::FunctionDelete => functions::delete,
        Id::FunctionDump => functions::dump,
        Id::FunctionFlush => functions::flush,
        Id::FunctionKill => functions::kill,
        Id::FunctionList => functions::list,
        Id::FunctionLoad => functions::load,
        Id::FunctionRestore => functions::restore,
        Id::FunctionStats => functions::stats,
        Id::ScriptDebug => commands::debug,
        Id::ScriptExists => commands::exists,
        Id::ScriptFlush => commands::flush,
        Id::ScriptKill => commands::kill,
        Id::ScriptLoad => commands::load,
        _ => return None,
    })
}

/// The flags of the script or function that a command runs: bits in the order of
/// [`FLAGS`](larder_script::FLAGS). None: it has none, or there is no such script.
#[cold]
pub(crate) fn flags(shared: &Shared, id: Id, args: &Args<'_>) -> Option<u8> {
    let name = args.get(1);
    match id {
        Id::Eval | Id::EvalRo => shebang::read(name).ok().flatten(),
        Id::Evalsha | Id::EvalshaRo => shared.scripts.get(name)?.flags,
        Id::Fcall | Id::FcallRo => Some(shared.libraries.function(name)?.1.flags),
        _ => None,
    }
}

/// Flags of [`flags`].
pub(crate) use shebang::{ALLOW_OOM, NO_WRITES};

/// Returns whether the command runs a script.
#[inline]
pub(crate) fn runs(id: Id) -> bool {
    matches!(id, Id::Eval | Id::Evalsha | Id::EvalRo | Id::EvalshaRo | Id::Fcall | Id::FcallRo)
}
