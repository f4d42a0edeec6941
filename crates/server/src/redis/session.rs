//! One client's conversation: received bytes into commands, in whatever pieces they come.
//!
//! Commands lie in the receive buffer while they are taken up. One too long for it is collected here, up to its end and
//! no further; what has been looked at of it is not looked at again ([`Decoder`]).

use std::{net::IpAddr, rc::Rc, sync::Arc, sync::atomic::Ordering::Relaxed};

use larder_proto::resp::{self, Args, Decoder, Limits, Reply, Step, Version};

use crate::{
    clock::Ms,
    net::out::Out,
    object::{self, Client, HIGH_WATER, Peer, Sent, Turn, WINDOW, ahead::First},
};

use super::{
    dispatch,
    known::Known,
    monitor, multi, pause,
    shared::Face,
    state::{Answers, Conn, gate},
};

/// Bytes of a command from which it is collected here.
const LARGE: usize = WINDOW / 2;
/// The least by which the room for a long command grows.
const GROWTH: usize = 256 * 1024;

/// What a client on another machine is told where nobody has set a password (Redis: protected mode).
const DENIED: &str = "DENIED Larder is running in protected mode because protected mode is enabled and no password is \
set for the default user. In this mode connections are only accepted from the loopback interface and unix sockets. If \
you want to connect from external computers, you may adopt one of the following solutions: 1) Set a password \
(redis.password in the configuration, or CONFIG SET requirepass <password> from this machine). 2) Disable protected mode \
(redis.protected = false in the configuration, or CONFIG SET protected-mode no from this machine); make sure the server \
is not reachable from the internet then. 3) Listen on the addresses of the loopback interface only.";

/// One client's conversation in RESP.
pub(crate) struct Session {
    face: Rc<Face>,
    conn: Conn,
    decoder: Decoder,
    /// A command longer than the receive buffer, as far as it is here. Empty: there is none.
    large: Vec<u8>,
    /// Answers nobody wants (CLIENT REPLY OFF).
    dropped: Out,
    /// Was the client looked at: may it be here?
    met: bool,
    /// Of the next command.
    first: First,
}

impl Session {
    pub(crate) fn new(face: Rc<Face>, client: Arc<Client>) -> Session {
        let known = Arc::new(Known::new(client, NO_COMMAND));
        face.shared.registry.enter(known.clone());
        let conn = Conn::new(known, &face.shared);
        let (decoder, large, dropped, first) = Default::default();
        Session { face, conn, decoder, large, dropped, met: false, first }
    }

    fn limits(&self) -> Limits {
        let config = &self.face.shared.config;
        Limits {
            bulk: config.bulk.load(Relaxed),
            command: config.query_buffer.load(Relaxed),
            stranger: self.conn.gates & gate::STRANGER != 0,
        }
    }

    /// False: it comes from elsewhere and there is no password.
    #[cold]
    fn meet(&mut self, out: &mut Out) -> bool {
        self.met = true;
        let config = &self.face.shared.config;
        let local = match self.conn.known.client.peer {
            Peer::Tcp(address) => match address.ip() {
                IpAddr::V4(ip) => ip.is_loopback(),
                IpAddr::V6(ip) => ip.is_loopback() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_loopback()),
            },
            Peer::Unix => true,
        };
        if local || config.has_password() || !config.protected.load(Relaxed) {
            return true;
        }
        self.face.counters.denied_connections.one();
        Reply::new(out.scratch(), Version::V2).error(DENIED);
        false
    }

    /// After a command that took `used` bytes.
    #[inline]
    fn after(&self, used: usize) -> Turn {
        if self.conn.closing {
            Turn::Close
        } else if self.conn.listing.is_some() {
            Turn::Flush(used)
        } else {
            Turn::Used(used)
        }
    }

    /// Goes on with the answer to KEYS.
    #[cold]
    fn list(&mut self, now: Ms, out: &mut Out) -> Turn {
        let Some(mut listing) = self.conn.listing.take() else { return Turn::Used(0) };
        let start = self.face.clock.micros();
        let done = listing.step(self.face.shared.store, now, out, HIGH_WATER);
        listing.micros += self.face.clock.micros().saturating_sub(start);
        if done {
            dispatch::count_rest(&self.face, &self.conn, &listing.command, now, listing.micros);
            return Turn::Used(0);
        }
        self.conn.listing = Some(listing);
        Turn::Flush(0)
    }

    fn broken(&self, text: &[u8], out: &mut Out) -> Turn {
        self.face.counters.protocol_errors.one();
        self.face.counters.error(text);
        Reply::new(out.scratch(), self.conn.version).error(text);
        Turn::Close
    }

    /// Goes on with a long command: takes what belongs to it of `input`.
    fn collect(&mut self, input: &[u8], now: Ms, out: &mut Out) -> Turn {
        let limits = self.limits();
        let mut used = 0;
        loop {
            let Session { face, conn, decoder, large, dropped, .. } = self;
            let need = match decoder.step(large, &limits) {
                Step::Command { args, .. } => {
                    // What was looked at ahead was an earlier command's.
                    conn.hint = None;
                    if !run(face, conn, &args, now, out, dropped) {
                        return Turn::Later(used, pause::LOOK);
                    }
                    // The places of a million arguments are 8 MB: an idle connection keeps none of it.
                    (self.large, self.decoder) = Default::default();
                    return self.after(used);
                }
                Step::Skip(_) => {
                    self.large = Vec::new();
                    return Turn::Used(used);
                }
                Step::Error(text) => return self.broken(&text, out),
                Step::More(need) => need,
            };
            let rest = &input[used..];
            if rest.is_empty() {
                return Turn::Used(used);
            }
            // Up to where the decoder looks again; where it does not know (a length's line is open), to the line's end.
            let take = match need.checked_sub(large.len()) {
                Some(missing) if missing > 0 => missing.min(rest.len()),
                _ => rest.iter().position(|&b| b == b'\n').map_or(rest.len(), |at| at + 1),
            };
            if large.capacity() - large.len() < take {
                let room = need.saturating_sub(large.len()).min(large.len().max(GROWTH));
                large.reserve_exact(room.max(take));
            }
            large.extend_from_slice(&rest[..take]);
            used += take;
        }
    }
}

