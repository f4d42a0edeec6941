//! Simulation of each request through the tiers, in trace time.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    rc::Rc,
};

use super::fleet::{Answer, Servers};
use super::flow::{Flow, Load, Window};
use super::node::{Node, OWN, Page};
use super::plan::{EventKind, Spread, Topology};
use crate::{
    load::Verb,
    random::{Random, mix},
    simulate::{request::Request, trace::Trace},
};

/// Most windows of a run: each takes some hundred bytes, also in the JSON.
const MAX_WINDOWS: u64 = 100_000;
/// Most objects times caches: at about 40 bytes each, 10 GiB.
const MAX_PLACES: usize = 1 << 28;

/// Rejects parameters that cannot be simulated or are probably mistakes.
fn check(plan: &Topology, trace: &Trace) -> Result<(), String> {
    let last = trace.requests.last().map_or(0, |request| request.at);
    if (last + plan.render) / plan.interval >= MAX_WINDOWS {
        return Err(format!(
            "interval: the trace's {} s have more than {MAX_WINDOWS} intervals of {} ms, take \
             longer ones",
            (last + plan.render) / 1000,
            plan.interval
        ));
    }
    let caches = plan.larders + plan.fleet.as_ref().map_or(0, |fleet| fleet.servers.len());
    let objects = trace.hashes.len();
    if caches.saturating_mul(objects) > MAX_PLACES {
        return Err(format!(
            "{objects} objects in {caches} Larders and servers are more than fit into memory: \
             take a sample of the trace's keys (sample = 0.01)"
        ));
    }
    if let Some(event) = plan.events.iter().find(|event| event.at > last) {
        let at = event.at;
        return Err(format!(
            "the event at {at} ms comes after the trace's last request, at {last} ms"
        ));
    }
    Ok(())
}

/// Runs the simulation.
pub(crate) fn run(plan: &Topology, trace: &Trace) -> Result<Flow, String> {
    check(plan, trace)?;
    let mut simulation = Simulation::new(plan, trace)?;
    let mut events: Vec<_> = plan.events.clone();
    events.sort_by_key(|event| event.at);
    let mut coming = events.iter().peekable();
    for request in &trace.requests {
        while let Some(event) = coming.next_if(|event| event.at <= request.at) {
            simulation.land_until(event.at);
            simulation.happen(event.what, event.at)?;
        }
        simulation.land_until(request.at);
        match request.verb() {
            Verb::Get | Verb::Head => simulation.read(request),
            // A write at the origin purges the page.
            Verb::Set | Verb::Delete => simulation.purge(request.id, request.at),
        }
    }
    simulation.land_until(u64::MAX);
    let told: Vec<(u64, String)> =
        events.iter().map(|event| (event.at, plan.describe(event.what))).collect();
    Ok(simulation.end(&told))
}

/// A pending request to the origin.
struct Flight {
    request: Request,
    larder: usize,
    /// Other Larders that wait for its result in the fleet.
    others: Vec<usize>,
}

struct Simulation<'a> {
    plan: &'a Topology,
    sample: f64,
    ids: usize,
    larders: Vec<Node>,
    servers: Option<Servers<'a>>,
    /// Flights by Larder and object.
    flying: HashMap<(usize, u32), usize>,
    /// The flight that holds the lease, by object.
    leases: HashMap<u32, usize>,
    flights: Vec<Option<Flight>>,
    /// Numbers of completed flights.
    free: Vec<usize>,
    landings: BinaryHeap<Reverse<(u64, usize)>>,
    /// Time of the last purge of each object; 0: never.
    purged: Vec<u64>,
    hashes: Rc<[u64]>,
    random: Random,
    turn: usize,
    flow: Flow,
}

