//! Sessions against a client of rustls, over a socket in memory that takes and gives few bytes.

use std::{
    cell::{Cell, RefCell},
    io::{self, IoSlice, Read, Write},
    sync::Arc,
};

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use proptest::prelude::*;
use rustls::{
    ClientConfig, ClientConnection, ConnectionTrafficSecrets, RootCertStore, pki_types::ServerName,
};

use super::{Configs, Session, Transport};
use crate::settings::{Certificate, HttpsSettings, Settings, TlsVersion};

/// A socket that takes so many bytes for each call, and none for every third.
struct Socket {
    from_client: RefCell<Vec<u8>>,
    to_client: RefCell<Vec<u8>>,
    takes: usize,
    gives: usize,
    calls: Cell<usize>,
}

impl Transport for Socket {
    fn receive(&self, into: &mut Vec<u8>) -> io::Result<usize> {
        let mut from = self.from_client.borrow_mut();
        let given = from.len().min(self.gives);
        if given == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        into.extend(from.drain(..given));
        Ok(given)
    }

    fn is_ready(&self) -> bool {
        !self.from_client.borrow().is_empty()
    }

    fn send(&self, bytes: &[u8], _more: bool) -> io::Result<usize> {
        self.calls.set(self.calls.get() + 1);
        if self.calls.get().is_multiple_of(3) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let taken = bytes.len().min(self.takes);
        self.to_client.borrow_mut().extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }
}

/// A server and a client that have shaken hands.
struct Pair {
    session: Session,
    socket: Socket,
    client: ClientConnection,
}

fn settings(certificate: Arc<Certificate>, http2: bool) -> HttpsSettings {
    HttpsSettings {
        http2,
        http3: false,
        listen: Vec::new(),
        certificates: vec![certificate],
        ordered: Vec::new(),
        acme: None,
        min_version: TlsVersion::Tls12,
        ticket_keys: Vec::new(),
        redirect: false,
        hsts: None,
    }
}

/// The configurations of a server without sites.
fn configs(https: HttpsSettings) -> Arc<Configs> {
    let settings = Settings { https: Some(https), ..Settings::empty() };
    let configs = Configs::new(&Arc::new(settings), &Arc::default()).expect("a configuration");
    configs.expect("HTTPS")
}

