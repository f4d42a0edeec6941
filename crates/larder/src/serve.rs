//! `larder serve`: the server, from start to stop.

use std::process::ExitCode;

use larder_server::{Server, settings::Settings};

use crate::{
    check,
    config::{self, Flags},
    exit,
    signals::{Asked, Signals},
};

/// Reads the configuration, serves until told to stop.
pub(crate) fn run(flags: &Flags) -> ExitCode {
    let Some(settings) = settings(flags, "nothing started") else { return ExitCode::from(exit::USAGE) };
    raise_descriptors(&settings);
    let (mut signals, mut server) = match start(settings) {
        Ok(started) => started,
        Err(message) => {
            eprintln!("larder: {message}");
            return ExitCode::from(exit::NOTHING);
        }
    };
    loop {
        match signals.wait() {
            Asked::Reload => reload(&mut server, flags),
            Asked::Counters => print_counters(&server),
            Asked::Stop => break,
        }
    }
    stop(signals, server)
}

/// The settings of file and flags; None, with the reasons and what becomes of them printed, when there is an error.
fn settings(flags: &Flags, otherwise: &str) -> Option<Settings> {
    match config::load(flags) {
        Ok(loaded) => {
            eprint!("{}", loaded.report);
            if loaded.settings.is_none() {
                eprintln!("larder: {}, {otherwise}", check::count(loaded.report.errors.len()));
            }
            loaded.settings
        }
        Err(message) => {
            eprint!("{message}");
            eprintln!("larder: {otherwise}");
            None
        }
    }
}

/// Starts a server and says where it listens.
pub(crate) fn start(settings: Settings) -> Result<(Signals, Server), String> {
    let signals = Signals::install().map_err(|error| format!("cannot wait for signals: {error}"))?;
    let exposed = exposed(&settings);
    let server = Server::start(settings).map_err(|error| error.to_string())?;
    for address in server.local_addrs() {
        eprintln!("larder: listening on http://{address}");
    }
    if let Some(doubt) = exposed {
        eprintln!("larder: warning: {doubt}");
    }
    Ok((signals, server))
}

/// What to say when machines other than this one can reach the server.
fn exposed(settings: &Settings) -> Option<String> {
    let address = settings.http.listen.iter().find(|address| !address.ip().is_loopback())?;
    let open = settings.sites.iter().find(|site| site.purge.token.is_none() && !site.purge.from.is_empty());
    let purge = match open {
        Some(site) => format!(
            "; the site \"{}\" lets every program at its `purge.from` addresses purge, without a token",
            site.name
        ),
        None => String::new(),
    };
    Some(format!("{address} can be reached from other machines{purge}"))
}

/// Takes the configuration anew. What is wrong is printed, and the old one stays in use.
fn reload(server: &mut Server, flags: &Flags) {
    server.reopen_logs();
    let Some(settings) = settings(flags, "the configuration in use stays as it was") else { return };
    match server.reload(settings) {
        Ok(()) => eprintln!("larder: configuration reloaded"),
        Err(error) => eprintln!("larder: not reloaded: {error}"),
    }
}

/// One line a counter, those at 0 left out.
fn print_counters(server: &Server) {
    for (name, value) in server.counters().into_iter().filter(|(_, value)| *value > 0) {
        eprintln!("larder: {name} {value}");
    }
}

/// Lets requests under way finish. A second signal ends it at once.
pub(crate) fn stop(mut signals: Signals, server: Server) -> ExitCode {
    eprintln!("larder: stopping: requests under way may finish");
    if signals.during(move || server.drain()) {
        eprintln!("larder: stopped");
    } else {
        eprintln!("larder: stopped at once");
    }
    exit::DONE
}

/// Every client and every origin connection takes a descriptor; what the system allows at most is taken.
pub(crate) fn raise_descriptors(settings: &Settings) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let now = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: now.maximum, maximum: now.maximum };
    let allowed = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => now.maximum,
        Err(_) => now.current,
    };
    let wanted = settings.http.limits.connections as u64;
    if let Some(allowed) = allowed.filter(|allowed| *allowed < wanted) {
        eprintln!(
            "larder: warning: {allowed} descriptors are allowed, limits.connections is {wanted}: raise `ulimit -n`"
        );
    }
}
