//! The control socket: its place, and the commands that find it.
//!
//! Each `larder serve` has a socket `PID.sock` in the runtime directory of its user, over which the
//! admin API takes every request of that user and of root without a token. The commands look into
//! the same directories and take the only socket on which a server answers.

use std::{
    fmt,
    fs::{self, DirBuilder},
    io,
    os::unix::{
        fs::{DirBuilderExt, FileTypeExt, MetadataExt, chown},
        net::UnixStream,
    },
    path::{Path, PathBuf},
    process::ExitCode,
};

use larder_server::settings::Identity;
use rustix::{
    event::{PollFd, PollFlags, poll},
    process::{Pid, PidfdFlags, geteuid, pidfd_open},
};
use serde_json::Value;

use crate::{
    ask::{self, Answer},
    cli::{OrderArgs, UpgradeArgs},
    exit,
};

/// The directory of the system's services.
const SYSTEM: &str = "/run/larder";
/// Entries of a directory that are looked at.
const ENTRIES: usize = 1024;
/// Of a user without a server.
const NONE: &str = "no Larder of yours runs on this machine";
/// Milliseconds that `larder stop` waits for the end of the process.
const END: i64 = 600_000;

/// The place of the socket by default.
pub(crate) fn default_path() -> PathBuf {
    let directory = match (runtime_directory(), geteuid().is_root()) {
        (Some(directory), _) => directory,
        (None, true) => PathBuf::from(SYSTEM),
        (None, false) => session_directory().unwrap_or_else(temporary_directory),
    };
    path_in(&directory)
}

/// The place of the socket in a directory.
pub(crate) fn path_in(directory: &Path) -> PathBuf {
    directory.join(format!("{}.sock", std::process::id()))
}

/// The directory that systemd made for the service; with several, the first.
fn runtime_directory() -> Option<PathBuf> {
    let list = std::env::var("RUNTIME_DIRECTORY").ok()?;
    list.split(':').next().filter(|path| path.starts_with('/')).map(PathBuf::from)
}

/// That of the user's session. Root after `su` may still have another user's.
fn session_directory() -> Option<PathBuf> {
    let session = PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR")?);
    let own = fs::metadata(&session).is_ok_and(|of| of.uid() == geteuid().as_raw());
    (session.is_absolute() && own).then(|| session.join("larder"))
}

/// For users without a session, as in containers.
fn temporary_directory() -> PathBuf {
    std::env::temp_dir().join(format!("larder-{}", geteuid().as_raw()))
}

/// Makes the directory of the socket, for the user that the server will run as, and removes what
/// ended servers left in it.
pub(crate) fn prepare(path: &Path, identity: Option<&Identity>) -> Result<(), String> {
    let Some(directory) = path.parent() else { return Ok(()) };
    let failed = |error: io::Error| format!("{}: {error}", directory.display());
    match DirBuilder::new().mode(0o700).create(directory) {
        Ok(()) => {
            if let Some(identity) = identity.filter(|_| geteuid().is_root()) {
                chown(directory, Some(identity.user), Some(identity.group)).map_err(failed)?;
            }
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed(error)),
    }
    let of = fs::symlink_metadata(directory).map_err(failed)?;
    let mine = of.uid() == geteuid().as_raw() || geteuid().is_root();
    let theirs = of.mode() & 0o022 != 0 && of.mode() & 0o1000 == 0;
    if !of.is_dir() || !mine || theirs {
        return Err(format!("{}: others may write there", directory.display()));
    }
    for socket in sockets(directory) {
        if UnixStream::connect(&socket)
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
        {
            let _ = fs::remove_file(socket);
        }
    }
    Ok(())
}

/// The sockets of a directory that are this user's; root may use everybody's.
fn sockets(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let me = geteuid().as_raw();
    let usable = |path: &PathBuf| {
        path.extension().is_some_and(|extension| extension == "sock")
            && fs::symlink_metadata(path).is_ok_and(|of| {
                of.file_type().is_socket() && (me == 0 || of.uid() == me || of.uid() == 0)
            })
    };
    entries.take(ENTRIES).flatten().map(|entry| entry.path()).filter(usable).collect()
}

/// The sockets on which servers of this machine answer to this user.
pub(crate) fn found() -> Vec<PathBuf> {
    // Within the environment of a service, only that service is meant.
    let places = match runtime_directory() {
        Some(directory) => [Some(directory), None, None],
        None => [session_directory(), Some(SYSTEM.into()), Some(temporary_directory())],
    };
    let mut found: Vec<PathBuf> = places
        .into_iter()
        .flatten()
        .flat_map(|directory| sockets(&directory))
        .filter_map(|path| path.canonicalize().ok())
        .filter(|path| UnixStream::connect(path).is_ok())
        .collect();
    found.sort();
    found.dedup();
    found
}

/// The only server of this user on this machine; None: there is none.
///
/// # Errors
///
/// There are several: their list.
pub(crate) fn only() -> Result<Option<PathBuf>, String> {
    let mut found = found();
    match found.len() {
        0 | 1 => Ok(found.pop()),
        _ => Err(several(&found)),
    }
}

/// `larder top`: with all servers of this user, unless its command line names some.
pub(crate) fn top(args: &larder_top::TopArgs) -> ExitCode {
    let local = found();
    let code = larder_top::top(args, &local);
    if args.names_server() || !local.is_empty() { code } else { at_usual_address("top", code) }
}

