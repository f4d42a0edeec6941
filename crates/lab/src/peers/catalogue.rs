//! Catalogue of the servers to compare with, and how each is started.

use std::{
    env,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use nix::unistd::{User, geteuid};

use super::{
    Error, Process, Scratch, free_port, program,
    template::{Template, Values},
};

/// Time limit for a server to listen; a slower one has a reason that its output tells. Traffic
/// Server clears its store first.
const START: Duration = Duration::from_secs(30);
/// Largest page that nginx copies; see nginx-static.conf.
const SMALL: usize = 16 << 10;
/// Largest answer that fits one segment of the loopback device.
const MIDDLE: usize = 60_000;

macro_rules! template {
    ($file:literal) => {
        Template { file: $file, text: include_str!(concat!("../../../../bench/peers/", $file)) }
    };
}

/// Settings common to all servers of a comparison.
#[derive(Clone, Debug)]
pub struct PeerConfig {
    /// Origin of the caches.
    pub origin: SocketAddr,
    /// Directory of the pages for file servers.
    pub docroot: PathBuf,
    /// Page sizes, which are the first part of the paths.
    pub sizes: Vec<usize>,
    /// Size of each cache in MiB.
    pub memory: usize,
    /// The program to start as Larder.
    pub larder: PathBuf,
    /// Processor that servers run on.
    pub cpu: Option<usize>,
}

/// Kind of content a server serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Pages over HTTP.
    Pages,
    /// Objects over memcached's or Redis's protocol.
    Objects,
}

/// A server that can be started.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// Name on command lines and in plans.
    pub name: &'static str,
    /// Name in tables.
    pub title: &'static str,
    /// Kind of content.
    pub role: Role,
    /// Its program and Debian package; `None`: one of our programs.
    program: Option<(&'static str, &'static str)>,
    /// The argument that prints the program's version.
    version: &'static str,
    command: fn(&LaunchContext) -> Result<Command, Error>,
}

/// A running server. Dropping it ends it.
#[derive(Debug)]
pub struct Running {
    /// The catalogue entry.
    pub peer: Peer,
    /// The version it reported.
    pub version: Option<String>,
    /// Its address.
    pub address: SocketAddr,
    /// Its address for Redis's protocol, if it has another protocol at `address`.
    pub redis: Option<SocketAddr>,
    /// Its processes.
    pub process: Process,
    // Dropped after the process: removed when no process writes to it any more.
    _scratch: Scratch,
}

/// Parameters for the command line of one server.
struct LaunchContext<'a> {
    config: &'a PeerConfig,
    scratch: &'a Scratch,
    program: PathBuf,
    address: SocketAddr,
    redis: SocketAddr,
}

/// All servers, in the order of tables.
pub const PEERS: &[Peer] = &[
    Peer {
        name: "floor",
        title: "floor (canned answers)",
        role: Role::Pages,
        program: None,
        version: "--version",
        command: floor,
    },
    Peer {
        name: "larder",
        title: "Larder",
        role: Role::Pages,
        program: None,
        version: "--version",
        command: larder_pages,
    },
    Peer {
        name: "nginx-static",
        title: "nginx, files",
        role: Role::Pages,
        program: Some(("nginx", "nginx-light")),
        version: "-v",
        command: nginx_static,
    },
    Peer {
        name: "nginx-cache",
        title: "nginx, proxy_cache",
        role: Role::Pages,
        program: Some(("nginx", "nginx-light")),
        version: "-v",
        command: nginx_cache,
    },
    Peer {
        name: "lighttpd",
        title: "lighttpd, files",
        role: Role::Pages,
        program: Some(("lighttpd", "lighttpd")),
        version: "-v",
        command: lighttpd,
    },
    Peer {
        name: "haproxy",
        title: "HAProxy, cache",
        role: Role::Pages,
        program: Some(("haproxy", "haproxy")),
        version: "-v",
        command: haproxy,
    },
    Peer {
        name: "varnish",
        title: "Varnish, malloc",
        role: Role::Pages,
        program: Some(("varnishd", "varnish")),
        version: "-V",
        command: varnish,
    },
    Peer {
        name: "trafficserver",
        title: "Traffic Server, RAM cache",
        role: Role::Pages,
        program: Some(("traffic_server", "trafficserver")),
        version: "--version",
        command: traffic_server,
    },
    Peer {
        name: "squid",
        title: "Squid, memory",
        role: Role::Pages,
        program: Some(("squid", "squid")),
        version: "-v",
        command: squid,
    },
    Peer {
        name: "memcached",
        title: "memcached",
        role: Role::Objects,
        program: Some(("memcached", "memcached")),
        version: "-V",
        command: memcached,
    },
    Peer {
        name: "redis",
        title: "Redis",
        role: Role::Objects,
        program: Some(("redis-server", "redis-server")),
        version: "--version",
        command: redis_lru,
    },
    Peer {
        name: "redis-lfu",
        title: "Redis, LFU",
        role: Role::Objects,
        program: Some(("redis-server", "redis-server")),
        version: "--version",
        command: redis_lfu,
    },
    Peer {
        name: "larder-objects",
        title: "Larder",
        role: Role::Objects,
        program: None,
        version: "--version",
        command: larder_objects,
    },
];

