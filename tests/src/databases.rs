//! Debian's MariaDB and PostgreSQL, each in a directory of its own.

use crate::started::Started;
use crate::wait::wait_until;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Debian's `nobody`: PostgreSQL refuses to run as root.
const NOBODY: u32 = 65_534;

/// A MariaDB that lets in anybody from this machine; its unix socket is `socket` in its directory.
#[track_caller]
pub fn mariadb() -> Started {
    Started::start(|dir, port| {
        let data = dir.join("data");
        let user = if is_root() { "--user=root" } else { "--skip-log-bin" };
        // A server that starts takes away other servers' temporary tables where they share a
        // directory.
        let mut install = Command::new("mariadb-install-db");
        install.env("TMPDIR", dir);
        install.args([
            "--no-defaults",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
            user,
        ]);
        must(install.arg(format!("--datadir={}", data.display())));
        let mut server = Command::new("mariadbd");
        server
            .env("TMPDIR", dir)
            .args([
                "--no-defaults",
                "--bind-address=127.0.0.1",
                "--skip-grant-tables",
                "--local-infile=1",
            ])
            .args(["--innodb-buffer-pool-size=16M", "--innodb-flush-log-at-trx-commit=0", user])
            .arg(format!("--port={port}"))
            .arg(format!("--datadir={}", data.display()))
            .arg(format!("--socket={}", dir.join("socket").display()));
        (server, None)
    })
}

/// A PostgreSQL that lets in anybody from this machine; its superuser is `tester`, its unix socket
/// [`postgres_socket`].
#[track_caller]
pub fn postgres() -> Started {
    let bin = postgres_bin();
    let server = Started::start(|dir, port| {
        let data = dir.join("data");
        std::fs::create_dir(&data).unwrap();
        if is_root() {
            std::os::unix::fs::chown(&data, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let mut init = unprivileged(&bin.join("initdb"));
        must(
            init.current_dir("/")
                .args(["-U", "tester", "-A", "trust", "--no-sync", "--locale=C", "-D"])
                .arg(&data),
        );
        let mut server = unprivileged(&bin.join("postgres"));
        server.arg("-D").arg(&data).args([
            "-p",
            &port.to_string(),
            "-c",
            "listen_addresses=127.0.0.1",
        ]);
        server
            .arg("-c")
            .arg(format!("unix_socket_directories={}", data.display()))
            .args(["-c", "fsync=off"]);
        (server, None)
    });
    wait_until("PostgreSQL to be ready", || {
        let ready = psql(server.port()).args(["-c", "SELECT 1"]).output().unwrap();
        ready.status.success()
    });
    server
}

/// The unix socket of a server of [`postgres`].
pub fn postgres_socket(server: &Started) -> PathBuf {
    server.dir().join(format!("data/.s.PGSQL.{}", server.port()))
}

/// `psql` to this port.
pub fn psql(port: u16) -> Command {
    let mut command = Command::new("psql");
    command.args([
        "-X",
        "-A",
        "-t",
        "-h",
        "127.0.0.1",
        "-U",
        "tester",
        "-d",
        "postgres",
        "-p",
        &port.to_string(),
    ]);
    command.stdin(Stdio::null());
    command
}

/// The `mariadb` client to this port.
pub fn mariadb_client(port: u16) -> Command {
    let mut command = Command::new("mariadb");
    command.args([
        "--no-defaults",
        "-N",
        "-B",
        "-h",
        "127.0.0.1",
        "-u",
        "root",
        "-P",
        &port.to_string(),
    ]);
    command.stdin(Stdio::null());
    command
}

/// Where PostgreSQL's own programs are: Debian keeps them by version, out of the path.
#[track_caller]
pub fn postgres_bin() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql")
        .map(|found| found.flatten().collect())
        .unwrap_or(vec![]);
    let newest = versions
        .iter()
        .map(|version| version.path().join("bin"))
        .filter(|bin| bin.join("initdb").exists())
        .max();
    newest.expect("PostgreSQL is not installed; scripts/test-deps.sh installs what tests need")
}

fn is_root() -> bool {
    rustix::process::getuid().is_root()
}

fn unprivileged(program: &Path) -> Command {
    let mut command = Command::new(program);
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

/// Runs it to its end, which must be a good one; gives what it printed on standard output.
#[track_caller]
pub fn must(command: &mut Command) -> String {
    let output: Output = command.output().unwrap_or_else(|e| {
        panic!("{command:?} does not start: {e}; scripts/test-deps.sh installs what tests need")
    });
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{stderr}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}
