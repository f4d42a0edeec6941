//! The client library's operations and their answers: every protocol, Debian's memcached and
//! Larder's own face, TCP and unix sockets, passwords.

#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use larder_client::{Auth, Client, Config, Error, Expiry, Protocol, Server, Store, Stored};
use larder_tests::client::{config, patient, run, value};
use larder_tests::{Memcached, Scratch};
use std::time::Duration;

fn store(flags: u32) -> Store {
    Store { flags, ..Store::default() }
}

async fn storing(client: &Client) {
    assert_eq!(client.get(b"a").await, Ok(None));
    assert_eq!(client.set(b"a", "1".into(), store(7)).await, Ok(Stored::Stored));
    let item = client.get(b"a").await.unwrap().unwrap();
    assert_eq!((item.value, item.flags), (Bytes::from_static(b"1"), 7));
    assert_eq!(client.add(b"a", "2".into(), store(0)).await, Ok(Stored::NotStored));
    assert_eq!(client.add(b"b", "2".into(), store(0)).await, Ok(Stored::Stored));
    assert_eq!(client.replace(b"c", "3".into(), store(0)).await, Ok(Stored::NotStored));
    assert_eq!(client.replace(b"b", "x".into(), store(u32::MAX)).await, Ok(Stored::Stored));
    assert_eq!(client.append(b"b", "y".into()).await, Ok(Stored::Stored));
    assert_eq!(client.prepend(b"b", "w".into()).await, Ok(Stored::Stored));
    assert_eq!(client.append(b"c", "y".into()).await, Ok(Stored::NotStored));
    assert_eq!(client.prepend(b"c", "y".into()).await, Ok(Stored::NotStored));
    let item = client.get(b"b").await.unwrap().unwrap();
    assert_eq!((item.value, item.flags), (Bytes::from_static(b"wxy"), u32::MAX));
    assert_eq!(client.set(b"empty", Bytes::new(), store(0)).await, Ok(Stored::Stored));
    assert_eq!(value(client, "empty").await.as_deref(), Some(""));
}

async fn versions(client: &Client) {
    let first = client.gets(b"a").await.unwrap().unwrap().cas.unwrap();
    assert_eq!(client.cas(b"a", "2".into(), first, store(0)).await, Ok(Stored::Stored));
    assert_eq!(client.cas(b"a", "3".into(), first, store(0)).await, Ok(Stored::Exists));
    assert_eq!(client.cas(b"none", "3".into(), first, store(0)).await, Ok(Stored::NotFound));
    let second = client.gets_many(&[b"a", b"none"]).await.remove(0).unwrap().unwrap();
    assert_ne!(second.cas, Some(first));
    assert_eq!(second.value, "2");
}

async fn counting(client: &Client) {
    client.set(b"n", "10".into(), store(0)).await.unwrap();
    assert_eq!(client.incr(b"n", 5).await, Ok(Some(15)));
    assert_eq!(client.decr(b"n", 1).await, Ok(Some(14)));
    assert_eq!(client.decr(b"n", 100).await, Ok(Some(0)));
    assert_eq!(client.incr(b"n", u64::MAX).await, Ok(Some(u64::MAX)));
    assert_eq!(client.incr(b"none", 1).await, Ok(None));
    assert_eq!(client.decr(b"none", 1).await, Ok(None));
    client.set(b"text", "x".into(), store(0)).await.unwrap();
    let refused = client.incr(b"text", 1).await;
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    assert_eq!(value(client, "n").await.as_deref(), Some("18446744073709551615"));
}

async fn living(client: &Client) {
    assert_eq!(client.touch(b"a", Expiry::After(Duration::from_secs(1000))).await, Ok(true));
    assert_eq!(client.touch(b"none", Expiry::Never).await, Ok(false));
    let item = client.get_and_touch(b"a", Expiry::Never).await.unwrap().unwrap();
    assert_eq!(item.value, "2");
    assert_eq!(client.get_and_touch(b"none", Expiry::Never).await, Ok(None));
    for past in [Expiry::Now, Expiry::After(Duration::ZERO), Expiry::At(1)] {
        client.set(b"gone", "x".into(), Store { expiry: past, ..store(0) }).await.unwrap();
        assert_eq!(client.get(b"gone").await, Ok(None), "{past:?}");
    }
    let year = Store::lasting(Duration::from_secs(365 * 86400));
    client.set(b"year", "x".into(), year).await.unwrap();
    assert_eq!(value(client, "year").await.as_deref(), Some("x"));
    assert_eq!(client.lease(b"lease", "me".into(), Duration::from_secs(10)).await, Ok(true));
    assert_eq!(client.lease(b"lease", "you".into(), Duration::from_secs(10)).await, Ok(false));
    assert_eq!(client.delete(b"lease").await, Ok(true));
    assert_eq!(client.delete(b"lease").await, Ok(false));
}

