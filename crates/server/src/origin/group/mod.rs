//! An origin of several servers: which of them gets a request, and who answers when it fails.
//!
//! The way of a request: [`Group::send`] -> [`choose`] (of the members that are in; else of the
//! backups; else, where nobody answers, of those that are out) -> [`Origin::try_send`] -> the
//! answer, whose body holds a [`Ticket`] until it is complete. A failure goes to [`state`], and the
//! request to another member if that is safe: nothing of it was sent, or its method is safe and it
//! has no body (RFC 9110 section 9.2.2), and the [`budget`] has a retry left. Members that are out
//! are tried by requests of their own ([`probe`]), so that no visitor waits for them.
//!
//! An answer with one of `retry_status` counts as a failure of its member if another member then
//! gives another answer: a page that fails everywhere says nothing about a server. Where no other
//! is asked, it counts neither as a failure nor as a success.

mod adaptive;
mod budget;
mod check;
mod choose;
mod names;
mod probe;
mod state;

use std::{
    cell::{Cell, RefCell},
    hash::{BuildHasher, Hasher, RandomState},
    pin::pin,
    rc::Rc,
    sync::Arc,
};

use http::header;
use larder_proto::http::cookie::cookies;
use tokio::time::Instant;

pub use self::state::Groups;
pub(super) use self::state::Ticket;
use self::{
    budget::Budget,
    choose::{Candidate, least, rendezvous},
    state::{GroupState, MemberState, Phase, SHARE},
};
use super::{
    Interim, Origin, OriginCounters, OriginError, Request, RequestBody, Response, SendError,
    connect::after, counters::count,
};
use crate::{
    clock::instant,
    settings::{Balance, OriginGroup, OriginSettings},
};

/// An origin, as one worker sees it.
#[derive(Debug)]
pub struct Group {
    settings: Arc<OriginGroup>,
    state: Arc<GroupState>,
    members: RefCell<Rc<[Member]>>,
    /// The version of the state whose members these are.
    version: Cell<u64>,
    /// Of each server of the settings.
    counters: Vec<Arc<OriginCounters>>,
    budget: Budget,
    random: Cell<u64>,
    /// This worker looks after the servers for all.
    watches: Cell<bool>,
}

#[derive(Clone, Debug)]
struct Member {
    origin: Rc<Origin>,
    state: Arc<MemberState>,
    /// For `round-robin`: how much it is behind its share.
    behind: Cell<i64>,
}

/// The member for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Choice {
    place: usize,
    /// It is out, and tried.
    trial: bool,
}

/// One request on its way, from member to member.
struct Sending<'g> {
    group: &'g Group,
    members: Rc<[Member]>,
    /// The hash of its URL or cookie; None: the balance does not go by one.
    key: Option<u64>,
    /// The method is safe, and there is no body.
    repeatable: bool,
    /// When all tries together have taken too long.
    total: Option<Instant>,
    tried: Vec<usize>,
    /// A member that was asked failed without an answer.
    failed: bool,
    /// The last answer with a status for which another member is asked.
    answer: Option<Response>,
    /// Those that gave such answers.
    suspects: Vec<Ticket>,
}

impl Group {
    /// The members without connections; `counters` has one set for each.
    pub(crate) fn new(
        settings: Arc<OriginGroup>,
        groups: &Groups,
        counters: impl Fn(&str) -> Arc<OriginCounters>,
    ) -> Rc<Group> {
        let state = groups.of(&settings);
        let counters =
            settings.members.iter().map(|member| counters(&member.origin.name())).collect();
        let group = Rc::new(Group {
            settings,
            // Never a version: the members are made next.
            version: Cell::new(u64::MAX),
            members: RefCell::new(Rc::new([])),
            state,
            counters,
            budget: Budget::new(),
            random: Cell::new(RandomState::new().build_hasher().finish()),
            watches: Cell::new(false),
        });
        group.members();
        group
    }

    /// Its settings.
    pub(crate) fn settings(&self) -> &OriginGroup {
        &self.settings
    }

    /// Looks after the servers for all workers: their health checks, the addresses of their names.
    pub(crate) fn watch(self: &Rc<Self>) {
        if self.watches.replace(true) {
            return;
        }
        if let Some(check) = &self.settings.check {
            check::start(self, check.clone());
        }
        if let Some(interval) = self.settings.resolve {
            names::start(self, interval);
        }
    }

