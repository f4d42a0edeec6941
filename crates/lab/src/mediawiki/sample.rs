//! Looks at the caches once a second, in their own words: memcached's `stats`, Squid's cache manager, Larder's admin interface.

use std::{
    io::{self, BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpStream},
    sync::mpsc::{self, RecvTimeoutError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use serde::Serialize;
use serde_json::Value;

use super::{caches::PATIENCE, fetch, wiki::HOST};

/// Between two looks.
const EVERY: Duration = Duration::from_secs(1);
/// Lines of an answer to `stats`, at most.
const LINES: usize = 1000;

/// A cache at one moment. Hits, misses, requests and bytes count from its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Sample {
    /// Seconds since the row began.
    pub(super) at: f64,
    pub(super) hits: u64,
    pub(super) misses: u64,
    /// What it was asked, whatever it was.
    pub(super) requests: u64,
    pub(super) received: u64,
    pub(super) sent: u64,
    /// Kept at this moment.
    pub(super) items: u64,
    /// Open at this moment.
    pub(super) connections: u64,
}

/// A cache in one row, second by second.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Series {
    pub(super) server: &'static str,
    pub(super) samples: Vec<Sample>,
}

impl Series {
    /// What came in between the first and the last look.
    pub(super) fn gained(&self, of: impl Fn(&Sample) -> u64) -> u64 {
        match (self.samples.first(), self.samples.last()) {
            (Some(first), Some(last)) => of(last).saturating_sub(of(first)),
            _ => 0,
        }
    }
}

/// A cache that is looked at.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    name: &'static str,
    kind: Kind,
    /// How often it was asked for figures, where such questions are among the requests it counts.
    asked: u64,
}

#[derive(Clone, Debug)]
enum Kind {
    /// Whatever answers memcached's `stats`.
    Memcached(SocketAddr),
    Squid(SocketAddr),
    Larder {
        admin: SocketAddr,
    },
}

impl Watched {
    pub(super) fn memcached(name: &'static str, addr: SocketAddr) -> Watched {
        Watched { name, kind: Kind::Memcached(addr), asked: 0 }
    }

    pub(super) fn squid(name: &'static str, addr: SocketAddr) -> Watched {
        Watched { name, kind: Kind::Squid(addr), asked: 0 }
    }

    pub(super) fn larder(name: &'static str, admin: SocketAddr) -> Watched {
        Watched { name, kind: Kind::Larder { admin }, asked: 0 }
    }

    /// How it is called.
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    fn look(&mut self) -> io::Result<Sample> {
        match self.kind {
            Kind::Memcached(addr) => memcached(addr),
            Kind::Squid(addr) => squid(addr, &mut self.asked),
            Kind::Larder { admin } => larder(admin),
        }
    }
}

/// Looks until it is told to stop.
#[derive(Debug)]
pub(super) struct Sampler {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<Vec<Series>>,
}

impl Sampler {
    /// The first look is before this returns.
    pub(super) fn begin(watched: &[Watched]) -> Sampler {
        let began = Instant::now();
        let mut watched = watched.to_vec();
        let mut all: Vec<Series> =
            watched.iter().map(|of| Series { server: of.name(), samples: Vec::new() }).collect();
        look(&mut watched, &mut all, began);
        let (stop, stopped) = mpsc::channel();
        let thread = thread::spawn(move || {
            let mut due = began + EVERY;
            loop {
                let last = match stopped.recv_timeout(due.saturating_duration_since(Instant::now())) {
                    Err(RecvTimeoutError::Timeout) => false,
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => true,
                };
                look(&mut watched, &mut all, began);
                if last {
                    return all;
                }
                due += EVERY;
            }
        });
        Sampler { stop, thread }
    }

    /// Looks a last time.
    pub(super) fn end(self) -> Vec<Series> {
        // It can only have ended because this end was dropped.
        let _ = self.stop.send(());
        self.thread.join().unwrap_or_default()
    }
}

/// A cache that does not answer leaves a gap, which its plot shows.
fn look(watched: &mut [Watched], all: &mut [Series], began: Instant) {
    for (of, series) in watched.iter_mut().zip(all) {
        if let Ok(sample) = of.look() {
            series.samples.push(Sample { at: began.elapsed().as_secs_f64(), ..sample });
        }
    }
}

