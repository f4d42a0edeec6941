//! The client library against servers a test starts.

use crate::memcache::Memcached;
use crate::wait::wait_until;
use larder_client::{Client, Config, Protocol, Server};
use rustix::process::{Pid, Signal, kill_process};
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

/// A server of a client's configuration.
pub fn server(addr: SocketAddr) -> Server {
    Server::tcp(addr.ip().to_string(), addr.port())
}

/// A configuration with these servers, patient enough for a loaded machine.
pub fn config(servers: &[&Memcached]) -> Config {
    patient(servers.iter().map(|one| server(one.addr())).collect())
}

/// The same with servers of any kind.
pub fn patient(servers: Vec<Server>) -> Config {
    let mut config = Config::new(servers);
    let long = Duration::from_secs(10);
    config.timeouts = larder_client::Timeouts { connect: long, read: long, write: long };
    config
}

/// Runs it to its end on a runtime of one thread, as a worker of Larder is.
pub fn run<F: Future>(test: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test)
}

/// Waits for a condition of a client, polled.
pub async fn until(what: &str, condition: impl Fn() -> bool) {
    let patience = tokio::time::Instant::now() + crate::PATIENCE;
    while !condition() {
        assert!(tokio::time::Instant::now() < patience, "waited for {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Stops a process, or lets it go on. When it is to stop, it has: a thread that runs on another
/// processor may answer once more after the signal was sent.
pub fn signal(pid: u32, signal: Signal) {
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw).unwrap();
    kill_process(process, signal).unwrap();
    if signal == Signal::STOP {
        wait_until("the process to stop", || crate::process::is_stopped(pid));
    }
}

/// How one key does on a client, whatever it is: `Ok(None)` for a miss.
pub async fn value(client: &Client, key: &str) -> Option<String> {
    let item = client.get(key.as_bytes()).await.unwrap()?;
    Some(String::from_utf8_lossy(&item.value).into_owned())
}

/// A server that is played by the test, byte by byte: listens; gives what a client is to connect to
/// and the thread that plays the server.
pub fn peer<T: Send + 'static>(
    play: impl FnOnce(TcpListener) -> T + Send + 'static,
) -> (Server, JoinHandle<T>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (Server::tcp("127.0.0.1", port), std::thread::spawn(move || play(listener)))
}

/// A configuration with this server, which is spoken to in text without being asked anything
/// before.
pub fn text(server: Server) -> Config {
    Config { protocol: Protocol::Text, ..patient(vec![server]) }
}

/// Reads until what has come ends so.
pub fn heard(stream: &mut TcpStream, end: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    let mut piece = [0; 65536];
    while !all.ends_with(end) {
        let read = stream.read(&mut piece).unwrap();
        assert!(read > 0, "the client is gone after {:?}", String::from_utf8_lossy(&all));
        all.extend_from_slice(&piece[..read]);
    }
    all
}
