//! The readers at every cut position: the meaning of a stream does not depend on where it was cut.

use super::*;

/// Messages of both sides, in turn.
enum Say {
    Client(Vec<u8>),
    Server(Vec<u8>),
}
use Say::{Client, Server};

/// Result of reading a conversation.
#[derive(Debug, Default, PartialEq, Eq)]
struct Heard {
    /// Requests: offset in the client's stream, and text.
    requests: Vec<(usize, Option<String>)>,
    /// Offsets in the client's stream from which bytes belong to no request.
    asides: Vec<usize>,
    /// Answers: offset in the server's stream at which each begins.
    begins: Vec<usize>,
    /// Offset in the server's stream at which each ends.
    ends: Vec<usize>,
    to_server: Vec<u8>,
    to_client: Vec<u8>,
    lost: Option<String>,
}

fn turns() -> Dialect {
    Dialect::turns(false)
}

/// The reader of a conversation, and its result so far.
struct Ear {
    dialect: Dialect,
    /// Bytes of each side that wait for more.
    up: Vec<u8>,
    down: Vec<u8>,
    heard: Heard,
}

impl Ear {
    fn new(protocol: fn() -> Dialect) -> Ear {
        Ear { dialect: protocol(), up: vec![], down: vec![], heard: Heard::default() }
    }

    /// Reads in pieces of at most `piece` bytes.
    fn hear(&mut self, say: &Say, piece: usize) {
        match say {
            Client(bytes) => bytes.chunks(piece).for_each(|bytes| {
                self.up.extend_from_slice(bytes);
                self.client();
            }),
            Server(bytes) => bytes.chunks(piece).for_each(|bytes| {
                self.down.extend_from_slice(bytes);
                self.server();
            }),
        }
    }

    fn client(&mut self) {
        let heard = &mut self.heard;
        while !self.up.is_empty() && heard.lost.is_none() {
            let pass = match self.dialect.up(&self.up) {
                Up::More => return assert!(self.up.len() < NEEDED),
                Up::Pass(pass) => pass,
                Up::Aside(pass) => {
                    heard.asides.push(heard.to_server.len());
                    pass
                }
                Up::Request(pass, text) => {
                    heard.requests.push((heard.to_server.len(), text.map(|text| text.to_string())));
                    pass
                }
                Up::Answer(length, answer) => {
                    self.up.drain(..length);
                    heard.to_client.extend_from_slice(answer);
                    continue;
                }
                Up::Lost(why) => return heard.lost = Some(why),
            };
            assert!(pass > 0);
            heard.to_server.extend(self.up.drain(..pass));
        }
    }

    fn server(&mut self) {
        let heard = &mut self.heard;
        while !self.down.is_empty() && heard.lost.is_none() {
            match self.dialect.down(&mut self.down) {
                Down::More => return assert!(self.down.len() < NEEDED),
                Down::Pass { length, begins, ends } => {
                    assert!(length > 0);
                    if begins {
                        heard.begins.push(heard.to_client.len());
                    }
                    heard.to_client.extend(self.down.drain(..length));
                    heard.ends.extend(vec![heard.to_client.len(); ends]);
                }
                Down::Lost(why) => heard.lost = Some(why),
            }
        }
    }
}

/// Reads a conversation whose messages are all complete.
fn hear(protocol: fn() -> Dialect, says: &[Say], piece: usize) -> Heard {
    let mut ear = Ear::new(protocol);
    for say in says {
        ear.hear(say, piece);
        let whole = ear.up.is_empty() && ear.down.is_empty();
        assert!(ear.heard.lost.is_some() || whole, "bytes stay behind a whole saying");
    }
    ear.heard
}

/// Reads it whole and at every piece size.
fn everywhere(protocol: fn() -> Dialect, says: &[Say]) -> Heard {
    let whole = hear(protocol, says, usize::MAX);
    for piece in 1..200 {
        let heard = hear(protocol, says, piece);
        assert_eq!(heard.lost, whole.lost, "in pieces of {piece}");
        // Bytes before broken chunks in the same piece are lost with them, and pass all the same.
        if !matches!(protocol(), Dialect::Http(_)) || whole.lost.is_none() {
            assert_eq!(heard, whole, "in pieces of {piece}");
        }
    }
    whole
}

