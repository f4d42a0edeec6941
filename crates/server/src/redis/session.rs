//! One client's session: parses received bytes, however they are split, into commands.
//!
//! Commands stay in the receive buffer while they run. A command too long for it is collected here,
//! up to its end and no further; the [`Decoder`] examines each byte once.

use std::{net::IpAddr, rc::Rc, sync::Arc, sync::atomic::Ordering::Relaxed};

use larder_proto::resp::{self, Args, Decoder, Limits, Owned, Reply, Rest, Step, TooMuch, Version};

use crate::room::{Held, Place};
use crate::{
    clock::Ms,
    net::out::Out,
    object::{self, Client, Peer, Sent, Turn, TurnTime, WINDOW, ahead::First},
};

use super::{
    dispatch,
    job::Progress,
    known::Known,
    monitor, multi,
    muted::{drop_answers, target},
    shared::Face,
    state::{Answers, Conn, gate},
};

/// Length from which a command is collected here, in bytes.
const LARGE: usize = WINDOW / 2;
/// Minimum growth of the buffer for a long command. Otherwise it grows with the received bytes,
/// never with the announced length.
const GROWTH: usize = 4096;

/// Answer if there is no memory for a command (Redis: a write when the memory is full).
const NO_ROOM: &str = "OOM command not allowed when used memory > 'maxmemory'.";
/// Answer to an announced argument that is too long for any use.
const TOO_LARGE: &str = "ERR value is larger than the largest item this server stores";

/// Answer to a client on another machine if no password is set (Redis: protected mode).
const DENIED: &str = "DENIED Larder is running in protected mode because protected mode is enabled and no password \
     is set for the default user. In this mode connections are only accepted from the loopback \
     interface and unix sockets. If you want to connect from external computers, you may adopt \
     one of the following solutions: 1) Set a password (redis.password in the configuration, or \
     CONFIG SET requirepass <password> from this machine). 2) Disable protected mode \
     (redis.protected = false in the configuration, or CONFIG SET protected-mode no from this \
     machine); make sure the server is not reachable from the internet then. 3) Listen on the \
     addresses of the loopback interface only.";

/// One client's session in RESP.
pub(crate) struct Session {
    face: Rc<Face>,
    conn: Conn,
    /// While the connection is idle, the worker keeps the decoder.
    decoder: Option<Box<Decoder>>,
    /// A command longer than the receive buffer, as received so far.
    large: Option<Box<Large>>,
    /// The outstanding part of a refused command.
    rest: Option<Box<Rest>>,
    /// Answers that the client suppresses (CLIENT REPLY OFF).
    dropped: Option<Box<Out>>,
    /// The client's permission to connect was checked.
    met: bool,
    /// Keys looked up ahead for the next command.
    first: First,
}

/// A long command in collection.
struct Large {
    bytes: Vec<u8>,
    /// The command is complete and decoded; it waits to be executed.
    whole: bool,
    held: Held,
}

impl Session {
    pub(crate) fn new(face: Rc<Face>, client: Arc<Client>) -> Session {
        let known = Arc::new(Known::new(client, NO_COMMAND));
        face.shared.registry.enter(known.clone());
        let conn = Conn::new(known, &face.shared);
        let (decoder, large, rest, dropped, first) = Default::default();
        Session { face, conn, decoder, large, rest, dropped, met: false, first }
    }

    /// Returns whether the next bytes begin a command.
    fn is_between_commands(&self) -> bool {
        self.large.is_none() && self.rest.is_none() && self.conn.running.is_none()
    }

    fn limits(&self) -> Limits {
        let config = &self.face.shared.config;
        Limits {
            bulk: config.bulk.load(Relaxed),
            command: config.query_buffer.load(Relaxed),
            stranger: self.conn.gates & gate::STRANGER != 0,
            item: self.face.item,
            room: self.face.room,
        }
    }

