//! Servers that speak memcached's protocols, and a connection to one: exact bytes out, exact bytes
//! in.

use crate::helper::source_root;
use crate::larder::binary;
use crate::started::{self, Started};
use crate::wait::{PATIENCE, wait_for};
use std::ffi::OsString;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::{Deref, DerefMut};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A running memcached: Larder as one, or Debian's. Killed when dropped.
pub struct Memcached(Started);

impl Memcached {
    /// `larder memcached` with these flags on a port of its own.
    #[track_caller]
    pub fn larder(flags: &[&str]) -> Memcached {
        let mut command = Command::new(binary());
        command.arg("memcached");
        Memcached::start(command, flags)
    }

    /// The same with a file of users for SASL.
    #[track_caller]
    pub fn larder_with_sasl(users: &Path) -> Memcached {
        let mut command = Command::new(binary());
        command.arg("memcached").env("MEMCACHED_SASL_PWDB", users);
        Memcached::start(command, &["-S"])
    }

    /// Debian's `memcached` with these flags on a port of its own.
    #[track_caller]
    pub fn debian(flags: &[&str]) -> Memcached {
        Memcached::start(Command::new("/usr/bin/memcached"), flags)
    }

    /// Debian's `memcached` behind SASL, which knows this user.
    #[track_caller]
    pub fn debian_with_sasl(user: &str, password: &str) -> Memcached {
        Memcached(Started::start(|dir, port| {
            let db = dir.join("sasldb");
            let lines = format!("mech_list: plain\nsasldb_path: {}\n", db.display());
            std::fs::write(dir.join("memcached.conf"), lines).unwrap();
            let mut add = Command::new("saslpasswd2");
            let add = add
                .args(["-p", "-c", "-a", "memcached", "-f"])
                .arg(db)
                .arg(user)
                .stdin(Stdio::piped());
            let mut add = add
                .spawn()
                .unwrap_or_else(|e| panic!("saslpasswd2: {e}; see scripts/test-deps.sh"));
            add.stdin.take().unwrap().write_all(password.as_bytes()).unwrap();
            assert!(add.wait().unwrap().success());
            let mut command = Command::new("/usr/bin/memcached");
            command.env("SASL_CONF_PATH", dir);
            command.args(["-S", "-u", "root", "-l", "127.0.0.1", "-p", &port.to_string()]);
            (command, None)
        }))
    }

    /// Debian's `memcached` on this port, which nobody has any more.
    #[track_caller]
    pub fn debian_at(port: u16) -> Memcached {
        Memcached(Started::start_at(port, |_, port| {
            let mut command = Command::new("/usr/bin/memcached");
            command.args(["-u", "root", "-l", "127.0.0.1", "-p", &port.to_string()]);
            (command, None)
        }))
    }

    /// `@DIR@` in the flags is a directory of the server's own. With `-s` it listens on no port.
    #[track_caller]
    fn start(mut command: Command, flags: &[&str]) -> Memcached {
        Memcached(Started::start(|dir, port| {
            let flags = flags.iter().map(|flag| flag.replace("@DIR@", &dir.to_string_lossy()));
            let flags = flags.collect::<Vec<_>>();
            let unix =
                flags.iter().position(|flag| flag == "-s").map(|at| PathBuf::from(&flags[at + 1]));
            // Root has to say whom to become, others are not listened to.
            command.args(["-u", "root"]);
            if unix.is_none() {
                command.args(["-l", "127.0.0.1", "-p", &port.to_string()]);
            }
            command.args(&flags);
            (command, unix)
        }))
    }

    /// `127.0.0.1:port`, as clients take it.
    pub fn server(&self) -> String {
        self.addr().to_string()
    }

    /// A new connection to it.
    #[track_caller]
    pub fn connect(&self) -> Talk<TcpStream> {
        Talk::tcp(self.addr())
    }
}

impl Deref for Memcached {
    type Target = Started;

    fn deref(&self) -> &Started {
        &self.0
    }
}

impl DerefMut for Memcached {
    fn deref_mut(&mut self) -> &mut Started {
        &mut self.0
    }
}

/// A connection.
pub struct Talk<S> {
    stream: S,
    /// Received, not yet taken.
    buffer: Vec<u8>,
}

impl Talk<TcpStream> {
    /// Over TCP.
    #[track_caller]
    pub fn tcp(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect_timeout(&addr, PATIENCE)
            .unwrap_or_else(|e| panic!("connect to {addr}: {e}"));
        stream.set_nodelay(true).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Talk::over(stream)
    }

    /// Over a socket with options of its own.
    pub fn over(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Talk { stream, buffer: Vec::new() }
    }

    /// How long reading waits from now on.
    pub fn patience(&mut self, patience: Duration) {
        self.stream.set_read_timeout(Some(patience)).unwrap();
    }

    /// The socket.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }
}

impl Talk<UnixStream> {
    /// Over a unix socket.
    #[track_caller]
    pub fn unix(path: &Path) -> Self {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Talk { stream, buffer: Vec::new() }
    }
}

/// What reading came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// What was waited for has come.
    Found,
    /// The server closed the connection.
    Closed,
    /// Nothing came for as long as reading waits.
    Silent,
}

