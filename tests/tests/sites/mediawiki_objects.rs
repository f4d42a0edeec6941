//! A real MediaWiki whose pages and objects lie in one Larder: `CACHE_MEMCACHED` for objects and
//! sessions, by MediaWiki's own client and by libmemcached's, beside the pages of the main job.

// A harness reports by panicking.
#![allow(clippy::unwrap_used)]

use larder_tests::mediawiki::{HOST, Wiki};
use larder_tests::{Larder, Visitor};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};

/// A wiki and the Larder that holds its pages and its objects.
struct House {
    wiki: Wiki,
    larder: Larder,
    objects: SocketAddr,
}

impl House {
    fn build(client: &str) -> House {
        let mut wiki = Wiki::install();
        let larder = Larder::with_config(&format!(
            "[[site]]\norigin = \"{}\"\nhosts = [\"{HOST}\"]\npreset = \"mediawiki\"\npurge = {{ \
             from = [\"127.0.0.1\"] }}\n[http]\nlisten = [\"127.0.0.1:0\"]\n[memcached]\nlisten = \
             [\"127.0.0.1:0\"]\n",
            wiki.origin_url()
        ));
        let objects = larder.face("memcached");
        wiki.serve_with_objects(larder.addr(), objects, client);
        House { wiki, larder, objects }
    }

    fn visitor(&self) -> Visitor {
        Visitor::new(self.larder.addr())
    }

    /// A figure of memcached's `stats`.
    fn figure(&self, name: &str) -> u64 {
        let wanted = format!("STAT {name} ");
        let line =
            lines(self.objects, "stats\r\n").into_iter().find(|line| line.starts_with(&wanted));
        line.unwrap_or_else(|| panic!("no figure {name}"))[wanted.len()..].parse().unwrap()
    }
}

/// What a command answers, up to its END.
fn lines(addr: SocketAddr, command: &str) -> Vec<String> {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.write_all(command.as_bytes()).unwrap();
    let lines = BufReader::new(stream).lines().map(Result::unwrap);
    lines.take_while(|line| line != "END").collect()
}

fn objects_and_sessions(client: &str) {
    let house = House::build(client);
    let (first, other) = (house.wiki.paths()[0].clone(), house.wiki.paths()[1].clone());

    // A render leaves its parser output and more in the object cache; the page itself comes from
    // memory.
    house.visitor().view(&first).assert_status(200).assert_forwarded();
    house.visitor().view(&first).assert_hit();
    assert!(house.figure("cmd_set") > 0 && house.figure("curr_items") > 0, "nothing was stored");

    // Rendered anew after a purge of the page, it finds what it stored: the two kinds live side by
    // side.
    let hits = house.figure("get_hits");
    house.larder.connect().ask("PURGE", &first, &[&format!("Host: {HOST}")]).assert_status(200);
    house.visitor().view(&first).assert_status(200).assert_forwarded();
    assert!(house.figure("get_hits") > hits, "the second render found nothing of the first");

    // A session is an object: it survives requests, and it ends when the objects are flushed, while
    // pages stay.
    let mut admin = house.visitor();
    admin.log_in();
    assert!(admin.view(&other).text().contains("Admin"), "logged in, and the page does not say so");
    admin.edit("Objects", "an edit that a session in Larder made possible");
    house.visitor().view("/wiki/Objects").assert_status(200);
    admin.log_out();
    assert!(
        !admin.view(&other).text().contains(">Log out<"),
        "logged out, and the page offers it again"
    );

    house.visitor().view(&first);
    assert_eq!(lines_of_one(house.objects, "flush_all\r\n"), "OK");
    house.visitor().view(&first).assert_hit();
    house.larder.connect().ask("PURGE", &first, &[&format!("Host: {HOST}")]).assert_status(200);
    house.visitor().view(&first).assert_status(200).assert_forwarded();
    assert!(house.figure("curr_items") > 0, "after the flush the wiki stored nothing");
}

/// The one line a command answers.
fn lines_of_one(addr: SocketAddr, command: &str) -> String {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.write_all(command.as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

#[test]
fn by_mediawikis_own_client() {
    objects_and_sessions("memcached-php");
}

#[test]
fn by_libmemcached() {
    objects_and_sessions("memcached-pecl");
}
