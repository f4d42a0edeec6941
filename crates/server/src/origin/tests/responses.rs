use super::*;

/// The result of `answer`, sent on a fresh connection that is then closed.
async fn outcome(answer: impl Into<Vec<u8>>) -> Result<String, OriginError> {
    let server = Server::answering(answer).await;
    fetch(&origin(&server), "/").await
}

#[test]
fn a_whole_response_comes_through() {
    worker(async {
        let server =
            Server::answering("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag: \"a\"\r\n\r\nhello")
                .await;
        let mut response = get(&origin(&server), "/").await.expect("response");
        assert_eq!((response.status, response.http10, response.reused), (200, false, false));
        assert_eq!(response.headers["etag"], "\"a\"");
        assert_eq!(response.reason, None);
        assert_eq!(response.peer.expect("an address").port(), server.port());
        assert_eq!(
            (response.body.declared_length(), response.body.close_delimited()),
            (Some(5), false)
        );
        assert_eq!(read(&mut response).await.expect("content"), "hello");
        assert_eq!(response.body.trailers(), None);
    });
}

#[test]
fn short_of_its_length_is_truncated_and_stays_so() {
    worker(async {
        let server = Server::answering("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello").await;
        let origin = origin(&server);
        let mut response = get(&origin, "/").await.expect("head");
        assert_eq!(reason(read(&mut response).await), "truncated");
        assert_eq!(reason(response.body.chunk().await), "truncated");
        assert_eq!(origin.pool().counters.failed_total(), 1);
    });
}

#[test]
fn broken_chunking_is_no_complete_end() {
    worker(async {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        for body in ["", "5\r\nhel", "5\r\nhello\r\n", "5\r\nhello\r\n0\r\n"] {
            assert_eq!(reason(outcome(format!("{head}{body}")).await), "truncated", "{body:?}");
        }
        for body in ["5\r\nhelloXX0\r\n\r\n", "zz\r\n", "-1\r\n", "5 x\r\nhello\r\n0\r\n\r\n"] {
            assert_eq!(reason(outcome(format!("{head}{body}")).await), "malformed", "{body:?}");
        }
        let trailers = "x: 1\r\n".repeat(200);
        for (first, last) in [("5;x=y", ""), ("5  ", ""), ("00000000000000000000005", &*trailers)] {
            let whole = outcome(format!("{head}{first}\r\nhello\r\n0\r\n{last}\r\n")).await;
            assert_eq!(whole.expect("whole"), "hello");
        }
    });
}

#[test]
fn small_chunks_that_came_together_are_one_piece() {
    worker(async {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let chunks = "1\r\nx\r\n".repeat(1000);
        let answer = format!("{head}{chunks}0\r\nX-End: 1\r\n\r\n");
        let server = Server::answering(answer).await;
        let mut response = get(&origin(&server), "/").await.expect("head");
        let (mut pieces, mut content) = (0, String::new());
        while let Some(piece) = response.body.chunk().await.expect("content") {
            pieces += 1;
            content += std::str::from_utf8(&piece).expect("text");
        }
        assert_eq!(content, "x".repeat(1000));
        assert!(pieces < 100, "{pieces}");
        assert_eq!(response.body.trailers().expect("trailers")["x-end"], "1");
    });
}

#[test]
fn the_end_of_the_connection_ends_content_without_length() {
    worker(async {
        let server = Server::answering("HTTP/1.0 200 OK\r\n\r\nhello").await;
        let mut response = get(&origin(&server), "/").await.expect("head");
        assert!(response.http10);
        assert_eq!(
            (response.body.declared_length(), response.body.close_delimited()),
            (None, true)
        );
        assert_eq!(read(&mut response).await.expect("content"), "hello");
    });
}

#[test]
fn a_reset_is_never_a_complete_end() {
    worker(async {
        for head in ["HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"] {
            let server = Server::start(async move |_, mut peer: Peer| {
                peer.head().await;
                peer.send(head).await;
                peer.send("part").await;
                peer.until("never").await;
                peer.reset();
            })
            .await;
            let (mut request, upload) = with_body(Method::POST, None);
            request.target = "/".to_owned();
            let mut response = origin(&server).send(request, None).await.expect("head");
            assert_eq!(response.body.chunk().await.expect("part").as_deref(), Some(&b"part"[..]));
            upload.send(data("never")).await.expect("the upload is taken");
            assert_eq!(reason(read(&mut response).await), "truncated");
        }
    });
}

