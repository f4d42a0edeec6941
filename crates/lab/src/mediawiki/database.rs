//! MariaDB in a directory of its own.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU64, Ordering},
    thread::sleep,
    time::Duration,
};

use super::{STARTING, error::Error, programs::Programs};
use crate::peers::{self, Process};

/// Nothing for so long, and no more statements are coming.
const SETTLING: Duration = Duration::from_millis(100);
/// A database that is asked without end does not settle; somebody else's statements are then in the figures.
const LOOKS: u32 = 100;

/// A running MariaDB.
#[derive(Debug)]
pub(super) struct MariaDb {
    client: PathBuf,
    socket: PathBuf,
    addr: SocketAddr,
    process: Process,
    /// What asking once for the number of statements adds to it.
    own: u64,
    /// How often it was asked.
    asked: AtomicU64,
}

impl MariaDb {
    pub(super) fn start(programs: &Programs, dir: &Path) -> Result<MariaDb, Error> {
        let data = dir.join("mariadb");
        let mut install = Command::new(&programs.install_db);
        install.args(["--no-defaults", "--skip-test-db", "--auth-root-authentication-method=normal"]);
        // A server that starts takes away other servers' temporary tables where they share a directory.
        install.arg(option("--datadir", &data)).args(as_root()).env("TMPDIR", dir);
        Process::spawn("mariadb-install-db", install, &dir.join("mariadb-install.log"), None)?.finish()?;

        let socket = dir.join("mariadb.sock");
        let addr = peers::free_port()?;
        let mut server = Command::new(&programs.mariadbd);
        server.env("TMPDIR", dir);
        server.arg("--no-defaults").arg(option("--datadir", &data)).arg(option("--socket", &socket));
        server.arg(option("--pid-file", &dir.join("mariadb.pid")));
        server.arg(format!("--port={}", addr.port())).args(as_root());
        // Thrown away afterwards, so nothing waits for the disk. Its own query cache would be one cache too many.
        server.args(["--bind-address=127.0.0.1", "--skip-log-bin", "--innodb-flush-log-at-trx-commit=0"]);
        server.args(["--skip-name-resolve", "--query-cache-type=0", "--innodb-buffer-pool-size=128M"]);
        let process = Process::spawn("mariadbd", server, &dir.join("mariadb.log"), None)?;
        let mut database = MariaDb {
            client: programs.mariadb.clone(),
            socket,
            addr,
            process,
            own: 0,
            asked: AtomicU64::new(0),
        };
        database.wait()?;
        // Which account MariaDB takes depends on how it is reached: by the socket, or over TCP without names.
        for host in ["localhost", "127.0.0.1"] {
            let user = format!("'wiki'@'{host}'");
            database
                .ask(&format!("CREATE USER {user} IDENTIFIED BY 'wiki'; GRANT ALL ON wiki.* TO {user}"))?;
        }
        // Nobody else asks yet.
        database.own = database.counted()?.abs_diff(database.counted()?);
        database.asked.store(0, Ordering::Relaxed);
        Ok(database)
    }

    fn wait(&mut self) -> Result<(), Error> {
        let (client, socket) = (self.client.clone(), self.socket.clone());
        self.process.wait_until(self.addr, STARTING, || ask(&client, &socket, "SELECT 1").is_ok())?;
        Ok(())
    }

    fn ask(&self, statement: &str) -> Result<String, Error> {
        ask(&self.client, &self.socket, statement)
    }

    /// Where it listens on TCP.
    pub(super) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Where it listens in the file system.
    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Its process.
    pub(super) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Statements of all clients so far, without those that ask for their number, when no more come in: MediaWiki has some that it
    /// sends after it has answered.
    pub(super) fn statements(&self) -> Result<u64, Error> {
        let mut before = self.counted()?;
        for _ in 0..LOOKS {
            sleep(SETTLING);
            let now = self.counted()?;
            if now == before {
                break;
            }
            before = now;
        }
        Ok(before)
    }

    fn counted(&self) -> Result<u64, Error> {
        let printed = self.ask("SHOW GLOBAL STATUS LIKE 'Questions'")?;
        let asked = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        let count = printed.split_whitespace().nth(1).and_then(|count| count.parse::<u64>().ok());
        let count = count.ok_or_else(|| {
            Error::Other(format!("MariaDB does not say how many statements it had: {printed:?}"))
        })?;
        Ok(count.saturating_sub(asked * self.own))
    }
}

fn ask(client: &Path, socket: &Path, statement: &str) -> Result<String, Error> {
    let mut command = Command::new(client);
    command.arg("--no-defaults").arg(option("--socket", socket)).args([
        "--user=root",
        "-N",
        "-B",
        "-e",
        statement,
    ]);
    let output = command.output().map_err(peers::Error::ours("MariaDB's client"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(Error::Other(format!("MariaDB: {}", String::from_utf8_lossy(&output.stderr).trim())))
}

/// `--name=path`.
fn option(name: &str, path: &Path) -> String {
    format!("{name}={}", path.display())
}

/// MariaDB does not run as root unless told to.
fn as_root() -> Option<&'static str> {
    rustix::process::geteuid().is_root().then_some("--user=root")
}
