//! One client's session: parses received bytes, however they are split, into commands.
//!
//! Commands stay in the receive buffer while they run. A command too long for it is collected here,
//! up to its end and no further; the [`Decoder`] examines each byte once.

mod long;

use std::{net::IpAddr, rc::Rc, sync::Arc, sync::atomic::Ordering::Relaxed};

use larder_proto::resp::{self, Args, Decoder, Limits, Owned, Reply, Step, TooMuch, Version};
use serde_json::{Value, json};

use crate::{
    clock::Ms,
    net::{face_name::FaceName, out::Out},
    object::{self, Client, Peer, Sent, Turn, TurnTime, WINDOW, ahead::First},
};

use self::long::{Long, collected};
use super::{
    acl, dispatch,
    job::Progress,
    known::{Known, Text},
    monitor, multi,
    muted::{drop_answers, target},
    on_demand::OnDemand,
    shared::Face,
    state::{Answers, Conn, gate},
    waiting,
};

/// Length from which a command is collected, in bytes.
const LARGE: usize = WINDOW / 2;
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
    /// A command longer than the receive buffer.
    long: Option<Box<Long>>,
    /// Answers that the client suppresses (CLIENT REPLY OFF).
    dropped: Option<Box<Out>>,
    /// The client's permission to connect was checked.
    met: bool,
    /// Keys looked up ahead for the next command.
    first: First,
}

impl Session {
    pub(crate) fn new(face: Rc<Face>, client: Arc<Client>) -> Session {
        let known = Arc::new(Known::new(client, NO_COMMAND));
        face.shared.registry.enter(known.clone());
        let conn = Conn::new(known, &face.shared);
        let (decoder, long, dropped, first) = Default::default();
        Session { face, conn, decoder, long, dropped, met: false, first }
    }

    /// Returns whether the next bytes begin a command.
    fn is_between_commands(&self) -> bool {
        self.long.is_none() && self.conn.running.is_none()
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
        if local || !self.face.shared.acl.is_open() || !config.protected.load(Relaxed) {
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
        let Session { face, conn, decoder, long, dropped, .. } = self;
        let Some(mut running) = conn.running.take() else { return Turn::Used(0) };
        let muted = conn.gates & gate::MUTED != 0;
        let owned = running.owned.take();
        let bytes = collected(long);
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
    if muted || conn.gates & gate::MESSAGES != 0 {
        conn.take_messages(out.scratch());
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
    const FACE: FaceName = FaceName::Redis;

    fn turn(&mut self, input: &[u8], now: Ms, out: &mut Out) -> Turn {
        let first = self.first.take(&self.face.firsts);
        if !self.met && !self.meet(out) {
            return Turn::Close;
        }
        if self.conn.running.is_some() {
            return self.resume(now, out);
        }
        match self.long.as_deref() {
            Some(Long::Collected(_)) => return self.collect(input, now, out),
            Some(Long::Refused(_)) => return self.throw_away(input, out),
            None => {}
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
                    return Turn::Later(0, conn.looks_again(now));
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

    fn passed(&self) -> Option<Value> {
        let conn = &self.conn;
        let plain = conn.gates & !gate::RESTRICTED == 0
            && !conn.closing
            && conn.answers == Answers::On
            && self.is_between_commands()
            && conn.ticket == 0
            && conn.blocked.is_none()
            && !conn.subscribed()
            && !conn.tracks.on
            && conn.multi.bytes() == 0
            && conn.known.flags() == 0;
        let text = conn.known.text.lock();
        let names = [&text.name, &text.user, &text.lib_name, &text.lib_version];
        plain.then(|| json!({"db": conn.db, "resp3": conn.version == Version::V3, "names": names}))
    }

    fn adopt(&mut self, passed: &Value) {
        let conn = &mut self.conn;
        let db = passed["db"].as_u64().and_then(|db| u8::try_from(db).ok()).unwrap_or(0);
        conn.select(db, &self.face.shared);
        if passed["resp3"].as_bool() == Some(true) {
            conn.set_version(Version::V3);
        }
        self.met = true;
        let names: Option<[Vec<u8>; 4]> = serde_json::from_value(passed["names"].clone()).ok();
        if let Some([name, user, lib_name, lib_version]) = names {
            // It was let in, and has authenticated where that was asked for.
            match self.face.shared.acl.slot(&user) {
                Some(slot) => acl::log_in(&self.face.shared, conn, slot),
                // A user that ACL SETUSER made, and nobody saved.
                None => conn.known.client.kill(),
            }
            let text = Text { name, user, lib_name, lib_version };
            if text.bytes() > Text::default().bytes() {
                *conn.known.text.lock() = OnDemand::new(text);
                conn.hold();
            }
        }
    }

    fn fetch(&mut self, input: &[u8]) {
        if let Some((key, _)) = resp::ahead(input).filter(|_| self.is_between_commands()) {
            self.first.fetch(&self.face.firsts, self.face.shared.store, self.conn.ns, key);
        }
    }

    fn fetch_record(&mut self) {
        self.first.fetch_record(&self.face.firsts, self.face.shared.store);
    }

    fn received(&mut self) {
        self.face.ahead.borrow_mut().clear();
    }

    fn kept(&self) -> u64 {
        let decoder = self.decoder.as_ref().filter(|_| self.long.is_none());
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
        match self.long.as_deref() {
            Some(Long::Collected(_)) => self.conn.running.is_none(),
            Some(Long::Refused(_)) => true,
            None => false,
        }
    }

    fn leave(&mut self) -> bool {
        super::conn::pubsub::leave_some(&self.face.shared, &mut self.conn)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.forget_large();
        let shared = &self.face.shared;
        super::conn::tracking::off(shared, &mut self.conn);
        super::conn::pubsub::leave_all(shared, &mut self.conn);
        monitor::leave(shared, &self.conn.known);
        multi::end(&mut self.conn);
        waiting::end(shared, &mut self.conn);
        shared.registry.leave(self.conn.known.id());
    }
}
