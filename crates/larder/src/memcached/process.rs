//! What memcached's flags say about the process: user, limits, daemon, locked memory, files that
//! tell of it.
//!
//! A daemon is the program started once more (`fork` without `exec` would need unsafe code, and
//! threads do not survive it): the child leaves the terminal, starts, and says so over its standard
//! output; only then does the first one end. So a script learns of an address in use, which it does
//! not from memcached.

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
/// What a daemon says when it is up.
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
            "failed to set rlimit for open files. Try starting as root or requesting smaller maxconns value.",
        )
    })
}

/// Who a root that does not say `-u` becomes. memcached refuses to start then; giving the rights up
/// is as safe, and starts.
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
        // Afterwards it would not be allowed.
        let _ = setrlimit(Resource::Memlock, Rlimit { current: None, maximum: None });
    }
    setgroups(&[])
        .map_err(|error| Exit::system(format!("failed to drop supplementary groups: {}", error.desc())))?;
    setgid(user.gid)
        .and_then(|()| setuid(user.uid))
        .map_err(|_| Exit::system(format!("failed to assume identity of user {name}")))
}

/// `-k`. Not allowed is said, as memcached says it, and no reason not to start.
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

/// Starts the daemon and waits until it is up, or has ended for a reason it has said on standard
/// error.
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

/// The daemon's part: a session of its own, and no directory that somebody may want to unmount (but
/// where core files are wanted, they belong there).
pub(super) fn leave_terminal(typed: &Typed) -> Result<(), Exit> {
    setsid().map_err(|error| Exit::system(format!("failed to daemon() in order to daemonize: {error}")))?;
    if !typed.core {
        std::env::set_current_dir("/").map_err(|error| Exit::system(format!("/: {error}")))?;
    }
    Ok(())
}

/// The daemon is up: whoever started it may end, and nothing is printed any more, but with `-v`.
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
    /// Writes it, when there is to be one. That it cannot be written is said, and no reason not to
    /// start.
    pub(super) fn write(typed: &Typed) -> PidFile {
        let Some(path) = typed.pid_file.as_ref().map(PathBuf::from) else { return PidFile(None) };
        running(&path);
        // Whoever reads it reads all of it: it is written under another name first.
        let mut under = path.clone().into_os_string();
        under.push(".tmp");
        match fs::write(&under, format!("{}\n", std::process::id())).and_then(|()| fs::rename(&under, &path))
        {
            Ok(()) => PidFile(Some(path)),
            Err(error) => {
                eprintln!("Could not open the pid file {} for writing: {error}", path.display());
                PidFile(None)
            }
        }
    }
}

/// Says so when the file names a process that runs.
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

/// The file that `MEMCACHED_PORT_FILENAME` names: the ports taken, for tests that let the system
/// pick.
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