#[test]
fn what_is_not_http_is_malformed() {
    worker(async {
        for garbage in [
            "SSH-2.0-OpenSSH_9.2\r\n\r\n",
            "HTTP/1.1 abc OK\r\n\r\n",
            "HTTP/1.1 099 Odd\r\n\r\n",
            "HTTP/2.0 200 OK\r\n\r\n",
            "<html>hello</html>\r\n\r\n",
            "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA: \0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
            "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
        ] {
            let error = outcome(garbage).await.expect_err(garbage);
            assert_eq!((error.reason(), error.status()), ("malformed", 502), "{garbage:?}");
        }
    });
}

#[test]
fn no_answer_at_all_is_truncated() {
    worker(async {
        for answer in ["", "HTTP/1.1 20", "HTTP/1.1 200 OK\r\nA: b\r\n"] {
            assert_eq!(reason(outcome(answer).await), "truncated", "{answer:?}");
        }
    });
}

#[test]
fn heads_are_limited() {
    worker(async {
        let field = format!("X: {}\r\n", "x".repeat(1000));
        let large = format!("HTTP/1.1 204 No Content\r\n{}\r\n", field.repeat(66));
        assert_eq!(reason(outcome(large).await), "malformed");
        let below = format!("HTTP/1.1 204 No Content\r\n{}\r\n", field.repeat(60));
        assert_eq!(outcome(below).await.expect("60 kB are not too much"), "");
        let endless = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(100_000));
        assert_eq!(reason(outcome(endless).await), "malformed");
        let many = format!("HTTP/1.1 204 No Content\r\n{}\r\n", "X: y\r\n".repeat(257));
        assert_eq!(reason(outcome(many).await), "malformed");
        let enough = format!("HTTP/1.1 204 No Content\r\n{}\r\n", "X: y\r\n".repeat(256));
        assert_eq!(outcome(enough).await.expect("256 fields are not too many"), "");
    });
}

#[test]
fn where_there_is_no_content_none_is_waited_for() {
    worker(async {
        for (method, answer, connections) in [
            (Method::HEAD, "HTTP/1.1 200 OK\r\nContent-Length: 77\r\n\r\n", 2),
            (Method::HEAD, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 2),
            (Method::GET, "HTTP/1.1 204 No Content\r\nContent-Length: 77\r\n\r\n", 2),
            (Method::GET, "HTTP/1.1 304 Not Modified\r\nContent-Length: 77\r\n\r\n", 2),
            (Method::GET, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 1),
        ] {
            let server = Server::keeping_alive(answer).await;
            let origin = origin(&server);
            for _ in 0..2 {
                let mut response =
                    origin.send(request(method.clone(), "/"), None).await.expect("head");
                assert_eq!(
                    (response.body.declared_length(), response.body.close_delimited()),
                    (Some(0), false)
                );
                assert_eq!(read(&mut response).await.expect("nothing"), "");
                if answer.contains("77") {
                    assert_eq!(response.headers["content-length"], "77");
                }
            }
            assert_eq!(server.accepted(), connections, "{answer:?}");
        }
    });
}

#[test]
fn odd_statuses_and_reasons_come_through() {
    worker(async {
        for (line, status, reason) in [
            ("200 OK", 200, None),
            ("200 Fine", 200, Some("Fine")),
            ("200 ", 200, Some("")),
            ("200", 200, Some("")),
            ("299 Odd", 299, Some("Odd")),
            ("499 ", 499, Some("")),
            ("599 Whatever it is", 599, Some("Whatever it is")),
            ("999 No", 999, Some("No")),
        ] {
            let server =
                Server::answering(format!("HTTP/1.1 {line}\r\nContent-Length: 2\r\n\r\nok")).await;
            let mut response = get(&origin(&server), "/").await.expect(line);
            let expected = reason.map(|reason| Bytes::from_static(reason.as_bytes()));
            assert_eq!((response.status, &response.reason), (status, &expected), "{line:?}");
            assert_eq!(read(&mut response).await.expect(line), "ok");
        }
    });
}

