//! The looks of a connection: events, deadlines, its end.

use std::{rc::Rc, time::Instant};

use larder_proto::{
    http::Version,
    http3::{self, ConnectionError, ErrorCode},
};
use quinn_proto::{Connection, ConnectionError as Lost, Dir, Event, VarInt};

use super::{CONNECTION_WINDOW, Open, Session, var};
use crate::{
    clock::Ms,
    http::streams::Turn,
    net::{
        quic::{self, Look},
        socket::{Ended, STALLED_AFTER, Watch},
        tls::TlsFailure,
    },
    request::pages::Config,
};

/// Milliseconds between two ticks of the codec.
const TICK: Ms = 1000;
/// Bytes of a stream that may have been read, and allowed for anew, while the rest of it waits.
const STREAM_CREDIT: u64 = 32 * 1024;
/// The largest number of a stream with a request, rounded up to one (RFC 9114 section 5.2).
const LAST_STREAM: u64 = (1 << 62) - 4;
/// Milliseconds that requests on their way have at least when the server stops.
const GRACE: Ms = 50;

/// The wait that a connection is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// The handshake is under way.
    #[default]
    Handshake,
    /// Requests are with their tasks, or on their way.
    Busy,
    /// A request's head is still to come.
    Head,
    /// The client has to take what was composed.
    Sending,
    /// No request is open.
    Idle,
}

/// Steps of closing a connection in order (RFC 9114 section 5.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Drain {
    #[default]
    No,
    /// The client was told that the end comes; until then its requests are taken.
    Announced(Ms),
    /// The client was told the last request.
    Final,
}

