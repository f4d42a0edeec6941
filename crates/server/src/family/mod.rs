//! Families of caches: peers that are asked before the origin.
//!
//! A [`Link`] is one peer as one worker sees it: its connections ([`Group`], as those of origins)
//! and the socket for queries ([`line`]). The state of a peer is shared by all workers
//! ([`PeerState`]). The choice among peers is made by a fetch (`fetch::peers`); those who ask here
//! are answered by `asked`.

mod clear;
mod line;
mod state;

use std::{cell::RefCell, net::SocketAddr, rc::Rc, sync::Arc};

use larder_metrics::{Family as FamilyFigures, FamilyAsked};
use larder_proto::carp::{Array, Member};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use self::line::{Asked, Line, Listening};
pub(crate) use self::{
    line::{Answer, Heard, Question, is_signed, with_signing},
    state::{AskedCounts, PeerState, Turn},
};
use crate::{
    clock::Clock,
    origin::Group,
    settings::{PeerSelect, PeerSettings},
};

/// The peers, as all workers see them.
pub(crate) struct Family {
    clock: Clock,
    /// Those of the present settings.
    peers: Mutex<Arc<[Arc<PeerState>]>>,
    /// Names this process in CDN-Loop of what is passed on.
    loop_id: String,
    pub(crate) icp: AskedCounts,
    pub(crate) htcp: AskedCounts,
}

impl Family {
    /// Without peers.
    pub(crate) fn new(clock: Clock, loop_id: String) -> Self {
        Self {
            clock,
            peers: Mutex::new(Arc::new([])),
            loop_id,
            icp: AskedCounts::default(),
            htcp: AskedCounts::default(),
        }
    }

    /// Takes the peers of new settings; what is known of those that stay is kept.
    pub(crate) fn take(&self, settings: &[Arc<PeerSettings>]) -> Arc<[Arc<PeerState>]> {
        let mut peers = self.peers.lock();
        if peers.len() != settings.len()
            || peers.iter().zip(settings).any(|(peer, settings)| peer.settings != *settings)
        {
            let state = |settings: &Arc<PeerSettings>| {
                let known = peers.iter().find(|peer| peer.settings == *settings);
                known.cloned().unwrap_or_else(|| PeerState::new(settings.clone(), self.clock))
            };
            *peers = settings.iter().map(state).collect();
        }
        peers.clone()
    }

    pub(crate) fn peers(&self) -> Arc<[Arc<PeerState>]> {
        self.peers.lock().clone()
    }

    /// Whether an address is that of a peer.
    pub(crate) fn has(&self, address: SocketAddr) -> bool {
        let ip = address.ip().to_canonical();
        let is = |at: &SocketAddr| at.ip().to_canonical() == ip;
        self.peers.lock().iter().any(|peer| {
            let PeerSettings { clears, queries, .. } = &*peer.settings;
            clears.iter().chain(queries).any(is)
        })
    }

    /// The figures; None: there are neither peers nor askers.
    pub(crate) fn figures(&self, asked: [(&str, bool); 2]) -> Option<FamilyFigures> {
        let peers: Vec<_> = self.peers().iter().map(|peer| peer.figures()).collect();
        let counts = [&self.icp, &self.htcp];
        let served = asked.iter().zip(counts).filter(|((_, served), _)| *served);
        let asked: Vec<FamilyAsked> =
            served.map(|((name, _), counts)| counts.figures(name)).collect();
        (!peers.is_empty() || !asked.is_empty()).then_some(FamilyFigures { peers, asked })
    }
}

/// One peer, as one worker sees it.
pub(crate) struct Link {
    pub(crate) state: Arc<PeerState>,
    /// Its connections.
    pub(crate) group: Rc<Group>,
    /// The socket for queries, once there was one.
    line: RefCell<Option<(Rc<Line>, Listening)>>,
}

impl Link {
    pub(crate) fn new(state: Arc<PeerState>, group: Rc<Group>) -> Rc<Self> {
        Rc::new(Self { state, group, line: RefCell::new(None) })
    }

    pub(crate) fn settings(&self) -> &PeerSettings {
        &self.state.settings
    }

    /// Asks whether the peer has a page; the answer comes on `heard`, with `place`. None: it
    /// cannot be asked now.
    pub(crate) fn ask(
        &self,
        question: &Question<'_>,
        place: usize,
        heard: &mpsc::Sender<Heard>,
    ) -> Option<Asked> {
        let line = self.line()?;
        let asked = line.ask(question, place, heard);
        if asked.is_none() {
            // A socket that cannot send has an address of before: the next query opens another.
            *self.line.borrow_mut() = None;
        }
        asked
    }

    fn line(&self) -> Option<Rc<Line>> {
        let mut line = self.line.borrow_mut();
        if line.is_none() {
            *line = Line::open(&self.state).ok();
        }
        line.as_ref().map(|(line, _)| line.clone())
    }
}

/// The peers of one worker.
#[derive(Default)]
pub(crate) struct Links {
    pub(crate) all: Vec<Rc<Link>>,
    /// Those with `select = "hash"`, and their places in `all`.
    array: (Array, Vec<usize>),
}

impl Links {
    pub(crate) fn new(all: Vec<Rc<Link>>) -> Self {
        let hashed = all.iter().enumerate();
        let places: Vec<usize> = hashed
            .filter(|(_, link)| link.settings().select == PeerSelect::Hash)
            .map(|(place, _)| place)
            .collect();
        let member = |place: &usize| {
            let PeerSettings { name, weight, .. } = all[*place].settings();
            Member { name, weight: *weight }
        };
        let array = Array::new(&places.iter().map(member).collect::<Vec<_>>());
        Self { all, array: (array, places) }
    }

    /// The parents for a URL by CARP, the responsible one first.
    pub(crate) fn hashed(&self, url: &[u8]) -> impl Iterator<Item = &Rc<Link>> {
        let (array, places) = &self.array;
        let order = if places.is_empty() { Vec::new() } else { array.order(url) };
        order.into_iter().map(|member| &self.all[places[member]])
    }
}
