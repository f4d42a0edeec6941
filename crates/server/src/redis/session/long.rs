//! Commands longer than the receive buffer: collected up to their end, or refused and thrown away.

use larder_proto::resp::{Rest, Step, TooMuch, table};

use super::{
    super::{
        freed::free_elsewhere,
        muted::{drop_answers, target},
        state::gate,
    },
    Session, answered, dispatch, run,
};
use crate::{
    clock::Ms,
    net::out::Out,
    object::Turn,
    room::{Held, Place},
};

/// Minimum growth of the buffer for a long command. Otherwise it grows with the received bytes,
/// never with the announced length.
const GROWTH: usize = 4096;
/// Arguments collected in a microsecond.
const ARGUMENTS: u64 = 4;
/// A collected command of so many bytes gets addresses for the rest of it at once. To copy what was
/// collected into a larger buffer would hold up other clients, and addresses take no memory before
/// bytes are written there.
const IN_PLACE: usize = 4 << 20;
/// The least of these addresses, in bytes.
const ADDRESSES: usize = 64 * IN_PLACE;
/// The system may give memory in parts of this size.
const HUGE_PAGE: usize = 2 << 20;

/// Answer if there is no memory for a command (Redis: a write when the memory is full).
const NO_ROOM: &str = "OOM command not allowed when used memory > 'maxmemory'.";
/// Answer to an announced argument that is too long for any use.
const TOO_LARGE: &str = "ERR value is larger than the largest item this server stores";

/// A command longer than the receive buffer.
pub(super) enum Long {
    /// As received so far.
    Collected(Large),
    /// The outstanding part of a refused command.
    Refused(Rest),
}

/// A long command in collection.
pub(super) struct Large {
    bytes: Vec<u8>,
    /// The command is complete and decoded; it waits to be executed.
    whole: bool,
    held: Held,
}

impl Session {
    /// Continues the collection of a long command: takes its bytes from `input`.
    pub(super) fn collect(&mut self, input: &[u8], now: Ms, out: &mut Out) -> Turn {
        let limits = self.limits();
        let (mut used, mut arguments) = (0, 0);
        loop {
            let Session { face, conn, decoder, long, dropped, .. } = self;
            let Some(Long::Collected(large)) = long.as_deref_mut() else {
                return Turn::Used(used);
            };
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
                    if let Some(text) = dispatch::overlong(&args) {
                        let muted = conn.gates & gate::MUTED != 0;
                        let (command, out) = (table::find(args.get(0)), &mut *out);
                        dispatch::refuse(face, conn, command, text, target(muted, dropped, out));
                        drop_answers(dropped);
                        answered(conn, muted, out);
                    } else if !run(face, conn, &args, now, out, dropped) {
                        return Turn::Later(used, conn.looks_again(now));
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
                self.face.turn_time.took(arguments / ARGUMENTS);
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
            arguments += 1;
        }
    }

    /// Collects `input` for a long command that needs at least `need` bytes. The memory in use
    /// grows in proportion to the received bytes. False: there is no memory.
    pub(super) fn collect_more(&mut self, need: usize, input: &[u8]) -> bool {
        let Session { conn, decoder, long, .. } = self;
        let new = || {
            let held = Held::new(&conn.known.client.holder, Place::Heap);
            Box::new(Long::Collected(Large { bytes: Vec::new(), whole: false, held }))
        };
        let Long::Collected(Large { bytes, held, .. }) = &mut **long.get_or_insert_with(new) else {
            return false;
        };
        let kept = decoder.as_ref().map_or(0, |decoder| decoder.kept());
        let len = bytes.len() + input.len();
        if bytes.capacity() < len {
            let wanted = capacity(len, need);
            if len < IN_PLACE && !held.resize((wanted + kept) as u64) {
                return false;
            }
            let mut reserve = |most: usize| bytes.try_reserve_exact(most - bytes.len()).is_ok();
            // A system that promises no more than it has may have fewer addresses.
            if !reserve(wanted) && !reserve(len * 2) {
                return false;
            }
        }
        if len >= IN_PLACE && !held.resize((len.next_multiple_of(HUGE_PAGE) + kept) as u64) {
            return false;
        }
        bytes.extend_from_slice(input);
        true
    }

    /// Frees a long command. The positions of a million arguments take 8 MB: an idle connection
    /// keeps none of it.
    pub(super) fn forget_large(&mut self) {
        let long = self.long.take();
        if collected(&long).len() >= IN_PLACE {
            free_elsewhere(long);
        }
        self.decoder = None;
    }

    /// Refuses the current command, of which `used` bytes of the input are examined or collected.
    /// It is answered at once, and its outstanding bytes are discarded.
    #[cold]
    pub(super) fn refuse(&mut self, why: TooMuch, used: usize, out: &mut Out) -> Turn {
        let text = match why {
            TooMuch::Argument => TOO_LARGE,
            TooMuch::Command => NO_ROOM,
        };
        let Session { face, conn, decoder, long, dropped, .. } = self;
        // Without an argument it is a line or the head of an array: there is memory for it, or the
        // client must be disconnected.
        let decoder = decoder.get_or_insert_default();
        let Some((at, mut rest)) = decoder.give_up() else { return Turn::Close };
        let bytes = collected(long);
        let collected = rest.take(bytes.get(at..).unwrap_or_default());
        let at = if bytes.is_empty() { at } else { used };
        let muted = conn.gates & gate::MUTED != 0;
        dispatch::refuse(face, conn, None, text, target(muted, dropped, out));
        drop_answers(dropped);
        answered(conn, muted, out);
        self.forget_large();
        match collected {
            Ok((_, ended)) => {
                self.long = (!ended).then(|| Box::new(Long::Refused(rest)));
                self.after(at)
            }
            Err(text) => self.broken(&text, out),
        }
    }

    /// Discards the bytes of a refused command.
    pub(super) fn throw_away(&mut self, input: &[u8], out: &mut Out) -> Turn {
        let Some(Long::Refused(rest)) = self.long.as_deref_mut() else { return Turn::Used(0) };
        match rest.take(input) {
            Ok((used, ended)) => {
                if ended {
                    self.long = None;
                }
                Turn::Used(used)
            }
            Err(text) => self.broken(&text, out),
        }
    }
}

/// The capacity for a command of which `len` bytes have come, and which has `need` at the least.
fn capacity(len: usize, need: usize) -> usize {
    let doubled = (len * 2).max(GROWTH);
    match need {
        _ if len >= IN_PLACE => need.max(ADDRESSES).max(doubled),
        // No more than it has, where that is known.
        _ if need > len => need.min(doubled),
        _ => doubled,
    }
}

/// The bytes of a command in collection.
pub(super) fn collected(long: &Option<Box<Long>>) -> &[u8] {
    match long.as_deref() {
        Some(Long::Collected(large)) => &large.bytes,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command that comes in pieces is copied a few times, however long it becomes.
    #[test]
    fn capacities_grow_by_factors() {
        for need in [0, 100, 30_000_000, 1 << 30] {
            let (mut len, mut held, mut copies) = (1, 0, 0);
            while len < 3 << 30 {
                if held < len {
                    held = capacity(len, if need > len { need } else { 0 });
                    assert!(held >= len, "{len} of {need}: {held}");
                    copies += 1;
                }
                len += 64 * 1024;
            }
            assert!(copies < 20, "{copies} copies with {need}");
        }
        assert_eq!(capacity(5000, 6000), 6000, "no more than the command has");
        assert!(capacity(5000, 1 << 30) <= 10_000, "not by what was announced");
    }
}
