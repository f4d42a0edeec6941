//! Other programs a test needs beside Larder.

use crate::started;
use rustix::net;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A child process that is killed when dropped.
pub struct Helper {
    child: Child,
}

impl Helper {
    /// Starts it and waits until it prints a line on its standard output that begins with `ready`.
    #[track_caller]
    pub fn start(command: &mut Command, ready: &str) -> Helper {
        let mut child = started::run(command.stdin(Stdio::null()).stdout(Stdio::piped()));
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let helper = Helper { child };
        let mut line = String::new();
        while !line.starts_with(ready) {
            line.clear();
            let read = stdout.read_line(&mut line).unwrap();
            assert!(read > 0, "{command:?} ended without printing {ready:?}");
        }
        // It must not block on a full pipe.
        std::thread::spawn(move || std::io::copy(&mut stdout.by_ref(), &mut std::io::sink()));
        helper
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        started::end(&mut self.child);
    }
}

/// A port of 127.0.0.1 that nobody listens on, and that nobody is given before the server it is for
/// takes it: below those the system gives out, and tests that run side by side begin elsewhere.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let step =
            std::process::id().wrapping_mul(61).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = u16::try_from(10_000 + step % 20_000).unwrap();
        if is_free(port) {
            return port;
        }
    }
}

/// Asked by binding alone: a listener lives on in what another thread forks at this moment, until
/// that has become the program it starts, and whoever connects meanwhile is reset when it does.
fn is_free(port: u16) -> bool {
    let socket = net::socket(net::AddressFamily::INET, net::SocketType::STREAM, None).unwrap();
    net::sockopt::set_socket_reuseaddr(&socket, true).unwrap();
    net::bind(&socket, &SocketAddr::from(([127, 0, 0, 1], port))).is_ok()
}

/// The top directory of the source tree.
pub fn source_root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn nobody_listens_on_a_free_port_while_programs_are_started() {
        let done = AtomicBool::new(false);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    started::run(&mut Command::new("true")).wait().unwrap();
                }
            });
            let heard: Vec<u16> = (0..3000)
                .map(|_| free_port())
                .filter(|port| TcpStream::connect(("127.0.0.1", *port)).is_ok())
                .collect();
            done.store(true, Ordering::Relaxed);
            assert!(heard.is_empty(), "{heard:?}");
        });
    }
}
