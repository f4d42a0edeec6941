//! From typed values to settings: `[remote]`.

use std::{path::Path, sync::Arc, time::Duration};

use http::HeaderValue;
use larder_client::{
    Auth, Config, Distribution, Eject, Failure, Placement, Server, Timeouts, hash::Hash,
};
use larder_server::settings::{
    OriginScheme, OriginSettings, PeerToken, RemoteProtocol, RemoteSettings, Secret, TargetForm,
    ValkeyLogin,
};

use super::{
    TOKEN_BYTES, bounded,
    build::file,
    objects::readable_by_all,
    problem::{Problem, Report},
    reader::Values,
    value::{OriginUrl, UrlScheme},
};

/// Longest namespace in characters: it is the prefix of every key, and memcached's keys have 250
/// bytes.
const NAMESPACE: usize = 64;

/// Bytes that memcached adds to a value before it compares it with `-I`: its header and the key.
const ITEM_OVERHEAD: usize = 512;

/// The remote tier; None: the file has no such table, or has a mistake in it, which is in the
/// report.
pub(super) fn remote(
    root: &Values,
    directory: &Path,
    report: &mut Report,
) -> Option<RemoteSettings> {
    if !root.is_set("remote") {
        return None;
    }
    let values = root.table("remote");
    let settings = settings(&values, directory, report)?;
    if let Err(error) = settings.fleet.check() {
        report.error(Problem::new(values.location("servers"), error.to_string()));
    }
    if settings.namespace.len() > NAMESPACE {
        let message = format!("longer than {NAMESPACE} characters");
        report.error(Problem::new(values.location("namespace"), message));
    }
    doubts(&values, &settings, report);
    Some(settings)
}

fn settings(values: &Values, directory: &Path, report: &mut Report) -> Option<RemoteSettings> {
    Some(RemoteSettings {
        protocol: protocol(values, directory, report)?,
        fleet: fleet(values, directory, report)?,
        namespace: values.get("namespace")?,
        local_copy: values.get("local_copy")?,
        budget: values.get("budget")?,
        max_expiry: values.get("max_expiry")?,
        min_freshness: values.get("min_freshness")?,
        page_size: values.get("page_size")?,
        compress: values.get("compress").filter(|bytes: &u64| *bytes > 0),
        announce: values.get("announce"),
        read_only: values.get("read_only")?,
        queue: values.get("queue")?,
        peers: peers(values, report),
        peer_token: peer_token(values, directory, report),
        purge_interval: values.get("purge_interval")?,
        lease: values.get("lease")?,
    })
}

/// The protocol of the servers, and our credentials. Options of another protocol are refused, as
/// they would have no effect.
fn protocol(values: &Values, directory: &Path, report: &mut Report) -> Option<RemoteProtocol> {
    let name = values.get::<String>("protocol")?;
    let (memcached, cluster) = (name == "memcached", name.ends_with("-cluster"));
    let foreign: &[(&str, &str)] = match (memcached, cluster) {
        (true, _) => &[
            ("password_file", "memcacheds are told a password by `auth_file`"),
            ("user", "memcacheds are told a user by `auth_file`"),
            ("database", "memcached has no databases; `namespace` keeps keys apart"),
        ],
        (_, false) => &[
            (
                "auth_file",
                "Valkey servers are told a password by `password_file`, and a user by `user`",
            ),
            ("auth", "Valkey servers are told a password by `password_file`"),
        ],
        (_, true) => &[
            (
                "auth_file",
                "Valkey servers are told a password by `password_file`, and a user by `user`",
            ),
            ("auth", "Valkey servers are told a password by `password_file`"),
            ("database", "a cluster has database 0 alone; `namespace` keeps keys apart"),
            ("distribution", "a cluster says itself which server has a key"),
            ("hash", "a cluster says itself which server has a key"),
            ("spares", "a cluster replaces a server that is away by its own replicas"),
            ("replicas", "a cluster has replicas of its own"),
        ],
    };
    for (option, why) in foreign.iter().filter(|(option, _)| values.is_set(option)) {
        report.error(Problem::new(values.location(option), *why));
    }
    if memcached {
        return Some(RemoteProtocol::Memcached);
    }
    let password = password(values, directory, report)?;
    if values.is_set("user") && password.is_none() {
        let problem =
            Problem::new(values.location("user"), "a user without a password is not told");
        report.error(problem.fix("name a `password_file`"));
    }
    let login = ValkeyLogin {
        user: values.get::<String>("user").filter(|user| !user.is_empty()),
        password,
        database: values.get::<u64>("database").and_then(|number| u16::try_from(number).ok())?,
    };
    Some(if cluster { RemoteProtocol::ValkeyCluster(login) } else { RemoteProtocol::Valkey(login) })
}

