//! A MariaDB server in its own directory.

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

/// Time without statements after which no more are expected.
const SETTLING: Duration = Duration::from_millis(100);
/// Most checks for that; a database that never settles has other users, and its figures are wrong.
const SETTLE_CHECKS: u32 = 100;

/// A running MariaDB server.
#[derive(Debug)]
pub(super) struct MariaDb {
    client: PathBuf,
    socket: PathBuf,
    addr: SocketAddr,
    process: Process,
    /// Statements that one query for the number of statements adds.
    own: u64,
    /// Number of such queries.
    queries: AtomicU64,
}

impl MariaDb {
    pub(super) fn start(programs: &Programs, dir: &Path) -> Result<MariaDb, Error> {
        let data = dir.join("mariadb");
        let mut install = Command::new(&programs.install_db);
        install.args([
            "--no-defaults",
            "--skip-test-db",
            "--auth-root-authentication-method=normal",
        ]);
        // A starting server deletes temporary tables of other servers in the same directory.
        install.arg(option("--datadir", &data)).args(as_root()).env("TMPDIR", dir);
        Process::spawn("mariadb-install-db", install, &dir.join("mariadb-install.log"), None)?
            .finish()?;

        let socket = dir.join("mariadb.sock");
        let addr = peers::free_port()?;
        let mut server = Command::new(&programs.mariadbd);
        server.env("TMPDIR", dir);
        server
            .arg("--no-defaults")
            .arg(option("--datadir", &data))
            .arg(option("--socket", &socket));
        server.arg(option("--pid-file", &dir.join("mariadb.pid")));
        server.arg(format!("--port={}", addr.port())).args(as_root());
        // The data are temporary, so no write waits for the disk. MariaDB's query cache would be an
        // additional cache.
        server.args([
            "--bind-address=127.0.0.1",
            "--skip-log-bin",
            "--innodb-flush-log-at-trx-commit=0",
        ]);
        server.args([
            "--skip-name-resolve",
            "--query-cache-type=0",
            "--innodb-buffer-pool-size=128M",
        ]);
        let process = Process::spawn("mariadbd", server, &dir.join("mariadb.log"), None)?;
        let mut database = MariaDb {
            client: programs.mariadb.clone(),
            socket,
            addr,
            process,
            own: 0,
            queries: AtomicU64::new(0),
        };
        database.wait()?;
        // MariaDB selects the account by the kind of connection: the socket, or TCP without names.
        for host in ["localhost", "127.0.0.1"] {
            let user = format!("'wiki'@'{host}'");
            database.ask(&format!(
                "CREATE USER {user} IDENTIFIED BY 'wiki'; GRANT ALL ON wiki.* TO {user}"
            ))?;
        }
        // No other client is connected yet.
        database.own = database.counted()?.abs_diff(database.counted()?);
        database.queries.store(0, Ordering::Relaxed);
        Ok(database)
    }

    fn wait(&mut self) -> Result<(), Error> {
        let (client, socket) = (self.client.clone(), self.socket.clone());
        self.process
            .wait_until(self.addr, STARTING, || ask(&client, &socket, "SELECT 1").is_ok())?;
        Ok(())
    }

    fn ask(&self, statement: &str) -> Result<String, Error> {
        ask(&self.client, &self.socket, statement)
    }

    /// Its TCP address.
    pub(super) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Its unix socket.
    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Its process id.
    pub(super) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Number of statements of all clients so far, without queries for this number. Waits until no
    /// more arrive: MediaWiki sends some after its answer.
    pub(super) fn statements(&self) -> Result<u64, Error> {
        let mut before = self.counted()?;
        for _ in 0..SETTLE_CHECKS {
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
        let queries = self.queries.fetch_add(1, Ordering::Relaxed) + 1;
        let count = printed.split_whitespace().nth(1).and_then(|count| count.parse::<u64>().ok());
        let count = count.ok_or_else(|| {
            Error::Other(format!("MariaDB does not say how many statements it had: {printed:?}"))
        })?;
        Ok(count.saturating_sub(queries * self.own))
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

/// MariaDB refuses to run as root unless told to.
fn as_root() -> Option<&'static str> {
    rustix::process::geteuid().is_root().then_some("--user=root")
}
