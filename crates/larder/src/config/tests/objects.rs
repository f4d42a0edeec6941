//! `[memcached]`, `[redis]`, and the parts of the memory.

use larder_server::settings::{Listen, MemcachedSettings, RedisSettings, Share, WireProtocol};

use super::*;

#[test]
fn objects_alone_need_no_origin_and_serve_no_http() {
    let flags = Flags {
        memcached: vec!["127.0.0.1:0".to_owned(), "unix:m.sock".to_owned()],
        redis: vec!["127.0.0.1:7".to_owned()],
        ..Flags::default()
    };
    let loaded = with_flags("", flags);
    let settings = loaded.settings.unwrap_or_else(|| panic!("{}", loaded.report));
    assert!(settings.http.listen.is_empty() && settings.sites.is_empty());
    let memcached = settings.memcached.expect("a face");
    let socket = Listen::Unix { path: PathBuf::from("m.sock"), mode: 0o700 };
    assert_eq!(memcached.listen, [Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], 0))), socket]);
    assert_eq!(
        settings.redis.expect("a face").listen,
        [Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], 7)))]
    );
    let site = good("[memcached]\n[[site]]\norigin = \"http://a\"\n");
    assert_eq!(site.http.listen.len(), 1, "a site is served");
    assert!(site.memcached.is_some() && site.redis.is_none());
}

#[test]
fn every_key_of_the_object_faces_reaches_the_settings() {
    let users = std::env::temp_dir().join(format!("larder-users-{}", std::process::id()));
    std::fs::write(&users, "anna:secret\n").expect("a file");
    let text = format!(
        r#"
[http]
floor = "20MiB"
ceiling = "90MiB"
[[site]]
origin = "http://a"
[memcached]
listen = ["[::1]:1", "unix:m.sock"]
unix_mode = "770"
floor = "10MiB"
ceiling = "50MiB"
item_size = "2MiB"
connections = 5
connections_fast = false
idle_timeout = "5s"
receive_timeout = "10s"
send_timeout = "6s"
protocol = "ascii"
auth_file = "{0}"
cas = false
flush_all = false
dump = false
watch = false
shutdown = true
evict = false
prefix_delimiter = "/"
detail = true
watcher_buffer = "8KiB"
requests_per_event = 7
backlog = 8
verbosity = 2
[redis]
listen = "127.0.0.1:2"
databases = 3
item_size = "3MiB"
bulk = "4MiB"
connections = 6
idle_timeout = "7s"
receive_timeout = "11s"
send_timeout = "8s"
subscriber_buffer = "1MiB"
password_file = "{0}"
users_file = "{0}"
protected = false
shutdown = true
share_memcached = true
evict = false
slowlog_micros = 5
backlog = 9
floor = "1MiB"
ceiling = "2MiB"
"#,
        users.display()
    );
    let settings = good(&text);
    std::fs::remove_file(&users).expect("removed");
    assert_eq!(settings.pages, Share { floor: Some(20 << 20), ceiling: Some(90 << 20) });
    let face = settings.memcached.expect("a face");
    assert_eq!(face.listen[1], Listen::Unix { path: PathBuf::from("m.sock"), mode: 0o770 });
    let auth = face.auth.clone().expect("users");
    assert_eq!(auth[0].0, "anna");
    let expected = MemcachedSettings {
        listen: face.listen.clone(),
        tls: None,
        proxies: vec![],
        udp: vec![],
        item_size: 2 << 20,
        connections: 5,
        connections_fast: false,
        idle_timeout: Duration::from_secs(5),
        receive_timeout: Duration::from_secs(10),
        send_timeout: Duration::from_secs(6),
        protocol: WireProtocol::Ascii,
        auth: Some(auth),
        sasl: None,
        cas: false,
        flush_all: false,
        dump: false,
        watch: false,
        shutdown: true,
        no_evictions: true,
        disk: false,
        prefix_delimiter: b'/',
        detail: true,
        sizes: false,
        watcher_buffer: 8 << 10,
        requests_per_event: 7,
        backlog: 8,
        verbosity: 2,
        share: Share { floor: Some(10 << 20), ceiling: Some(50 << 20) },
    };
    assert_eq!(face, expected);
    let face = settings.redis.expect("a face");
    assert!(face.password.as_ref().is_some_and(|password| password.matches(b"anna:secret")));
    let expected = RedisSettings {
        listen: vec![Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], 2)))],
        tls: None,
        proxies: vec![],
        databases: 3,
        item_size: 3 << 20,
        bulk: 4 << 20,
        connections: 6,
        idle_timeout: Duration::from_secs(7),
        receive_timeout: Duration::from_secs(11),
        send_timeout: Duration::from_secs(8),
        subscriber_buffer: 1 << 20,
        password: face.password.clone(),
        users: face.users.clone(),
        acl: None,
        protected: false,
        shutdown: true,
        share_memcached: true,
        no_evictions: true,
        slowlog_micros: Some(5),
        backlog: 9,
        share: Share { floor: Some(1 << 20), ceiling: Some(2 << 20) },
    };
    assert_eq!(face, expected);
}

