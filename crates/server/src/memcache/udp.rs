//! Requests in UDP datagrams (protocol.txt, "UDP protocol").
//!
//! A datagram is a complete request: one or more commands in any of the protocols. Each datagram
//! has a session of its own, so nothing is kept for a sender whose address may be false. As in
//! memcached, requests in more than one datagram and headers without a command are dropped without
//! an answer. Unlike memcached, all answers to a datagram form one message with consecutive
//! sequence numbers, so that a client knows when it is complete.
//!
//! One socket has a turn as a connection has: after 256 commands (`-R`), 256 KiB or about a
//! millisecond of work other sockets are served, also between the datagrams of one answer.
//!
//! UDP senders can forge their address. So an answer is limited ([`MAX_ANSWER`]) to one item of
//! memcached's usual largest size, and UDP is off by default.

use std::{io, net::SocketAddr, rc::Rc, sync::atomic::Ordering::Relaxed, time::Duration};

use larder_proto::memcache::binary::{self, Header, Status};
use tokio::net::UdpSocket;

use super::Face;
use crate::{
    clock::{Clock, Ms},
    net::out::Out,
    object::{self, HIGH_WATER, Peer, Sent, Session as _, Turn, TurnTime},
};

/// Length of the frame header, in bytes.
const FRAME: usize = 8;
/// Longest datagram sent, in bytes: memcached's, below the MTU of Ethernet.
const DATAGRAM: usize = 1400;
/// Bytes of an answer per datagram.
const PAYLOAD: usize = DATAGRAM - FRAME;
/// Most datagrams per answer. A longer answer is replaced by an error in one datagram.
const MAX_DATAGRAMS: usize = 768;
/// Longest answer, in bytes: an item of 1 MiB with its line fits.
const MAX_ANSWER: usize = MAX_DATAGRAMS * PAYLOAD;
const _: () = assert!(MAX_ANSWER > (1 << 20) + 250 + 64);
/// Longest possible datagram, in bytes.
const LONGEST: usize = 64 * 1024;
/// Delay before the next receive after the system ran out of memory or buffers.
const PAUSE: Duration = Duration::from_millis(50);
/// Most bytes of buffer memory kept between requests.
const KEPT: usize = 64 * 1024;

const TOO_LARGE: &[u8] = b"SERVER_ERROR response too large for UDP\r\n";

/// Work for one socket since others had their turn.
#[derive(Default)]
struct Burst {
    commands: usize,
    /// Received and sent.
    bytes: u64,
}

impl Burst {
    /// Returns whether others get their turn now: after `most` commands, as many bytes as one
    /// connection may receive or be sent, or a turn's time.
    fn is_over(&self, most: usize, time: &TurnTime) -> bool {
        self.commands >= most || self.bytes >= HIGH_WATER || time.is_over()
    }

    /// Gives others their turn.
    async fn pause(&mut self, time: &TurnTime) {
        *self = Burst::default();
        tokio::task::yield_now().await;
        time.begin();
    }
}

/// Answers the datagrams of `socket`, for ever.
pub(crate) async fn serve(face: Rc<Face>, socket: UdpSocket, clock: Clock) {
    let local = socket.local_addr().map_or_else(|_| "udp".to_owned(), |at| at.to_string());
    let mut received = vec![0; LONGEST];
    let mut out = Out::default();
    let mut answer = Vec::new();
    let mut burst = Burst::default();
    loop {
        let datagram = match socket.try_recv_from(&mut received) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                burst = Burst::default();
                socket.recv_from(&mut received).await
            }
            datagram => datagram,
        };
        let Ok((len, from)) = datagram else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let most = object::Shared::limits(&*face.shared).commands.max(1);
        // A datagram without a command is work, too.
        burst.commands += 1;
        burst.bytes += len as u64;
        if let Some((id, commands)) = request(&received[..len]) {
            let begun = clock.micros();
            face.stats.datagram.store(clock.at(begun), Relaxed);
            let client = face.shared.clients.enter(Peer::Udp(from), &local, clock.at(begun));
            let mut session = face.session(client.clone()).for_datagram();
            let to = (&mut out, &mut answer);
            execute(&mut session, commands, clock.at(begun), to, (&mut burst, most)).await;
            // A send error loses the answer, as with any datagram.
            let sent = send(&socket, from, id, &answer, (&mut burst, &face.turn_time)).await;
            let written = sent.unwrap_or(0);
            session.sent(Sent { micros: clock.micros() - begun, received: len as u64, written });
            face.shared.clients.leave(&client);
            answer.clear();
            answer.shrink_to(KEPT);
        }
        if burst.is_over(most, &face.turn_time) {
            burst.pause(&face.turn_time).await;
        }
    }
}

