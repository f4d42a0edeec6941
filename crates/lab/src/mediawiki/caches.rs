//! The caches of one row, started empty and ended with the row.

use std::{net::SocketAddr, path::Path, process::Command, time::Duration};

use super::{
    STARTING,
    error::Error,
    programs::Programs,
    rows::{Objects, Pages, Row},
    sample::SampledCache,
    web::LONGEST_PAGE,
    wiki::HOST,
};
use crate::peers::{self, Process};

/// Memory of each cache in MiB: several times the size of all articles, so that nothing is evicted.
const MEMORY: u32 = 256;
/// Threads of each cache: one, as Squid has only one.
const THREADS: u32 = 1;

/// The caches of a row.
#[derive(Debug, Default)]
pub(super) struct Caches {
    /// Address of the page cache, if the row has one.
    pub(super) front: Option<SocketAddr>,
    /// Address of the object cache.
    pub(super) objects: Option<SocketAddr>,
    /// Caches to sample.
    pub(super) watched: Vec<SampledCache>,
    processes: Vec<(&'static str, Process)>,
}

impl Caches {
    /// Starts the caches of a row for the wiki at `origin`. Files are named after the row.
    pub(super) fn start(
        programs: &Programs,
        dir: &Path,
        row: &Row,
        origin: SocketAddr,
    ) -> Result<Caches, Error> {
        let mut caches = Caches::default();
        let launch = LaunchContext { programs, dir, id: row.id };
        if row.objects == Objects::Memcached {
            caches.memcached(&launch)?;
        }
        if row.pages == Pages::Squid {
            caches.squid(&launch, origin)?;
        }
        if row.pages == Pages::Larder || row.objects == Objects::Larder {
            caches.larder(&launch, row, origin)?;
        }
        Ok(caches)
    }

    /// Process ids by name.
    pub(super) fn pids(&self) -> Vec<(&'static str, u32)> {
        self.processes.iter().map(|(name, process)| (*name, process.pid())).collect()
    }

    fn memcached(&mut self, launch: &LaunchContext<'_>) -> Result<(), Error> {
        let addr = peers::free_port()?;
        let mut command = Command::new(&launch.programs.memcached);
        command.args(["-l", "127.0.0.1", "-U", "0", "-p"]).arg(addr.port().to_string());
        command.args(["-m", &MEMORY.to_string(), "-t", &THREADS.to_string()]);
        if rustix::process::geteuid().is_root() {
            command.args(["-u", "root"]);
        }
        let mut process = launch.start("memcached", command)?;
        process.wait_port(addr, STARTING)?;
        self.objects = Some(addr);
        self.watched.push(SampledCache::memcached("memcached", addr));
        self.processes.push(("memcached", process));
        Ok(())
    }

    fn squid(&mut self, launch: &LaunchContext<'_>, origin: SocketAddr) -> Result<(), Error> {
        let addr = peers::free_port()?;
        let path = launch.write("squid.conf", &squid_conf(addr, origin))?;
        let mut command = Command::new(&launch.programs.squid);
        // -n: shared memory is named after the service, and other instances may run.
        command.args(["-N", "-d1", "-n", &format!("larder{}", addr.port()), "-f"]).arg(path);
        let mut process = launch.start("squid", command)?;
        process.wait_port(addr, STARTING)?;
        self.front = Some(addr);
        self.watched.push(SampledCache::squid("Squid", addr));
        self.processes.push(("Squid", process));
        Ok(())
    }