fn packet(number: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(content.len()).unwrap().to_le_bytes()[..3].to_vec();
    bytes.push(number);
    bytes.extend_from_slice(content);
    bytes
}

/// A server's first packet with all capabilities.
fn greeting() -> Vec<u8> {
    let mut content = b"\x0a10.11.0-MariaDB\0\x01\0\0\0challeng\0".to_vec();
    content.extend_from_slice(&[0xff, 0xff, 0x08, 0x02, 0x00, 0xff, 0xff, 21]);
    content.extend_from_slice(&[0; 10]);
    content.extend_from_slice(b"challengetail\0mysql_native_password\0");
    packet(0, &content)
}

fn login(capabilities: u32) -> Vec<u8> {
    let mut content = capabilities.to_le_bytes().to_vec();
    content.extend_from_slice(&[0; 28]);
    content.extend_from_slice(b"root\0\0");
    packet(1, &content)
}

const OK: &[u8] = &[0, 0, 0, 2, 0, 0, 0];
const EOF: &[u8] = &[0xfe, 0, 0, 2, 0];

fn mysql(capabilities: u32, more: Vec<Say>) -> Vec<Say> {
    let mut says = vec![Server(greeting()), Client(login(capabilities)), Server(packet(2, OK))];
    says.extend(more);
    says
}

fn query(text: &str) -> Say {
    Client(packet(0, &[b"\x03", text.as_bytes()].concat()))
}

/// Two columns and three rows.
fn rows(deprecate_eof: bool, last: &[u8]) -> Vec<u8> {
    let mut contents: Vec<&[u8]> = vec![b"\x02", b"\x03defcolumn one", b"\x03defcolumn two"];
    if !deprecate_eof {
        contents.push(EOF);
    }
    contents.extend([&b"\x01a\x01b"[..], b"\xfb\xfb", b"\0\0", last]);
    let number = |(n, content): (usize, &&[u8])| packet(u8::try_from(n + 1).unwrap(), content);
    contents.iter().enumerate().flat_map(number).collect()
}

#[test]
fn mysql_statements_and_their_answers() {
    for (capabilities, last) in [(0, EOF), (1 << 24, &[0xfe, 0, 0, 2, 0, 0, 0][..])] {
        let answer = rows(capabilities != 0, last);
        let length = answer.len();
        let heard = everywhere(
            Dialect::mysql,
            &mysql(
                capabilities,
                vec![
                    query("SELECT 1"),
                    Server(answer),
                    Client(packet(0, b"\x0e")),
                    Server(packet(1, OK)),
                    query("UPDATE a"),
                    Server(packet(1, b"\xff\x10\x04#42000no")),
                    Client(packet(0, b"\x01")),
                ],
            ),
        );
        assert_eq!(heard.lost, None);
        let texts: Vec<_> = heard.requests.iter().filter_map(|(_, text)| text.as_deref()).collect();
        assert_eq!(texts, ["SELECT 1", "UPDATE a"]);
        let login = heard.begins[0];
        assert_eq!(heard.begins, [login, login + length + 11]);
        let ping = heard.requests[0].0 + 4 + "_SELECT 1".len();
        assert_eq!(heard.asides, [ping, heard.to_server.len() - 5]);
        assert_eq!(heard.ends, [login + length, heard.to_client.len()]);
    }
}

#[test]
fn mysql_compression_is_not_offered_and_nothing_else_is_changed() {
    let heard = everywhere(Dialect::mysql, &mysql(0, vec![]));
    let mut expected = [greeting(), packet(2, OK)].concat();
    let lower = 4 + 1 + b"10.11.0-MariaDB\0".len() + 4 + 8 + 1;
    expected[lower] &= !0x20;
    expected[lower + 6] &= !0x04;
    assert_eq!(heard.to_client, expected);
}

