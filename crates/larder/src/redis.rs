//! `larder redis`: Larder's store for Redis's clients alone, by redis-server's own names of
//! options.
//!
//! Only the names are Redis's: without `--bind` only this machine can connect. Options for absent
//! features (files, replicas, slots) are refused if they promise something, and accepted if their
//! absence does no harm.

use std::{net::SocketAddr, process::ExitCode, time::Duration};

use larder_server::settings::{AclFile, Listen, RedisSettings, Secret, Settings, redis_bytes};

use crate::{
    config::{TlsFiles, objects, objects::NO_DEFAULT, value},
    exit, serve,
};

/// The effect of an option.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    Port,
    TlsPort,
    TlsCert,
    TlsKey,
    TlsCa,
    TlsClients,
    TlsProtocols,
    Bind,
    Unixsocket,
    Unixsocketperm,
    Threads,
    Memory,
    Maxmemory,
    Policy,
    Password,
    Acl,
    Databases,
    Clients,
    Timeout,
    Protected,
    Bulk,
    OutputBuffer,
    Slow,
    Backlog,
    /// Accepted with any arguments.
    None,
    /// Accepted only with this argument: others would promise an absent feature.
    Only(&'static str),
}

/// Name, arguments, effect and help.
const TABLE: &[(&str, &str, Effect, &str)] = &[
    ("port", "N", Effect::Port, "TCP port; 0: none [default: 6379]"),
    (
        "bind",
        "ADDR...",
        Effect::Bind,
        "Addresses to listen on; `*`: every one [default: 127.0.0.1]",
    ),
    ("unixsocket", "PATH", Effect::Unixsocket, "A socket in the file system to listen on"),
    ("unixsocketperm", "MODE", Effect::Unixsocketperm, "Its permissions, in octal [default: 700]"),
    ("threads", "N", Effect::Threads, "Worker threads [default: one per processor]"),
    (
        "memory",
        "SIZE",
        Effect::Memory,
        "Memory for everything that is kept: 512MiB, 1GiB [default: 256MiB]",
    ),
    ("maxmemory", "SIZE", Effect::Maxmemory, "The same in Redis's units: 100mb, 1gb"),
    (
        "maxmemory-policy",
        "POLICY",
        Effect::Policy,
        "`noeviction`: a full memory refuses what is new; all others evict what is asked for least",
    ),
    ("requirepass", "PASSWORD", Effect::Password, "The password `AUTH` asks for"),
    ("aclfile", "PATH", Effect::Acl, "Users with their rules, as `ACL SAVE` writes them"),
    ("databases", "N", Effect::Databases, "Numbered databases, 1 to 16 [default: 16]"),
    ("maxclients", "N", Effect::Clients, "Client connections at once [default: 10000]"),
    (
        "timeout",
        "SECONDS",
        Effect::Timeout,
        "A connection without a command for so long is closed; 0: never [default: 0]",
    ),
    (
        "protected-mode",
        "yes|no",
        Effect::Protected,
        "Without a password, only this machine may connect [default: yes]",
    ),
    ("proto-max-bulk-len", "SIZE", Effect::Bulk, "Largest argument of a command [default: 512mb]"),
    (
        "client-output-buffer-limit",
        "CLASS HARD SOFT SECONDS",
        Effect::OutputBuffer,
        "Of class `pubsub`, HARD: what may wait for a subscriber [default: 32mb]",
    ),
    (
        "slowlog-log-slower-than",
        "MICROSECONDS",
        Effect::Slow,
        "What `SLOWLOG` keeps; negative: nothing [default: 10000]",
    ),
    ("tcp-backlog", "N", Effect::Backlog, "Connections the kernel keeps waiting [default: 511]"),
    ("tls-port", "N", Effect::TlsPort, "Port of TLS; 0: none [default: 0]"),
    ("tls-cert-file", "PATH", Effect::TlsCert, "The certificate shown there, in PEM"),
    ("tls-key-file", "PATH", Effect::TlsKey, "Its key, in PEM"),
    ("tls-ca-cert-file", "PATH", Effect::TlsCa, "Authorities of the certificates of clients"),
    (
        "tls-auth-clients",
        "yes|no|optional",
        Effect::TlsClients,
        "Whether clients must have a certificate [default: yes]",
    ),
    (
        "tls-protocols",
        "VERSIONS",
        Effect::TlsProtocols,
        "`TLSv1.3`, or with `TLSv1.2` before it [default: both]",
    ),
    ("tls-replication", "no", Effect::Only("no"), ""),
    ("tls-cluster", "no", Effect::Only("no"), ""),
    ("tls-ciphers", "", Effect::None, ""),
    ("tls-ciphersuites", "", Effect::None, ""),
    ("tls-prefer-server-ciphers", "", Effect::None, ""),
    ("tls-session-caching", "", Effect::None, ""),
    ("tls-session-cache-size", "", Effect::None, ""),
    ("tls-session-cache-timeout", "", Effect::None, ""),
    ("appendonly", "no", Effect::Only("no"), ""),
    ("daemonize", "no", Effect::Only("no"), ""),
    ("cluster-enabled", "no", Effect::Only("no"), ""),
    ("save", "", Effect::None, ""),
    ("dir", "", Effect::None, ""),
    ("dbfilename", "", Effect::None, ""),
    ("loglevel", "", Effect::None, ""),
    ("logfile", "", Effect::None, ""),
    ("hz", "", Effect::None, ""),
    ("io-threads", "", Effect::None, ""),
    ("tcp-keepalive", "", Effect::None, ""),
    ("maxmemory-samples", "", Effect::None, ""),
    ("activedefrag", "", Effect::None, ""),
    ("lazyfree-lazy-eviction", "", Effect::None, ""),
    ("lazyfree-lazy-expire", "", Effect::None, ""),
    ("always-show-logo", "", Effect::None, ""),
    ("enable-debug-command", "", Effect::None, ""),
];

