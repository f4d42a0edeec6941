use std::cell::RefCell;

use tokio::{sync::Notify, task::spawn_local};

use super::*;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A server that keeps what it got of one request, up to `end`, and answers.
async fn recording(end: &'static str) -> (Server, Rc<RefCell<String>>) {
    let got = Rc::new(RefCell::new(String::new()));
    let kept = got.clone();
    let server = Server::start(async move |_, mut peer: Peer| {
        let whole = peer.until(end).await;
        kept.replace(whole);
        peer.send(OK).await;
        peer.hang().await;
    })
    .await;
    (server, got)
}

#[test]
fn a_request_goes_out_as_it_is_given() {
    worker(async {
        let (server, got) = recording("\r\n\r\n").await;
        let headers = fields(&[("host", "wiki.example.org"), ("x-a", "1"), ("accept", "*/*")]);
        let odd = Request {
            headers,
            ..request(Method::from_bytes(b"REPORT").expect("method"), "/a?b=%20")
        };
        origin(&server).send(odd, None).await.expect("response");
        let got = got.borrow();
        let mut lines: Vec<_> = got.lines().collect();
        assert_eq!(lines.remove(0), "REPORT /a?b=%20 HTTP/1.1");
        lines.sort_unstable();
        assert_eq!(lines, ["", "accept: */*", "host: wiki.example.org", "x-a: 1"]);
    });
}

#[test]
fn an_empty_post_says_so_and_an_empty_get_does_not() {
    worker(async {
        let (server, got) = recording("\r\n\r\n").await;
        origin(&server).send(request(Method::POST, "/"), None).await.expect("response");
        assert!(got.borrow().contains("content-length: 0\r\n"));
        origin(&server).send(request(Method::GET, "/"), None).await.expect("response");
        assert!(!got.borrow().contains("content-length"));
        assert!(!got.borrow().contains("transfer-encoding"));
    });
}

#[test]
fn a_body_of_known_length_is_streamed_with_it() {
    worker(async {
        let (server, got) = recording("hello world").await;
        let (request, upload) = with_body(Method::PUT, Some(11));
        let answer = spawn_local(async move { origin(&server).send(request, None).await });
        for piece in ["hello", "", " world"] {
            upload.send(data(piece)).await.expect("taken");
        }
        assert_eq!(answer.await.expect("join").expect("response").status, 200);
        let got = got.borrow();
        assert!(
            got.contains("content-length: 11\r\n") && got.ends_with("\r\n\r\nhello world"),
            "{got}"
        );
        assert!(!got.contains("chunked"));
    });
}

#[test]
fn a_body_of_unknown_length_is_streamed_in_chunks_whatever_the_method() {
    worker(async {
        for method in [Method::POST, Method::GET, Method::DELETE] {
            let (server, got) = recording("0\r\n\r\n").await;
            let (request, upload) = with_body(method.clone(), None);
            let answer = spawn_local(async move { origin(&server).send(request, None).await });
            for piece in ["hello", "", " world"] {
                upload.send(data(piece)).await.expect("taken");
            }
            upload.send(BodyFrame::End).await.expect("taken");
            assert_eq!(answer.await.expect("join").expect("response").status, 200);
            let got = got.borrow();
            assert!(got.contains("transfer-encoding: chunked\r\n"), "{got}");
            assert!(
                got.ends_with("\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"),
                "{method}: {got}"
            );
        }
    });
}

#[test]
fn request_trailers_are_sent_when_they_were_announced() {
    worker(async {
        let (server, got) = recording("x-sum: 7\r\n\r\n").await;
        let (mut request, upload) = with_body(Method::POST, None);
        request.headers = fields(&[("trailer", "x-sum")]);
        upload.send(data("ab")).await.expect("room");
        upload.send(BodyFrame::Trailers(fields(&[("x-sum", "7")]))).await.expect("room");
        let response = origin(&server).send(request, None).await.expect("response");
        assert_eq!(response.status, 200);
        assert!(got.borrow().ends_with("2\r\nab\r\n0\r\nx-sum: 7\r\n\r\n"), "{}", got.borrow());
    });
}

/// The bytes that the server gets, to the end of the connection, when the client sends `frames` of
/// an upload.
async fn aborted(length: Option<u64>, frames: Vec<BodyFrame>) -> String {
    let (got, ended) = (Rc::new(RefCell::new(String::new())), Rc::new(Notify::new()));
    let (kept, tell) = (got.clone(), ended.clone());
    let server = Server::start(async move |_, mut peer: Peer| {
        let all = peer.rest().await;
        kept.replace(all);
        tell.notify_one();
    })
    .await;
    let (request, upload) = with_body(Method::POST, length);
    for frame in frames {
        upload.send(frame).await.expect("room");
    }
    drop(upload);
    let error = origin(&server).send(request, None).await.expect_err("aborted");
    assert_eq!((error.reason(), error.status()), ("body-aborted", 400));
    ended.notified().await;
    got.take()
}

#[test]
fn an_upload_that_fails_is_cut_off_not_ended() {
    worker(async {
        let chunked = aborted(None, vec![data("half"), BodyFrame::Failed]).await;
        assert!(!chunked.contains("0\r\n\r\n"), "{chunked}");
        let dropped = aborted(None, vec![data("half")]).await;
        assert!(!dropped.contains("0\r\n\r\n"), "a sender that is gone ends nothing: {dropped}");
        let sized = aborted(Some(8), vec![data("half"), BodyFrame::Failed]).await;
        assert!(!sized.contains("halfhalf"), "{sized}");
        aborted(Some(8), vec![data("half")]).await;
        let long = aborted(Some(3), vec![data("half")]).await;
        assert!(!long.contains("hal"), "more than promised is not sent: {long}");
    });
}

