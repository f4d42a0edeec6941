//! The addresses of memcached's flags `-l`, `-p`, `-U`, `-s`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};

use larder_server::{StartError, settings::Listen};

use super::{Exit, Typed};
use crate::getopt::atoi;

/// memcached's default port.
const PORT: u16 = 11_211;

/// Listeners, TCP and UDP.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Listeners {
    pub(super) stream: Vec<Listen>,
    /// Of TLS.
    pub(super) tls: Vec<Listen>,
    pub(super) udp: Vec<SocketAddr>,
}

/// A port of the flags.
#[derive(Clone, Copy)]
enum Port {
    /// 0: off.
    Off,
    /// -1: the system chooses.
    Any,
    At(u16),
}

impl Port {
    fn of(number: i64) -> Result<Port, Exit> {
        match number {
            0 => Ok(Port::Off),
            -1 => Ok(Port::Any),
            other => match u16::try_from(other) {
                Ok(port) => Ok(Port::At(port)),
                Err(_) => Err(Exit::usage(format!("ERROR: Invalid port number {other}."))),
            },
        }
    }

    /// The port to bind; None: it is off.
    fn number(self) -> Option<u16> {
        match self {
            Port::Off => None,
            Port::Any => Some(0),
            Port::At(port) => Some(port),
        }
    }
}

/// All listeners of the flags.
pub(super) fn listeners(typed: &Typed) -> Result<Listeners, Exit> {
    let udp = Port::of(typed.udp_port.unwrap_or(0))?;
    // A UDP port alone is also the TCP port.
    let tcp = match (typed.port, udp) {
        (None, Port::Off) => Port::At(PORT),
        (None, udp) => udp,
        (Some(port), _) => Port::of(port)?,
    };
    if let Some(path) = &typed.unix_socket {
        let socket = Listen::Unix { path: path.into(), mode: typed.unix_mode };
        return Ok(Listeners { stream: vec![socket], ..Listeners::default() });
    }
    let mut out = Listeners::default();
    if let Some(port) = tcp.number() {
        let tls = |text: &str| typed.tls && !text.starts_with("notls:");
        let of = |keep: &dyn Fn(&str) -> bool| -> Result<Vec<Listen>, Exit> {
            let found = addresses(typed.listen.as_deref(), port, keep)?;
            Ok(found.into_iter().map(Listen::Tcp).collect())
        };
        (out.stream, out.tls) = (of(&|text| !tls(text))?, of(&tls)?);
    }
    if let Some(port) = udp.number() {
        out.udp = addresses(typed.listen.as_deref(), port, &|_| true)?;
    }
    Ok(out)
}

/// The addresses of those words of a list that `keep` names; without a list there is one, empty.
fn addresses(
    list: Option<&str>,
    port: u16,
    keep: &dyn Fn(&str) -> bool,
) -> Result<Vec<SocketAddr>, Exit> {
    let Some(list) = list else {
        return Ok(if keep("") { every_address(port) } else { Vec::new() });
    };
    let mut out = Vec::new();
    for text in list.split([',', ';']).filter(|text| !text.is_empty() && keep(text)) {
        for address in one(text, port).map_err(|reason| {
            Exit::system(format!(
                "{reason}\nfailed to listen on one of interface(s) {list}: Success"
            ))
        })? {
            if !out.contains(&address) {
                out.push(address);
            }
        }
    }
    Ok(out)
}

/// All IPv4 addresses and, if the system has IPv6, all IPv6 addresses.
fn every_address(port: u16) -> Vec<SocketAddr> {
    let mut out = vec![SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))];
    if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() {
        out.push(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)));
    }
    out
}

/// `host`, `host:port`, `[v6]`, `[v6]:port`, `*`, each with `notls:` or a tag (`_proxy_:`) before
/// it, which has no effect.
fn one(text: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    let text = text.strip_prefix("notls:").unwrap_or(text);
    let text = match text.strip_prefix('_').and_then(|rest| rest.split_once("_:")) {
        Some((tag, host)) if (1..=8).contains(&tag.len()) => host,
        Some(_) => {
            return Err(format!("Listener tags must be between 1 and 8 characters: \"{text}\""));
        }
        None => text,
    };
    let (host, port_text) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) =
                rest.split_once(']').ok_or_else(|| format!("Invalid IPV6 address: \"{text}\""))?;
            (host, after.strip_prefix(':'))
        }
        // One colon divides host and port; more of them are an IPv6 address without brackets.
        None => match text.split_once(':') {
            Some((host, port)) if !port.contains(':') => (host, Some(port)),
            _ => (text, None),
        },
    };
    let port = match port_text {
        None => port,
        Some(digits) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            u16::try_from(atoi(digits)).map_err(|_| format!("Invalid port number: \"{digits}\""))?
        }
        Some(other) => return Err(format!("Invalid port number: \"{other}\"")),
    };
    if host == "*" {
        return Ok(every_address(port));
    }
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    match (host, port).to_socket_addrs() {
        Ok(found) => Ok(found.collect()),
        Err(_) => Err("getaddrinfo(): Name or service not known".to_owned()),
    }
}

