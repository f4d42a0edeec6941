//! `larder serve`: the server, from start to stop.

use std::{net::SocketAddr, path::Path, process::ExitCode};

use anyhow::Context as _;
use larder_server::{
    Address, FaceName, Inherited, Order, OrderKind, Server,
    settings::{Listen, Settings},
    told,
};

use crate::{
    acme::{self, Orders},
    app::Supervisor,
    check,
    config::{self, Flags},
    control, descriptors, exit, identity,
    signals::{SignalRequest, Signals},
    systemd::{self, Named},
    upgrade,
};

/// Reads the configuration and serves until it is stopped.
pub(crate) fn run(flags: &Flags) -> ExitCode {
    let mut settings = match settings(flags, "nothing started") {
        Ok(settings) => settings,
        Err(problems) => {
            eprint!("{problems}");
            if let Some(before) = upgrade::before() {
                before.refuse(&problems);
            }
            return ExitCode::from(exit::USAGE);
        }
    };
    warn_of_root(&settings);
    if let Some(path) = &settings.control
        && let Err(reason) = control::prepare(path, settings.identity.as_ref())
    {
        eprintln!("larder: warning: no control socket: {reason}");
        settings.control = None;
    }
    let control = settings.control.clone();
    let (inherited, named) = match upgrade::before() {
        Some(link) => match upgrade::take(link, &settings) {
            Ok(taken) => taken,
            Err(reason) => {
                eprintln!("larder: {reason}");
                return ExitCode::from(exit::NOTHING);
            }
        },
        None => systemd::inherit(),
    };
    named.replace(&mut settings);
    run_with(settings, inherited, &named, || {
        let mut settings = self::settings(flags, "the configuration in use stays as it was")?;
        named.replace(&mut settings);
        if control.is_none() {
            settings.control = None;
        }
        Ok(settings)
    })
}

/// A server that listens as root stays root unless it is told whom to become.
fn warn_of_root(settings: &Settings) {
    let root = rustix::process::geteuid().is_root();
    if root && settings.identity.as_ref().is_none_or(|identity| identity.user == 0) {
        eprintln!(
            "larder: runs as root: `user = \"NAME\"` or --user has it become another user once its \
             addresses are bound"
        );
    }
}

/// Serves until it is stopped. `again` reads the settings for SIGHUP, or says what is wrong with
/// them.
pub(crate) fn run_settings(
    settings: Settings,
    again: impl FnMut() -> Result<Settings, String>,
) -> ExitCode {
    let inherited = match upgrade::before().map(|link| upgrade::take(link, &settings)) {
        None => Inherited::default(),
        Some(Ok((inherited, _))) => inherited,
        Some(Err(reason)) => {
            eprintln!("larder: {reason}");
            return ExitCode::from(exit::NOTHING);
        }
    };
    run_with(settings, inherited, &Named::default(), again)
}

fn run_with(
    settings: Settings,
    inherited: Inherited,
    named: &Named,
    again: impl FnMut() -> Result<Settings, String>,
) -> ExitCode {
    descriptors::raise(&settings);
    match start_all(settings, inherited) {
        Ok((signals, server, apps)) => until_stopped(signals, server, apps, Some(named), again),
        Err(error) => {
            eprintln!("larder: {error}");
            ExitCode::from(exit::NOTHING)
        }
    }
}

/// Starts a server and the applications behind it. Their sockets are open before the first request
/// can come.
fn start_all(
    settings: Settings,
    inherited: Inherited,
) -> anyhow::Result<(Signals, Server, Supervisor)> {
    let mut apps = Supervisor::default();
    let mut opened = Some(apps.open(&settings).map_err(anyhow::Error::msg)?);
    let mut begun = Ok(());
    let (signals, server) = start_with(settings, inherited, |server| {
        let opened = opened.take().unwrap_or_default();
        begun = apps.run(server.settings(), opened, server.apps());
    })?;
    begun.context("cannot start a thread")?;
    Ok((signals, server, apps))
}

