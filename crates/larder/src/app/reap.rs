//! The duty of process 1: to wait for processes whose parents have ended (in a container).

use std::{rc::Rc, time::Duration};

use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::timeout,
};

use super::guard::Guard;

/// The longest time until the next look: several signals may arrive as one.
const LOOK: Duration = Duration::from_secs(1);

/// Whether this is process 1.
pub(super) fn is_wanted() -> bool {
    std::process::id() == 1
}

/// Waits for processes that nobody else waits for.
pub(super) async fn reap(guard: Rc<Guard>) {
    let Ok(mut ended) = signal(SignalKind::child()) else { return };
    loop {
        reap_all(&guard);
        let _ = timeout(LOOK, ended.recv()).await;
    }
}

/// The next ended process is only looked at: Larder's own are waited for where they were started.
fn reap_all(guard: &Guard) {
    let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    while let Ok(status) = waitid(Id::All, look) {
        let pid = match status {
            WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, ..) => pid,
            _ => return,
        };
        if guard.knows(pid.as_raw()) || waitpid(pid, Some(WaitPidFlag::WNOHANG)).is_err() {
            return;
        }
    }
}