impl<S: Read + Write> Talk<S> {
    /// Sends exact bytes. A peer that has closed already is no error here: reading tells.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        if let Err(e) = self.stream.write_all(bytes.as_ref()) {
            let gone = matches!(e.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset);
            assert!(gone, "sending: {e}");
        }
        self
    }

    /// Reads what has come, once.
    pub fn more(&mut self) -> End {
        let mut chunk = vec![0; 256 * 1024];
        match self.stream.read(&mut chunk) {
            Ok(0) => End::Closed,
            Ok(n) => {
                self.buffer.extend_from_slice(&chunk[..n]);
                End::Found
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                End::Silent
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => End::Found,
            Err(e) if e.kind() == ErrorKind::ConnectionReset => End::Closed,
            Err(e) => panic!("reading: {e}"),
        }
    }

    /// Reads until what has come ends with `end`; gives all of it.
    pub fn until(&mut self, end: &[u8]) -> (Vec<u8>, End) {
        loop {
            if self.buffer.ends_with(end) {
                return (std::mem::take(&mut self.buffer), End::Found);
            }
            let more = self.more();
            if more != End::Found {
                return (std::mem::take(&mut self.buffer), more);
            }
        }
    }

    /// Sends a command and reads its answer, which ends with `end`.
    #[track_caller]
    pub fn ask(&mut self, command: impl AsRef<[u8]>, end: &str) -> String {
        let command = command.as_ref();
        let (answer, found) = self.send(command).until(end.as_bytes());
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let shown = String::from_utf8_lossy(&command[..command.len().min(100)]).into_owned();
        assert_eq!(
            found,
            End::Found,
            "{shown:?} was answered {:?}",
            &answer[..answer.len().min(300)]
        );
        answer
    }

    /// Sends a command, and again for as long as the server's crawler is at other work: memcached's
    /// looks for expired items whenever it sees fit. Gives what is answered before the next
    /// command, which waits for the end of a dump (the only answer of many lines that end with a
    /// bare LF): memcached forgets what it received behind one until it receives more.
    #[track_caller]
    pub fn ask_crawler(&mut self, command: &str) -> String {
        loop {
            let dump = command.starts_with("lru_crawler metadump");
            let mut answer =
                if dump { self.ask(format!("{command}\r\n"), "\r\n") } else { String::new() };
            let next = if dump { "mn\r\n".to_owned() } else { format!("{command}\r\nmn\r\n") };
            answer += &self.ask(next, "MN\r\n");
            // memcached's crawler ends some time after it was told to.
            let ending = dump && answer.starts_with("ERROR an unknown error happened");
            if !ending && !answer.starts_with("BUSY ") {
                return answer.strip_suffix("MN\r\n").expect("asked for").to_owned();
            }
            std::thread::yield_now();
        }
    }

    /// Sends a command and expects exactly this answer.
    #[track_caller]
    pub fn expect(&mut self, command: impl AsRef<[u8]>, answer: &str) -> &mut Self {
        let command = command.as_ref();
        let got = self.send(command).take(answer.len());
        let shown = String::from_utf8_lossy(&command[..command.len().min(100)]).into_owned();
        assert_eq!(String::from_utf8_lossy(&got), answer, "to {shown:?}");
        self
    }

    /// Reads so many bytes, or as many as come.
    pub fn take(&mut self, count: usize) -> Vec<u8> {
        while self.buffer.len() < count && self.more() == End::Found {}
        let count = count.min(self.buffer.len());
        self.buffer.drain(..count).collect()
    }

    /// Reads to the end of the connection; gives what came.
    #[track_caller]
    pub fn rest(&mut self) -> Vec<u8> {
        loop {
            match self.more() {
                End::Found => {}
                End::Closed => return std::mem::take(&mut self.buffer),
                End::Silent => panic!("the connection is not closed; what came: {:?}", self.buffer),
            }
        }
    }

    /// A figure of `stats`.
    #[track_caller]
    pub fn stat(&mut self, name: &str) -> String {
        let all = self.ask("stats\r\n", "END\r\n");
        let line = all.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
        line.unwrap_or_else(|| panic!("no {name} in {all}")).to_owned()
    }
}

/// Runs a client to its end, within [`PATIENCE`] times six; fails the test unless it succeeds.
#[track_caller]
pub fn client(command: &mut Command) -> Output {
    let mut child =
        started::run(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()));
    let drain = |mut pipe: Box<dyn Read + Send>| {
        std::thread::spawn(move || {
            let mut all = Vec::new();
            pipe.read_to_end(&mut all).map(|_| all).unwrap_or_default()
        })
    };
    let stdout = drain(Box::new(child.stdout.take().unwrap()));
    let stderr = drain(Box::new(child.stderr.take().unwrap()));
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if started.elapsed() > PATIENCE * 6 {
            let _ = child.kill();
            break child.wait().unwrap();
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let output = Output { status, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() };
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// A script of `tests/clients` with its interpreter; the system's Python, whose packages Debian
/// gives.
pub fn script(interpreter: &str, name: &str) -> Command {
    let path = source_root().join("tests/clients").join(name);
    assert!(path.is_file(), "{} is missing", path.display());
    let mut command = Command::new(interpreter);
    command.arg(OsString::from(path));
    command
}

/// Waits until a connection to `addr` is refused: nobody listens any more.
#[track_caller]
pub fn wait_refused(addr: SocketAddr) {
    wait_for("nobody to listen", || TcpStream::connect(addr).is_err().then_some(()));
}
