//! Writes nobody waits for: one line comes back for a run of them, errors are counted, and none is
//! taken for another's.

#![allow(clippy::unwrap_used)]

use larder_client::{Client, Config, Error, Expiry, Protocol, State, Store};
use larder_tests::client::{config, heard, patient, peer, run, until, value};
use larder_tests::{Memcached, wait_until};
use std::io::Write;
use std::time::Duration;

fn meta(config: Config) -> Config {
    Config { protocol: Protocol::Meta, ..config }
}

#[test]
fn a_run_ends_before_what_is_waited_for_and_its_errors_are_its_own() {
    let (server, played) = peer(|listener| {
        let mut stream = listener.accept().unwrap().0;
        let asked = heard(&mut stream, b"mg d v f\r\n");
        stream.write_all(b"SERVER_ERROR out of memory storing object\r\nMN\r\nEN\r\n").unwrap();
        // Some answer all the same.
        let again = heard(&mut stream, b"mn\r\n");
        stream.write_all(b"HD\r\nHD\r\nMN\r\n").unwrap();
        (asked, again)
    });
    run(async {
        let client = Client::new(meta(patient(vec![server]))).unwrap();
        client.set_quietly(b"a", "1".into(), Store::default()).await.unwrap();
        client.delete_quietly(b"b").await.unwrap();
        client.touch_quietly(b"c", Expiry::After(Duration::from_secs(9))).await.unwrap();
        assert_eq!(client.get(b"d").await, Ok(None));
        client.set_quietly(b"e", "2".into(), Store { flags: 7, ..Store::default() }).await.unwrap();
        client.delete_quietly(b"f").await.unwrap();
        client.settle().await;
        let view = &client.servers()[0];
        assert_eq!((view.errors, view.writes, view.connects, view.state), (1, 5, 1, State::Up));
        assert_eq!(view.latency.iter().map(|(_, count)| count).sum::<u64>(), 6, "each is counted");
    });
    let (asked, again) = played.join().unwrap();
    assert_eq!(asked, b"ms a 1 q\r\n1\r\nmd b q\r\nmg c T9 q\r\nmn\r\nmg d v f\r\n");
    assert_eq!(again, b"ms e 1 F7 q\r\n2\r\nmd f q\r\nmn\r\n");
}

#[test]
fn a_store_that_is_refused_ends_the_connection() {
    let (server, played) = peer(|listener| {
        let mut stream = listener.accept().unwrap().0;
        heard(&mut stream, b"mn\r\n");
        // It took the value for a request.
        stream.write_all(b"CLIENT_ERROR bad data chunk\r\nERROR\r\nMN\r\n").unwrap();
        let mut stream = listener.accept().unwrap().0;
        heard(&mut stream, b"mg k v f\r\n");
        stream.write_all(b"VA 1 f0\r\nv\r\n").unwrap();
    });
    run(async {
        let client = Client::new(meta(patient(vec![server]))).unwrap();
        client.set_quietly(b"a", "1".into(), Store::default()).await.unwrap();
        client.settle().await;
        until("the connection to end", || client.servers()[0].errors > 0).await;
        assert_eq!(value(&client, "k").await.as_deref(), Some("v"));
        assert_eq!((client.servers()[0].connects, client.servers()[0].state), (2, State::Up));
    });
    played.join().unwrap();
}

#[test]
fn a_server_that_dies_in_a_run_leaves_nobody_waiting() {
    let (server, played) = peer(|listener| {
        let mut stream = listener.accept().unwrap().0;
        heard(&mut stream, b"mn\r\n");
        drop(stream);
        drop(listener);
    });
    run(async {
        let client = Client::new(meta(patient(vec![server]))).unwrap();
        for n in 0..100 {
            client
                .set_quietly(format!("{n}").as_bytes(), "x".into(), Store::default())
                .await
                .unwrap();
        }
        client.settle().await;
        assert_eq!(client.get(b"0").await, Err(Error::Down));
    });
    played.join().unwrap();
}

fn of_a_real_server(server: &Memcached) {
    run(async {
        // More than the server takes.
        let client = Client::new(Config { max_item: 2 << 20, ..config(&[server]) }).unwrap();
        // On one connection: memcached counts what it sent after sending it, and a thread may do so
        // late for another's ear.
        let mut talk = server.connect();
        let mut written = || talk.stat("bytes_written").parse::<u64>().unwrap();
        assert_eq!(client.get(b"0").await, Ok(None));
        let before = written();
        for n in 0..2000 {
            client
                .set_quietly(format!("{n}").as_bytes(), "x".into(), Store::default())
                .await
                .unwrap();
        }
        client.settle().await;
        // What it says of itself is a few KiB; 2,000 answers would be 8,000 bytes at least.
        let (one, two) = (written(), written());
        assert!((one - before).saturating_sub(two - one) < 2000, "{before}, {one}, {two}");
        client.set_quietly(b"large", vec![b'x'; 3 << 19].into(), Store::default()).await.unwrap();
        client.set_quietly(b"behind", "it".into(), Store::default()).await.unwrap();
        client.delete_quietly(b"7").await.unwrap();
        client.settle().await;
        let view = &client.servers()[0];
        assert_eq!((view.errors, view.connects, view.state), (1, 1, State::Up));
        assert_eq!(value(&client, "behind").await.as_deref(), Some("it"));
        assert_eq!((value(&client, "7").await, value(&client, "large").await), (None, None));
    });
    wait_until("all to be there", || server.connect().stat("curr_items") == "2000");
}

#[test]
fn debians_memcached_says_what_failed_and_nothing_else() {
    of_a_real_server(&Memcached::debian(&[]));
}

#[test]
fn larders_own_face_says_what_failed_and_nothing_else() {
    of_a_real_server(&Memcached::larder(&[]));
}

/// On one thread the connection gets its turn while somebody asks for more and more without
/// waiting.
#[test]
fn who_waits_for_nothing_does_not_fill_the_queue_first() {
    let server = Memcached::debian(&[]);
    run(async {
        let client = Client::new(config(&[&server])).unwrap();
        assert_eq!(client.get(b"k").await, Ok(None));
        for _ in 0..4096 {
            client.set_quietly(b"k", "v".into(), Store::default()).await.unwrap();
        }
        let sent = client.servers()[0].writes;
        assert!(sent >= 2048, "{sent} of 4096 were sent while the others were asked for");
        client.settle().await;
    });
}
