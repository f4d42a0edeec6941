//! A task for each server: it looks once an interval, within its own time, so that a slow one holds up no other.

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

/// What came of a look at a server: which, and what was seen or why nothing was.
pub(crate) struct Look {
    pub(crate) server: usize,
    pub(crate) seen: Result<Sample, String>,
}

/// One server, and what was found out of it.
pub(crate) struct Server {
    address: Address,
    /// Where it answered, and as what.
    found: Option<(Endpoint, Kind)>,
    login: Login,
    /// There is a token, but not for this one.
    withheld: bool,
    limit: Duration,
}

impl Server {
    /// `token` is for addresses that bring none themselves and are named as Larders (`http://`): what only answers in HTTP may be
    /// anybody's.
    pub(crate) fn new(address: Address, token: Option<String>, limit: Duration) -> Server {
        let trusted = address.kind == Some(Kind::Larder);
        let withheld = address.token.is_none() && token.is_some() && !trusted;
        let token = address.token.clone().or(token.filter(|_| trusted));
        let login = Login { token, redis: address.redis.clone() };
        Server { address, found: None, login, withheld, limit }
    }

    /// What it is called.
    pub(crate) fn name(&self) -> String {
        let endpoint = self.found.as_ref().map(|(endpoint, _)| endpoint).or(self.address.endpoints.first());
        endpoint.map_or_else(String::new, ToString::to_string)
    }

    /// Looks once.
    pub(crate) async fn look(&mut self, details: bool) -> Result<Sample, String> {
        let limit = self.limit;
        let seen = match timeout(limit, self.look_untimed(details)).await {
            Ok(seen) => seen,
            Err(_) => Err(format!("no answer within {limit:?}")),
        };
        // Another program may listen there by now.
        if seen.is_err() {
            self.found = None;
        }
        seen
    }

    async fn look_untimed(&mut self, details: bool) -> Result<Sample, String> {
        let (endpoint, kind) = match &self.found {
            Some(found) => found.clone(),
            None => self.find().await?,
        };
        let looked = ask::look(&endpoint, kind, &self.login, details).await;
        let sample = looked.map_err(|why| match self.withheld && why == ask::REFUSED {
            true => format!("refuses: name it http://{endpoint} to send it the token"),
            false => why,
        })?;
        self.found = Some((endpoint, kind));
        Ok(sample)
    }

    /// The first place where something answers.
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

/// Looks at server number `index` until nobody listens any more. `closer` says of which server more is wanted; when that
/// becomes this one, it is looked at again at once.
pub(crate) async fn watch(
    index: usize,
    mut server: Server,
    every: Duration,
    mut closer: watch::Receiver<Option<usize>>,
    looks: mpsc::Sender<(Look, String)>,
) {
    let mut ticks = interval(every);
    // A look may take longer than the interval: the next one then waits for its turn.
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
        let seen = server.look(details).await;
        if looks.send((Look { server: index, seen }, server.name())).await.is_err() {
            return;
        }
    }
}

/// The longest file of servers, bytes.
const FILE_BYTES: u64 = 1 << 20;
/// Each server is a task with a connection of its own.
const SERVERS: usize = 1000;

/// Reads a file of servers, one a line.
///
/// # Errors
///
/// Says what is wrong with it, and in which line.
pub(crate) fn servers_of(path: &Path) -> Result<Vec<Address>, String> {
    let text = read(path, FILE_BYTES)?;
    let mut servers = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let line = line.split(" #").next().unwrap_or_default().trim();
        if !line.is_empty() && !line.starts_with('#') {
            let address = Address::parse(line);
            servers.push(address.map_err(|expected| format!("{}:{}: {expected}", path.display(), n + 1))?);
        }
    }
    Ok(servers)
}

/// The servers that the command line and the file name, the usual ones when none is named.
///
/// # Errors
///
/// As [`servers_of`]; and there are too many.
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
        // Who has a token means a Larder.
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
/// Says why there is none in it.
pub(crate) fn token(file: Option<&Path>) -> Result<Option<String>, String> {
    let Some(path) = file else { return Ok(None) };
    let text = read(path, 4096)?;
    let token = text.trim();
    if token.is_empty() || !token.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(format!("{} does not hold a token: one line of visible characters", path.display()));
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
