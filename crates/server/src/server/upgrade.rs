//! Another process takes over: this one's side. It gives away its listeners, its memory and its
//! connections between two requests, finishes what is under way, and ends.
//!
//! | this process | the other |
//! |---|---|
//! | starts it, with the link | says who it is |
//! | sends its sockets | reads its configuration, opens what is missing, is ready |
//! | accepts nothing more, keeps connections at rest | |
//! | waits for objects' commands and for purges; closes the disk, keeps what happens after | |
//! | gives the memory | takes it, starts its threads, accepts: it is up |
//! | sends the connections, each when it comes to rest | takes them in |
//! | ends | frees the memory that this one has kept |
//!
//! Until the memory is given, everything can be taken back, but for the disk and connections that
//! cannot be kept (TLS, subscribers).

use std::{
    io::Write as _,
    os::fd::{AsFd, BorrowedFd},
    sync::{
        Arc,
        mpsc::{Receiver, channel},
    },
    time::Duration,
};

use larder_store::GiveError;
use rustix::fs::{MemfdFlags, memfd_create};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::{Server, notes::Notes, sockets::Sockets};
use crate::{
    clock::{Clock, Ms},
    net::{
        conns::Group,
        inherited::Inherited,
        link::{self, Link},
        listen::Address,
        passing::Parcel,
    },
    object,
    worker::Command,
};

/// The language of the link. Programs of another one do not take over from each other.
pub(super) const PROTOCOL: u64 = 1;

/// Wait for commands and purges that have begun, each, in milliseconds.
const FINISH: Ms = 2000;
/// Longest time in which pages and values on their way to the disk are written.
const WRITE: Duration = Duration::from_secs(1);
/// Longest wait for the other process to start its threads, once it has the memory: nobody is
/// served meanwhile. `upgrade_timeout` may be shorter.
const UP: Duration = Duration::from_secs(20);
/// Longest notes in a message, in bytes; longer ones follow the image.
const NOTES: usize = 16 << 10;
/// The reason if the new process is gone.
const ENDED: &str = "the new process has ended";
/// Interval of looks at a condition.
const LOOK: Duration = Duration::from_millis(1);
/// Longest wait without a sign of life to the service manager.
const BEAT: Duration = Duration::from_millis(500);

/// Whether to go on, asked for twice a second: a sign of life, and a look at signals.
pub type Beat<'b> = &'b mut dyn FnMut() -> bool;

/// A process that has taken over.
#[derive(Debug)]
pub struct Successor {
    /// Its process ID, as it says.
    pub pid: u64,
    /// Its version.
    pub version: String,
    /// It has the memory; else why not.
    pub memory: Result<(), String>,
}

impl Server {
    /// Whether another process may take over now.
    ///
    /// # Errors
    /// Why not, for the operator.
    pub fn may_hand_over(&self) -> Result<(), String> {
        if !self.settings.apps.is_empty() {
            return Err("applications that Larder runs cannot be handed over: restart".to_owned());
        }
        match self.store.may_give() {
            Ok(()) | Err(GiveError::Private) => Ok(()),
            Err(error) => Err(format!("{error}: ask again later")),
        }
    }

    /// Has the process at the other end take over. `manager`: what it has to know of the service
    /// manager. Call [`Server::drain`] after.
    ///
    /// # Errors
    /// Why it has not: this process goes on.
    pub fn hand_over(
        &mut self,
        link: Link,
        manager: &Value,
        beat: Beat<'_>,
    ) -> Result<Successor, String> {
        let clock = self.worker_shared.clock;
        let until = clock.now() + self.settings.upgrade.timeout.as_millis() as Ms;
        let mut other = Other { link, clock, beat };
        let hello = other.expect("hello", until)?;
        if hello["protocol"].as_u64() != Some(PROTOCOL) {
            return Err("the new program is of a version that cannot take over".to_owned());
        }
        self.send_sockets(&other.link, manager).map_err(|error| format!("no sockets: {error}"))?;
        other.expect("ready", until)?;
        if let Some(shared) = &self.faces.queue {
            // Their clients are disconnected for an upgrade that can be.
            shared.write()?;
        }
        let (parcels, of_other) = channel();
        let given = self.give(&mut other, parcels);
        match given {
            Ok(memory) => {
                let number = |name: &str| hello[name].as_u64().unwrap_or_default();
                let text = hello["version"].as_str().unwrap_or_default().to_owned();
                let successor = Successor { pid: number("pid"), version: text, memory };
                self.leave(other.link, of_other, &hello);
                Ok(successor)
            }
            Err(reason) => {
                self.go_on();
                Err(reason)
            }
        }
    }

    /// The process that was to take over has ended without having done so: its memory is this
    /// one's again, empty, and nobody uses the disk.
    pub fn take_back(&self) {
        self.store.take_back();
        if let Some(disk) = &self.faces.disk {
            disk.forsake();
        }
    }