#[test]
fn mysql_several_results_are_one_answer_and_progress_is_none() {
    let more = [0xfe, 0, 0, 0x0a, 0];
    let answer = [
        packet(1, b"\xff\xff\xff\x01\x02\x03progress"),
        rows(false, &more),
        rows(false, &more),
        packet(9, &[0, 1, 0, 2, 0, 0, 0]),
    ]
    .concat();
    let heard = everywhere(Dialect::mysql, &mysql(0, vec![query("CALL p()"), Server(answer)]));
    assert_eq!((heard.begins.len(), heard.ends), (1, vec![heard.to_client.len()]));
}

#[test]
fn mysql_a_file_is_no_command_whatever_its_packets_are_numbered() {
    let mut says = vec![query("LOAD DATA LOCAL"), Server(packet(1, b"\xfbfile.csv"))];
    says.extend((2..300).map(|n| Client(packet((n % 256) as u8, b"\x03a line of the file"))));
    says.extend([
        Client(packet(44, b"")),
        Server(packet(45, OK)),
        query("SELECT 2"),
        Server(packet(1, OK)),
    ]);
    let heard = everywhere(Dialect::mysql, &mysql(0, says));
    assert_eq!((heard.requests.len(), heard.ends.len(), heard.lost), (2, 2, None));
}

#[test]
fn mysql_prepared_statements_keep_their_text() {
    let prepared = [0, 7, 0, 0, 0, 2, 0, 1, 0, 0, 0, 0];
    let answer: Vec<u8> = [&prepared[..], b"\x03defparam", EOF, b"\x03defone", b"\x03deftwo", EOF]
        .iter()
        .enumerate()
        .flat_map(|(n, content)| packet(n as u8 + 1, content))
        .collect();
    let execute = || Client(packet(0, &[0x17, 7, 0, 0, 0, 0, 1, 0, 0, 0]));
    let heard = everywhere(
        Dialect::mysql,
        &mysql(
            0,
            vec![
                Client(packet(0, b"\x16SELECT ?")),
                Server(answer),
                execute(),
                Server(rows(false, EOF)),
                Client(packet(0, &[0x19, 7, 0, 0, 0])),
                execute(),
                Server(packet(1, b"\xff\xd9\x04#HY000unknown")),
            ],
        ),
    );
    let texts: Vec<_> = heard.requests.iter().map(|(_, text)| text.as_deref()).collect();
    assert_eq!((texts, heard.ends.len()), (vec![Some("SELECT ?"), None], 2));
}

