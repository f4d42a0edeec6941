//! One client's conversation: received bytes into commands, in whatever pieces they come.
//!
//! Commands lie in the receive buffer while they are taken up. One too long for it is collected
//! here, up to its end and no further; what has been looked at of it is not looked at again
//! ([`Decoder`]).

use std::{net::IpAddr, rc::Rc, sync::Arc, sync::atomic::Ordering::Relaxed};

use larder_proto::resp::{self, Args, Decoder, Limits, Owned, Reply, Rest, Step, TooMuch, Version};

use crate::{
    clock::Ms,
    net::out::Out,
    object::{
        self, Client, Peer, Sent, Turn, WINDOW,
        ahead::First,
        room::{Held, Place},
    },
};

use super::{
    dispatch,
    job::Progress,
    known::Known,
    monitor, multi,
    shared::Face,
    state::{Answers, Conn, gate},
};

/// Bytes of a command from which it is collected here.
const LARGE: usize = WINDOW / 2;
/// The least by which the buffer for a long command grows. Else it grows by what has come, never by
/// what is announced.
const GROWTH: usize = 4096;

/// A client whose command there is no room for (Redis: a write when the memory is full).
const NO_ROOM: &str = "OOM command not allowed when used memory > 'maxmemory'.";
/// A client that announces an argument that nothing could be done with.
const TOO_LARGE: &str = "ERR value is larger than the largest item this server stores";

/// What a client on another machine is told where nobody has set a password (Redis: protected
/// mode).
const DENIED: &str = "DENIED Larder is running in protected mode because protected mode is enabled and no password \
     is set for the default user. In this mode connections are only accepted from the loopback \
     interface and unix sockets. If you want to connect from external computers, you may adopt \
     one of the following solutions: 1) Set a password (redis.password in the configuration, or \
     CONFIG SET requirepass <password> from this machine). 2) Disable protected mode \
     (redis.protected = false in the configuration, or CONFIG SET protected-mode no from this \
     machine); make sure the server is not reachable from the internet then. 3) Listen on the \
     addresses of the loopback interface only.";

/// One client's conversation in RESP.
pub(crate) struct Session {
    face: Rc<Face>,
    conn: Conn,
    /// The worker's while the connection is idle.
    decoder: Option<Box<Decoder>>,
    /// A command longer than the receive buffer, as far as it is here.
    large: Option<Box<Large>>,
    /// The part still to arrive of a command that was refused.
    rest: Option<Box<Rest>>,
    /// Answers that the client does not want (CLIENT REPLY OFF).
    dropped: Option<Box<Out>>,
    /// Was the client looked at: may it be here?
    met: bool,
    /// Of the next command.
    first: First,
}

/// A long command that is collected.
struct Large {
    bytes: Vec<u8>,
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

    /// The next bytes begin a command.
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

    /// False: it comes from elsewhere and there is no password.
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

    /// After a command that took `used` bytes.
    #[inline]
    fn after(&self, used: usize) -> Turn {
        match self.conn.running.as_ref().map(|running| running.begun.progress) {
            // A command that has begun comes to its end, even if its client is to be closed.
            Some(Progress::Send) if !self.conn.closing => Turn::Flush(used),
            Some(_) => Turn::Again(used),
            None if self.conn.closing => Turn::Close,
            None => Turn::Used(used),
        }
    }

    /// Goes on with a command that takes several steps.
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

    /// A command has ended: one that was collected is dropped.
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

    /// Goes on with a long command: takes what belongs to it of `input`.
    fn collect(&mut self, input: &[u8], now: Ms, out: &mut Out) -> Turn {
        let limits = self.limits();
        let mut used = 0;
        loop {
            let Session { face, conn, decoder, large, dropped, .. } = self;
            let Some(large) = large else { return Turn::Used(used) };
            let decoder = decoder.get_or_insert_default();
            let need = match decoder.step(&large.bytes, &limits) {
                Step::Command { args, .. } => {
                    // What was looked at ahead was an earlier command's.
                    (conn.hint, conn.stays) = (None, true);
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
            // Up to where the decoder looks again; where it does not know (a length's line is
            // open), to the line's end.
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

    /// Collects `input` of a long command that goes on to `need` bytes at least. The buffer grows
    /// by more where much has come already. False: there is no room for it.
    fn collect_more(&mut self, need: usize, input: &[u8]) -> bool {
        let Session { conn, decoder, large, .. } = self;
        let new = || {
            let held = Held::new(&conn.known.client, Place::Heap);
            Box::new(Large { bytes: Vec::new(), held })
        };
        let Large { bytes, held } = &mut **large.get_or_insert_with(new);
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

    /// The long command is over. The places of a million arguments are 8 MB: an idle connection
    /// keeps none of it.
    fn forget_large(&mut self) {
        (self.large, self.decoder) = (None, None);
    }

    /// Refuses the command under way, of which `used` bytes of the input are looked at or
    /// collected: it is answered at once, and what comes of it is thrown away.
    #[cold]
    fn refuse(&mut self, why: TooMuch, used: usize, out: &mut Out) -> Turn {
        let text = match why {
            TooMuch::Argument => TOO_LARGE,
            TooMuch::Command => NO_ROOM,
        };
        let Session { face, conn, decoder, large, dropped, .. } = self;
        // Without an argument it is a line, or the head of an array: there is room for these, or
        // the client is to go.
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

    /// Throws away what belongs to a refused command.
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

/// Before the first command: what CLIENT LIST shows as `NULL`.
const NO_COMMAND: u16 = u16::MAX;

/// The buffer for a command's answers.
#[inline]
fn target<'o>(muted: bool, dropped: &'o mut Option<Box<Out>>, out: &'o mut Out) -> &'o mut Out {
    if muted { dropped.get_or_insert_default() } else { out }
}

/// Drops answers that the client does not want.
#[inline]
fn drop_answers(dropped: &mut Option<Box<Out>>) {
    if let Some(dropped) = dropped {
        dropped.clear();
    }
}

/// Runs a command, its answers into `out` or nowhere. False: it has to wait.
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

/// A command has been answered.
#[inline]
fn answered(conn: &mut Conn, muted: bool, out: &mut Out) {
    if muted || conn.gates & gate::HEARS != 0 {
        conn.hear(out.scratch());
    }
    if conn.answers != Answers::On || conn.gates & gate::MUTED != 0 {
        next_answer(conn, out);
    }
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
                conn.hint =
                    first.or_else(|| face.ahead.borrow_mut().take(client, conn.ns, input.len()));
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
        self.decoder.as_ref().map_or(0, |decoder| decoder.kept()) as u64
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