#[test]
fn an_upload_that_fails_after_the_head_of_the_response_fails_its_content() {
    worker(async {
        let server = Server::start(async |_, mut peer: Peer| {
            peer.head().await;
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n").await;
            peer.rest().await;
        })
        .await;
        let (request, upload) = with_body(Method::POST, None);
        let mut response = origin(&server).send(request, None).await.expect("head");
        upload.send(BodyFrame::Failed).await.expect("taken");
        assert_eq!(reason(read(&mut response).await), "body-aborted");
    });
}

#[test]
fn an_answer_before_the_end_of_the_upload_comes_through() {
    worker(async {
        let server = Server::start(async |_, mut peer: Peer| {
            peer.head().await;
            peer.send(OK).await;
            assert_ne!(peer.until("0\r\n\r\n").await, "", "the rest of the upload goes on");
            peer.head().await;
            peer.send(OK).await;
        })
        .await;
        let origin = origin_with(&server, |settings| settings.max_connections = 1);
        let (request, upload) = with_body(Method::POST, None);
        upload.send(data("first")).await.expect("room");
        let mut response = origin.send(request, None).await.expect("the early answer");
        assert_eq!(read(&mut response).await.expect("content"), "ok");
        assert_eq!(origin.pool().available(), 0, "the connection is still in use");
        upload.send(data("rest")).await.expect("taken");
        upload.send(BodyFrame::End).await.expect("taken");
        assert_eq!(fetch(&origin, "/").await.expect("the next over the same connection"), "ok");
        assert_eq!(server.accepted(), 1);
    });
}

#[test]
fn an_upload_that_is_dropped_after_an_early_answer_is_not_ended() {
    worker(async {
        let (got, ended) = (Rc::new(RefCell::new(String::new())), Rc::new(Notify::new()));
        let (kept, tell) = (got.clone(), ended.clone());
        let server = Server::start(async move |index, mut peer: Peer| {
            peer.head().await;
            peer.send(OK).await;
            if index == 0 {
                kept.replace(peer.rest().await);
                tell.notify_one();
            }
        })
        .await;
        let origin = origin_with(&server, |settings| settings.max_connections = 1);
        let (request, upload) = with_body(Method::POST, None);
        upload.send(data("first")).await.expect("room");
        let mut response = origin.send(request, None).await.expect("the early answer");
        assert_eq!(read(&mut response).await.expect("content"), "ok");
        drop(upload);
        ended.notified().await;
        assert!(!got.borrow().contains("0\r\n\r\n"), "{}", got.borrow());
        assert_eq!(fetch(&origin, "/").await.expect("over another connection"), "ok");
    });
}

#[test]
fn an_upload_that_fails_while_the_client_reads_nothing_fails_the_answer() {
    worker(async {
        let failed = Rc::new(Notify::new());
        let go_on = failed.clone();
        let server = Server::start(async move |index, mut peer: Peer| {
            peer.head().await;
            if index == 0 {
                peer.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf").await;
                go_on.notified().await;
                peer.send(" more").await;
            } else {
                peer.send(OK).await;
            }
            peer.rest().await;
        })
        .await;
        let origin = origin(&server);
        let (request, upload) = with_body(Method::POST, None);
        let mut response = origin.send(request, None).await.expect("head");
        upload.send(BodyFrame::Failed).await.expect("taken");
        drop(upload);
        tokio::select! {
            biased;
            () = response.body.upload() => {}
            () = std::future::ready(()) => {}
        }
        failed.notify_one();
        assert_eq!(reason(read(&mut response).await), "body-aborted");
        assert_eq!(fetch(&origin, "/").await.expect("over another connection"), "ok");
        assert_eq!(server.accepted(), 2);
    });
}

#[test]
fn an_early_refusal_is_read_although_the_upload_cannot_be_written() {
    worker(async {
        let refusal =
            "HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig";
        let server = Server::start(async move |_, mut peer: Peer| {
            peer.head().await;
            peer.send(refusal).await;
        })
        .await;
        for _ in 0..20 {
            let (request, upload) = with_body(Method::POST, None);
            let pump = spawn_local(async move {
                let piece = Bytes::from(vec![b'x'; 64 * 1024]);
                while upload.send(BodyFrame::Data(piece.clone())).await.is_ok() {}
            });
            let mut response = origin(&server).send(request, None).await.expect("the refusal");
            assert_eq!(response.status, 413);
            assert_eq!(read(&mut response).await.expect("content"), "big");
            drop(response);
            pump.await.expect("the upload ends");
        }
    });
}

#[test]
fn what_cannot_be_sent_is_the_clients_fault() {
    worker(async {
        let server = Server::answering(OK).await;
        let origin = origin(&server);
        for (method, target) in
            [(Method::CONNECT, "host:443"), (Method::GET, "http://host/"), (Method::GET, "/#x")]
        {
            let error = origin.send(request(method, target), None).await.expect_err(target);
            assert_eq!((error.reason(), error.status()), ("unsendable", 400), "{target:?}");
        }
        assert_eq!(server.accepted(), 0);
    });
}