    /// The members of the moment; those that were there keep their connections.
    fn members(&self) -> Rc<[Member]> {
        let version = self.state.version();
        if self.version.replace(version) != version {
            let before = self.members.borrow().clone();
            let states = self.state.members();
            let members = states.iter().map(|state| {
                let known = before.iter().find(|known| Arc::ptr_eq(&known.state, state));
                known.cloned().unwrap_or_else(|| self.member(state))
            });
            *self.members.borrow_mut() = members.collect();
        }
        self.members.borrow().clone()
    }

    fn member(&self, state: &Arc<MemberState>) -> Member {
        let mut settings = self.settings.members[state.place].origin.clone();
        if state.address.is_some() {
            settings = Arc::new(OriginSettings { address: state.address, ..(*settings).clone() });
        }
        let origin = Origin::new(settings, self.counters[state.place].clone());
        Member { origin, state: state.clone(), behind: Cell::new(0) }
    }

    /// Sends one request to a member and waits for the head of the final response, as
    /// [`Origin::send`]; to another one if that fails, see above.
    pub async fn send(
        &self,
        request: Request,
        interim: Option<Interim>,
    ) -> Result<Response, OriginError> {
        self.budget.earn(self.state.now());
        let repeatable = request.method.is_safe() && request.body.is_empty() && !request.upgrade;
        let members = self.members();
        probe::those_due(self, &members, &request);
        let sending = Sending {
            group: self,
            key: self.key(&request),
            repeatable,
            // All members have the limits of their origin.
            total: members.first().and_then(|one| after(one.origin.settings().total_timeout)),
            members,
            tried: Vec::new(),
            failed: false,
            answer: None,
            suspects: Vec::new(),
        };
        pin!(sending.run(request, interim)).await
    }

    /// A number for each URL or cookie, where the balance goes by them.
    fn key(&self, request: &Request) -> Option<u64> {
        let hash = rapidhash::v3::rapidhash_v3;
        match &self.settings.balance {
            Balance::Least | Balance::RoundRobin => None,
            Balance::Url => {
                let host = request.headers.get(header::HOST);
                let mut url = host.map_or(&b""[..], |host| host.as_bytes()).to_ascii_lowercase();
                url.extend_from_slice(request.target.as_bytes());
                Some(hash(&url))
            }
            Balance::Cookie(name) => {
                let lines = request.headers.get_all(header::COOKIE).iter();
                let mut all = lines.flat_map(|line| cookies(line.as_bytes()));
                let sticky = all.find(|cookie| cookie.name() == name.as_bytes())?;
                Some(hash(sticky.value))
            }
        }
    }

    fn random(&self) -> u64 {
        let next = self.random.get().wrapping_add(1);
        self.random.set(next);
        rapidhash::v3::rapidhash_v3(&next.to_le_bytes())
    }
}

