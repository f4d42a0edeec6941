//! The control socket, and the signs of life of the workers.

use std::{os::unix::net::UnixListener, path::Path, time::Duration};

use tokio::sync::{
    mpsc,
    oneshot::{self, error::TryRecvError},
};

use super::Server;
use crate::{admin::Order, clock::Ms, net::listen::bind_control, worker::Command};

/// Longest wait for all workers to carry out what was sent to them, in milliseconds. A worker
/// answers within milliseconds; one that is stuck must not keep the process from its signals, and
/// the service manager from its signs of life.
const CARRIED_OUT: Ms = 5000;
/// Interval of looks at the answers.
const LOOK: Duration = Duration::from_millis(1);

impl Server {
    /// Opens the control socket. Without it everything else works.
    pub(super) fn open_control(&mut self) -> Option<UnixListener> {
        let path = self.settings.control.clone()?;
        match bind_control(&path) {
            Ok(listener) => {
                self.control = Some(path);
                Some(listener)
            }
            Err(error) => {
                eprintln!("larder: warning: no control socket {}: {error}", path.display());
                None
            }
        }
    }

    /// The path of the control socket; None: there is none.
    pub fn control(&self) -> Option<&Path> {
        self.control.as_deref()
    }

    /// The orders that come over the control socket; once. None: there is no such socket.
    pub fn take_orders(&mut self) -> Option<mpsc::Receiver<Order>> {
        self.admin.as_mut()?.take_orders()
    }

    /// Sockets that were handed over and whose addresses are not configured.
    pub fn unused_sockets(&self) -> Vec<String> {
        self.inherited.unused()
    }

    /// Asks every worker for a sign of life: it has come when its receiver has a value.
    pub fn ask_workers(&self) -> Vec<oneshot::Receiver<()>> {
        let ask = |commands: &mpsc::Sender<Command>| {
            let (send, answer) = oneshot::channel();
            // In a full queue it is dropped, and with it the answer.
            let _ = commands.try_send(Command::Answer(send));
            answer
        };
        self.commands.iter().map(ask).collect()
    }

    /// Waits until every worker has carried out the commands before, or has ended, but at most
    /// [`CARRIED_OUT`]. Whether all have.
    pub(super) fn wait_for_workers(&self) -> bool {
        let until = self.worker_shared.clock.now() + CARRIED_OUT;
        let ask = |commands: &mpsc::Sender<Command>| {
            let (send, answer) = oneshot::channel();
            let _ = commands.blocking_send(Command::Answer(send));
            answer
        };
        let asked: Vec<_> = self.commands.iter().map(ask).collect();
        asked.into_iter().all(|mut answer| {
            while answer.try_recv() == Err(TryRecvError::Empty) {
                if self.worker_shared.clock.now() >= until {
                    return false;
                }
                std::thread::sleep(LOOK);
            }
            true
        })
    }
}
