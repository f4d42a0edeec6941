//! The client library against servers a test starts.

use crate::memcache::Memcached;
use larder_client::{Client, Config, Server};
use std::net::SocketAddr;
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

/// Stops a process, or lets it go on.
pub fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// How one key does on a client, whatever it is: `Ok(None)` for a miss.
pub async fn value(client: &Client, key: &str) -> Option<String> {
    let item = client.get(key.as_bytes()).await.unwrap()?;
    Some(String::from_utf8_lossy(&item.value).into_owned())
}
