//! The binary: command line, configuration, wiring.

/// Writes a line to the terminal. Unlike the standard library's macro of this name it does not
/// panic where nobody reads any more: a server goes on when its terminal or log pipe is closed.
macro_rules! eprintln {
    ($($arg:tt)*) => {{
        use std::io::Write as _;
        let _nobody_reads = writeln!(std::io::stderr(), $($arg)*);
    }};
}

/// As above, without a line's end.
macro_rules! eprint {
    ($($arg:tt)*) => {{
        use std::io::Write as _;
        let _nobody_reads = write!(std::io::stderr(), $($arg)*);
    }};
}

/// Writes a line to the standard output, which may be closed ([`exit::printed`]).
macro_rules! println {
    ($($arg:tt)*) => {{
        use std::io::Write as _;
        crate::exit::printed(writeln!(std::io::stdout(), $($arg)*));
    }};
}

/// As above, without a line's end.
macro_rules! print {
    ($($arg:tt)*) => {{
        use std::io::Write as _;
        crate::exit::printed(write!(std::io::stdout(), $($arg)*));
    }};
}

mod acme;
mod app;
mod ask;
mod certificates;
mod check;
mod cli;
mod config;
mod control;
mod demo;
mod descriptors;
mod disk;
mod docs;
mod documents;
mod exit;
mod fleet;
mod generate;
mod getopt;
mod identity;
mod import;
mod lab;
mod launch;
mod memcached;
mod mount;
mod purge;
mod redis;
mod serve;
mod signals;
mod spawn_fcgi;
mod systemd;
mod upgrade;
mod why;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Parser;
use larder_store::Large;

/// Workers, the log's thread and connections to origins allocate and free on different threads.
/// Answers of many megabytes grow without being copied.
#[global_allocator]
static ALLOCATOR: Large<mimalloc::MiMalloc> = Large(mimalloc::MiMalloc);

fn main() -> ExitCode {
    upgrade::note_program();
    larder_server::provide_documents(documents::ALL);
    // A program started as `memcached`, `spawn-fcgi` or `mount.larder` takes the flags of that one.
    let name = std::env::args_os().next().map(PathBuf::from);
    match name.as_deref().and_then(Path::file_name) {
        Some(name) if name == "memcached" => return memcached::run(&own_flags(1)),
        Some(name) if name == "mount.larder" => return mount::run_helper(&own_flags(1)),
        Some(name) if name == "spawn-fcgi" => return spawn_fcgi::run(&own_flags(1)),
        _ => {}
    }
    match std::env::args_os().nth(1).as_ref().and_then(|command| command.to_str()) {
        Some(launch::COMMAND) => return launch::run(std::env::args_os().skip(2)),
        Some(app::GUARD_COMMAND) => return app::run_guard(),
        _ => {}
    }
    if lab::takes(std::env::args_os().skip(1)) {
        return lab::run();
    }
    match cli::Cli::parse().command {
        cli::Command::Serve(args) => serve::run(&args.flags()),
        cli::Command::Demo(args) => demo::run(&args),
        cli::Command::Purge(args) => purge::run(&args),
        cli::Command::Reload(args) => control::reload(&args),
        cli::Command::Stop(args) => control::stop(&args),
        cli::Command::Upgrade(args) => control::upgrade(&args),
        cli::Command::Top(args) => control::top(&args),
        cli::Command::Log(args) => {
            control::only_for("log", args.names_server(), |local| larder_top::log(&args, local))
        }
        cli::Command::Hist(args) => {
            control::only_for("hist", args.names_server(), |local| larder_top::hist(&args, local))
        }
        cli::Command::Bench(_) | cli::Command::Slow(_) | cli::Command::Lab(_) => lab::run(),
        cli::Command::Fleet(command) => fleet::run(&command),
        cli::Command::Import(args) => import::run(&args),
        cli::Command::Why(args) => why::run(&args),
        cli::Command::Check(args) => check::run(&args.flags()),
        cli::Command::Certificates(args) => certificates::run(&args),
        cli::Command::Disk(args) => disk::run(&args),
        cli::Command::Mount(args) => mount::run(&args),
        cli::Command::Memcached(_) => memcached::run(&own_flags(2)),
        cli::Command::SpawnFcgi(_) => spawn_fcgi::run(&own_flags(2)),
        cli::Command::Redis(_) => redis::run(&own_flags(2)),
        cli::Command::Docs { page } => docs::run(page),
        cli::Command::Generate { directory } => generate::run(&directory),
    }
}

/// The words behind the first `skip` of the command line, for commands with their own flags.
/// Invalid UTF-8 is replaced: it can only be a path, which will not be found.
fn own_flags(skip: usize) -> Vec<String> {
    std::env::args_os().skip(skip).map(|word| word.to_string_lossy().into_owned()).collect()
}
