//! Selection of the rules for one connection or request.

use std::{
    cell::RefCell,
    rc::Rc,
    time::{Duration, Instant},
};

use rand::rngs::SmallRng;
use tokio::sync::watch;

use super::{
    layer::{Layer, RateLimit},
    rule::{Per, Rule, Way, rng},
};

/// The rules in force.
pub(super) struct Plan {
    seed: u64,
    start: Instant,
    rules: Vec<Rule>,
    /// Rate limits shared by everything under a rule.
    shared: Vec<Option<Rc<RateLimit>>>,
}

/// The current rules, as set by the proxy's owner.
pub(super) struct Plans {
    seed: u64,
    start: Instant,
    per: Per,
    orders: RefCell<watch::Receiver<Vec<Rule>>>,
    plan: RefCell<Rc<Plan>>,
}

impl Plans {
    pub(super) fn new(
        seed: u64,
        start: Instant,
        per: Per,
        mut orders: watch::Receiver<Vec<Rule>>,
    ) -> Plans {
        let plan = Plan::new(seed, start, &orders.borrow_and_update(), per);
        Plans { seed, start, per, orders: RefCell::new(orders), plan: RefCell::new(Rc::new(plan)) }
    }

    /// The rules in force now: changes apply to the next request.
    pub(super) fn now(&self) -> Rc<Plan> {
        let mut orders = self.orders.borrow_mut();
        if orders.has_changed().unwrap_or(false) {
            let plan = Plan::new(self.seed, self.start, &orders.borrow_and_update(), self.per);
            *self.plan.borrow_mut() = Rc::new(plan);
        }
        self.plan.borrow().clone()
    }
}

/// Rules applied when a connection opens.
pub(super) struct ConnectionFaults {
    pub(super) refused: bool,
    pub(super) hold: Duration,
}

/// A rule that delays every byte of one direction.
pub(super) struct ByteDelay {
    rule: Rule,
    rng: SmallRng,
}

impl ByteDelay {
    /// The delay of bytes that are there now.
    pub(super) fn delay(&mut self, elapsed: Duration) -> Duration {
        if self.rule.now(elapsed) { self.rule.drawn(&mut self.rng) } else { Duration::ZERO }
    }
}

/// Rules applied to a request and its answer.
#[derive(Default)]
pub(super) struct RequestFaults {
    pub(super) hold: Duration,
    pub(super) hold_answer: Duration,
    pub(super) up: Vec<Layer>,
    pub(super) down: Vec<Layer>,
}

/// Random streams for choosing rules are separate from those for applying them.
const CHOICE: usize = 1 << 32;

impl Plan {
    /// `per` is the default scope of rules.
    pub(super) fn new(seed: u64, start: Instant, rules: &[Rule], per: Per) -> Plan {
        let settled = |rule: &Rule| {
            let of_requests = rule.when.request.is_some() || rule.when.statement.is_some();
            let per = rule.per.or(of_requests.then_some(Per::Request)).unwrap_or(per);
            Rule { per: Some(per), ..rule.clone() }
        };
        let rules: Vec<Rule> = rules.iter().map(settled).collect();
        let shared = rules.iter().map(|rule| rule.what.shared_rate.map(RateLimit::new)).collect();
        Plan { seed, start, rules, shared }
    }

    fn rng(&self, rule: usize, connection: u64, request: u64, way: Way) -> SmallRng {
        rng(self.seed, rule, connection, request, way)
    }

    /// Rules for a connection as a whole, chosen once.
    fn of_connection(&self, connection: u64) -> impl Iterator<Item = (usize, &Rule)> {
        self.rules.iter().enumerate().filter(move |(n, rule)| {
            let refusal = rule.what.refuse;
            let per_request = rule.per == Some(Per::Request) && !refusal;
            !per_request
                && rule.of_connection(connection, &mut self.rng(n | CHOICE, connection, 0, Way::Up))
        })
    }

    pub(super) fn opening(&self, connection: u64) -> ConnectionFaults {
        let elapsed = self.start.elapsed();
        let mut opening = ConnectionFaults { refused: false, hold: Duration::ZERO };
        for (n, rule) in self.of_connection(connection).filter(|(_, rule)| rule.now(elapsed)) {
            opening.refused |= rule.what.refuse;
            if rule.per == Some(Per::Connection) {
                opening.hold += rule.drawn(&mut self.rng(n, connection, 0, Way::Up));
            }
        }
        opening
    }

