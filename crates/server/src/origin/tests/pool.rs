use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::{sync::Notify, task::spawn_local};

use super::*;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn counted(counter: &AtomicU64) -> u64 {
    counter.load(Relaxed)
}

/// Runs other tasks until `condition` holds.
async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::task::yield_now().await;
    }
}

#[test]
fn connections_are_used_again() {
    worker(async {
        let server = Server::keeping_alive(OK).await;
        let origin = origin(&server);
        for _ in 0..3 {
            assert_eq!(fetch(&origin, "/").await.expect("content"), "ok");
        }
        assert_eq!(server.accepted(), 1);
        assert_eq!(counted(&origin.pool().counters.opened), 1);
        assert_eq!(counted(&origin.pool().counters.reused), 2);
        assert_eq!(counted(&origin.pool().counters.requests), 3);
        assert_eq!(origin.pool().idle(), 1);
    });
}

#[test]
fn a_connection_is_free_with_the_last_byte() {
    worker(async {
        let server = Server::keeping_alive(OK).await;
        let origin = origin_with(&server, |settings| settings.max_connections = 1);
        let mut response = get(&origin, "/").await.expect("head");
        assert_eq!(response.body.chunk().await.expect("all of it").as_deref(), Some(&b"ok"[..]));
        assert_eq!(fetch(&origin, "/").await.expect("the same connection"), "ok");
        assert_eq!(server.accepted(), 1);
        assert_eq!(response.body.chunk().await.expect("the end"), None);
    });
}

#[test]
fn connections_the_origin_wants_closed_are_not_kept() {
    worker(async {
        for answer in [
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
            "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        ] {
            let server = Server::keeping_alive(answer).await;
            let origin = origin(&server);
            for _ in 0..2 {
                assert_eq!(fetch(&origin, "/").await.expect("content"), "ok");
            }
            assert_eq!(server.accepted(), 2, "{answer:?}");
            assert_eq!(origin.pool().idle(), 0);
        }
        let kept = "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok";
        let server = Server::keeping_alive(kept).await;
        let origin = origin(&server);
        for _ in 0..2 {
            assert_eq!(fetch(&origin, "/").await.expect("content"), "ok");
        }
        assert_eq!(server.accepted(), 1);
    });
}

/// The first connection answers one request and dies on the second after `last`; later ones behave.
async fn dying_on_the_second_request(last: &'static str) -> Server {
    Server::start(async move |number, mut peer: Peer| {
        peer.head().await;
        peer.send(OK).await;
        if number == 0 {
            peer.head().await;
            return peer.send(last).await;
        }
        peer.hang().await;
    })
    .await
}

#[test]
fn a_safe_request_is_sent_again_when_a_pooled_connection_dies() {
    worker(async {
        let server = dying_on_the_second_request("").await;
        let origin = origin(&server);
        fetch(&origin, "/").await.expect("the first");
        let mut response = get(&origin, "/").await.expect("the second, over a new connection");
        assert!(!response.reused);
        assert_eq!(read(&mut response).await.expect("content"), "ok");
        assert_eq!(server.accepted(), 2);
        assert_eq!(counted(&origin.pool().counters.retried), 1);
        assert_eq!(origin.pool().counters.failed_total(), 0);
    });
}

#[test]
fn an_unsafe_request_or_one_with_a_body_is_not_sent_again() {
    worker(async {
        let server = dying_on_the_second_request("").await;
        let one = origin(&server);
        fetch(&one, "/").await.expect("the first");
        assert_eq!(reason(one.send(request(Method::POST, "/"), None).await), "truncated");

        let server_two = dying_on_the_second_request("").await;
        let two = origin(&server_two);
        fetch(&two, "/").await.expect("the first");
        let (get_with_body, upload) = with_body(Method::GET, Some(1));
        upload.send(data("x")).await.expect("room");
        assert_eq!(reason(two.send(get_with_body, None).await), "truncated");

        for (server, origin) in [(server, one), (server_two, two)] {
            assert_eq!(server.accepted(), 1);
            assert_eq!(counted(&origin.pool().counters.retried), 0);
            assert_eq!(origin.pool().counters.failed_total(), 1);
        }
    });
}