#[test]
fn mysql_prepare_and_execute_sent_together() {
    let both =
        [packet(0, b"\x16SELECT 1"), packet(0, &[0x17, 0xff, 0xff, 0xff, 0xff, 0, 1, 0, 0, 0])]
            .concat();
    let prepared = packet(1, &[0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let answers = [prepared.clone(), rows(false, EOF)].concat();
    let heard = everywhere(Dialect::mysql, &mysql(0, vec![Client(both), Server(answers)]));
    assert_eq!(
        (heard.requests.len(), heard.begins.len(), heard.ends),
        (1, 1, vec![heard.to_client.len()])
    );
}

#[test]
fn mysql_packets_of_sixteen_megabytes_go_on() {
    let text = vec![b'x'; 0xff_ffff - 1];
    let statement =
        [packet(0, &[b"\x03", &text[..]].concat()), packet(1, b"and the rest")].concat();
    let row = [packet(4, &vec![0xfe; 0xff_ffff]), packet(5, b""), packet(6, EOF)].concat();
    let answer = [packet(1, b"\x01"), packet(2, b"\x03defone"), packet(3, EOF), row].concat();
    for piece in [usize::MAX, 65_536, 1_000_003] {
        let says =
            mysql(0, vec![Client(statement.clone()), Server(answer.clone()), query("SELECT 2")]);
        let heard = hear(Dialect::mysql, &says, piece);
        assert_eq!((heard.requests.len(), heard.lost), (2, None));
        assert_eq!(heard.requests[0].1.as_ref().map(String::len), Some(STATEMENT_SEEN - 1));
        assert_eq!(heard.ends, [heard.to_client.len()]);
    }
}

#[test]
fn mysql_a_user_is_changed_without_a_request() {
    let heard = everywhere(
        Dialect::mysql,
        &mysql(
            0,
            vec![
                Client(packet(0, b"\x11other\0")),
                Server(packet(1, b"\xfemysql_native_password\0challenge\0")),
                Client(packet(2, b"proof")),
                Server(packet(3, OK)),
                query("SELECT 1"),
                Server(packet(1, OK)),
                // The next command comes before the answer to this one.
                Client([packet(0, b"\x11other\0"), packet(0, b"\x03SELECT 2")].concat()),
                Server([packet(1, OK), packet(1, OK)].concat()),
            ],
        ),
    );
    assert_eq!((heard.requests.len(), heard.ends.len(), heard.lost), (2, 2, None));
}

#[test]
fn mysql_what_cannot_be_read_is_said() {
    let lost = |says: &[Say]| everywhere(Dialect::mysql, says).lost.unwrap_or_default();
    let tls = packet(1, &[&(1u32 << 11).to_le_bytes()[..], &[0; 28]].concat());
    assert!(lost(&[Server(greeting()), Client(tls)]).contains("TLS"));
    assert!(
        lost(&[Server(greeting()), Client(b"GET / HTTP/1.1\r\n\r\n".to_vec())])
            .contains("login is no MySQL")
    );
    assert!(
        lost(&[Client(b"GET / HTTP/1.1\r\n\r\n".to_vec())])
            .contains("before the server's greeting")
    );
    assert!(
        lost(&[Server(b"HTTP/1.1 400 Bad Request\r\n".to_vec())]).contains("greets as no MySQL")
    );
    // The content of the next packet is not this packet's version.
    let empty = [packet(0, b""), vec![10]].concat();
    assert!(lost(&[Server(empty)]).contains("another version"));
    assert!(lost(&mysql(0, vec![Client(packet(0, b"\x12replica"))])).contains("replicates"));
    assert!(
        lost(&mysql(0, vec![Client(packet(3, b"\x03SELECT"))])).contains("number 3, expected 0")
    );
}

fn message(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len() + 4).unwrap().to_be_bytes();
    [&[kind][..], &length, content].concat()
}

fn startup(code: u32, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len() + 8).unwrap().to_be_bytes();
    [&length[..], &code.to_be_bytes(), content].concat()
}

fn postgres(more: Vec<Say>) -> Vec<Say> {
    let mut says = vec![
        Client(startup(80_877_104, b"")),
        Client(startup(80_877_103, b"")),
        Client(startup(3 << 16, b"user\0me\0\0")),
        Server(
            [message(b'R', &[0, 0, 0, 10]), message(b'R', &[0; 4]), message(b'Z', b"I")].concat(),
        ),
    ];
    says.extend(more);
    says
}

#[test]
fn postgres_refuses_tls_and_reads_simple_queries() {
    let one = [
        message(b'T', b"columns"),
        message(b'D', b"row"),
        message(b'C', b"SELECT 1\0"),
        message(b'C', b"SELECT 2\0"),
        message(b'Z', b"I"),
    ]
    .concat();
    let two =
        [message(b'E', b"SERROR\0\0"), message(b'N', b"notice\0\0"), message(b'Z', b"I")].concat();
    let heard = everywhere(
        Dialect::postgres,
        &postgres(vec![
            Client(message(b'Q', b"SELECT 1; SELECT 2\0")),
            Server(one.clone()),
            Client(message(b'Q', b"oops\0")),
            Server(two.clone()),
            Client(message(b'X', b"")),
        ]),
    );
    assert!(heard.to_client.starts_with(b"NNR"));
    let texts: Vec<_> = heard.requests.iter().filter_map(|(_, text)| text.as_deref()).collect();
    assert_eq!((texts, heard.lost), (vec!["SELECT 1; SELECT 2", "oops"], None));
    let first = heard.begins[0];
    assert_eq!(heard.begins, [first, first + one.len()]);
    assert_eq!(heard.ends, [first + one.len(), first + one.len() + two.len()]);
}

