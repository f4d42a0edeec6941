//! From memcached's flags to settings, checked in memcached's order.

use std::{path::Path, time::Duration};

use larder_server::settings::{
    MemcachedSettings, Secret, Settings, SnapshotSettings, Users, WireProtocol,
};

use super::{Exit, Typed, listeners};
use crate::config::{bounded, objects, users};

/// The least memory of the store, in bytes. memcached allows less; smaller values are raised.
const LEAST_MEMORY: u64 = 8 << 20;

/// Largest file of SASL users, in bytes.
const USERS_BYTES: usize = 1 << 20;

/// The settings, without users and certificate: their files are read as the user who runs the
/// server.
pub(super) fn settings(typed: &Typed) -> Result<Settings, Exit> {
    if typed.napi_ids > typed.threads {
        return Err(Exit::usage(format!(
            "Number of napi_ids({}) cannot be greater than number of threads({})",
            typed.napi_ids, typed.threads
        )));
    }
    let memory = u64::try_from(typed.megabytes).unwrap_or(0) << 20;
    let item_size = item_size(typed, memory)?;
    let protocol = protocol(typed)?;
    let listeners = listeners::listeners(typed)?;
    if typed.auth_file.is_some() && !listeners.udp.is_empty() {
        return Err(Exit::usage(
            "Cannot use UDP with ascii authentication enabled (-U 0 to disable)",
        ));
    }
    let no_default = || Exit::system(format!("larder: {}", objects::NO_DEFAULT));
    let defaults = objects::memcached_defaults().ok_or_else(no_default)?;
    let face = MemcachedSettings {
        listen: listeners.stream,
        udp: listeners.udp,
        item_size,
        connections: usize::try_from(typed.connections).unwrap_or(usize::MAX),
        connections_fast: typed.connections_fast,
        idle_timeout: Duration::from_secs(typed.idle_seconds),
        protocol,
        cas: typed.cas,
        flush_all: typed.flush_all,
        dump: typed.dump,
        watch: typed.watch,
        shutdown: typed.shutdown,
        no_evictions: typed.no_evictions,
        prefix_delimiter: typed.delimiter.unwrap_or(defaults.prefix_delimiter),
        detail: typed.delimiter.is_some(),
        sizes: typed.sizes,
        watcher_buffer: usize::try_from(typed.watcher_kilobytes << 10).unwrap_or(usize::MAX),
        requests_per_event: usize::try_from(typed.requests_per_event).unwrap_or(usize::MAX),
        // The kernel needs at least one, and bounds it by net.core.somaxconn.
        backlog: i32::try_from(typed.backlog.clamp(1, 65_535)).unwrap_or(1024),
        verbosity: typed.verbosity,
        ..defaults
    };
    let threads = usize::try_from(typed.threads).unwrap_or(1);
    let settings = objects::only(memory.max(LEAST_MEMORY), threads, Some(face), None);
    let snapshot = typed.memory_file.as_ref().map(|path| SnapshotSettings {
        path: path.into(),
        // memcached takes a file of any age.
        max_age: Duration::from_secs(100 * 366 * 86_400),
    });
    settings.map(|settings| Settings { snapshot, ..settings }).ok_or_else(no_default)
}

fn item_size(typed: &Typed, memory: u64) -> Result<u64, Exit> {
    let size = u64::try_from(typed.item_size).unwrap_or(0);
    if size < 1024 {
        return Err(Exit::usage("Item max size cannot be less than 1024 bytes."));
    }
    if size > memory / 2 {
        return Err(Exit::usage("Cannot set item size limit higher than 1/2 of memory max."));
    }
    if size > 1 << 30 {
        return Err(Exit::usage("Cannot set item size limit higher than a gigabyte."));
    }
    Ok(size)
}

fn protocol(typed: &Typed) -> Result<WireProtocol, Exit> {
    let asked = typed.protocol.unwrap_or_default();
    if typed.sasl {
        if asked == WireProtocol::Ascii {
            return Err(Exit::usage(
                "ERROR: You cannot allow the ASCII protocol while using SASL.",
            ));
        }
        if typed.udp_port.is_some_and(|port| port != 0) {
            return Err(Exit::usage(
                "ERROR: Cannot enable UDP while using binary SASL authentication.",
            ));
        }
        return Ok(WireProtocol::Binary);
    }
    if typed.auth_file.is_some() {
        if asked == WireProtocol::Binary {
            let message = "ERROR: You cannot allow the BINARY protocol while using ascii \
                           authentication tokens.";
            return Err(Exit::usage(message));
        }
        return Ok(WireProtocol::Ascii);
    }
    Ok(asked)
}

/// Puts the users of `-Y` and `-S` and the certificate of `-Z` into the settings.
pub(super) fn read_files(typed: &Typed, settings: &mut Settings) -> Result<(), Exit> {
    let Some(face) = &mut settings.memcached else { return Ok(()) };
    if let Some(path) = &typed.auth_file {
        face.auth = Some(auth_file(path)?);
    }
    if typed.sasl {
        let path = std::env::var_os("MEMCACHED_SASL_PWDB").ok_or_else(|| {
            let message =
                "Error initializing sasl.\nlarder: MEMCACHED_SASL_PWDB must name a file of users";
            Exit::failure(message.to_owned())
        })?;
        face.sasl = Some(sasl_file(Path::new(&path))?);
    }
    if typed.tls {
        let listen = match face.tls.take() {
            Some(before) => before.listen,
            None => listeners::listeners(typed)?.tls,
        };
        let tls = typed.tls_files.read(listen);
        face.tls = Some(tls.map_err(|reason| Exit::usage(format!("{reason} (-o ssl_...)")))?);
    }
    Ok(())
}

