//! `--supervise`: stays in the foreground, starts processes again that end, and ends them with
//! itself. SIGHUP replaces them one after the other; all take their requests from one socket, so
//! that none is lost if an application finishes its request at SIGTERM.

use std::{
    io,
    os::{fd::OwnedFd, unix::process::ExitStatusExt as _},
    process::{Child, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use larder_server::app::Backoff;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{sleep, timeout},
};

use super::{Exit, Typed, children};
use crate::launch::{Launch, plain};

/// Time for processes to end after SIGTERM, before they are killed.
const STOP: Duration = Duration::from_secs(10);
/// Time in which a new process ends that cannot run; the old one is ended after it.
const SETTLE: Duration = Duration::from_millis(200);
/// A wait without an end of its own: signals end it.
const LONG: Duration = Duration::from_secs(3600);

/// Whether `--supervise` is among the flags, and the others. spawn-fcgi has no long flags: its own
/// are read, and refused, as it does.
pub(super) fn asked(arguments: &[String]) -> (bool, Vec<String>) {
    let flags = arguments.iter().position(|word| word == "--").unwrap_or(arguments.len());
    let at = arguments[..flags].iter().position(|word| word == "--supervise");
    let mut others = arguments.to_vec();
    at.into_iter().for_each(|at| drop(others.remove(at)));
    (at.is_some(), others)
}

/// A place for a process.
#[derive(Default)]
struct Slot {
    /// None: it has ended, and waits for its next start.
    child: Option<Child>,
    began: Option<Instant>,
    due: Option<Instant>,
    backoff: Backoff,
}

struct Supervised<'a> {
    typed: &'a Typed,
    launch: &'a Launch,
    socket: &'a OwnedFd,
    slots: Vec<Slot>,
    /// Processes that were replaced and finish their requests.
    leaving: Vec<Child>,
}

/// Runs the processes until a signal stops it.
pub(super) fn run(typed: &Typed, launch: &Launch, socket: &OwnedFd) -> Result<(), Exit> {
    let failed = |error: io::Error| Exit::failure(format!("cannot supervise: {}", plain(&error)));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let slots = (0..typed.forks).map(|_| Slot::default()).collect();
    let mut all = Supervised { typed, launch, socket, slots, leaving: Vec::new() };
    runtime.map_err(failed)?.block_on(all.run()).map_err(failed)
}

impl Supervised<'_> {
    async fn run(&mut self) -> io::Result<()> {
        let mut ended = signal(SignalKind::child())?;
        let mut hangup = signal(SignalKind::hangup())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        loop {
            self.start_due();
            let next = self.slots.iter().filter_map(|slot| slot.due).min();
            let wait = next.map_or(LONG, |due| due.saturating_duration_since(Instant::now()));
            tokio::select! {
                _ = ended.recv() => self.reap(),
                _ = hangup.recv() => self.replace().await,
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                () = sleep(wait) => {}
            }
        }
        let all = self.slots.drain(..).filter_map(|slot| slot.child);
        self.leaving.extend(all);
        self.leaving.iter().for_each(|child| tell(child, Signal::TERM));
        let all_ended = async {
            while !self.leaving.is_empty() {
                self.leaving.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
                if !self.leaving.is_empty() {
                    let _ = timeout(SETTLE, ended.recv()).await;
                }
            }
        };
        if timeout(STOP, all_ended).await.is_err() {
            self.leaving.iter().for_each(|child| tell(child, Signal::KILL));
        }
        Ok(())
    }

    /// Starts processes whose time has come.
    fn start_due(&mut self) {
        let now = Instant::now();
        for number in 0..self.slots.len() {
            let slot = &self.slots[number];
            if slot.child.is_none() && slot.due.is_none_or(|due| due <= now) {
                let started = self.start();
                let slot = &mut self.slots[number];
                (slot.began, slot.due) = (Some(now), None);
                match started {
                    Ok(child) => slot.child = Some(child),
                    Err(error) => {
                        eprintln!("spawn-fcgi: fork failed: {}", plain(&error));
                        slot.due = Some(now + slot.backoff.ended(Duration::ZERO).max(SETTLE));
                    }
                }
            }
        }
    }

    fn start(&self) -> io::Result<Child> {
        let socket = Stdio::from(self.socket.try_clone()?);
        let child = self.launch.command().envs(children(self.typed)).stdin(socket).spawn()?;
        println!("spawn-fcgi: child spawned successfully: PID: {}", child.id());
        Ok(child)
    }

    /// Takes note of processes that have ended, and sets the time of their next start.
    fn reap(&mut self) {
        self.leaving.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
        let now = Instant::now();
        for slot in &mut self.slots {
            let Some(child) = &mut slot.child else { continue };
            let Ok(Some(status)) = child.try_wait() else { continue };
            let ran = slot.began.map_or(Duration::ZERO, |began| now.duration_since(began));
            let wait = slot.backoff.ended(ran);
            let again = match wait.is_zero() {
                true => "it is started again".to_owned(),
                false => format!("it is started again in {} ms", wait.as_millis()),
            };
            eprintln!("spawn-fcgi: child {} {}: {again}", child.id(), reason(status));
            (slot.child, slot.due) = (None, Some(now + wait));
        }
    }

    /// Replaces the processes, one after the other. One that cannot run leaves the old one.
    async fn replace(&mut self) {
        for number in 0..self.slots.len() {
            let mut new = match self.start() {
                Ok(new) => new,
                Err(error) => {
                    eprintln!("spawn-fcgi: fork failed: {}", plain(&error));
                    return;
                }
            };
            sleep(SETTLE).await;
            if let Ok(Some(status)) = new.try_wait() {
                eprintln!(
                    "spawn-fcgi: child {} {}: the others stay as they are",
                    new.id(),
                    reason(status)
                );
                return;
            }
            let slot = &mut self.slots[number];
            let began = Some(Instant::now());
            let before =
                std::mem::replace(slot, Slot { child: Some(new), began, ..Slot::default() });
            if let Some(old) = before.child {
                tell(&old, Signal::TERM);
                self.leaving.push(old);
            }
        }
    }
}

/// Signals a process and those that it has started.
fn tell(child: &Child, signal: Signal) {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(group) = group {
        let _ = kill_process_group(group, signal);
    }
}

fn reason(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "died somehow".to_owned(),
    }
}