    /// Checks the client's permission to connect. False: it is on another machine and no password
    /// is set.
    #[cold]
    fn meet(&mut self, out: &mut Out) -> bool {
        self.met = true;
        let config = &self.face.shared.config;
        let local = match self.conn.known.client.peer {
            Peer::Tcp(address) | Peer::Udp(address) => match address.ip() {
                IpAddr::V4(ip) => ip.is_loopback(),
                IpAddr::V6(ip) => {
                    ip.is_loopback() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_loopback())
                }
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

    /// The turn after a command that took `used` bytes.
    #[inline]
    fn after(&self, used: usize) -> Turn {
        match self.conn.running.as_ref().map(|running| running.begun.progress) {
            // A begun command runs to its end, even if its client is to be disconnected.
            Some(Progress::Send) if !self.conn.closing => Turn::Flush(used),
            Some(_) => Turn::Again(used),
            None if self.conn.closing => Turn::Close,
            None => Turn::Used(used),
        }
    }

    /// Continues a command in steps.
    #[cold]
    fn resume(&mut self, now: Ms, out: &mut Out) -> Turn {
        let Session { face, conn, decoder, large, dropped, .. } = self;
        let Some(mut running) = conn.running.take() else { return Turn::Used(0) };
        let muted = conn.gates & gate::MUTED != 0;
        let owned = running.owned.take();
        let bytes = large.as_ref().map_or(&[][..], |large| &large.bytes);
        let decoder = decoder.get_or_insert_default();
        let args = owned.as_ref().map_or_else(|| decoder.last(bytes), Owned::args);
        let done =
            dispatch::resume(face, conn, &mut running, &args, now, target(muted, dropped, out));
        drop_answers(dropped);
        if done {
            drop(running);
            answered(conn, muted, out);
            self.forget();
        } else {
            running.owned = owned;
            conn.running = Some(running);
        }
        self.after(0)
    }

    /// Drops a collected command after its end.
    fn forget(&mut self) {
        if std::mem::take(&mut self.conn.stays) {
            self.forget_large();
        }
    }

    fn broken(&self, text: &[u8], out: &mut Out) -> Turn {
        self.face.counters.protocol_errors.one();
        self.face.counters.error(text);
        Reply::new(out.scratch(), self.conn.version).error(text);
        Turn::Close
    }

    /// Continues the collection of a long command: takes its bytes from `input`.
    fn collect(&mut self, input: &[u8], now: Ms, out: &mut Out) -> Turn {
        let limits = self.limits();
        let mut used = 0;
        loop {
            let Session { face, conn, decoder, large, dropped, .. } = self;
            let Some(large) = large else { return Turn::Used(used) };
            let decoder = decoder.get_or_insert_default();
            let step = match large.whole {
                true => Step::Command { args: decoder.last(&large.bytes), used: 0 },
                false => decoder.step(&large.bytes, &limits),
            };
            let need = match step {
                Step::Command { args, .. } => {
                    large.whole = true;
                    // The hint belongs to an earlier command.
                    face.hint.set(None);
                    conn.stays = true;
                    if !run(face, conn, &args, now, out, dropped) {
                        return Turn::Later(used, conn.looks_again());
                    }
                    if conn.running.is_none() {
                        self.forget();
                    }
                    return self.after(used);
                }
                Step::Skip(_) => {
                    self.forget_large();
                    return Turn::Used(used);
                }
                Step::Refused(why) => return self.refuse(why, used, out),
                Step::Error(text) => return self.broken(&text, out),
                Step::More(need) => need,
            };
            let rest = &input[used..];
            if rest.is_empty() {
                return Turn::Used(used);
            }
            // Take the bytes up to the decoder's next position; if that is unknown (the line of a
            // length is incomplete), up to the line's end.
            let take = match need.checked_sub(large.bytes.len()) {
                Some(missing) if missing > 0 => missing.min(rest.len()),
                _ => rest.iter().position(|&b| b == b'\n').map_or(rest.len(), |at| at + 1),
            };
            if !self.collect_more(need, &rest[..take]) {
                return self.refuse(TooMuch::Command, used, out);
            }
            used += take;
        }
    }

    /// Collects `input` for a long command that needs at least `need` bytes. The buffer grows in
    /// proportion to the received bytes. False: there is no memory.
    fn collect_more(&mut self, need: usize, input: &[u8]) -> bool {
        let Session { conn, decoder, large, .. } = self;
        let new = || {
            let held = Held::new(&conn.known.client.holder, Place::Heap);
            Box::new(Large { bytes: Vec::new(), whole: false, held })
        };
        let Large { bytes, held, .. } = &mut **large.get_or_insert_with(new);
        if bytes.capacity() - bytes.len() < input.len() {
            let much = (bytes.len() + input.len()).max(GROWTH);
            let more = need.saturating_sub(bytes.len()).min(much).max(input.len());
            let kept = decoder.as_ref().map_or(0, |decoder| decoder.kept());
            if !held.resize((bytes.len() + more + kept) as u64) {
                return false;
            }
            bytes.reserve_exact(more);
        }
        bytes.extend_from_slice(input);
        true
    }

    /// Frees a long command. The positions of a million arguments take 8 MB: an idle connection
    /// keeps none of it.
    fn forget_large(&mut self) {
        (self.large, self.decoder) = (None, None);
    }

    /// Refuses the current command, of which `used` bytes of the input are examined or collected.
    /// It is answered at once, and its outstanding bytes are discarded.
    #[cold]
    fn refuse(&mut self, why: TooMuch, used: usize, out: &mut Out) -> Turn {
        let text = match why {
            TooMuch::Argument => TOO_LARGE,
            TooMuch::Command => NO_ROOM,
        };
        let Session { face, conn, decoder, large, dropped, .. } = self;
        // Without an argument it is a line or the head of an array: there is memory for it, or the
        // client must be disconnected.
        let decoder = decoder.get_or_insert_default();
        let Some((at, mut rest)) = decoder.give_up() else { return Turn::Close };
        let bytes = large.as_ref().map_or(&[][..], |large| &large.bytes);
        let collected = rest.take(bytes.get(at..).unwrap_or_default());
        let at = if bytes.is_empty() { at } else { used };
        let muted = conn.gates & gate::MUTED != 0;
        dispatch::refuse(face, conn, None, text, target(muted, dropped, out));
        drop_answers(dropped);
        answered(conn, muted, out);
        self.forget_large();
        match collected {
            Ok((_, ended)) => {
                self.rest = (!ended).then(|| Box::new(rest));
                self.after(at)
            }
            Err(text) => self.broken(&text, out),
        }
    }

    /// Discards the bytes of a refused command.
    fn throw_away(&mut self, input: &[u8], out: &mut Out) -> Turn {
        let Some(rest) = &mut self.rest else { return Turn::Used(0) };
        match rest.take(input) {
            Ok((used, ended)) => {
                if ended {
                    self.rest = None;
                }
                Turn::Used(used)
            }
            Err(text) => self.broken(&text, out),
        }
    }
}

/// Value before the first command: CLIENT LIST shows `NULL`.
const NO_COMMAND: u16 = u16::MAX;

/// Executes a command; its answers go to `out` or are dropped. False: it must wait.
#[inline]
fn run(
    face: &Face,
    conn: &mut Conn,
    args: &Args<'_>,
    now: Ms,
    out: &mut Out,
    dropped: &mut Option<Box<Out>>,
) -> bool {
    let muted = conn.gates & gate::MUTED != 0;
    let ran = dispatch::run(face, conn, args, now, target(muted, dropped, out));
    drop_answers(dropped);
    if !ran || conn.running.is_some() {
        return ran;
    }
    answered(conn, muted, out);
    true
}

/// Finishes an answered command.
#[inline]
fn answered(conn: &mut Conn, muted: bool, out: &mut Out) {
    if muted || conn.gates & gate::HEARS != 0 {
        conn.hear(out.scratch());
    }
    if conn.answers != Answers::On || conn.gates & gate::MUTED != 0 {
        next_answer(conn, out);
    }
}

/// Prefetches memory for the next commands of the batch.
#[inline]
fn look_ahead(face: &Face, conn: &Conn, input: &[u8]) {
    let mut ahead = face.ahead.borrow_mut();
    let client = conn.known.client.id;
    if input.is_empty() {
        // More bytes are received before the next command.
        ahead.clear();
    } else if ahead.is_used(client) {
        ahead.fill(client, face.shared.store, conn.ns, input, resp::ahead);
    }
}

/// Advances the mode of CLIENT REPLY to the next command.
#[cold]
fn next_answer(conn: &mut Conn, out: &mut Out) {
    let was_muted = conn.gates & gate::MUTED != 0;
    match conn.answers {
        Answers::SkipNext => conn.answers = Answers::Skip,
        Answers::Skip => conn.answers = Answers::On,
        Answers::TurnedOn | Answers::Reset => {
            if was_muted {
                let answer: &[u8] =
                    if conn.answers == Answers::Reset { b"+RESET\r\n" } else { b"+OK\r\n" };
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
        if self.conn.running.is_some() {
            return self.resume(now, out);
        }
        if self.large.is_some() {
            return self.collect(input, now, out);
        }
        if self.rest.is_some() {
            return self.throw_away(input, out);
        }
        let limits = self.limits();
        let Session { face, conn, decoder, dropped, .. } = self;
        let client = conn.known.client.id;
        let decoder = decoder.get_or_insert_with(|| face.take_decoder());
        match decoder.step(input, &limits) {
            Step::Command { args, used } => {
                let hint =
                    first.or_else(|| face.ahead.borrow_mut().take(client, conn.ns, input.len()));
                face.hint.set(hint);
                if !run(face, conn, &args, now, out, dropped) {
                    return Turn::Later(0, conn.looks_again());
                }
                look_ahead(face, conn, &input[used..]);
                self.after(used)
            }
            Step::Skip(used) => Turn::Used(used),
            Step::More(need) if need > LARGE || input.len() > LARGE => {
                self.face.ahead.borrow_mut().clear();
                if !self.collect_more(need, input) {
                    return self.refuse(TooMuch::Command, 0, out);
                }
                Turn::Used(input.len())
            }
            Step::Refused(why) => {
                self.face.ahead.borrow_mut().clear();
                self.refuse(why, 0, out)
            }
            Step::More(need) => {
                self.face.ahead.borrow_mut().clear();
                Turn::More(need)
            }
            Step::Error(text) => self.broken(&text, out),
        }
    }

    #[inline]
    fn turn_time(&self) -> &TurnTime {
        &self.face.turn_time
    }

    fn fetch(&mut self, input: &[u8]) {
        if let Some((key, _)) = resp::ahead(input).filter(|_| self.is_between_commands()) {
            self.first.fetch(self.face.shared.store, self.conn.ns, key);
        }
    }

    fn fetch_record(&mut self) {
        self.first.fetch_record(self.face.shared.store);
    }

    fn received(&mut self) {
        self.face.ahead.borrow_mut().clear();
    }

    fn kept(&self) -> u64 {
        let decoder = self.decoder.as_ref().filter(|_| self.large.is_none());
        decoder.map_or(0, |decoder| decoder.kept()) as u64
    }

    fn sent(&mut self, batch: Sent) {
        if self.is_between_commands()
            && let Some(decoder) = &mut self.decoder
        {
            decoder.rest();
        }
        let counters = &self.face.counters;
        counters.total_net_input_bytes.add(batch.received);
        counters.total_net_output_bytes.add(batch.written);
        counters.total_reads_processed.add(u64::from(batch.received > 0));
        counters.total_writes_processed.add(u64::from(batch.written > 0));
        if self.is_between_commands()
            && let Some(decoder) = self.decoder.take_if(|decoder| decoder.is_at_rest())
        {
            self.face.give_decoder(decoder);
        }
    }

    fn awaits(&self) -> bool {
        (self.large.is_some() && self.conn.running.is_none()) || self.rest.is_some()
    }

    fn leave(&mut self) -> bool {
        super::conn::pubsub::leave_some(&self.face.shared, &mut self.conn)
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