/// Returns the request id and the commands of a datagram. None: it is invalid, or part of a longer
/// request.
fn request(datagram: &[u8]) -> Option<(u16, &[u8])> {
    let (&[i0, i1, _sequence0, _sequence1, n0, n1, _reserved0, _reserved1], commands) =
        datagram.split_first_chunk::<FRAME>()?;
    let whole = u16::from_be_bytes([n0, n1]) == 1 && !commands.is_empty();
    whole.then_some((u16::from_be_bytes([i0, i1]), commands))
}

/// Executes the complete commands of `commands` in order. The answers replace the content of
/// `answer`. After `most` commands, and between the steps of a long one, other clients get their
/// turn.
async fn execute(
    session: &mut impl object::Session,
    commands: &[u8],
    now: Ms,
    (out, answer): (&mut Out, &mut Vec<u8>),
    (burst, most): (&mut Burst, usize),
) {
    answer.clear();
    let mut rest = commands;
    session.turn_time().begin();
    loop {
        let turn = session.turn(rest, now, out);
        if answer.len() as u64 + out.pending() > MAX_ANSWER as u64 {
            out.clear();
            return refuse(commands, answer);
        }
        match turn {
            Turn::Used(used) => rest = &rest[used..],
            Turn::Flush(used) | Turn::Again(used) => {
                rest = &rest[used..];
                gather(out, answer);
            }
            Turn::More(_) | Turn::Later(..) | Turn::Close => return gather(out, answer),
        }
        burst.commands += 1;
        let is_step = matches!(turn, Turn::Flush(_) | Turn::Again(_));
        if is_step || burst.is_over(most, session.turn_time()) {
            if burst.commands >= most {
                session.yielded();
            }
            burst.pause(session.turn_time()).await;
        }
    }
}

/// Moves the composed bytes to the end of `answer`.
fn gather(out: &mut Out, answer: &mut Vec<u8>) {
    // memcached's items have no file copies, and memory does not fail.
    let _ = out.send(answer);
}

/// Answers that the answer is too large, in the protocol of the request.
fn refuse(commands: &[u8], answer: &mut Vec<u8>) {
    answer.clear();
    match commands.first_chunk().and_then(Header::read) {
        Some(header) => binary::error(answer, &header, Status::TooLarge),
        None => answer.extend_from_slice(TOO_LARGE),
    }
}

/// Sends `answer` in as many datagrams as needed; none if it is empty. Returns the bytes sent.
async fn send(
    socket: &UdpSocket,
    to: SocketAddr,
    id: u16,
    answer: &[u8],
    (burst, time): (&mut Burst, &TurnTime),
) -> io::Result<u64> {
    let mut written = 0;
    let mut datagram = Vec::with_capacity(DATAGRAM);
    for (sequence, part) in answer.chunks(PAYLOAD).enumerate() {
        datagram.clear();
        frame(&mut datagram, id, sequence, answer.len().div_ceil(PAYLOAD));
        datagram.extend_from_slice(part);
        let sent = socket.send_to(&datagram, to).await? as u64;
        written += sent;
        burst.bytes += sent;
        if burst.is_over(usize::MAX, time) {
            burst.pause(time).await;
        }
    }
    Ok(written)
}