/// A line with a password; Some(None): there is none. None: it is unusable, which is in the report.
fn password(values: &Values, directory: &Path, report: &mut Report) -> Option<Option<String>> {
    let Some(path) = file(values, "password_file", directory) else { return Some(None) };
    let read = bounded::read(&path, TOKEN_BYTES).and_then(|(text, mode)| {
        let text = String::from_utf8(text).map_err(|_| "it is not UTF-8 text".to_owned())?;
        let password = text.strip_suffix('\n').unwrap_or(&text).trim_end_matches('\r').to_owned();
        match password.is_empty() {
            true => Err("it is empty".to_owned()),
            false => Ok((password, mode & 0o004 != 0)),
        }
    });
    match read {
        Ok((password, readable)) => {
            readable_by_all(values, "password_file", &path, readable, report);
            Some(Some(password))
        }
        Err(reason) => {
            let message = format!("cannot use {}: {reason}", path.display());
            report.error(Problem::new(values.location("password_file"), message));
            None
        }
    }
}

fn peers(values: &Values, report: &mut Report) -> Vec<Arc<OriginSettings>> {
    let urls = values.items::<OriginUrl>("peers").unwrap_or_default();
    for (url, location) in &urls {
        if url.scheme != UrlScheme::Http {
            let message = "peers are reached by plain http".to_owned();
            report.error(Problem::new(location.clone(), message));
        }
    }
    urls.into_iter().map(|(url, _)| peer(url)).collect()
}

/// Another Larder as an origin: it has to answer soon, and one connection is enough.
fn peer(url: OriginUrl) -> Arc<OriginSettings> {
    Arc::new(OriginSettings {
        host: url.host,
        app: None,
        send_files: Vec::new(),
        socket: None,
        port: url.port,
        address: None,
        connect_timeout: Duration::from_secs(1),
        first_byte_timeout: Duration::from_secs(2),
        between_bytes_timeout: Duration::from_secs(2),
        total_timeout: Duration::from_secs(5),
        max_connections: 1,
        max_waiting: 1,
        max_wait: Duration::from_secs(2),
        idle_connections: 1,
        idle_timeout: Duration::from_secs(30),
        scheme: OriginScheme::Http,
        target: TargetForm::Origin,
        proxy_protocol: None,
        host_header: None,
    })
}

fn peer_token(values: &Values, directory: &Path, report: &mut Report) -> Option<PeerToken> {
    let Some(path) = file(values, "peer_token_file", directory) else {
        if values.is_set("peers") {
            let problem =
                Problem::new(values.location("peers"), "peers believe only who has their token");
            report
                .error(problem.fix("name a `peer_token_file`, with the same token on all of them"));
        }
        return None;
    };
    let read = bounded::read(&path, TOKEN_BYTES).and_then(|(text, mode)| {
        let token = text.trim_ascii();
        if !token.iter().all(u8::is_ascii_graphic) {
            return Err("a token is one line of visible characters".to_owned());
        }
        let secret = Secret::new(token).ok_or("it is empty")?;
        let mut field =
            HeaderValue::from_bytes(&[b"Bearer ", token].concat()).map_err(|e| e.to_string())?;
        field.set_sensitive(true);
        Ok((PeerToken { secret, field }, mode & 0o004 != 0))
    });
    match read {
        Ok((token, readable)) => {
            readable_by_all(values, "peer_token_file", &path, readable, report);
            Some(token)
        }
        Err(reason) => {
            let message = format!("cannot use {}: {reason}", path.display());
            report.error(Problem::new(values.location("peer_token_file"), message));
            None
        }
    }
}

