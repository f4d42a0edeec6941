//! The client library against peers that mean no good, or cannot do better: answers that never end,
//! that belong to nothing or to those who have gone; values taken for requests; connections that
//! end at the wrong time; peers that take and give a few bytes at a time. The peer is the test
//! itself.

#![allow(clippy::unwrap_used)]

use larder_client::{Client, Config, Error, Protocol, Server, State, Store, Timeouts};
use larder_tests::client::{config, heard, patient, peer, run, server, text, until};
use larder_tests::{Memcached, helper::free_port, wait::Gate};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_value_that_was_taken_for_requests_is_nobodys_answer() {
    // A server that does not understand the store reads the value as requests, and answers them.
    for refusal in ["ERROR\r\n", "CLIENT_ERROR bad command line format\r\n"] {
        let (server, played) = peer(move |listener| {
            let mut first = listener.accept().unwrap().0;
            heard(&mut first, b"\r\nget secret\r\nget k\r\n");
            first.write_all(refusal.as_bytes()).unwrap();
            first.write_all(b"VALUE k 0 6\r\nsecret\r\nEND\r\n").unwrap();
            let mut second = listener.accept().unwrap().0;
            heard(&mut second, b"get k\r\n");
            second.write_all(b"END\r\n").unwrap();
        });
        run(async {
            let client = Client::new(text(server)).unwrap();
            let asking = client.clone();
            // Asked while the answer to the store is still to come.
            let next = async move { asking.get(b"k").await };
            let set = client.set(b"k", "get secret".into(), Store::default());
            let (set, next) = tokio::join!(set, next);
            assert!(matches!(set, Err(Error::Refused(_))), "{set:?}");
            assert_eq!(next, Ok(None));
            assert_eq!(client.servers()[0].state, State::Up);
        });
        played.join().unwrap();
    }
}

#[test]
fn figures_without_an_end_are_not_gathered_for_ever() {
    let (server, played) = peer(|listener| {
        let mut stream = listener.accept().unwrap().0;
        heard(&mut stream, b"stats\r\n");
        let line = format!("STAT name {}\r\n", "x".repeat(8000));
        let mut written = 0;
        while stream.write_all(line.as_bytes()).is_ok() {
            written += line.len();
        }
        written
    });
    run(async {
        let client = Client::new(text(server)).unwrap();
        let answer = client.stats(None).await.remove(0);
        assert!(matches!(answer, Err(Error::Protocol(_))), "{answer:?}");
        drop(client);
    });
    let written = played.join().unwrap();
    assert!(written < 64 << 20, "{written} bytes were taken");
}

#[test]
fn values_without_an_end_are_not_gathered_for_ever() {
    const VALUE: usize = 16 << 20;
    let (server, played) = peer(|listener| {
        let mut stream = listener.accept().unwrap().0;
        heard(&mut stream, b"\r\n");
        let value = vec![b'x'; VALUE];
        let sent = (0..100).take_while(|n| {
            stream.write_all(format!("VALUE {n} 0 {VALUE}\r\n").as_bytes()).is_ok()
                && stream.write_all(&value).is_ok()
                && stream.write_all(b"\r\n").is_ok()
        });
        sent.count()
    });
    run(async {
        let client = Client::new(text(server)).unwrap();
        let keys: Vec<String> = (0..100).map(|n| n.to_string()).collect();
        let keys: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
        let answers = client.get_many(&keys).await;
        assert!(
            answers.iter().all(|answer| matches!(answer, Err(Error::Protocol(_)))),
            "{:?}",
            answers[0]
        );
        drop(client);
    });
    assert!(played.join().unwrap() <= 10, "about 128 MiB were to be taken");
}

#[test]
fn lengths_that_cannot_be_end_the_connection() {
    for said in [
        "VALUE k 0 -1\r\n",
        "VALUE k 0 99999999999999999999\r\n",
        "VALUE k 0 1000000000000\r\n",
        "VALUE k -1 1\r\nv\r\nEND\r\n",
        "VALUE k 0 1\r\nvvvv\r\nEND\r\n",
        "VALUE k 0 1\r\nv\r\nVALUE k 0 1\r\nw\r\nEND\r\n",
        "\r\n",
        "\0\0\0\0\r\n",
        "END",
    ] {
        let (server, played) = peer(move |listener| {
            let mut stream = listener.accept().unwrap().0;
            heard(&mut stream, b"\r\n");
            stream.write_all(said.as_bytes()).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let _ = stream.read_to_end(&mut Vec::new());
        });
        run(async {
            let client = Client::new(text(server)).unwrap();
            let answer = client.get(b"k").await;
            assert!(
                matches!(answer, Err(Error::Protocol(_) | Error::Closed(_))),
                "{said:?}: {answer:?}"
            );
            assert_eq!(client.servers()[0].state, State::Down, "{said:?}");
        });
        played.join().unwrap();
    }
}

