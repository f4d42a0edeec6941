//! The rights of a connection.

use std::sync::{Arc, atomic::Ordering::Acquire, atomic::Ordering::Relaxed};

use larder_proto::resp::{
    Args, Owned,
    acl::{Denied, User},
    table::{self, Command},
};

use super::{
    super::{
        attention,
        conn::client,
        shared::{Face, Shared},
        state::{Conn, gate},
    },
    Context, DEFAULT, Reason, Slot,
};

/// Error for keys that take too long to compare with a user's patterns.
const TOO_LONG: &str = "too many or too long keys for the patterns of this user";

/// A connection's user as it was at the last look.
#[derive(Default)]
pub(crate) struct Rights {
    /// None: `default`, if that may do everything.
    login: Option<Box<Login>>,
    /// The number of changes at the last look.
    seen: u32,
    /// It has authenticated, or came when nobody had to.
    authenticated: bool,
}

struct Login {
    slot: Arc<Slot>,
    user: Arc<User>,
}

/// Makes the connection one of the user `default`, as new ones are.
pub(crate) fn enter(shared: &Shared, conn: &mut Conn) {
    let default = &shared.acl.default;
    let user = default.user();
    let authenticated = user.is_on() && user.needs_no_password();
    conn.rights = Rights { authenticated, ..Rights::default() };
    look(shared, conn);
}

/// Makes the connection one of this user.
pub(crate) fn log_in(shared: &Shared, conn: &mut Conn, slot: Arc<Slot>) {
    let mut text = conn.known.text.lock();
    // A change would allocate the names of a connection that has none.
    if text.user != *slot.name {
        text.user = slot.name.to_vec();
    }
    drop(text);
    let user = slot.user();
    let login = Some(Box::new(Login { slot, user }));
    conn.rights = Rights { login, authenticated: true, ..Rights::default() };
    look(shared, conn);
}

/// Looks at the connection's user again, if any has changed. False: the connection ends, because
/// its user was deleted.
#[inline]
pub(crate) fn may_go_on(face: &Face, conn: &mut Conn) -> bool {
    if !is_behind(face, conn) {
        return true;
    }
    // It may be of a key in the database's old place.
    face.hint.set(None);
    look(&face.shared, conn)
}

/// Returns whether users or databases have changed since the connection's last look.
#[inline]
pub(crate) fn is_behind(face: &Face, conn: &Conn) -> bool {
    attention::any(&face.shared, attention::CHANGES)
        && conn.rights.seen != face.shared.changes.load(Acquire)
}

#[cold]
fn look(shared: &Shared, conn: &mut Conn) -> bool {
    let acl = &shared.acl;
    conn.rights.seen = shared.changes.load(Acquire);
    conn.select(conn.db, shared);
    let login = conn.rights.login.take();
    let slot = login.map_or_else(|| acl.default.clone(), |login| login.slot);
    if slot.gone.load(Acquire) {
        conn.rights.authenticated = false;
        conn.set_gate(gate::STRANGER, true);
        conn.closing = true;
        return false;
    }
    let user = slot.user();
    let permits_all = user.permits_all();
    conn.set_gate(gate::RESTRICTED, !permits_all);
    conn.set_gate(gate::STRANGER, !conn.rights.authenticated && acl.asks.load(Relaxed));
    if !permits_all || *slot.name != *DEFAULT {
        conn.rights.login = Some(Box::new(Login { slot, user }));
    }
    true
}

impl Rights {
    /// Checks a command; Ok for a user that may do everything.
    fn check(&self, command: &Command, args: &Args<'_>) -> Result<(), Denied> {
        self.login.as_ref().map_or(Ok(()), |login| login.user.check(command, args))
    }
}

/// Notes a refused command in the log.
fn note(shared: &Shared, conn: &Conn, denied: Denied, context: Context, object: &[u8]) {
    let reason = match denied {
        Denied::Command => Reason::Command,
        Denied::Key(_) | Denied::TooLong => Reason::Key,
        Denied::Channel(_) => Reason::Channel,
    };
    refusal(shared, conn, reason, context, object, None);
}

