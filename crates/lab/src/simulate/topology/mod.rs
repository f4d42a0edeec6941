//! Larders that share a fleet of memcached servers, before one origin, through failures and purges.
//!
//! A request meets the tiers as it does in the program (`docs/remote.md`): the Larder's own memory, the fleet, the origin; copies
//! of the fleet's pages are used for `local_copy`, and longer while the fleet does not answer; one Larder renders and
//! the others wait, where leases are on. Which server has a page says the client's own placement.
//!
//! | file | what |
//! |---|---|
//! | `plan` | what is simulated |
//! | `fleet` | servers as they are, and as one Larder sees them |
//! | `node` | a cache that knows how old its pages are |
//! | `run` | the walk of each request; landings, events |
//! | `flow` | what is counted, over time |
//!
//! Not in it: how long the fleet takes to answer (a server that is away costs its failures, and those are counted), stale windows
//! (a page that is over is a miss), `min_freshness`, pages larger than one item (they are not shared).

mod fleet;
mod flow;
mod node;
mod plan;
mod run;
#[cfg(test)]
mod tests;

pub(crate) use self::flow::{Flow, Load, Peak, Window};
pub(crate) use self::plan::{Event, Fleet, Spread, Topology, What};
pub(crate) use self::run::run;
