//! A Larder that serves queues.

use crate::larder::binary;
use crate::memcache::Talk;
use crate::scratch::Scratch;
use crate::started::Started;
use std::net::TcpStream;
use std::ops::Deref;
use std::path::Path;
use std::process::Command;

/// A running Larder with `[queue]` and nothing else. Killed when dropped.
pub struct Queues(Started);

impl Queues {
    /// With its journals in this directory, and these lines in `[queue]` and behind it.
    #[track_caller]
    pub fn start(directory: &Scratch, lines: &str) -> Queues {
        Queues::start_by(directory, lines, (":", ""))
    }

    /// The same, by a shell that runs `first`, and with lines above `[queue]`.
    #[track_caller]
    pub fn start_by(directory: &Scratch, lines: &str, by: (&str, &str)) -> Queues {
        Queues::start_in(&directory.file("queues"), lines, by)
    }

    /// The same with its journals at this path.
    #[track_caller]
    pub fn start_in(path: &Path, lines: &str, (first, top): (&str, &str)) -> Queues {
        Queues(Started::start(|own, port| {
            let config = own.join("larder.toml");
            let text = format!(
                "threads = 2\nmemory = \"32MiB\"\ncontrol = \"{}\"\n{top}\n[queue]\n\
                 listen = [\"127.0.0.1:{port}\"]\npath = \"{}\"\n{lines}\n",
                own.display(),
                path.display(),
            );
            std::fs::write(&config, text).unwrap();
            let mut command = Command::new("/bin/sh");
            command.arg("-c").arg(format!("{first}; exec \"$0\" serve --config \"$1\""));
            command.arg(binary()).arg(config);
            (command, None)
        }))
    }

    /// Kills it (SIGKILL), and waits for its end.
    pub fn kill(self) {
        drop(self);
    }

    /// A new connection to it.
    #[track_caller]
    pub fn connect(&self) -> Talk<TcpStream> {
        Talk::tcp(self.addr())
    }
}

impl Deref for Queues {
    type Target = Started;

    fn deref(&self) -> &Started {
        &self.0
    }
}

impl std::ops::DerefMut for Queues {
    fn deref_mut(&mut self) -> &mut Started {
        &mut self.0
    }
}

/// A `set` of this item.
pub fn set(queue: &str, data: &str) -> String {
    format!("set {queue} 0 0 {}\r\n{data}\r\n", data.len())
}

/// The answer to a `get` that finds this item.
pub fn value(queue: &str, data: &str) -> String {
    format!("VALUE {queue} 0 {}\r\n{data}\r\nEND\r\n", data.len())
}