#[test]
fn an_answer_whose_caller_has_gone_is_nobody_elses() {
    let begun = Arc::new(AtomicBool::new(false));
    let said = begun.clone();
    let (server, played) = peer(move |listener| {
        let mut stream = listener.accept().unwrap().0;
        heard(&mut stream, b"get first\r\n");
        stream.write_all(b"VALUE first 0 11\r\nfir").unwrap();
        said.store(true, Relaxed);
        heard(&mut stream, b"get second\r\n");
        stream.write_all(b"st-value\r\nEND\r\nVALUE second 0 1\r\n2\r\nEND\r\n").unwrap();
    });
    run(async {
        let client = Client::new(text(server)).unwrap();
        let asked = client.clone();
        let first = tokio::spawn(async move { asked.get(b"first").await });
        until("the first to be answered in part", || begun.load(Relaxed)).await;
        first.abort();
        assert!(first.await.is_err());
        assert_eq!(client.get(b"second").await.unwrap().unwrap().value, "2");
        assert_eq!((client.servers()[0].connects, client.servers()[0].errors), (1, 0));
    });
    played.join().unwrap();
}

/// What a server does that ends connections it takes for idle, just as something is asked.
#[test]
fn a_connection_that_ends_as_it_is_used_costs_a_retry_and_not_the_server() {
    let (server, played) = peer(|listener| {
        for asked in ["get a\r\n", "get b\r\n", "get c\r\n"] {
            let mut stream = listener.accept().unwrap().0;
            heard(&mut stream, asked.as_bytes());
            stream.write_all(b"END\r\n").unwrap();
            heard(&mut stream, b"\r\n");
        }
        let mut stream = listener.accept().unwrap().0;
        heard(&mut stream, b"\r\nv\r\n");
        stream.write_all(b"STORED\r\n").unwrap();
    });
    run(async {
        let client = Client::new(text(server)).unwrap();
        assert_eq!(client.get(b"a").await, Ok(None));
        assert_eq!(client.get(b"b").await, Ok(None), "asked once more on a new connection");
        assert_eq!(client.get_many(&[b"c"]).await, [Ok(None)]);
        // A write is not tried again: it may have been carried out. The next one is not held up.
        let lost = client.set(b"k", "v".into(), Store::default()).await;
        assert!(matches!(lost, Err(Error::Closed(_))), "{lost:?}");
        assert!(client.set(b"k", "v".into(), Store::default()).await.unwrap().is_stored());
        let view = &client.servers()[0];
        assert_eq!((view.state, view.ejections, view.connects), (State::Up, 0, 4));
    });
    played.join().unwrap();
}

#[test]
fn a_server_that_only_takes_connections_is_down() {
    let (server, played) = peer(|listener| {
        drop(listener.accept().unwrap());
        listener
    });
    run(async {
        let client = Client::new(text(server)).unwrap();
        let answer = client.get(b"k").await;
        assert!(matches!(answer, Err(Error::Closed(_))), "{answer:?}");
        assert_eq!(client.get(b"k").await, Err(Error::Down));
        assert_eq!((client.servers()[0].connects, client.servers()[0].state), (1, State::Down));
    });
    played.join().unwrap();
}

#[test]
fn a_server_is_not_late_with_its_answer_while_it_takes_the_request() {
    const SIZE: usize = 24 << 20;
    let (server, played) = peer(|listener| {
        let mut stream = listener.accept().unwrap().0;
        let (mut got, mut piece) = (0, vec![0; 1 << 20]);
        // Longer than an answer may take, with more in front than both sockets' buffers hold.
        std::thread::sleep(2500 * MS);
        let head = format!("set k 0 0 {SIZE}\r\n").len();
        while got < head + SIZE + 2 {
            got += stream.read(&mut piece).unwrap();
        }
        stream.write_all(b"STORED\r\n").unwrap();
    });
    run(async {
        let mut config = text(server);
        config.max_item = SIZE;
        config.timeouts.read = 1500 * MS;
        let client = Client::new(config).unwrap();
        assert!(
            client.set(b"k", vec![b'x'; SIZE].into(), Store::default()).await.unwrap().is_stored()
        );
    });
    played.join().unwrap();
}