/// The server of this name; for objects `larder` means `larder-objects`.
pub fn find(name: &str, role: Role) -> Option<&'static Peer> {
    let same = |peer: &&Peer| {
        peer.role == role
            && (peer.name == name || (name == "larder" && peer.name == "larder-objects"))
    };
    PEERS.iter().find(same)
}

impl Peer {
    /// Starts the server and waits until it listens.
    ///
    /// # Errors
    /// [`Error::NotInstalled`], or why it does not run, with its output.
    pub fn start(&self, config: &PeerConfig) -> Result<Running, Error> {
        let program = match self.program {
            Some((program, package)) => program::find(program, package)?,
            None => config.larder.clone(),
        };
        let scratch = Scratch::new(self.name)?;
        let (address, redis) = (free_port()?, free_port()?);
        let version = program::version(&program, self.version);
        let command =
            (self.command)(&LaunchContext { config, scratch: &scratch, program, address, redis })?;
        let log = scratch.path().join("output");
        let mut process = Process::spawn(self.name, command, &log, config.cpu)?;
        process.wait_port(address, START)?;
        let redis = (self.name == "larder-objects").then_some(redis);
        if let Some(redis) = redis {
            process.wait_port(redis, START)?;
        }
        if let Some(cpu) = config.cpu {
            process.pin(cpu);
        }
        Ok(Running { peer: *self, version, address, redis, process, _scratch: scratch })
    }

    /// Its Debian package; `None`: one of our programs.
    pub fn package(&self) -> Option<&'static str> {
        self.program.map(|(_, package)| package)
    }
}

impl LaunchContext<'_> {
    /// The values available to all configurations.
    fn values(&self) -> Result<Values, Error> {
        let config = self.config;
        let sizes = |from: usize, to: usize| {
            let within = config.sizes.iter().filter(|size| (from..to).contains(*size));
            within.map(usize::to_string).collect()
        };
        Ok(Values::default()
            .with("dir", self.dir().display())
            .with("docroot", config.docroot.display())
            .with("listen", self.address)
            .with("host", self.address.ip())
            .with("port", self.address.port())
            .with("redis", self.redis)
            .with("origin", config.origin)
            .with("origin_host", config.origin.ip())
            .with("origin_port", config.origin.port())
            .with("memory", config.memory)
            .with("memory_bytes", config.memory << 20)
            .with("user", user())
            .with_list("small", sizes(0, SMALL))
            .with_list("middle", sizes(SMALL, MIDDLE)))
    }

    /// Directory of its files. Other users cannot write there; most servers keep their user.
    fn dir(&self) -> &Path {
        self.scratch.path()
    }

    /// Writes a filled-in configuration to that directory.
    fn file(&self, template: Template, name: &str, values: &Values) -> Result<PathBuf, Error> {
        self.scratch.write(name, template.fill(values)?)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(self.dir());
        command
    }
}

/// Name of the current user, for programs that require a user to switch to.
fn user() -> String {
    let user = User::from_uid(geteuid());
    user.ok().flatten().map_or_else(|| "root".to_owned(), |user| user.name)
}

fn floor(launch: &LaunchContext) -> Result<Command, Error> {
    let own = env::current_exe().map_err(Error::ours("this program's own path"))?;
    let mut command = Command::new(own);
    command.current_dir(launch.dir());
    command.args(["bench", "origin", "--listen", &launch.address.to_string()]);
    Ok(command)
}

fn larder_pages(launch: &LaunchContext) -> Result<Command, Error> {
    larder(launch, template!("larder-http.toml"))
}

fn larder_objects(launch: &LaunchContext) -> Result<Command, Error> {
    larder(launch, template!("larder-objects.toml"))
}

fn larder(launch: &LaunchContext, template: Template) -> Result<Command, Error> {
    let file = launch.file(template, "larder.toml", &launch.values()?)?;
    let mut command = launch.command();
    command.args(["serve", "--config"]).arg(file);
    Ok(command)
}

fn nginx_static(launch: &LaunchContext) -> Result<Command, Error> {
    nginx(launch, template!("nginx-static.conf"))
}