/// The parsed options.
struct Typed {
    port: u16,
    tls_port: u16,
    tls: TlsFiles,
    bind: Vec<String>,
    unixsocket: Option<String>,
    unixsocketperm: u32,
    threads: usize,
    memory: u64,
    face: RedisSettings,
}

/// Parses the options and serves until it is stopped.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        print!("{}", help());
        return exit::DONE;
    }
    let settings = match settings(arguments) {
        Ok(settings) => settings,
        Err(message) => {
            eprintln!("larder redis: {message}");
            return ExitCode::from(exit::USAGE);
        }
    };
    // SIGHUP reads the certificates again.
    serve::run_settings(settings, || {
        self::settings(arguments).map_err(|message| format!("larder redis: {message}\n"))
    })
}

fn help() -> String {
    let mut out = "Keep objects for Redis's clients\n\nUsage: larder redis [--OPTION \
                   VALUE]...\n\nOptions:\n"
        .to_owned();
    for (name, values, _, about) in TABLE.iter().filter(|(.., about)| !about.is_empty()) {
        out.push_str(&format!("      --{name} {values}\n          {about}\n"));
    }
    out.push_str(
        "\nThe names are redis-server's; its other options of files, logs and threads are \
         accepted and do nothing.\nWithout --bind only this machine can connect.\n",
    );
    out
}

fn settings(arguments: &[String]) -> Result<Settings, String> {
    let mut typed = Typed {
        port: 6379,
        tls_port: 0,
        tls: TlsFiles { required: Some(true), ..TlsFiles::default() },
        bind: vec!["127.0.0.1".to_owned()],
        unixsocket: None,
        unixsocketperm: value::SOCKET_MODE,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        memory: 256 << 20,
        face: RedisSettings {
            // Only these objects are served, so SHUTDOWN is allowed as in Redis.
            shutdown: true,
            ..objects::redis_defaults().ok_or(NO_DEFAULT)?
        },
    };
    let mut rest = arguments;
    while let Some((option, after)) = rest.split_first() {
        let known = option
            .strip_prefix("--")
            .and_then(|name| TABLE.iter().find(|(known, ..)| *known == name));
        let Some((name, _, effect, _)) = known else {
            return Err(format!("there is no option \"{option}\"; see larder redis --help"));
        };
        let many = after.iter().take_while(|argument| !argument.starts_with("--")).count();
        take(*effect, &after[..many], &mut typed).map_err(|expected| {
            format!("--{name}: expected {expected}, found \"{}\"", after[..many].join(" "))
        })?;
        rest = &after[many..];
    }
    build(typed)
}