/// The end of a connection: the code and the reason for its client; None: it is lost already.
type Over = Option<(ErrorCode, &'static str)>;

impl quic::Session for Session {
    const INTERNAL_ERROR: VarInt = VarInt::from_u32(ErrorCode::INTERNAL_ERROR.0 as u32);
    const NO_ERROR: VarInt = VarInt::from_u32(ErrorCode::NO_ERROR.0 as u32);

    fn watch(&self) -> &Rc<Watch> {
        self.open.watch()
    }

    fn look(&mut self, quic: &mut Connection, now: Instant) -> Look {
        let config = self.worker.pages.config();
        let over = match self.work(quic, &config) {
            Ok(true) => return Look::Again,
            Ok(false) => return Look::Rest,
            Err(over) => over,
        };
        if let Some((code, reason)) = over {
            quic.close(now, var(code), reason.as_bytes().to_vec().into());
        }
        Look::Over
    }
}

impl Session {
    /// Does what is to be done. True: there is more.
    fn work(&mut self, quic: &mut Connection, config: &Rc<Config>) -> Result<bool, Over> {
        let worker = self.worker.clone();
        let since = worker.pages.clock.micros();
        let now = worker.pages.clock.at(since);
        self.now = now;
        if let Err(ended) = self.open.watch().check() {
            self.ended(quic, config, &ended)?;
        }
        self.tick(quic, config);
        let (mut timing, mut scratch) =
            (worker.timing.take(), worker.h3.take().unwrap_or_default());
        let mut turn =
            Turn { worker: &worker, config, peer: self.peer.clone(), since, timing: &mut timing };
        let most = config.settings.http.limits.pipeline;
        let mut look = || {
            self.events(quic)?;
            let more = self.receive(quic, &mut turn, &mut scratch, most).map_err(Some);
            more.map_err(|error| error.map(|error| self.failed(&error)))
        };
        let more = look();
        worker.h3.set(Some(scratch));
        let more = more?;
        self.take_mail();
        self.pump(quic);
        let ended = worker.pages.clock.micros();
        timing.settle(&config.counted, worker.pages.counters.times(Version::Http3), ended);
        worker.timing.set(timing);
        self.drain(quic, now)?;
        self.flush_control(quic)?;
        self.account(quic)?;
        self.rest(config, now)?;
        Ok(more
            || self.streams.iter().any(|open| open.readable && open.unread < super::BODY_WINDOW))
    }

    /// Takes the events of QUIC.
    fn events(&mut self, quic: &mut Connection) -> Result<(), Over> {
        while let Some(event) = quic.poll() {
            match event {
                Event::Connected => self.connected(quic)?,
                Event::ConnectionLost { reason } => {
                    let counters = &self.worker.pages.counters;
                    match reason {
                        _ if self.phase != Phase::Handshake => {}
                        Lost::TransportError(_) => {
                            counters.tls_failures.one(TlsFailure::Incompatible)
                        }
                        Lost::ConnectionClosed(_) => {
                            counters.tls_failures.one(TlsFailure::RefusedByClient);
                        }
                        _ => {}
                    }
                    return Err(None);
                }
                Event::Stream(event) => {
                    self.event(quic, event).map_err(|error| Some(self.failed(&error)))?;
                }
                Event::HandshakeDataReady | Event::DatagramReceived | Event::DatagramsUnblocked => {
                }
            }
        }
        Ok(())
    }

    /// The handshake is done: our control stream begins.
    fn connected(&mut self, quic: &mut Connection) -> Result<(), Over> {
        self.worker.pages.counters.tls_handshakes.one();
        self.worker.pages.counters.http3_connections.one();
        self.phase = Phase::Busy;
        self.open.watch().forgive();
        let client = self.peer.address.ip();
        if !self.worker.count_client(&mut self.open, client) {
            self.worker.pages.counters.connections.refused.one();
            return Err(Some((ErrorCode::EXCESSIVE_LOAD, "the client has too many connections")));
        }
        self.before = received(quic);
        self.control = quic.streams().open(Dir::Uni);
        if self.control.is_none() {
            return Err(Some((ErrorCode::GENERAL_PROTOCOL_ERROR, "no stream for our settings")));
        }
        http3::Connection::open(&self.limits, &mut self.control_out);
        Ok(())
    }

    /// A fault of the client ends the connection.
    fn failed(&self, error: &ConnectionError) -> (ErrorCode, &'static str) {
        let counters = &self.worker.pages.counters;
        if error.code == ErrorCode::EXCESSIVE_LOAD {
            counters.http3_floods.one();
        } else {
            counters.http3_errors.one();
        }
        (error.code, error.reason)
    }

    /// Halves the counter of what is done in vain once a second, and looks for streams that stand
    /// still.
    fn tick(&mut self, quic: &mut Connection, config: &Config) {
        let ticks = (self.now.saturating_sub(self.ticked) / TICK).min(32);
        if ticks > 0 {
            (0..ticks).for_each(|_| self.codec.tick());
            self.ticked = self.now;
            let patience = config.settings.http.limits.send_timeout.as_millis() as Ms;
            self.reset_stalled(quic, patience);
        }
    }

    /// Writes what there is of our control stream.
    fn flush_control(&mut self, quic: &mut Connection) -> Result<(), Over> {
        let Some(control) = self.control.filter(|_| !self.control_out.is_empty()) else {
            return Ok(());
        };
        match quic.send_stream(control).write(&self.control_out) {
            Ok(written) => drop(self.control_out.drain(..written)),
            Err(quinn_proto::WriteError::Blocked) => {}
            Err(_) => {
                return Err(Some((
                    ErrorCode::CLOSED_CRITICAL_STREAM,
                    "our control stream is closed",
                )));
            }
        }
        Ok(())
    }

    /// The steps of the server's end.
    fn drain(&mut self, quic: &Connection, now: Ms) -> Result<(), Over> {
        if !self.worker.draining() {
            return Ok(());
        }
        let done = self.streams.is_empty() && self.unacknowledged.is_empty();
        match self.drain {
            _ if self.phase == Phase::Handshake => Err(Some((ErrorCode::NO_ERROR, "the end"))),
            Drain::No => {
                http3::Connection::leave(LAST_STREAM, &mut self.control_out);
                let round_trip = quic.rtt().as_millis() as Ms;
                self.drain = Drain::Announced(now + (2 * round_trip).max(GRACE));
                Ok(())
            }
            Drain::Announced(until) if now >= until => {
                self.accept_until = self.next;
                http3::Connection::leave(self.next, &mut self.control_out);
                self.drain = Drain::Final;
                Ok(())
            }
            Drain::Announced(_) => Ok(()),
            Drain::Final if done && self.control_out.is_empty() => {
                Err(Some((ErrorCode::NO_ERROR, "the end")))
            }
            Drain::Final => Ok(()),
        }
    }

    /// Counts the memory that the client makes the server hold.
    fn account(&mut self, quic: &Connection) -> Result<(), Over> {
        let incoming: usize = self.streams.iter().map(|open| open.incoming.memory()).sum();
        let composed: u64 = self.streams.iter().map(Open::composed).sum();
        let by_quic = self.held_by_quic() + self.unread_by_quic(received(quic));
        let held = self.mail.unread() + incoming + (composed + by_quic) as usize;
        if self.open.watch().receives(&self.worker.pages.shared.room, held) {
            Ok(())
        } else {
            Err(Some((ErrorCode::EXCESSIVE_LOAD, "there is no memory")))
        }
    }

    /// About the bytes of streams that QUIC holds because others have to come before them, which it
    /// does not tell: what was received since the handshake, less what was read, and less a head
    /// for each datagram.
    fn unread_by_quic(&mut self, received: u64) -> u64 {
        let most = u64::from(CONNECTION_WINDOW) + STREAM_CREDIT * self.streams.len() as u64;
        let Some(unread) = received.checked_sub(self.before + self.read) else {
            // Heads that are smaller than assumed must not hide what is unread later.
            (self.before, self.read) = (received, 0);
            return 0;
        };
        unread.min(most)
    }

    /// Sets the deadline of what is waited for.
    fn rest(&mut self, config: &Config, now: Ms) -> Result<(), Over> {
        let waits = self.wait(config, now);
        self.open.watch().set_owes(matches!(self.phase, Phase::Sending | Phase::Head));
        waits
    }

    fn wait(&mut self, config: &Config, now: Ms) -> Result<(), Over> {
        let limits = &config.settings.http.limits;
        let (watch, stalled) = (self.open.watch(), &self.worker.conns.shared.stalled);
        if self.phase == Phase::Handshake {
            return Ok(());
        }
        let first = self.streams.iter().filter(|open| !open.has_begun()).map(|open| open.since);
        let patience = limits.header_timeout.as_millis() as Ms;
        let head = first.min().map_or(Ms::MAX, |since| since + patience);
        if let Drain::Announced(until) = self.drain {
            self.phase = Phase::Busy;
            watch.busy();
            watch.until(until.min(head));
            return Ok(());
        }
        if self.unsent() > 0 {
            self.phase = Phase::Sending;
            watch.busy();
            let streams = &self.streams;
            let pinned = || pinned(streams, now);
            let patience = limits.send_timeout.as_millis() as Ms;
            return match self.stall.wait(self.sent, pinned, now, patience, stalled) {
                Some(deadline) => {
                    watch.until(deadline.min(head));
                    Ok(())
                }
                None => Err(Some(self.timed_out())),
            };
        }
        self.stall.release(stalled);
        if head < Ms::MAX {
            self.phase = Phase::Head;
            watch.busy();
            watch.until(head);
        } else if !self.streams.is_empty() || self.drain == Drain::Final {
            self.phase = Phase::Busy;
            watch.busy();
        } else if self.phase != Phase::Idle {
            self.phase = Phase::Idle;
            watch.wait_idle(now + limits.idle_timeout.as_millis() as Ms);
        }
        Ok(())
    }

    /// The client did not take what it asked for.
    fn timed_out(&self) -> (ErrorCode, &'static str) {
        self.worker.pages.counters.timeouts.send.one();
        (ErrorCode::REQUEST_CANCELLED, "the answers were not taken in time")
    }

    /// Ends the streams whose heads have not come in time.
    fn end_heads(&mut self, quic: &mut Connection, config: &Config) -> Result<(), Over> {
        let patience = config.settings.http.limits.header_timeout.as_millis() as Ms;
        let now = self.now;
        let late = self.end_streams(quic, |open| !open.has_begun() && now >= open.since + patience);
        for _ in 0..late {
            self.worker.pages.counters.timeouts.header.one();
        }
        let counted = self.codec.in_vain(late as u32, &self.limits);
        counted.map_err(|error| Some(self.failed(&error)))
    }

    /// A deadline has passed, the server stops, or the memory is needed for others.
    fn ended(&mut self, quic: &mut Connection, config: &Config, ended: &Ended) -> Result<(), Over> {
        if let (Ended::TimedOut, true) = (ended, self.phase != Phase::Handshake) {
            self.end_heads(quic, config)?;
        }
        let now = self.now;
        let (watch, stalled) = (self.open.watch(), &self.worker.conns.shared.stalled);
        match (ended, self.phase) {
            (Ended::Closed, _) => Err(Some((ErrorCode::EXCESSIVE_LOAD, "there is no memory"))),
            // The steps of the end follow.
            (Ended::Drained, _) => {
                watch.forgive();
                Ok(())
            }
            (Ended::TimedOut, _) if matches!(self.drain, Drain::Announced(_)) => {
                watch.forgive();
                Ok(())
            }
            (Ended::TimedOut, Phase::Sending) => {
                watch.forgive();
                match self.stall.look(pinned(&self.streams, now), now, stalled) {
                    Some(deadline) => {
                        watch.until(deadline);
                        Ok(())
                    }
                    None => Err(Some(self.timed_out())),
                }
            }
            (Ended::TimedOut, Phase::Handshake) => {
                self.worker.pages.counters.timeouts.header.one();
                Err(Some((ErrorCode::REQUEST_CANCELLED, "the request took too long")))
            }
            (Ended::TimedOut, Phase::Idle) => Err(Some((ErrorCode::NO_ERROR, "idle for too long"))),
            (Ended::TimedOut, Phase::Busy | Phase::Head) => {
                watch.forgive();
                Ok(())
            }
        }
    }
}

/// Bytes of the store that answers hold that stand still.
fn pinned(streams: &[Open], now: Ms) -> u64 {
    let stands = |open: &&Open| open.stands(now) >= STALLED_AFTER;
    streams.iter().filter(stands).map(Open::pinned).sum()
}

/// Bytes received, without the heads of datagrams, or about that.
pub(super) fn received(quic: &Connection) -> u64 {
    /// The least: a short header with our ID, and the tag of the encryption.
    const HEAD: u64 = 30;
    /// About that of an acknowledgement: a client that only receives is not to seem to send. One
    /// for each datagram counts, as many small ones would hide what came with them.
    const ACK: u64 = 10;
    let stats = quic.stats();
    let datagrams = stats.udp_rx.datagrams;
    let heads = HEAD * datagrams + ACK * stats.frame_rx.acks.min(datagrams);
    stats.udp_rx.bytes.saturating_sub(heads)
}