impl<'a> Simulation<'a> {
    fn new(plan: &'a Topology, trace: &Trace) -> Result<Simulation<'a>, String> {
        let ids = trace.hashes.len();
        let scaled = |bytes: u64| (bytes as f64 * trace.sample).round() as u64;
        let hashes: Rc<[u64]> = trace.hashes.clone().into();
        let larder = |number: usize| {
            let cache = plan.policy.open(scaled(plan.memory), ids, plan.seed ^ number as u64);
            Ok(Node::larder(cache.map_err(|why| format!("a Larder's memory: {why}"))?, ids))
        };
        let servers = match &plan.fleet {
            None => None,
            Some(fleet) => {
                let server = |number: usize| {
                    let cache =
                        fleet.policy.open(scaled(fleet.memory), ids, plan.seed ^ number as u64);
                    Ok(Node::server(cache.map_err(|why| format!("a server's memory: {why}"))?, ids))
                };
                let nodes: Result<Vec<Node>, String> =
                    (0..fleet.servers.len()).map(server).collect();
                let servers = Servers::new(fleet, nodes?, plan.larders, hashes.clone());
                Some(servers.map_err(|error| error.to_string())?)
            }
        };
        let larders: Result<Vec<Node>, String> = (0..plan.larders).map(larder).collect();
        Ok(Simulation {
            plan,
            sample: trace.sample,
            ids,
            larders: larders?,
            servers,
            flying: HashMap::new(),
            leases: HashMap::new(),
            flights: Vec::new(),
            free: Vec::new(),
            landings: BinaryHeap::new(),
            purged: vec![0; ids],
            hashes,
            random: Random::new(plan.seed),
            turn: 0,
            flow: Flow { interval: plan.interval, ..Flow::default() },
        })
    }

    fn asked_of(&mut self, id: u32) -> usize {
        let larders = self.larders.len();
        match self.plan.spread {
            Spread::RoundRobin => {
                self.turn += 1;
                (self.turn - 1) % larders
            }
            Spread::Hash => (mix(self.hashes[id as usize]) % larders as u64) as usize,
            Spread::Random => self.random.below(larders as u64) as usize,
        }
    }

    fn fresh(&self, request: &Request, page: Page) -> bool {
        let lives = if request.ttl() == 0 { u64::MAX } else { u64::from(request.ttl()) * 1000 };
        request.at < page.rendered.saturating_add(lives)
            && page.rendered >= self.purged[request.id as usize]
    }

    fn read(&mut self, request: &Request) {
        let larder = self.asked_of(request.id);
        let window = self.flow.at(request.at);
        window.requests += 1.0;
        window.to_clients += f64::from(request.size);
        if self.flying.contains_key(&(larder, request.id)) {
            self.flow.at(request.at).waited += 1.0;
            return;
        }
        let held = self.larders[larder].get(request).filter(|page| self.fresh(request, *page));
        if held.is_some_and(|page| request.at < page.good_until) {
            self.flow.at(request.at).local += 1.0;
            return;
        }
        match self.ask_fleet(larder, request) {
            Some(Answer::Page(page)) if self.fresh(request, page) => {
                self.copy(larder, request, page.rendered);
                let window = self.flow.at(request.at);
                window.remote += 1.0;
            }
            Some(Answer::Failed) if held.is_some() => {
                let until = request.at + self.local_copy();
                self.larders[larder].prolong(request.id, until);
                let window = self.flow.at(request.at);
                (window.local, window.prolonged) = (window.local + 1.0, window.prolonged + 1.0);
            }
            Some(Answer::Failed) | None => self.ask_origin(larder, request, false),
            Some(Answer::Page(_) | Answer::Nothing) => self.ask_origin(larder, request, true),
        }
    }

    fn local_copy(&self) -> u64 {
        self.plan.fleet.as_ref().map_or(OWN, |fleet| fleet.local_copy)
    }

    fn ask_fleet(&mut self, larder: usize, request: &Request) -> Option<Answer> {
        let answer = self.servers.as_mut()?.get(larder, request);
        if answer == Answer::Failed {
            self.flow.at(request.at).failed += 1.0;
        }
        Some(answer)
    }

    /// Copies a page of the fleet into a Larder's own memory.
    fn copy(&mut self, larder: usize, request: &Request, rendered: u64) {
        let good_until = request.at + self.local_copy();
        self.larders[larder].set(request, Page { rendered, good_until });
        self.flow.at(request.at).from_fleet += f64::from(request.size);
    }

    /// Asks the origin, or waits for another Larder that does.
    fn ask_origin(&mut self, larder: usize, request: &Request, well: bool) {
        let leased = well
            && self
                .plan
                .fleet
                .as_ref()
                .is_some_and(|fleet| fleet.lease && request.size <= fleet.item_size);
        if leased && let Some(flight) = self.leases.get(&request.id) {
            if let Some(Some(flight)) = self.flights.get_mut(*flight) {
                flight.others.push(larder);
            }
            self.flying.insert((larder, request.id), *flight);
            self.flow.at(request.at).waited += 1.0;
            return;
        }
        let window = self.flow.at(request.at);
        window.origin += 1.0;
        window.from_origin += f64::from(request.size);
        let number = self.free.pop().unwrap_or_else(|| {
            self.flights.push(None);
            self.flights.len() - 1
        });
        self.flights[number] = Some(Flight { request: *request, larder, others: Vec::new() });
        self.flying.insert((larder, request.id), number);
        if leased {
            self.leases.insert(request.id, number);
        }
        self.landings.push(Reverse((request.at + self.plan.render, number)));
        if self.plan.render == 0 {
            self.land_until(request.at);
        }
    }

    /// Stores the pages that have arrived from the origin by now.
    fn land_until(&mut self, now: u64) {
        while let Some(Reverse((at, number))) = self.landings.peek().copied() {
            if at > now {
                return;
            }
            self.landings.pop();
            if let Some(flight) = self.flights[number].take() {
                self.land(flight, at, number);
            }
            self.free.push(number);
        }
    }

    fn land(&mut self, flight: Flight, at: u64, number: usize) {
        let Flight { request: sent, larder, others } = flight;
        let mut request = sent;
        request.at = at;
        for waiting in others.iter().chain([&larder]) {
            self.flying.remove(&(*waiting, request.id));
        }
        if self.leases.get(&request.id) == Some(&number) {
            self.leases.remove(&request.id);
        }
        // A purge during the flight marks it, and nothing is stored. The page is as old as the
        // request.
        if self.purged[request.id as usize] > sent.at {
            return;
        }
        let page = Page { rendered: at, good_until: OWN };
        self.larders[larder].set(&request, page);
        let Some(servers) = &mut self.servers else { return };
        if request.size > servers.plan().item_size || !servers.set(larder, &request, page) {
            return;
        }
        self.flow.at(at).to_fleet += f64::from(request.size);
        for other in others {
            if self.servers.as_mut().is_some_and(|servers| servers.well(other, request.id)) {
                self.copy(other, &request, at);
            }
        }
    }

    fn purge(&mut self, id: u32, now: u64) {
        // Pages rendered in the same millisecond count as rendered after the purge.
        self.purged[id as usize] = now.max(1);
        self.larders.iter_mut().for_each(|larder| larder.remove(id));
        if let Some(servers) = &mut self.servers {
            servers.remove(id);
        }
    }

    fn happen(&mut self, what: EventKind, now: u64) -> Result<(), String> {
        let scaled = |bytes: u64| (bytes as f64 * self.sample).round() as u64;
        match (what, &mut self.servers) {
            (EventKind::Restart(larder), _) => {
                let cache =
                    self.plan.policy.open(scaled(self.plan.memory), self.ids, self.plan.seed)?;
                self.larders[larder].restart(cache);
            }
            (EventKind::Purge(share), _) => {
                let limit = (share * u64::MAX as f64) as u64;
                let ids: Vec<u32> =
                    (0..self.ids as u32).filter(|_| self.random.number() < limit).collect();
                ids.into_iter().for_each(|id| self.purge(id, now));
            }
            (EventKind::Down(server), Some(servers)) => servers.all[server].up = false,
            (EventKind::Up { server, empty }, Some(servers)) => {
                servers.all[server].up = true;
                if empty {
                    let fleet = servers.plan();
                    let cache =
                        fleet.policy.open(scaled(fleet.memory), self.ids, self.plan.seed)?;
                    servers.all[server].node.restart(cache);
                }
            }
            (EventKind::Down(_) | EventKind::Up { .. }, None) => {}
        }
        Ok(())
    }

    fn end(mut self, events: &[(u64, String)]) -> Flow {
        let scale = 1.0 / self.sample;
        self.flow.windows.iter_mut().for_each(|window| window.scale(scale));
        self.flow.total = self.flow.windows.iter().fold(Window::default(), |mut sum, window| {
            sum += *window;
            sum
        });
        if let Some(servers) = &self.servers {
            let load = |(server, name): (&super::fleet::Server, &larder_client::Server)| Load {
                name: name.address.to_string(),
                gets: server.gets as f64 * scale,
                hits: server.hits as f64 * scale,
                sets: server.sets as f64 * scale,
                bytes: server.bytes as f64 * scale,
                items: server.node.items() as f64 * scale,
            };
            self.flow.servers = servers.all.iter().zip(&servers.plan().servers).map(load).collect();
        }
        self.flow.find_peaks(events);
        self.flow
    }
}
