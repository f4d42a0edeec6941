//! `larder demo`: a slow sample site, and Larder before it. Nothing else is needed.

use std::{
    net::{SocketAddr, TcpListener},
    process::ExitCode,
};

use crate::{
    app::Supervisor,
    cli::DemoArgs,
    config::{self, Flags, value},
    exit, serve,
};

mod articles;
mod origin;
mod pages;
mod site;

/// Ports that are tried by default.
const PORTS: std::ops::Range<u16> = 8080..8100;
/// Port of the admin interface, if it is free.
const ADMIN: u16 = 8081;

/// Starts both and serves until it is stopped.
pub(crate) fn run(args: &DemoArgs) -> ExitCode {
    match start(args) {
        Ok((signals, server)) => wait(signals, server),
        Err(message) => {
            eprintln!("larder demo: {message}");
            ExitCode::from(exit::NOTHING)
        }
    }
}

fn start(args: &DemoArgs) -> Result<(crate::signals::Signals, larder_server::Server), String> {
    let origin = origin::start(args.delay)
        .map_err(|error| format!("cannot start the sample site: {error}"))?;
    let front = args
        .http
        .or_else(free_port)
        .ok_or("no free port from 8080 to 8099: name one with --http")?;
    let text = configuration(front, admin(front), origin.address);
    let loaded = config::parse(None, &text, &Flags::default());
    let mut settings = loaded.settings.ok_or_else(|| loaded.report.to_string())?;
    settings.control = None;
    crate::descriptors::raise(&settings);
    let (signals, server) = serve::start(settings, |_| ()).map_err(|error| error.to_string())?;
    let front = server.local_addrs().first().copied().unwrap_or(front);
    origin.purge_at(front);
    let admin =
        server.admin().and_then(|admin| admin.addresses.first().map(|(address, _)| *address));
    print!("{}", welcome(front, admin, origin.address, &dashboard(&server), args));
    Ok((signals, server))
}

fn wait(mut signals: crate::signals::Signals, server: larder_server::Server) -> ExitCode {
    while !matches!(signals.wait(&mut None, None), crate::signals::SignalRequest::Stop) {}
    serve::stop(signals, server, Supervisor::default())
}

fn free_port() -> Option<SocketAddr> {
    PORTS
        .filter(|port| *port != ADMIN)
        .map(|port| SocketAddr::from(([127, 0, 0, 1], port)))
        .find(|address| TcpListener::bind(address).is_ok())
}

/// The default address of `larder top`, `log` and `hist`; if it is in use, any free port.
fn admin(front: SocketAddr) -> SocketAddr {
    let usual = SocketAddr::from(([127, 0, 0, 1], ADMIN));
    let free = usual != front && TcpListener::bind(usual).is_ok();
    if free { usual } else { SocketAddr::from(([127, 0, 0, 1], 0)) }
}

/// The configuration as a user would write it. A reload by hand must show memory and not the
/// origin, so requests do not decide here.
fn configuration(front: SocketAddr, admin: SocketAddr, origin: SocketAddr) -> String {
    format!(
        "memory = \"64MiB\"\n[admin]\nlisten = \"{admin}\"\n[http]\nlisten = \"{front}\"\n[[site]]\norigin = \"http://{origin}\"\n\
         purge = {{ from = [\"127.0.0.1\", \"::1\"] }}\nclient_cache_control = false\n"
    )
}

/// The dashboard's link, with the token in the fragment, which a browser does not send.
fn dashboard(server: &larder_server::Server) -> String {
    let Some(admin) = server.admin() else { return String::new() };
    let token = admin.token.map_or_else(String::new, |token| format!("#token={token}"));
    admin
        .addresses
        .first()
        .map(|(address, _)| format!("http://{address}/{token}"))
        .unwrap_or_default()
}

fn welcome(
    front: SocketAddr,
    server_admin: Option<SocketAddr>,
    origin: SocketAddr,
    dashboard: &str,
    args: &DemoArgs,
) -> String {
    let admin = match server_admin {
        Some(address) if address.port() != ADMIN => format!(" {address}"),
        _ => String::new(),
    };
    let server = if front.port() == 8080 { String::new() } else { format!(" --server {front}") };
    let delay = value::show_duration(args.delay);
    // The name as it was called, so that the printed line can be pasted.
    let program = std::env::args().next().unwrap_or_else(|| "larder".to_owned());
    let (example, live) = (articles::ARTICLES[0].slug, format!("http://{front}"));
    format!(
        "\n  A sample site that takes {delay} for every page, and Larder before it.\n\n\
         \x20 Open     {live}/            twice: the second time it comes from memory\n\
         \x20          {live}/flaky       its origin fails every other time: once it was seen, nobody notices\n\
         \x20          {live}/me          private: never kept\n\
         \x20 Watch    {dashboard}\n\
         \x20 Compare  http://{origin}/            the same site without Larder\n\n\
         \x20 Try      curl -sS -D - -o /dev/null -w '%{{time_total}} s\\n' {live}/article/{example}\n\
         \x20          {program} purge{server} {live}/article/{example}\n\
         \x20          {program} purge{server} --tag articles\n\
         \x20          {program} log{admin}            requests as they come; also top and hist\n\n\
         \x20 Ctrl-C ends it.\n\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_configuration_is_valid() {
        let (front, origin) =
            (SocketAddr::from(([127, 0, 0, 1], 0)), SocketAddr::from(([127, 0, 0, 1], 9)));
        let loaded = config::parse(None, &configuration(front, front, origin), &Flags::default());
        let settings = loaded.settings.unwrap_or_else(|| panic!("{}", loaded.report));
        assert!(!settings.sites[0].defaults.cache.honour_client_cc);
        assert!(loaded.report.warnings.is_empty(), "{}", loaded.report);
    }
}