#[test]
fn nothing_is_sent_again_after_the_first_byte_of_an_answer() {
    worker(async {
        for last in ["H", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 103 Early Hints\r\n\r\n"] {
            let server = dying_on_the_second_request(last).await;
            let origin = origin(&server);
            fetch(&origin, "/").await.expect("the first");
            assert_eq!(reason(get(&origin, "/").await), "truncated", "{last:?}");
            assert_eq!(server.accepted(), 1, "{last:?}");
        }
    });
}

#[test]
fn a_request_is_sent_again_once_only() {
    worker(async {
        let server = Server::start(async |number, mut peer: Peer| {
            peer.head().await;
            if number == 0 {
                peer.send(OK).await;
                peer.head().await;
            }
        })
        .await;
        let origin = origin(&server);
        fetch(&origin, "/").await.expect("the first");
        assert_eq!(reason(get(&origin, "/").await), "truncated");
        assert_eq!(server.accepted(), 2);
        assert_eq!(reason(get(&origin, "/").await), "truncated");
        assert_eq!(server.accepted(), 3, "a fresh connection is not tried twice");
    });
}

#[test]
fn a_connection_that_died_or_spoke_while_idle_is_not_used_even_for_a_post() {
    worker(async {
        for last_words in ["", "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"] {
            let (said, now) = (Rc::new(Notify::new()), Rc::new(Notify::new()));
            let (tell, go) = (said.clone(), now.clone());
            let server = Server::start(async move |number, mut peer: Peer| {
                peer.head().await;
                peer.send(OK).await;
                if number == 0 {
                    go.notified().await;
                    peer.send(last_words).await;
                    drop(peer);
                    tell.notify_one();
                }
            })
            .await;
            let origin = origin(&server);
            fetch(&origin, "/").await.expect("the first");
            assert_eq!(origin.pool().idle(), 1);
            now.notify_one();
            said.notified().await;
            let mut response =
                origin.send(request(Method::POST, "/"), None).await.expect("a new connection");
            assert_eq!(read(&mut response).await.expect("content"), "ok");
            assert_eq!(server.accepted(), 2);
            assert_eq!(counted(&origin.pool().counters.retried), 0);
        }
    });
}

#[test]
fn a_request_waits_for_a_connection_when_all_are_busy() {
    worker(async {
        let release = Rc::new(Notify::new());
        let released = release.clone();
        let server = Server::start(async move |_, mut peer: Peer| {
            peer.head().await;
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no").await;
            released.notified().await;
            peer.send("k").await;
            peer.head().await;
            peer.send(OK).await;
        })
        .await;
        let origin = origin_with(&server, |settings| settings.max_connections = 1);
        let mut first = get(&origin, "/1").await.expect("head");
        let waiter = origin.clone();
        let second = spawn_local(async move { fetch(&waiter, "/2").await });
        until(|| origin.pool().waiting() == 1).await;
        release.notify_one();
        assert_eq!(read(&mut first).await.expect("the first"), "ok");
        assert_eq!(second.await.expect("join").expect("the second"), "ok");
        assert_eq!(server.accepted(), 1);
        assert_eq!(counted(&origin.pool().counters.waited), 1);
        assert_eq!((origin.pool().waiting(), origin.pool().available()), (0, 1));
    });
}

#[test]
fn the_queue_is_limited_and_who_leaves_it_frees_the_place() {
    worker(async {
        let server = Server::start(async |_, mut peer: Peer| {
            peer.head().await;
            peer.hang().await;
        })
        .await;
        let origin = origin_with(&server, |settings| {
            settings.max_connections = 1;
            settings.max_waiting = 1;
        });
        let tasks: Vec<_> = (0..2)
            .map(|_| {
                let origin = origin.clone();
                spawn_local(async move { fetch(&origin, "/").await })
            })
            .collect();
        until(|| origin.pool().waiting() == 1).await;
        let full = get(&origin, "/").await.expect_err("the queue is full");
        assert_eq!((full.reason(), full.status()), ("too-many-connections", 503));
        tasks[1].abort();
        until(|| origin.pool().waiting() == 0).await;
        tasks[0].abort();
        until(|| origin.pool().available() == 1).await;
        assert_eq!(origin.pool().idle(), 0, "an aborted request closes its connection");
    });
}