fn take(effect: Effect, values: &[String], typed: &mut Typed) -> Result<(), String> {
    if effect == Effect::None {
        return Ok(());
    }
    let one = match values {
        [one] => one.as_str(),
        _ => "",
    };
    let number = |least: u64, most: u64| {
        let number = one.parse::<u64>().ok().filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| format!("a number from {least} to {most}"))
    };
    let size = |least: u64, most: u64| {
        let bytes = redis_bytes(one.as_bytes()).filter(|bytes| (least..=most).contains(bytes));
        bytes.ok_or_else(|| format!("a size such as \"100mb\", from {least} to {most} bytes"))
    };
    let count = |least, most| {
        number(least, most).map(|number| usize::try_from(number).unwrap_or(usize::MAX))
    };
    match effect {
        Effect::Port => typed.port = u16::try_from(number(0, 65_535)?).unwrap_or(0),
        Effect::TlsPort => typed.tls_port = u16::try_from(number(0, 65_535)?).unwrap_or(0),
        Effect::TlsCert | Effect::TlsKey | Effect::TlsCa if one.is_empty() => {
            return Err("a path".to_owned());
        }
        Effect::TlsCert => typed.tls.cert = Some(one.into()),
        Effect::TlsKey => typed.tls.key = Some(one.into()),
        Effect::TlsCa => typed.tls.ca = Some(one.into()),
        Effect::TlsClients => {
            typed.tls.required = match one {
                "yes" => Some(true),
                "optional" => Some(false),
                "no" => None,
                _ => return Err("yes, no or optional".to_owned()),
            }
        }
        Effect::TlsProtocols => typed.tls.only_13 = only_13(values)?,
        Effect::Bind if values.is_empty() => return Err("addresses".to_owned()),
        Effect::Bind => {
            let words = values.iter().flat_map(|value| value.split_whitespace());
            typed.bind = words.map(str::to_owned).collect();
        }
        Effect::Unixsocket if one.is_empty() => return Err("a path".to_owned()),
        Effect::Unixsocket => typed.unixsocket = Some(one.to_owned()),
        Effect::Unixsocketperm => {
            let mode = u32::from_str_radix(one, 8).ok().filter(|mode| *mode <= 0o777);
            typed.unixsocketperm = mode.ok_or("permissions in octal such as \"700\"")?;
        }
        Effect::Threads => typed.threads = count(1, 1024)?,
        Effect::Memory => typed.memory = value::size(one)?,
        // 0 is Redis's "no limit": Larder always has one.
        Effect::Maxmemory if one == "0" => {}
        Effect::Maxmemory => typed.memory = size(0, u64::MAX)?,
        Effect::Policy => typed.face.no_evictions = policy(one)?,
        // An empty one is none, as with Redis; a forgotten one is not.
        Effect::Password if values.len() != 1 => return Err("a password".to_owned()),
        Effect::Password => typed.face.password = Secret::new(one.as_bytes()),
        Effect::Acl => typed.face.acl = acl(one)?,
        Effect::Databases => typed.face.databases = count(1, 16)?,
        Effect::Clients => typed.face.connections = count(1, 1_000_000)?,
        Effect::Timeout => typed.face.idle_timeout = Duration::from_secs(number(0, 86_400 * 366)?),
        Effect::Protected => match one {
            "yes" => typed.face.protected = true,
            "no" => typed.face.protected = false,
            _ => return Err("yes or no".to_owned()),
        },
        Effect::Bulk => typed.face.bulk = size(1 << 10, 1 << 30)?,
        Effect::OutputBuffer => output_buffer(values, &mut typed.face)?,
        Effect::Slow => match one.parse::<i64>() {
            Ok(micros) => typed.face.slowlog_micros = u64::try_from(micros).ok(),
            Err(_) => return Err("a number of microseconds".to_owned()),
        },
        Effect::Backlog => typed.face.backlog = i32::try_from(number(1, 65_535)?).unwrap_or(511),
        Effect::Only(value) if one == value => {}
        Effect::Only(value) => return Err(format!("\"{value}\", as nothing else is here")),
        Effect::None => {}
    }
    Ok(())
}

