//! Sessions against a client of rustls, over a socket in memory that takes and gives few bytes.

use std::{
    cell::{Cell, RefCell},
    io::{self, IoSlice, Read, Write},
    sync::Arc,
};

use proptest::prelude::*;
use rustls::{ClientConfig, ClientConnection, RootCertStore, pki_types::ServerName};

use super::{Session, Transport, server_config};
use crate::settings::{Certificate, HttpsSettings, TlsVersion};

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

impl Pair {
    fn new(takes: usize, gives: usize) -> Pair {
        let certificate = Arc::new(Certificate::self_signed().expect("a certificate"));
        let mut roots = RootCertStore::empty();
        roots.add(certificate.key.cert[0].clone()).expect("a root");
        let https = HttpsSettings {
            http2: false,
            listen: Vec::new(),
            certificates: vec![certificate],
            min_version: TlsVersion::Tls12,
            redirect: false,
            hsts: None,
        };
        let config =
            ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into());
        let config = config.with_safe_default_protocol_versions().expect("versions");
        let config = config.with_root_certificates(roots).with_no_client_auth();
        let name = ServerName::try_from("localhost").expect("a name");
        let mut pair = Pair {
            session: Session::new(&server_config(&https).expect("a configuration"))
                .expect("a session"),
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
    assert_eq!(pair.session.kept(), 0);
}
