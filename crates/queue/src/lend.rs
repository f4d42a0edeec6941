//! One process at a time has the queues. It lends them to another one that is to take over, and has
//! them back should that fail.

use std::fs::{File, TryLockError};
use std::io;

use crate::queues::{Damage, Queues};

/// Whether this process has the lock, now. Another one may have it.
pub(crate) fn is_locked(lock: &File) -> io::Result<bool> {
    match lock.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

impl Queues {
    /// Lets another process open the queues: everything is on the device, and the directory is
    /// free. Until [`Queues::take_back`] nothing may be done with them. Where it fails, they are as
    /// they were.
    ///
    /// # Errors
    /// Those of the files.
    pub fn lend(&mut self) -> io::Result<()> {
        if let Some((_, error)) = self.write().into_iter().next() {
            return Err(error);
        }
        if let Err(undone) = self.take_work(true).run() {
            let error = io::Error::new(undone.error.kind(), undone.error.to_string());
            self.undone(undone);
            return Err(error);
        }
        self.lock.unlock()
    }

    /// The other process has ended. Durable queues are what their files say, since it may have used
    /// them; those in memory only, and all counters, are as they were. `None`: it has not ended,
    /// and this is to be called again, as after an error.
    ///
    /// # Errors
    /// Those of the files.
    pub fn take_back(&mut self, now: u64) -> io::Result<Option<Vec<Damage>>> {
        if !is_locked(&self.lock)? {
            return Ok(None);
        }
        let damage = self.load(now)?;
        self.failing.clear();
        self.broken = None;
        Ok(Some(damage))
    }
}
