//! `larder memcached`, and the program under the name `memcached`: Larder's store behind
//! memcached's own flags.
//!
//! Scripts, unit files and packages that start memcached 1.6 can start Larder: it has the same
//! flags and defaults, the same exit codes, and the same messages for mistakes of the caller.
//! memcached listens on all addresses by default. A replacement must be reachable at the same
//! address, so Larder does the same here, and only here; `-v` shows it.

mod extended;
mod flags;
mod listeners;
mod process;
mod settings;

use std::process::ExitCode;

use crate::{app::Supervisor, config::TlsFiles, serve};
use flags::Parsed;

/// The compatible release.
const COMPATIBLE: &str = "1.6.18";

/// `EX_USAGE`: the flags are wrong together.
const USAGE: u8 = 64;
/// `EX_NOUSER`: there is no such user.
const NO_USER: u8 = 67;
/// `EX_OSERR`: the system refused something.
const SYSTEM: u8 = 71;

/// An end before the start: the message for standard error, and the exit code.
#[derive(Debug)]
struct Exit {
    message: String,
    code: u8,
}

impl Exit {
    /// A flag on its own is wrong.
    fn failure(message: String) -> Exit {
        Exit { message, code: 1 }
    }

    fn usage(message: impl Into<String>) -> Exit {
        Exit { message: message.into(), code: USAGE }
    }

    fn system(message: impl Into<String>) -> Exit {
        Exit { message: message.into(), code: SYSTEM }
    }
}

impl From<String> for Exit {
    /// The messages of getopt and of memcached.
    fn from(message: String) -> Exit {
        Exit::failure(format!("memcached: {message}\nIllegal argument \"?\""))
    }
}

/// The flags as typed, or their defaults.
#[derive(Debug)]
struct Typed {
    port: Option<i64>,
    udp_port: Option<i64>,
    unix_socket: Option<String>,
    unix_mode: u32,
    /// All `-l`, joined by commas.
    listen: Option<String>,
    shutdown: bool,
    daemon: bool,
    core: bool,
    user: Option<String>,
    megabytes: i64,
    no_evictions: bool,
    connections: i64,
    lock: bool,
    verbosity: u8,
    pid_file: Option<String>,
    delimiter: Option<u8>,
    threads: i64,
    napi_ids: i64,
    requests_per_event: i64,
    cas: bool,
    backlog: i64,
    protocol: Option<larder_server::settings::WireProtocol>,
    item_size: i64,
    sasl: bool,
    flush_all: bool,
    dump: bool,
    watch: bool,
    auth_file: Option<String>,
    /// `-e`: items are kept here between a stop and a start.
    memory_file: Option<String>,
    connections_fast: bool,
    idle_seconds: u64,
    watcher_kilobytes: u64,
    sizes: bool,
    /// TLS is spoken (`-Z`).
    tls: bool,
    tls_files: TlsFiles,
    /// Accepted flags without effect.
    without_effect: Vec<String>,
    /// Warnings, printed in any case.
    warnings: Vec<&'static str>,
}

impl Default for Typed {
    fn default() -> Typed {
        Typed {
            port: None,
            udp_port: None,
            unix_socket: None,
            unix_mode: 0o700,
            listen: None,
            shutdown: false,
            daemon: false,
            core: false,
            user: None,
            megabytes: 64,
            no_evictions: false,
            connections: 1024,
            lock: false,
            verbosity: 0,
            pid_file: None,
            delimiter: None,
            threads: 4,
            napi_ids: 0,
            requests_per_event: 20,
            cas: true,
            backlog: 1024,
            protocol: None,
            item_size: 1 << 20,
            sasl: false,
            flush_all: true,
            dump: true,
            watch: true,
            auth_file: None,
            memory_file: None,
            connections_fast: true,
            idle_seconds: 0,
            watcher_kilobytes: 256,
            sizes: false,
            tls: false,
            tls_files: TlsFiles::default(),
            without_effect: Vec::new(),
            warnings: Vec::new(),
        }
    }
}

/// Parses the flags (without the program's own name) and serves until it is stopped.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let typed = match flags::read(arguments) {
        Ok(Parsed::Serve(typed)) => typed,
        Ok(Parsed::Show(text)) => {
            print!("{text}");
            return ExitCode::SUCCESS;
        }
        Err(exit) => return ended(&exit),
    };
    match begin(&typed, arguments) {
        Ok(code) => code,
        Err(exit) => ended(&exit),
    }
}

fn ended(exit: &Exit) -> ExitCode {
    eprintln!("{}", exit.message);
    ExitCode::from(exit.code)
}

/// In memcached's order: the flags together, the system's limits, the user, the daemon, the
/// listeners.
fn begin(typed: &Typed, arguments: &[String]) -> Result<ExitCode, Exit> {
    for warning in &typed.warnings {
        eprintln!("{warning}");
    }
    let mut settings = settings::settings(typed)?;
    process::raise_limits(typed)?;
    process::drop_privileges(typed)?;
    settings::read_files(typed, &mut settings)?;
    if typed.daemon && !process::is_daemon() {
        return process::daemonize(arguments);
    }
    if process::is_daemon() {
        process::leave_terminal(typed)?;
    }
    if typed.verbosity > 0 {
        say(typed, &settings);
    }
    process::lock_memory(typed);
    let again = settings.clone();
    let mut _pid_file = None;
    let started = serve::start(settings, |server| {
        _pid_file = Some(process::PidFile::write(typed));
        process::write_ports(server);
    });
    let (signals, server) = started.map_err(|error| listeners::failed(typed, &error))?;
    process::ready(typed);
    Ok(serve::until_stopped(signals, server, Supervisor::default(), None, || {
        settings::reread_files(typed, again.clone())
    }))
}

/// Prints differences from the flags, at `-v`.
fn say(typed: &Typed, settings: &larder_server::settings::Settings) {
    for flag in &typed.without_effect {
        eprintln!("larder: {flag} has no effect here");
    }
    if typed.listen.is_none() && typed.unix_socket.is_none() {
        eprintln!("larder: without -l, every address is listened on, as memcached does");
    }
    let asked = u64::try_from(typed.megabytes).unwrap_or(0) << 20;
    if settings.memory > asked {
        eprintln!(
            "larder: -m {} is raised to {}, the least the store takes",
            typed.megabytes,
            settings.memory >> 20
        );
    }
}
