//! New settings for a running server: all of them, or none.

use std::{io, sync::Arc};

use super::{
    FaceName, Server,
    fixed::fixed,
    sockets::{Sockets, admin_name, name_of, remove_files, wanted, wanted_admin},
    told,
};
use crate::{
    disk::fingerprint,
    net::listen::Address,
    settings::Settings,
    worker::{Command, Relisten},
};

/// Reasons why new settings were not accepted.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// These take a restart.
    #[error("cannot change while running: {}; restart to use the new configuration", .0.join(", "))]
    Fixed(Vec<&'static str>),
    /// The access log could not be opened.
    #[error("cannot open the access log {path}: {source}")]
    Log {
        /// The file.
        path: String,
        /// The error of the system.
        source: io::Error,
    },
    /// An address could not be listened on.
    #[error("cannot listen on {address}: {source}{}", super::error::hint(source.kind()))]
    Listen {
        /// The address.
        address: Address,
        /// The error of the system.
        source: io::Error,
    },
    /// Memory cannot be given up.
    #[error("memory cannot become so small now: too much of it is in use")]
    Memory,
}

impl Server {
    /// Uses new settings from now on; connections stay. Listeners are opened and closed as the
    /// settings say. If something cannot be done, the result is an error and nothing changes. All
    /// workers use the new settings when this returns, but for one that is stuck.
    pub fn reload(&mut self, settings: Settings) -> Result<(), ReloadError> {
        let fixed = fixed(self.memory, &self.settings, &settings);
        if !fixed.is_empty() {
            return Err(ReloadError::Fixed(fixed));
        }
        let Listeners { mut sockets, removed, removed_admin } = self.bind_changes(&settings)?;
        if let Err(error) = self.change_others(&settings) {
            remove_files(&sockets.addresses, &self.inherited);
            return Err(error);
        }
        self.settings = Arc::new(settings);
        self.registry.reload(self.settings.clone());
        self.change_kept(&mut sockets, &removed, &removed_admin);
        let closed = self.change_addresses(&sockets, &removed);
        if let Some(admin) = &mut self.admin {
            let told = self.addresses.iter().map(|(face, at)| told(*face, at)).collect();
            admin.reload(&self.settings, told);
            admin.relisten(std::mem::take(&mut sockets.admin), &removed_admin);
        }
        self.wanted_admin = wanted_admin(&self.settings);
        if let (Some(shared), Some(settings)) = (&self.faces.memcached, &self.settings.memcached) {
            shared.reload(settings.clone());
        }
        if let (Some(shared), Some(settings)) = (&self.faces.redis, &self.settings.redis) {
            shared.reload(settings);
        }
        if let Some(disk) = &self.faces.disk {
            disk.sites_are(fingerprint(&self.settings));
        }
        if let (Some(shared), Some(settings)) = (&self.faces.queue, &self.settings.queue) {
            shared.reload(settings.clone());
        }
        // Settings first: listeners of HTTPS need its certificates.
        self.distribute();
        self.relisten(sockets, closed);
        if !self.wait_for_workers() {
            eprintln!("larder: warning: a thread is busy: it uses the new configuration later");
        }
        Ok(())
    }

    /// The log and the memory: they may fail. The memory comes last: it may evict before it fails.
    fn change_others(&self, settings: &Settings) -> Result<(), ReloadError> {
        let before = &self.settings.access_log;
        let mut logs = None;
        if let (Some(logger), Some(log)) = (&self.logger, &settings.access_log)
            && settings.access_log != *before
        {
            let failed = |source| ReloadError::Log { path: log.path.display().to_string(), source };
            logger.change(log).map_err(failed)?;
            logs = before.as_ref().map(|before| (logger, before));
        }
        if self.resize(settings.memory) {
            return Ok(());
        }
        if let Some((logger, before)) = logs {
            // It was open until now.
            let _ = logger.change(before);
        }
        Err(ReloadError::Memory)
    }

    /// Gives the store its part of so much memory, which is at most that of the start. The rest,
    /// such as copies of large pages, stays as it was.
    fn resize(&self, memory: u64) -> bool {
        let budget = self.budget.saturating_sub(self.memory.saturating_sub(memory));
        let done = self.store.set_budget(budget, self.worker_shared.clock.now()).is_ok();
        let room = self.faces.room.iter();
        room.for_each(|room| room.resized(self.store.totals().budget));
        done
    }

