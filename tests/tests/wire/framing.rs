//! Strict framing: what servers may read differently is refused with 400 and a closed connection,
//! and nothing of what follows on that connection ever reaches the origin (request smuggling; RFC
//! 9112 6, 11.2).

use larder_tests::{Larder, Origin, Wire};

/// What an attacker would like to be read as a request of its own.
const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: site.test\r\n\r\n";

/// Sends `bytes` and then a whole request; the first must be refused, the second must never be seen
/// by the origin.
#[track_caller]
fn refused_with(status: u16, bytes: &str) {
    let origin = Origin::serving(&["Cache-Control: no-store"], "from the origin");
    let larder = Larder::before(&origin.url());
    let mut wire = larder.connect();
    wire.send(format!("{bytes}{SMUGGLED}"));
    let answer = wire.read();
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.get("connection"), Some("close"), "{answer:?}");
    wire.expect_closed();
    larder.connect().get("/after", &[]).assert_status(200);
    let seen: Vec<_> = origin.requests().into_iter().map(|r| r.target).collect();
    assert_eq!(seen, ["/after"], "the origin saw more than the honest request");
}

/// `name: status, bytes;` makes a test each.
macro_rules! refused {
    ($($name:ident: $status:literal, $bytes:expr;)*) => {
        $(#[test] fn $name() { refused_with($status, $bytes); })*
    };
}

refused! {
    content_length_before_transfer_encoding: 400,
        "POST / HTTP/1.1\r\nHost: site.test\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    transfer_encoding_before_content_length: 400,
        "POST / HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n";
    two_different_content_lengths: 400,
        "POST / HTTP/1.1\r\nHost: site.test\r\nContent-Length: 0\r\nContent-Length: 50\r\n\r\n";
    two_equal_content_lengths: 400,
        "POST / HTTP/1.1\r\nHost: site.test\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx";
    a_list_of_content_lengths: 400, "POST / HTTP/1.1\r\nHost: site.test\r\nContent-Length: 1, 1\r\n\r\nx";
    content_length_with_a_plus: 400, "POST / HTTP/1.1\r\nHost: site.test\r\nContent-Length: +1\r\n\r\nx";
    content_length_with_a_minus: 400, "POST / HTTP/1.1\r\nHost: site.test\r\nContent-Length: -1\r\n\r\nx";
    content_length_with_a_space_inside: 400, "POST / HTTP/1.1\r\nHost: site.test\r\nContent-Length: 1 0\r\n\r\nx";
    content_length_in_hexadecimal: 400, "POST / HTTP/1.1\r\nHost: site.test\r\nContent-Length: 0x1\r\n\r\nx";
    content_length_beyond_64_bits: 400,
        "POST / HTTP/1.1\r\nHost: site.test\r\nContent-Length: 18446744073709551617\r\n\r\nx";
    content_length_without_a_value: 400, "POST / HTTP/1.1\r\nHost: site.test\r\nContent-Length:\r\n\r\n";

    chunked_twice: 400, "POST / HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n";
    chunked_in_two_lines: 400,
        "POST / HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    identity_and_chunked_in_two_lines: 400,
        "POST / HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n";
    identity: 400, "POST / HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding: identity\r\n\r\n";
    a_word_that_ends_with_chunked: 400, "POST / HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n";
    chunked_with_a_parameter: 400, "POST / HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding: chunked;x\r\n\r\n0\r\n\r\n";
    chunked_after_a_vertical_tab: 400,
        "POST / HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n";
    chunked_in_quotes: 400, "POST / HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n";
    transfer_encoding_without_a_value: 400, "POST / HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding:\r\n\r\n";
    a_coding_without_chunked_at_the_end: 400, "POST / HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding: gzip\r\n\r\n";
    gzip_before_chunked: 501,
        "POST / HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n";
    transfer_encoding_in_http_1_0: 400, "POST / HTTP/1.0\r\nHost: site.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";

    a_bare_lf_after_the_request_line: 400, "GET / HTTP/1.1\nHost: site.test\r\n\r\n";
    a_bare_lf_after_a_field: 400, "GET / HTTP/1.1\r\nHost: site.test\nX: y\r\n\r\n";
    a_bare_lf_at_the_end_of_the_head: 400, "GET / HTTP/1.1\r\nHost: site.test\r\n\n";
    a_bare_cr_in_a_value: 400, "GET / HTTP/1.1\r\nHost: site.test\r\nX: a\rContent-Length: 5\r\n\r\n";
    a_null_in_a_value: 400, "GET / HTTP/1.1\r\nHost: site.test\r\nX: a\0b\r\n\r\n";
    a_control_character_in_a_value: 400, "GET / HTTP/1.1\r\nHost: site.test\r\nX: a\x08b\r\n\r\n";
    a_control_character_in_a_name: 400, "GET / HTTP/1.1\r\nHost: site.test\r\nX\x01: a\r\n\r\n";
    a_folded_line: 400, "GET / HTTP/1.1\r\nHost: site.test\r\nX: a\r\n b\r\n\r\n";
    a_space_before_the_colon: 400, "POST / HTTP/1.1\r\nHost: site.test\r\nContent-Length : 5\r\n\r\n";
    a_tab_before_the_colon: 400, "POST / HTTP/1.1\r\nHost: site.test\r\nContent-Length\t: 5\r\n\r\n";
    space_before_the_first_field: 400, "GET / HTTP/1.1\r\n Host: site.test\r\n\r\n";
    a_line_without_a_colon: 400, "GET / HTTP/1.1\r\nHost: site.test\r\nnonsense\r\n\r\n";
    a_line_without_a_name: 400, "GET / HTTP/1.1\r\nHost: site.test\r\n: x\r\n\r\n";
    two_empty_lines_before_the_request: 400, "\r\n\r\nGET / HTTP/1.1\r\nHost: site.test\r\n\r\n";
    space_before_the_method: 400, " GET / HTTP/1.1\r\nHost: site.test\r\n\r\n";

    no_host: 400, "GET / HTTP/1.1\r\n\r\n";
    two_hosts: 400, "GET / HTTP/1.1\r\nHost: site.test\r\nHost: other.test\r\n\r\n";
    two_equal_hosts: 400, "GET / HTTP/1.1\r\nHost: site.test\r\nHost: site.test\r\n\r\n";
    two_hosts_in_one_line: 400, "GET / HTTP/1.1\r\nHost: site.test, other.test\r\n\r\n";
    a_host_with_a_path: 400, "GET / HTTP/1.1\r\nHost: site.test/path\r\n\r\n";
    a_host_with_a_user: 400, "GET / HTTP/1.1\r\nHost: user@site.test\r\n\r\n";
    a_host_with_a_space: 400, "GET / HTTP/1.1\r\nHost: site.test other.test\r\n\r\n";
    a_host_with_a_port_that_is_no_number: 400, "GET / HTTP/1.1\r\nHost: site.test:80x\r\n\r\n";
    an_absolute_target_of_another_host: 400, "GET http://other.test/ HTTP/1.1\r\nHost: site.test\r\n\r\n";

    a_target_with_a_control_character: 400, "GET /a\x01b HTTP/1.1\r\nHost: site.test\r\n\r\n";
    a_target_with_a_space: 400, "GET /a b HTTP/1.1\r\nHost: site.test\r\n\r\n";
    a_target_with_a_fragment: 400, "GET /a#b HTTP/1.1\r\nHost: site.test\r\n\r\n";
    a_target_outside_ascii: 400, "GET /\u{e4} HTTP/1.1\r\nHost: site.test\r\n\r\n";
    a_target_without_a_slash: 400, "GET path HTTP/1.1\r\nHost: site.test\r\n\r\n";
    an_asterisk_without_options: 400, "GET * HTTP/1.1\r\nHost: site.test\r\n\r\n";
    authority_form_without_connect: 400, "GET site.test:80 HTTP/1.1\r\nHost: site.test\r\n\r\n";
    two_spaces_in_the_request_line: 400, "GET  / HTTP/1.1\r\nHost: site.test\r\n\r\n";
    a_tab_in_the_request_line: 400, "GET\t/ HTTP/1.1\r\nHost: site.test\r\n\r\n";
    a_method_that_is_no_token: 400, "G(T / HTTP/1.1\r\nHost: site.test\r\n\r\n";
    no_version: 400, "GET /\r\n";
    a_version_in_lower_case: 400, "GET / http/1.1\r\nHost: site.test\r\n\r\n";
    http_2_in_the_request_line: 505, "GET / HTTP/2.0\r\nHost: site.test\r\n\r\n";

    a_chunk_size_that_is_no_number: 400, &chunked("g\r\nx\r\n0\r\n\r\n");
    a_chunk_size_with_a_prefix: 400, &chunked("0x1\r\nx\r\n0\r\n\r\n");
    a_chunk_size_with_a_plus: 400, &chunked("+1\r\nx\r\n0\r\n\r\n");
    a_chunk_size_with_a_minus: 400, &chunked("-1\r\nx\r\n0\r\n\r\n");
    a_chunk_size_after_a_space: 400, &chunked(" 1\r\nx\r\n0\r\n\r\n");
    a_chunk_size_of_seventeen_digits: 400, &chunked("00000000000000001\r\nx\r\n0\r\n\r\n");
    a_chunk_size_that_overflows: 400, &chunked("ffffffffffffffff1\r\nx\r\n0\r\n\r\n");
    no_chunk_size: 400, &chunked("\r\nx\r\n0\r\n\r\n");
    a_chunk_longer_than_its_size: 400, &chunked("1\r\nxy\r\n0\r\n\r\n");
    a_bare_lf_after_a_chunk_size: 400, &chunked("1\nx\r\n0\r\n\r\n");
    a_bare_lf_after_a_chunk: 400, &chunked("1\r\nx\n0\r\n\r\n");
    a_bare_lf_in_a_chunk_extension: 400, &chunked("1;a\nx\r\n0\r\n\r\n");
    a_bare_cr_in_a_chunk_extension: 400, &chunked("1;a\rb\r\nx\r\n0\r\n\r\n");
    a_trailer_without_a_colon: 400, &chunked("1\r\nx\r\n0\r\nnonsense\r\n\r\n");
    a_folded_trailer: 400, &chunked("1\r\nx\r\n0\r\nX: a\r\n b\r\n\r\n");

    an_expectation_we_do_not_know: 417, "GET / HTTP/1.1\r\nHost: site.test\r\nExpect: 200-ok\r\n\r\n";
}

fn chunked(body: &str) -> String {
    format!("POST / HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding: chunked\r\n\r\n{body}")
}

#[test]
fn the_http_2_preface_is_refused() {
    let origin = Origin::serving(&[], "");
    let larder = Larder::before(&origin.url());
    let mut wire = larder.connect();
    wire.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    let status = wire.read().status;
    assert!(status == 400 || status == 505, "{status}");
    wire.expect_closed();
    assert_eq!(origin.connections(), 0);
}

#[test]
fn a_chunk_extension_without_end_is_bounded() {
    let origin = Origin::serving(&[], "");
    let larder = Larder::before(&origin.url());
    let mut wire = larder.connect();
    wire.send(chunked(&format!("1;{}", "a".repeat(200_000))));
    assert_eq!(wire.read().status, 400);
    wire.expect_closed();
    assert_eq!(origin.count(), 0);
}

#[test]
fn trailers_without_end_are_bounded() {
    let origin = Origin::serving(&[], "");
    let larder = Larder::before(&origin.url());
    let mut wire = larder.connect();
    wire.send(chunked(&format!("0\r\n{}", "X: y\r\n".repeat(100_000))));
    let status = wire.read().status;
    assert!(status == 400 || status == 431, "{status}");
    wire.expect_closed();
    assert_eq!(origin.count(), 0);
}

#[test]
fn connect_opens_no_tunnel() {
    let origin = Origin::serving(&[], "");
    let larder = Larder::before(&origin.url());
    let mut wire = larder.connect();
    wire.send("CONNECT other.test:443 HTTP/1.1\r\nHost: other.test:443\r\n\r\n");
    let answer = wire.read();
    assert!((400..=501).contains(&answer.status), "{answer:?}");
    assert_eq!(origin.connections(), 0);
}

#[test]
fn short_chunk_extensions_are_dropped() {
    let origin = Origin::serving(&[], "ok");
    let larder = Larder::before(&origin.url());
    let mut wire = larder.connect();
    wire.send(chunked("3;name=\"value\"\r\nabc\r\n0;last\r\n\r\n"));
    assert_eq!(wire.read().status, 200);
    assert_eq!(origin.last().body, b"abc");
}

#[test]
fn one_empty_line_before_a_request_is_tolerated() {
    let origin = Origin::serving(&[], "ok");
    let larder = Larder::before(&origin.url());
    let mut wire = larder.connect();
    wire.send(format!("\r\n{}", "GET / HTTP/1.1\r\nHost: site.test\r\n\r\n"));
    assert_eq!(wire.read().status, 200);
}

#[test]
fn leading_zeros_of_a_length_are_only_digits() {
    let origin = Origin::serving(&[], "ok");
    let larder = Larder::before(&origin.url());
    let mut wire = larder.connect();
    wire.send("POST /a HTTP/1.1\r\nHost: site.test\r\nContent-Length: 003\r\n\r\nabc");
    let answer = wire.read();
    // Refusing it would be strict too; what matters is that both sides count the same three bytes.
    if answer.status == 200 {
        assert_eq!(origin.last().body, b"abc");
    } else {
        assert_eq!((answer.status, origin.count()), (400, 0));
    }
}

/// A peer answered from memory and left the body unread: it became the next request.
#[test]
fn the_body_of_a_request_that_hits_is_not_the_next_request() {
    let origin = Origin::serving(&["Cache-Control: max-age=60"], "page");
    let larder = Larder::before(&origin.url());
    let mut wire = larder.connect();
    wire.get("/page", &[]).assert_status(200);
    wire.get("/page", &[]).assert_hit();
    wire.send(format!(
        "GET /page HTTP/1.1\r\nHost: site.test\r\nContent-Length: {}\r\n\r\n{SMUGGLED}",
        SMUGGLED.len()
    ));
    wire.read().assert_status(200);
    assert!(wire.try_read_another(), "the connection neither went on nor closed");
    assert_eq!(origin.count_of("/smuggled"), 0);
}

/// The sequel of an exchange whose body nobody wanted: either an honest next answer, or the end of
/// the connection.
trait Another {
    fn try_read_another(&mut self) -> bool;
}

impl Another for Wire {
    fn try_read_another(&mut self) -> bool {
        use larder_tests::wire::WireError;
        self.send_get("/page", &["Host: site.test"]);
        match self.try_read_for("GET") {
            Ok(answer) => answer.status == 200 && answer.body == b"page",
            Err(WireError::Closed | WireError::Io(_)) => true,
            Err(_) => false,
        }
    }
}
