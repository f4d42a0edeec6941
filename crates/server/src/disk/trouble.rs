//! Failures of the disk: each kind is told once, and again only after it worked in between.

use std::{io, sync::atomic::Ordering};

use larder_disk::is_full;

use super::{Tier, writer::RETRY};
use crate::clock::Ms;

/// A kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    Open = 1,
    Read = 2,
    Write = 4,
    Purges = 8,
}

impl Trouble {
    fn text(self) -> &'static str {
        match self {
            Trouble::Open => "cannot be opened",
            Trouble::Read => "cannot be read",
            Trouble::Write => "cannot be written",
            Trouble::Purges => "cannot keep purges",
        }
    }
}

impl Tier {
    /// Something failed. The tier is turned off for a while; a full file system only stops writes:
    /// pages that are there are served.
    pub(super) fn failed(&self, trouble: Trouble, error: &io::Error) {
        self.counters.failures.one();
        let full = is_full(error) && matches!(trouble, Trouble::Write | Trouble::Purges);
        self.retry_at.store(self.clock.now() + RETRY.as_millis() as Ms, Ordering::SeqCst);
        let state = if full { &self.full } else { &self.off };
        state.store(true, Ordering::SeqCst);
        let bit = trouble as u8;
        if self.troubles.fetch_or(bit, Ordering::SeqCst) & bit != 0 {
            return;
        }
        let path = self.settings.path.display();
        let hint = match error.kind() {
            io::ErrorKind::WouldBlock => "; another Larder uses it: give each its own directory",
            io::ErrorKind::PermissionDenied => "; give it to the user that Larder runs as",
            _ if is_full(error) => "; free some of it, or lower disk.size",
            _ => "",
        };
        let (text, seconds) = (trouble.text(), RETRY.as_secs());
        let state = if full { "no page is written to it" } else { "pages are served without it" };
        eprintln!(
            "larder: the disk {path} {text}: {error}{hint}; {state}, next try in {seconds} s"
        );
    }

    /// Something worked that may have failed before.
    pub(super) fn well(&self, trouble: Trouble) {
        let bit = trouble as u8;
        if self.troubles.load(Ordering::Relaxed) & bit == 0 {
            return;
        }
        if self.troubles.fetch_and(!bit, Ordering::SeqCst) == bit {
            eprintln!("larder: the disk {} is used again", self.settings.path.display());
        }
    }

    /// Whether it is time to try again what failed.
    pub(super) fn may_try(&self, now: Ms) -> bool {
        now >= self.retry_at.load(Ordering::SeqCst)
    }
}
