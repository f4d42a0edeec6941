//! `larder slow` as a child process, before a server of the test.

use crate::larder::binary;
use crate::printed::Printed;
use crate::scratch::Scratch;
use crate::started;
use crate::wait::wait_for;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

/// What it prints once it accepts connections.
const LISTENING: &str = "larder slow: listening on ";
/// Any free port.
const ANY: &str = "127.0.0.1:0";

/// A running `larder slow --log`. Killed when dropped.
pub struct SlowProxy {
    child: Child,
    /// `127.0.0.1:PORT`, or `unix:PATH`.
    listens: String,
    log: Printed,
    stderr: Printed,
    scratch: Scratch,
}

/// A line of its log.
#[derive(Clone, Debug)]
pub struct Logged {
    /// When it came, seconds from the start.
    pub at: f64,
    /// `CONNECTION.REQUEST`.
    pub name: String,
    /// Milliseconds.
    pub held: f64,
    /// Milliseconds; `None`: it was not answered whole.
    pub took: Option<f64>,
    /// The statement, if one is known.
    pub text: String,
}

impl SlowProxy {
    /// Before this server, with these arguments.
    #[track_caller]
    pub fn before(server: SocketAddr, args: &[&str]) -> SlowProxy {
        SlowProxy::between(ANY, &server.to_string(), args)
    }

    /// On this address before this server, each `HOST:PORT` or `unix:PATH`, with these arguments.
    #[track_caller]
    pub fn between(listen: &str, server: &str, args: &[&str]) -> SlowProxy {
        SlowProxy::spawn(listen, server, args, Scratch::new("slow"))
    }

    /// Before this server, with this script; [`SlowProxy::rewrite`] gives it another.
    #[track_caller]
    pub fn scripted(server: SocketAddr, script: &str, args: &[&str]) -> SlowProxy {
        let scratch = Scratch::new("slow");
        let path = scratch.write("faults.toml", script);
        let script = ["--script", path.to_str().unwrap()];
        SlowProxy::spawn(ANY, &server.to_string(), &[&script, args].concat(), scratch)
    }

    #[track_caller]
    fn spawn(listen: &str, server: &str, args: &[&str], scratch: Scratch) -> SlowProxy {
        let (log, stdout) = Printed::new(&scratch);
        let (stderr, errors) = Printed::new(&scratch);
        let mut child = Command::new(binary())
            .args(["slow", "--listen", listen, "--log", "--to", server])
            .args(args)
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(errors)
            .spawn()
            .unwrap();
        let listens = wait_for("the slow proxy to say where it listens", || {
            let printed = stderr.text();
            let exited = child.try_wait().unwrap();
            assert!(exited.is_none(), "the slow proxy ended at once ({exited:?}):\n{printed}");
            printed.lines().find_map(|line| line.strip_prefix(LISTENING).map(str::to_owned))
        });
        SlowProxy { child, listens, log, stderr, scratch }
    }

    /// Where it listens, if that is no unix socket.
    #[track_caller]
    pub fn addr(&self) -> SocketAddr {
        self.listens.parse().unwrap()
    }

    /// What it has printed on standard error.
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Waits until it has said this.
    #[track_caller]
    pub fn wait_said(&self, part: &str) {
        wait_for(&format!("the slow proxy to say {part:?}"), || {
            self.stderr().contains(part).then_some(())
        });
    }

    /// Requests logged so far.
    pub fn logged(&self) -> Vec<Logged> {
        let log = self.log.text();
        log.lines()
            .map(|line| parse(line).unwrap_or_else(|| panic!("no line of the log: {line:?}")))
            .collect()
    }

    /// Waits until so many requests are logged, and gives all.
    #[track_caller]
    pub fn wait_logged(&self, count: usize) -> Vec<Logged> {
        wait_for("requests to be logged", || {
            Some(self.logged()).filter(|logged| logged.len() >= count)
        })
    }

    /// Gives it another script, which is in force when this returns.
    #[track_caller]
    pub fn rewrite(&self, script: &str) {
        self.write_and_hup(script, "the script was read again");
    }

    /// Gives it a script that is none, which it has refused when this returns.
    #[track_caller]
    pub fn rewrite_wrongly(&self, script: &str) {
        self.write_and_hup(script, "the script stays as it was: ");
    }

    #[track_caller]
    fn write_and_hup(&self, script: &str, answer: &str) {
        let said = || self.stderr().matches(answer).count();
        let before = said();
        self.scratch.write("faults.toml", script);
        started::signal(&self.child, rustix::process::Signal::HUP);
        wait_for("the slow proxy to read its script again", || (said() > before).then_some(()));
    }

    /// Ends it, and gives all it printed on standard error: at the end, the totals.
    #[track_caller]
    pub fn finish(mut self) -> String {
        started::signal(&self.child, rustix::process::Signal::TERM);
        let status = started::wait_exit(&mut self.child);
        assert!(status.success(), "{status:?}: {}", self.stderr());
        wait_for("the totals", || {
            Some(self.stderr()).filter(|printed| printed.contains("bytes corrupted"))
        })
    }

    /// Asks for the totals now.
    pub fn usr1(&self) {
        started::signal(&self.child, rustix::process::Signal::USR1);
    }
}

impl Drop for SlowProxy {
    fn drop(&mut self) {
        started::end(&mut self.child);
        started::tell(&self.stderr());
    }
}

/// `0.012345 1.2 held 300.012 ms took 301.234 ms SELECT 1`
fn parse(line: &str) -> Option<Logged> {
    let (at, rest) = line.split_once(' ')?;
    let (name, rest) = rest.split_once(" held ")?;
    let (held, rest) = rest.split_once(" ms ")?;
    let (took, text) = match rest.strip_prefix("not answered") {
        Some(text) => (None, text),
        None => {
            let (took, text) = rest.strip_prefix("took ")?.split_once(" ms")?;
            (Some(took.parse().ok()?), text)
        }
    };
    let text = text.trim_start().to_owned();
    Some(Logged {
        at: at.parse().ok()?,
        name: name.to_owned(),
        held: held.parse().ok()?,
        took,
        text,
    })
}