/// Writes the frame of datagram `sequence` of `total`; both are at most [`MAX_DATAGRAMS`].
fn frame(into: &mut Vec<u8>, id: u16, sequence: usize, total: usize) {
    for field in [id, sequence as u16, total as u16, 0] {
        into.extend_from_slice(&field.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Answers each byte with a reply; `w` with three parts of 100 KiB.
    #[derive(Default)]
    struct Echo {
        long: u32,
        turn_time: TurnTime,
    }

    impl object::Session for Echo {
        const FACE: crate::net::face_name::FaceName = crate::net::face_name::FaceName::Memcached;

        fn turn(&mut self, input: &[u8], _now: Ms, out: &mut Out) -> Turn {
            match input.first() {
                None => Turn::More(0),
                Some(b'w') if out.pending() > 0 => Turn::Flush(0),
                Some(b'w') => {
                    out.scratch().extend_from_slice(&[b'W'; 100 << 10]);
                    self.long += 1;
                    if self.long == 3 { Turn::Used(1) } else { Turn::Flush(0) }
                }
                Some(b'!') => {
                    out.scratch().extend_from_slice(&vec![b'!'; MAX_ANSWER + 1]);
                    Turn::Used(1)
                }
                Some(b'q') => Turn::Close,
                Some(byte) => {
                    out.scratch().push(byte.to_ascii_uppercase());
                    Turn::Used(1)
                }
            }
        }

        fn turn_time(&self) -> &TurnTime {
            &self.turn_time
        }

        fn fetch(&mut self, _input: &[u8]) {}

        fn fetch_record(&mut self) {}

        fn awaits(&self) -> bool {
            false
        }

        fn received(&mut self) {}

        fn sent(&mut self, _: Sent) {}
    }

    fn answered(commands: &[u8]) -> Vec<u8> {
        let (mut out, mut answer) = (Out::default(), b"left over".to_vec());
        let mut burst = Burst::default();
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let to = (&mut out, &mut answer);
        let mut echo = Echo::default();
        let executed = execute(&mut echo, commands, 0, to, (&mut burst, usize::MAX));
        runtime.block_on(executed);
        assert!(out.is_empty());
        answer
    }

    /// Runs `work` beside a task that counts its own turns; returns how many it had.
    fn turns_of_others(work: impl Future<Output = ()>) -> usize {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let turns = Rc::<Cell<usize>>::default();
        let counted = turns.clone();
        tokio::task::LocalSet::new().block_on(&runtime, async move {
            tokio::task::spawn_local(async move {
                loop {
                    counted.set(counted.get() + 1);
                    tokio::task::yield_now().await;
                }
            });
            work.await;
        });
        turns.get()
    }

    #[test]
    fn a_flood_of_commands_gives_others_their_turn() {
        // In one datagram, and in many of one command each.
        for (datagrams, commands) in [(1, 25_600), (25_600, 1)] {
            let turns = turns_of_others(async {
                let (mut out, mut answer, mut burst) = Default::default();
                let mut session = Echo::default();
                for _ in 0..datagrams {
                    let (commands, to) = (vec![b'a'; commands], (&mut out, &mut answer));
                    execute(&mut session, &commands, 0, to, (&mut burst, 256)).await;
                }
            });
            assert!(turns >= 100, "{turns} of {datagrams} datagrams");
        }
    }

    #[test]
    fn requests() {
        assert_eq!(request(b"\x12\x34\0\0\0\x01\0\0get a\r\n"), Some((0x1234, &b"get a\r\n"[..])));
        assert_eq!(request(b"\x12\x34\0\x01\0\x01\0\x07x"), Some((0x1234, &b"x"[..])));
        assert_eq!(request(b"\x12\x34\0\0\0\x02\0\0get a\r\n"), None, "a part of a request");
        assert_eq!(request(b"\x12\x34\0\0\0\0\0\0get a\r\n"), None);
        assert_eq!(request(b"\x12\x34\0\0\0\x01\0\0"), None, "nothing asked");
        assert_eq!(request(b"abc"), None);
    }

    #[test]
    fn all_answers_to_a_datagram_are_one() {
        assert_eq!(answered(b"abc"), b"ABC");
        assert_eq!(answered(b"abqc"), b"AB");
        assert_eq!(answered(b""), b"");
    }

    #[test]
    fn a_long_answer_is_gathered() {
        let answer = answered(b"awb");
        assert_eq!(answer.len(), 2 + 3 * (100 << 10));
        assert_eq!((answer[0], answer[answer.len() - 1]), (b'A', b'B'));
    }

    #[test]
    fn too_long_an_answer_is_refused_in_the_protocol_of_the_request() {
        assert_eq!(answered(b"ab!c"), TOO_LARGE);
        assert_eq!(answered(b"wwww!"), TOO_LARGE);
        let mut commands = b"\x80\x0c\0\0\0\0\0\0\0\0\0\0\x01\x02\x03\x04\0\0\0\0\0\0\0\0".to_vec();
        commands.push(b'!');
        let answer = answered(&commands);
        assert!(
            answer.starts_with(b"\x81\x0c\0\0\0\0\0\x03\0\0\0\x0a\x01\x02\x03\x04"),
            "{answer:?}"
        );
    }

    #[test]
    fn datagrams_are_numbered() {
        let mut bytes = Vec::new();
        frame(&mut bytes, 0x1234, 2, 767);
        assert_eq!(bytes, [0x12, 0x34, 0, 2, 2, 255, 0, 0]);
    }
}