fn memcached(addr: SocketAddr) -> io::Result<Sample> {
    let mut stream = TcpStream::connect_timeout(&addr, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"stats\r\n")?;
    let mut sample = Sample::default();
    for line in BufReader::new(stream).lines().take(LINES) {
        let line = line?;
        let mut words = line.split_ascii_whitespace();
        if words.next() == Some("END") {
            // Our own connection is one of them.
            sample.connections = sample.connections.saturating_sub(1);
            return Ok(sample);
        }
        let (Some(name), Some(Ok(value))) = (words.next(), words.next().map(str::parse::<u64>)) else {
            continue;
        };
        match name {
            "get_hits" => sample.hits = value,
            "get_misses" => sample.misses = value,
            "cmd_get" | "cmd_set" | "cmd_touch" | "delete_hits" | "delete_misses" => sample.requests += value,
            "bytes_read" => sample.received = value,
            "bytes_written" => sample.sent = value,
            "curr_items" => sample.items = value,
            "curr_connections" => sample.connections = value,
            _ => {}
        }
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}

fn squid(addr: SocketAddr, asked: &mut u64) -> io::Result<Sample> {
    let host = format!("squid.{HOST}:{}", addr.port());
    let mut page = |name: &str| {
        *asked += 1;
        let answer = fetch::get(addr, &host, &format!("/squid-internal-mgr/{name}"), PATIENCE)?;
        if answer.status != 200 {
            return Err(io::Error::other(format!("Squid's manager answers {}", answer.status)));
        }
        Ok(String::from_utf8_lossy(&answer.body).into_owned())
    };
    let counters = page("counters")?;
    let info = page("info")?;
    let counter = |name: &str| {
        let line = counters.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "));
        line.and_then(|value| value.trim().parse::<u64>().ok())
    };
    let said = |name: &str| info.lines().find_map(|line| line.trim().strip_suffix(name)?.trim().parse().ok());
    // The page of counters was made before the one of `info` was asked for.
    let requests = counter("client_http.requests").unwrap_or_default().saturating_sub(*asked - 2);
    let hits = counter("client_http.hits").unwrap_or_default();
    Ok(Sample {
        at: 0.0,
        hits,
        misses: requests.saturating_sub(hits),
        requests,
        received: counter("client_http.kbytes_in").unwrap_or_default() * 1024,
        sent: counter("client_http.kbytes_out").unwrap_or_default() * 1024,
        items: said("Hot Object Cache Items").unwrap_or_default(),
        connections: established(addr)?,
    })
}

/// Connections of a server, as the kernel counts them: Squid tells of clients and of descriptors only.
fn established(addr: SocketAddr) -> io::Result<u64> {
    let table = std::fs::read_to_string("/proc/net/tcp")?;
    let port = format!(":{:04X}", addr.port());
    // The second column is the own address, the fourth the state: 01 is "established".
    let ours = table.lines().filter(|line| {
        let mut columns = line.split_ascii_whitespace().skip(1);
        columns.next().is_some_and(|own| own.ends_with(&port)) && columns.nth(1) == Some("01")
    });
    Ok(ours.count() as u64)
}

fn larder(admin: SocketAddr) -> io::Result<Sample> {
    let answer = fetch::get(admin, &admin.to_string(), "/api/v1/stats", PATIENCE)?;
    let stats: Value = serde_json::from_slice(&answer.body)?;
    let figure = |pointer: &str| stats.pointer(pointer).and_then(Value::as_u64).unwrap_or_default();
    let hits = figure("/http/results/hit") + figure("/http/results/stale");
    let pages = |pages: &Vec<Value>| {
        pages.iter().find(|space| space["name"] == "pages").and_then(|space| space["items"].as_u64())
    };
    let requests = figure("/http/requests");
    Ok(Sample {
        at: 0.0,
        hits,
        misses: requests.saturating_sub(hits),
        requests,
        received: figure("/http/bytes_in"),
        sent: figure("/http/bytes_out"),
        items: stats["memory"]["namespaces"].as_array().and_then(pages).unwrap_or_default(),
        connections: figure("/http/connections/open"),
    })
}
