//! CLIENT PAUSE and UNPAUSE: commands wait until a time. Their bytes stay in the receive buffer,
//! and the workers serve other clients.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
};

use larder_proto::resp::{
    Args, number,
    table::{Command, Id, flag},
};
use parking_lot::Mutex;

use crate::{clock::Ms, net::out::Out};

use super::{
    attention,
    ctx::Ctx,
    dispatch::refuse,
    refusals, script,
    shared::{Face, Shared},
    state::{Conn, gate},
};

/// Interval at which a waiting command is tried again, and so its longest delay.
pub(crate) const LOOK: Ms = 10;

/// The pause. One per process; an `until` in the past means none.
#[derive(Default)]
pub(crate) struct Pause {
    until: AtomicU64,
    /// Reads wait as well.
    all: AtomicBool,
    /// Lock for changes.
    turn: Mutex<()>,
    /// Clients whose commands wait.
    held: Arc<AtomicUsize>,
}

/// A client whose command waits. Dropping it ends that.
pub(crate) struct Paused(Arc<AtomicUsize>);

impl Drop for Paused {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// The command waits.
pub(crate) fn held(shared: &Shared, conn: &mut Conn) {
    if conn.paused.is_none() {
        shared.pause.held.fetch_add(1, Relaxed);
        conn.paused = Some(Paused(shared.pause.held.clone()));
        conn.set_gate(gate::PAUSED, true);
    }
}

/// The command waits no longer.
#[cold]
pub(crate) fn goes_on(conn: &mut Conn) {
    conn.paused = None;
    conn.set_gate(gate::PAUSED, false);
}

impl Pause {
    /// Starts a pause, or extends or tightens the present one; it never shortens or loosens it.
    fn begin(&self, shared: &Shared, until: Ms, all: bool, now: Ms) {
        let _turn = self.turn.lock();
        let goes_on = self.until.load(Relaxed) > now;
        self.until.fetch_max(until, Relaxed);
        self.all.store(all || goes_on && self.all.load(Relaxed), Relaxed);
        attention::set(shared, attention::PAUSE, true);
    }

    /// Number of clients whose commands wait.
    pub(crate) fn count(&self) -> usize {
        self.held.load(Relaxed)
    }

    /// Ends the pause: `at_once`, or if its time has come.
    fn end(&self, shared: &Shared, now: Ms, at_once: bool) {
        let _turn = self.turn.lock();
        if at_once || self.until.load(Relaxed) <= now {
            self.until.store(0, Relaxed);
            self.all.store(false, Relaxed);
            attention::set(shared, attention::PAUSE, false);
        }
    }
}

/// Refuses a command for a setting or a script that runs for long, or holds it for a pause. Returns
/// what [`super::dispatch::run`] does, if it is one of these.
#[cold]
pub(crate) fn heeds(
    face: &Face,
    conn: &mut Conn,
    command: &Command,
    args: &Args<'_>,
    now: Ms,
    out: &mut Out,
) -> Option<bool> {
    if attention::any(&face.shared, attention::REFUSALS)
        && let Some(text) = refusals::refusal(&face.shared, conn, command, args)
    {
        goes_on(conn);
        conn.ticket = 0;
        refuse(face, conn, Some(command), text, out);
        return Some(true);
    }
    if is_busy(face, conn, command) {
        goes_on(conn);
        conn.ticket = 0;
        refuse(face, conn, Some(command), script::busy(&face.shared), out);
        return Some(true);
    }
    holds(&face.shared, conn, command, args, now).then(|| {
        held(&face.shared, conn);
        false
    })
}

/// Returns whether a script that runs for long keeps this command from being run: the commands of a
/// transaction, and PING, by which others look whether the server answers. Others are refused when
/// they would wait for it.
fn is_busy(face: &Face, conn: &Conn, command: &Command) -> bool {
    attention::any(&face.shared, attention::LONG_SCRIPT)
        && (conn.gates & gate::MULTI != 0 || command.id == Id::Ping)
        && !command.has(flag::ALLOW_BUSY)
}

/// Returns whether this command must wait. (Redis: `processCommand`, before a transaction's command
/// is queued.)
#[cold]
pub(crate) fn holds(
    shared: &Shared,
    conn: &Conn,
    command: &Command,
    args: &Args<'_>,
    now: Ms,
) -> bool {
    let pause = &shared.pause;
    if pause.until.load(Relaxed) <= now {
        pause.end(shared, now, false);
        return false;
    }
    pause.all.load(Relaxed)
        || may_change(shared, command, args)
        || (command.id == Id::Exec
            && conn.multi.any(|queued, args| may_change(shared, queued, args)))
}

/// As [`changes`]; of a script with flags those count.
fn may_change(shared: &Shared, command: &Command, args: &Args<'_>) -> bool {
    match script::flags(shared, command.id, args) {
        Some(flags) => flags & script::NO_WRITES == 0,
        None => changes(command),
    }
}

/// Returns whether Redis would replicate the command. (COMMAND INFO does not tell of those that are
/// no writes.)
pub(crate) fn changes(command: &Command) -> bool {
    command.has(flag::WRITE | flag::MAY_REPLICATE)
        || matches!(
            command.id,
            Id::Publish | Id::Spublish | Id::Pfcount | Id::Eval | Id::Evalsha | Id::Fcall
        )
}

/// CLIENT PAUSE milliseconds [WRITE | ALL]
pub(crate) fn pause(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    if args.len() > 4 {
        let error = "ERR unknown subcommand or wrong number of arguments for 'PAUSE'. Try CLIENT \
                     HELP."
            .to_owned();
        return ctx.reply().error(error);
    }
    if args.len() == 4 && !args.is(3, "write") && !args.is(3, "all") {
        return ctx.reply().error("ERR CLIENT PAUSE mode must be WRITE or ALL");
    }
    let Some(time) = number::parse_i64(args.get(2)) else {
        return ctx.reply().error("ERR timeout is not an integer or out of range");
    };
    let Ok(time) = Ms::try_from(time) else { return ctx.reply().error("ERR timeout is negative") };
    let (shared, now) = (ctx.shared, ctx.now);
    shared.pause.begin(shared, now.saturating_add(time), args.len() == 3 || args.is(3, "all"), now);
    ctx.reply().ok();
}

/// CLIENT UNPAUSE
pub(crate) fn unpause(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    ctx.shared.pause.end(ctx.shared, ctx.now, true);
    ctx.reply().ok();
}
