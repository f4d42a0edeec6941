//! The streams of a connection: their states, windows and turns (RFC 9113 sections 5.1 and 5.2, RFC
//! 9218 section 10).

use super::MAX_31_BITS;
use crate::pseudo::Priority;

/// An open stream. Idle and closed ones have no entry.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: u32,
    /// Bytes that the client may still send; negative after a smaller setting.
    pub(super) receive: i32,
    /// Bytes that may be sent; negative after a smaller setting (section 6.9.2).
    pub(super) send: i32,
    /// Bytes given to the caller and not consumed yet.
    pub(super) unconsumed: u32,
    /// Bytes consumed that no WINDOW_UPDATE gave back yet.
    pub(super) credit: u32,
    /// Turn in which an incremental stream sent last.
    turn: u32,
    /// Bytes of the body that are still to come, if its length was announced.
    pub(super) left: Option<u64>,
    pub(super) priority: Priority,
    /// The client ended its side: half-closed (remote).
    pub(super) remote_closed: bool,
    /// The response is complete: half-closed (local).
    pub(super) local_closed: bool,
    /// The caller has bytes to send.
    wants: bool,
}

/// The reason why a stream is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closed {
    /// It was reset here: frames of it may be on their way.
    ResetHere,
    /// The client reset it.
    ResetByPeer,
    /// Both sides ended it.
    Ended,
    /// It was never used, or so long ago that nothing is remembered.
    Unknown,
}

/// Streams that are remembered after a reset from here. Frames that the client sent before it knew
/// are ignored; beyond these streams they are answered with another reset.
const RESETS_REMEMBERED: usize = 12;
/// Streams that are remembered after another end, for the code of the error alone.
const ENDS_REMEMBERED: usize = 4;

/// All open streams, and a memory of the last closed ones.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// Number of each stream in `list`: a search reads this memory alone.
    ids: Vec<u32>,
    list: Vec<Stream>,
    /// Largest number that the client used.
    pub(super) last: u32,
    /// Number of streams that want to send.
    wanting: u32,
    /// Turns taken so far.
    turns: u32,
    /// The last turn of a stream that is not incremental.
    ordered_turn: u32,
    resets: [u32; RESETS_REMEMBERED],
    /// The lowest bit, which is set in all numbers of clients' streams, is 0 after a reset.
    ends: [u32; ENDS_REMEMBERED],
    closed: u16,
}

impl Streams {
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Bytes of memory behind the streams.
    pub(super) fn memory(&self) -> usize {
        self.ids.capacity() * size_of::<u32>() + self.list.capacity() * size_of::<Stream>()
    }

    /// Frees the memory if no stream is open.
    pub(super) fn rest(&mut self) {
        if self.list.is_empty() {
            (self.ids, self.list) = (Vec::new(), Vec::new());
        }
    }

    #[inline]
    fn place(&self, id: u32) -> Option<usize> {
        self.ids.iter().rposition(|&open| open == id)
    }

    #[inline]
    pub(super) fn get(&self, id: u32) -> Option<&Stream> {
        self.list.get(self.place(id)?)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut Stream> {
        let place = self.place(id)?;
        self.list.get_mut(place)
    }

    /// Opens a stream with its two windows.
    pub(super) fn open(
        &mut self,
        id: u32,
        receive: i32,
        send: i32,
        priority: Priority,
    ) -> &mut Stream {
        self.ids.push(id);
        self.list.push(Stream {
            id,
            receive,
            send,
            unconsumed: 0,
            credit: 0,
            turn: self.turns,
            left: None,
            priority,
            remote_closed: false,
            local_closed: false,
            wants: false,
        });
        let last = self.list.len() - 1;
        &mut self.list[last]
    }

    /// Removes a stream and remembers why.
    pub(super) fn close(&mut self, id: u32, why: Closed) -> Option<Stream> {
        let n = usize::from(self.closed);
        self.closed = self.closed.wrapping_add(1);
        match why {
            Closed::ResetHere => self.resets[n % RESETS_REMEMBERED] = id,
            Closed::ResetByPeer => self.ends[n % ENDS_REMEMBERED] = id & !1,
            Closed::Ended => self.ends[n % ENDS_REMEMBERED] = id,
            Closed::Unknown => {}
        }
        let place = self.place(id)?;
        self.ids.swap_remove(place);
        let stream = self.list.swap_remove(place);
        self.wanting -= u32::from(stream.wants);
        Some(stream)
    }

    /// Whether the client has not used this number: it is idle (section 5.1.1). Even numbers are of
    /// streams that this server never opens.
    pub(super) fn is_idle(&self, id: u32) -> bool {
        id > self.last || id.is_multiple_of(2)
    }

    /// The reason why a stream that is neither open nor idle is closed.
    pub(super) fn closed(&self, id: u32) -> Closed {
        if self.resets.contains(&id) {
            Closed::ResetHere
        } else if self.ends.contains(&id) {
            Closed::Ended
        } else if self.ends.contains(&(id & !1)) {
            Closed::ResetByPeer
        } else {
            Closed::Unknown
        }
    }

    /// Says whether the caller has bytes to send on a stream.
    pub(super) fn set_wants(&mut self, id: u32, wants: bool) {
        let Some(place) = self.place(id) else { return };
        let before = std::mem::replace(&mut self.list[place].wants, wants);
        self.wanting = self.wanting + u32::from(wants) - u32::from(before);
    }

    /// Whether a stream wants to send and its window is open.
    pub(super) fn any_ready(&self) -> bool {
        self.wanting > 0 && self.list.iter().any(Stream::is_ready)
    }

    /// The stream that sends next: the most urgent; among equals, those that are not incremental
    /// one after the other in the order of their numbers, and incremental ones in turn with these
    /// and each other.
    pub(super) fn next(&self) -> Option<u32> {
        if self.wanting == 0 {
            return None;
        }
        let ready = self.list.iter().filter(|stream| stream.is_ready());
        ready.min_by_key(|stream| self.rank(stream)).map(|stream| stream.id)
    }

    fn rank(&self, stream: &Stream) -> (u8, u32, u32) {
        let Priority { urgency, incremental } = stream.priority;
        let turn = if incremental { stream.turn } else { self.ordered_turn };
        (urgency, turn, stream.id)
    }

    /// Notes that a stream had its turn.
    pub(super) fn took_turn(&mut self, id: u32) {
        self.turns = self.turns.wrapping_add(1);
        let turn = self.turns;
        let Some(place) = self.place(id) else { return };
        let stream = &mut self.list[place];
        if stream.priority.incremental {
            stream.turn = turn;
        } else {
            self.ordered_turn = turn;
        }
    }

    /// Changes the send windows of all streams (section 6.9.2). False: one would be above 2^31-1.
    pub(super) fn change_send_windows(&mut self, by: i64) -> bool {
        self.list.iter_mut().all(|stream| change(&mut stream.send, by))
    }

    /// Changes the receive windows of all streams.
    pub(super) fn change_receive_windows(&mut self, by: i64) {
        for stream in &mut self.list {
            change(&mut stream.receive, by);
        }
    }
}

impl Stream {
    fn is_ready(&self) -> bool {
        self.wants && self.send > 0
    }
}

/// Adds to a window, which may become negative and must not be above 2^31-1 (section 6.9.1).
pub(super) fn change(window: &mut i32, by: i64) -> bool {
    let changed = i64::from(*window) + by;
    if changed > i64::from(MAX_31_BITS) {
        return false;
    }
    *window = i32::try_from(changed).unwrap_or(i32::MIN);
    true
}
