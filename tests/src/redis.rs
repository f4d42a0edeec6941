//! Servers that speak Redis's protocol, and a connection to one: exact bytes out, whole replies in.

use crate::larder::binary;
use crate::started::Started;
use crate::wait::{PATIENCE, wait_until};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::{Deref, DerefMut};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

/// A running server: Larder as one, or Debian's. Killed when dropped.
pub struct Redis(Started);

impl Redis {
    /// `larder redis` with these options on a port of its own, two threads and 64 MiB.
    #[track_caller]
    pub fn larder(options: &[&str]) -> Redis {
        let mut command = Command::new(binary());
        command.args(["redis", "--memory", "64MiB", "--threads", "2"]);
        Redis::start(command, options)
    }

    /// Debian's `redis-server` as a cache, with these options on a port of its own.
    #[track_caller]
    pub fn debian(options: &[&str]) -> Redis {
        let mut command = Command::new("/usr/bin/redis-server");
        command.args(["--save", "", "--appendonly", "no", "--loglevel", "warning"]);
        command.args(["--maxmemory", "200mb", "--maxmemory-policy", "allkeys-lru"]);
        Redis::start(command, options)
    }

    /// The same on this port, which nobody has any more.
    #[track_caller]
    pub fn debian_at(port: u16) -> Redis {
        Redis(Started::start_at(port, |_, port| {
            let mut command = Command::new("/usr/bin/redis-server");
            command.args(["--save", "", "--appendonly", "no", "--loglevel", "warning"]);
            command.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
            (command, None)
        }))
    }

    /// `@DIR@` in the options is a directory of the server's own.
    #[track_caller]
    fn start(mut command: Command, options: &[&str]) -> Redis {
        Redis(Started::start(|dir, port| {
            command.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
            command
                .args(options.iter().map(|option| option.replace("@DIR@", &dir.to_string_lossy())));
            (command, None)
        }))
    }

    /// A new connection to it.
    #[track_caller]
    pub fn connect(&self) -> Resp<TcpStream> {
        Resp::tcp(self.addr())
    }

    /// Waits until so many clients are in blocking commands.
    #[track_caller]
    pub fn wait_for_blocked(&self, count: usize) {
        let mut admin = self.connect();
        wait_until(&format!("{count} clients to wait"), || {
            let info = admin.say("INFO clients");
            let line = info.lines().find_map(|line| line.trim().strip_prefix("blocked_clients:"));
            line.and_then(|waiting| waiting.parse().ok()) == Some(count)
        });
    }

    /// Runs a long command between two others of one batch until somebody else is served between
    /// these two. A worker that does the command in one go serves nobody there: the batch comes in
    /// one piece, and is answered in one turn. The server has one worker.
    #[track_caller]
    pub fn serves_others_during(&self, prepare: &[&str], long: &str) {
        self.serves_others_after(
            |other| prepare.iter().for_each(|line| drop(other.say(line))),
            long,
        );
    }

    /// The same with a preparation of any kind, which runs before each try.
    #[track_caller]
    pub fn serves_others_after(&self, mut prepare: impl FnMut(&mut Resp<TcpStream>), long: &str) {
        let mut other = self.connect();
        wait_until(&format!("somebody to be served during {long}"), || {
            prepare(&mut other);
            other.say("SET stage 0");
            let mut busy = self.connect();
            let long: Vec<&str> = long.split(' ').collect();
            let count = command(&["INCR", "stage"]);
            busy.send([&count[..], &command(&long), &count].concat());
            loop {
                match other.say("GET stage").as_str() {
                    "1" => break true,
                    "2" => break false,
                    _ => {}
                }
            }
        });
    }
}

impl Deref for Redis {
    type Target = Started;

    fn deref(&self) -> &Started {
        &self.0
    }
}

impl DerefMut for Redis {
    fn deref_mut(&mut self) -> &mut Started {
        &mut self.0
    }
}

/// A reply, as its bytes say it: the type byte is kept, so that RESP2 and RESP3 are not the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    /// `+ - : _ , # (`: the type and the line.
    Line(u8, Vec<u8>),
    /// `$ ! =`: the type and the bytes; None: the null of RESP2.
    Bulk(u8, Option<Vec<u8>>),
    /// `* % ~ > |`: the type and what is in it, a map's keys and values in turn; None: the null
    /// array of RESP2.
    Many(u8, Option<Vec<Value>>),
}

impl Value {
    /// The first reply of these bytes and its length. None: it is not whole yet.
    #[track_caller]
    pub fn parse(bytes: &[u8]) -> Option<(Value, usize)> {
        let end = bytes.windows(2).position(|two| two == b"\r\n")?;
        let (kind, line) = (bytes[0], &bytes[1..end]);
        let number = || str::from_utf8(line).ok().and_then(|text| text.parse::<i64>().ok());
        let mut at = end + 2;
        match kind {
            b'$' | b'!' | b'=' => {
                let Ok(len) =
                    usize::try_from(number().unwrap_or_else(|| panic!("a length: {line:?}")))
                else {
                    return Some((Value::Bulk(kind, None), at));
                };
                let bulk = bytes.get(at..at + len + 2)?;
                assert!(bulk.ends_with(b"\r\n"), "a bulk of {len} bytes has no end");
                Some((Value::Bulk(kind, Some(bulk[..len].to_vec())), at + len + 2))
            }
            b'*' | b'%' | b'~' | b'>' | b'|' => {
                let Ok(len) =
                    usize::try_from(number().unwrap_or_else(|| panic!("a length: {line:?}")))
                else {
                    return Some((Value::Many(kind, None), at));
                };
                let mut all = Vec::new();
                for _ in 0..if matches!(kind, b'%' | b'|') { 2 * len } else { len } {
                    let (value, used) = Value::parse(&bytes[at..])?;
                    all.push(value);
                    at += used;
                }
                Some((Value::Many(kind, Some(all)), at))
            }
            b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => {
                Some((Value::Line(kind, line.to_vec()), at))
            }
            other => panic!("no reply begins with {:?}: {bytes:?}", char::from(other)),
        }
    }

