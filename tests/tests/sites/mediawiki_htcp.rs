//! A real MediaWiki that purges two Larders by HTCP (`$wgHTCPRouting`).

#![allow(clippy::unwrap_used)]

use larder_tests::helper::free_port;
use larder_tests::mediawiki::{HOST, Wiki};
use larder_tests::{Larder, Visitor, wait_until};
use std::net::SocketAddr;

#[test]
fn an_edit_purges_two_larders() {
    let mut wiki = Wiki::install();
    let ports = [free_port(), free_port()];
    let larders = ports.map(|port| {
        Larder::with_config(&format!(
            "[http]\nlisten = \"127.0.0.1:0\"\n[htcp]\nlisten = [\"127.0.0.1:{port}\"]\nfrom = [\"127.0.0.1\"]\n[[site]]\nhosts = \
             [\"{HOST}\"]\npreset = \"mediawiki\"\npurge = {{ from = [\"127.0.0.1\"] \
             }}\n[site.origin]\n{}",
            wiki.origin()
        ))
    });
    wiki.serve_with_htcp(&ports.map(|port| SocketAddr::from(([127, 0, 0, 1], port))));
    let (path, untouched) = (wiki.paths()[30].clone(), wiki.paths()[31].clone());
    for larder in &larders {
        for path in [&path, &untouched] {
            let first = Visitor::new(larder.addr()).view(path);
            assert!(first.text().contains("first edition"), "{first:?}");
            Visitor::new(larder.addr()).view(path).assert_hit();
        }
    }
    let mut user = Visitor::new(larders[0].addr());
    user.log_in();
    user.edit(&path.trim_start_matches("/wiki/").replace('_', " "), "A second edition, by HTCP.");
    // Freshness lasts for hours: only the wiki's datagrams can make this true.
    for larder in &larders {
        wait_until("the edit to be seen", || {
            Visitor::new(larder.addr()).view(&path).text().contains("A second edition, by HTCP.")
        });
        Visitor::new(larder.addr()).view(&path).assert_hit();
        Visitor::new(larder.addr()).view(&untouched).assert_hit();
    }
}
