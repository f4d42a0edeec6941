//! One connection's TLS state.

use std::{
    io::{self, IoSlice},
    os::fd::OwnedFd,
    sync::Arc,
};

use larder_proto::client_hello::{self, Peeked};
use rustls::{
    HandshakeKind,
    server::UnbufferedServerConnection,
    unbuffered::{ConnectionState, UnbufferedStatus},
};

use super::{
    client::Client,
    config::{ACME_TLS, Configs, H2},
    facts::{Handshake, Negotiated},
    records::{RECORD, Rest, encode, invalid, speaks_plainly},
    scratch::{self, RECEIVED, Scratch},
};
use crate::settings::ClientAuth;

/// Records sealed for one write. Larger writes leave the near caches before the system copies them.
const RECORDS: usize = 4;
/// Bytes of a message of the handshake that is not whole: clients' are far shorter.
const PARTIAL: usize = 2 * RECORD;
/// Sealed bytes that may wait for a client that makes us answer and does not read: alerts, answers
/// to its key updates.
const BACKLOG: usize = 128 * 1024;

/// The socket below a session.
pub(crate) trait Transport {
    /// Appends what can be received, within the room there is; 0 is the end.
    fn receive(&self, into: &mut Vec<u8>) -> io::Result<usize>;

    /// Whether it is worth a try.
    fn is_ready(&self) -> bool;

    /// Sends. `more`: something follows at once.
    fn send(&self, bytes: &[u8], more: bool) -> io::Result<usize>;
}

/// The state of one connection.
pub(crate) struct Session {
    tls: UnbufferedServerConnection,
    /// The others; None: the right one is found.
    configs: Option<Arc<Configs>>,
    /// How the client is asked for a certificate, if it is.
    auth: Option<Arc<ClientAuth>>,
    /// Received bytes of records, or of handshake messages in several records, that are not whole.
    /// `tls` remembers places in them: each call of it gets them.
    partial: Vec<u8>,
    /// Decrypted bytes that were received by a look ([`Session::peek`]).
    plain: Vec<u8>,
    /// Records that the socket did not take yet.
    sealed: Vec<u8>,
    /// Plain bytes in `sealed` that are not reported as sent.
    unreported: usize,
    state: State,
    /// The end of the handshake was reported.
    told: bool,
    /// The end of what we send is announced, or is not to be.
    closed: bool,
}

/// Most records up to an alert: the hello in one or two, a change of the cipher, the alert.
const ALERT_STEPS: usize = 4;
/// Types of the records that may stand before an alert: a change of the cipher, and a handshake
/// that is not encrypted (RFC 8446 section 5.1).
const BEFORE_ALERTS: [u8; 2] = [20, 22];

/// The phases of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// No byte was received, and it may be one of HTTP without TLS.
    New,
    Handshaking,
    Open,
    /// The client sends nothing more.
    PeerClosed,
    /// The client speaks no TLS: bytes pass as they are.
    Plain,
    /// A record was wrong: only what is sealed is sent.
    Failed,
}

impl Session {
    pub(crate) fn new(configs: &Arc<Configs>) -> Result<Self, rustls::Error> {
        Ok(Self {
            tls: UnbufferedServerConnection::new(configs.first().clone())?,
            configs: configs.differ().then(|| configs.clone()),
            auth: None,
            partial: Vec::new(),
            plain: Vec::new(),
            sealed: Vec::new(),
            unreported: 0,
            state: if configs.answers_plainly() { State::New } else { State::Handshaking },
            told: false,
            closed: false,
        })
    }

    /// The handshake, if it has ended since the last call.
    pub(crate) fn take_handshake(&mut self) -> Option<Handshake> {
        let ended = !self.told && !self.tls.is_handshaking();
        self.told |= ended;
        ended.then(|| Handshake {
            negotiated: self.negotiated(),
            h2: self.tls.alpn_protocol() == Some(H2),
            challenge: self.tls.alpn_protocol() == Some(ACME_TLS),
            client: self.auth.take().map(|auth| Client::new(&auth, self.tls.peer_certificates())),
        })
    }

