//! Which servers there are to compare with, and how each is started.

use std::{
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

/// A server that takes longer to listen has a reason that its output tells. Traffic Server clears its store first.
const START: Duration = Duration::from_secs(30);
/// Up to here nginx copies; see nginx-static.conf.
const SMALL: usize = 16 << 10;
/// Up to here an answer fits one segment of the loopback device.
const MIDDLE: usize = 60_000;

macro_rules! template {
    ($file:literal) => {
        Template { file: $file, text: include_str!(concat!("../../../../bench/peers/", $file)) }
    };
}

/// What a server stands on: given to each that is started.
#[derive(Clone, Debug)]
pub struct Ground {
    /// Where caches get their pages.
    pub origin: SocketAddr,
    /// Where servers of files find theirs.
    pub docroot: PathBuf,
    /// Sizes of the pages, which are the first part of their paths.
    pub sizes: Vec<usize>,
    /// What a cache may keep, in MiB.
    pub memory: usize,
    /// Our own program.
    pub larder: PathBuf,
    /// The processor servers run on.
    pub cpu: Option<usize>,
}

/// What a server is asked for.
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
    /// As command lines and plans name it.
    pub name: &'static str,
    /// As tables name it.
    pub title: &'static str,
    /// What it is asked for.
    pub role: Role,
    /// Its program and the Debian package that has it; `None`: our own.
    program: Option<(&'static str, &'static str)>,
    /// The argument that makes the program tell its version.
    version: &'static str,
    command: fn(&Place) -> Result<Command, Error>,
}

/// A server that runs. Dropping it ends it.
#[derive(Debug)]
pub struct Running {
    /// Which one.
    pub peer: Peer,
    /// The version it said it has.
    pub version: Option<String>,
    /// Where it listens.
    pub address: SocketAddr,
    /// Where it speaks Redis's protocol, if it speaks another at `address`.
    pub redis: Option<SocketAddr>,
    /// Its processes.
    pub process: Process,
    // After the process: it is removed when nobody writes to it any more.
    _scratch: Scratch,
}

/// What a command is made of.
struct Place<'a> {
    ground: &'a Ground,
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

/// The server of that name; for objects `larder` is `larder-objects`.
pub fn find(name: &str, role: Role) -> Option<&'static Peer> {
    let same = |peer: &&Peer| {
        peer.role == role && (peer.name == name || (name == "larder" && peer.name == "larder-objects"))
    };
    PEERS.iter().find(same)
}

impl Peer {
    /// Starts it and waits until it listens.
    ///
    /// # Errors
    /// [`Error::NotInstalled`], or why it does not run, with what it said.
    pub fn start(&self, ground: &Ground) -> Result<Running, Error> {
        let program = match self.program {
            Some((program, package)) => program::find(program, package)?,
            None => ground.larder.clone(),
        };
        let scratch = Scratch::new(self.name)?;
        let (address, redis) = (free_port()?, free_port()?);
        let version = program::version(&program, self.version);
        let command = (self.command)(&Place { ground, scratch: &scratch, program, address, redis })?;
        let log = scratch.path().join("output");
        let mut process = Process::spawn(self.name, command, &log, ground.cpu)?;
        process.wait_port(address, START)?;
        let redis = (self.name == "larder-objects").then_some(redis);
        if let Some(redis) = redis {
            process.wait_port(redis, START)?;
        }
        if let Some(cpu) = ground.cpu {
            process.pin(cpu);
        }
        Ok(Running { peer: *self, version, address, redis, process, _scratch: scratch })
    }

    /// The Debian package that has it; `None`: it is our own.
    pub fn package(&self) -> Option<&'static str> {
        self.program.map(|(_, package)| package)
    }
}

impl Place<'_> {
    /// What all configurations may ask for.
    fn values(&self) -> Result<Values, Error> {
        let ground = self.ground;
        let sizes = |from: usize, to: usize| {
            let within = ground.sizes.iter().filter(|size| (from..to).contains(*size));
            within.map(usize::to_string).collect()
        };
        Ok(Values::default()
            .with("dir", self.dir().display())
            .with("docroot", ground.docroot.display())
            .with("listen", self.address)
            .with("host", self.address.ip())
            .with("port", self.address.port())
            .with("redis", self.redis)
            .with("origin", ground.origin)
            .with("origin_host", ground.origin.ip())
            .with("origin_port", ground.origin.port())
            .with("memory", ground.memory)
            .with("memory_bytes", ground.memory << 20)
            .with("user", user())
            .with_list("small", sizes(0, SMALL))
            .with_list("middle", sizes(SMALL, MIDDLE)))
    }

    /// Where its files are. Nobody else writes there; most servers stay who they are.
    fn dir(&self) -> &Path {
        self.scratch.path()
    }

    /// A filled-in configuration in that directory.
    fn file(&self, template: Template, name: &str, values: &Values) -> Result<PathBuf, Error> {
        self.scratch.write(name, template.fill(values)?)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(self.dir());
        command
    }
}

