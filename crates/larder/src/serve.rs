//! `larder serve`: the server, from start to stop.

use std::{net::SocketAddr, process::ExitCode};

use anyhow::Context as _;
use larder_server::{
    Address, Server,
    settings::{Listen, Settings},
};

use crate::{
    acme::{self, Orders},
    app::Supervisor,
    check,
    config::{self, Flags},
    exit,
    signals::{SignalRequest, Signals},
};

/// Reads the configuration and serves until it is stopped.
pub(crate) fn run(flags: &Flags) -> ExitCode {
    let Some(settings) = settings(flags, "nothing started") else {
        return ExitCode::from(exit::USAGE);
    };
    run_settings(settings, || self::settings(flags, "the configuration in use stays as it was"))
}

/// Serves until it is stopped. `again` reads the settings for SIGHUP; None: they are wrong, and the
/// problems are printed.
pub(crate) fn run_settings(
    settings: Settings,
    again: impl FnMut() -> Option<Settings>,
) -> ExitCode {
    raise_descriptors(&settings);
    match start_all(settings) {
        Ok((signals, server, apps)) => until_stopped(signals, server, apps, again),
        Err(error) => {
            eprintln!("larder: {error}");
            ExitCode::from(exit::NOTHING)
        }
    }
}

/// Starts a server and the applications behind it. Their sockets are open before the first request
/// can come.
fn start_all(settings: Settings) -> anyhow::Result<(Signals, Server, Supervisor)> {
    let mut apps = Supervisor::default();
    let mut opened = Some(apps.open(&settings).map_err(anyhow::Error::msg)?);
    let mut begun = Ok(());
    let (signals, server) = start(settings, |server| {
        let opened = opened.take().unwrap_or_default();
        begun = apps.run(server.settings(), opened, server.apps());
    })?;
    begun.context("cannot start a thread")?;
    Ok((signals, server, apps))
}

/// Handles signals until one of them stops the server.
pub(crate) fn until_stopped(
    mut signals: Signals,
    mut server: Server,
    mut apps: Supervisor,
    mut again: impl FnMut() -> Option<Settings>,
) -> ExitCode {
    let orders = order_certificates(&signals, &server);
    loop {
        match signals.wait() {
            SignalRequest::Reload => reload(&mut server, &mut apps, &mut again, orders.as_ref()),
            SignalRequest::Certificates => use_ordered(&mut server),
            SignalRequest::Statistics => print_numbers(&server),
            SignalRequest::Stop => break,
        }
    }
    stop(signals, server, apps)
}

/// Starts the thread that orders certificates. It waits where none are ordered yet: a reload may
/// change that. None: there is no HTTPS.
fn order_certificates(signals: &Signals, server: &Server) -> Option<Orders> {
    let https = server.settings().https.as_ref()?;
    match Orders::start(https.acme.clone(), server.acme()?, signals.renewed()) {
        Ok(orders) => Some(orders),
        Err(error) => {
            eprintln!("larder: warning: no certificates are ordered: {error}");
            None
        }
    }
}

/// Uses the certificates that were ordered. The rest of the configuration stays: its file may be
/// half written.
fn use_ordered(server: &mut Server) {
    let Some(https) = &server.settings().https else { return };
    let Some(settings) = &https.acme else { return };
    let (ordered, faults) = acme::ordered(settings, &https.certificates, &https.ordered);
    for fault in faults {
        eprintln!("larder: warning: {fault}");
    }
    server.use_ordered(ordered);
}

/// Keeps certificates in use whose files could not be read with the new settings. The report of
/// the settings has the reasons.
fn keep_ordered(server: &Server, settings: &mut Settings) {
    let (Some(before), Some(https)) = (&server.settings().https, &mut settings.https) else {
        return;
    };
    if let Some(acme) = &https.acme {
        (https.ordered, _) = acme::ordered(acme, &https.certificates, &before.ordered);
    }
}

/// The settings of file and flags; None: there are errors, and they are printed with their effect.
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

/// Starts a server and prints its addresses. `before` runs before that print.
pub(crate) fn start(
    settings: Settings,
    before: impl FnOnce(&Server),
) -> anyhow::Result<(Signals, Server)> {
    let signals = Signals::install().context("cannot wait for signals")?;
    let doubts = exposed(&settings);
    let server = Server::start(settings)?;
    before(&server);
    for (face, address) in server.listening() {
        match address {
            Address::Tcp(address) => eprintln!("larder: listening on {face}://{address}"),
            Address::Udp(address) => eprintln!("larder: listening on {face}+udp://{address}"),
            Address::Unix(path) => eprintln!("larder: listening on {face}+unix:{}", path.display()),
        }
    }
    print_admin(&server);
    for doubt in doubts {
        eprintln!("larder: warning: {doubt}");
    }
    Ok((signals, server))
}

