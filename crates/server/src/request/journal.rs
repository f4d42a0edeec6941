//! Purges of other Larders that share the fleet, carried out here.
//!
//! One task of the process, on the first worker: it exchanges the journal with the fleet, carries
//! out what is new, and tells peers what was purged here. A round is due every
//! `remote.purge_interval`, after a purge, when a peer told something, and when a page of the fleet
//! waits for it.

use std::{
    rc::Rc,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use larder_proto::http::key::{KeyParts, Scheme};

use crate::{
    disk::Tier,
    page::ban::Ban,
    remote::{
        self, Exchange,
        journal::{Task, What},
        peers::Peers,
    },
    request::{
        pages::Pages,
        purge::{Purger, Tiers},
    },
};

/// Between two rounds, however much is purged: what comes meanwhile goes together.
const PAUSE: Duration = Duration::from_millis(10);

/// Starts it; ends with the worker's runtime.
pub(crate) fn start(pages: &Rc<Pages>) -> Result<(), larder_client::ConfigError> {
    let Some(shared) = pages.shared.remote.clone() else { return Ok(()) };
    let exchange = Rc::new(Exchange::open(&shared.settings)?);
    let peers = Peers::start(&shared);
    tokio::task::spawn_local(run(pages.clone(), shared, exchange, peers));
    Ok(())
}

async fn run(pages: Rc<Pages>, shared: Arc<remote::Shared>, exchange: Rc<Exchange>, peers: Peers) {
    loop {
        peers.tell(&shared, &shared.journal.untold());
        let began = pages.clock.uptime();
        let round = exchange.round(&shared, pages.clock).await;
        for task in shared.journal.tasks() {
            carry_out(&pages, &shared, &task).await;
        }
        if let Some(disk) = &pages.shared.disk {
            disk.note_executed(shared.journal.executed());
        }
        shared.reading.ended(began, round);
        tokio::time::sleep(PAUSE).await;
        tokio::select! {
            () = tokio::time::sleep(shared.settings.purge_interval) => {}
            () = shared.reading.wanted() => {}
        }
    }
}

async fn carry_out(pages: &Rc<Pages>, shared: &remote::Shared, task: &Task) {
    // Noted first: what is taken from the fleet from now on is newer. Pages on their way are
    // found among the flights.
    shared.learn(task);
    if let Some(disk) = &pages.shared.disk
        && was_executed(disk, shared, task)
    {
        return;
    }
    let soft = matches!(task, Task::Purge(_, entry) if entry.soft);
    // Every Larder of the fleet tells its own peers.
    let tiers = Tiers { fleet: None, ..pages.shared.tiers() };
    let purger = Purger::new(pages.writer(), tiers, soft);
    let now = purger.now;
    let (kind, what, purged) = match task {
        Task::Missed(author, cut) => {
            shared.missed.fetch_add(1, Ordering::Relaxed);
            let purged = purger.everything().await;
            shared.journal.made_up(*author, cut.number);
            ("all", "purges were missed".to_owned(), purged)
        }
        Task::Purge(name, entry) => {
            shared.learned.fetch_add(1, Ordering::Relaxed);
            let done = purge(&purger, &entry.what).await;
            shared.journal.done(*name);
            done
        }
    };
    pages.shared.purges.note(now, kind, &what, soft, purged, "another Larder".to_owned());
}

/// Whether an earlier run of this Larder carried a task out: what its disk has is newer.
fn was_executed(disk: &Tier, shared: &remote::Shared, task: &Task) -> bool {
    match task {
        Task::Purge(name, _) if disk.has_executed(*name) => shared.journal.done(*name),
        Task::Missed(author, cut) if disk.has_executed((*author, cut.number)) => {
            shared.journal.made_up(*author, cut.number);
        }
        _ => return false,
    }
    true
}

async fn purge(purger: &Purger<'_>, what: &What) -> (&'static str, String, u64) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match what {
        What::Keys(keys) => {
            let url = keys.first().and_then(|key| larder_proto::http::key::parse_key(key));
            let url = url.map_or_else(String::new, |url| {
                format!("http://{}{}", url.host, text(url.path_and_query))
            });
            ("url", url, u64::from(purger.page(keys).await))
        }
        What::Prefix(host, port, path) => {
            let wanted = KeyParts { scheme: Scheme::Http, host, port: *port, path_and_query: path };
            ("prefix", format!("http://{host}{}", text(path)), purger.prefix(wanted).await)
        }
        What::Tag(tag) => {
            let own = tag.iter().position(|&byte| byte == 0).map_or(&tag[..], |at| &tag[at + 1..]);
            ("tags", text(own), purger.tag(tag).await)
        }
        What::Ban(expression) => {
            let purged = match Ban::parse(expression) {
                Ok(ban) => purger.ban(expression, &ban).await,
                // Another version's: it may mean anything.
                Err(_) => purger.everything().await,
            };
            ("ban", expression.clone(), purged)
        }
    }
}