#[test]
fn postgres_executes_are_the_requests_of_a_batch() {
    let batch = [
        message(b'P', b"stmt\0INSERT $1\0\0\0"),
        message(b'B', b"\0stmt\0\0\0\0\0"),
        message(b'D', b"P\0"),
        message(b'E', b"\0\0\0\0\0"),
        message(b'B', b"portal\0stmt\0\0\0"),
        message(b'E', b"portal\0\0\0\0\0"),
        message(b'C', b"Pportal\0"),
        message(b'S', b""),
    ]
    .concat();
    let answer = [
        message(b'1', b""),
        message(b'2', b""),
        message(b'n', b""),
        message(b'C', b"INSERT 0 1\0"),
        message(b'2', b""),
        message(b'C', b"INSERT 0 1\0"),
        message(b'3', b""),
        message(b'Z', b"I"),
    ]
    .concat();
    let heard = everywhere(Dialect::postgres, &postgres(vec![Client(batch), Server(answer)]));
    let texts: Vec<_> = heard.requests.iter().map(|(_, text)| text.as_deref()).collect();
    assert_eq!(texts, [Some("INSERT $1"), Some("INSERT $1")]);
    assert_eq!((heard.begins.len(), heard.ends.len(), heard.lost), (2, 2, None));
}

#[test]
fn postgres_after_an_error_the_rest_of_a_batch_is_over_with_it() {
    let execute = message(b'E', b"\0\0\0\0\0");
    let batch = [execute.clone(), execute.clone(), execute, message(b'S', b"")].concat();
    let answer = [message(b'E', b"SERROR\0\0"), message(b'Z', b"I")].concat();
    let heard = everywhere(Dialect::postgres, &postgres(vec![Client(batch), Server(answer)]));
    let end = heard.to_client.len();
    assert_eq!((heard.requests.len(), heard.ends), (3, vec![end - 6; 3]));
}

/// A server reads up to the Sync and answers nothing: a request recorded here would wait for ever.
#[test]
fn postgres_what_a_server_skips_after_an_error_is_no_request() {
    let execute = message(b'E', b"\0\0\0\0\0");
    let error = message(b'E', b"SERROR\0\0");
    let says = postgres(vec![
        Client([message(b'P', b"\0oops\0\0\0"), execute.clone()].concat()),
        Server(error.clone()),
        Client([execute.clone(), message(b'Q', b"skipped\0"), message(b'S', b"")].concat()),
        Server(message(b'Z', b"I")),
        Client([execute, message(b'S', b"")].concat()),
        Server([message(b'C', b"SELECT 1\0"), message(b'Z', b"I")].concat()),
    ]);
    let heard = everywhere(Dialect::postgres, &says);
    let end = heard.to_client.len();
    assert_eq!((heard.requests.len(), heard.lost), (2, None));
    assert_eq!(heard.ends, [end - 6 - 14 - 6, end - 6]);
    assert_eq!(heard.begins.len(), 2);
}

#[test]
fn postgres_copy_passes_and_cancelling_is_no_request() {
    let heard = everywhere(
        Dialect::postgres,
        &postgres(vec![
            Client(message(b'Q', b"COPY t FROM STDIN\0")),
            Server(message(b'G', b"\0\0\0")),
            Client(
                [message(b'd', b"1\tone\n"), message(b'd', b"2\ttwo\n"), message(b'c', b"")]
                    .concat(),
            ),
            Server([message(b'C', b"COPY 2\0"), message(b'Z', b"I")].concat()),
        ]),
    );
    assert_eq!((heard.requests.len(), heard.ends.len(), heard.lost), (1, 1, None));
    assert_eq!(heard.asides, Vec::<usize>::new(), "the data belong to the statement");
    let heard =
        everywhere(Dialect::postgres, &[Client(startup(80_877_102, &[1, 2, 3, 4, 5, 6, 7, 8]))]);
    assert_eq!((heard.requests, heard.lost), (vec![], None));
}