/// Warnings if other machines can reach the server.
fn exposed(settings: &Settings) -> Vec<String> {
    let mut doubts = Vec::new();
    if let Some(address) = settings
        .admin
        .iter()
        .flat_map(|admin| &admin.listen)
        .find(|address| !address.ip().is_loopback())
    {
        doubts.push(format!("{address}, the admin interface, can be reached from other machines"));
    }
    let https = settings.https.iter().flat_map(|https| &https.listen);
    let mut listeners = settings.http.listen.iter().chain(https);
    if let Some(address) = listeners.find(|address| !address.ip().is_loopback()) {
        let open = settings
            .sites
            .iter()
            .find(|site| site.purge.token.is_none() && !site.purge.from.is_empty());
        let purge = match open {
            Some(site) => format!(
                "; the site \"{}\" lets every program at its `purge.from` addresses purge, \
                 without a token",
                site.name
            ),
            None => String::new(),
        };
        doubts.push(format!("{address} can be reached from other machines{purge}"));
    }
    if let Some(face) = &settings.memcached {
        let open = face.auth.is_none() && face.sasl.is_none();
        if let Some(address) = reachable(&face.listen).filter(|_| open) {
            doubts.push(format!(
                "{address} can be reached from other machines, and lets every one of them read, \
                 write and flush"
            ));
        }
        if let Some(address) = face.udp.iter().find(|address| !address.ip().is_loopback()) {
            doubts.push(format!(
                "UDP {address} can be reached from other machines: who forges a sender has \
                 answers sent to others"
            ));
        }
    }
    if let Some(face) = &settings.redis
        && let Some(address) = reachable(&face.listen).filter(|_| face.password.is_none())
    {
        doubts.push(if face.protected {
            format!(
                "{address}: other machines are refused until there is a password (protected mode)"
            )
        } else {
            format!("{address} can be reached from other machines, and asks for no password")
        });
    }
    doubts
}

fn reachable(listen: &[Listen]) -> Option<SocketAddr> {
    listen.iter().find_map(|listen| match listen {
        Listen::Tcp(address) if !address.ip().is_loopback() => Some(*address),
        _ => None,
    })
}

/// Prints the token for the user who started the server; it is written nowhere else.
fn print_admin(server: &Server) {
    let Some(admin) = server.admin() else { return };
    let token = admin.token.map_or_else(String::new, |token| format!("#token={token}"));
    for (address, tls) in admin.addresses {
        let scheme = if tls { "https" } else { "http" };
        eprintln!("larder: admin at {scheme}://{address}/{token}");
    }
}

/// Reads the configuration again. If it has mistakes, they are printed and the old one stays in
/// use.
fn reload(
    server: &mut Server,
    apps: &mut Supervisor,
    again: &mut impl FnMut() -> Option<Settings>,
    orders: Option<&Orders>,
) {
    server.reopen_logs();
    let Some(mut settings) = again() else { return };
    keep_ordered(server, &mut settings);
    let own_token = |server: &Server| server.admin().is_some_and(|admin| admin.token.is_some());
    let before = own_token(server);
    let opened = match apps.open(&settings) {
        Ok(opened) => opened,
        Err(reason) => return eprintln!("larder: not reloaded: {reason}"),
    };
    match server.reload(settings) {
        Ok(()) => {
            let state = server.apps();
            if let Err(error) = apps.run(server.settings(), opened, state) {
                eprintln!("larder: applications stay as they were: {error}");
            }
            eprintln!("larder: configuration reloaded");
            let https = server.settings().https.as_ref();
            if let Some(orders) = orders {
                orders.reload(https.and_then(|https| https.acme.clone()));
            }
            // The token's file is gone, so the token of the run counts from now on; it was not
            // printed yet.
            if own_token(server) && !before {
                print_admin(server);
            }
        }
        Err(error) => eprintln!("larder: not reloaded: {error}"),
    }
}

/// Prints the statistics, one number a line, without zeros.
fn print_numbers(server: &Server) {
    for (name, value) in server.numbers().into_iter().filter(|(_, value)| *value > 0) {
        eprintln!("larder: {name} {value}");
    }
}

/// Lets open requests finish, then ends the applications. A second signal ends that at once.
pub(crate) fn stop(mut signals: Signals, server: Server, apps: Supervisor) -> ExitCode {
    eprintln!("larder: stopping: requests under way may finish");
    let drain = move || {
        server.drain();
        apps.stop();
    };
    if signals.during(drain) {
        eprintln!("larder: stopped");
    } else {
        eprintln!("larder: stopped at once");
    }
    exit::DONE
}

/// Raises the limit of descriptors, one for each connection of clients and origins, as far as the
/// system allows.
pub(crate) fn raise_descriptors(settings: &Settings) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let now = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: now.maximum, maximum: now.maximum };
    let allowed = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => now.maximum,
        Err(_) => now.current,
    };
    let http = if settings.serves_pages() { settings.http.limits.connections } else { 0 };
    let memcached = settings.memcached.as_ref().map_or(0, |face| face.connections);
    let redis = settings.redis.as_ref().map_or(0, |face| face.connections);
    let wanted =
        (http + memcached + redis + settings.sendfile_cache_files() + settings.open_files()) as u64;
    if let Some(allowed) = allowed.filter(|allowed| *allowed < wanted) {
        eprintln!(
            "larder: warning: {allowed} descriptors are allowed, and there may be {wanted} \
             connections and files: raise `ulimit -n`"
        );
    }
}