#[test]
fn what_is_wrong_with_object_faces_is_said() {
    for (text, message) in [
        (
            "[memcached]\nlisten = \"/run/m\"\n",
            "l.toml:2:10: error: expected an address and port such as \"127.0.0.1:11211\", or \
             \"unix:\" and a path, found \"/run/m\"",
        ),
        ("[memcached]\nlisten = []\n", "l.toml:2:1: error: it listens nowhere"),
        (
            "[memcached]\nfloor = \"2MiB\"\nceiling = \"1MiB\"\n",
            "l.toml:2:1: error: the floor (2MiB) is above the ceiling (1MiB)",
        ),
        (
            "memory = \"16MiB\"\n[memcached]\nfloor = \"8MiB\"\n[redis]\nfloor = \"8MiB\"\n",
            "l.toml: error: the floors are 16MiB together, and `memory` is 16MiB",
        ),
        (
            "[redis]\nshare_memcached = true\n",
            "l.toml:2:1: error: database 0 cannot be shared with [memcached], which is not there",
        ),
        (
            "[memcached]\nunix_mode = \"888\"\n",
            "l.toml:2:13: error: expected permissions in octal such as \"700\", found \"888\"",
        ),
        (
            "[redis]\npassword_file = \"/nonexistent\"\n",
            "l.toml:2:1: error: cannot use the password file /nonexistent: there is no such file",
        ),
        ("[http]\n[memcached]\n", "l.toml: error: there is no origin to get pages from"),
    ] {
        let loaded = of(text);
        assert_eq!(said(&loaded), [message], "{text}");
        assert!(loaded.settings.is_none());
    }
}

#[test]
fn a_password_and_what_goes_round_it_exclude_each_other() {
    let users = std::env::temp_dir().join(format!("larder-round-{}", std::process::id()));
    std::fs::write(&users, "anna:secret\n").expect("a file");
    let file = users.display();
    for (text, part) in [
        (
            format!("auth_file = \"{file}\"\nudp = \"127.0.0.1:1\"\n"),
            "over UDP nobody can be asked",
        ),
        (format!("auth_file = \"{file}\"\nprotocol = \"binary\"\n"), "is for the text protocol"),
        (format!("sasl_file = \"{file}\"\nprotocol = \"ascii\"\n"), "is for the binary protocol"),
        (format!("auth_file = \"{file}\"\nsasl_file = \"{file}\"\n"), "nothing is left"),
    ] {
        let loaded = of(&format!("[memcached]\n{text}"));
        let found = loaded.report.errors.iter().any(|problem| problem.message.contains(part));
        assert!(found && loaded.settings.is_none(), "{text}{}", loaded.report);
    }
    std::fs::remove_file(&users).expect("removed");
}

#[test]
fn a_file_of_users_is_read_and_its_mistakes_are_told() {
    let path = std::env::temp_dir().join(format!("larder-acl-{}", std::process::id()));
    let file = path.display();
    let set = format!("[redis]\nacl_file = \"{file}\"\n");
    std::fs::write(&path, "user ann on >pw ~* +@read\n").expect("a file");
    let face = good(&set).redis.expect("a face");
    assert_eq!(face.acl.expect("users").users.len(), 1);
    let both = of(&format!("{set}password_file = \"{file}\"\n"));
    let told = said(&both).join("\n");
    assert!(told.contains("`acl_file` has all users, and `password_file` would have"), "{told}");
    std::fs::write(&path, "user ann on\nuser bob +nosuch\n").expect("a file");
    let told = said(&of(&set)).join("\n");
    let expected = format!(
        "l.toml:2:1: error: {file}:2: Error in applying operation '+nosuch': Unknown command or \
         category name in ACL."
    );
    assert_eq!(told, expected);
    std::fs::remove_file(&path).expect("removed");
}