/// Passes on what comes, at most `step` bytes at a time, until either end is closed.
fn trickle(mut from: TcpStream, mut to: TcpStream, step: usize) {
    let mut piece = vec![0; step];
    while let Ok(read @ 1..) = from.read(&mut piece) {
        if to.write_all(&piece[..read]).is_err() {
            break;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    let _ = to.shutdown(Shutdown::Write);
}

#[test]
fn a_slow_proxy_makes_answers_slow_and_nothing_else() {
    let behind = Memcached::debian(&[]);
    let addr = behind.addr();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let front = server(listener.local_addr().unwrap());
    let proxy = std::thread::spawn(move || {
        let near = listener.accept().unwrap().0;
        let far = TcpStream::connect(addr).unwrap();
        near.set_nodelay(true).unwrap();
        far.set_nodelay(true).unwrap();
        let (near_again, far_again) = (near.try_clone().unwrap(), far.try_clone().unwrap());
        let back = std::thread::spawn(move || trickle(far_again, near_again, 7));
        trickle(near, far, 11);
        back.join().unwrap();
    });
    run(async {
        let client = Client::new(patient(vec![front])).unwrap();
        let keys: Vec<String> = (0..40).map(|n| format!("key-{n}")).collect();
        let tasks: Vec<_> = keys
            .iter()
            .map(|key| {
                let (client, key) = (client.clone(), key.clone());
                tokio::spawn(async move {
                    let value = key.repeat(10);
                    let set =
                        client.set(key.as_bytes(), value.clone().into(), Store::default()).await;
                    assert!(set.unwrap().is_stored());
                    assert_eq!(client.get(key.as_bytes()).await.unwrap().unwrap().value, value);
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let asked: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
        for (key, item) in keys.iter().zip(client.get_many(&asked).await) {
            assert_eq!(item.unwrap().unwrap().value, key.repeat(10));
        }
        let view = &client.servers()[0];
        assert_eq!((view.connects, view.errors, view.timeouts), (1, 0, 0));
    });
    proxy.join().unwrap();
}

#[test]
fn keys_and_values_at_their_limits() {
    let server = Memcached::debian(&[]);
    for protocol in [Protocol::Text, Protocol::Meta, Protocol::Binary] {
        run(async {
            let client = Client::new(Config { protocol, ..config(&[&server]) }).unwrap();
            let most = vec![b'k'; 250];
            // The largest value under the longest key fits a server's default `-I 1m`.
            let value = vec![b'v'; client.config().max_item];
            assert!(
                client
                    .set(&most, value.clone().into(), Store::default())
                    .await
                    .unwrap()
                    .is_stored()
            );
            assert_eq!(client.get(&most).await.unwrap().unwrap().value, value);
            assert_eq!(client.get(&[b'k'; 251]).await, Err(Error::Key));
            assert_eq!(
                client.set(&[b'k'; 251], "v".into(), Store::default()).await,
                Err(Error::Key)
            );
            let high: Vec<u8> = (0x80..=0xff).collect();
            for key in [&high[..], b"!", "schl\u{fc}ssel".as_bytes()] {
                client.set(key, key.to_vec().into(), Store::default()).await.unwrap();
                assert_eq!(client.get(key).await.unwrap().unwrap().value, key);
            }
            for key in [&b""[..], b"a b", b"a\0", b"a\r\nflush_all\r\n", b"a\x7f", b"\t"] {
                assert_eq!(client.get(key).await, Err(Error::Key), "{key:?}");
                assert_eq!(client.delete(key).await, Err(Error::Key), "{key:?}");
            }
            let view = &client.servers()[0];
            assert_eq!((view.connects, view.errors), (1, 0), "{protocol:?}");
        });
    }
}

#[test]
fn a_thousand_servers_that_refuse_cost_an_attempt_each() {
    let good = Memcached::debian(&[]);
    let port = free_port();
    run(async {
        let mut config = config(&[&good]);
        config.placement = larder_client::Placement::ketama();
        config.failure.eject = larder_client::Eject::Rehash;
        config.failure.retry_min = 3600 * 1000 * MS;
        config.failure.retry_max = config.failure.retry_min;
        // Nobody listens on the port at any address of the loopback network.
        let dead = |n: u16| Server::tcp(format!("127.1.{}.{}", n / 200, n % 200 + 1), port);
        config.servers.extend((0..900).map(dead));
        config.spares = (900..1000).map(dead).collect();
        let client = Client::new(config).unwrap();
        let keys: Vec<String> = (0..5000).map(|n| format!("key-{n}")).collect();
        let keys: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
        for _ in 0..20 {
            assert_eq!(client.get_many(&keys).await.len(), keys.len());
        }
        assert!(client.get_many(&keys).await.into_iter().all(|answer| answer == Ok(None)));
        let views = client.servers();
        assert!(
            views[1..].iter().all(|view| view.connects <= 1),
            "each was tried once at the most"
        );
        assert_eq!(views[0].state, State::Up);
    });
}

#[test]
fn a_name_nobody_knows_is_a_server_that_is_down() {
    run(async {
        let mut config = patient(vec![Server::tcp("no-such-host.invalid", 11211)]);
        config.timeouts = Timeouts::default();
        let client = Client::new(config).unwrap();
        let answer = client.get(b"k").await;
        assert!(matches!(answer, Err(Error::Connect(_) | Error::Timeout)), "{answer:?}");
        assert_eq!(client.get(b"k").await, Err(Error::Down));
        assert_eq!(client.servers()[0].connects, 1);
    });
}

#[test]
fn a_storm_of_callers_who_give_up_leaves_room_for_the_next() {
    let gate = Gate::closed();
    let (server, played) = peer({
        let gate = gate.clone();
        move |listener| {
            let mut stream = listener.accept().unwrap().0;
            let lines = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'\n').count();
            let (mut answers, mut piece, mut asked) =
                (lines(&heard(&mut stream, b"\r\n")), [0; 65536], 0);
            gate.wait();
            loop {
                stream.write_all("END\r\n".repeat(answers).as_bytes()).unwrap();
                asked += answers;
                let read = stream.read(&mut piece).unwrap();
                answers = lines(&piece[..read]);
                if read == 0 {
                    return asked;
                }
            }
        }
    });
    run(async {
        let mut config = text(server);
        config.queue = 64 << 10;
        let client = Client::new(config).unwrap();
        for _ in 0..20 {
            let tasks: Vec<_> = (0..500)
                .map(|n| {
                    let client = client.clone();
                    tokio::spawn(async move { client.get(format!("{n}").as_bytes()).await })
                })
                .collect();
            tokio::task::yield_now().await;
            tasks.iter().for_each(tokio::task::JoinHandle::abort);
            for task in tasks {
                assert!(task.await.is_err());
            }
        }
        gate.open();
        assert_eq!(client.get(b"last").await, Ok(None));
        client.settle().await;
        assert_eq!((client.servers()[0].connects, client.servers()[0].errors), (1, 0));
        assert_eq!(client.servers()[0].state, State::Up);
    });
    // What nobody waited for any more when it could have been sent was not asked.
    assert!(played.join().unwrap() <= 64 + 1);
}

/// Answers every `get` with its key, for 100 ms and until it has answered once at all; then all
/// connections end and nobody listens for as long.
fn flap(listener: TcpListener, once: &Arc<AtomicBool>) {
    listener.set_nonblocking(true).unwrap();
    let (end, mut taken) = (Instant::now() + 100 * MS, Vec::new());
    while Instant::now() < end || !once.load(Relaxed) {
        let Ok((stream, _)) = listener.accept() else {
            std::thread::sleep(MS);
            continue;
        };
        stream.set_nonblocking(false).unwrap();
        taken.push(stream.try_clone().unwrap());
        let once = once.clone();
        std::thread::spawn(move || {
            let mut answers = stream.try_clone().unwrap();
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                let key = line.strip_prefix("get ").unwrap_or_default().to_owned();
                let answer = format!("VALUE {key} 0 {}\r\n{key}\r\nEND\r\n", key.len());
                if answers.write_all(answer.as_bytes()).is_err() {
                    break;
                }
                once.store(true, Relaxed);
            }
        });
    }
    drop(listener);
    taken.iter().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
    std::thread::sleep(100 * MS);
}

#[test]
fn a_server_that_flaps_is_asked_ever_more_seldom_and_never_misunderstood() {
    let port = free_port();
    run(async {
        let mut config = text(Server::tcp("127.0.0.1", port));
        config.failure.retry_min = 50 * MS;
        let client = Client::new(config).unwrap();
        let first = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let flapping = std::thread::spawn(move || {
            let once = Arc::default();
            flap(first, &once);
            (0..9).for_each(|_| flap(TcpListener::bind(("127.0.0.1", port)).unwrap(), &once));
        });
        let (mut n, mut answered) = (0, 0);
        while !flapping.is_finished() {
            n += 1;
            let key = format!("key-{n}");
            match client.get(key.as_bytes()).await {
                Ok(found) => {
                    assert_eq!(found.unwrap().value, key);
                    answered += 1;
                }
                Err(Error::Protocol(said)) => panic!("{said}"),
                Err(_) => tokio::time::sleep(MS).await,
            }
        }
        flapping.join().unwrap();
        assert!(answered > 0);
        let view = &client.servers()[0];
        // Pauses double: twelve of them take minutes.
        assert!((1..=12).contains(&(view.ejections + view.probes)), "{view:?}");
        assert!(view.connects <= 20 && view.timeouts == 0, "{view:?}");
    });
}
