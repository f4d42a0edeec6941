//! The origin of a site: one server or several, and how requests are divided among them.

use std::{sync::Arc, time::Duration};

use super::{OriginScheme, OriginSettings, TreeSettings};

/// The servers that answer for one origin. There is at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginGroup {
    /// Its servers, in the order of the file.
    pub members: Vec<GroupMember>,
    /// Which of them gets a request.
    pub balance: Balance,
    /// Failures in a row after which a member gets no requests for `failure_pause`.
    pub max_failures: u32,
    /// Time without requests after these failures; it doubles as long as the member fails.
    pub failure_pause: Duration,
    /// Time in which the share of a member grows to its weight after it has come back.
    pub slow_start: Duration,
    /// Requests under way at one member, over all threads; None: no limit.
    pub max_requests: Option<usize>,
    /// A limit besides, which follows the latency of each member.
    pub adaptive_limit: bool,
    /// Answers for which a safe request is sent to another member.
    pub retry_status: Vec<u16>,
    /// How members are checked; None: they are judged by their answers to visitors alone.
    pub check: Option<HealthCheck>,
    /// Interval at which the names of members are looked up, so that each address is a member;
    /// None: the name is the member, and is looked up for each connection.
    pub resolve: Option<Duration>,
}

impl OriginGroup {
    /// A group of one server.
    pub fn single(origin: Arc<OriginSettings>) -> OriginGroup {
        OriginGroup {
            members: vec![GroupMember { origin, weight: 1, backup: false }],
            balance: Balance::Least,
            max_failures: 3,
            failure_pause: Duration::from_secs(10),
            slow_start: Duration::from_secs(10),
            max_requests: None,
            adaptive_limit: false,
            retry_status: vec![500, 502, 503, 504],
            check: None,
            resolve: None,
        }
    }

    /// The files of this machine that answer, if nothing else does.
    pub(crate) fn files(&self) -> Option<&Arc<TreeSettings>> {
        let [member] = &self.members[..] else { return None };
        match &member.origin.scheme {
            OriginScheme::Files(tree) => Some(tree),
            OriginScheme::Http | OriginScheme::Https(_) | OriginScheme::FastCgi(_) => None,
        }
    }

    /// The names of its members, divided by commas.
    pub fn name(&self) -> String {
        let names: Vec<String> = self.members.iter().map(|member| member.origin.name()).collect();
        names.join(", ")
    }
}

/// A request by which the members of an origin are checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// Path and query.
    pub path: String,
    /// `Host`; None: that of the member.
    pub host: Option<String>,
    /// From the end of a check to the next one.
    pub interval: Duration,
    /// Time limit for a whole answer.
    pub timeout: Duration,
    /// First and last of the statuses of a member that is well.
    pub status: Vec<(u16, u16)>,
    /// A text in its first 64 KiB; None: any content.
    pub body: Option<String>,
}

/// One server of an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMember {
    /// How it is reached.
    pub origin: Arc<OriginSettings>,
    /// Its share of the requests beside those of the others, at least 1.
    pub weight: u32,
    /// It gets requests only while no other member can answer.
    pub backup: bool,
}

/// Which member of an origin gets a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// The one with fewer requests under way, of two picked at random.
    #[default]
    Least,
    /// One after the other.
    RoundRobin,
    /// By the URL: the same URL goes to the same member (rendezvous hashing).
    Url,
    /// By the value of the cookie of this name; requests without it as [`Balance::Least`].
    Cookie(String),
}
