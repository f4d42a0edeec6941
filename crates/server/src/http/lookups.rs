//! The lookups of one request: the first, and those after fetches that brought something for all.

use larder_proto::rules::Forward;

use crate::{
    fetch::Plan,
    http::{
        debug,
        flow::{Step, step},
        served::Served,
    },
    page::flight::Again,
    request::{Request, route::Route},
};

/// How often a request may find that what it waited for is not for it, before it asks for itself.
const ROUNDS: usize = 3;

/// The lookups of one request so far.
#[derive(Default)]
pub(super) struct Lookups {
    /// The plan of the first fetch, where the store was asked.
    pub(super) first: Option<Plan>,
    /// Fetches so far.
    pub(super) fetches: usize,
    /// The origin confirmed the stored page just now, or sent it: why it was asked.
    confirmed: Option<(Forward, Again)>,
    /// The page came from this tier just now.
    tier: Option<Again>,
    /// The disk has answered.
    no_disk: bool,
    /// The fleet has answered. If its page does not answer this request, it is not asked again.
    no_fleet: bool,
    /// The fetches of other requests are not for this one.
    alone: bool,
    /// No part is of use.
    whole: bool,
    /// The page cannot be kept in slices.
    unsliced: bool,
}

impl Lookups {
    /// `first`: the plan of the first fetch, where the store was asked.
    pub(super) fn after(first: Option<Plan>) -> Self {
        Self { first, ..Self::default() }
    }

    /// The step after one more lookup, and the key of the variant.
    pub(super) fn look(
        &mut self,
        request: &Request<'_, '_>,
        route: &mut Route<'_>,
    ) -> (Step, Option<Vec<u8>>) {
        let now = request.now();
        request.settle_object(route, now);
        let looked = route.find(request, now);
        if request.head.known.larder_debug().is_some() {
            debug::note(request, route, &looked, now);
        }
        let variant = looked.variant.clone();
        let step = match (step(request, route, looked, now), self.confirmed.take()) {
            (
                Step::Serve(held, _) | Step::Fetch(Plan { held: Some(held), .. }),
                Some((why, again)),
            ) if again == Again::Validated || !request.is_for_others(&held.meta, &route.policy) => {
                let served = match again {
                    Again::Stored => Served::stored(&held.meta, now, why),
                    Again::Sliced => Served::sliced(&held.meta, now, why),
                    _ => Served::validated(&held.meta, now, why),
                };
                Step::Serve(held, served)
            }
            (Step::Serve(held, served), None) => {
                let tier = self.tier.take();
                let served = tier.map_or(served, |tier| served.by_tier(tier == Again::Remote));
                Step::Serve(held, served)
            }
            (step, _) => step,
        };
        (step, variant)
    }

    /// The plan of the next fetch: alone where waiting was of no use, past the store where storing
    /// was of no use.
    pub(super) fn limit(&mut self, mut plan: Plan) -> Plan {
        plan.fleet &= !self.no_fleet;
        plan.disk &= !self.no_disk;
        plan.whole |= self.whole;
        plan.slice &= !self.unsliced;
        plan.solo |= self.alone || self.fetches >= ROUNDS;
        if self.fetches > ROUNDS {
            // The stored page does not answer this request, and validating it does not help: the
            // answer is this client's alone.
            let whole = plan.whole;
            plan = Plan { solo: true, store: false, whole, ..Plan::new(plan.why, None, None) };
        }
        self.fetches += 1;
        plan
    }

    /// A fetch for this reason says that the store has to be asked again.
    pub(super) fn again(&mut self, why: Forward, again: Again) {
        self.tier = matches!(again, Again::Disk | Again::Remote).then_some(again);
        match again {
            Again::Changed => {}
            Again::Disk => self.no_disk = true,
            Again::Remote => self.no_fleet = true,
            Again::Validated | Again::Stored | Again::Sliced => {
                self.confirmed = Some((why, again));
            }
            Again::Alone => self.alone = true,
            Again::Whole => self.whole = true,
            Again::Unsliced => self.unsliced = true,
        }
    }
}