/// Handles signals until one of them stops the server. `named`: for a process that takes over;
/// `None`: this command cannot be started again with its arguments.
pub(crate) fn until_stopped(
    mut signals: Signals,
    mut server: Server,
    mut apps: Supervisor,
    named: Option<&Named>,
    mut again: impl FnMut() -> Result<Settings, String>,
) -> ExitCode {
    let certificates = order_certificates(&signals, &server);
    let (mut orders, watchdog) = (server.take_orders(), systemd::watchdog());
    systemd::notify("READY=1");
    let handed_over = loop {
        match signals.wait(&mut orders, watchdog) {
            SignalRequest::Reload => {
                let _ = reload(&mut server, &mut apps, &mut again, certificates.as_ref());
            }
            SignalRequest::Order(Order { kind: OrderKind::Reload, outcome }) => {
                let done = reload(&mut server, &mut apps, &mut again, certificates.as_ref());
                let _ = outcome.send(done);
            }
            SignalRequest::Upgrade => {
                if upgrade_now(&mut server, &mut signals, None, named).is_ok() {
                    break true;
                }
            }
            SignalRequest::Order(Order { kind: OrderKind::Upgrade(program), outcome }) => {
                let done = upgrade_now(&mut server, &mut signals, program.as_deref(), named);
                let upgraded = done.is_ok();
                let _ = outcome.send(done);
                if upgraded {
                    break true;
                }
            }
            SignalRequest::Order(Order { kind: OrderKind::Stop, outcome }) => {
                let _ = outcome.send(Ok("stopping".to_owned()));
                break false;
            }
            SignalRequest::Watchdog => {
                // A server with a worker that is stuck gives no sign of life.
                let within = watchdog.unwrap_or_default();
                if signals.all_answer(server.ask_workers(), within) {
                    systemd::notify("WATCHDOG=1");
                }
            }
            SignalRequest::Certificates => use_ordered(&mut server),
            SignalRequest::Statistics => print_numbers(&server),
            SignalRequest::Stop => break false,
        }
    };
    // Orders from here on are told that the server stops.
    drop(orders);
    if handed_over { leave(signals, server, apps) } else { stop(signals, server, apps) }
}

/// Has a new process take over; the outcome in words.
fn upgrade_now(
    server: &mut Server,
    signals: &mut Signals,
    program: Option<&Path>,
    named: Option<&Named>,
) -> Result<String, String> {
    let done = match named {
        Some(named) => upgrade::upgrade(server, signals, program, named),
        None => Err("this command cannot be upgraded: restart it".to_owned()),
    };
    match done {
        Ok(successor) => {
            // The service manager follows the new process, which tells it everything from now on.
            systemd::notify(&format!("MAINPID={}", successor.pid));
            let text = upgrade::tell(&successor);
            upgrade::say(&text);
            Ok(text)
        }
        Err(reason) => {
            let text = format!("not upgraded: {reason}");
            upgrade::say(&text);
            Err(text)
        }
    }
}

