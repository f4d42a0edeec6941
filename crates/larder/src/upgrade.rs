//! Another process takes over from this one: the start of the new program, and the new program's
//! first steps. The rest is the server's (`larder_server`, `server::upgrade`).
//!
//! The new program is started with the same arguments and a socket as its standard input, which no
//! unsafe code between fork and exec has to arrange.

use std::{
    env,
    ffi::OsString,
    io::{self, Write as _},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::OnceLock,
};

use larder_server::{Inherited, Link, Server, Successor, settings::Settings, succeed};
use serde_json::Value;

use crate::{
    signals::Signals,
    systemd::{self, Named},
};

/// Set for a process that takes over; its value is the process ID of the one before it.
pub(crate) const VARIABLE: &str = "LARDER_UPGRADE";

/// The program of this process, as it was started: its file may be replaced meanwhile.
static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Notes where the program lies. Call it at the start.
pub(crate) fn note_program() {
    if let Ok(path) = env::current_exe() {
        let _ = PROGRAM.set(path);
    }
}

/// The way to the process before this one; `None`: this one is the first.
pub(crate) fn before() -> Option<Link> {
    env::var_os(VARIABLE)?;
    let standard = rustix::stdio::stdin();
    let socket = rustix::io::fcntl_dupfd_cloexec(standard, 3).ok()?;
    rustix::net::sockopt::socket_domain(&socket).ok()?;
    if let Ok(null) = std::fs::File::open("/dev/null") {
        let _ = rustix::stdio::dup2_stdin(null);
    }
    Link::new(socket).ok()
}

/// Takes the sockets of the process before this one, and what it knows of the service manager.
pub(crate) fn take(link: Link, settings: &Settings) -> Result<(Inherited, Named), String> {
    let (inherited, manager) = succeed(link, settings)?;
    Ok((inherited, Named::from_value(&manager)))
}

/// Has a new process take over: of this program, or of another one. On success this one is to be
/// drained.
///
/// # Errors
/// Why it has not: this process goes on.
pub(crate) fn upgrade(
    server: &mut Server,
    signals: &mut Signals,
    program: Option<&Path>,
    named: &Named,
) -> Result<Successor, String> {
    if std::process::id() == 1 {
        return Err("a container ends with its first process: start another container".to_owned());
    }
    server.may_hand_over()?;
    let program = program.or(PROGRAM.get().map(PathBuf::as_path));
    let program = program.ok_or("the place of the program is not known")?;
    let failed = |error: io::Error| format!("cannot start {}: {error}", program.display());
    let (link, other) = Link::pair().map_err(failed)?;
    let mut command = Command::new(program);
    let mut words = env::args_os();
    let name = words.next().unwrap_or_else(|| OsString::from("larder"));
    command.arg0(name).args(words).stdin(Stdio::from(other));
    command.env(VARIABLE, std::process::id().to_string());
    // About this process alone.
    for variable in ["WATCHDOG_PID", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"] {
        command.env_remove(variable);
    }
    let mut child = command.spawn().map_err(failed)?;
    // Its copy of the socket is closed here, so that its end is seen.
    drop(command);
    let mut beat = || {
        systemd::notify("WATCHDOG=1");
        !signals.is_stopped()
    };
    let done = server.hand_over(link, &named.to_value(), &mut beat);
    if let Err(reason) = done {
        let reason = ended(&mut child, reason);
        server.take_back();
        return Err(reason);
    }
    done
}

/// Ends a process that has not taken over; the reason with its exit code.
fn ended(child: &mut Child, reason: String) -> String {
    let at_once = child.try_wait().ok().flatten();
    let _ = child.kill();
    match at_once.or_else(|| child.wait().ok()) {
        Some(status) => match status.code() {
            Some(code) => format!("{reason} (exit code {code})"),
            None => reason,
        },
        None => reason,
    }
}

/// Prints a line in one piece: a process that takes over, or is taken over from, writes to the same
/// place.
pub(crate) fn say(line: &str) {
    let _ = io::stderr().write_all(format!("larder: {line}\n").as_bytes());
}

/// The outcome for the operator.
pub(crate) fn tell(successor: &Successor) -> String {
    let Successor { pid, version, memory } = successor;
    match memory {
        Ok(()) => format!("process {pid} (larder {version}) has taken over, with the memory"),
        Err(why) => {
            format!("process {pid} (larder {version}) has taken over, without memory: {why}")
        }
    }
}

impl Named {
    /// For the process that takes over.
    pub(crate) fn to_value(&self) -> Value {
        let pairs = |name: &str, at: &dyn std::fmt::Display| format!("{name} {at}");
        let tcp = [("http", &self.http), ("https", &self.https), ("admin", &self.admin)];
        let mut all: Vec<String> = tcp
            .iter()
            .flat_map(|(name, list)| list.iter().map(move |at| pairs(name, at)))
            .collect();
        let lists =
            [("memcached", &self.memcached), ("redis", &self.redis), ("queue", &self.queue)];
        for (name, list) in lists {
            all.extend(list.iter().map(|listen| pairs(name, &systemd::in_words(listen))));
        }
        all.into()
    }

    /// From the process before this one.
    pub(crate) fn from_value(value: &Value) -> Named {
        let mut named = Named::default();
        for words in value.as_array().into_iter().flatten().filter_map(Value::as_str) {
            if let Some((name, at)) = words.split_once(' ') {
                named.add(name, at);
            }
        }
        named
    }
}