/// Runs a command with the only server of this user, unless its command line names one.
pub(crate) fn only_for(
    command: &str,
    named: bool,
    run: impl FnOnce(Option<&Path>) -> ExitCode,
) -> ExitCode {
    match if named { Ok(None) } else { only() } {
        Ok(local) => {
            let code = run(local.as_deref());
            if named || local.is_some() { code } else { at_usual_address(command, code) }
        }
        Err(message) => {
            eprintln!("larder {command}: {message}");
            ExitCode::from(exit::USAGE)
        }
    }
}

/// The end of a command that asked the usual address, as no server was named and none was found: if
/// nothing answered there, this says so.
pub(crate) fn at_usual_address(command: &str, code: ExitCode) -> ExitCode {
    if code == ExitCode::from(exit::UNREACHABLE) {
        eprintln!("larder {command}: {NONE}, and no other one was named");
    }
    code
}

fn several(found: &[PathBuf]) -> String {
    let mut out = "several Larders of yours run on this machine, name one of them:".to_owned();
    for path in found {
        let listening = Instance::behind(path).map_or_else(|_| String::new(), |one| one.listening);
        out.push_str(&format!("\n  unix:{}  {listening}", path.display()));
    }
    out
}

/// The socket that the command line names: by its path or its process. Without a name: the only
/// one.
fn chosen(args: &OrderArgs) -> Result<PathBuf, String> {
    let none = || NONE.to_owned();
    let Some(name) = &args.server else { return only()?.ok_or_else(none) };
    if let Some(path) = name.strip_prefix("unix:").or(name.starts_with('/').then_some(name)) {
        return Ok(path.into());
    }
    let file = format!("{name}.sock");
    let of = |path: &PathBuf| path.file_name().is_some_and(|named| named == file.as_str());
    found().into_iter().find(of).ok_or_else(none)
}

/// `larder reload`: the running server reads its configuration again.
pub(crate) fn reload(args: &OrderArgs) -> ExitCode {
    let reloaded = chosen(args).and_then(|path| {
        let text = order(&path, "reload")?;
        // Asked afterwards: it may listen elsewhere now.
        Ok(match Instance::behind(&path) {
            Ok(server) => format!("{}: {server}", text.trim_end()),
            Err(_) => text.trim_end().to_owned(),
        })
    });
    match reloaded {
        Ok(text) => {
            println!("{text}");
            exit::DONE
        }
        Err(message) => failed("reload", &message),
    }
}

/// `larder stop`: requests under way finish, then the process ends; the command waits for that.
pub(crate) fn stop(args: &OrderArgs) -> ExitCode {
    let stopped = chosen(args).and_then(|path| {
        // Opened before the order: the number cannot mean another process then.
        let server = Instance::behind(&path)?;
        let process = server.pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        order(&path, "stop")?;
        let ended = process.is_none_or(|process| {
            let mut ends = [PollFd::new(&process, PollFlags::IN)];
            let limit = rustix::time::Timespec { tv_sec: END / 1000, tv_nsec: 0 };
            poll(&mut ends, Some(&limit)).is_ok_and(|ready| ready > 0)
        });
        ended.then_some(server).ok_or_else(|| "it is still finishing its requests".to_owned())
    });
    match stopped {
        Ok(server) => {
            println!("stopped {server}");
            exit::DONE
        }
        Err(message) => failed("stop", &message),
    }
}

/// `larder upgrade`: a new process takes over.
pub(crate) fn upgrade(args: &UpgradeArgs) -> ExitCode {
    let done = chosen(&args.order).and_then(|path| {
        let program = args.program.as_ref().map(|program| {
            std::path::absolute(program).map_err(|error| format!("{}: {error}", program.display()))
        });
        let body = match program.transpose()? {
            Some(program) => serde_json::json!({"program": program}).to_string(),
            None => String::new(),
        };
        order_with(&path, "upgrade", &body)
    });
    match done {
        Ok(text) => {
            println!("{}", text.trim_end());
            exit::DONE
        }
        Err(message) => failed("upgrade", &message),
    }
}

/// The server behind a socket.
struct Instance {
    pid: Option<Pid>,
    /// Its addresses, one after the other.
    listening: String,
}

impl Instance {
    fn behind(path: &Path) -> Result<Instance, String> {
        let answer = ask::unix(path, &ask::request("GET", "/api/v1/instance", "", None))
            .map_err(|error| format!("{}: {error}", path.display()))?;
        let about: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        let pid = about["pid"].as_i64().and_then(|pid| Pid::from_raw(pid.try_into().ok()?));
        let listening: Vec<&str> =
            about["listening"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        Ok(Instance { pid, listening: listening.join(" ") })
    }
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "process {} ({})", pid.as_raw_nonzero(), self.listening),
            None => f.write_str(&self.listening),
        }
    }
}

fn failed(command: &str, message: &str) -> ExitCode {
    eprintln!("larder {command}: {}", message.trim_end());
    ExitCode::from(exit::NOTHING)
}

/// Gives an order; the outcome in words.
fn order(path: &Path, order: &str) -> Result<String, String> {
    order_with(path, order, "")
}

fn order_with(path: &Path, order: &str, body: &str) -> Result<String, String> {
    let request = ask::request("POST", &format!("/api/v1/{order}"), body, None);
    let answer =
        ask::unix(path, &request).map_err(|error| format!("{}: {error}", path.display()))?;
    outcome(&answer)
}

fn outcome(answer: &Answer) -> Result<String, String> {
    let body: Value = serde_json::from_str(&answer.body).unwrap_or_default();
    match (answer.status, body["done"].as_str()) {
        (200, Some(text)) => Ok(text.to_owned()),
        _ => Err(body["error"]["message"].as_str().unwrap_or("it is no Larder").to_owned()),
    }
}