#[test]
fn fields_keep_their_bytes_and_their_order() {
    worker(async {
        let answer = b"HTTP/1.1 204 No Content\r\nX-Latin: caf\xe9\r\nSet-Cookie: a=1\r\nX-Empty:\r\nset-cookie: b=2\r\n\
            X-Fold: one\r\n  two\r\nX-Space : y\r\nX-Tab:\ta\tb\t\r\n\r\n";
        let server = Server::answering(answer).await;
        let response = get(&origin(&server), "/").await.expect("head");
        assert_eq!(response.headers["x-latin"].as_bytes(), b"caf\xe9");
        assert_eq!(
            response.headers.get_all("set-cookie").iter().collect::<Vec<_>>(),
            ["a=1", "b=2"]
        );
        assert_eq!(response.headers["x-empty"], "");
        assert_eq!(response.headers["x-fold"], "one two");
        assert_eq!(response.headers["x-space"], "y");
        assert_eq!(response.headers["x-tab"], "a\tb");
    });
}

#[test]
fn trailers_come_after_the_content() {
    worker(async {
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: \
                       X-Sum\r\n\r\n2\r\nab\r\n0\r\nX-Sum: 7\r\n\r\n";
        let server = Server::keeping_alive(chunked).await;
        let origin = origin(&server);
        for _ in 0..2 {
            let mut response = get(&origin, "/").await.expect("head");
            assert_eq!(response.body.declared_length(), None);
            assert_eq!(read(&mut response).await.expect("content"), "ab");
            assert_eq!(response.body.trailers().expect("trailers")["x-sum"], "7");
            assert_eq!(response.body.trailers(), None);
        }
        assert_eq!(server.accepted(), 1);
    });
}

#[test]
fn two_lengths_are_repaired_and_the_connection_is_not_trusted_again() {
    worker(async {
        let both = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: \
                    chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n";
        let server = Server::keeping_alive(both).await;
        let origin = origin(&server);
        for _ in 0..2 {
            let mut response = get(&origin, "/").await.expect("head");
            assert!(!response.headers.contains_key("content-length"));
            assert_eq!(read(&mut response).await.expect("content"), "ab");
        }
        assert_eq!(server.accepted(), 2);
    });
}

#[test]
fn interim_responses_are_handed_on_before_the_final_one() {
    worker(async {
        let server = Server::answering(
            "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\nHTTP/1.1 102 \
             Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </b.css>\r\n\r\nHTTP/1.1 200 \
             OK\r\nContent-Length: 2\r\n\r\nok",
        )
        .await;
        let origin = origin(&server);
        let (interim, mut heads) = interims();
        let mut response =
            origin.send(request(Method::GET, "/"), Some(interim)).await.expect("final");
        assert_eq!(response.status, 200);
        let first = heads.recv().await.expect("the first");
        assert_eq!(
            (first.status, &first.headers["link"]),
            (103, &HeaderValue::from_static("</a.css>; rel=preload"))
        );
        assert_eq!(heads.recv().await.expect("the second").status, 102);
        assert_eq!(heads.recv().await.expect("the third").headers["link"], "</b.css>");
        assert_eq!(read(&mut response).await.expect("content"), "ok");
        assert!(heads.recv().await.is_none(), "the sender is gone with the final head");
        assert_eq!(origin.pool().counters.interim.load(std::sync::atomic::Ordering::Relaxed), 3);
    });
}

#[test]
fn interim_responses_nobody_takes_are_dropped_and_counted() {
    worker(async {
        let many = "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(7) + "HTTP/1.1 204 No Content\r\n\r\n";
        let server = Server::answering(many).await;
        let origin = origin(&server);
        let (interim, heads) = interims();
        let response = origin.send(request(Method::GET, "/"), Some(interim)).await.expect("final");
        assert_eq!(response.status, 204);
        assert_eq!(heads.len(), 4);
        assert_eq!(
            origin.pool().counters.interim_dropped.load(std::sync::atomic::Ordering::Relaxed),
            3
        );
    });
}

#[test]
fn another_protocol_is_noticed_by_its_first_bytes() {
    worker(async {
        for banner in ["SSH-2.0-server", "\x15\x03\x01\0\x02\x02\x28"] {
            let server = Server::start(async move |_, mut peer: Peer| {
                peer.head().await;
                peer.send(banner).await;
                peer.hang().await;
            })
            .await;
            assert_eq!(reason(get(&origin(&server), "/").await), "malformed", "{banner:?}");
        }
    });
}