/// Another process has taken over: what is under way here comes to its end.
fn leave(mut signals: Signals, server: Server, apps: Supervisor) -> ExitCode {
    let drain = move || {
        server.drain();
        apps.stop();
    };
    let _ = signals.during(drain);
    eprintln!("larder: the old process has ended");
    exit::DONE
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

/// The settings of file and flags, whose warnings are printed; an error has the mistakes with their
/// effect.
fn settings(flags: &Flags, otherwise: &str) -> Result<Settings, String> {
    let loaded =
        config::load(flags).map_err(|message| format!("{message}larder: {otherwise}\n"))?;
    match loaded.settings {
        Some(settings) => {
            eprint!("{}", loaded.report);
            Ok(settings)
        }
        None => {
            let count = check::count(loaded.report.errors.len());
            Err(format!("{}larder: {count}, {otherwise}\n", loaded.report))
        }
    }
}

/// Starts a server and prints its addresses. `before` runs before that print.
pub(crate) fn start(
    settings: Settings,
    before: impl FnOnce(&Server),
) -> anyhow::Result<(Signals, Server)> {
    start_with(settings, Inherited::default(), before)
}

fn start_with(
    settings: Settings,
    inherited: Inherited,
    before: impl FnOnce(&Server),
) -> anyhow::Result<(Signals, Server)> {
    let signals = Signals::install().context("cannot wait for signals")?;
    let doubts = exposed(&settings);
    let user = settings.identity.clone();
    let server = Server::start_with(settings, inherited, || {
        user.as_ref().map_or(Ok(()), identity::become_user)
    })?;
    before(&server);
    for (face, address) in server.listening() {
        upgrade::say(&format!("listening on {}", told(*face, address)));
    }
    for unused in server.unused_sockets() {
        eprintln!("larder: warning: nothing is configured for the socket {unused} of systemd");
    }
    print_admin(&server);
    if let Some(path) = server.control() {
        upgrade::say(&format!("control at unix:{} for this user and root", path.display()));
    }
    if let Some(user) = &server.settings().identity {
        eprintln!("larder: runs as {user}");
    }
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
    if let Some(address) = settings.queue.as_ref().and_then(|face| reachable(&face.listen)) {
        doubts.push(format!(
            "{address} can be reached from other machines, and lets every one of them read, write \
             and delete queues"
        ));
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
    again: &mut impl FnMut() -> Result<Settings, String>,
    orders: Option<&Orders>,
) -> Result<String, String> {
    systemd::notify_reloading();
    let done = reload_now(server, apps, again, orders);
    server.registry().reloaded(done.is_ok());
    match &done {
        Ok(text) => eprintln!("larder: {text}"),
        Err(problems) => eprint!("{problems}"),
    }
    systemd::notify("READY=1");
    done
}

fn reload_now(
    server: &mut Server,
    apps: &mut Supervisor,
    again: &mut impl FnMut() -> Result<Settings, String>,
    orders: Option<&Orders>,
) -> Result<String, String> {
    server.reopen_logs();
    let mut settings = again()?;
    keep_ordered(server, &mut settings);
    let own_token = |server: &Server| server.admin().is_some_and(|admin| admin.token.is_some());
    let before = own_token(server);
    let refused = |reason: String| format!("larder: not reloaded: {reason}\n");
    let opened = apps.open(&settings).map_err(refused)?;
    let listened: Vec<_> = server.listening().to_vec();
    let doubts = exposed(&settings);
    server.reload(settings).map_err(|error| refused(error.to_string()))?;
    tell_listeners(&listened, server.listening(), &doubts);
    let state = server.apps();
    if let Err(error) = apps.run(server.settings(), opened, state) {
        eprintln!("larder: applications stay as they were: {error}");
    }
    let https = server.settings().https.as_ref();
    if let Some(orders) = orders {
        orders.reload(https.and_then(|https| https.acme.clone()));
    }
    // The token's file is gone, so the token of the run counts from now on; it was not printed yet.
    if own_token(server) && !before {
        print_admin(server);
    }
    Ok("configuration reloaded".to_owned())
}

/// Tells which listeners a reload has opened and closed; with new ones, who can reach them.
fn tell_listeners(
    before: &[(FaceName, Address)],
    after: &[(FaceName, Address)],
    doubts: &[String],
) {
    for (face, address) in before.iter().filter(|one| !after.contains(one)) {
        upgrade::say(&format!("no longer listening on {}", told(*face, address)));
    }
    let opened: Vec<_> = after.iter().filter(|one| !before.contains(one)).collect();
    for (face, address) in &opened {
        upgrade::say(&format!("listening on {}", told(*face, address)));
    }
    for doubt in doubts.iter().filter(|_| !opened.is_empty()) {
        eprintln!("larder: warning: {doubt}");
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
    systemd::notify("STOPPING=1");
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
