//! Families of caches: Debian's Squid as parent, sibling and child of Larder, by ICP and HTCP; and
//! purges by HTCP as MediaWiki sends them.

#![allow(clippy::unwrap_used)]

use larder_tests::helper::free_port;
use larder_tests::{Larder, Origin, Started, Wire, wait_until};
use std::net::{SocketAddr, UdpSocket};
use std::process::Command;

const FRESH: &str = "Cache-Control: max-age=600";
const HOST: &str = "Host: site.test";

/// Each answer names the request's number.
fn numbered() -> Origin {
    Origin::start(|seen, reply| {
        reply.ok(&[FRESH], format!("{} {}", seen.target, seen.number));
    })
}

/// A running Squid and its ports for queries.
struct Squid {
    server: Started,
    icp: u16,
    htcp: u16,
}

impl Squid {
    /// Debian's Squid with these lines. It ignores queries from its own address, so it has another
    /// one than Larder.
    fn start(lines: &str) -> Squid {
        let (icp, htcp) = (free_port(), free_port());
        let server = Started::start(|dir, port| {
            let dir = dir.display();
            let text = format!(
                "http_port {port} accel vhost\n{lines}\n\
                 http_access allow all\nicp_access allow all\nhtcp_access allow all\n\
                 htcp_clr_access allow all\nnever_direct allow all\n\
                 icp_port {icp}\nhtcp_port {htcp}\nudp_incoming_address 127.0.0.3\n\
                 cache_mem 16 MB\naccess_log stdio:{dir}/access.log\ncache_log {dir}/cache.log\n\
                 netdb_filename none\npid_filename {dir}/pid\ncoredump_dir {dir}\n\
                 pinger_enable off\nshutdown_lifetime 0 seconds\nvisible_hostname squid.test\n\
                 cache_effective_user proxy\ncache_effective_group proxy\n"
            );
            std::fs::write(format!("{dir}/squid.conf"), text).unwrap();
            let mut command = Command::new("/usr/sbin/squid");
            // The name of the service is in its shared memory: two of one name do not run.
            command.args(["-N", "-n", &format!("test{port}"), "-f", &format!("{dir}/squid.conf")]);
            (command, None)
        });
        Squid { server, icp, htcp }
    }

    /// One before an origin.
    fn before(origin: &Origin) -> Squid {
        let port = origin.addr().port();
        Squid::start(&format!(
            "cache_peer 127.0.0.1 parent {port} 0 no-query no-digest originserver"
        ))
    }

    /// The table of the configuration by which Larder knows it.
    fn as_peer(&self, role: &str, select: &str) -> String {
        let query = match select {
            "icp" => format!("query_port = {}\n", self.icp),
            "htcp" => format!("query_port = {}\n", self.htcp),
            _ => String::new(),
        };
        format!(
            "[[peer]]\nurl = \"http://127.0.0.3:{}\"\nrole = \"{role}\"\nselect = \"{select}\"\n\
             query_timeout = \"5s\"\ndead_after = 2\n{query}",
            self.server.port()
        )
    }
}

fn larder(origin: &Origin, more: &str) -> Larder {
    Larder::with_config(&format!(
        "[[site]]\norigin = \"{}\"\npurge = {{ from = [\"127.0.0.0/8\"] }}\n{more}\n[http]\n\
         access_log = \"@DIR@/access.log\"\nlisten = [\"127.0.0.1:0\"]\n",
        origin.url()
    ))
}

#[track_caller]
fn text(addr: SocketAddr, target: &str) -> String {
    Wire::connect(addr).ask("GET", target, &[HOST]).assert_status(200).text().to_owned()
}

/// Waits for the line of Larder's log about a page that names the server that was asked so.
fn wait_for_word(larder: &Larder, target: &str, word: &str) {
    wait_until(&format!("{word} for {target} in the log"), || {
        let log = std::fs::read_to_string(larder.dir().join("access.log")).unwrap_or_default();
        log.lines().any(|line| line.contains(target) && line.contains(word))
    });
}

#[test]
fn a_sibling_that_has_a_page_is_asked_for_it_by_either_protocol() {
    for select in ["icp", "htcp"] {
        let origin = numbered();
        let squid = Squid::before(&origin);
        let larder = larder(&origin, &squid.as_peer("sibling", select));
        let page = text(squid.server.addr(), "/shared");
        assert_eq!(text(larder.addr(), "/shared"), page, "{select}");
        wait_for_word(&larder, "/shared", "SIBLING_HIT");
        text(larder.addr(), "/own");
        wait_for_word(&larder, "/own", "FIRSTUP_PARENT");
        assert_eq!(origin.count(), 2, "{select}");
    }
}

