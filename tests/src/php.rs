//! php-fpm with a directory of its own.

use crate::started::Started;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A running php-fpm, on a port or on a unix socket. Killed when dropped.
pub struct Php {
    server: Started,
    unix: bool,
}

impl Php {
    /// php-fpm with so many processes, and these files below its root.
    #[track_caller]
    pub fn start(processes: usize, unix: bool, files: &[(&str, &str)]) -> Php {
        let server = Started::start(|dir, port| {
            for (name, text) in files {
                let path = dir.join("site").join(name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            let socket = dir.join("php.sock");
            let listen =
                if unix { socket.display().to_string() } else { format!("127.0.0.1:{port}") };
            (fpm(dir, &listen, processes), unix.then_some(socket))
        });
        Php { server, unix }
    }

    /// Its address as an origin.
    pub fn url(&self) -> String {
        match self.unix {
            true => format!("fcgi+unix:{}", self.server.dir().join("php.sock").display()),
            false => format!("fcgi://{}", self.server.addr()),
        }
    }

    /// The directory of its scripts.
    pub fn root(&self) -> PathBuf {
        self.server.dir().join("site")
    }

    /// Lines of `[site.origin]` that name it and its root.
    pub fn origin(&self) -> String {
        format!("url = \"{}\"\nroot = \"{}\"\n", self.url(), self.root().display())
    }
}

/// The command that starts php-fpm with its files in a directory. Its scripts see the command's
/// environment.
pub(crate) fn fpm(dir: &Path, listen: &str, processes: usize) -> Command {
    // Root is only let in with -R, and needs a user.
    let root = rustix::process::getuid().is_root();
    let user = if root { "user = root\ngroup = root\n" } else { "" };
    let config = format!(
        "[global]\nerror_log = {}/fpm.log\ndaemonize = no\n[www]\nlisten = {listen}\npm = \
         static\npm.max_children = {processes}\nclear_env = no\n{user}",
        dir.display()
    );
    std::fs::write(dir.join("fpm.conf"), config).unwrap();
    let mut command = Command::new(binary());
    command.args(["-R", "-F", "-y"]).arg(dir.join("fpm.conf"));
    command.args(["-d", "display_errors=0", "-d", "log_errors=1", "-d", "output_buffering=0"]);
    command
}

/// php-fpm as Debian names it.
fn binary() -> PathBuf {
    let names = std::fs::read_dir("/usr/sbin").unwrap().flatten().map(|entry| entry.path());
    let mut found: Vec<_> = names.filter(|path| is_fpm(path)).collect();
    found.sort();
    found.pop().expect("php-fpm is not installed: run scripts/test-deps.sh")
}

fn is_fpm(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("php-fpm"))
}
