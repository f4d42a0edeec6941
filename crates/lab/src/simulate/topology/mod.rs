//! Simulation of Larders that share a fleet of memcached servers in front of one origin, with
//! failures and purges.
//!
//! A request passes the tiers as in the program (`docs/remote.md`): the Larder's own memory, the
//! fleet, the origin; copies of the fleet's pages are used for `local_copy`, and longer while the
//! fleet does not answer; with leases, one Larder renders and the others wait. Pages are placed by
//! the client's own placement.
//!
//! | file | contents |
//! |---|---|
//! | `plan` | what is simulated |
//! | `fleet` | state of the servers, and each Larder's view of it |
//! | `node` | a cache that knows the age of its pages |
//! | `run` | handling of each request; completed fetches, events |
//! | `flow` | counters over time |
//!
//! Not modelled: response times of the fleet (failures of a down server are counted), stale windows
//! (an expired page is a miss), `min_freshness`, pages larger than one item (they are not shared).

mod fleet;
mod flow;
mod node;
mod plan;
mod run;
#[cfg(test)]
mod tests;

pub(crate) use self::flow::{Flow, Load, Peak, Window};
pub(crate) use self::plan::{Event, EventKind, Fleet, Spread, Topology};
pub(crate) use self::run::run;
