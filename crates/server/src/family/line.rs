//! Queries to one peer and their answers, over a UDP socket of one worker.
//!
//! The socket is connected: the system drops what comes from other addresses, and its own address
//! is known for signatures.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    io,
    net::{Ipv4Addr, SocketAddr},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use larder_proto::{
    htcp::{self, Head, Specifier, auth},
    icp,
};
use tokio::{
    net::UdpSocket,
    sync::mpsc,
    task::{JoinHandle, spawn_local},
};

use super::PeerState;
use crate::{
    clock::wall_seconds,
    settings::{HtcpKey, PeerSelect},
};

/// Queries to one peer under way, of one worker; beyond it is not asked, as it is too slow.
const UNDER_WAY: usize = 4096;
/// Longest datagram.
const LONGEST: usize = 64 << 10;
/// Seconds for which a signature is valid.
pub(super) const VALID: u32 = 60;
/// Delay before the next receive after an error: one of an earlier datagram is told at once, and
/// more may follow.
const PAUSE: Duration = Duration::from_millis(5);

/// A question about a page.
#[derive(Clone, Copy)]
pub(crate) struct Question<'q> {
    pub(crate) method: &'q [u8],
    pub(crate) url: &'q [u8],
    /// The lines of the request, each with its end.
    pub(crate) fields: &'q [u8],
}

/// An answer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It is there.
    Hit,
    /// It is not.
    Miss,
    /// The peer does not want to be asked now, or the page is not for this cache.
    Refused,
    /// Nobody is there.
    Gone,
}

/// An answer, and the place of the peer that gave it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    pub(crate) place: usize,
    pub(crate) answer: Answer,
    /// Microseconds after the query.
    pub(crate) micros: u64,
}

struct Waiter {
    place: usize,
    heard: mpsc::Sender<Heard>,
    since: u64,
    url: Box<[u8]>,
}

pub(super) struct Line {
    peer: Arc<PeerState>,
    socket: UdpSocket,
    /// The same: tokio's sends nothing before its readiness was seen, which takes a turn.
    sender: std::net::UdpSocket,
    local: SocketAddr,
    remote: SocketAddr,
    next: Cell<u32>,
    waiting: RefCell<HashMap<u32, Waiter>>,
}

/// A query under way; dropped when nobody waits for it any more.
pub(crate) struct Asked {
    line: Rc<Line>,
    number: u32,
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.line.waiting.borrow_mut().remove(&self.number);
    }
}

impl Line {
    /// Opens a socket, and takes what comes until the task is dropped.
    pub(super) fn open(peer: &Arc<PeerState>) -> io::Result<(Rc<Self>, Listening)> {
        let remote = peer.settings.queries.ok_or(io::ErrorKind::InvalidInput)?;
        let any: SocketAddr = match remote {
            SocketAddr::V4(_) => SocketAddr::from(([0, 0, 0, 0], 0)),
            SocketAddr::V6(_) => SocketAddr::from(([0u16; 8], 0)),
        };
        let socket = std::net::UdpSocket::bind(any)?;
        socket.connect(remote)?;
        socket.set_nonblocking(true)?;
        let local = socket.local_addr()?;
        // Nobody outside can tell the numbers of queries.
        let start =
            rapidhash::v3::rapidhash_v3(format!("{local} {}", peer.clock.micros()).as_bytes());
        let line = Rc::new(Self {
            peer: peer.clone(),
            sender: socket.try_clone()?,
            socket: UdpSocket::from_std(socket)?,
            local,
            remote,
            next: Cell::new(start as u32),
            waiting: RefCell::default(),
        });
        let listening = Listening(spawn_local(listen(line.clone())));
        Ok((line, listening))
    }

    /// Sends a query. None: it was not sent.
    pub(super) fn ask(
        self: &Rc<Self>,
        question: &Question<'_>,
        place: usize,
        heard: &mpsc::Sender<Heard>,
    ) -> Option<Asked> {
        if self.waiting.borrow().len() >= UNDER_WAY {
            return None;
        }
        // 0 is the number of messages that answer nothing.
        let number = self.next.get().wrapping_add(1).max(1);
        self.next.set(number);
        let mut out = Vec::new();
        let written = match self.peer.settings.select {
            PeerSelect::Icp => icp::Message {
                opcode: icp::Opcode::Query,
                number,
                requester: Ipv4Addr::UNSPECIFIED,
                url: question.url,
            }
            .write(&mut out),
            _ => {
                let Question { method, url, fields } = *question;
                let specifier = Specifier { method, url, version: b"HTTP/1.1", fields };
                let head = Head::request(htcp::Opcode::Tst, number, true);
                let way = auth::Way { from: self.local, to: self.remote };
                with_signing(self.peer.settings.key.as_ref().map(|key| (key, way)), |sign| {
                    head.write(&mut out, |out| specifier.write(out), sign)
                })
            }
        };
        if !written || self.sender.send(&out).is_err() {
            return None;
        }
        self.peer.counts.queries.one();
        let (since, url) = (self.peer.clock.micros(), question.url.into());
        let waiter = Waiter { place, heard: heard.clone(), since, url };
        self.waiting.borrow_mut().insert(number, waiter);
        Some(Asked { line: self.clone(), number })
    }