    fn negotiated(&self) -> Option<Negotiated> {
        let resumed = self.tls.handshake_kind() == Some(HandshakeKind::Resumed);
        let suite = self.tls.negotiated_cipher_suite()?.suite();
        Some(Negotiated::new(self.tls.protocol_version()?, suite, resumed))
    }

    /// The handshake has not ended.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking() && self.state != State::Plain
    }

    /// The client has spoken, and not TLS. Its bytes are received as they are, and it is answered
    /// so.
    pub(crate) fn is_plain(&self) -> bool {
        self.state == State::Plain
    }

    /// Bytes of its buffers.
    pub(crate) fn memory(&self) -> usize {
        self.partial.capacity() + self.plain.capacity() + self.sealed.capacity()
    }

    /// A read has something to say, whatever the socket has: decrypted bytes, or the end.
    pub(crate) fn is_ready(&self) -> bool {
        !self.plain.is_empty() || self.state == State::PeerClosed
    }

    /// Appends decrypted bytes to `buf`; 0 is the end. More than its room may come: what was
    /// received is decrypted.
    pub(crate) fn read(&mut self, socket: &impl Transport, buf: &mut Vec<u8>) -> io::Result<usize> {
        if !self.plain.is_empty() {
            let plain = std::mem::take(&mut self.plain);
            buf.extend_from_slice(&plain);
            return Ok(plain.len());
        }
        match self.state {
            State::Plain => {
                // Without room the answer would look like the end.
                buf.reserve(1);
                socket.receive(buf)
            }
            State::PeerClosed => Ok(0),
            State::Failed => Err(io::ErrorKind::InvalidData.into()),
            _ => scratch::with(|scratch| self.read_records(socket, scratch, buf)),
        }
    }

    /// Fills `buf`. Further decrypted bytes are kept for the next read.
    pub(crate) fn read_some(
        &mut self,
        socket: &impl Transport,
        buf: &mut [u8],
    ) -> io::Result<usize> {
        self.peek(socket)?;
        let taken = self.plain.len().min(buf.len());
        buf[..taken].copy_from_slice(&self.plain[..taken]);
        self.plain.drain(..taken);
        if self.plain.is_empty() {
            self.plain = Vec::new();
        }
        Ok(taken)
    }

    /// Decrypts ahead of the next read. False: nothing more comes.
    pub(crate) fn peek(&mut self, socket: &impl Transport) -> io::Result<bool> {
        if self.plain.is_empty() {
            let mut plain = Vec::new();
            let read = self.read(socket, &mut plain);
            self.plain = plain;
            return read.map(|read| read > 0);
        }
        Ok(true)
    }

    fn read_records(
        &mut self,
        socket: &impl Transport,
        scratch: &mut Scratch,
        buf: &mut Vec<u8>,
    ) -> io::Result<usize> {
        let before = buf.len();
        while socket.is_ready() {
            let received = &mut scratch.received;
            received.clear();
            received.extend_from_slice(&self.partial);
            received.reserve_exact(RECEIVED.saturating_sub(received.len()).max(RECORD));
            match socket.receive(received) {
                // An end without notice cuts what was under way: the framing of HTTP tells.
                Ok(0) => {
                    self.state = State::PeerClosed;
                    return Ok(0);
                }
                Ok(_) => {}
                Err(error) => return Err(error),
            }
            if self.state == State::New {
                if speaks_plainly(received) {
                    self.state = State::Plain;
                    buf.extend_from_slice(received);
                    return Ok(received.len());
                }
                if self.choose(received)? {
                    self.state = State::Handshaking;
                } else if received.len() > PARTIAL {
                    self.state = State::Failed;
                    return Err(io::ErrorKind::InvalidData.into());
                } else {
                    self.keep_partial(&scratch.received);
                    continue;
                }
            }
            let processed = self.process(received, buf);
            let flushed = self.flush(socket, false);
            if processed.is_err() {
                self.state = State::Failed;
            }
            let used = processed?;
            self.keep_partial(&scratch.received[used..]);
            match flushed {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                _ if self.sealed.len() > BACKLOG => return Err(io::ErrorKind::InvalidData.into()),
                _ => {}
            }
            if self.partial.len() > PARTIAL {
                self.state = State::Failed;
                return Err(io::ErrorKind::InvalidData.into());
            }
            if buf.len() > before {
                return Ok(buf.len() - before);
            }
            if self.state == State::PeerClosed {
                return Ok(0);
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Finds the configuration by the first message. False: it is not whole yet.
    fn choose(&mut self, received: &[u8]) -> io::Result<bool> {
        let Some(configs) = &self.configs else { return Ok(true) };
        match client_hello::peek(received) {
            Peeked::Partial => return Ok(false),
            Peeked::Hello(hello) => {
                if let Some((auth, config)) = configs.asking(&hello) {
                    let tls = UnbufferedServerConnection::new(config.clone());
                    self.tls = tls.map_err(io::Error::other)?;
                    self.auth = Some(auth.clone());
                }
            }
            // TLS tells what is wrong with it.
            Peeked::Other => {}
        }
        self.configs = None;
        Ok(true)
    }

    fn keep_partial(&mut self, rest: &[u8]) {
        self.partial.clear();
        if rest.is_empty() {
            self.partial = Vec::new();
        } else {
            self.partial.extend_from_slice(rest);
        }
    }

    /// Takes all whole records of `received`. Returns how many bytes they are.
    fn process(&mut self, received: &mut [u8], buf: &mut Vec<u8>) -> io::Result<usize> {
        let mut used = 0;
        loop {
            let UnbufferedStatus { discard, state } =
                self.tls.process_tls_records(&mut received[used..]);
            let mut blocked = false;
            let mut failed = None;
            match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        buf.extend_from_slice(record.map_err(invalid)?.payload);
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    encode(&mut self.sealed, |room| data.encode(room))?;
                }
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => self.state = State::PeerClosed,
                Ok(ConnectionState::WriteTraffic(_)) => {
                    if self.state == State::Handshaking {
                        self.state = State::Open;
                    }
                    blocked = true;
                }
                Ok(_) => blocked = true,
                Err(error) => failed = Some(error),
            }
            used += discard;
            if let Some(error) = failed {
                self.seal_alert(&mut received[used..]);
                return Err(invalid(error));
            }
            if blocked {
                return Ok(used);
            }
        }
    }

    /// Seals the alert that tells the client what it did wrong. `received`: bytes that are not
    /// processed. TLS remembers places in them, and gives the alert before it looks at them. The
    /// server's hello may come first, without which no client can read the alert.
    fn seal_alert(&mut self, received: &mut [u8]) {
        for _ in 0..ALERT_STEPS {
            let before = self.sealed.len();
            if let Ok(ConnectionState::EncodeTlsData(mut data)) =
                self.tls.process_tls_records(received).state
            {
                // Without memory for it the client is told nothing.
                let _ = encode(&mut self.sealed, |room| data.encode(room));
            }
            // TLS must not look at the bytes again once it has given the alert.
            if !self.sealed.get(before).is_some_and(|kind| BEFORE_ALERTS.contains(kind)) {
                return;
            }
        }
    }

    /// Records wait that the socket did not take.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.sealed.is_empty()
    }

    /// Sends records that wait. [`io::ErrorKind::WouldBlock`]: not all of them now.
    pub(crate) fn flush(&mut self, socket: &impl Transport, more: bool) -> io::Result<()> {
        let mut sent = 0;
        let result = loop {
            if sent == self.sealed.len() {
                break Ok(());
            }
            match socket.send(&self.sealed[sent..], more) {
                Ok(taken) => sent += taken,
                Err(error) => break Err(error),
            }
        };
        if sent == self.sealed.len() {
            self.sealed = Vec::new();
        } else {
            self.sealed.drain(..sent);
        }
        result
    }

    /// Seals and sends as much as one write takes. Returns how many plain bytes have left: those
    /// that were offered before and have left since count.
    pub(crate) fn send(
        &mut self,
        socket: &impl Transport,
        slices: &[IoSlice<'_>],
        more: bool,
    ) -> io::Result<usize> {
        if self.state == State::Plain {
            let first = slices.iter().find(|slice| !slice.is_empty());
            return first.map_or(Ok(0), |slice| socket.send(slice, false));
        }
        self.flush(socket, more)?;
        if self.state == State::Failed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if self.unreported > 0 {
            return Ok(std::mem::take(&mut self.unreported));
        }
        scratch::with(|scratch| {
            let (mut plain, mut sealed) = (0, 0);
            let mut rest = Rest::new(slices);
            for _ in 0..RECORDS {
                let record = rest.next(&mut scratch.plain);
                if record.is_empty() {
                    break;
                }
                sealed += self.seal(record, &mut scratch.sealed[sealed..])?;
                plain += record.len();
            }
            self.send_sealed(socket, &scratch.sealed[..sealed], plain, more || rest.is_more())
        })
    }

    /// The bytes from `from` of a file, `len` at the most.
    pub(crate) fn send_file(
        &mut self,
        socket: &impl Transport,
        file: &OwnedFd,
        from: u64,
        len: u64,
    ) -> io::Result<usize> {
        self.flush(socket, true)?;
        if self.unreported > 0 {
            return Ok(std::mem::take(&mut self.unreported));
        }
        let mut bytes = vec![0; (RECORDS * RECORD).min(usize::try_from(len).unwrap_or(usize::MAX))];
        let read = rustix::io::pread(file, &mut bytes, from)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.send(socket, &[IoSlice::new(&bytes[..read])], false)
    }

    /// Sends a prefix of `sealed` and keeps the rest.
    fn send_sealed(
        &mut self,
        socket: &impl Transport,
        sealed: &[u8],
        plain: usize,
        more: bool,
    ) -> io::Result<usize> {
        match socket.send(sealed, more) {
            Ok(sent) if sent == sealed.len() => Ok(plain),
            Ok(sent) => {
                self.sealed.extend_from_slice(&sealed[sent..]);
                // All records but the last are full.
                let records = plain.div_ceil(RECORD);
                let full = RECORD + (sealed.len() - plain) / records;
                let left = (sent / full).min(records - 1) * RECORD;
                self.unreported = plain - left;
                if left == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(left) }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.sealed.extend_from_slice(sealed);
                self.unreported = plain;
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    /// Seals one record. Returns how many bytes that are.
    fn seal(&mut self, plain: &[u8], into: &mut [u8]) -> io::Result<usize> {
        let mut at = 0;
        loop {
            let UnbufferedStatus { discard, state } =
                self.tls.process_tls_records(&mut self.partial);
            let mut sealed = false;
            match state.map_err(invalid)? {
                ConnectionState::WriteTraffic(mut traffic) => {
                    at += traffic.encrypt(plain, &mut into[at..]).map_err(io::Error::other)?;
                    sealed = true;
                }
                ConnectionState::TransmitTlsData(data) => data.done(),
                ConnectionState::EncodeTlsData(mut data) => {
                    at += data.encode(&mut into[at..]).map_err(io::Error::other)?;
                }
                ConnectionState::PeerClosed => self.state = State::PeerClosed,
                _ => return Err(io::ErrorKind::BrokenPipe.into()),
            }
            if discard > 0 {
                self.partial.drain(..discard);
            }
            if sealed {
                return Ok(at);
            }
        }
    }

    /// The end is not announced: what was sent is not whole.
    pub(crate) fn abandon(&mut self) {
        self.closed = true;
    }

    /// Says that nothing more is sent (RFC 8446 section 6.1), as far as the socket takes it.
    pub(crate) fn close(&mut self, socket: &impl Transport) {
        let ended = std::mem::replace(&mut self.closed, true);
        let silent = matches!(self.state, State::Plain | State::Failed);
        if ended || silent || self.tls.is_handshaking() {
            return;
        }
        if self.flush(socket, true).is_err() {
            return;
        }
        if let Ok(ConnectionState::WriteTraffic(mut traffic)) =
            self.tls.process_tls_records(&mut self.partial).state
        {
            let _ = encode(&mut self.sealed, |room| traffic.queue_close_notify(room));
        }
        let _ = self.flush(socket, false);
    }
}