#[test]
fn postgres_what_cannot_be_read_is_said() {
    let lost = |says: &[Say]| everywhere(Dialect::postgres, says).lost.unwrap_or_default();
    assert!(
        lost(&[Client(b"GET / HTTP/1.1\r\n".to_vec())])
            .contains("first packet is not PostgreSQL's")
    );
    assert!(lost(&[Client(b"\x16\x03\x01\x02\x00\x01\x00\x01".to_vec())]).contains("TLS at once"));
    assert!(lost(&postgres(vec![Client(b"HELLO".to_vec())])).contains("'H'"));
    assert!(lost(&postgres(vec![Client(b"zzzzzzz".to_vec())])).contains("'z'"));
    assert!(
        lost(&postgres(vec![Server(b"Zzzzzzz".to_vec())])).contains("the server's message 'Z'")
    );
}

/// A client that prepares and asks for ever, and a server that never answers.
#[test]
fn what_is_kept_of_a_connection_is_bounded() {
    let mut server = mysql(0, vec![]);
    server.extend((0..2000u32).flat_map(|n| {
        let number = [&[0][..], &n.to_le_bytes(), &[0; 7]].concat();
        [Client(packet(0, b"\x16SELECT ?")), Server(packet(1, &number))]
    }));
    let prepares = |n: u32| message(b'P', format!("{n}\0SELECT 1\0\0\0").as_bytes());
    let binds = |n: u32| message(b'B', format!("{n}\0{n}\0\0\0\0\0\0\0").as_bytes());
    let unanswered = mysql(0, (0..2000).map(|_| query("SELECT 1")).collect());
    let all =
        (0..70_000).map(|n| Client([prepares(n), binds(n), message(b'E', b"\0\0\0\0\0")].concat()));
    for (protocol, most, says) in [
        // One more for the command that is not answered yet.
        (Dialect::mysql as fn() -> Dialect, 1024 + 1, server),
        (Dialect::mysql, 1024, unanswered),
        (Dialect::postgres, KEPT, postgres(all.collect())),
    ] {
        let mut ear = Ear::new(protocol);
        let mut kept = 0;
        for say in says {
            ear.hear(&say, usize::MAX);
            kept = kept.max(ear.dialect.kept());
        }
        assert_eq!(kept, most);
    }
}

#[test]
fn http_requests_with_and_without_bodies() {
    let says = [
        Client(
            b"GET /a HTTP/1.1\r\nHost: x\r\n\r\nPOST /b HTTP/1.1\r\nContent-Length: 5\r\n\r\nGET /".to_vec(),
        ),
        Client(
            b"PUT /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nT: 1\r\n\r\n"
                .to_vec(),
        ),
        Server(b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()),
        Client(b"HEAD /d HTTP/1.1\r\n\r\n".to_vec()),
    ];
    let heard = everywhere(Dialect::http, &says);
    let texts: Vec<_> = heard.requests.iter().filter_map(|(_, text)| text.as_deref()).collect();
    assert_eq!((texts, heard.lost), (vec!["GET /a", "POST /b", "PUT /c", "HEAD /d"], None));
    let lost = everywhere(Dialect::http, &[Client(b"\x16\x03\x01".to_vec())]).lost;
    assert!(lost.is_some_and(|why| why.contains("speaks no HTTP/1")));
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n")
}

/// Each answer begins and ends with its own bytes, although all arrived at once.
#[test]
fn http_answers_to_pipelined_requests() {
    let answers = [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x\r\nsec\r\n3\r\nond\r\n0\r\nT: \
         1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\nContent-Length: 70\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    ];
    let asked = [
        get("/1"),
        get("/2"),
        "HEAD /3 HTTP/1.1\r\n\r\n".to_owned(),
        get("/4"),
        get("/5"),
        get("/6"),
    ];
    let heard = everywhere(
        Dialect::http,
        &[Client(asked.concat().into_bytes()), Server(answers.concat().into_bytes())],
    );
    let ends: Vec<usize> =
        (1..=answers.len()).map(|count| answers[..count].concat().len()).collect();
    assert_eq!((heard.requests.len(), heard.lost), (answers.len(), None));
    assert_eq!(heard.begins[1..], ends[..ends.len() - 1]);
    assert_eq!((heard.begins[0], heard.ends), (0, ends));
}