/// Versions of TLS: whether 1.2 is not among them.
fn only_13(values: &[String]) -> Result<bool, String> {
    let words: Vec<_> = values.iter().flat_map(|value| value.split_whitespace()).collect();
    let old = words.contains(&"TLSv1.2");
    if old || words.contains(&"TLSv1.3") { Ok(!old) } else { Err("TLSv1.2, TLSv1.3".to_owned()) }
}

/// The users of a file; an empty path is none, as with Redis.
fn acl(path: &str) -> Result<Option<AclFile>, String> {
    if path.is_empty() {
        return Ok(None);
    }
    let read = objects::acl_of(path.as_ref());
    read.map(|(file, _)| Some(file)).map_err(|reason| format!("a file of users ({reason})"))
}

/// The policy: whether nothing is evicted.
fn policy(name: &str) -> Result<bool, String> {
    const EVICTING: [&str; 7] = [
        "allkeys-lru",
        "allkeys-lfu",
        "allkeys-random",
        "volatile-lru",
        "volatile-lfu",
        "volatile-random",
        "volatile-ttl",
    ];
    match name {
        "noeviction" => Ok(true),
        name if EVICTING.contains(&name) => Ok(false),
        _ => Err(format!("noeviction or one of {}", EVICTING.join(", "))),
    }
}

/// Groups of four: the class of clients, the hard limit, the soft one and its seconds.
fn output_buffer(values: &[String], face: &mut RedisSettings) -> Result<(), String> {
    let expected = || "groups such as \"pubsub 32mb 8mb 60\"".to_owned();
    let words: Vec<&str> = values.iter().flat_map(|value| value.split_whitespace()).collect();
    if words.is_empty() || !words.len().is_multiple_of(4) {
        return Err(expected());
    }
    for group in words.chunks(4) {
        let hard = redis_bytes(group[1].as_bytes()).ok_or_else(expected)?;
        // 0 is Redis's "no limit": the largest value is used.
        let hard = if hard == 0 { 1 << 30 } else { hard.min(1 << 30) };
        match group[0] {
            "pubsub" => face.subscriber_buffer = usize::try_from(hard).unwrap_or(usize::MAX),
            "normal" | "replica" | "slave" => {}
            _ => return Err(expected()),
        }
    }
    Ok(())
}

fn build(mut typed: Typed) -> Result<Settings, String> {
    if typed.memory < 8 << 20 {
        return Err("less than 8 MiB of memory: give --memory 8MiB or more".to_owned());
    }
    typed.face.listen.clear();
    if typed.port > 0 {
        for text in &typed.bind {
            addresses(text, typed.port, &mut typed.face.listen)?;
        }
    }
    if typed.tls_port > 0 {
        let mut listen = Vec::new();
        for text in &typed.bind {
            addresses(text, typed.tls_port, &mut listen)?;
        }
        typed.face.tls = Some(typed.tls.read(listen)?);
    }
    if let Some(path) = &typed.unixsocket {
        typed.face.listen.push(Listen::Unix { path: path.into(), mode: typed.unixsocketperm });
    }
    if typed.face.listen.is_empty() && typed.face.tls.is_none() {
        return Err("it would listen nowhere: give --port or --unixsocket".to_owned());
    }
    let settings = objects::only(typed.memory, typed.threads, None, Some(typed.face));
    settings.ok_or_else(|| NO_DEFAULT.to_owned())
}

