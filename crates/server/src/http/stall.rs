//! A client that has to open its windows: how long it may take, and the account of the stored pages
//! that its answers hold meanwhile.

use crate::{
    clock::Ms,
    net::socket::{PROGRESS, STALLED_AFTER, Stalled},
};

/// The wait of one connection of HTTP/2 or 3, if it waits.
#[derive(Default)]
pub(super) struct Stall(Option<Wait>);

struct Wait {
    /// Bytes that the windows had let through when the wait began.
    sent: u64,
    /// From then on the bytes of the store that it holds are counted.
    counted_from: Ms,
    deadline: Ms,
    /// Bytes of the store that are counted as held by stalled clients.
    held: u64,
}

impl Stall {
    /// Answers wait for the client, which has `patience` milliseconds for each stretch of them.
    /// `sent`: bytes that its windows have let through so far. `pinned`: bytes of the store that
    /// those answers hold that stand still ([`crate::net::socket::Progress`]). Returns when to look
    /// next; None: it holds too much of the store.
    pub(super) fn wait(
        &mut self,
        sent: u64,
        pinned: impl FnOnce() -> u64,
        now: Ms,
        patience: Ms,
        stalled: &Stalled,
    ) -> Option<Ms> {
        let (counted_from, deadline) = (now + STALLED_AFTER, now + patience);
        let new = || Wait { sent, counted_from, deadline, held: 0 };
        let wait = self.0.get_or_insert_with(new);
        if sent - wait.sent >= PROGRESS {
            // More time, and no more than that: progress of one answer is none of the others.
            (wait.sent, wait.deadline) = (sent, deadline);
        }
        if now < wait.counted_from {
            return Some(wait.counted_from.min(wait.deadline));
        }
        self.count(pinned(), now, stalled)
    }

    /// The time of a look has come. Returns when to look next; None: the client took too long, or
    /// holds too much.
    pub(super) fn look(&mut self, pinned: u64, now: Ms, stalled: &Stalled) -> Option<Ms> {
        if self.0.as_ref().is_some_and(|wait| now >= wait.deadline) {
            return None;
        }
        self.count(pinned, now, stalled)
    }

    /// Counts what is held. Returns when to look next: other answers may stand still by then. None:
    /// it is too much.
    fn count(&mut self, pinned: u64, now: Ms, stalled: &Stalled) -> Option<Ms> {
        let wait = self.0.as_mut()?;
        if pinned > wait.held && !stalled.take(pinned - wait.held) {
            return None;
        }
        if pinned < wait.held {
            stalled.give_back(wait.held - pinned);
        }
        wait.held = pinned;
        Some(wait.deadline.min(now + STALLED_AFTER))
    }

    /// The client is not stalled any more.
    pub(super) fn release(&mut self, stalled: &Stalled) {
        if let Some(wait) = self.0.take() {
            stalled.give_back(wait.held);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::socket::Progress;

    const PATIENCE: Ms = 60_000;

    /// Two answers on a connection, one of which the client takes.
    #[test]
    fn progress_of_one_answer_does_not_free_the_pages_of_another() {
        let (stalled, mut stall) = (Stalled::new(1000), Stall::default());
        let (moves, stands) = (Progress::default(), Progress::default());
        let pinned = |now| {
            let held = |progress: &Progress| progress.stands(true, now) >= STALLED_AFTER;
            [&moves, &stands].into_iter().filter(|one| held(one)).count() as u64 * 600
        };
        let mut sent = 0;
        for second in 1..100 {
            let now = second * 1000;
            sent += PROGRESS;
            moves.took(PROGRESS, false);
            let next = stall.wait(sent, || pinned(now), now, PATIENCE, &stalled);
            assert!(next.is_some_and(|next| next > now && next <= now + STALLED_AFTER));
            // Only what stands still is held, from its second look on.
            assert_eq!(stalled.take(500), second < 5, "second {second}");
            if second < 5 {
                stalled.give_back(500);
            }
        }
        stall.release(&stalled);
        assert!(stalled.take(1000), "all is given back");
    }

    #[test]
    fn an_answer_that_waited_for_its_origin_does_not_stand_still() {
        let progress = Progress::default();
        assert_eq!(progress.stands(true, 1000), 0);
        assert_eq!(progress.stands(true, 3000), 2000);
        progress.took(10, true);
        assert_eq!(progress.stands(false, 50_000), 0);
        assert_eq!(progress.stands(true, 60_000), 0, "more of it has just come");
        progress.took(PROGRESS - 1, false);
        assert_eq!(progress.stands(true, 61_000), 1000);
        progress.took(1, false);
        assert_eq!(progress.stands(true, 62_000), 0);
    }
}