#[test]
fn parents_fetch_what_they_do_not_have() {
    for (select, word) in [
        ("icp", "FIRST_PARENT_MISS"),
        ("htcp", "FIRST_PARENT_MISS"),
        ("hash", "CARP"),
        ("first", "FIRSTUP_PARENT"),
    ] {
        let (origin, unasked) = (numbered(), numbered());
        let squid = Squid::before(&origin);
        let larder = larder(&unasked, &squid.as_peer("parent", select));
        text(larder.addr(), "/page");
        wait_for_word(&larder, "/page", word);
        assert_eq!((origin.count(), unasked.count()), (1, 0), "{select}");
        let seen = origin.last();
        assert!(seen.fields.joined("via").contains("larder"), "{select}: {:?}", seen.fields);
    }
}

#[test]
fn a_parent_that_was_killed_is_left_out() {
    for select in ["icp", "htcp", "first"] {
        let origin = numbered();
        let squid = Squid::before(&origin);
        let larder = larder(&origin, &squid.as_peer("parent", select));
        text(larder.addr(), "/before");
        drop(squid);
        for number in 0..5 {
            text(larder.addr(), &format!("/after/{number}"));
        }
        assert_eq!(origin.count(), 6, "{select}");
        assert!(origin.last().fields.joined("via").contains("larder"));
        assert!(!origin.last().fields.joined("via").contains("squid"), "{select}");
    }
}

#[test]
fn squid_asks_larder_as_its_sibling_and_its_parent() {
    for (role, word) in [("sibling", "SIBLING_HIT"), ("parent", "PARENT_HIT")] {
        for protocol in ["icp", "htcp"] {
            let origin = numbered();
            let port = free_port();
            let larder = larder(
                &origin,
                &format!("[{protocol}]\nlisten = [\"127.0.0.1:{port}\"]\nfrom = [\"127.0.0.3\"]\n"),
            );
            let page = text(larder.addr(), "/shared");
            let option = if protocol == "htcp" { "htcp" } else { "" };
            let squid = Squid::start(&format!(
                "cache_peer 127.0.0.1 {role} {} {port} {option} no-digest name=larder\n\
                 cache_peer 127.0.0.1 parent {} 0 no-query no-digest originserver name=origin",
                larder.addr().port(),
                origin.addr().port(),
            ));
            assert_eq!(text(squid.server.addr(), "/shared"), page, "{role} {protocol}");
            let log = || std::fs::read_to_string(squid.server.dir().join("access.log"));
            wait_until(&format!("{role} {protocol}: {word} in Squid's log"), || {
                log().is_ok_and(|log| log.contains(word))
            });
            assert_eq!(origin.count(), 1, "{role} {protocol}");
        }
    }
}

/// The packet of MediaWiki's `HTCPPurge`: Squid's older order of bits, minor version 0.
fn clr(url: &str) -> Vec<u8> {
    let counted = |text: &str| [&(text.len() as u16).to_be_bytes()[..], text.as_bytes()].concat();
    let specifier = [counted("HEAD"), counted(url), counted("HTTP/1.0"), vec![0, 0]].concat();
    let data = (8 + 2 + specifier.len()) as u16;
    let mut packet = (4 + data + 2).to_be_bytes().to_vec();
    packet.extend([0, 0]);
    packet.extend(data.to_be_bytes());
    packet.extend([4, 0, 0, 0, 48, 57, 0, 0]);
    packet.extend(specifier);
    packet.extend([0, 2]);
    packet
}

#[test]
fn a_clr_of_mediawiki_purges_a_larder_and_its_sibling() {
    let origin = numbered();
    let (one, two) = (free_port(), free_port());
    let larders = [(one, two), (two, one)].map(|(own, other)| {
        // The sibling is told of purges, and not asked: nobody is at its address by HTTP.
        let peer = format!(
            "[htcp]\nlisten = [\"127.0.0.1:{own}\"]\nfrom = [\"127.0.0.1\"]\n[[peer]]\nurl = \
             \"http://127.0.0.1:9\"\nrole = \"sibling\"\nselect = \"htcp\"\nquery_port = {other}\n"
        );
        larder(&origin, &peer)
    });
    let before = larders.each_ref().map(|larder| text(larder.addr(), "/wiki/A"));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(&clr("http://site.test/wiki/A"), ("127.0.0.1", one)).unwrap();
    for (larder, before) in larders.iter().zip(&before) {
        wait_until("the page to be purged", || text(larder.addr(), "/wiki/A") != *before);
    }
}
