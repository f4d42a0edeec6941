//! The bytes of the client library on the wire: the number of its writes and their pieces, and its
//! behaviour with peers that are slow, close, or speak nonsense. The test itself is the peer, byte
//! by byte.

#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use larder_client::{Client, Error, State, Store};
use larder_tests::client::{heard as until, patient, peer, run, text};
use std::io::{Read, Write};

#[test]
fn a_batch_is_one_write() {
    // One read may join several writes, but small ones that follow each other seldom: many would be
    // seen as many.
    const SETS: usize = 100;
    let (server, played) = peer(|listener| {
        let mut stream = listener.accept().unwrap().0;
        let first = until(&mut stream, b"\r\n");
        stream.write_all(b"END\r\n").unwrap();
        let mut piece = vec![0; 1 << 20];
        let mut reads = 0;
        let mut sets = 0;
        while sets < SETS {
            let read = stream.read(&mut piece).unwrap();
            reads += 1;
            sets += piece[..read].windows(4).filter(|four| four == b"set ").count();
        }
        stream.write_all("STORED\r\n".repeat(SETS).as_bytes()).unwrap();
        (first, reads)
    });
    run(async {
        let client = Client::new(text(server)).unwrap();
        assert_eq!(client.get(b"a").await, Ok(None));
        for n in 0..SETS {
            client
                .set_quietly(format!("{n}").as_bytes(), "x".into(), Store::default())
                .await
                .unwrap();
        }
        client.settle().await;
    });
    let (first, reads) = played.join().unwrap();
    assert_eq!(first, b"get a\r\n");
    assert_eq!(reads, 1, "a hundred small sets came in {reads} pieces");
}

#[test]
fn small_windows_and_late_readers_get_every_byte_in_order() {
    const SIZE: usize = 500_000;
    let (server, played) = peer(|listener| {
        rustix::net::sockopt::set_socket_recv_buffer_size(&listener, 4096).unwrap();
        let mut stream = listener.accept().unwrap().0;
        let mut all = Vec::new();
        let mut piece = [0; 1500];
        let mut answered = 0;
        let end = b"last\r\n";
        while !all.ends_with(end) {
            let read = stream.read(&mut piece).unwrap();
            assert!(read > 0);
            all.extend_from_slice(&piece[..read]);
            // Answers come while requests still arrive.
            if all.len() > (answered + 1) * (SIZE + 100) && answered < 2 {
                stream.write_all(b"STORED\r\n").unwrap();
                answered += 1;
            }
        }
        while answered < 4 {
            stream.write_all(b"STORED\r\n").unwrap();
            answered += 1;
        }
        all
    });
    let values: Vec<Bytes> = (b'a'..b'd').map(|letter| vec![letter; SIZE].into()).collect();
    run(async {
        let client = Client::new(text(server)).unwrap();
        for (n, value) in values.iter().enumerate() {
            client
                .set_quietly(format!("{n}").as_bytes(), value.clone(), Store::default())
                .await
                .unwrap();
        }
        client.set_quietly(b"3", "last".into(), Store::default()).await.unwrap();
        client.settle().await;
        assert_eq!((client.servers()[0].errors, client.servers()[0].connects), (0, 1));
    });
    let all = played.join().unwrap();
    let mut expected = Vec::new();
    for (n, value) in values.iter().enumerate() {
        expected.extend_from_slice(format!("set {n} 0 0 {SIZE}\r\n").as_bytes());
        expected.extend_from_slice(value);
        expected.extend_from_slice(b"\r\n");
    }
    expected.extend_from_slice(b"set 3 0 0 4\r\nlast\r\n");
    assert!(all == expected, "{} bytes came, {} were expected", all.len(), expected.len());
}

#[test]
fn a_proxy_that_hangs_up_on_meta_commands_is_spoken_to_in_text() {
    let (server, played) = peer(|listener| {
        let mut first = listener.accept().unwrap().0;
        let mut asked = [0; 4];
        first.read_exact(&mut asked).unwrap();
        drop(first);
        let mut second = listener.accept().unwrap().0;
        let line = until(&mut second, b"\r\n");
        second.write_all(b"VALUE k 5 1\r\nv\r\nEND\r\n").unwrap();
        (asked, line)
    });
    run(async {
        let client = Client::new(patient(vec![server])).unwrap();
        let item = client.get(b"k").await.unwrap().unwrap();
        assert_eq!((&item.value[..], item.flags), (&b"v"[..], 5));
    });
    assert_eq!(played.join().unwrap(), (*b"mn\r\n", b"get k\r\n".to_vec()));
}

#[test]
fn nonsense_and_answers_to_others_end_the_connection() {
    for said in [
        &b"HTTP/1.1 400 Bad Request\r\n"[..],
        b"VALUE other 0 1\r\nv\r\nEND\r\n",
        b"STORED\r\n",
        b"END\r\nEND\r\n",
    ] {
        let (server, played) = peer(move |listener| {
            let mut stream = listener.accept().unwrap().0;
            until(&mut stream, b"\r\n");
            stream.write_all(said).unwrap();
            let mut rest = Vec::new();
            // Closed by the client, in whatever way.
            let _ = stream.read_to_end(&mut rest);
        });
        run(async {
            let client = Client::new(text(server)).unwrap();
            let answer = client.get(b"k").await;
            if said.starts_with(b"END") {
                assert_eq!(answer, Ok(None));
                larder_tests::client::until("it to end", || client.servers()[0].errors == 1).await;
            } else {
                assert!(matches!(answer, Err(Error::Protocol(_))), "{answer:?}");
            }
            assert_eq!(client.servers()[0].state, State::Down);
            drop(client);
        });
        played.join().unwrap();
    }
}

#[test]
fn errors_of_the_server_are_said_and_the_connection_goes_on() {
    let (server, played) = peer(|listener| {
        let mut stream = listener.accept().unwrap().0;
        until(&mut stream, b"\r\nv\r\n");
        stream.write_all(b"SERVER_ERROR out of memory storing object\r\n").unwrap();
        until(&mut stream, b"get k\r\n");
        stream.write_all(b"END\r\n").unwrap();
    });
    run(async {
        let client = Client::new(text(server)).unwrap();
        let stored = client.set(b"k", "v".into(), Store::default()).await;
        assert_eq!(stored, Err(Error::Server("out of memory storing object".to_owned())));
        assert_eq!(client.get(b"k").await, Ok(None));
        assert_eq!((client.servers()[0].connects, client.servers()[0].state), (1, State::Up));
    });
    played.join().unwrap();
}

#[test]
fn a_full_queue_says_busy_after_the_time_of_a_write() {
    let (server, played) = peer(|listener| {
        let mut stream = listener.accept().unwrap().0;
        let mut all = Vec::new();
        // Takes everything and answers nothing, until the client has gone.
        let _ = stream.read_to_end(&mut all);
    });
    run(async {
        let mut config = text(server);
        config.queue = 64 << 10;
        config.timeouts.write = std::time::Duration::from_millis(20);
        let client = Client::new(config).unwrap();
        let mut sent = 0;
        let refused = loop {
            match client.set_quietly(b"k", vec![0; 10_000].into(), Store::default()).await {
                Ok(()) => sent += 1,
                Err(error) => break error,
            }
        };
        assert_eq!((refused, sent), (Error::Busy, 6));
        assert_eq!(client.servers()[0].busy, 1);
    });
    played.join().unwrap();
}