#[test]
fn http_answers_that_end_with_the_connection() {
    for (asked, answer, ended) in [
        (get("/"), "HTTP/1.0 200 OK\r\n\r\nto the end", 1),
        (get("/"), "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nnot the end", 0),
        (get("/"), "HTTP/1.1 204 No Content\r\n\r\n", 0),
    ] {
        let mut dialect = Dialect::http();
        assert!(matches!(dialect.up(asked.as_bytes()), Up::Request(..)));
        assert!(matches!(
            dialect.down(&mut answer.as_bytes().to_vec()),
            Down::Pass { begins: true, .. }
        ));
        assert_eq!(dialect.server_ended(), ended, "{answer:?}");
    }
}

#[test]
fn http_an_upgrade_is_one_only_if_the_server_says_so() {
    let asked = "GET /ws HTTP/1.1\r\nUpgrade: websocket\r\n\r\n";
    let switched = [
        Client(asked.into()),
        Server("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n\x01\x02".into()),
        Client("\x03\x04GET".into()),
        Server("\x05".into()),
    ];
    let heard = everywhere(Dialect::http, &switched);
    assert_eq!(
        (heard.requests.len(), heard.begins, heard.ends, heard.lost),
        (1, vec![0], vec![], None)
    );
    let connect = [
        Client("CONNECT a:443 HTTP/1.1\r\n\r\n".into()),
        Server("HTTP/1.1 200 OK\r\n\r\n".into()),
        Client("\x16\x03\x01".into()),
        Server("\x16\x03\x01".into()),
    ];
    let heard = everywhere(Dialect::http, &connect);
    assert_eq!((heard.requests.len(), heard.ends, heard.lost), (1, vec![], None));
    let refused = [
        Client(asked.into()),
        Server("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno".into()),
        Client(get("/next").into()),
        Server("HTTP/1.1 204 No Content\r\n\r\n".into()),
    ];
    let heard = everywhere(Dialect::http, &refused);
    assert_eq!((heard.requests.len(), heard.begins.len(), heard.ends.len()), (2, 2, 2));
}

#[test]
fn http_what_cannot_be_read_is_said() {
    let lost = |answer: &str| {
        let says = [Client(get("/").into()), Server(answer.into())];
        everywhere(Dialect::http, &says).lost.unwrap_or_default()
    };
    assert!(lost("220 mail.example ESMTP\r\n").contains("answers with not an HTTP/1 response"));
    assert!(
        lost("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n")
            .contains("not clear")
    );
    assert!(
        lost("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nno\r\n")
            .contains("chunks that are none")
    );
    let asked = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nno\r\n";
    let lost = everywhere(Dialect::http, &[Client(asked.into())]).lost.unwrap_or_default();
    assert!(lost.contains("the client sends chunks that are none"), "{lost}");
}

#[test]
fn turns_are_told_by_who_speaks() {
    let says = [
        Server(b"220 hello\r\n".to_vec()),
        Client(b"one".to_vec()),
        Client(b" and the rest".to_vec()),
        Server(b"two".to_vec()),
        Client(b"three".to_vec()),
    ];
    let heard = everywhere(turns, &says);
    assert_eq!(heard.requests, [(0, None), (16, None)]);
    assert_eq!(heard.begins, [11]);
}

proptest::proptest! {
    #[test]
    fn no_bytes_break_a_reader(
        says in proptest::collection::vec((proptest::bool::ANY,
        proptest::collection::vec(proptest::num::u8::ANY, 0..40)), 0..12),
        login in proptest::bool::ANY,
    ) {
        for (protocol, begin) in [
            (Dialect::mysql as fn() -> Dialect, mysql(0, vec![])),
            (Dialect::postgres, postgres(vec![])),
            (Dialect::http, vec![]),
            (turns, vec![]),
        ] {
            let mut ear = Ear::new(protocol);
            for say in begin.iter().filter(|_| login) {
                ear.hear(say, usize::MAX);
            }
            for (client, bytes) in &says {
                ear.hear(&if *client { Client(bytes.clone()) } else { Server(bytes.clone()) },
                    usize::MAX);
            }
            proptest::prop_assert!(ear.heard.ends.len() <= ear.heard.requests.len());
        }
    }
}
