//! Web server of the wiki.
//!
//! nginx with php-fpm is the usual setup and the fair choice: workers are started before the first
//! request, two more than users (for requests that check answers), so that no request waits for a
//! worker and a slow database shows as it is; all share one opcode cache, and nginx keeps the
//! users' connections. PHP's own server needs one package less, but closes each connection after
//! its answer.

use std::{net::SocketAddr, os::unix::net::UnixStream, path::Path, process::Command};

use super::{STARTING, args::Php, error::Error, programs::Programs, wiki::Wiki};
use crate::peers::{self, Process};

/// Workers in addition to one per user.
const SPARE_WORKERS: u32 = 2;
/// Time limit of nginx and PHP in seconds, longer than any page takes with a slow database.
pub(super) const LONGEST_PAGE: u64 = 900;

/// A running web server of the wiki.
#[derive(Debug)]
pub(super) struct Web {
    addr: SocketAddr,
    processes: Vec<Process>,
}

impl Web {
    /// Starts the server for this many concurrent users.
    pub(super) fn start(
        programs: &Programs,
        dir: &Path,
        wiki: &Wiki,
        php: Php,
        users: u32,
    ) -> Result<Web, Error> {
        let addr = peers::free_port()?;
        let workers = users + SPARE_WORKERS;
        let processes = match php {
            Php::Fpm => fpm(programs, dir, wiki, addr, workers)?,
            Php::Cli => cli(programs, dir, wiki, addr, workers)?,
        };
        let mut web = Web { addr, processes };
        if let Some(last) = web.processes.last_mut() {
            last.wait_port(addr, STARTING)?;
        }
        Ok(web)
    }

    pub(super) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Processes whose time counts as MediaWiki's.
    pub(super) fn pids(&self) -> Vec<u32> {
        self.processes.iter().map(Process::pid).collect()
    }
}

fn write(dir: &Path, name: &str, text: &str) -> Result<std::path::PathBuf, Error> {
    let path = dir.join(name);
    std::fs::write(&path, text).map_err(|e| Error::file(&path, e))?;
    Ok(path)
}

fn fpm(
    programs: &Programs,
    dir: &Path,
    wiki: &Wiki,
    addr: SocketAddr,
    workers: u32,
) -> Result<Vec<Process>, Error> {
    let root = rustix::process::geteuid().is_root();
    let socket = dir.join("php-fpm.sock");
    let user = if root { "user = root\ngroup = root\n" } else { "" };
    let config = format!(
        "[global]\nerror_log = {dir}/php-fpm-error.log\ndaemonize = no\n[wiki]\n{user}listen = \
         {socket}\npm = static\npm.max_children = {workers}\nclear_env = \
         no\nphp_admin_value[output_buffering] = 0\nphp_admin_value[max_execution_time] = \
         {LONGEST_PAGE}\n",
        dir = dir.display(),
        socket = socket.display(),
    );
    let path = write(dir, "php-fpm.conf", &config)?;
    let mut command = Command::new(&programs.php_fpm);
    command.args(["-F", "-y"]).arg(path).args(root.then_some("-R")).envs(wiki.environment());
    let mut fpm = Process::spawn("php-fpm", command, &dir.join("php-fpm.log"), None)?;
    fpm.wait_until(addr, STARTING, || UnixStream::connect(&socket).is_ok())?;

    let config = format!(
        "{user}daemon off;\npid {dir}/nginx.pid;\nerror_log \
         {dir}/nginx-error.log;\nworker_processes 1;\nevents {{ worker_connections 1024; }}\nhttp \
         {{\naccess_log off;\n{temporary}server {{ listen {addr}; location / {{\nfastcgi_pass \
         unix:{socket};\n{parameters}fastcgi_read_timeout {LONGEST_PAGE}s;\nfastcgi_buffers 64 \
         16k;\n}} }} }}\n",
        user = if root { "user root;\n" } else { "" },
        dir = dir.display(),
        socket = socket.display(),
        temporary = temporary(dir),
        parameters = parameters(&programs.mediawiki),
    );
    let path = write(dir, "nginx.conf", &config)?;
    let mut command = Command::new(&programs.nginx);
    command.arg("-e").arg(dir.join("nginx-error.log")).arg("-c").arg(path);
    Ok(vec![fpm, Process::spawn("nginx", command, &dir.join("nginx.log"), None)?])
}

/// nginx's default directories for these belong to root.
fn temporary(dir: &Path) -> String {
    let kinds = ["client_body", "fastcgi", "proxy", "uwsgi", "scgi"];
    kinds.map(|kind| format!("{kind}_temp_path {}/nginx-{kind};\n", dir.display())).concat()
}

/// Every request is for an article, so index.php handles all of them.
fn parameters(mediawiki: &Path) -> String {
    let script = mediawiki.join("index.php").display().to_string();
    let parameters = [
        ("SCRIPT_FILENAME", script.as_str()),
        ("SCRIPT_NAME", "/index.php"),
        ("QUERY_STRING", "$query_string"),
        ("REQUEST_METHOD", "$request_method"),
        ("CONTENT_TYPE", "$content_type"),
        ("CONTENT_LENGTH", "$content_length"),
        ("REQUEST_URI", "$request_uri"),
        ("SERVER_PROTOCOL", "$server_protocol"),
        ("GATEWAY_INTERFACE", "CGI/1.1"),
        ("REMOTE_ADDR", "$remote_addr"),
        ("SERVER_ADDR", "$server_addr"),
        ("SERVER_PORT", "$server_port"),
        ("SERVER_NAME", "$host"),
        ("REDIRECT_STATUS", "200"),
    ];
    parameters.map(|(name, value)| format!("fastcgi_param {name} {value};\n")).concat()
}

fn cli(
    programs: &Programs,
    dir: &Path,
    wiki: &Wiki,
    addr: SocketAddr,
    workers: u32,
) -> Result<Vec<Process>, Error> {
    let mut command = Command::new(&programs.php);
    command
        .args(["-d", "opcache.enable_cli=1", "-d", "output_buffering=0", "-S"])
        .arg(addr.to_string());
    command.arg("-t").arg(&programs.mediawiki).arg(dir.join("router.php"));
    command.envs(wiki.environment()).env("PHP_CLI_SERVER_WORKERS", workers.to_string());
    Ok(vec![Process::spawn("PHP's own server", command, &dir.join("php.log"), None)?])
}
