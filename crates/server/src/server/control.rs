//! The control socket, and the signs of life of the workers.

use std::{os::unix::net::UnixListener, path::Path};

use tokio::sync::{mpsc, oneshot};

use super::Server;
use crate::{admin::Order, net::listen::bind_control, worker::Command};

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
}
