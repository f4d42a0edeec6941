use std::future::poll_fn;

use tokio::time::{Instant, sleep};

use super::{
    super::{
        patience::{Late, patiently},
        upload::{Part, Progress, Upload},
    },
    *,
};

const SHORT: Duration = Duration::from_millis(60);

#[test]
fn a_hang_before_the_head_is_a_first_byte_timeout() {
    worker(async {
        for beginning in ["", "HTTP/1.1 200 OK\r\nA: b\r\n"] {
            let server = Server::start(async move |_, mut peer: Peer| {
                peer.head().await;
                peer.send(beginning).await;
                peer.hang().await;
            })
            .await;
            let origin = origin_with(&server, |settings| settings.first_byte_timeout = SHORT);
            let error = get(&origin, "/").await.expect_err("nothing comes");
            assert_eq!((error.reason(), error.status()), ("first-byte-timeout", 504));
            assert_eq!(origin.pool().available(), origin.settings().max_connections);
        }
    });
}

#[test]
fn a_head_that_drips_is_a_first_byte_timeout() {
    worker(async {
        let server = Server::start(async |_, mut peer: Peer| {
            peer.head().await;
            peer.send("HTTP/1.1 200 OK\r\nX: ").await;
            peer.drip(b'x').await;
        })
        .await;
        let origin = origin_with(&server, |settings| settings.first_byte_timeout = SHORT);
        assert_eq!(reason(get(&origin, "/").await), "first-byte-timeout");
    });
}

#[test]
fn interim_responses_without_end_are_a_first_byte_timeout() {
    worker(async {
        let server = Server::start(async |_, mut peer: Peer| {
            peer.head().await;
            peer.flood(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n").await;
        })
        .await;
        let origin = origin_with(&server, |settings| settings.first_byte_timeout = SHORT);
        assert_eq!(reason(get(&origin, "/").await), "first-byte-timeout");
    });
}

#[test]
fn a_timeout_on_a_pooled_connection_is_not_a_reason_to_ask_again() {
    worker(async {
        let server = Server::start(async |_, mut peer: Peer| {
            peer.head().await;
            peer.send("HTTP/1.1 204 No Content\r\n\r\n").await;
            peer.head().await;
            peer.hang().await;
        })
        .await;
        let origin = origin_with(&server, |settings| {
            settings.first_byte_timeout = Duration::from_millis(500)
        });
        get(&origin, "/").await.expect("the first");
        assert_eq!(reason(get(&origin, "/").await), "first-byte-timeout");
        assert_eq!(server.accepted(), 1);
    });
}

#[test]
fn a_hang_in_the_content_is_a_between_bytes_timeout() {
    worker(async {
        for head in ["HTTP/1.1 200 OK\r\n\r\nx", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"] {
            let server = Server::start(async move |_, mut peer: Peer| {
                peer.head().await;
                peer.send(head).await;
                peer.hang().await;
            })
            .await;
            let origin = origin_with(&server, |settings| settings.between_bytes_timeout = SHORT);
            let mut response = get(&origin, "/").await.expect("head");
            let error = read(&mut response).await.expect_err("the rest does not come");
            assert_eq!((error.reason(), error.status()), ("between-bytes-timeout", 504));
            assert_eq!(origin.pool().available(), origin.settings().max_connections);
        }
    });
}

#[test]
fn content_that_drips_or_floods_ends_with_the_total_timeout() {
    worker(async {
        for flood in [false, true] {
            let server = Server::start(async move |_, mut peer: Peer| {
                peer.head().await;
                peer.send("HTTP/1.1 200 OK\r\n\r\n").await;
                match flood {
                    true => peer.flood(&[b'x'; 4096]).await,
                    false => peer.drip(b'x').await,
                }
            })
            .await;
            let origin = origin_with(&server, |settings| settings.total_timeout = 4 * SHORT);
            assert_eq!(reason(fetch(&origin, "/").await), "total-timeout");
        }
    });
}

#[test]
fn the_total_timeout_counts_from_the_beginning() {
    worker(async {
        let server = Server::start(async |_, mut peer: Peer| {
            peer.head().await;
            peer.hang().await;
        })
        .await;
        let origin = origin_with(&server, |settings| settings.total_timeout = SHORT);
        assert_eq!(reason(get(&origin, "/").await), "total-timeout");
    });
}

#[test]
fn timeouts_beyond_the_clock_are_never() {
    worker(async {
        let server = Server::answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
        let origin = origin_with(&server, |settings| {
            settings.connect_timeout = Duration::MAX;
            settings.first_byte_timeout = Duration::MAX;
            settings.between_bytes_timeout = Duration::MAX;
            settings.total_timeout = Duration::MAX;
            settings.idle_timeout = Duration::MAX;
        });
        assert_eq!(fetch(&origin, "/").await.expect("content"), "ok");
    });
}

#[tokio::test(start_paused = true)]
async fn the_origin_is_not_blamed_while_the_client_is_slow() {
    let limit = Duration::from_secs(10);
    let progress = Progress::new();
    let (sender, frames) = mpsc::channel(1);
    let mut upload = Upload::new(RequestBody::Stream { length: None, frames }, progress.clone());
    let started = Instant::now();
    let client = async move {
        for _ in 0..3 {
            sleep(Duration::from_secs(25)).await;
            sender.send(data("x")).await.expect("taken");
        }
        sender.send(BodyFrame::End).await.expect("taken");
    };
    // Takes every part, then waits for an answer that never comes.
    let exchange = async {
        while matches!(poll_fn(|cx| upload.poll_part(cx)).await, Ok(Part::Data(_))) {}
        std::future::pending::<()>().await;
    };
    let both = async { tokio::join!(patiently(exchange, &progress, limit, None), client) };
    let (late, ()) =
        tokio::time::timeout(Duration::from_secs(1000), both).await.expect("the upload stalls");
    assert_eq!(late, Err(Late::Silent));
    assert_eq!(started.elapsed().as_secs(), 85, "10 seconds after the end of the upload");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_until_the_total_is_to_blame() {
    let progress = Progress::new();
    let (_sender, frames) = mpsc::channel(1);
    let mut upload = Upload::new(RequestBody::Stream { length: None, frames }, progress.clone());
    let total = Instant::now() + Duration::from_secs(100);
    let part = poll_fn(|cx| upload.poll_part(cx));
    let late = patiently(part, &progress, Duration::from_secs(10), Some(total)).await;
    assert_eq!(late.err(), Some(Late::Upload));
    assert_eq!(Instant::now(), total);
}