/// One word of `--bind`. With a minus before it, as in Redis, an address that this machine does not
/// have is left out.
fn addresses(text: &str, port: u16, out: &mut Vec<Listen>) -> Result<(), String> {
    let (may_fail, text) = text.strip_prefix('-').map_or((false, text), |text| (true, text));
    let ip = match text {
        "*" => std::net::Ipv4Addr::UNSPECIFIED.into(),
        "::*" => std::net::Ipv6Addr::UNSPECIFIED.into(),
        "localhost" => std::net::Ipv4Addr::LOCALHOST.into(),
        other => other.parse().map_err(|_| {
            format!("--bind: expected an address such as \"127.0.0.1\", found \"{other}\"")
        })?,
    };
    let address = SocketAddr::new(ip, port);
    if !may_fail || std::net::TcpListener::bind((ip, 0)).is_ok() {
        out.push(Listen::Tcp(address));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(arguments: &[&str]) -> Result<Settings, String> {
        settings(&arguments.iter().map(|&text| text.to_owned()).collect::<Vec<_>>())
    }

    fn face(arguments: &[&str]) -> RedisSettings {
        of(arguments).expect("good").redis.expect("a face")
    }

    #[test]
    fn without_options_only_this_machine_can_connect() {
        let settings = of(&[]).expect("good");
        assert_eq!(settings.memory, 256 << 20);
        assert!(settings.http.listen.is_empty() && settings.memcached.is_none());
        let face = settings.redis.expect("a face");
        assert_eq!(face.listen, [Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], 6379)))]);
        assert!(face.protected && face.password.is_none() && !face.no_evictions && face.shutdown);
        assert_eq!((face.databases, face.connections, face.backlog), (16, 10_000, 511));
        assert_eq!((face.bulk, face.subscriber_buffer), (512 << 20, 32 << 20));
        assert_eq!(face.slowlog_micros, Some(10_000));
    }

    #[test]
    fn a_password_that_is_forgotten_is_not_none() {
        let password = |arguments: &[&str]| face(arguments).password;
        assert!(password(&["--requirepass", "secret"]).is_some());
        assert!(password(&["--requirepass", ""]).is_none());
        for wrong in [&["--requirepass"][..], &["--requirepass", "two", "words"]] {
            assert!(of(wrong).is_err_and(|error| error.contains("a password")), "{wrong:?}");
        }
    }

    #[test]
    fn names_and_units_are_those_of_redis() {
        let settings = of(&["--port", "7", "--threads", "1", "--memory", "64MiB"]).expect("good");
        assert_eq!((settings.memory, settings.threads), (64 << 20, 1));
        assert_eq!(of(&["--maxmemory", "100mb"]).expect("good").memory, 100 << 20);
        assert_eq!(of(&["--maxmemory", "100m"]).expect("good").memory, 100_000_000);
        let bound = face(&["--bind", "127.0.0.1", "-::1", "--port", "7"]).listen;
        assert!(bound.contains(&Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], 7)))));
        let unix = face(&["--port", "0", "--unixsocket", "/s", "--unixsocketperm", "770"]).listen;
        assert_eq!(unix, [Listen::Unix { path: "/s".into(), mode: 0o770 }]);
        let limits = face(&[
            "--client-output-buffer-limit",
            "normal 0 0 0 pubsub 1mb 1mb 60",
            "--timeout",
            "5",
        ]);
        assert_eq!(
            (limits.subscriber_buffer, limits.idle_timeout),
            (1 << 20, Duration::from_secs(5))
        );
        assert_eq!(face(&["--slowlog-log-slower-than", "-1"]).slowlog_micros, None);
        assert!(face(&["--maxmemory-policy", "noeviction"]).no_evictions);
        assert!(!face(&["--save", "", "--appendonly", "no", "--protected-mode", "no"]).protected);
        assert!(
            face(&["--requirepass", "secret"])
                .password
                .is_some_and(|password| password.matches(b"secret"))
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (arguments, message) in [
            (&["--prot", "7"][..], "there is no option \"--prot\""),
            (&["redis.conf"], "there is no option \"redis.conf\""),
            (&["--port"], "--port: expected a number from 0 to 65535, found \"\""),
            (&["--port", "70000"], "--port: expected a number"),
            (&["--appendonly", "yes"], "--appendonly: expected \"no\""),
            (&["--maxmemory-policy", "lru"], "--maxmemory-policy: expected noeviction or"),
            (&["--port", "0"], "it would listen nowhere"),
            (&["--memory", "1MiB"], "less than 8 MiB"),
            (&["--bind", "example.org"], "--bind: expected an address"),
            (
                &["--client-output-buffer-limit", "pubsub 1mb"],
                "--client-output-buffer-limit: expected groups",
            ),
        ] {
            let said = of(arguments).expect_err(message);
            assert!(said.starts_with(message), "{said}");
        }
    }

    #[test]
    fn the_help_names_what_has_an_effect() {
        let help = help();
        for (name, ..) in TABLE.iter().filter(|(.., about)| !about.is_empty()) {
            assert!(help.contains(&format!("--{name}")), "{name}");
        }
    }
}
