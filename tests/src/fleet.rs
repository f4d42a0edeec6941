//! Memcached servers that several Larders share their pages through.

use crate::larder::Larder;
use crate::memcache::Memcached;
use crate::origin::Origin;
use crate::wait::wait_until;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Three of Debian's memcached.
pub struct Fleet {
    /// The servers, in the order Larders know them.
    pub servers: Vec<Memcached>,
}

impl Fleet {
    /// Starts them.
    #[track_caller]
    pub fn start() -> Fleet {
        Fleet { servers: (0..3).map(|_| Memcached::debian(&[])).collect() }
    }

    /// Their addresses as the value of `servers`.
    pub fn addresses(&self) -> String {
        let quoted: Vec<_> = self.servers.iter().map(|server| format!("\"{}\"", server.server())).collect();
        quoted.join(", ")
    }

    /// A Larder of this fleet, with further lines for `[remote]`; it lets this machine purge.
    #[track_caller]
    pub fn larder(&self, origin: &Origin, remote: &str) -> Larder {
        larder(&self.addresses(), origin, remote, "")
    }

    /// Server and key of every page's item that is stored.
    pub fn items(&self) -> Vec<(usize, String)> {
        let of = |(number, server): (usize, &Memcached)| {
            let listed = server.connect().ask("lru_crawler metadump all\r\n", "END\r\n");
            let keys = listed.lines().filter_map(|line| line.strip_prefix("key=")?.split(' ').next());
            // Listed as in a URL.
            let keys = keys.map(|key| (number, key.replace("%3A", ":")));
            keys.filter(|(_, key)| key.contains(":p:")).collect::<Vec<_>>()
        };
        self.servers.iter().enumerate().flat_map(of).collect()
    }

    /// Waits until there are so many items.
    #[track_caller]
    pub fn wait_for_items(&self, count: usize) -> Vec<(usize, String)> {
        wait_until(&format!("{count} items in the fleet"), || self.items().len() >= count);
        self.items()
    }

    /// The value of an item.
    #[track_caller]
    pub fn value(&self, item: &(usize, String)) -> Vec<u8> {
        let mut talk = self.servers[item.0].connect();
        talk.send(format!("get {}\r\n", item.1));
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let byte = talk.take(1);
            assert!(!byte.is_empty(), "the answer ends with {line:?}");
            line.extend(byte);
        }
        let line = String::from_utf8_lossy(&line).into_owned();
        let length = line.split_ascii_whitespace().nth(3).and_then(|length| length.parse().ok());
        talk.take(length.unwrap_or_else(|| panic!("no such item: {line}")))
    }

    /// Puts another value there.
    #[track_caller]
    pub fn put(&self, item: &(usize, String), value: &[u8]) {
        let command = format!("set {} 0 60 {}\r\n", item.1, value.len());
        let bytes = [command.as_bytes(), value, b"\r\n"].concat();
        self.servers[item.0].connect().expect(bytes, "STORED\r\n");
    }

    /// Deletes an item.
    #[track_caller]
    pub fn delete(&self, item: &(usize, String)) {
        self.servers[item.0].connect().expect(format!("delete {}\r\n", item.1), "DELETED\r\n");
    }

    /// Sends a signal to one of the servers.
    pub fn signal(&self, server: usize, signal: Signal) {
        let pid = i32::try_from(self.servers[server].pid()).ok().and_then(Pid::from_raw).unwrap();
        kill_process(pid, signal).unwrap();
    }
}

/// A Larder whose remote tier is these servers (`"a", "b"`), with further lines for `[remote]` and for its site.
#[track_caller]
pub fn larder(servers: &str, origin: &Origin, remote: &str, site: &str) -> Larder {
    let url = origin.url();
    // A machine under test is slow: what is asked of the fleet in these tests comes in time.
    let budget = if remote.contains("budget") { "" } else { "budget = \"10s\"\n" };
    let timeouts = if remote.contains("read_timeout") { "" } else { "read_timeout = \"5s\"\n" };
    Larder::with_config(&format!(
        "[remote]\nservers = [{servers}]\n{budget}{timeouts}{remote}\n[[site]]\norigin = \"{url}\"\npurge = {{ from = [\"127.0.0.1\"] }}\n{site}\n"
    ))
}

/// What a Larder counted of its fleet, as it was told last; asks for news.
pub fn counted(larder: &Larder, name: &str) -> u64 {
    larder.usr1();
    let begin = format!("larder: remote_{name} ");
    let printed = larder.stderr();
    printed.lines().rev().find_map(|line| line.strip_prefix(&begin)?.parse().ok()).unwrap_or(0)
}

/// Waits until a Larder has counted so much.
#[track_caller]
pub fn wait_counted(larder: &Larder, name: &str, least: u64) {
    wait_until(&format!("remote_{name} {least}"), || counted(larder, name) >= least);
}

/// A server's address behind which answers take their time.
pub struct Slow {
    addr: SocketAddr,
    delay: Arc<AtomicU64>,
}

impl Slow {
    /// Passes everything on to `server`.
    pub fn before(server: SocketAddr) -> Slow {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let slow = Slow { addr: listener.local_addr().unwrap(), delay: Arc::default() };
        let delay = slow.delay.clone();
        thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                let Ok(server) = TcpStream::connect(server) else { continue };
                let (to, from) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                thread::spawn(move || pass(from, to, None));
                let delay = delay.clone();
                thread::spawn(move || pass(server, client, Some(delay)));
            }
        });
        slow
    }

    /// From now on every piece of an answer is held up for so long.
    pub fn by(&self, delay: Duration) {
        self.delay.store(delay.as_millis() as u64, Ordering::SeqCst);
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, delay: Option<Arc<AtomicU64>>) {
    let mut piece = [0; 65536];
    while let Ok(length @ 1..) = from.read(&mut piece) {
        if let Some(delay) = &delay {
            thread::sleep(Duration::from_millis(delay.load(Ordering::SeqCst)));
        }
        if to.write_all(&piece[..length]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}