    /// Takes a datagram of the peer.
    fn take(&self, datagram: &[u8]) {
        let read = match self.peer.settings.select {
            PeerSelect::Icp => self.read_icp(datagram),
            _ => self.read_htcp(datagram),
        };
        let Some((number, answer)) = read else { return };
        // Be it late: it shows that the peer is there.
        let waiter = self.waiting.borrow_mut().remove(&number);
        let now = self.peer.clock.micros();
        let micros = waiter.as_ref().map(|waiter| now.saturating_sub(waiter.since));
        self.peer.answered(micros);
        let counts = &self.peer.counts;
        match answer {
            Answer::Hit => counts.hits.one(),
            Answer::Miss => counts.misses.one(),
            Answer::Refused | Answer::Gone => counts.refusals.one(),
        }
        if let (Some(Waiter { place, heard, .. }), Some(micros)) = (waiter, micros) {
            // There is a place for an answer of each peer.
            let _ = heard.try_send(Heard { place, answer, micros });
        }
    }

    fn read_icp(&self, datagram: &[u8]) -> Option<(u32, Answer)> {
        let message = icp::Message::parse(datagram).ok()?;
        let answer = match message.opcode {
            icp::Opcode::Hit | icp::Opcode::HitObject => Answer::Hit,
            icp::Opcode::Miss => Answer::Miss,
            icp::Opcode::MissNoFetch | icp::Opcode::Denied | icp::Opcode::Err => Answer::Refused,
            icp::Opcode::Query | icp::Opcode::SourceEcho | icp::Opcode::CacheEcho => return None,
        };
        let waiting = self.waiting.borrow();
        let other = |waiter: &Waiter| *waiter.url != *message.url;
        let of_another = waiting.get(&message.number).is_some_and(other);
        // An error repeats the URL or nothing.
        let wrong = of_another && (answer == Answer::Hit || !message.url.is_empty());
        (!wrong).then_some((message.number, answer))
    }

    fn read_htcp(&self, datagram: &[u8]) -> Option<(u32, Answer)> {
        let message = htcp::Message::parse(datagram).ok()?;
        let way = auth::Way { from: self.remote, to: self.local };
        if !message.answer || !is_signed(self.peer.settings.key.as_ref(), &message, way) {
            return None;
        }
        let answer = match (message.flag, message.opcode, message.response) {
            (true, ..) => Answer::Refused,
            (false, htcp::Opcode::Tst, 0) => Answer::Hit,
            (false, htcp::Opcode::Tst, _) => Answer::Miss,
            _ => return None,
        };
        Some((message.number, answer))
    }

    /// The system says that nobody is there: who waits need not wait.
    fn gone(&self) {
        for (_, waiter) in self.waiting.borrow_mut().drain() {
            let Waiter { place, heard, .. } = waiter;
            let _ = heard.try_send(Heard { place, answer: Answer::Gone, micros: 0 });
        }
    }
}

/// The task of a line; it ends when this is dropped.
pub(super) struct Listening(JoinHandle<()>);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn listen(line: Rc<Line>) {
    let mut buffer = vec![0; LONGEST];
    loop {
        match line.socket.recv(&mut buffer).await {
            Ok(length) => line.take(&buffer[..length]),
            Err(_) => {
                line.gone();
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Calls `f` with what a message is signed with.
pub(crate) fn with_signing<T>(
    key: Option<(&HtcpKey, auth::Way)>,
    f: impl FnOnce(Option<&auth::Signing<'_>>) -> T,
) -> T {
    let signing = key.map(|(key, way)| auth::Signing {
        key: proto_key(key),
        way,
        now: wall_seconds(),
        valid: VALID,
    });
    f(signing.as_ref())
}

/// Whether a message is signed with a key, if it has to be.
pub(crate) fn is_signed(
    key: Option<&HtcpKey>,
    message: &htcp::Message<'_>,
    way: auth::Way,
) -> bool {
    let Some(key) = key else { return true };
    let minor = message.format.minor;
    message.auth.is_some_and(|auth| {
        auth.is_valid(&proto_key(key), way, minor, message.signed, wall_seconds())
    })
}

fn proto_key(key: &HtcpKey) -> auth::Key<'_> {
    auth::Key { name: key.name.as_bytes(), secret: key.secret.bytes() }
}