    fn send_sockets(&self, link: &Link, manager: &Value) -> std::io::Result<()> {
        for kept in &self.kept {
            for some in kept.sockets.chunks(link::MOST) {
                let message = json!({"kind": "socket", "name": kept.name, "foreign": kept.foreign});
                let sockets: Vec<_> = some.iter().map(AsFd::as_fd).collect();
                link.send(&message, &sockets)?;
            }
        }
        link.send(&json!({"kind": "all", "manager": manager}), &[])
    }

    /// Gives what can be given, and waits until the other serves.
    fn give(
        &mut self,
        other: &mut Other<'_>,
        parcels: std::sync::mpsc::Sender<Parcel>,
    ) -> Result<Result<(), String>, String> {
        if let Some(shared) = &self.faces.queue {
            // Before the first client is disconnected.
            shared.stopping();
        }
        self.for_workers(Command::Yield)?;
        self.finish_objects(other)?;
        if let Some((shared, _)) = &self.faces.http {
            shared.changes.pass_to(parcels.clone());
            let clock = self.worker_shared.clock;
            let until = clock.now() + FINISH;
            while shared.changes.close() > 0 {
                if clock.now() >= until {
                    return Err("a purge is under way: ask again later".to_owned());
                }
                std::thread::sleep(LOOK);
            }
        }
        if let Some(disk) = &self.faces.disk {
            // Hot pages stay in memory; values on their way have left it.
            disk.end(WRITE, false);
            disk.release();
        }
        if let Some(shared) = &self.faces.queue {
            shared.release()?;
        }
        // The last moment at which nothing is lost if it is gone.
        other.link.send(&json!({"kind": "soon"}), &[]).map_err(|_| ENDED.to_owned())?;
        let up = self.settings.upgrade.timeout.min(UP).as_millis() as Ms;
        other.expect("listening", other.clock.now() + up)?;
        let memory = self.give_memory(&other.link)?;
        other.expect("up", other.clock.now() + up)?;
        for commands in &self.commands {
            let _ = commands.blocking_send(Command::PassOn(parcels.clone()));
        }
        Ok(memory)
    }

    /// Has every worker do something that it answers.
    fn for_workers(&self, command: impl Fn(oneshot::Sender<()>) -> Command) -> Result<(), String> {
        let mut answers = Vec::new();
        for commands in &self.commands {
            let (send, answer) = oneshot::channel();
            let _ = commands.blocking_send(command(send));
            answers.push(answer);
        }
        for answer in answers {
            answer.blocking_recv().map_err(|_| "a thread has ended".to_owned())?;
        }
        Ok(())
    }

    /// Waits until no client of objects is in the middle of a command; those that still are then
    /// are disconnected: what they write would be lost.
    fn finish_objects(&self, other: &mut Other<'_>) -> Result<(), String> {
        let open = || self.worker_shared.open(Group::Objects) > 0;
        other.wait(FINISH, open)?;
        let lists = [
            self.faces.memcached.as_ref().map(|shared| object::Shared::clients(&**shared).list()),
            self.faces.redis.as_ref().map(|shared| object::Shared::clients(&**shared).list()),
            self.faces.queue.as_ref().map(|shared| object::Shared::clients(&**shared).list()),
        ];
        lists.into_iter().flatten().flatten().for_each(|client| client.kill());
        if other.wait(FINISH, open)? {
            return Err("a command of a client does not come to its end".to_owned());
        }
        Ok(())
    }

    /// Sends the memory, or says why there is none.
    fn give_memory(&self, link: &Link) -> Result<Result<(), String>, String> {
        let failed = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::BrokenPipe | std::io::ErrorKind::ConnectionReset => {
                ENDED.to_owned()
            }
            _ => format!("the memory cannot be sent: {error}"),
        };
        let (clock, until) = (self.worker_shared.clock, self.worker_shared.clock.now() + FINISH);
        let image = loop {
            match self.store.give(clock.now()) {
                Err(GiveError::Busy) if clock.now() < until => std::thread::sleep(LOOK),
                given => break given,
            }
        };
        let (image, memory) = match (image, self.store.memory()) {
            (Ok(image), Some(memory)) => (image, memory),
            (Err(why @ GiveError::Private), _) => {
                let notes = Notes::of_disk(&self.faces).short(NOTES).to_value();
                link.send(&json!({"kind": "memory", "notes": notes}), &[]).map_err(failed)?;
                return Ok(Err(why.to_string()));
            }
            (Err(why), _) => return Err(why.to_string()),
            (Ok(_), None) => return Err(GiveError::Private.to_string()),
        };
        // A page that a worker was storing when the memory was given is in it: once the worker
        // answers, it is among the notes, too.
        self.for_workers(Command::Answer)?;
        let written = || -> std::io::Result<()> {
            let file = memfd_create("larder-image", MemfdFlags::CLOEXEC)?;
            let mut file = std::fs::File::from(file);
            file.write_all(&image)?;
            let notes = Notes::of(&self.faces).to_value();
            let text = notes.to_string();
            let mut message = json!({"kind": "memory", "notes": notes});
            if text.len() > NOTES {
                file.write_all(text.as_bytes())?;
                message = json!({"kind": "memory", "image": image.len()});
            }
            let both: [BorrowedFd<'_>; 2] = [memory, file.as_fd()];
            link.send(&message, &both)
        };
        written().map_err(failed)?;
        Ok(Ok(()))
    }

