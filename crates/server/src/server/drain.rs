//! The end of a server, in the order in which its parts need each other.

use std::time::Duration;

use super::{
    Server,
    notes::Notes,
    snapshot::{self, Written},
    sockets::remove_files,
};
use crate::{
    clock::Ms,
    net::conns::{DRAIN_LOOK, Group},
    worker::Command,
};

/// Time for a snapshot, if requests have taken all there was, in milliseconds.
const LEAST: Ms = 1000;

impl Server {
    /// Stops accepting, lets open requests finish (at most `limits.drain`), writes the log out and
    /// returns.
    pub fn drain(mut self) {
        if let Some(admin) = &self.admin {
            admin.draining();
        }
        // The copies for a successor would keep addresses open that nobody serves.
        self.kept.clear();
        let clock = self.worker_shared.clock;
        let (began, patience) = (clock.now(), self.settings.http.limits.drain);
        if let Some(redis) = &self.faces.redis {
            redis.stopping();
        }
        let left = self.drain_pages(patience);
        if !self.handed_over {
            remove_files(&self.addresses, &self.inherited);
        }
        if let Some(queue) = &self.faces.queue {
            queue.stopping();
        }
        for commands in &self.commands {
            let _ = commands.blocking_send(Command::Drain(left));
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        if let Some(queue) = &self.faces.queue {
            queue.end();
        }
        let disk = self.faces.disk.as_ref();
        if let Some(disk) = disk.filter(|_| !self.handed_over) {
            let took = Duration::from_millis(clock.now() - began);
            disk.end(patience.saturating_sub(took), true);
        }
        self.write_snapshot(began + patience.as_millis() as u64);
        if let Some(admin) = &mut self.admin {
            admin.end();
        }
        if let Some(control) = &self.control {
            let _ = std::fs::remove_file(control);
        }
        if let Some(logger) = &self.logger {
            logger.close();
        }
        // The last of those that give it parcels are gone with the workers.
        if let Some((shared, _)) = &self.faces.http {
            shared.changes.open();
        }
        if let Some(passing) = self.passing.take() {
            let _ = passing.join();
        }
    }

    /// Writes what memory has to the file of the settings. Nobody serves any more.
    fn write_snapshot(&self, until: Ms) {
        let Some(settings) = self.settings.snapshot.as_ref().filter(|_| !self.handed_over) else {
            return;
        };
        let (path, clock) = (settings.path.display(), self.worker_shared.clock);
        let notes = Notes::of(&self.faces);
        let until = until.max(clock.now() + LEAST);
        match snapshot::write(self.store, &notes, settings, clock, until) {
            Ok(Written { segments, of }) => {
                eprintln!("larder: {segments} of {of} segments of memory are in {path}");
            }
            Err(error) => eprintln!("larder: warning: no snapshot {path}: {error}"),
        }
    }

    /// Lets the requests for pages finish, while objects are still served: their origins may keep
    /// objects here. Returns the rest of `patience`.
    fn drain_pages(&self, patience: Duration) -> Duration {
        let mut left = patience;
        if self.faces.http.is_none() {
            return left;
        }
        for commands in &self.commands {
            let _ = commands.blocking_send(Command::DrainPages);
        }
        while !left.is_zero() && self.worker_shared.open(Group::Pages) > 0 {
            let step = left.min(DRAIN_LOOK);
            std::thread::sleep(step);
            left -= step;
        }
        left
    }
}
