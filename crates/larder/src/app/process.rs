//! One process of an application.

use std::{
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::process::CommandExt,
    },
    process::{ExitStatus, Stdio},
    rc::Rc,
    time::Duration,
};

use larder_server::settings::{AppProtocol, AppSettings};
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};
use tokio::{process::Child, time::timeout};

use super::{
    guard::Guard,
    output::{self, Output},
};
use crate::{launch::Launch, systemd};

/// Between two looks at a group whose first process has ended.
const LOOK: Duration = Duration::from_millis(20);

/// A running process, the first of its group. Dropped, it and its group are killed.
pub(super) struct Process {
    child: Child,
    pid: Pid,
    guard: Rc<Guard>,
}

impl Process {
    /// Starts a process with this socket.
    pub(super) fn start(
        settings: &AppSettings,
        socket: &OwnedFd,
        output: &Rc<Output>,
        guard: &Rc<Guard>,
    ) -> io::Result<Process> {
        let launch = Launch {
            name: "larder".into(),
            limits: limits(settings),
            group: settings.group,
            groups_of: settings.user.as_ref().and_then(|(_, name)| name.clone()),
            user: settings.user.as_ref().map(|(user, _)| *user),
            directory: settings.cwd.clone(),
            parent: Some(std::process::id()),
            listen_fds: settings.protocol == AppProtocol::Http,
            program: settings.command.iter().map(Into::into).collect(),
            search: true,
            ..Launch::default()
        };
        let (printed, pipe) = io::pipe()?;
        let mut command = launch.command();
        command.stdin(Stdio::from(socket.as_fd().try_clone_to_owned()?));
        command.stdout(Stdio::from(OwnedFd::from(pipe.try_clone()?)));
        command.stderr(Stdio::from(OwnedFd::from(pipe)));
        command.process_group(0);
        for name in systemd::VARIABLES {
            command.env_remove(name);
        }
        for (name, value) in &settings.env {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let mut command = tokio::process::Command::from(command);
        let child = command.kill_on_drop(true).spawn()?;
        // Its ends of the pipe are the process's alone from here on.
        drop(command);
        let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        let pid = pid.ok_or_else(|| io::Error::other("it has no number"))?;
        guard.began(pid);
        output::follow(OwnedFd::from(printed), number(pid), output.clone());
        Ok(Process { child, pid, guard: guard.clone() })
    }

    pub(super) fn number(&self) -> u32 {
        number(self.pid)
    }

    /// Waits until it ends.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Asks it to end; kills it and its group after `limit`.
    pub(super) async fn stop(mut self, limit: Duration) {
        let _ = kill_process(self.pid, Signal::TERM);
        // One that was stopped (SIGSTOP) takes no signal before it goes on.
        let _ = kill_process(self.pid, Signal::CONT);
        // A master may end before its children, which finish their requests.
        let _ = timeout(limit, async {
            let _ = self.child.wait().await;
            while test_kill_process_group(self.pid).is_ok() {
                tokio::time::sleep(LOOK).await;
            }
        })
        .await;
        self.kill_group();
        let _ = self.child.wait().await;
    }

    /// Kills what it started.
    fn kill_group(&self) {
        let _ = kill_process_group(self.pid, Signal::KILL);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill_group();
        self.guard.ended(self.pid);
    }
}

fn number(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get().cast_unsigned()
}

fn limits(settings: &AppSettings) -> Vec<(String, u64)> {
    settings.limits.iter().map(|(name, limit)| ((*name).to_owned(), *limit)).collect()
}