    /// The other serves: what comes to rest here goes there.
    fn leave(&mut self, link: Link, parcels: Receiver<Parcel>, hello: &Value) {
        self.kept.clear();
        self.handed_over = true;
        if let Some(admin) = &mut self.admin {
            admin.hand_over();
        }
        let same = |path: &std::path::Path| hello["control"].as_str() == path.to_str();
        if let Some(control) = self.control.take().filter(|path| !same(path)) {
            let _ = std::fs::remove_file(control);
        }
        let link = Arc::new(link);
        self.after = Some(link.clone());
        let passing = std::thread::Builder::new().name("larder-pass".to_owned());
        let passing = passing.spawn(move || {
            for parcel in parcels {
                // A client whose connection cannot be passed sees its end.
                let _ = send(&link, &parcel);
            }
        });
        self.passing = passing.ok();
    }

    /// There is no successor.
    fn go_on(&mut self) {
        if let Some(shared) = &self.faces.queue {
            shared.take_back();
        }
        if let Some((shared, _)) = &self.faces.http {
            shared.changes.open();
        }
        let handed = self.kept.drain(..).map(Into::into).collect();
        let mut inherited = Inherited::handed_back(handed);
        let sockets = Sockets::bind(&self.settings, &mut inherited);
        let Ok(mut sockets) = sockets else {
            eprintln!("larder: error: the listeners cannot be used again");
            return;
        };
        self.kept = std::mem::take(&mut sockets.kept);
        for commands in self.commands.iter().rev() {
            let _ = commands.blocking_send(Command::Resume(sockets.next_listeners()));
        }
    }
}

fn send(link: &Link, parcel: &Parcel) -> std::io::Result<()> {
    match parcel {
        Parcel::Connection(passed) => link.send(&passed.describe(), &[passed.descriptor()]),
        Parcel::Keys(keys) => {
            in_messages(keys, |keys| link.send(&json!({"kind": "keys", "keys": keys}), &[]))
        }
        Parcel::Tags(site, tags) => in_messages(tags, |tags| {
            link.send(&json!({"kind": "tags", "site": site, "tags": tags}), &[])
        }),
    }
}

/// Sends a list in as many messages as it needs: a byte takes up to four in JSON.
fn in_messages(
    mut list: &[Vec<u8>],
    mut send: impl FnMut(&[Vec<u8>]) -> std::io::Result<()>,
) -> std::io::Result<()> {
    const BYTES: usize = link::LONGEST / 8;
    while !list.is_empty() {
        let mut bytes = 0;
        let fits = list.iter().take_while(|item| {
            bytes += item.len() + 1;
            bytes <= BYTES
        });
        let (now, later) = list.split_at(fits.count().max(1));
        send(now)?;
        list = later;
    }
    Ok(())
}

/// The other process, while it comes up.
struct Other<'b> {
    link: Link,
    clock: Clock,
    beat: Beat<'b>,
}

impl Other<'_> {
    /// Its next message, which is to be of this kind.
    fn expect(&mut self, kind: &str, until: Ms) -> Result<Value, String> {
        loop {
            if !(self.beat)() {
                return Err("this process is being stopped".to_owned());
            }
            let left = Duration::from_millis(until.saturating_sub(self.clock.now()));
            let message = match self.link.receive(Some(left.min(BEAT))) {
                Err(error) if error.kind() == std::io::ErrorKind::TimedOut => {
                    if left.is_zero() {
                        return Err("the new process was not ready in time".to_owned());
                    }
                    continue;
                }
                Err(error) => return Err(format!("the new process cannot be heard: {error}")),
                Ok(None) => return Err(ENDED.to_owned()),
                Ok(Some((message, _))) => message,
            };
            match message["kind"].as_str() {
                Some(found) if found == kind => return Ok(message),
                Some("failed") => {
                    let reason = message["reason"].as_str().unwrap_or_default();
                    return Err(format!("the new process cannot start: {}", reason.trim_end()));
                }
                _ => return Err("the new process speaks another language".to_owned()),
            }
        }
    }

    /// Waits while a condition holds, at most so long. Whether it still does.
    fn wait(&mut self, most: Ms, condition: impl Fn() -> bool) -> Result<bool, String> {
        let until = self.clock.now() + most;
        let mut beaten = self.clock.now();
        while condition() {
            let now = self.clock.now();
            if now >= until {
                return Ok(true);
            }
            if now >= beaten + BEAT.as_millis() as Ms {
                beaten = now;
                if !(self.beat)() {
                    return Err("this process is being stopped".to_owned());
                }
            }
            std::thread::sleep(LOOK);
        }
        Ok(false)
    }
}

/// Whether this is the file of a socket.
pub(super) fn file_of(address: &Address) -> Option<&std::path::Path> {
    match address {
        Address::Unix(path) => Some(path),
        _ => None,
    }
}