async fn many(client: &Client) {
    let keys: Vec<String> = (0..1000).map(|n| format!("many-{n}")).collect();
    for key in keys.iter().step_by(3) {
        client.set_quietly(key.as_bytes(), key.clone().into(), store(0)).await.unwrap();
    }
    client.settle().await;
    let mut asked: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
    // Twice the same key, and keys that cannot be.
    asked.extend([keys[0].as_bytes(), b"", b"a blank", &[b'x'; 251]]);
    let answers = client.get_many(&asked).await;
    assert_eq!(answers.len(), asked.len());
    for (n, answer) in answers.iter().take(1000).enumerate() {
        let found = answer.as_ref().unwrap().as_ref().map(|item| &item.value[..]);
        assert_eq!(found, (n % 3 == 0).then_some(keys[n].as_bytes()), "{n}");
    }
    assert_eq!(answers[1000].as_ref().unwrap().as_ref().unwrap().value, "many-0");
    assert_eq!(answers[1001..], [Err(Error::Key), Err(Error::Key), Err(Error::Key)]);
    client.touch_quietly(b"many-0", Expiry::Now).await.unwrap();
    client.delete_quietly(b"many-3").await.unwrap();
    client.settle().await;
    assert_eq!(client.get(b"many-0").await, Ok(None));
    assert_eq!(client.get(b"many-3").await, Ok(None));
}

async fn large(client: &Client) {
    let value: Bytes = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
    assert_eq!(client.set(b"large", value.clone(), store(1)).await, Ok(Stored::Stored));
    assert_eq!(client.get(b"large").await.unwrap().unwrap().value, value);
    let answers = client.get_many(&[b"large", b"a", b"large"]).await;
    assert_eq!(answers[0].as_ref().unwrap().as_ref().unwrap().value, value);
    assert_eq!(answers[1].as_ref().unwrap().as_ref().unwrap().value, "2");
    assert_eq!(answers[2].as_ref().unwrap().as_ref().unwrap().value, value);
    let limit = client.config().max_item;
    let above = client.set(b"above", vec![0; limit + 1].into(), store(0)).await;
    assert_eq!(above, Err(Error::TooLarge { size: limit + 1, limit }));
}

async fn figures(client: &Client) {
    let versions = client.version().await;
    assert!(
        versions.iter().all(|version| version.as_ref().is_ok_and(|v| !v.is_empty())),
        "{versions:?}"
    );
    for stats in client.stats(None).await {
        let stats = stats.unwrap();
        assert!(stats.iter().any(|(name, _)| name == "curr_items"), "{stats:?}");
    }
    for stats in client.stats(Some("settings")).await {
        assert!(stats.unwrap().iter().any(|(name, _)| name == "maxbytes"));
    }
    assert_eq!(client.stats(Some("a\r\nflush_all")).await[0], Err(Error::Key));
    assert!(client.flush(0).await.iter().all(Result::is_ok));
    assert_eq!(client.get(b"year").await, Ok(None));
    for view in client.servers() {
        assert_eq!((view.errors, view.timeouts, view.connects), (view.errors, 0, 1), "{view:?}");
        assert!(view.hits + view.misses == view.lookups && view.lookups > 0, "{view:?}");
        assert!(view.latency.iter().map(|(_, n)| n).sum::<u64>() >= view.lookups / 100);
    }
}

fn all(config: Config) {
    run(async {
        let client = Client::new(config).unwrap();
        storing(&client).await;
        versions(&client).await;
        counting(&client).await;
        living(&client).await;
        many(&client).await;
        large(&client).await;
        figures(&client).await;
    });
}

#[test]
fn debians_memcached_answers_in_every_protocol() {
    let servers = [Memcached::debian(&[]), Memcached::debian(&[]), Memcached::debian(&[])];
    for protocol in [Protocol::Auto, Protocol::Text, Protocol::Meta, Protocol::Binary] {
        all(Config { protocol, ..config(&servers.each_ref()) });
    }
}

#[test]
fn larders_own_face_answers_in_every_protocol() {
    let server = Memcached::larder(&[]);
    for protocol in [Protocol::Auto, Protocol::Text, Protocol::Meta, Protocol::Binary] {
        all(Config { protocol, connections: 2, ..config(&[&server]) }.with_one_connection());
    }
}

/// `figures` counts connections; two are tested where answers are counted.
trait One {
    fn with_one_connection(self) -> Self;
}

impl One for Config {
    fn with_one_connection(mut self) -> Config {
        self.connections = 1;
        self
    }
}

#[test]
fn unix_sockets_and_prefixes() {
    let server = Memcached::debian(&["-s", "@DIR@/m.sock"]);
    let mut config = patient(vec![Server::unix(server.dir().join("m.sock"))]);
    config.prefix = b"wiki:".to_vec();
    all(config.clone());
    run(async {
        let client = Client::new(config.clone()).unwrap();
        client.set(b"k", "v".into(), store(0)).await.unwrap();
        let bare = Client::new(Config { prefix: Vec::new(), ..config }).unwrap();
        assert_eq!(value(&bare, "wiki:k").await.as_deref(), Some("v"));
        assert_eq!(client.set(&[b'x'; 246], "v".into(), store(0)).await, Err(Error::Key));
    });
}

