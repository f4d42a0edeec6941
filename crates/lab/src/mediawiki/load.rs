//! The load plan of the reference: so many users, each asks for so many articles, drawn at random, one after the other; users
//! begin spread over a short time.

use std::{net::SocketAddr, time::Duration};

use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};

use super::{
    web::LONGEST_PAGE,
    wiki::{Article, HOST},
};
use crate::{
    engine::{Address, Check, Plan, Protocol, Stop},
    load::{Ask, Source, Verb},
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
    fn next(&mut self, ask: &mut Ask) -> bool {
        let at = self.random.random_range(0..self.paths.len());
        ask.verb = Verb::Get;
        ask.key.clone_from(&self.paths[at]);
        true
    }
}

/// One engine thread asks for all users: they are few, and wait most of the time.
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
        let articles: Vec<_> = (0..9).map(|n| Article { path: format!("/wiki/{n}"), length: 1 }).collect();
        let draw = |seed| {
            let mut source = Articles::new(&articles, seed);
            let mut ask = Ask::default();
            (0..200).map(|_| source.next(&mut ask).then(|| ask.key.clone()).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert!(articles.iter().all(|article| draw(7).contains(&article.path.clone().into_bytes())));
    }
}
