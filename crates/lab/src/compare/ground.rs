//! The servers of a comparison, started and found out about; those that are not to be had are left out by name.

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use rustix::thread::sched_setaffinity;

use super::{machine, processors::Cpus, result::Comparison};
use crate::peers::{self, Error, Ground, Origin, Peer, Role, Running, Scratch};

/// A server that somebody else runs: `--server NAME=ADDR,pid=N`.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    pub(crate) pid: Option<u32>,
    /// `text`, `meta` or `redis`, for objects.
    pub(crate) speaks: String,
}

/// What comparisons of one command have in common.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) larder: PathBuf,
    pub(crate) given: Vec<Given>,
    /// Where servers and generator run. `None`: there is one processor.
    pub(crate) cpus: Option<Cpus>,
}

/// Servers that run, and what they stand on.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) servers: Vec<Server>,
    // Ended before the directory is removed.
    running: Vec<Running>,
    _docroot: Scratch,
}

/// A server that runs.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) ours: bool,
    /// Where it gets what it has not: an origin of its own, so that whoever asked is known. `None`: somebody else's.
    pub(crate) origin: Option<Arc<Origin>>,
    pub(crate) address: SocketAddr,
    pub(crate) redis: Option<SocketAddr>,
    pub(crate) pids: Vec<u32>,
    /// What a server of somebody else's speaks.
    pub(crate) speaks: Option<String>,
}

impl Drop for Started {
    fn drop(&mut self) {
        // All at once, not one after the other's end.
        self.running.iter().for_each(|running| running.process.ask_to_end());
    }
}

impl Stage {
    /// Starts the named servers. Who is not there is noted in the comparison.
    pub(crate) fn start(
        &self,
        names: &[String],
        role: Role,
        (sizes, pages): (&[usize], u32),
        memory: u64,
        comparison: &mut Comparison,
    ) -> Result<Started, Error> {
        let docroot = Scratch::new("docroot")?;
        // Whoever serves files may not be who we are.
        docroot.show()?;
        let files = peers::docroot(&docroot, sizes, pages)?;
        let mut started = Started { servers: Vec::new(), running: Vec::new(), _docroot: docroot };
        for peer in names.iter().filter_map(|name| peers::find(name, role)) {
            // Before the generator gets its processor: origins may run anywhere, they are idle while anything is measured.
            let origin = Origin::start()?;
            let ground = Ground {
                origin: origin.address(),
                docroot: files.clone(),
                sizes: sizes.to_vec(),
                memory: (memory >> 20) as usize,
                larder: self.larder.clone(),
                cpu: self.cpus.map(|cpus| cpus.servers),
            };
            match peer.start(&ground) {
                Ok(running) => started.add(running, origin, comparison),
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(error) => {
                    eprintln!("left out: {}: {error}", peer.title);
                    comparison.leave_out(peer.title, &error);
                }
            }
        }
        started.servers.extend(self.given.iter().map(Server::given));
        if let Some(cpus) = self.cpus {
            // Where the system refuses, the generator runs anywhere: more noise, the same figures.
            let _unpinned = sched_setaffinity(None, &peers::only(cpus.generator));
        }
        Ok(started)
    }

    /// For the head of a report.
    pub(crate) fn pinned(&self) -> String {
        match self.cpus {
            Some(cpus) => cpus.to_string(),
            None => "one, for servers and generator alike".to_owned(),
        }
    }
}

impl Started {
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

    /// The first server's name in tables; empty: none was started.
    pub(crate) fn title(&self) -> String {
        self.servers.first().map_or_else(String::new, |server| server.title.clone())
    }

    /// Resident bytes of all servers that we started.
    pub(crate) fn resident(&self) -> u64 {
        self.running.iter().map(|running| running.process.resident()).sum()
    }
}

impl Server {
    fn given(given: &Given) -> Self {
        Self {
            name: given.name.clone(),
            title: given.name.clone(),
            ours: false,
            // Its origin is somebody else's, so nothing is known of hits.
            origin: None,
            address: given.address,
            redis: None,
            pids: given.pid.into_iter().collect(),
            speaks: Some(given.speaks.clone()),
        }
    }
}

impl Comparison {
    fn leave_out(&mut self, title: &str, error: &Error) {
        let reason = error.to_string();
        self.broken |= !matches!(error, Error::NotInstalled { .. });
        // The rest is the program's own output, which was shown.
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