fn nginx_cache(launch: &LaunchContext) -> Result<Command, Error> {
    nginx(launch, template!("nginx-cache.conf"))
}

fn nginx(launch: &LaunchContext, template: Template) -> Result<Command, Error> {
    let file = launch.file(template, "nginx.conf", &launch.values()?)?;
    let mut command = launch.command();
    // As root, its workers become nobody; nginx itself gives them what they write to.
    launch.scratch.show()?;
    // -e: Debian's nginx would open its default error log before reading the configuration.
    command.args(["-e", "stderr", "-p"]).arg(launch.dir()).arg("-c").arg(file);
    Ok(command)
}

fn lighttpd(launch: &LaunchContext) -> Result<Command, Error> {
    let file = launch.file(template!("lighttpd.conf"), "lighttpd.conf", &launch.values()?)?;
    let mut command = launch.command();
    command.args(["-D", "-f"]).arg(file);
    Ok(command)
}

fn haproxy(launch: &LaunchContext) -> Result<Command, Error> {
    let file = launch.file(template!("haproxy.cfg"), "haproxy.cfg", &launch.values()?)?;
    let mut command = launch.command();
    // -db: in the foreground.
    command.args(["-db", "-f"]).arg(file);
    Ok(command)
}

fn varnish(launch: &LaunchContext) -> Result<Command, Error> {
    let values = launch.values()?;
    launch.file(template!("varnish.vcl"), "varnish.vcl", &values)?;
    let mut command = launch.command();
    command.args(template!("varnish.conf").arguments(&values)?);
    Ok(command)
}

fn traffic_server(launch: &LaunchContext) -> Result<Command, Error> {
    let values = launch.values()?;
    for dir in ["etc", "run", "log", "cache", "var"] {
        launch.scratch.dir(dir)?;
    }
    launch.file(template!("trafficserver-records.config"), "etc/records.config", &values)?;
    launch.file(template!("trafficserver-storage.config"), "etc/storage.config", &values)?;
    launch.file(template!("trafficserver-remap.config"), "etc/remap.config", &values)?;
    launch.file(template!("trafficserver-ip_allow.yaml"), "etc/ip_allow.yaml", &values)?;
    launch.scratch.write("etc/plugin.config", "")?;
    let root = launch.file(template!("trafficserver-runroot.yaml"), "runroot.yaml", &values)?;
    let mut command = launch.command();
    command.arg(format!("--run-root={}", root.display()));
    Ok(command)
}

fn squid(launch: &LaunchContext) -> Result<Command, Error> {
    use std::os::unix::process::CommandExt;
    // Squid without its watcher refuses to run as root. Debian's package creates `proxy`.
    let user = ["proxy", "nobody"].iter().find_map(|name| User::from_name(name).ok().flatten());
    let user = user.filter(|_| geteuid().is_root());
    let own = match &user {
        Some(user) => launch.scratch.dir_of("own", user)?,
        None => launch.scratch.dir("own")?,
    };
    launch.scratch.show()?;
    let values = launch.values()?.with("dir", own.display());
    let file = launch.file(template!("squid.conf"), "squid.conf", &values)?;
    let mut command = launch.command();
    // In the foreground, one process, errors to its output.
    // -n: shared memory is named after the service, and other instances may run.
    let service = format!("larder{}", launch.address.port());
    command.args(["-N", "-d1", "-n", &service, "-f"]).arg(file);
    if let Some(user) = user {
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
    }
    Ok(command)
}

fn memcached(launch: &LaunchContext) -> Result<Command, Error> {
    let mut command = launch.command();
    command.args(template!("memcached.conf").arguments(&launch.values()?)?);
    Ok(command)
}

fn redis_lru(launch: &LaunchContext) -> Result<Command, Error> {
    redis(launch, "allkeys-lru")
}

fn redis_lfu(launch: &LaunchContext) -> Result<Command, Error> {
    redis(launch, "allkeys-lfu")
}

fn redis(launch: &LaunchContext, policy: &str) -> Result<Command, Error> {
    let values = launch.values()?.with("policy", policy);
    let file = launch.file(template!("redis.conf"), "redis.conf", &values)?;
    let mut command = launch.command();
    command.arg(file);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use std::fs;

    #[test]
    fn every_configuration_is_somebodys() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/peers");
        for file in fs::read_dir(dir).unwrap().flatten() {
            let name = file.file_name().to_string_lossy().into_owned();
            let used = format!("template!(\"{name}\")");
            assert!(include_str!("catalogue.rs").contains(&used), "bench/peers/{name} is nobody's");
        }
    }
}
