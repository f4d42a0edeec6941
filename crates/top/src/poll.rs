//! One task per server: it polls once an interval with its own time limit, so that a slow server
//! delays no other.

use std::{path::Path, time::Duration};

use tokio::{
    sync::{mpsc, watch},
    time::{MissedTickBehavior, interval, timeout},
};

use crate::{
    address::{Address, Endpoint, Kind},
    ask::{self, Login},
    sample::Sample,
};

/// Result of a poll: the server's index, and its sample or an error.
pub(crate) struct PollResult {
    pub(crate) server: usize,
    pub(crate) outcome: Result<Sample, String>,
}

/// A server and its detected endpoint.
pub(crate) struct Server {
    address: Address,
    /// The endpoint that answered, and its kind.
    found: Option<(Endpoint, Kind)>,
    login: Login,
    /// A token is configured but not sent to this server.
    withheld: bool,
    limit: Duration,
}

impl Server {
    /// `token` is used only for addresses without a token of their own that are explicitly Larders
    /// (`http://`): a detected HTTP server could be anybody's.
    pub(crate) fn new(address: Address, token: Option<String>, limit: Duration) -> Server {
        let trusted = address.kind == Some(Kind::Larder);
        let withheld = address.token.is_none() && token.is_some() && !trusted;
        let token = address.token.clone().or(token.filter(|_| trusted));
        let login = Login { token, redis: address.redis.clone() };
        Server { address, found: None, login, withheld, limit }
    }

    /// Name for display.
    pub(crate) fn name(&self) -> String {
        let endpoint =
            self.found.as_ref().map(|(endpoint, _)| endpoint).or(self.address.endpoints.first());
        endpoint.map_or_else(String::new, ToString::to_string)
    }

    /// Polls once.
    pub(crate) async fn poll(&mut self, details: bool) -> Result<Sample, String> {
        let limit = self.limit;
        let outcome = match timeout(limit, self.poll_untimed(details)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(format!("no answer within {limit:?}")),
        };
        // Another program may listen there by now.
        if outcome.is_err() {
            self.found = None;
        }
        outcome
    }

    async fn poll_untimed(&mut self, details: bool) -> Result<Sample, String> {
        let (endpoint, kind) = match &self.found {
            Some(found) => found.clone(),
            None => self.find().await?,
        };
        let answer = ask::query(&endpoint, kind, &self.login, details).await;
        let sample = answer.map_err(|why| match self.withheld && why == ask::REFUSED {
            true => format!("refuses: name it http://{endpoint} to send it the token"),
            false => why,
        })?;
        self.found = Some((endpoint, kind));
        Ok(sample)
    }

    /// The first endpoint that answers.
    async fn find(&self) -> Result<(Endpoint, Kind), String> {
        let mut failed = "no address".to_owned();
        for endpoint in &self.address.endpoints {
            let kind = match self.address.kind {
                Some(kind) => Ok(kind),
                None => ask::kind(endpoint).await,
            };
            match kind {
                Ok(kind) => return Ok((endpoint.clone(), kind)),
                Err(why) => failed = why,
            }
        }
        Err(failed)
    }
}

/// Polls the server with this index until the receiver is dropped. `closer` holds the server whose
/// details are wanted; when it becomes this one, it is polled at once.
pub(crate) async fn watch(
    index: usize,
    mut server: Server,
    every: Duration,
    mut closer: watch::Receiver<Option<usize>>,
    results: mpsc::Sender<(PollResult, String)>,
) {
    let mut ticks = interval(every);
    // A poll may take longer than the interval; missed ticks are skipped.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            changed = closer.changed() => {
                if changed.is_err() {
                    return;
                }
                if *closer.borrow_and_update() != Some(index) {
                    continue;
                }
            }
        }
        let details = *closer.borrow() == Some(index);
        let outcome = server.poll(details).await;
        if results.send((PollResult { server: index, outcome }, server.name())).await.is_err() {
            return;
        }
    }
}

/// Longest file of servers, in bytes.
const FILE_BYTES: u64 = 1 << 20;
/// Most servers: each has a task and a connection.
const SERVERS: usize = 1000;

/// Reads a file with one server a line.
///
/// # Errors
///
/// The error and its line.
pub(crate) fn servers_of(path: &Path) -> Result<Vec<Address>, String> {
    let text = read(path, FILE_BYTES)?;
    let mut servers = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let line = line.split(" #").next().unwrap_or_default().trim();
        if !line.is_empty() && !line.starts_with('#') {
            let address = Address::parse(line);
            servers.push(
                address.map_err(|expected| format!("{}:{}: {expected}", path.display(), n + 1))?,
            );
        }
    }
    Ok(servers)
}

/// The servers of the command line and the file; the defaults if none is named.
///
/// # Errors
///
/// As [`servers_of`]; also if there are too many.
pub(crate) fn servers(
    named: &[Address],
    file: Option<&Path>,
    has_token: bool,
) -> Result<Vec<Address>, String> {
    let mut servers = named.to_vec();
    if let Some(file) = file {
        servers.extend(servers_of(file)?);
    }
    if servers.is_empty() {
        if let Some(file) = file {
            return Err(format!("{} names no server", file.display()));
        }
        // A token implies a Larder.
        servers.push(Address::parse(if has_token { "http://127.0.0.1" } else { "127.0.0.1" })?);
    }
    if servers.len() > SERVERS {
        return Err(format!("at most {SERVERS} servers"));
    }
    Ok(servers)
}

/// Reads the file with the token for the admin APIs.
///
/// # Errors
///
/// Why the file has no token.
pub(crate) fn token(file: Option<&Path>) -> Result<Option<String>, String> {
    let Some(path) = file else { return Ok(None) };
    let text = read(path, 4096)?;
    let token = text.trim();
    if token.is_empty() || !token.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(format!(
            "{} does not hold a token: one line of visible characters",
            path.display()
        ));
    }
    Ok(Some(token.to_owned()))
}

fn read(path: &Path, limit: u64) -> Result<String, String> {
    use std::io::Read;
    let failed = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(limit + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > limit {
        Err(format!("{} is longer than {limit} bytes", path.display()))
    } else {
        Ok(text)
    }
}