/// The reason why the server did not start, in memcached's words if it has some.
pub(super) fn failed(typed: &Typed, error: &anyhow::Error) -> Exit {
    let Some(StartError::Listen { address, source }) = error.downcast_ref::<StartError>() else {
        return Exit::system(format!("larder: {error}"));
    };
    Exit::system(match (&typed.unix_socket, &typed.listen) {
        (Some(path), _) => {
            format!("bind(): {source}\nfailed to listen on UNIX socket: {path}: {source}")
        }
        (None, Some(list)) => {
            format!(
                "bind(): {source}\nfailed to listen on one of interface(s) {list}: {source} \
                 ({address})"
            )
        }
        (None, None) => {
            let port = typed.port.unwrap_or(i64::from(PORT));
            format!("failed to listen on TCP port {port}: {source} ({address})")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(typed: &Typed) -> Result<Listeners, String> {
        listeners(typed).map_err(|exit| exit.message)
    }

    fn with(list: &str) -> Typed {
        Typed { listen: Some(list.to_owned()), ..Typed::default() }
    }

    fn stream(list: &str) -> Result<Vec<String>, String> {
        let shown = |listen: &Listen| match listen {
            Listen::Tcp(address) => address.to_string(),
            Listen::Unix { path, .. } => path.display().to_string(),
        };
        Ok(of(&with(list))?.stream.iter().map(shown).collect())
    }

    #[test]
    fn addresses_come_with_and_without_ports() {
        let expected =
            ["127.0.0.1:11211", "127.0.0.2:5", "[::1]:11211", "[::1]:7"].map(str::to_owned);
        assert_eq!(stream("127.0.0.1,127.0.0.2:5,::1;[::1]:7,127.0.0.1"), Ok(expected.to_vec()));
        assert_eq!(stream("notls:127.0.0.1:9,_tag_:127.0.0.1:8").map(|list| list.len()), Ok(2));
        assert_eq!(stream("localhost:9").map(|list| list[0].ends_with(":9")), Ok(true));
    }

    #[test]
    fn tls_is_spoken_everywhere_but_where_the_address_says_not() {
        let tls = Typed { tls: true, ..with("127.0.0.1,notls:127.0.0.2") };
        let found = of(&tls).expect("good");
        let at = |last| vec![Listen::Tcp(SocketAddr::from(([127, 0, 0, last], PORT)))];
        assert_eq!((found.tls, found.stream), (at(1), at(2)));
        let all = of(&Typed { tls: true, ..Typed::default() }).expect("good");
        assert!(all.stream.is_empty() && !all.tls.is_empty());
    }

    #[test]
    fn without_an_address_all_are_listened_on() {
        let all = of(&Typed::default()).expect("good");
        assert!(all.stream.contains(&Listen::Tcp(SocketAddr::from(([0, 0, 0, 0], PORT)))));
        assert!(all.udp.is_empty());
    }

    #[test]
    fn wrong_ones_are_named() {
        for (list, message) in [
            ("127.0.0.1:x", "Invalid port number: \"x\""),
            ("127.0.0.1:70000", "Invalid port number: \"70000\""),
            ("[::1", "Invalid IPV6 address: \"[::1\""),
            ("host.invalid", "getaddrinfo(): Name or service not known"),
        ] {
            let said = stream(list).expect_err(list);
            assert_eq!(
                said,
                format!("{message}\nfailed to listen on one of interface(s) {list}: Success")
            );
        }
        let typed = Typed { port: Some(70_000), ..Typed::default() };
        assert_eq!(of(&typed), Err("ERROR: Invalid port number 70000.".to_owned()));
    }

    #[test]
    fn ports_turn_things_on_and_off() {
        let off = of(&Typed { port: Some(0), ..Typed::default() }).expect("good");
        assert_eq!(off, Listeners::default());
        let udp = of(&Typed { udp_port: Some(5), ..with("127.0.0.1") }).expect("good");
        let both = SocketAddr::from(([127, 0, 0, 1], 5));
        assert_eq!(
            udp,
            Listeners { stream: vec![Listen::Tcp(both)], udp: vec![both], ..Listeners::default() }
        );
        let unix =
            of(&Typed { unix_socket: Some("/s".to_owned()), udp_port: Some(5), ..with("::1") });
        let socket = Listen::Unix { path: "/s".into(), mode: 0o700 };
        assert_eq!(unix, Ok(Listeners { stream: vec![socket], ..Listeners::default() }));
        let any = of(&Typed { port: Some(-1), ..with("127.0.0.1") }).expect("good");
        assert_eq!(any.stream, [Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)))]);
    }
}