/// Notes a refusal in the log; `user`: the one that was named, instead of the connection's.
pub(crate) fn refusal(
    shared: &Shared,
    conn: &Conn,
    reason: Reason,
    context: Context,
    object: &[u8],
    user: Option<&[u8]>,
) {
    let now = shared.clock.now();
    let line = client::describe(&conn.known, now, None);
    let own = conn.known.text.lock().user.clone();
    let user = user.unwrap_or(&own);
    let most = shared.config.acl_log_len.load(Relaxed) as usize;
    shared.acl.log.lock().note((reason, context), object, user, line, now, most);
}

/// The name of a command, or the argument that a refusal is about.
fn object<'o>(denied: Denied, command: &'static Command, args: &Args<'o>) -> &'o [u8] {
    match denied {
        Denied::Command => command.name.as_bytes(),
        Denied::Key(place) | Denied::Channel(place) => args.get(place),
        Denied::TooLong => args.get(1),
    }
}

/// Checks a command of a restricted user. Err: the error for its client.
#[cold]
pub(crate) fn check(
    shared: &Shared,
    conn: &Conn,
    command: &'static Command,
    args: &Args<'_>,
) -> Result<(), String> {
    let Err(denied) = conn.rights.check(command, args) else { return Ok(()) };
    let context = if conn.gates & gate::MULTI != 0 { Context::Multi } else { Context::Top };
    note(shared, conn, denied, context, object(denied, command, args));
    let what = match denied {
        Denied::Command => {
            return Err(format!(
                "NOPERM this user has no permissions to run the '{}' command",
                command.name
            ));
        }
        Denied::Key(_) => "one of the keys used as arguments",
        Denied::Channel(_) => "one of the channels used as arguments",
        Denied::TooLong => return Err(format!("NOPERM {TOO_LONG}")),
    };
    Err(format!("NOPERM this user has no permissions to access {what}"))
}

/// Checks a command that EXEC is about to run: the rights may have changed since it was queued.
#[cold]
pub(crate) fn check_queued(
    face: &Face,
    conn: &mut Conn,
    command: &'static Command,
    args: &Args<'_>,
) -> Result<(), String> {
    if !may_go_on(face, conn) {
        return Err("NOPERM the user of this connection was deleted".into());
    }
    let Err(denied) = conn.rights.check(command, args) else { return Ok(()) };
    note(&face.shared, conn, denied, Context::Multi, object(denied, command, args));
    let reason = match denied {
        Denied::Command => "no permission to execute the command or subcommand",
        Denied::Key(_) => "no permission to touch the specified keys",
        Denied::Channel(_) => "no permission to access one of the channels used as arguments",
        Denied::TooLong => TOO_LONG,
    };
    Err(format!(
        "NOPERM ACLs rules changed between the moment the transaction was accumulated and the \
         EXEC call. This command is no longer allowed for the following reason: {reason}"
    ))
}

/// Checks a command that a script calls.
pub(crate) fn check_in_script(
    shared: &Shared,
    conn: &Conn,
    command: &'static Command,
    args: &Args<'_>,
) -> Result<(), String> {
    let Err(denied) = conn.rights.check(command, args) else { return Ok(()) };
    note(shared, conn, denied, Context::Lua, object(denied, command, args));
    Err(format!("ERR The user executing the script {}", in_script(denied)))
}

fn in_script(denied: Denied) -> &'static str {
    match denied {
        Denied::Command => "can't run this command or subcommand",
        Denied::Key(_) => {
            "can't access at least one of the keys mentioned in the command arguments"
        }
        Denied::Channel(_) => "can't publish to the channel mentioned in the command",
        Denied::TooLong => "has too many or too long keys for its patterns",
    }
}

/// Returns whether the user may read any key besides those that the command names.
pub(crate) fn check_reading_all(conn: &Conn, args: &Args<'_>) -> bool {
    let Some(login) = &conn.rights.login else { return true };
    table::find(args.get(0))
        .is_some_and(|command| login.user.check_reading_all(command, args).is_ok())
}

/// `redis.acl_check_cmd`: may the user run this command? None: there is no such command.
pub(crate) fn may_call(conn: &Conn, owned: &Owned) -> Option<bool> {
    let args = owned.args();
    let command = table::find(args.get(0))?;
    let command = match command.subcommands.is_empty() || args.len() == 1 {
        true => command,
        false => command.subcommand(args.get(1))?,
    };
    Some(conn.rights.check(command, &args).is_ok())
}
