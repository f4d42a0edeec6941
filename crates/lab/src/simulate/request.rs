//! A request of a simulated trace: keys are numbers, times are the trace's.

use crate::load::Verb;

/// The object is not read again before it is overwritten or deleted.
pub(crate) const NEVER: u32 = u32::MAX;

/// Longest time to live in seconds (34 years); longer ones are unlimited, as two bits of the field
/// hold the verb.
pub(crate) const MAX_TTL: u32 = (1 << 30) - 1;

/// Longest trace in milliseconds (136 years): seconds are kept in 32 bits, and sums do not
/// overflow.
pub(crate) const MAX_TIME: u64 = u32::MAX as u64 * 1000;

/// 24 bytes, as a trace has many millions of them in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Milliseconds since the start of the trace.
    pub(crate) at: u64,
    /// Number of the object, from 0 without gaps.
    pub(crate) id: u32,
    /// Bytes of key and value.
    pub(crate) size: u32,
    /// Index of the next read of this object that a stored copy could serve, or [`NEVER`].
    pub(crate) next: u32,
    ttl_verb: u32,
}

impl Request {
    pub(crate) fn new(at: u64, id: u32, size: u32, ttl: u32, verb: Verb) -> Request {
        let verb = match verb {
            Verb::Get | Verb::Head => 0,
            Verb::Set => 1,
            Verb::Delete => 2,
        };
        Request { at, id, size, next: NEVER, ttl_verb: ttl.min(MAX_TTL) << 2 | verb }
    }

    /// Time to live in seconds; 0: no limit.
    #[inline]
    pub(crate) fn ttl(&self) -> u32 {
        self.ttl_verb >> 2
    }

    /// Expiry in milliseconds of trace time; `u64::MAX`: never.
    #[inline]
    pub(crate) fn expires(&self) -> u64 {
        match self.ttl() {
            0 => u64::MAX,
            ttl => self.at + u64::from(ttl) * 1000,
        }
    }

    #[inline]
    pub(crate) fn verb(&self) -> Verb {
        match self.ttl_verb & 3 {
            0 => Verb::Get,
            1 => Verb::Set,
            _ => Verb::Delete,
        }
    }
}

/// Sets the next read of every request, walking from the end.
pub(crate) fn look_ahead(requests: &mut [Request], ids: usize) {
    let mut next = vec![NEVER; ids];
    for (at, request) in requests.iter_mut().enumerate().rev() {
        let next = &mut next[request.id as usize];
        match request.verb() {
            Verb::Get | Verb::Head => {
                request.next = *next;
                *next = at as u32;
            }
            Verb::Set => {
                request.next = *next;
                *next = NEVER;
            }
            Verb::Delete => *next = NEVER,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_keep_what_they_are_given() {
        assert_eq!(size_of::<Request>(), 24);
        for verb in [Verb::Get, Verb::Set, Verb::Delete] {
            let request = Request::new(5, 7, 9, 11, verb);
            assert_eq!((request.ttl(), request.verb(), request.expires()), (11, verb, 11_005));
        }
        assert_eq!(Request::new(5, 7, 9, 0, Verb::Get).expires(), u64::MAX);
        assert_eq!(Request::new(5, 7, 9, u32::MAX, Verb::Set).ttl(), MAX_TTL);
    }

    #[test]
    fn the_next_read_is_known_until_something_comes_between() {
        use Verb::*;
        let of = |(id, verb)| Request::new(0, id, 1, 0, verb);
        let mut trace: Vec<Request> =
            [(0, Get), (1, Get), (0, Get), (0, Set), (0, Get), (1, Delete), (1, Get)]
                .map(of)
                .to_vec();
        look_ahead(&mut trace, 2);
        let next: Vec<u32> = trace.iter().map(|request| request.next).collect();
        assert_eq!(next, [2, NEVER, NEVER, 4, NEVER, NEVER, NEVER]);
    }
}
