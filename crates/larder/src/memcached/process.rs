//! The flags about the process: user, limits, daemon, locked memory, files about it.
//!
//! A daemon is the program started a second time (`fork` without `exec` would need unsafe code, and
//! threads do not survive it): the child leaves the terminal, starts, and reports that on its
//! standard output; only then does the parent exit. So a script notices an address in use, unlike
//! with memcached.

use std::{
    fs,
    io::{Read, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use larder_server::{Address, Server};
use nix::unistd::{User, setgid, setgroups, setuid};
use rustix::{
    mm::{MlockAllFlags, mlockall},
    process::{Resource, Rlimit, getrlimit, setrlimit, setsid},
};

use super::{Exit, NO_USER, Typed};

/// Set in the environment of the daemon's own process.
const DAEMON: &str = "LARDER_MEMCACHED_DAEMON";
/// The message of a started daemon.
const UP: &[u8] = b"up";
/// Descriptors beside those of clients: listeners, runtimes, signals, files. Per thread, and for
/// all.
const DESCRIPTORS: (u64, u64) = (8, 64);

/// Core files (`-r`) and descriptors (`-c`).
pub(super) fn raise_limits(typed: &Typed) -> Result<(), Exit> {
    if typed.core {
        let maximum = getrlimit(Resource::Core).maximum;
        let unlimited = setrlimit(Resource::Core, Rlimit { current: None, maximum: None });
        unlimited
            .or_else(|_| setrlimit(Resource::Core, Rlimit { current: maximum, maximum }))
            .map_err(|_| Exit::system("failed to ensure corefile creation"))?;
    }
    let threads = u64::try_from(typed.threads).unwrap_or(1);
    let connections = u64::try_from(typed.connections).unwrap_or(u64::MAX);
    let wanted = connections.saturating_add(DESCRIPTORS.0 * threads + DESCRIPTORS.1);
    let now = getrlimit(Resource::Nofile);
    if now.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    let maximum = now.maximum.map(|maximum| maximum.max(wanted));
    setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).map_err(|_| {
        Exit::system(
            "failed to set rlimit for open files. Try starting as root or requesting smaller \
             maxconns value.",
        )
    })
}

/// The user for root without `-u`. memcached refuses to start then; to drop the privileges is as
/// safe.
const NOBODY: &str = "nobody";

/// Nothing runs as root unless `-u root` asks for it.
pub(super) fn drop_privileges(typed: &Typed) -> Result<(), Exit> {
    if !rustix::process::geteuid().is_root() && !rustix::process::getuid().is_root() {
        return Ok(());
    }
    let name = typed.user.as_deref().filter(|name| !name.is_empty()).unwrap_or_else(|| {
        eprintln!("larder: started as root without -u: running as {NOBODY}");
        NOBODY
    });
    let Ok(Some(user)) = User::from_name(name) else {
        let message = format!("can't find the user {name} to switch to");
        return Err(Exit { message, code: NO_USER });
    };
    if typed.lock {
        // Not allowed after the change of user.
        let _ = setrlimit(Resource::Memlock, Rlimit { current: None, maximum: None });
    }
    setgroups(&[]).map_err(|error| {
        Exit::system(format!("failed to drop supplementary groups: {}", error.desc()))
    })?;
    setgid(user.gid)
        .and_then(|()| setuid(user.uid))
        .map_err(|_| Exit::system(format!("failed to assume identity of user {name}")))
}

/// `-k`. If it is not allowed, a warning is printed, as memcached does.
pub(super) fn lock_memory(typed: &Typed) {
    if typed.lock
        && let Err(error) = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE)
    {
        eprintln!("warning: -k invalid, mlockall() failed: {error}");
    }
}

/// Whether this is the process `daemonize` started.
pub(super) fn is_daemon() -> bool {
    std::env::var_os(DAEMON).is_some()
}