    /// One process for all uses; its output contains its addresses.
    fn larder(
        &mut self,
        launch: &LaunchContext<'_>,
        row: &Row,
        origin: SocketAddr,
    ) -> Result<(), Error> {
        let (pages, objects) = (row.pages == Pages::Larder, row.objects == Objects::Larder);
        let path = launch.write("larder.toml", &larder_toml(origin, pages, objects))?;
        let mut command = Command::new(&launch.programs.larder);
        command.args(["serve", "--config"]).arg(path).current_dir(launch.dir);
        let mut process = launch.start("larder", command)?;
        let log = launch.log("larder");
        let mut faces = LarderAddresses::default();
        process.wait_until(origin, STARTING, || {
            faces = LarderAddresses::of(&std::fs::read_to_string(&log).unwrap_or_default());
            faces.http.is_some() == pages
                && faces.memcached.is_some() == objects
                && faces.admin.is_some()
        })?;
        (self.front, self.objects) = (faces.http, self.objects.or(faces.memcached));
        self.watched
            .extend(faces.memcached.map(|addr| SampledCache::memcached("Larder, objects", addr)));
        self.watched.extend(
            faces.admin.filter(|_| pages).map(|admin| SampledCache::larder("Larder, pages", admin)),
        );
        self.processes.push(("Larder", process));
        Ok(())
    }
}

/// Addresses printed by Larder.
#[derive(Default)]
struct LarderAddresses {
    http: Option<SocketAddr>,
    memcached: Option<SocketAddr>,
    admin: Option<SocketAddr>,
}

impl LarderAddresses {
    fn of(printed: &str) -> LarderAddresses {
        LarderAddresses {
            http: printed_address(printed, "listening on http://"),
            memcached: printed_address(printed, "listening on memcached://"),
            admin: printed_address(printed, "admin at http://"),
        }
    }
}

/// Parameters for starting the caches of a row.
struct LaunchContext<'a> {
    programs: &'a Programs,
    dir: &'a Path,
    id: &'a str,
}

impl LaunchContext<'_> {
    fn log(&self, name: &str) -> std::path::PathBuf {
        self.dir.join(format!("{}-{name}.log", self.id))
    }

    fn start(&self, name: &'static str, command: Command) -> Result<Process, Error> {
        Ok(Process::spawn(name, command, &self.log(name), None)?)
    }

    fn write(&self, name: &str, text: &str) -> Result<std::path::PathBuf, Error> {
        let path = self.dir.join(format!("{}-{name}", self.id));
        std::fs::write(&path, text).map_err(|e| Error::file(&path, e))?;
        Ok(path)
    }
}

/// The address after these words in Larder's output.
fn printed_address(printed: &str, words: &str) -> Option<SocketAddr> {
    let rest = &printed[printed.find(words)? + words.len()..];
    let line = rest.split_once('\n')?.0;
    line.split(['/', ' ']).next()?.parse().ok()
}

/// As in the reference, a reverse proxy with memory for all pages, but without a disk cache, which
/// such a wiki would not need. It writes no files, so it needs no directory writable by its user.
fn squid_conf(addr: SocketAddr, origin: SocketAddr) -> String {
    format!(
        "http_port {addr} accel defaultsite={HOST}\nvisible_hostname squid.{HOST}\ncache_peer \
         {ip} parent {port} 0 no-query originserver\ncache_mem {MEMORY} \
         MB\nmaximum_object_size_in_memory 4 MB\nhttp_access allow all\naccess_log \
         none\ncache_log /dev/null\npid_filename none\ncoredump_dir none\nnetdb_filename \
         none\npinger_enable off\nshutdown_lifetime 0 seconds\nread_timeout {LONGEST_PAGE} \
         seconds\n",
        ip = origin.ip(),
        port = origin.port(),
    )
}

fn larder_toml(origin: SocketAddr, pages: bool, objects: bool) -> String {
    let mut text = format!(
        "memory = \"{MEMORY}MiB\"\nthreads = {THREADS}\n[admin]\nlisten = \"127.0.0.1:0\"\n"
    );
    if objects {
        text.push_str("[memcached]\nlisten = [\"127.0.0.1:0\"]\n");
    }
    if pages {
        text.push_str(&format!(
            "[http]\nlisten = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [\"{HOST}\"]\npreset = \
             \"mediawiki\"\n\
             origin = {{ url = \"http://{origin}\", first_byte_timeout = \"{LONGEST_PAGE}s\" }}\n"
        ));
    }
    text
}

/// Time limit for querying a cache: it answers from memory on this machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_from_what_larder_prints() {
        let printed = "larder: listening on http://127.0.0.1:40029\nlarder: admin at \
            http://127.0.0.1:33297/#token=db4d\nx";
        assert_eq!(
            printed_address(printed, "listening on http://"),
            "127.0.0.1:40029".parse().ok()
        );
        assert_eq!(printed_address(printed, "admin at http://"), "127.0.0.1:33297".parse().ok());
        assert_eq!(
            printed_address("larder: listening on http://127.0.0.1:400", "listening on http://"),
            None,
            "half a line"
        );
    }
}
