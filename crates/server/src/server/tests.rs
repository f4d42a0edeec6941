//! Servers with object faces alone.

use std::{
    io::Read,
    net::{Ipv4Addr, TcpStream},
    os::unix::net::UnixStream,
    path::Path,
};

use super::*;
use crate::settings::{HttpSettings, Listen, MemcachedSettings, RedisSettings, Share};

fn any_port() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

fn redis(listen: Vec<Listen>) -> RedisSettings {
    RedisSettings {
        listen,
        tls: None,
        proxies: Vec::new(),
        databases: 16,
        item_size: 1 << 20,
        bulk: 1 << 20,
        connections: 10,
        idle_timeout: Duration::ZERO,
        receive_timeout: Duration::from_secs(60),
        send_timeout: Duration::from_secs(60),
        subscriber_buffer: 1 << 16,
        password: None,
        users: None,
        acl: None,
        protected: true,
        shutdown: false,
        share_memcached: false,
        no_evictions: false,
        slowlog_micros: None,
        backlog: 64,
        share: Share::default(),
    }
}

fn settings(memcached: Option<MemcachedSettings>, redis: Option<RedisSettings>) -> Settings {
    Settings {
        memory: 32 << 20,
        threads: 2,
        http: HttpSettings { listen: Vec::new(), ..HttpSettings::default() },
        memcached,
        redis,
        ..Settings::empty()
    }
}

fn unix(path: &Path) -> Listen {
    Listen::Unix { path: path.to_owned(), mode: 0o700 }
}

/// All bytes until the end of the stream.
fn told(mut stream: impl Read) -> String {
    let mut told = String::new();
    stream.read_to_string(&mut told).expect("an end");
    told
}

#[test]
fn only_faces_with_addresses_run() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("socket");
    let mut face = MemcachedSettings::plain(vec![Listen::Tcp(any_port()), unix(&path)]);
    face.udp = vec![any_port()];
    let server = Server::start(settings(Some(face), None)).expect("started");
    let served = server.listening();
    assert!(served.iter().all(|(face, _)| *face == FaceName::Memcached));
    let [(_, Address::Tcp(tcp)), (_, Address::Unix(at)), (_, Address::Udp(_))] = served else {
        panic!("{served:?}")
    };
    assert_eq!((at, server.local_addrs()), (&path, Vec::new()));
    let names: Vec<String> = server.numbers().into_iter().map(|(name, _)| name).collect();
    assert!(names.iter().any(|name| name == "memcached.get_hits"));
    assert!(!names.iter().any(|name| name.starts_with("http.") || name.starts_with("redis.")));

    let (over_tcp, over_unix) = (TcpStream::connect(tcp), UnixStream::connect(&path));
    let both = ("memcached.connections.open".to_owned(), 2);
    while !server.numbers().contains(&both) {
        std::thread::yield_now();
    }
    server.drain();
    assert_eq!(told(over_tcp.expect("connected")), "");
    assert_eq!(told(over_unix.expect("connected")), "");
    assert!(!path.exists(), "the socket goes with the server");
}

#[test]
fn each_face_has_its_own_limit_and_words() {
    let face = MemcachedSettings {
        connections: 0,
        ..MemcachedSettings::plain(vec![Listen::Tcp(any_port())])
    };
    let other = RedisSettings { connections: 0, ..redis(vec![Listen::Tcp(any_port())]) };
    let server = Server::start(settings(Some(face), Some(other))).expect("started");
    let words = ["ERROR Too many open connections\r\n", "-ERR max number of clients reached\r\n"];
    for ((face, address), words) in server.listening().iter().zip(words) {
        let Address::Tcp(address) = address else { panic!("{address:?}") };
        assert_eq!(told(TcpStream::connect(address).expect("connected")), words, "{face}");
    }
    let refused =
        |(name, value): &(String, u64)| name == "memcached.connections.refused" && *value == 1;
    assert!(server.numbers().iter().any(refused));
    server.drain();
}

#[test]
fn a_taken_address_leaves_nothing_behind() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("socket");
    let taken = TcpListener::bind(any_port()).expect("bound");
    let taken = taken.local_addr().expect("an address");
    let wanted = settings(
        Some(MemcachedSettings::plain(vec![unix(&path)])),
        Some(redis(vec![Listen::Tcp(taken)])),
    );
    match Server::start(wanted) {
        Err(StartError::Listen { address, .. }) => assert_eq!(address, Address::Tcp(taken)),
        other => panic!("{:?}", other.err()),
    }
    assert!(!path.exists());
}

#[test]
fn a_reload_names_all_that_takes_a_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    let with = |name: &str, redis| {
        settings(Some(MemcachedSettings::plain(vec![unix(&dir.path().join(name))])), redis)
    };
    let mut server = Server::start(with("one", None)).expect("started");
    let mut fixed = |settings| match server.reload(settings) {
        Ok(()) => Vec::new(),
        Err(ReloadError::Fixed(names)) => names,
        Err(other) => panic!("{other}"),
    };
    assert!(fixed(with("two", None)).is_empty());
    assert!(!dir.path().join("one").exists() && dir.path().join("two").exists());
    let served = "whether redis is served";
    assert_eq!(fixed(with("two", Some(redis(Vec::new())))), [served]);
    assert_eq!(fixed(settings(None, None)), ["whether memcached is served"]);
    let mut larger = with("two", Some(redis(Vec::new())));
    (larger.memory, larger.threads) = (larger.memory * 2, 7);
    assert_eq!(fixed(larger), ["memory (above that of the start)", "threads", served]);
    let mut changed = with("two", None);
    changed.memcached.as_mut().expect("there").connections = 20;
    assert!(fixed(changed).is_empty());
    server.drain();
}

#[test]
fn memory_is_refused_only_where_every_face_wants_it() {
    let refusing =
        |no| Some(MemcachedSettings { no_evictions: no, ..MemcachedSettings::plain(Vec::new()) });
    let other = |no| Some(RedisSettings { no_evictions: no, ..redis(Vec::new()) });
    let may = |memcached, redis| memory::may_evict(&settings(memcached, redis));
    assert!(!may(refusing(true), None) && !may(refusing(true), other(true)));
    assert!(may(refusing(true), other(false)) && may(refusing(false), None) && may(None, None));
    let mut with_pages = settings(refusing(true), None);
    with_pages.http.listen.push(any_port());
    assert!(memory::may_evict(&with_pages));
}

#[test]
fn shares_are_those_that_say_something() {
    let mut wanted = settings(Some(MemcachedSettings::plain(Vec::new())), Some(redis(Vec::new())));
    assert_eq!(memory::shares(&wanted), []);
    wanted.pages.floor = Some(1 << 20);
    wanted.redis.as_mut().expect("there").share.ceiling = Some(2 << 20);
    let shares = memory::shares(&wanted);
    let told: Vec<_> = shares.iter().map(|s| (s.first.0, s.last.0, s.floor, s.ceiling)).collect();
    assert_eq!(told, [(0, 0, 1 << 20, usize::MAX), (2, 18, 0, 2 << 20)]);
}