    /// Opens the listeners that are new, and names those that are to be closed.
    fn bind_changes(&mut self, settings: &Settings) -> Result<Listeners, ReloadError> {
        let faces = self.addresses.iter().map(|(face, _)| *face);
        let before: Vec<_> = faces.zip(self.wanted.iter().cloned()).collect();
        let (added, mut removed) = changes(&before, wanted(settings));
        // HTTP/3 goes with the listener of HTTPS, and its addresses do not change.
        removed.retain(|number| before[*number].0 != FaceName::Http3);
        let failed = |(address, source)| ReloadError::Listen { address, source };
        let (added_admin, removed_admin) = changes(&self.wanted_admin, wanted_admin(settings));
        let mut sockets =
            Sockets::bind_more(settings, &added, &self.addresses, &mut self.inherited)
                .map_err(failed)?;
        if let Err(error) = sockets.bind_admin(&added_admin, &mut self.inherited) {
            remove_files(&sockets.addresses, &self.inherited);
            return Err(failed(error));
        }
        Ok(Listeners { sockets, removed, removed_admin })
    }

    /// The copies of sockets follow: one that is closed has none left, or it would go on listening.
    fn change_kept(&mut self, sockets: &mut Sockets, removed: &[usize], removed_admin: &[usize]) {
        let faces = removed.iter().map(|at| name_of(self.addresses[*at].0, &self.wanted[*at]));
        let admin = removed_admin.iter().map(|at| {
            let (address, tls) = self.wanted_admin[*at];
            admin_name(address, tls)
        });
        let gone: Vec<String> = faces.chain(admin).collect();
        self.kept.retain(|kept| !gone.contains(&kept.name));
        self.kept.append(&mut sockets.kept);
    }

    /// Notes the new addresses; returns those that are closed.
    fn change_addresses(
        &mut self,
        sockets: &Sockets,
        removed: &[usize],
    ) -> Vec<(FaceName, Address)> {
        let mut closed = Vec::new();
        for number in removed.iter().rev() {
            self.wanted.remove(*number);
            closed.push(self.addresses.remove(*number));
        }
        remove_files(&closed, &self.inherited);
        self.addresses.extend(sockets.addresses.iter().cloned());
        self.wanted.extend(sockets.wanted.iter().cloned());
        self.note_https_port();
        closed
    }

    /// Hands the workers their listeners.
    fn relisten(&self, mut sockets: Sockets, closed: Vec<(FaceName, Address)>) {
        if sockets.addresses.is_empty() && closed.is_empty() {
            return;
        }
        // From the last worker on, as at the start.
        for commands in self.commands.iter().rev() {
            let relisten = Relisten { closed: closed.clone(), ..sockets.next_listeners() };
            let _ = commands.blocking_send(Command::Listen(relisten));
        }
    }

    /// Notes where clients of plain HTTP are sent to.
    pub(super) fn note_https_port(&self) {
        let mut https = self.addresses.iter().filter(|(face, _)| *face == FaceName::Https);
        if let Some((shared, _)) = &self.faces.http {
            let port = match https.next() {
                Some((_, Address::Tcp(address))) => address.port(),
                _ => 0,
            };
            shared.https_port.store(port, std::sync::atomic::Ordering::Relaxed);
        }
    }
}

/// Those that are only in `after`, and the numbers of those that are only in `before`.
fn changes<T: PartialEq>(before: &[T], mut after: Vec<T>) -> (Vec<T>, Vec<usize>) {
    let mut removed = Vec::new();
    for (number, one) in before.iter().enumerate() {
        match after.iter().position(|new| new == one) {
            Some(kept) => drop(after.remove(kept)),
            None => removed.push(number),
        }
    }
    (after, removed)
}

/// Changes of the listeners: new sockets, and the numbers of the addresses that are to be closed.
struct Listeners {
    sockets: Sockets,
    removed: Vec<usize>,
    /// Of the admin interface.
    removed_admin: Vec<usize>,
}
