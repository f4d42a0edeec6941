//! Nothing that an origin sends between answers is read as an answer.

use std::{future::poll_fn, sync::atomic::Ordering::Relaxed};

use tokio::{sync::Notify, task::yield_now};

use super::{
    super::{
        connection::{Connection, Sending},
        pool::Pooled,
        upload::{Progress, Upload},
    },
    *,
};

const POISON: &str = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison";

fn unasked(origin: &Origin) -> u64 {
    origin.pool().counters.unasked.load(Relaxed)
}

/// A server whose first connection answers with `answer`, and with `late` as soon as it is asked a
/// second time. Later connections behave.
async fn late(answer: &'static str, late: &'static str) -> Server {
    Server::start(async move |number, mut peer: Peer| {
        peer.head().await;
        if number > 0 {
            return peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood").await;
        }
        peer.send(answer).await;
        if !peer.head().await.is_empty() {
            peer.send(late).await;
        }
    })
    .await
}

#[test]
fn a_connection_on_which_content_may_follow_is_not_used_again() {
    worker(async {
        for (method, answer) in [
            (Method::GET, "HTTP/1.1 204 No Content\r\nContent-Length: 6\r\n\r\n"),
            (Method::GET, "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n"),
            (Method::GET, "HTTP/1.1 304 Not Modified\r\nContent-Length: 6\r\n\r\n"),
            // Without a condition.
            (Method::GET, "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n"),
            (Method::HEAD, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n"),
            (Method::HEAD, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
            (Method::HEAD, "HTTP/1.1 200 OK\r\n\r\n"),
            (
                Method::GET,
                "HTTP/1.1 103 Early Hints\r\nContent-Length: 6\r\n\r\nHTTP/1.1 204 No \
                 Content\r\n\r\n",
            ),
            (
                Method::GET,
                "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 204 No Content\r\nContent-Length: \
                 6\r\n\r\n",
            ),
        ] {
            let server = late(answer, POISON).await;
            let origin = origin(&server);
            let mut first = origin.send(request(method, "/1"), None).await.expect(answer);
            assert_eq!(read(&mut first).await.expect(answer), "");
            assert_eq!(origin.pool().idle(), 0, "{answer:?}");
            assert_eq!(fetch(&origin, "/2").await.expect(answer), "good", "{answer:?}");
            assert_eq!(server.accepted(), 2, "{answer:?}");
        }
    });
}

#[test]
fn a_connection_on_which_nothing_may_follow_is_used_again() {
    worker(async {
        for (method, answer) in [
            (Method::GET, "HTTP/1.1 204 No Content\r\n\r\n"),
            (Method::GET, "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n"),
            (Method::GET, "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n"),
            (Method::HEAD, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
            (
                Method::GET,
                "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
            ),
        ] {
            let server = Server::keeping_alive(answer).await;
            let origin = origin(&server);
            for _ in 0..3 {
                let headers = fields(&[("if-none-match", "\"a\"")]);
                let request = Request { headers, ..request(method.clone(), "/") };
                let mut response = origin.send(request, None).await.expect(answer);
                assert_eq!(read(&mut response).await.expect(answer), "");
            }
            assert_eq!((server.accepted(), unasked(&origin)), (1, 0), "{answer:?}");
        }
    });
}

#[test]
fn what_comes_with_an_answer_and_is_none_of_it_ends_the_connection_and_is_counted() {
    worker(async {
        for more in ["\r\n", "x", "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison", "0\r\n\r\n"]
        {
            for answer in [
                "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ngood\r\n0\r\n\r\n",
            ] {
                let server = Server::keeping_alive(format!("{answer}{more}")).await;
                let origin = origin(&server);
                for round in 1..4 {
                    assert_eq!(fetch(&origin, "/").await.expect("content"), "good", "{more:?}");
                    while unasked(&origin) < round {
                        yield_now().await;
                    }
                }
                assert_eq!((server.accepted(), unasked(&origin)), (3, 3), "{more:?}");
            }
        }
    });
}

#[test]
fn bytes_that_wait_when_a_connection_is_taken_end_it_and_are_counted() {
    worker(async {
        let (said, now) = (Rc::new(Notify::new()), Rc::new(Notify::new()));
        let (tell, go) = (said.clone(), now.clone());
        let server = Server::start(async move |number, mut peer: Peer| {
            peer.head().await;
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood").await;
            if number == 0 {
                go.notified().await;
                peer.send(POISON).await;
                tell.notify_one();
            }
            peer.hang().await;
        })
        .await;
        let origin = origin(&server);
        assert_eq!(fetch(&origin, "/1").await.expect("content"), "good");
        now.notify_one();
        said.notified().await;
        assert_eq!(fetch(&origin, "/2").await.expect("content"), "good");
        assert_eq!((server.accepted(), unasked(&origin)), (2, 1));
    });
}

#[test]
fn an_answer_before_the_request_is_none() {
    worker(async {
        let said = Rc::new(Notify::new());
        let tell = said.clone();
        let server = Server::start(async move |number, mut peer: Peer| {
            if number == 1 {
                peer.send(POISON).await;
                tell.notify_one();
                return peer.hang().await;
            }
            peer.head().await;
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood").await;
        })
        .await;
        let origin = origin_with(&server, |settings| settings.max_connections = 1);
        assert_eq!(fetch(&origin, "/1").await.expect("content"), "good");
        let early = <Connection as Pooled>::open(
            &origin.pool().settings,
            None,
            &origin.pool().counters,
            None,
        );
        let mut early = early.await.expect("connection");
        said.notified().await;
        let upload = Upload::new(RequestBody::Empty, Progress::new());
        early.ask(Sending::new(b"GET / HTTP/1.1\r\n\r\n".to_vec(), &HeaderMap::new(), upload));
        assert!(poll_fn(|cx| early.poll_send(cx)).await.is_err());
        assert!(!early.has_sent());
        assert_eq!(unasked(&origin), 1);
    });
}

/// A small generator: the same conversations in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// An answer to a request for `/n`, and whether it may be followed, at any later time, by bytes
/// that look like another answer. Bytes behind a clean answer come with its last byte.
fn answer(dice: &mut Dice, head: bool, number: &str) -> (Vec<u8>, bool) {
    let size = [1, 10, 4000, 65_530, 70_000][dice.roll(5) as usize];
    let body = number.repeat(size);
    let length = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    let (mut bytes, late) = match dice.roll(6) {
        _ if head => (length, true),
        0 => ("HTTP/1.1 204 No Content\r\nContent-Length: 47\r\n\r\n".to_owned(), true),
        1 => ("HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(), true),
        2 => ("HTTP/1.1 204 No Content\r\n\r\n".to_owned(), false),
        3 => {
            let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            (format!("{head}{:x}\r\n{body}\r\n0\r\n\r\n", body.len()), false)
        }
        _ => (length + &body, false),
    };
    if dice.roll(4) == 0 {
        bytes.insert_str(0, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
    }
    match dice.roll(5) {
        0 => bytes.push_str(POISON),
        1 => bytes.push_str("\r\n"),
        _ => {}
    }
    (bytes.into_bytes(), late)
}

/// One connection of an origin that is right, wrong and slow as the dice fall.
async fn converse(mut dice: Dice, mut peer: Peer) {
    loop {
        let head = peer.head().await;
        let Some(number) = head.split(' ').nth(1).and_then(|target| target.strip_prefix('/'))
        else {
            return;
        };
        let (bytes, late) = answer(&mut dice, head.starts_with("HEAD"), number);
        // All but the end in pieces, cut anywhere.
        let end = bytes.len().saturating_sub(60);
        let mut at = 0;
        while at < end {
            let piece = (1 + dice.roll(50_000) as usize).min(end - at);
            peer.send(&bytes[at..at + piece]).await;
            at += piece;
            for _ in 0..dice.roll(3) {
                yield_now().await;
            }
        }
        peer.send(&bytes[at..]).await;
        if late {
            for _ in 0..dice.roll(20) {
                yield_now().await;
            }
            peer.send(POISON).await;
        }
    }
}

/// A body is the body of its own request, or there is none, for every origin.
#[test]
fn in_any_conversation_an_answer_is_to_its_own_request() {
    worker(async {
        let mut reused = 0;
        for seed in 1..=60_u64 {
            let server = Server::start(async move |number, peer: Peer| {
                converse(Dice(seed * 0x9e37_79b9 + number as u64 + 1), peer).await;
            })
            .await;
            let origin = origin(&server);
            let mut dice = Dice(seed);
            for number in 1000..1012 {
                let method = if dice.roll(5) == 0 { Method::HEAD } else { Method::GET };
                let asked = request(method, &format!("/{number}"));
                let Ok(mut response) = origin.send(asked, None).await else { continue };
                let Ok(body) = read(&mut response).await else { continue };
                let own = number.to_string();
                let whole = body.len() % 4 == 0
                    && body.as_bytes().chunks(4).all(|part| part == own.as_bytes());
                assert!(whole, "{seed}: {number} got {:?}", &body[..body.len().min(60)]);
                for _ in 0..dice.roll(10) {
                    yield_now().await;
                }
            }
            reused += origin.pool().counters.reused.load(Relaxed);
        }
        assert!(reused > 60, "connections are used again: {reused}");
    });
}