    /// Rules for a whole direction of a connection.
    pub(super) fn way(&self, connection: u64, way: Way) -> (Vec<ByteDelay>, Vec<Layer>) {
        let elapsed = self.start.elapsed();
        let (mut lines, mut layers) = (Vec::new(), Vec::new());
        for (n, rule) in self.of_connection(connection) {
            let rng = || self.rng(n, connection, 0, way);
            let live = rule.per == Some(Per::Bytes);
            if live && rule.delays(way) {
                lines.push(ByteDelay { rule: rule.clone(), rng: rng() });
            }
            if rule.per != Some(Per::Request) && rule.shapes(way) && (live || rule.now(elapsed)) {
                layers.push(Layer::new(rule, live, self.start, self.shared[n].clone(), rng()));
            }
        }
        (lines, layers)
    }

    pub(super) fn request(
        &self,
        connection: u64,
        request: u64,
        text: Option<&str>,
    ) -> RequestFaults {
        let elapsed = self.start.elapsed();
        let mut faults = RequestFaults::default();
        for (n, rule) in self.rules.iter().enumerate() {
            let choice = || self.rng(n | CHOICE, connection, request, Way::Up);
            let applies = rule.per == Some(Per::Request)
                && rule.now(elapsed)
                && rule.of_request(connection, request, text, &mut choice());
            if !applies {
                continue;
            }
            let rng = |way| self.rng(n, connection, request, way);
            if rule.delays(Way::Up) {
                faults.hold += rule.drawn(&mut rng(Way::Up));
            }
            if rule.delays(Way::Down) {
                faults.hold_answer += rule.drawn(&mut rng(Way::Down));
            }
            for (way, layers) in [(Way::Up, &mut faults.up), (Way::Down, &mut faults.down)] {
                if rule.shapes(way) {
                    layers.push(Layer::new(
                        rule,
                        false,
                        self.start,
                        self.shared[n].clone(),
                        rng(way),
                    ));
                }
            }
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slow::rule::{Conditions, Faults};

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn plan(rules: &[Rule]) -> Plan {
        Plan::new(3, Instant::now(), rules, Per::Bytes)
    }

    #[test]
    fn delays_of_all_rules_that_apply_add_up() {
        let mut second = Rule::delay(ms(20));
        second.when.every = Some(2);
        let plan = plan(&[Rule::delay(ms(100)), second]);
        let held: Vec<_> = (1..=4).map(|n| plan.request(1, n, None).hold).collect();
        assert_eq!(held, [ms(100), ms(120), ms(100), ms(120)]);
    }

    #[test]
    fn a_rule_of_connections_says_nothing_of_requests_and_the_other_way_round() {
        let per = |per| Rule { per: Some(per), ..Rule::delay(ms(5)) };
        let requests = plan(&[per(Per::Request)]);
        assert_eq!(requests.opening(1).hold, ms(0));
        assert!(requests.way(1, Way::Down).0.is_empty());
        let connections = plan(&[per(Per::Connection)]);
        assert_eq!(
            (connections.opening(1).hold, connections.request(1, 1, None).hold),
            (ms(5), ms(0))
        );
        let bytes = plan(&[per(Per::Bytes)]);
        assert_eq!((bytes.opening(1).hold, bytes.request(1, 1, None).hold), (ms(0), ms(0)));
        assert_eq!((bytes.way(1, Way::Down).0.len(), bytes.way(1, Way::Up).0.len()), (1, 0));
    }

    #[test]
    fn a_rule_that_names_statements_is_one_of_requests() {
        let when = Conditions { request: Some(2), ..Conditions::default() };
        let what = Faults { reset: Some(0), ..Faults::default() };
        let plan = plan(&[Rule { per: None, direction: None, when, what }]);
        let broken = |n| plan.request(1, n, None).down.len();
        assert_eq!([broken(1), broken(2), broken(3)], [0, 1, 0]);
        assert!(plan.way(1, Way::Down).1.is_empty());
    }

    #[test]
    fn refusing_is_a_matter_of_connections_whatever_the_protocol() {
        let when = Conditions { every: Some(3), ..Conditions::default() };
        let what = Faults { refuse: true, ..Faults::default() };
        let plan = Plan::new(
            3,
            Instant::now(),
            &[Rule { per: None, direction: None, when, what }],
            Per::Request,
        );
        assert_eq!(
            (1..=6).map(|n| plan.opening(n).refused).collect::<Vec<_>>(),
            [false, false, true, false, false, true]
        );
    }
}
