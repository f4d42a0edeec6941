//! One request of a trace as simulations see it: keys are numbers, time is the trace's.

use crate::load::Verb;

/// No request for the same object comes before it is written anew or deleted.
pub(crate) const NEVER: u32 = u32::MAX;

/// Longest time to live that is told apart from for ever, seconds (34 years): two bits of the field are the verb's.
pub(crate) const MAX_TTL: u32 = (1 << 30) - 1;

/// Longest trace, milliseconds (136 years): seconds of it are kept in 32 bits, and times added to it do not overflow.
pub(crate) const MAX_TIME: u64 = u32::MAX as u64 * 1000;

/// 24 bytes: traces of many millions of these lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Milliseconds since the trace's beginning.
    pub(crate) at: u64,
    /// Number of the object: 0 and up, without gaps.
    pub(crate) id: u32,
    /// Bytes of key and value.
    pub(crate) size: u32,
    /// Index of the next read of this object that a stored copy could serve; [`NEVER`]: none.
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

    /// Seconds that what is stored lives; 0: for ever.
    #[inline]
    pub(crate) fn ttl(&self) -> u32 {
        self.ttl_verb >> 2
    }

    /// Milliseconds of the trace at which what is stored now stops being there; `u64::MAX`: never.
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

/// Tells every request when its object is read next: one walk from the end.
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
            [(0, Get), (1, Get), (0, Get), (0, Set), (0, Get), (1, Delete), (1, Get)].map(of).to_vec();
        look_ahead(&mut trace, 2);
        let next: Vec<u32> = trace.iter().map(|request| request.next).collect();
        assert_eq!(next, [2, NEVER, NEVER, 4, NEVER, NEVER, NEVER]);
    }
}