#[test]
fn waiting_for_a_connection_ends_with_the_first_byte_timeout() {
    worker(async {
        let server = Server::start(async |_, mut peer: Peer| {
            peer.head().await;
            peer.send("HTTP/1.1 200 OK\r\n\r\n").await;
            peer.hang().await;
        })
        .await;
        let origin = origin_with(&server, |settings| {
            settings.max_connections = 1;
            settings.first_byte_timeout = Duration::from_secs(20);
        });
        let _held = get(&origin, "/").await.expect("head");
        tokio::time::pause();
        assert_eq!(reason(get(&origin, "/").await), "too-many-connections");
        assert_eq!(origin.pool().waiting(), 0);
    });
}

#[test]
fn content_dropped_unread_closes_the_connection_and_frees_the_place() {
    worker(async {
        let ended = Rc::new(Notify::new());
        let tell = ended.clone();
        let server = Server::start(async move |_, mut peer: Peer| {
            peer.head().await;
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\nbegin").await;
            peer.rest().await;
            tell.notify_one();
        })
        .await;
        let origin = origin_with(&server, |settings| settings.max_connections = 1);
        let response = get(&origin, "/").await.expect("head");
        assert_eq!(origin.pool().available(), 0);
        drop(response);
        ended.notified().await;
        assert_eq!((origin.pool().available(), origin.pool().idle()), (1, 0));
    });
}

#[test]
fn a_request_nobody_waits_for_closes_the_connection() {
    worker(async {
        let (asked, ended) = (Rc::new(Notify::new()), Rc::new(Notify::new()));
        let (tell_asked, tell_ended) = (asked.clone(), ended.clone());
        let server = Server::start(async move |_, mut peer: Peer| {
            peer.head().await;
            tell_asked.notify_one();
            peer.rest().await;
            tell_ended.notify_one();
        })
        .await;
        let origin = origin(&server);
        let leaver = origin.clone();
        let task = spawn_local(async move { fetch(&leaver, "/").await });
        asked.notified().await;
        task.abort();
        ended.notified().await;
        until(|| origin.pool().available() == origin.settings().max_connections).await;
    });
}

#[test]
fn idle_connections_are_limited_and_the_youngest_is_used_first() {
    worker(async {
        let server = Server::start(async |number, mut peer: Peer| {
            while !peer.head().await.is_empty() {
                peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{number}")).await;
            }
        })
        .await;
        let origin = origin_with(&server, |settings| settings.idle_connections = 2);
        let mut heads = Vec::new();
        for _ in 0..3 {
            // An unread answer of one byte: not yet complete, so each needs its own connection.
            heads.push(get(&origin, "/").await.expect("head"));
        }
        let mut numbers = Vec::new();
        for mut response in heads {
            numbers.push(read(&mut response).await.expect("content"));
        }
        assert_eq!(numbers, ["0", "1", "2"]);
        assert_eq!(origin.pool().idle(), 2);
        assert_eq!(fetch(&origin, "/").await.expect("the youngest"), "2");
        assert_eq!(server.accepted(), 3);
    });
}

#[test]
fn idle_connections_are_closed_after_a_while_without_anyone_touching_them() {
    worker(async {
        let ended = Rc::new(Notify::new());
        let tell = ended.clone();
        let server = Server::start(async move |_, mut peer: Peer| {
            peer.head().await;
            peer.send(OK).await;
            peer.rest().await;
            tell.notify_one();
        })
        .await;
        let origin =
            origin_with(&server, |settings| settings.idle_timeout = Duration::from_millis(1));
        fetch(&origin, "/").await.expect("content");
        ended.notified().await;
        assert_eq!(origin.pool().idle(), 0);
    });
}

#[test]
fn a_refused_connection_is_told_as_such() {
    worker(async {
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
        let port = free.local_addr().expect("address").port();
        drop(free);
        let server = Server::keeping_alive(OK).await;
        let origin = origin_with(&server, |settings| settings.port = port);
        let error = get(&origin, "/").await.expect_err("refused");
        assert_eq!((error.reason(), error.status()), ("connect", 502));
        assert_eq!(origin.pool().counters.failed(error.index()), 1);
        assert_eq!(origin.pool().available(), origin.settings().max_connections);
    });
}