    /// What is in it; empty for what holds nothing.
    pub fn items(&self) -> &[Value] {
        match self {
            Value::Many(_, Some(items)) => items,
            _ => &[],
        }
    }

    /// Its text: of a line what is behind the type, of a bulk its bytes.
    pub fn text(&self) -> String {
        match self {
            Value::Line(_, text) | Value::Bulk(_, Some(text)) => {
                String::from_utf8_lossy(text).into_owned()
            }
            Value::Bulk(_, None) | Value::Many(_, None) => "(nil)".to_owned(),
            Value::Many(_, Some(items)) => {
                let items: Vec<String> = items.iter().map(Value::text).collect();
                format!("[{}]", items.join(" "))
            }
        }
    }

    /// Whether it is an error.
    pub fn is_error(&self) -> bool {
        matches!(self, Value::Line(b'-', _) | Value::Bulk(b'!', _))
    }
}

/// A command as clients send it: an array of bulk strings.
pub fn command<S: AsRef<[u8]>>(words: &[S]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        let word = word.as_ref();
        out.extend(format!("${}\r\n", word.len()).into_bytes());
        out.extend(word);
        out.extend(b"\r\n");
    }
    out
}

/// A connection.
pub struct Resp<S> {
    stream: S,
    /// Received, not yet taken.
    buffer: Vec<u8>,
}

impl Resp<TcpStream> {
    /// Over TCP.
    #[track_caller]
    pub fn tcp(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect_timeout(&addr, PATIENCE)
            .unwrap_or_else(|e| panic!("connect to {addr}: {e}"));
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Resp { stream, buffer: Vec::new() }
    }

    /// The socket.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }
}

impl Resp<UnixStream> {
    /// Over a socket in the file system.
    #[track_caller]
    pub fn unix(path: &Path) -> Self {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Resp { stream, buffer: Vec::new() }
    }
}

impl<S: Read + Write> Resp<S> {
    /// Sends exact bytes. A peer that has closed already is no error here: reading tells.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        if let Err(e) = self.stream.write_all(bytes.as_ref()) {
            let gone = matches!(e.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset);
            assert!(gone, "sending: {e}");
        }
        self
    }

    /// The next reply and its bytes. None: the connection is closed.
    #[track_caller]
    pub fn maybe(&mut self) -> Option<(Value, Vec<u8>)> {
        loop {
            if let Some((value, used)) = Value::parse(&self.buffer) {
                return Some((value, self.buffer.drain(..used).collect()));
            }
            let mut chunk = [0; 64 * 1024];
            match self.stream.read(&mut chunk) {
                Ok(0) => return None,
                Ok(n) => self.buffer.extend_from_slice(&chunk[..n]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::ConnectionReset => return None,
                Err(e) => panic!(
                    "reading, with {:?} received: {e}",
                    String::from_utf8_lossy(&self.buffer)
                ),
            }
        }
    }

    /// The next reply.
    #[track_caller]
    pub fn reply(&mut self) -> Value {
        self.maybe().expect("the connection is closed").0
    }

    /// Sends a command and reads its reply.
    #[track_caller]
    pub fn ask<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Value {
        self.send(command(words)).reply()
    }

    /// Sends a command, words divided by blanks, and gives the text of its reply.
    #[track_caller]
    pub fn say(&mut self, words: &str) -> String {
        self.ask(&words.split(' ').collect::<Vec<_>>()).text()
    }

    /// Reads to the end of the connection; gives what came.
    #[track_caller]
    pub fn rest(&mut self) -> Vec<u8> {
        let mut rest = std::mem::take(&mut self.buffer);
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => rest,
            Err(e) if e.kind() == ErrorKind::ConnectionReset => rest,
            Err(e) => panic!("the connection is not closed: {e}"),
        }
    }
}

/// Keys `name0`, `name1`, ...
pub fn keys(name: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{name}{n}")).collect()
}

/// A command of these words and one for each of so many.
pub fn words<'a>(first: &[&'a str], more: impl IntoIterator<Item = &'a String>) -> Vec<&'a str> {
    first.iter().copied().chain(more.into_iter().map(String::as_str)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_whole() {
        let bytes = b"*3\r\n:1\r\n$-1\r\n%1\r\n+a\r\n$3\r\nx\r\n\r\n+next\r\n";
        let (value, used) = Value::parse(bytes).unwrap();
        assert_eq!(value.text(), "[1 (nil) [a x\r\n]]");
        assert_eq!(&bytes[used..], b"+next\r\n");
        for cut in 0..used {
            assert_eq!(Value::parse(&bytes[..cut]), None, "{cut}");
        }
    }
}
