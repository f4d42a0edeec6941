//! Who may ask, and over what: logins of text and binary clients, UDP.

// A test reports by panicking.
#![allow(clippy::unwrap_used)]

use larder_tests::helper::free_port;
use larder_tests::memcache::Memcached;
use larder_tests::{PATIENCE, Scratch};
use std::net::UdpSocket;

#[test]
fn a_text_login() {
    let scratch = Scratch::new("users");
    let users = scratch.write("users", "ann:secret\nbob:with:colon\n");
    let larder = Memcached::larder(&["-Y", users.to_str().unwrap()]);
    let refused = "CLIENT_ERROR unauthenticated\r\n";
    let mut talk = larder.connect();
    talk.expect("get k\r\n", refused).expect("version\r\n", refused);
    talk.expect("set x 0 0 9\r\nann wrong\r\n", "CLIENT_ERROR authentication failure\r\n");
    talk.expect("get k\r\n", refused);
    talk.expect("set x 0 0 10\r\nann secret\r\n", "STORED\r\n");
    talk.expect("get x\r\n", "END\r\n");
    talk.expect("set k 0 0 1\r\nv\r\nget k\r\n", "STORED\r\nVALUE k 0 1\r\nv\r\nEND\r\n");
    larder.connect().expect(
        "set x 0 0 14\r\nbob with:colon\r\nget k\r\n",
        "STORED\r\nVALUE k 0 1\r\nv\r\nEND\r\n",
    );
    larder.connect().expect("get k\r\n", refused);
    assert_eq!(
        (talk.stat("auth_cmds"), talk.stat("auth_errors")),
        ("3".to_owned(), "1".to_owned())
    );
}

