//! Commands that are refused while the memory is above the limit that CONFIG SET gave it
//! (`maxmemory`), or while replicas are wanted (`min-replicas-to-write`), of which there are none.
//!
//! Without such a setting no command comes here ([`super::attention`]).

use std::sync::atomic::Ordering::Relaxed;

use larder_proto::resp::{
    Args,
    table::{Command, Id, flag},
};

use super::{
    admin::memory_in_use,
    attention, script,
    shared::Shared,
    state::{Conn, gate},
};

const FULL: &str = "OOM command not allowed when used memory > 'maxmemory'.";
const ALONE: &str = "NOREPLICAS Not enough good replicas to write.";

/// The possible effects of a command.
#[derive(Clone, Copy, Default)]
struct Effect {
    /// It may take memory.
    grows: bool,
    writes: bool,
}

/// The effect of a command; a script may tell of its own.
fn effect(shared: &Shared, command: &Command, args: &Args<'_>) -> Effect {
    if let Some(flags) = script::flags(shared, command.id, args) {
        let writes = flags & script::NO_WRITES == 0;
        return Effect { grows: writes && flags & script::ALLOW_OOM == 0, writes };
    }
    Effect { grows: command.has(flag::DENYOOM), writes: command.has(flag::WRITE) }
}

/// The settings have changed.
pub(crate) fn settle(shared: &Shared) {
    let config = &shared.config;
    let any = config.memory_limit.bytes() > 0 || config.min_replicas.load(Relaxed) > 0;
    attention::set(shared, attention::REFUSALS, any);
}

/// Is more memory in use than the limit allows? Entries that can be evicted do not count: they go
/// on their own.
fn is_full(shared: &Shared) -> bool {
    let limit = shared.config.memory_limit.bytes();
    let (used, overhead) = memory_in_use(shared);
    limit > 0 && limit < if shared.settings.no_evictions { used } else { overhead }
}

fn is_alone(shared: &Shared) -> bool {
    shared.config.min_replicas.load(Relaxed) > 0
}

/// The error for a command that is refused. (Redis: `processCommand`.)
#[cold]
pub(crate) fn refusal(
    shared: &Shared,
    conn: &Conn,
    command: &Command,
    args: &Args<'_>,
) -> Option<&'static str> {
    let mut effect = effect(shared, command, args);
    if command.id == Id::Exec {
        conn.multi.any(|queued, args| {
            let own = self::effect(shared, queued, args);
            effect.grows |= own.grows;
            effect.writes |= own.writes;
            false
        });
    } else if conn.gates & gate::MULTI != 0 {
        // The queue takes memory too.
        effect.grows |= !matches!(command.id, Id::Discard | Id::Quit | Id::Reset);
    }
    if effect.grows && is_full(shared) {
        return Some(FULL);
    }
    (effect.writes && is_alone(shared)).then_some(ALONE)
}

/// The error for a command that a script calls before it has written. `allows_full`: its flag.
#[cold]
pub(crate) fn in_script(
    shared: &Shared,
    command: &Command,
    allows_full: bool,
) -> Option<&'static str> {
    if command.has(flag::WRITE) && is_alone(shared) {
        return Some(ALONE);
    }
    (!allows_full && command.has(flag::DENYOOM) && is_full(shared)).then_some(FULL)
}
