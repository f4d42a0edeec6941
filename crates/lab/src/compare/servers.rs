//! Starts the servers of a comparison; servers that are not available are listed as left out.

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use rustix::thread::sched_setaffinity;

use super::{machine, processors::Cpus, result::Comparison};
use crate::peers::{self, Error, Origin, Peer, PeerConfig, Role, Running, Scratch};

/// A server started by the user: `--server NAME=ADDR,pid=N`.
#[derive(Clone, Debug)]
pub(crate) struct ExternalServer {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    pub(crate) pid: Option<u32>,
    /// `text`, `meta` or `redis`, for objects.
    pub(crate) speaks: String,
}

/// Settings shared by the comparisons of one command.
#[derive(Debug)]
pub(crate) struct Environment {
    pub(crate) larder: PathBuf,
    pub(crate) external: Vec<ExternalServer>,
    /// Processors of servers and generator. `None`: there is only one processor.
    pub(crate) cpus: Option<Cpus>,
}

/// Running servers, and the resources they use.
#[derive(Debug)]
pub(crate) struct RunningServers {
    pub(crate) servers: Vec<Server>,
    // Declared first: ended before the directory is removed.
    running: Vec<Running>,
    _docroot: Scratch,
}

/// A running server.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) ours: bool,
    /// Its own origin, so that requests of this server are counted apart. `None`: the server is
    /// external.
    pub(crate) origin: Option<Arc<Origin>>,
    pub(crate) address: SocketAddr,
    pub(crate) redis: Option<SocketAddr>,
    pub(crate) pids: Vec<u32>,
    /// Protocol of an external server.
    pub(crate) speaks: Option<String>,
}

impl Drop for RunningServers {
    fn drop(&mut self) {
        // Asked all at once: waiting for each in turn takes longer.
        self.running.iter().for_each(|running| running.process.ask_to_end());
    }
}

impl Environment {
    /// Starts the named servers. Unavailable ones are noted in the comparison.
    pub(crate) fn start(
        &self,
        names: &[String],
        role: Role,
        (sizes, pages): (&[usize], u32),
        memory: u64,
        comparison: &mut Comparison,
    ) -> Result<RunningServers, Error> {
        let docroot = Scratch::new("docroot")?;
        // Servers of files may run as another user.
        docroot.show()?;
        let files = peers::docroot(&docroot, sizes, pages)?;
        let mut started =
            RunningServers { servers: Vec::new(), running: Vec::new(), _docroot: docroot };
        for peer in names.iter().filter_map(|name| peers::find(name, role)) {
            // Before the generator is pinned: origins may run anywhere, they are idle while
            // anything is measured.
            let origin = Origin::start()?;
            let config = PeerConfig {
                origin: origin.address(),
                docroot: files.clone(),
                sizes: sizes.to_vec(),
                memory: (memory >> 20) as usize,
                larder: self.larder.clone(),
                cpu: self.cpus.map(|cpus| cpus.servers),
            };
            match peer.start(&config) {
                Ok(running) => started.add(running, origin, comparison),
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(error) => {
                    eprintln!("left out: {}: {error}", peer.title);
                    comparison.leave_out(peer.title, &error);
                }
            }
        }
        started.servers.extend(self.external.iter().map(Server::external));
        if let Some(cpus) = self.cpus {
            // If the system refuses, the generator runs anywhere: more noise, the same figures.
            let _unpinned = sched_setaffinity(None, &peers::only(cpus.generator));
        }
        Ok(started)
    }

    /// Description for the head of a report.
    pub(crate) fn pinned(&self) -> String {
        match self.cpus {
            Some(cpus) => cpus.to_string(),
            None => "one, for servers and generator alike".to_owned(),
        }
    }
}

impl RunningServers {
    fn add(&mut self, running: Running, origin: Origin, comparison: &mut Comparison) {
        let Peer { name, title, .. } = running.peer;
        let ours = name.starts_with("larder");
        let version = running.version.clone().unwrap_or_else(|| "unknown".to_owned());
        if name != "floor" {
            comparison.versions.push((title.to_owned(), version));
        }
        self.servers.push(Server {
            name: if ours { "larder".to_owned() } else { name.to_owned() },
            title: title.to_owned(),
            ours,
            origin: Some(Arc::new(origin)),
            address: running.address,
            redis: running.redis,
            pids: vec![running.process.pid()],
            speaks: None,
        });
        self.running.push(running);
    }

    /// Name of the first server for table titles; empty if none was started.
    pub(crate) fn title(&self) -> String {
        self.servers.first().map_or_else(String::new, |server| server.title.clone())
    }

    /// Resident memory of all servers that were started, in bytes.
    pub(crate) fn resident(&self) -> u64 {
        self.running.iter().map(|running| running.process.resident()).sum()
    }
}

impl Server {
    fn external(external: &ExternalServer) -> Self {
        Self {
            name: external.name.clone(),
            title: external.name.clone(),
            ours: false,
            // The origin of an external server is unknown, so its hits are not counted.
            origin: None,
            address: external.address,
            redis: None,
            pids: external.pid.into_iter().collect(),
            speaks: Some(external.speaks.clone()),
        }
    }
}

impl Comparison {
    fn leave_out(&mut self, title: &str, error: &Error) {
        let reason = error.to_string();
        self.broken |= !matches!(error, Error::NotInstalled { .. });
        // The other lines are the program's own output, already shown.
        let reason = reason.lines().next().unwrap_or_default();
        let line = format!("{title}: {reason}");
        if !self.left_out.contains(&line) {
            self.left_out.push(line);
        }
    }

    pub(crate) fn new(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            date: machine::today(),
            machine: machine::Machine::here(),
            versions: Vec::new(),
            how: Vec::new(),
            left_out: Vec::new(),
            tables: Vec::new(),
            grids: Vec::new(),
            broken: false,
            interrupted: false,
        }
    }
}
