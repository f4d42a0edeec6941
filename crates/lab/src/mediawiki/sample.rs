//! Polls the caches' counters once a second: memcached's `stats`, Squid's cache manager, Larder's
//! admin interface.

use std::{
    io::{self, BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpStream},
    sync::mpsc::{self, RecvTimeoutError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use procfs::net::TcpState;
use serde::Serialize;
use serde_json::Value;

use super::{caches::PATIENCE, fetch, wiki::HOST};

/// Polling interval.
const EVERY: Duration = Duration::from_secs(1);
/// Most lines of an answer to `stats`.
const LINES: usize = 1000;

/// Counters of a cache at one time. Hits, misses, requests and bytes are since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Sample {
    /// Seconds since the start of the row.
    pub(super) at: f64,
    pub(super) hits: u64,
    pub(super) misses: u64,
    /// Requests of any kind.
    pub(super) requests: u64,
    pub(super) received: u64,
    pub(super) sent: u64,
    /// Items stored now.
    pub(super) items: u64,
    /// Connections open now.
    pub(super) connections: u64,
}

/// Samples of a cache during one row.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Series {
    pub(super) server: &'static str,
    pub(super) samples: Vec<Sample>,
}

impl Series {
    /// Increase of a counter between the first and the last sample.
    pub(super) fn gained(&self, of: impl Fn(&Sample) -> u64) -> u64 {
        match (self.samples.first(), self.samples.last()) {
            (Some(first), Some(last)) => of(last).saturating_sub(of(first)),
            _ => 0,
        }
    }
}

/// A cache to poll.
#[derive(Clone, Debug)]
pub(super) struct SampledCache {
    name: &'static str,
    kind: Kind,
    /// Number of polls so far, for caches that count them as requests.
    polls: u64,
}

#[derive(Clone, Debug)]
enum Kind {
    /// Any server with memcached's `stats`.
    Memcached(SocketAddr),
    Squid(SocketAddr),
    Larder {
        admin: SocketAddr,
    },
}

impl SampledCache {
    pub(super) fn memcached(name: &'static str, addr: SocketAddr) -> SampledCache {
        SampledCache { name, kind: Kind::Memcached(addr), polls: 0 }
    }

    pub(super) fn squid(name: &'static str, addr: SocketAddr) -> SampledCache {
        SampledCache { name, kind: Kind::Squid(addr), polls: 0 }
    }

    pub(super) fn larder(name: &'static str, admin: SocketAddr) -> SampledCache {
        SampledCache { name, kind: Kind::Larder { admin }, polls: 0 }
    }

    /// Its name.
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    fn poll(&mut self) -> io::Result<Sample> {
        match self.kind {
            Kind::Memcached(addr) => memcached(addr),
            Kind::Squid(addr) => squid(addr, &mut self.polls),
            Kind::Larder { admin } => larder(admin),
        }
    }
}

/// Polls until stopped.
#[derive(Debug)]
pub(super) struct Sampler {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<Vec<Series>>,
}

impl Sampler {
    /// The first sample is taken before this returns.
    pub(super) fn begin(watched: &[SampledCache]) -> Sampler {
        let began = Instant::now();
        let mut watched = watched.to_vec();
        let mut all: Vec<Series> =
            watched.iter().map(|of| Series { server: of.name(), samples: Vec::new() }).collect();
        poll(&mut watched, &mut all, began);
        let (stop, stopped) = mpsc::channel();
        let thread = thread::spawn(move || {
            let mut due = began + EVERY;
            loop {
                let last = match stopped.recv_timeout(due.saturating_duration_since(Instant::now()))
                {
                    Err(RecvTimeoutError::Timeout) => false,
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => true,
                };
                poll(&mut watched, &mut all, began);
                if last {
                    return all;
                }
                due += EVERY;
            }
        });
        Sampler { stop, thread }
    }

    /// Takes a last sample.
    pub(super) fn end(self) -> Vec<Series> {
        // The thread can only have ended because this end was dropped.
        let _ = self.stop.send(());
        self.thread.join().unwrap_or_default()
    }
}

/// A cache that does not answer leaves a gap in its plot.
fn poll(watched: &mut [SampledCache], all: &mut [Series], began: Instant) {
    for (of, series) in watched.iter_mut().zip(all) {
        if let Ok(sample) = of.poll() {
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
            // This connection is one of them.
            sample.connections = sample.connections.saturating_sub(1);
            return Ok(sample);
        }
        let (Some(name), Some(Ok(value))) = (words.next(), words.next().map(str::parse::<u64>))
        else {
            continue;
        };
        match name {
            "get_hits" => sample.hits = value,
            "get_misses" => sample.misses = value,
            "cmd_get" | "cmd_set" | "cmd_touch" | "delete_hits" | "delete_misses" => {
                sample.requests += value
            }
            "bytes_read" => sample.received = value,
            "bytes_written" => sample.sent = value,
            "curr_items" => sample.items = value,
            "curr_connections" => sample.connections = value,
            _ => {}
        }
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}

fn squid(addr: SocketAddr, polls: &mut u64) -> io::Result<Sample> {
    let host = format!("squid.{HOST}:{}", addr.port());
    let mut page = |name: &str| {
        *polls += 1;
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
    let said = |name: &str| {
        info.lines().find_map(|line| line.trim().strip_suffix(name)?.trim().parse().ok())
    };
    // The page of counters was made before the one of `info` was requested.
    let requests = counter("client_http.requests").unwrap_or_default().saturating_sub(*polls - 2);
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

/// Connections of a server, from the kernel: Squid reports clients and descriptors only.
fn established(addr: SocketAddr) -> io::Result<u64> {
    let table = procfs::net::tcp().map_err(io::Error::other)?;
    let ours = table.iter().filter(|entry| {
        entry.local_address.port() == addr.port() && entry.state == TcpState::Established
    });
    Ok(ours.count() as u64)
}

fn larder(admin: SocketAddr) -> io::Result<Sample> {
    let answer = fetch::get(admin, &admin.to_string(), "/api/v1/stats", PATIENCE)?;
    let stats: Value = serde_json::from_slice(&answer.body)?;
    let figure = |pointer: &str| stats.pointer(pointer).and_then(Value::as_u64).unwrap_or_default();
    let hits = figure("/http/results/hit") + figure("/http/results/stale");
    let pages = |pages: &Vec<Value>| {
        pages
            .iter()
            .find(|space| space["name"] == "pages")
            .and_then(|space| space["items"].as_u64())
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