/// Before the first command: what CLIENT LIST shows as `NULL`.
const NO_COMMAND: u16 = u16::MAX;

/// Runs a command, its answers into `out` or nowhere. False: it has to wait.
#[inline]
fn run(face: &Face, conn: &mut Conn, args: &Args<'_>, now: Ms, out: &mut Out, dropped: &mut Out) -> bool {
    let muted = conn.gates & gate::MUTED != 0;
    let ran = dispatch::run(face, conn, args, now, if muted { &mut *dropped } else { &mut *out });
    if muted {
        dropped.clear();
    }
    if !ran {
        return false;
    }
    if conn.answers != Answers::On || conn.gates & gate::MUTED != 0 {
        next_answer(conn, out);
    }
    if muted || conn.gates & gate::HEARS != 0 {
        conn.hear(out.scratch());
    }
    true
}

/// Has the memory fetched that the next commands of a batch will ask for.
#[inline]
fn look_ahead(face: &Face, conn: &Conn, input: &[u8]) {
    let mut ahead = face.ahead.borrow_mut();
    let client = conn.known.client.id;
    if input.is_empty() {
        // Before more is taken up, more is received.
        ahead.clear();
    } else if ahead.is_used(client) {
        ahead.fill(client, face.shared.store, conn.ns, input, resp::ahead);
    }
}

/// CLIENT REPLY, from one command to the next.
#[cold]
fn next_answer(conn: &mut Conn, out: &mut Out) {
    let was_muted = conn.gates & gate::MUTED != 0;
    match conn.answers {
        Answers::SkipNext => conn.answers = Answers::Skip,
        Answers::Skip => conn.answers = Answers::On,
        Answers::TurnedOn(answer) => {
            if was_muted {
                out.scratch().extend_from_slice(answer);
            }
            conn.answers = Answers::On;
        }
        Answers::On | Answers::Off => {}
    }
    let muted = matches!(conn.answers, Answers::Off | Answers::Skip);
    conn.set_gate(gate::MUTED, muted);
}

impl object::Session for Session {
    fn turn(&mut self, input: &[u8], now: Ms, out: &mut Out) -> Turn {
        let first = self.first.take();
        if !self.met && !self.meet(out) {
            return Turn::Close;
        }
        if self.conn.listing.is_some() {
            return self.list(now, out);
        }
        if !self.large.is_empty() {
            return self.collect(input, now, out);
        }
        let limits = self.limits();
        let Session { face, conn, decoder, dropped, .. } = self;
        let client = conn.known.client.id;
        match decoder.step(input, &limits) {
            Step::Command { args, used } => {
                conn.hint = first.or_else(|| face.ahead.borrow_mut().take(client, conn.ns, input.len()));
                if !run(face, conn, &args, now, out, dropped) {
                    return Turn::Later(0, pause::LOOK);
                }
                look_ahead(face, conn, &input[used..]);
                self.after(used)
            }
            Step::Skip(used) => Turn::Used(used),
            Step::More(need) if need > LARGE || input.len() > LARGE => {
                self.large.reserve_exact(need.saturating_sub(input.len()).min(GROWTH) + input.len());
                self.large.extend_from_slice(input);
                self.face.ahead.borrow_mut().clear();
                Turn::Used(input.len())
            }
            Step::More(need) => {
                self.face.ahead.borrow_mut().clear();
                Turn::More(need)
            }
            Step::Error(text) => self.broken(&text, out),
        }
    }

    fn fetch(&mut self, input: &[u8]) {
        if let Some((key, _)) = resp::ahead(input).filter(|_| self.large.is_empty()) {
            self.first.fetch(self.face.shared.store, self.conn.ns, key);
        }
    }

    fn fetch_record(&mut self) {
        self.first.fetch_record(self.face.shared.store);
    }

    fn received(&mut self) {
        self.face.ahead.borrow_mut().clear();
    }

    fn sent(&mut self, batch: Sent) {
        let counters = &self.face.counters;
        counters.total_net_input_bytes.add(batch.received);
        counters.total_net_output_bytes.add(batch.written);
        counters.total_reads_processed.add(u64::from(batch.received > 0));
        counters.total_writes_processed.add(u64::from(batch.written > 0));
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let shared = &self.face.shared;
        super::conn::tracking::off(shared, &mut self.conn);
        super::conn::pubsub::leave_all(shared, &mut self.conn);
        monitor::leave(shared, &self.conn.known);
        multi::end(&mut self.conn);
        shared.registry.leave(self.conn.known.id());
    }
}