#[test]
fn ascii_passwords_are_accepted_and_refused() {
    let scratch = Scratch::new("auth");
    let file = scratch.write("users", "larder:secret\n");
    let server = Memcached::debian(&["-Y", &file.to_string_lossy()]);
    let auth = |password: &str| Auth::Ascii { user: "larder".into(), password: password.into() };
    let with = |auth| Config { auth, ..config(&[&server]) };
    for protocol in [Protocol::Auto, Protocol::Text, Protocol::Meta] {
        all(Config { protocol, ..with(Some(auth("secret"))) });
    }
    run(async {
        for wrong in [Some(auth("wrong")), None] {
            let client = Client::new(with(wrong)).unwrap();
            let answer = client.get(b"a").await;
            assert!(matches!(answer, Err(Error::Auth(_))), "{answer:?}");
        }
    });
}

#[test]
fn sasl_passwords_are_accepted_and_refused() {
    let scratch = Scratch::new("sasl");
    let users = scratch.write("users", "larder:secret\n");
    for server in
        [Memcached::larder_with_sasl(&users), Memcached::debian_with_sasl("larder", "secret")]
    {
        let with = |password: &str| {
            let auth = Auth::SaslPlain { user: "larder".into(), password: password.into() };
            Config { auth: Some(auth), ..config(&[&server]) }
        };
        all(with("secret"));
        run(async {
            let client = Client::new(with("wrong")).unwrap();
            assert!(matches!(client.get(b"a").await, Err(Error::Auth(_))));
            let nobody = Config { protocol: Protocol::Binary, ..config(&[&server]) };
            let answer = Client::new(nobody).unwrap().get(b"a").await;
            assert!(matches!(answer, Err(Error::Auth(_))), "{answer:?}");
        });
    }
}

#[test]
fn servers_are_reached_over_ipv6_where_the_machine_has_it() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        return;
    }
    // Beside the address the test asks whether it listens at.
    let server = Memcached::debian(&["-l", "::1"]);
    let address = format!("[::1]:{}", server.port());
    run(async {
        let client = Client::new(patient(vec![Server::parse(&address).unwrap()])).unwrap();
        client.set(b"k", "v".into(), store(0)).await.unwrap();
        assert_eq!(value(&client, "k").await.as_deref(), Some("v"));
        assert_eq!(client.servers()[0].name, address);
    });
}

#[test]
fn two_runtimes_at_once_share_one_client() {
    let server = Memcached::debian(&[]);
    let client = Client::new(config(&[&server])).unwrap();
    let threads: Vec<_> = (0..2)
        .map(|thread| {
            let client = client.clone();
            std::thread::spawn(move || {
                run(async {
                    for n in 0..500 {
                        let key = format!("{thread}-{n}");
                        // The other's runtime may end with answers under way: that is an error, and
                        // no other's answer.
                        if client.set(key.as_bytes(), key.clone().into(), store(0)).await.is_ok()
                            && let Ok(found) = client.get(key.as_bytes()).await
                        {
                            assert_eq!(found.unwrap().value, key);
                        }
                    }
                })
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    run(async { assert_eq!(value(&client, "0-0").await.as_deref(), Some("0-0")) });
}

#[test]
fn two_connections_share_the_work() {
    let server = Memcached::debian(&[]);
    run(async {
        let client = Client::new(Config { connections: 2, ..config(&[&server]) }).unwrap();
        for n in 0..10 {
            client.set(format!("{n}").as_bytes(), "x".into(), store(0)).await.unwrap();
        }
        assert_eq!((client.servers()[0].connects, client.servers()[0].writes), (2, 10));
    });
}

#[test]
fn a_multi_threaded_runtime_and_a_runtime_that_is_gone() {
    let server = Memcached::debian(&[]);
    let client = Client::new(config(&[&server])).unwrap();
    let many =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let work = |client: Client| async move {
        let tasks: Vec<_> = (0..200)
            .map(|n| {
                let client = client.clone();
                tokio::spawn(async move {
                    let key = format!("key-{n}");
                    client.set(key.as_bytes(), key.clone().into(), Store::default()).await.unwrap();
                    assert_eq!(value(&client, &key).await, Some(key));
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    };
    many.block_on(work(client.clone()));
    drop(many);
    // The connection's task went with its runtime.
    run(work(client));
}

#[test]
fn what_was_asked_quietly_is_done_though_the_client_is_gone() {
    let server = Memcached::debian(&[]);
    run(async {
        let client = Client::new(config(&[&server])).unwrap();
        for n in 0..500 {
            client.set_quietly(format!("{n}").as_bytes(), "x".into(), store(0)).await.unwrap();
        }
        drop(client);
        larder_tests::client::until("all to be stored", || {
            server.connect().stat("curr_items") == "500"
        })
        .await;
    });
}