impl Pair {
    fn new(takes: usize, gives: usize) -> Pair {
        let certificate = Arc::new(Certificate::self_signed().expect("a certificate"));
        let mut roots = RootCertStore::empty();
        roots.add(certificate.key.cert[0].clone()).expect("a root");
        let https = settings(certificate, false);
        let config = ClientConfig::builder_with_provider(
            rustls::crypto::aws_lc_rs::default_provider().into(),
        );
        let config = config.with_safe_default_protocol_versions().expect("versions");
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.enable_secret_extraction = true;
        let name = ServerName::try_from("localhost").expect("a name");
        let mut pair = Pair {
            session: Session::new(&configs(https)).expect("a session"),
            socket: Socket {
                from_client: RefCell::default(),
                to_client: RefCell::default(),
                takes,
                gives,
                calls: Cell::default(),
            },
            client: ClientConnection::new(Arc::new(config), name).expect("a client"),
        };
        while pair.client.is_handshaking() {
            let mut early = Vec::new();
            pair.exchange();
            match pair.session.read(&pair.socket, &mut early) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => panic!("{read:?} in a handshake"),
            }
            // A flush that the socket refused is tried again with the next bytes.
            let _ = pair.session.send(&pair.socket, &[], false);
        }
        pair.exchange();
        pair
    }

    /// The client takes and sends all it can.
    fn exchange(&mut self) {
        self.heard(&mut Vec::new());
    }

    /// The same; appends what the client received.
    fn heard(&mut self, into: &mut Vec<u8>) {
        let received = std::mem::take(&mut *self.socket.to_client.borrow_mut());
        let (mut received, mut piece) = (&received[..], [0; 65_536]);
        while !received.is_empty() {
            self.client.read_tls(&mut received).expect("read");
            self.client.process_new_packets().expect("records");
            while let Ok(read @ 1..) = self.client.reader().read(&mut piece) {
                into.extend_from_slice(&piece[..read]);
            }
        }
        self.client.write_tls(&mut *self.socket.from_client.borrow_mut()).expect("written");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_byte_arrives_and_counts_only_when_it_has_left(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40_000), 1..6),
        takes in prop_oneof![1..200_usize, 1_000..100_000_usize],
    ) {
        let mut pair = Pair::new(takes, usize::MAX);
        let all = pieces.concat();
        let (mut sent, mut heard) = (0, Vec::new());
        while sent < all.len() {
            let mut slices: Vec<_> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
            let mut left = &mut slices[..];
            IoSlice::advance_slices(&mut left, sent);
            match pair.session.send(&pair.socket, left, false) {
                Ok(more) => {
                    prop_assert!(more > 0);
                    sent += more;
                }
                Err(error) => prop_assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
            pair.heard(&mut heard);
            prop_assert!(heard.len() >= sent, "{} of {sent} bytes", heard.len());
        }
        prop_assert!(heard == all);
    }

    #[test]
    fn every_byte_is_received_in_whatever_pieces(
        all in prop::collection::vec(any::<u8>(), 1..60_000),
        gives in prop_oneof![1..50_usize, 1_000..80_000_usize],
    ) {
        let mut pair = Pair::new(usize::MAX, gives);
        let mut heard = Vec::new();
        for piece in all.chunks(20_000) {
            pair.client.writer().write_all(piece).expect("written");
            while pair.client.wants_write() {
                pair.exchange();
            }
            while pair.socket.is_ready() {
                match pair.session.read(&pair.socket, &mut heard) {
                    Ok(read) => prop_assert!(read > 0),
                    Err(error) => prop_assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
                }
            }
        }
        prop_assert!(heard == all);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 500,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_records_of_a_client_cause_a_panic(
        records in prop::collection::vec(
            (
                prop_oneof![Just(20_u8), Just(21), Just(22), Just(22), Just(23), Just(24)],
                prop_oneof![
                    prop::collection::vec(any::<u8>(), 0..40),
                    Just(vec![24, 0, 0]),
                    Just(vec![24, 0, 0, 1, 1]),
                    Just(vec![1]),
                ],
                any::<bool>(),
                any::<bool>(),
            ),
            1..12,
        ),
        takes in prop_oneof![1..60_usize, Just(usize::MAX)],
    ) {
        let Pair { mut session, socket, client } = Pair::new(takes, usize::MAX);
        let mut forged = Forged::of(client);
        for (kind, content, plain, answers) in records {
            let record = if plain {
                [&[kind, 3, 3, 0, content.len() as u8], &content[..]].concat()
            } else {
                forged.record(&content, kind)
            };
            socket.from_client.borrow_mut().extend_from_slice(&record);
            let _ = session.read(&socket, &mut Vec::new());
            if answers {
                let _ = session.send(&socket, &[IoSlice::new(b"answer")], false);
            }
        }
        session.close(&socket);
    }
}

#[test]
fn a_record_that_was_changed_ends_the_connection_with_an_alert() {
    let mut pair = Pair::new(usize::MAX, usize::MAX);
    pair.client.writer().write_all(b"hello").expect("written");
    pair.exchange();
    if let Some(last) = pair.socket.from_client.borrow_mut().last_mut() {
        *last ^= 1;
    }
    let failed = pair.session.read(&pair.socket, &mut Vec::new()).expect_err("not decrypted");
    assert_eq!(failed.kind(), io::ErrorKind::InvalidData);
    // The socket may have refused it at first.
    let _ = pair.session.send(&pair.socket, &[], false);
    let received = pair.socket.to_client.borrow().clone();
    pair.client.read_tls(&mut &received[..]).expect("read");
    let told = pair.client.process_new_packets().expect_err("an alert").to_string();
    assert!(told.contains("BadRecordMac"), "{told}");
}

#[test]
fn a_session_at_rest_keeps_no_buffers() {
    let mut pair = Pair::new(usize::MAX, usize::MAX);
    pair.client.writer().write_all(&[7; 50_000]).expect("written");
    while pair.client.wants_write() {
        pair.exchange();
    }
    let mut heard = Vec::new();
    while pair.socket.is_ready() {
        let _ = pair.session.read(&pair.socket, &mut heard);
    }
    let mut sent = 0;
    while sent < heard.len() {
        sent +=
            pair.session.send(&pair.socket, &[IoSlice::new(&heard[sent..])], false).unwrap_or(0);
    }
    assert_eq!(pair.session.memory(), 0);
}

/// A record of a handshake message as the client would send it next (TLS 1.3, RFC 8446 section
/// 5.2).
struct Forged {
    key: LessSafeKey,
    iv: Vec<u8>,
    next: u64,
}

impl Forged {
    fn of(client: ClientConnection) -> Forged {
        let secrets = client.dangerous_extract_secrets().expect("secrets");
        let (next, ConnectionTrafficSecrets::Aes128Gcm { key, iv }) = secrets.tx else {
            panic!("another cipher");
        };
        let key = UnboundKey::new(&AES_128_GCM, key.as_ref()).expect("a key");
        Forged { key: LessSafeKey::new(key), iv: iv.as_ref().to_vec(), next }
    }

    fn record(&mut self, content: &[u8], kind: u8) -> Vec<u8> {
        let mut sealed = [content, &[kind]].concat();
        let length = u16::try_from(sealed.len() + 16).expect("short").to_be_bytes();
        let head = [23, 3, 3, length[0], length[1]];
        let mut nonce: [u8; 12] = self.iv[..].try_into().expect("12 bytes");
        for (byte, number) in nonce[4..].iter_mut().zip(self.next.to_be_bytes()) {
            *byte ^= number;
        }
        self.next += 1;
        let nonce = Nonce::assume_unique_for_key(nonce);
        self.key.seal_in_place_append_tag(nonce, Aad::from(head), &mut sealed).expect("sealed");
        [&head[..], &sealed].concat()
    }
}

#[test]
fn a_part_of_a_handshake_message_waits_for_its_rest_whatever_is_sent_meanwhile() {
    let Pair { mut session, socket, client } = Pair::new(usize::MAX, usize::MAX);
    let mut forged = Forged::of(client);
    let receive = |session: &mut Session, bytes: &[u8]| {
        socket.from_client.borrow_mut().extend_from_slice(bytes);
        let mut heard = Vec::new();
        session.read(&socket, &mut heard).map(|_| heard)
    };
    let waits = |heard: io::Result<Vec<u8>>| {
        assert_eq!(heard.expect_err("nothing").kind(), io::ErrorKind::WouldBlock);
    };
    let answer = |session: &mut Session| {
        for _ in 0..3 {
            let _ = session.send(&socket, &[IoSlice::new(b"answer")], false);
        }
    };
    assert_eq!(receive(&mut session, &forged.record(b"hello", 23)).expect("data"), b"hello");
    // Three bytes of a KeyUpdate, and later the rest of it.
    waits(receive(&mut session, &forged.record(&[24, 0, 0], 22)));
    answer(&mut session);
    waits(receive(&mut session, &forged.record(&[1], 22)));
    answer(&mut session);
    session.close(&socket);
}

#[test]
fn data_within_a_handshake_message_is_refused_without_a_panic() {
    for (inside, kind) in [(&b"hello"[..], 23), (&[1, 0], 21)] {
        let Pair { mut session, socket, client } = Pair::new(usize::MAX, usize::MAX);
        let mut forged = Forged::of(client);
        let records = [forged.record(&[24, 0, 0], 22), forged.record(inside, kind)].concat();
        socket.from_client.borrow_mut().extend_from_slice(&records);
        let _ = session.read(&socket, &mut Vec::new());
        for _ in 0..3 {
            let _ = session.send(&socket, &[IoSlice::new(b"answer")], false);
        }
        session.close(&socket);
    }
}

#[test]
fn a_broken_hello_in_two_records_is_refused() {
    let certificate = Arc::new(Certificate::self_signed().expect("a certificate"));
    let https = settings(certificate, true);
    let config = configs(https);
    let begun = [22, 3, 1, 0, 5, 1, 0, 1, 0, 3];
    let seconds: [&[u8]; 5] = [
        &[21, 3, 1, 0, 2, 1, 0],
        &[23, 3, 1, 0, 1, 0],
        &[20, 3, 1, 0, 1, 1],
        &[22, 9, 9, 0, 1, 0],
        &[22, 3, 1, 0xff, 0xff, 0],
    ];
    for second in seconds {
        let mut session = Session::new(&config).expect("a session");
        let socket = Socket {
            from_client: RefCell::new([&begun, second].concat()),
            to_client: RefCell::default(),
            takes: usize::MAX,
            gives: usize::MAX,
            calls: Cell::new(0),
        };
        let read = session.read(&socket, &mut Vec::new());
        assert_eq!(read.expect_err("refused").kind(), io::ErrorKind::InvalidData, "{second:?}");
        assert!(
            matches!(socket.to_client.borrow().first(), None | Some(21)),
            "no more than an alert"
        );
        assert!(session.send(&socket, &[IoSlice::new(b"answer")], false).is_err());
        session.close(&socket);
    }
}
