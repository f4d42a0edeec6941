//! A server of an origin that fails in the ways in which servers fail, and comes back at the same
//! address.

use crate::origin::{Origin, Reply};
use crate::origin_request::Seen;
use crate::wait::{PATIENCE, wait_for, wait_until};
use std::io::Read;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It accepts connections and requests, and does not answer.
    Frozen,
    /// Its machine is gone: nobody answers to connections, open ones are lost.
    Dead,
    /// It answers much later than anybody waits.
    Slow,
    /// The program has ended: connections are refused, open ones are lost.
    Refusing,
    /// It answers everything with 500.
    Errors,
    /// It answers eight requests, then one with 503, and then it breaks off one: too seldom to be
    /// taken out, and within the retries that requests may have.
    Flapping,
}

impl Fault {
    /// All of them, with the words of the table.
    pub const ALL: [(Fault, &str); 6] = [
        (Fault::Frozen, "frozen"),
        (Fault::Dead, "dead"),
        (Fault::Slow, "slow"),
        (Fault::Refusing, "refusing"),
        (Fault::Errors, "answering 500"),
        (Fault::Flapping, "flapping"),
    ];
}

/// Longer than the time limits of the tests.
const SLOW: Duration = Duration::from_secs(5);

/// Fields of its pages: stored, and old at once.
const STALE: &[&str] = &["Cache-Control: max-age=1", "Age: 5", "ETag: \"1\""];
/// Fields of pages that are not stored.
const UNSTORED: &[&str] = &["Cache-Control: no-store"];

/// The server. A page's body is its target.
pub struct FailingServer {
    addr: SocketAddr,
    fault: Arc<Mutex<Option<Fault>>>,
    answered: Arc<AtomicUsize>,
    running: Mutex<Running>,
}

/// What has its port.
#[expect(dead_code, reason = "the sockets are held until they are replaced")]
enum Running {
    Serving(Origin),
    /// The listener whose queue is full, and what fills it.
    Dead(TcpListener, Vec<TcpStream>),
    Away,
}

impl FailingServer {
    /// Starts one that is well, on a free port of this address.
    pub fn start(ip: IpAddr) -> FailingServer {
        FailingServer::at(SocketAddr::new(ip, 0)).unwrap()
    }

    /// The same at an address and port.
    pub fn at(addr: SocketAddr) -> std::io::Result<FailingServer> {
        let (fault, answered) = (Arc::default(), Arc::default());
        let origin = Origin::at(addr, script(&fault, &answered))?;
        let addr = origin.addr();
        let running = Mutex::new(Running::Serving(origin));
        Ok(FailingServer { addr, fault, answered, running })
    }

    /// `http://ADDR`.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Requests that it has answered with their page.
    pub fn answered(&self) -> usize {
        self.answered.load(SeqCst)
    }

    /// It fails from now on.
    #[track_caller]
    pub fn fail(&self, fault: Fault) {
        *self.fault.lock().unwrap() = Some(fault);
        if matches!(fault, Fault::Dead | Fault::Refusing) {
            *self.running.lock().unwrap() = Running::Away;
        }
        if fault == Fault::Dead {
            let listener = wait_for("the port to be free", || TcpListener::bind(self.addr).ok());
            rustix::net::listen(&listener, 0).unwrap();
            let mut filling = Vec::new();
            wait_until("the queue to be full", || {
                let more = TcpStream::connect_timeout(&self.addr, Duration::from_millis(100));
                more.map(|stream| filling.push(stream)).is_err()
            });
            *self.running.lock().unwrap() = Running::Dead(listener, filling);
        }
    }

    /// It is well from now on.
    #[track_caller]
    pub fn recover(&self) {
        *self.fault.lock().unwrap() = None;
        let mut running = self.running.lock().unwrap();
        if !matches!(*running, Running::Serving(_)) {
            *running = Running::Away;
            let script = || script(&self.fault, &self.answered);
            let origin = wait_for("the port to be free", || Origin::at(self.addr, script()).ok());
            *running = Running::Serving(origin);
        }
    }
}

fn script(
    fault: &Arc<Mutex<Option<Fault>>>,
    answered: &Arc<AtomicUsize>,
) -> impl Fn(&Seen, &mut Reply) + Send + Sync + 'static {
    let (fault, answered) = (fault.clone(), answered.clone());
    move |seen, reply| {
        let fault = *fault.lock().unwrap();
        match fault {
            Some(Fault::Frozen) => until_peer_leaves(reply, PATIENCE),
            Some(Fault::Slow) => {
                until_peer_leaves(reply, SLOW);
                page(seen, reply);
            }
            Some(Fault::Errors) => error(seen, reply, 500),
            Some(Fault::Flapping) if seen.number % 10 == 8 => error(seen, reply, 503),
            Some(Fault::Flapping) if seen.number % 10 == 9 => {
                reply.close();
            }
            _ => {
                answered.fetch_add(1, SeqCst);
                page(seen, reply);
            }
        }
    }
}

fn page(seen: &Seen, reply: &mut Reply) {
    let fields = if seen.target.starts_with("/stored") { STALE } else { UNSTORED };
    if seen.method == "HEAD" {
        let length = format!("Content-Length: {}", seen.target.len());
        reply.head(200, &[fields, &[&*length]].concat());
    } else {
        reply.ok(fields, &seen.target);
    }
}

fn error(seen: &Seen, reply: &mut Reply, status: u16) {
    if seen.method == "HEAD" {
        reply.head(status, &["Content-Length: 6"]);
    } else {
        reply.answer(status, &[], "broken");
    }
}

/// Waits until the other side closes, at most this long.
fn until_peer_leaves(reply: &mut Reply, most: Duration) {
    let mut stream = reply.take_stream();
    if stream.set_read_timeout(Some(most)).is_ok() {
        while stream.read(&mut [0; 512]).is_ok_and(|n| n > 0) {}
    }
}