/// Who we are, for programs that insist on being told whom to become.
fn user() -> String {
    let user = User::from_uid(geteuid());
    user.ok().flatten().map_or_else(|| "root".to_owned(), |user| user.name)
}

fn floor(place: &Place) -> Result<Command, Error> {
    let mut command = place.command();
    command.args(["bench", "origin", "--listen", &place.address.to_string()]);
    Ok(command)
}

fn larder_pages(place: &Place) -> Result<Command, Error> {
    larder(place, template!("larder-http.toml"))
}

fn larder_objects(place: &Place) -> Result<Command, Error> {
    larder(place, template!("larder-objects.toml"))
}

fn larder(place: &Place, template: Template) -> Result<Command, Error> {
    let file = place.file(template, "larder.toml", &place.values()?)?;
    let mut command = place.command();
    command.args(["serve", "--config"]).arg(file);
    Ok(command)
}

fn nginx_static(place: &Place) -> Result<Command, Error> {
    nginx(place, template!("nginx-static.conf"))
}

fn nginx_cache(place: &Place) -> Result<Command, Error> {
    nginx(place, template!("nginx-cache.conf"))
}

fn nginx(place: &Place, template: Template) -> Result<Command, Error> {
    let file = place.file(template, "nginx.conf", &place.values()?)?;
    let mut command = place.command();
    // As root, its workers become nobody; what they write to it gives them itself.
    place.scratch.show()?;
    // -e: Debian's nginx would open its own error log before it reads the configuration.
    command.args(["-e", "stderr", "-p"]).arg(place.dir()).arg("-c").arg(file);
    Ok(command)
}

fn lighttpd(place: &Place) -> Result<Command, Error> {
    let file = place.file(template!("lighttpd.conf"), "lighttpd.conf", &place.values()?)?;
    let mut command = place.command();
    command.args(["-D", "-f"]).arg(file);
    Ok(command)
}

fn haproxy(place: &Place) -> Result<Command, Error> {
    let file = place.file(template!("haproxy.cfg"), "haproxy.cfg", &place.values()?)?;
    let mut command = place.command();
    // -db: in the foreground.
    command.args(["-db", "-f"]).arg(file);
    Ok(command)
}

fn varnish(place: &Place) -> Result<Command, Error> {
    let values = place.values()?;
    place.file(template!("varnish.vcl"), "varnish.vcl", &values)?;
    let mut command = place.command();
    command.args(template!("varnish.conf").arguments(&values)?);
    Ok(command)
}

fn traffic_server(place: &Place) -> Result<Command, Error> {
    let values = place.values()?;
    for dir in ["etc", "run", "log", "cache", "var"] {
        place.scratch.dir(dir)?;
    }
    place.file(template!("trafficserver-records.config"), "etc/records.config", &values)?;
    place.file(template!("trafficserver-storage.config"), "etc/storage.config", &values)?;
    place.file(template!("trafficserver-remap.config"), "etc/remap.config", &values)?;
    place.file(template!("trafficserver-ip_allow.yaml"), "etc/ip_allow.yaml", &values)?;
    place.scratch.write("etc/plugin.config", "")?;
    let root = place.file(template!("trafficserver-runroot.yaml"), "runroot.yaml", &values)?;
    let mut command = place.command();
    command.arg(format!("--run-root={}", root.display()));
    Ok(command)
}

fn squid(place: &Place) -> Result<Command, Error> {
    use std::os::unix::process::CommandExt;
    // Squid without its watcher refuses to be root. Debian's package makes `proxy`.
    let user = ["proxy", "nobody"].iter().find_map(|name| User::from_name(name).ok().flatten());
    let user = user.filter(|_| geteuid().is_root());
    let own = match &user {
        Some(user) => place.scratch.dir_of("own", user)?,
        None => place.scratch.dir("own")?,
    };
    place.scratch.show()?;
    let values = place.values()?.with("dir", own.display());
    let file = place.file(template!("squid.conf"), "squid.conf", &values)?;
    let mut command = place.command();
    // In the foreground, one process, complaints to its output.
    // -n: its shared memory is named after the service, and others may run.
    let service = format!("larder{}", place.address.port());
    command.args(["-N", "-d1", "-n", &service, "-f"]).arg(file);
    if let Some(user) = user {
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
    }
    Ok(command)
}

fn memcached(place: &Place) -> Result<Command, Error> {
    let mut command = place.command();
    command.args(template!("memcached.conf").arguments(&place.values()?)?);
    Ok(command)
}

fn redis_lru(place: &Place) -> Result<Command, Error> {
    redis(place, "allkeys-lru")
}

fn redis_lfu(place: &Place) -> Result<Command, Error> {
    redis(place, "allkeys-lfu")
}

fn redis(place: &Place, policy: &str) -> Result<Command, Error> {
    let values = place.values()?.with("policy", policy);
    let file = place.file(template!("redis.conf"), "redis.conf", &values)?;
    let mut command = place.command();
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
