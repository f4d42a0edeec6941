//! The load plan of the reference: each of `n` users requests a number of random articles in
//! sequence; the start of users is spread over a short time.

use std::{net::SocketAddr, time::Duration};

use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};

use super::{
    web::LONGEST_PAGE,
    wiki::{Article, HOST},
};
use crate::{
    engine::{Address, Check, Plan, Protocol, Stop},
    load::{Operation, Source, Verb},
};

/// Random articles without end.
pub(super) struct Articles {
    paths: Vec<Vec<u8>>,
    random: SmallRng,
}

impl Articles {
    pub(super) fn new(articles: &[Article], seed: u64) -> Articles {
        let paths = articles.iter().map(|article| article.path.clone().into_bytes()).collect();
        Articles { paths, random: SmallRng::seed_from_u64(seed) }
    }
}

impl Source for Articles {
    fn next(&mut self, operation: &mut Operation) -> bool {
        let at = self.random.random_range(0..self.paths.len());
        operation.verb = Verb::Get;
        operation.key.clone_from(&self.paths[at]);
        true
    }
}

/// One engine thread serves all users: they are few and mostly waiting.
pub(super) fn plan(
    addr: SocketAddr,
    users: u32,
    loops: u64,
    ramp_up: Duration,
    stop: Stop,
    pids: Vec<u32>,
) -> Plan {
    let protocol = Protocol::Http { host: HOST.to_owned(), fields: Vec::new() };
    Plan {
        connections: users as usize,
        per_connection: Some(loops),
        ramp_up,
        timeout: Duration::from_secs(LONGEST_PAGE),
        check: Check::Ok,
        stop,
        server_pids: pids,
        ..Plan::new(Address::Tcp(addr), protocol)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_articles_again_and_all_of_them() {
        let articles: Vec<_> =
            (0..9).map(|n| Article { path: format!("/wiki/{n}"), length: 1 }).collect();
        let draw = |seed| {
            let mut source = Articles::new(&articles, seed);
            let mut operation = Operation::default();
            (0..200)
                .map(|_| source.next(&mut operation).then(|| operation.key.clone()).unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert!(
            articles.iter().all(|article| draw(7).contains(&article.path.clone().into_bytes()))
        );
    }
}