fn packet(magic: u8, opcode: u8, status: u16, key: &[u8], body: &[u8]) -> Vec<u8> {
    let mut packet = vec![magic, opcode];
    packet.extend((key.len() as u16).to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(status.to_be_bytes());
    packet.extend(((key.len() + body.len()) as u32).to_be_bytes());
    packet.extend([7; 4]);
    packet.extend([0; 8]);
    packet.extend(key);
    packet.extend(body);
    packet
}

fn request(opcode: u8, key: &[u8], body: &[u8]) -> Vec<u8> {
    packet(0x80, opcode, 0, key, body)
}

#[test]
fn a_sasl_login() {
    let scratch = Scratch::new("users");
    let larder = Memcached::larder_with_sasl(&scratch.write("users", "ann:secret\n"));
    let failure = |opcode| packet(0x81, opcode, 0x20, b"", b"Auth failure.");
    let mut talk = larder.connect();
    let mut ask = |request: Vec<u8>, answer: Vec<u8>| {
        let got = talk.send(&request).take(answer.len());
        assert_eq!(got.escape_ascii().to_string(), answer.escape_ascii().to_string());
    };
    ask(request(0x0b, b"", b""), packet(0x81, 0x0b, 0, b"", b"1.6.18"));
    ask(request(0x20, b"", b""), packet(0x81, 0x20, 0, b"", b"PLAIN"));
    ask(request(0x21, b"PLAIN", b"\0ann\0wrong"), failure(0x21));
    ask(request(0x21, b"CRAM-MD5", b""), failure(0x21));
    ask(request(0x22, b"PLAIN", b"\0ann\0secret"), failure(0x22));
    ask(request(0x21, b"PLAIN", b""), packet(0x81, 0x21, 0x21, b"", b""));
    ask(request(0x22, b"PLAIN", b"\0ann\0secret"), packet(0x81, 0x22, 0, b"", b"Authenticated"));
    ask(request(0x0a, b"", b""), packet(0x81, 0x0a, 0, b"", b""));
    ask(request(0x00, b"k", b""), packet(0x81, 0x00, 1, b"", b"Not found"));
    // Who then tries to be somebody else, and is not, is nobody.
    ask(request(0x21, b"PLAIN", b"\0bob\0guess"), failure(0x21));
    ask(request(0x00, b"k", b""), failure(0x00));
    for opcode in [0x00, 0x01, 0x0a, 0x10, 0x17, 0x50] {
        let mut stranger = larder.connect();
        assert_eq!(stranger.send(request(opcode, b"", b"")).rest(), failure(opcode), "{opcode:#x}");
    }
    // Text clients have no way to log in.
    assert_eq!(larder.connect().send("get k\r\nversion\r\nversion\r\n").rest(), b"");
}

/// Without SASL its opcodes are unknown ones.
#[test]
fn no_sasl() {
    let larder = Memcached::larder(&[]);
    let mut talk = larder.connect();
    for (opcode, key, body) in
        [(0x20, &b""[..], &b""[..]), (0x21, b"PLAIN", b"\0a\0b"), (0x22, b"PLAIN", b"x")]
    {
        let answer = packet(0x81, opcode, 0x81, b"", b"Unknown command");
        assert_eq!(talk.send(request(opcode, key, body)).take(answer.len()), answer);
    }
    let noop = packet(0x81, 0x0a, 0, b"", b"");
    assert_eq!(
        talk.send(request(0x0a, b"", b"")).take(noop.len()),
        noop,
        "and the connection goes on"
    );
}

/// What memcached 1.6.18 reads as the next command is refused: nobody's value becomes a command.
#[test]
fn bytes_behind_a_touch_are_no_command() {
    let larder = Memcached::larder(&[]);
    let hidden = request(0x08, b"", b"");
    let mut touch = request(0x1c, b"", &[&[0, 0, 0, 0, b'k'][..], &hidden].concat());
    (touch[3], touch[4]) = (1, 4);
    let answer = larder.connect().send(touch).rest();
    assert_eq!(answer, packet(0x81, 0x1c, 4, b"", b"Invalid arguments"));
    assert_eq!(larder.connect().stat("cmd_flush"), "0");
}

/// A client over UDP.
struct Datagrams {
    socket: UdpSocket,
}

impl Datagrams {
    fn connect(port: u16) -> Datagrams {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(("127.0.0.1", port)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Datagrams { socket }
    }

    fn send(&self, id: u16, total: u16, commands: &[u8]) {
        let frame = [id, 0, total, 0].map(u16::to_be_bytes).concat();
        self.socket.send(&[&frame, commands].concat()).unwrap();
    }

    /// One whole answer: which request it is for, how many datagrams it took, and its bytes.
    fn receive(&self) -> (u16, u16, Vec<u8>) {
        let mut parts: Vec<Vec<u8>> = Vec::new();
        loop {
            let mut datagram = vec![0; 65536];
            let len = self.socket.recv(&mut datagram).unwrap();
            assert!(len <= 1400, "a datagram of {len} bytes");
            let field = |at: usize| u16::from_be_bytes([datagram[at], datagram[at + 1]]);
            let (id, sequence, total, reserved) = (field(0), field(2), field(4), field(6));
            assert_eq!((usize::from(sequence), reserved), (parts.len(), 0));
            parts.push(datagram[8..len].to_vec());
            if parts.len() == usize::from(total) {
                return (id, total, parts.concat());
            }
        }
    }

    fn ask(&self, id: u16, commands: &[u8]) -> (u16, String) {
        self.send(id, 1, commands);
        let (of, total, answer) = self.receive();
        assert_eq!(of, id);
        (total, String::from_utf8_lossy(&answer).into_owned())
    }
}

#[test]
fn udp() {
    let port = free_port();
    let larder = Memcached::larder(&["-A", "-U", &port.to_string()]);
    let udp = Datagrams::connect(port);
    assert_eq!(udp.ask(1, b"set k 7 0 5\r\nvalue\r\n"), (1, "STORED\r\n".to_owned()));
    assert_eq!(udp.ask(0xfffe, b"get k\r\n"), (1, "VALUE k 7 5\r\nvalue\r\nEND\r\n".to_owned()));
    larder.connect().expect("get k\r\n", "VALUE k 7 5\r\nvalue\r\nEND\r\n");
    // All answers to a datagram are one message.
    assert_eq!(
        udp.ask(2, b"get a\r\nmn\r\nversion\r\n"),
        (1, "END\r\nMN\r\nVERSION 1.6.18\r\n".to_owned())
    );
    // A request in parts, and what wants no answer, get none: the next answer is that of the next
    // request.
    udp.send(3, 2, b"get k\r\n");
    udp.send(4, 1, b"set quiet 0 0 1 noreply\r\nx\r\n");
    udp.send(5, 1, b"get k");
    assert_eq!(udp.ask(6, b"get quiet\r\n"), (1, "VALUE quiet 0 1\r\nx\r\nEND\r\n".to_owned()));
    // Anybody can send a datagram in another's name: it does not end the server, `-A` or not.
    assert_eq!(udp.ask(8, b"shutdown\r\n"), (1, "ERROR: shutdown not enabled\r\n".to_owned()));
    // Binary too.
    udp.send(7, 1, &request(0x0a, b"", b""));
    assert_eq!(udp.receive(), (7, 1, packet(0x81, 0x0a, 0, b"", b"")));
}

#[test]
fn long_answers_over_udp() {
    let port = free_port();
    let larder = Memcached::larder(&["-U", &port.to_string(), "-I", "4m"]);
    let udp = Datagrams::connect(port);
    let value = "v".repeat(20_000);
    let stored = format!("VALUE k 0 20000\r\n{value}\r\n");
    larder.connect().expect(format!("set k 0 0 20000\r\n{value}\r\n"), "STORED\r\n");
    assert_eq!(udp.ask(1, b"get k\r\n"), (15, format!("{stored}END\r\n")));
    assert_eq!(udp.ask(2, b"get k k\r\n"), (29, format!("{stored}{stored}END\r\n")));
    // Beyond an item of the usual largest size nothing is sent but a refusal: senders of datagrams
    // can lie.
    let large = "v".repeat(2 << 20);
    larder.connect().expect(format!("set large 0 0 {}\r\n{large}\r\n", large.len()), "STORED\r\n");
    let refused = (1, "SERVER_ERROR response too large for UDP\r\n".to_owned());
    assert_eq!(udp.ask(3, b"get large\r\n"), refused);
    assert_eq!(udp.ask(4, "get k\r\n".repeat(60).as_bytes()), refused);
    assert_eq!(udp.ask(5, b"mn\r\n"), (1, "MN\r\n".to_owned()));
}