impl Sending<'_> {
    /// A member that was not tried: one that is in, else a backup that is in. One that is out only
    /// where none is in, or where those that are in do not answer: a visitor may wait long for it.
    /// None: there is none.
    fn choose(&self) -> Option<Choice> {
        let now = self.group.state.now();
        if let [only] = &*self.members {
            let trial = only.state.phase(now) != Phase::In;
            return self.tried.is_empty().then_some(Choice { place: 0, trial });
        }
        let is_in = |member: &Member| member.state.phase(now) == Phase::In;
        let regular = |member: &Member| !self.group.settings.members[member.state.place].backup;
        let chosen = self
            .among(now, |member| is_in(member) && regular(member))
            .or_else(|| self.among(now, is_in))
            .map(|place| Choice { place, trial: false });
        let nobody_answers = self.failed && self.answer.is_none();
        let last_resort = || match nobody_answers || !self.members.iter().any(is_in) {
            true => self.among(now, |_| true).map(|place| Choice { place, trial: true }),
            false => None,
        };
        chosen.or_else(last_resort)
    }

    /// One of the wanted members that were not tried.
    fn among(&self, now: u64, wanted: impl Fn(&Member) -> bool) -> Option<usize> {
        let members = self.members.iter().enumerate();
        let open = members.filter(|(place, one)| !self.tried.contains(place) && wanted(one));
        let candidates: Vec<Candidate> =
            open.map(|(place, member)| self.candidate(place, member, now)).collect();
        match (&self.group.settings.balance, self.key) {
            (Balance::RoundRobin, _) => self.next_in_turn(&candidates),
            (Balance::Url | Balance::Cookie(_), Some(key)) => rendezvous(&candidates, key),
            _ => least(&candidates, || self.group.random()),
        }
    }

    fn candidate(&self, place: usize, member: &Member, now: u64) -> Candidate {
        let weight = u64::from(self.group.settings.members[member.state.place].weight);
        Candidate {
            place,
            // A key stays with its member, whether that has just come back or not.
            share: match self.key {
                Some(_) => weight * SHARE,
                None => self.group.state.share(&member.state, now),
            },
            under_way: member.state.under_way(),
            identity: member.state.identity,
        }
    }

    /// Each falls behind by its share, and the one that is behind most catches up: those with
    /// larger shares are spread evenly (nginx's smooth weighted round-robin).
    fn next_in_turn(&self, candidates: &[Candidate]) -> Option<usize> {
        let mut next: Option<usize> = None;
        let mut all = 0;
        for candidate in candidates {
            let behind = &self.members[candidate.place].behind;
            let share = candidate.share as i64;
            behind.set(behind.get() + share);
            all += share;
            let most = next.map(|place| self.members[place].behind.get());
            if most.is_none_or(|most| behind.get() > most) {
                next = Some(candidate.place);
            }
        }
        let behind = &self.members[next?].behind;
        behind.set(behind.get() - all);
        next
    }

    async fn run(
        mut self,
        mut request: Request,
        interim: Option<Interim>,
    ) -> Result<Response, OriginError> {
        // As many requests as allowed are under way at each.
        let mut failure = OriginError::TooManyConnections;
        loop {
            let Some((place, ticket)) = self.next() else { break };
            let origin = self.members[place].origin.clone();
            // Where all were tried there is no other to send it to.
            let spare = (self.tried.len() < self.members.len()).then(|| request.spare());
            let begun = instant();
            let sent = pin!(origin.try_send(request, interim.clone(), self.total)).await;
            if shows_latency(&sent) {
                ticket.answered_after(instant() - begun);
            }
            let body = match sent {
                Ok(response)
                    if self.repeatable && self.is_suspect(&response) && spare.is_some() =>
                {
                    self.answer = Some(response);
                    self.suspects.push(ticket);
                    Some(RequestBody::Empty)
                }
                Ok(response) => return Ok(self.answered(response, ticket)),
                Err(unsent) => {
                    self.failed |= unsent.error.blames_server();
                    // Others before may have taken the time.
                    let late = matches!(unsent.error, OriginError::TotalTimeout);
                    if unsent.error.blames_server() && !(late && self.tried.len() > 1) {
                        ticket.failed();
                    }
                    failure = unsent.error;
                    let again = self.repeatable && failure.may_differ_elsewhere();
                    unsent.body.or(again.then_some(RequestBody::Empty))
                }
            };
            let (Some(body), Some(spare)) = (body, spare) else { break };
            let late = self.total.is_some_and(|total| total <= instant());
            if late || !self.group.budget.spend() {
                break;
            }
            count(&origin.counters.sent_elsewhere);
            request = Request { body, ..spare };
        }
        match self.answer.take() {
            Some(mut response) => {
                // All that were asked failed: it is nobody's fault in particular.
                let ticket = self.suspects.pop().map(Ticket::undecided);
                ticket.into_iter().for_each(|ticket| response.body.hold(ticket));
                Ok(response)
            }
            None => Err(failure),
        }
    }

    /// The next member, with the place of the request among those under way there.
    fn next(&mut self) -> Option<(usize, Ticket)> {
        loop {
            let Choice { place, trial } = self.choose()?;
            self.tried.push(place);
            if let Some(ticket) = self.group.state.begin(&self.members[place].state, trial) {
                return Some((place, ticket));
            }
        }
    }

    fn is_suspect(&self, response: &Response) -> bool {
        self.group.settings.retry_status.contains(&response.status)
    }

    /// This is the answer: the request was not at fault where others failed.
    fn answered(mut self, mut response: Response, mut ticket: Ticket) -> Response {
        if self.is_suspect(&response) {
            ticket = ticket.undecided();
        } else {
            self.suspects.drain(..).for_each(Ticket::failed);
        }
        response.body.hold(ticket);
        response
    }
}

/// Whether the time until this came says how busy the server is: errors may come sooner.
fn shows_latency(sent: &Result<Response, SendError>) -> bool {
    match sent {
        Ok(response) => response.status < 500,
        Err(unsent) => {
            matches!(unsent.error, OriginError::FirstByteTimeout | OriginError::ConnectTimeout)
        }
    }
}

impl Request {
    /// The same request without its body.
    pub(crate) fn spare(&self) -> Request {
        Request {
            method: self.method.clone(),
            target: self.target.clone(),
            visited: self.visited.clone(),
            headers: self.headers.clone(),
            body: RequestBody::Empty,
            upgrade: self.upgrade,
            asker: self.asker.clone(),
        }
    }
}
