//! The result of a fetch, for one requester.

use std::{rc::Rc, sync::Arc};

use larder_proto::rules::Forward;

use crate::{
    access_log::Hierarchy,
    fetch::Template,
    origin::{Body, Tunnel},
    page::{
        answer::Answer,
        flight::{Again, Failure, Follower},
    },
};

/// Result of a fetch, for one requester.
pub(crate) enum FetchResult {
    /// The response.
    Response(Box<Reply>),
    /// The store has to be asked again.
    LookAgain(Again),
    /// The origin failed.
    Failed(Arc<Failure>),
}

/// A response on its way to one client.
pub(crate) struct Reply {
    pub(crate) answer: Arc<Answer>,
    pub(crate) source: Source,
    pub(crate) why: Forward,
    /// Followed somebody else's fetch.
    pub(crate) collapsed: bool,
    /// There was something in the store, used or not.
    pub(crate) found: bool,
    /// Why it is not stored.
    pub(crate) detail: Option<&'static str>,
    pub(crate) hierarchy: Hierarchy,
    /// The client's own conditions are still to be looked at: the origin was not told.
    pub(crate) conditions: bool,
}

/// Where a body comes from.
pub(crate) enum Source {
    Follow(Follower),
    /// The origin's, for one client.
    Alone(Box<Body>),
    /// A page whose parts are to be put in.
    Template(Rc<Template>),
    /// With the protocol's name.
    Tunnel(Tunnel, Vec<u8>),
}