/// For SIGHUP: the same settings with the present users and certificate. None: a file is wrong, and
/// the reason is printed.
pub(super) fn reread_files(typed: &Typed, mut settings: Settings) -> Result<Settings, String> {
    match read_files(typed, &mut settings) {
        Ok(()) => Ok(settings),
        Err(exit) => Err(format!("{}\n", exit.message)),
    }
}

fn auth_file(path: &str) -> Result<Users, Exit> {
    users::read(Path::new(path)).map(|(users, _)| users).map_err(|reason| {
        Exit::failure(if reason.starts_with("line ") {
            format!("Authfile [{path}] has a malformed entry. Should be 'user:password' ({reason})")
        } else {
            format!("Could not open authfile [{path}] for reading, error {reason}")
        })
    })
}

/// As memcached's own password database: `user:password`, and the part behind a further colon is
/// ignored.
fn sasl_file(path: &Path) -> Result<Users, Exit> {
    let wrong = |reason: String| {
        Exit::failure(format!("Error initializing sasl.\nlarder: {}: {reason}", path.display()))
    };
    let (text, _) = bounded::read(path, USERS_BYTES).map_err(wrong)?;
    let mut all = users::parse(&text).map_err(wrong)?.to_vec();
    for line in text.split(|byte| *byte == b'\n') {
        let mut parts = line.splitn(3, |byte| *byte == b':');
        if let (Some(name), Some(password), Some(_)) = (parts.next(), parts.next(), parts.next())
            && let (Ok(name), Some(password)) = (str::from_utf8(name), Secret::new(password))
        {
            all.push((name.to_owned(), password));
        }
    }
    Ok(all.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(typed: &Typed) -> Result<MemcachedSettings, (String, u8)> {
        let settings = settings(typed).map_err(|exit| (exit.message, exit.code))?;
        Ok(settings.memcached.expect("a face"))
    }

    fn local() -> Typed {
        Typed { listen: Some("127.0.0.1".to_owned()), ..Typed::default() }
    }

    #[test]
    fn the_defaults_are_memcacheds() {
        let settings = settings(&local()).expect("good");
        assert_eq!((settings.memory, settings.threads), (64 << 20, 4));
        assert!(settings.http.listen.is_empty() && settings.redis.is_none());
        let face = settings.memcached.expect("a face");
        assert_eq!((face.item_size, face.connections, face.backlog), (1 << 20, 1024, 1024));
        assert!(face.connections_fast && face.cas && face.flush_all && face.dump && face.watch);
        assert!(!face.shutdown && !face.detail && !face.no_evictions);
        assert_eq!((face.requests_per_event, face.watcher_buffer), (20, 256 << 10));
        assert_eq!(face.idle_timeout, Duration::ZERO);
    }

    #[test]
    fn flags_that_exclude_each_other_are_refused_as_memcached_refuses_them() {
        let auth = || Some("/f".to_owned());
        for (typed, begins) in [
            (Typed { item_size: 1023, ..local() }, "Item max size"),
            (
                Typed { item_size: 33 << 20, ..local() },
                "Cannot set item size limit higher than 1/2",
            ),
            (
                Typed { item_size: 2 << 30, megabytes: 8192, ..local() },
                "Cannot set item size limit higher than a g",
            ),
            (Typed { megabytes: 0, ..local() }, "Cannot set item size limit higher than 1/2"),
            (Typed { napi_ids: 5, ..local() }, "Number of napi_ids(5)"),
            (
                Typed { sasl: true, protocol: Some(WireProtocol::Ascii), ..local() },
                "ERROR: You cannot allow the ASCII",
            ),
            (Typed { sasl: true, udp_port: Some(5), ..local() }, "ERROR: Cannot enable UDP"),
            (
                Typed { auth_file: auth(), protocol: Some(WireProtocol::Binary), ..local() },
                "ERROR: You cannot allow the BINARY",
            ),
            (
                Typed { auth_file: auth(), udp_port: Some(5), ..local() },
                "Cannot use UDP with ascii",
            ),
        ] {
            let (message, code) = of(&typed).expect_err(begins);
            assert!(message.starts_with(begins), "{message}");
            assert_eq!(code, 64);
        }
    }

    #[test]
    fn little_memory_is_raised_and_a_password_chooses_the_protocol() {
        assert_eq!(
            settings(&Typed { megabytes: 2, ..local() }).expect("good").memory,
            LEAST_MEMORY
        );
        let ascii = of(&Typed { auth_file: Some("/f".to_owned()), ..local() }).expect("good");
        assert_eq!(ascii.protocol, WireProtocol::Ascii);
        assert_eq!(
            of(&Typed { sasl: true, ..local() }).expect("good").protocol,
            WireProtocol::Binary
        );
    }
}