/// Starts the daemon and waits until it is up or has ended; then its error is on standard error.
pub(super) fn daemonize(arguments: &[String]) -> Result<ExitCode, Exit> {
    let failed = |error| Exit::system(format!("failed to daemon() in order to daemonize: {error}"));
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.arg0("memcached").args(arguments).env(DAEMON, "1");
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(failed)?;
    let mut said = Vec::new();
    if let Some(out) = child.stdout.take() {
        let _ = out.take(UP.len() as u64).read_to_end(&mut said);
    }
    if said == UP {
        return Ok(ExitCode::SUCCESS);
    }
    let status = child.wait().map_err(failed)?;
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(super::SYSTEM);
    Ok(ExitCode::from(code.max(1)))
}

/// The daemon's part: a session of its own, and the root as its directory, so that it blocks no
/// unmount (unless core files are wanted).
pub(super) fn leave_terminal(typed: &Typed) -> Result<(), Exit> {
    setsid().map_err(|error| {
        Exit::system(format!("failed to daemon() in order to daemonize: {error}"))
    })?;
    if !typed.core {
        std::env::set_current_dir("/").map_err(|error| Exit::system(format!("/: {error}")))?;
    }
    Ok(())
}

/// The daemon is up: its parent may exit, and nothing more is printed without `-v`.
pub(super) fn ready(typed: &Typed) {
    if !is_daemon() {
        return;
    }
    let mut out = std::io::stdout();
    let _ = out.write_all(UP).and_then(|()| out.flush());
    let Ok(null) = fs::OpenOptions::new().write(true).open("/dev/null") else { return };
    let _ = rustix::stdio::dup2_stdout(&null);
    if typed.verbosity == 0 {
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}

/// The file of `-P`; removed at the end.
pub(super) struct PidFile(Option<PathBuf>);

impl PidFile {
    /// Writes the file, if requested. If that fails, a warning is printed.
    pub(super) fn write(typed: &Typed) -> PidFile {
        let Some(path) = typed.pid_file.as_ref().map(PathBuf::from) else { return PidFile(None) };
        running(&path);
        // The file is written under another name first, so that readers see all of it.
        let mut under = path.clone().into_os_string();
        under.push(".tmp");
        match fs::write(&under, format!("{}\n", std::process::id()))
            .and_then(|()| fs::rename(&under, &path))
        {
            Ok(()) => PidFile(Some(path)),
            Err(error) => {
                eprintln!("Could not open the pid file {} for writing: {error}", path.display());
                PidFile(None)
            }
        }
    }
}

/// Warns if the file names a running process.
fn running(path: &Path) {
    let Ok((text, _)) = crate::config::bounded::read(path, 64) else { return };
    let number = str::from_utf8(&text).ok().and_then(|text| text.trim().parse::<i32>().ok());
    let Some(pid) = number.and_then(rustix::process::Pid::from_raw) else { return };
    if rustix::process::test_kill_process(pid).is_ok() {
        let pid = pid.as_raw_nonzero();
        eprintln!("WARNING: The pid file contained the following (running) pid: {pid}");
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if let Some(path) = &self.0
            && let Err(error) = fs::remove_file(path)
        {
            eprintln!("Could not remove the pid file {}: {error}", path.display());
        }
    }
}

/// The file that `MEMCACHED_PORT_FILENAME` names: the chosen ports, for tests that let the system
/// choose.
pub(super) fn write_ports(server: &Server) {
    let Some(path) = std::env::var_os("MEMCACHED_PORT_FILENAME").map(PathBuf::from) else { return };
    let mut text = String::new();
    for (_, address) in server.listening() {
        let (kind, address) = match address {
            Address::Tcp(address) => ("TCP", address),
            Address::Udp(address) => ("UDP", address),
            Address::Unix(_) => continue,
        };
        let family = if address.is_ipv4() { "INET" } else { "INET6" };
        text.push_str(&format!("{kind} {family}: {}\n", address.port()));
    }
    let mut under = path.clone().into_os_string();
    under.push(".lck");
    if let Err(error) = fs::write(&under, text).and_then(|()| fs::rename(&under, &path)) {
        eprintln!("Failed to open \"{}\": {error}", path.display());
    }
}