/// The configuration of the client.
fn fleet(values: &Values, directory: &Path, report: &mut Report) -> Option<Config> {
    let eject = if values.get("eject")? { Eject::Rehash } else { Eject::No };
    let mut fleet = Config::new(values.list::<Server>("servers"));
    fleet.spares = values.list("spares");
    let distribution = Distribution::named(&values.get::<String>("distribution")?)?;
    fleet.placement = Placement::new(distribution, Hash::named(&values.get::<String>("hash")?)?);
    fleet.auth = auth(values, directory, report);
    fleet.connections = values.get("connections")?;
    fleet.timeouts = Timeouts {
        connect: values.get("connect_timeout")?,
        read: values.get("read_timeout")?,
        write: values.get("write_timeout")?,
    };
    fleet.failure = Failure {
        limit: values.get("failure_limit")?,
        eject,
        retry_min: values.get("retry_min")?,
        retry_max: values.get("retry_max")?,
        ..Failure::default()
    };
    fleet.replicas = values.get("replicas")?;
    fleet.max_item = values.get::<usize>("item_size")? - ITEM_OVERHEAD;
    Some(fleet)
}

/// Our credentials: a line `user:password`.
fn auth(values: &Values, directory: &Path, report: &mut Report) -> Option<Auth> {
    let path = file(values, "auth_file", directory)?;
    let read = bounded::read(&path, TOKEN_BYTES).and_then(|(text, mode)| {
        let text = String::from_utf8(text).map_err(|_| "it is not UTF-8 text".to_owned())?;
        let (user, password) =
            text.trim_end().split_once(':').ok_or("its line is not `user:password`")?;
        Ok((user.to_owned(), password.to_owned(), mode & 0o004 != 0))
    });
    let (user, password, readable) = match read {
        Ok(read) => read,
        Err(reason) => {
            let message = format!("cannot use {}: {reason}", path.display());
            report.error(Problem::new(values.location("auth_file"), message));
            return None;
        }
    };
    readable_by_all(values, "auth_file", &path, readable, report);
    Some(match values.get::<String>("auth")?.as_str() {
        "sasl" => Auth::SaslPlain { user, password },
        _ => Auth::Ascii { user, password },
    })
}

/// Warns of settings that are allowed and probably mistakes.
fn doubts(values: &Values, settings: &RemoteSettings, report: &mut Report) {
    let weighted = settings.fleet.servers.iter().any(|server| server.weight != 1);
    let plain = [Distribution::Modula, Distribution::RendezvousPymemcache]
        .contains(&settings.fleet.placement.distribution);
    if weighted && plain {
        let problem = Problem::new(
            values.location("distribution"),
            "this distribution does not look at weights",
        );
        report.warn(problem.fix("with weights, `distribution = \"ketama_weighted\"`"));
    }
    let parts = settings.page_size / settings.fleet.max_item as u64;
    if parts > 256 {
        let problem = Problem::new(
            values.location("page_size"),
            format!("a page of `page_size` takes {parts} items of `item_size`"),
        );
        report.warn(problem.fix("raise `item_size` and the servers' `-I`"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::options::{Kind, Section};

    fn words(name: &str) -> &'static [&'static str] {
        match Section::Remote.option(name).map(|opt| opt.kind) {
            Some(Kind::Choice(words)) => words,
            other => panic!("{name}: {other:?}"),
        }
    }

    #[test]
    fn every_word_is_one_the_client_knows() {
        assert!(words("distribution").iter().all(|name| Distribution::named(name).is_some()));
        assert!(words("hash").iter().all(|name| Hash::named(name).is_some()));
        assert_eq!(words("distribution").len(), Distribution::ALL.len());
        assert_eq!(words("hash").len(), Hash::ALL.len());
    }
}
