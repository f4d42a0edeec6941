//! Stopping the process, or having it reload, by a client's command.

/// Stops the process for a client that may (memcached's `shutdown`, Redis's SHUTDOWN). It sends
/// SIGTERM, so that there is one way to stop, and it drains.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StopHandle;

impl StopHandle {
    /// Stops. Received requests are still answered, then connections are closed.
    pub(crate) fn ask(self) {
        // The signal to the own process needs no permission and cannot fail while the process
        // lives.
        let _ =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM);
    }

    /// Has the process read its configuration again, as after SIGHUP.
    pub(crate) fn reload(self) {
        let _ =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::HUP);
    }
}
