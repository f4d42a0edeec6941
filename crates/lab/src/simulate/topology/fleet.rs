//! Servers of a fleet: their actual state, each Larder's view of it, and the placement of pages.

use std::{collections::HashMap, rc::Rc};

use larder_client::{Ring, placement::PlacementError};

use super::node::{Node, Page};
use super::plan::Fleet;
use crate::{random::mix, simulate::request::Request};

/// Most cached rings: as many sets of live servers as a run is likely to see again.
const MAX_RINGS: usize = 64;
const UNKNOWN: u16 = u16::MAX;

/// Result of asking the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Page(Page),
    Nothing,
    /// The server does not answer, or is known to be down.
    Failed,
}

/// Actual state of a server.
pub(super) struct Server {
    pub(super) node: Node,
    pub(super) up: bool,
    pub(super) gets: u64,
    pub(super) hits: u64,
    pub(super) sets: u64,
    pub(super) bytes: u64,
}

/// A Larder's view of a server.
#[derive(Clone, Copy, Debug, Default)]
struct Health {
    down: bool,
    failures: u32,
    pause: u64,
    until: u64,
}

/// A set of live servers, and the owner of each object among them (computed on demand).
struct Owners {
    ring: Ring,
    of: Vec<u16>,
}

pub(super) struct Servers<'a> {
    plan: &'a Fleet,
    pub(super) all: Vec<Server>,
    /// By Larder, then by server.
    views: Vec<Vec<Health>>,
    rings: HashMap<Vec<bool>, Owners>,
    everybody: Ring,
    hashes: Rc<[u64]>,
}

impl<'a> Servers<'a> {
    pub(super) fn new(
        plan: &'a Fleet,
        nodes: Vec<Node>,
        larders: usize,
        hashes: Rc<[u64]>,
    ) -> Result<Servers<'a>, PlacementError> {
        let everybody = Ring::new(&plan.placement, &plan.servers)?;
        let server = |node| Server { node, up: true, gets: 0, hits: 0, sets: 0, bytes: 0 };
        Ok(Servers {
            plan,
            everybody,
            views: vec![vec![Health::default(); nodes.len()]; larders],
            all: nodes.into_iter().map(server).collect(),
            rings: HashMap::new(),
            hashes,
        })
    }

    pub(super) fn plan(&self) -> &'a Fleet {
        self.plan
    }

    /// Reads a page.
    pub(super) fn get(&mut self, larder: usize, request: &Request) -> Answer {
        let Some(at) = self.reach(larder, request) else { return Answer::Failed };
        let server = &mut self.all[at];
        server.gets += 1;
        match server.node.get(request) {
            Some(page) => {
                server.hits += 1;
                server.bytes += u64::from(request.size);
                Answer::Page(page)
            }
            None => Answer::Nothing,
        }
    }

    /// Stores a page. False: it could not be sent.
    pub(super) fn set(&mut self, larder: usize, request: &Request, page: Page) -> bool {
        let Some(at) = self.reach(larder, request) else { return false };
        let server = &mut self.all[at];
        server.sets += 1;
        server.bytes += u64::from(request.size);
        server.node.set(request, page);
        true
    }

    /// Whether the page's server is up in this Larder's view.
    pub(super) fn well(&mut self, larder: usize, id: u32) -> bool {
        let at = self.owner(larder, id);
        !self.views[larder][at].down && self.all[at].up
    }

    pub(super) fn remove(&mut self, id: u32) {
        self.all.iter_mut().filter(|server| server.up).for_each(|server| server.node.remove(id));
    }

    /// The server of a page, if it answers.
    fn reach(&mut self, larder: usize, request: &Request) -> Option<usize> {
        self.probe(larder, request.at);
        let at = self.owner(larder, request.id);
        let health = &mut self.views[larder][at];
        if health.down {
            return None;
        }
        if self.all[at].up {
            health.failures = 0;
            return Some(at);
        }
        health.failures += 1;
        if health.failures >= self.plan.failure_limit {
            health.down = true;
            health.pause = self.plan.retry_min;
            health.until = request.at + health.pause;
        }
        None
    }

    /// Probes servers whose pause is over; pauses double.
    fn probe(&mut self, larder: usize, now: u64) {
        for (health, server) in self.views[larder].iter_mut().zip(&self.all) {
            if !health.down || now < health.until {
                continue;
            }
            if server.up {
                *health = Health::default();
            } else {
                health.pause = (health.pause * 2).clamp(1, self.plan.retry_max.max(1));
                health.until = now + health.pause;
            }
        }
    }

    fn owner(&mut self, larder: usize, id: u32) -> usize {
        let eject = self.plan.eject;
        let alive: Vec<bool> =
            self.views[larder].iter().map(|health| !(eject && health.down)).collect();
        if self.rings.len() > MAX_RINGS {
            self.rings.clear();
        }
        let (plan, everybody, ids) = (self.plan, &self.everybody, self.hashes.len());
        let owners = self.rings.entry(alive).or_insert_with_key(|alive| Owners {
            ring: Ring::living(&plan.placement, &plan.servers, |at| alive[at])
                .unwrap_or_else(|_| everybody.clone()),
            of: vec![UNKNOWN; ids],
        });
        let owner = &mut owners.of[id as usize];
        if *owner == UNKNOWN {
            *owner = owners.ring.locate(name(self.hashes[id as usize]).as_bytes()) as u16;
        }
        usize::from(*owner)
    }
}

/// Names of pages as in the fleet, from other bits of the key's hash.
fn name(hash: u64) -> String {
    format!("larder:p:{hash:016x}{:016x}", mix(hash))
}
