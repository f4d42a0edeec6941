//! Families of caches: Debian's Squid as parent, sibling and child of Larder, by ICP and HTCP;
//! Varnish, nginx and other Larders as parents; purges by HTCP as MediaWiki sends them.

#![allow(clippy::unwrap_used)]

use larder_proto::http::date;
use larder_tests::helper::free_port;
use larder_tests::{Larder, Origin, Scratch, Started, Wire, wait_until};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

pub(super) const FRESH: &str = "Cache-Control: max-age=600";
pub(super) const HOST: &str = "Host: site.test";

/// Each answer names the request's number, and the time: Squid tells others of no page without.
pub(super) fn numbered() -> Origin {
    Origin::start(|seen, reply| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let date = format!("Date: {}", str::from_utf8(&date::format(now.as_secs())).unwrap());
        reply.ok(&[FRESH, &date], format!("{} {}", seen.target, seen.number));
    })
}

/// A running Squid and its ports for queries.
pub(super) struct Squid {
    pub(super) server: Started,
    icp: u16,
    htcp: u16,
}

impl Squid {
    /// Debian's Squid with these lines. It ignores queries from its own address, so it has another
    /// one than Larder.
    pub(super) fn start(lines: &str) -> Squid {
        let (icp, htcp) = (free_port(), free_port());
        let server = Started::start(|dir, port| {
            // Squid becomes the user `proxy` if root starts it, and writes its logs here.
            std::fs::set_permissions(dir, PermissionsExt::from_mode(0o777)).unwrap();
            let dir = dir.display();
            let text = format!(
                "http_port {port} accel vhost\n{lines}\n\
                 http_access allow all\nicp_access allow all\nhtcp_access allow all\n\
                 htcp_clr_access allow all\nnever_direct allow all\n\
                 icp_port {icp}\nhtcp_port {htcp}\nudp_incoming_address 127.0.0.3\n\
                 cache_mem 16 MB\naccess_log stdio:{dir}/access.log\ncache_log {dir}/cache.log\n\
                 netdb_filename none\nicp_query_timeout 10000\npid_filename {dir}/pid\ncoredump_dir {dir}\n\
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
    pub(super) fn as_peer(&self, role: &str, select: &str) -> String {
        let query = match select {
            "icp" => format!("query_port = {}\n", self.icp),
            "htcp" => format!("query_port = {}\n", self.htcp),
            _ => String::new(),
        };
        format!(
            "[[peer]]\nurl = \"http://127.0.0.3:{}\"\nrole = \"{role}\"\nselect = \"{select}\"\n\
             query_timeout = \"10s\"\ndead_after = 2\n{query}",
            self.server.port()
        )
    }
}

pub(super) fn larder(origin: &Origin, more: &str) -> Larder {
    larder_at(origin, 0, more)
}

/// On a port of the test's choice.
pub(super) fn larder_at(origin: &Origin, port: u16, more: &str) -> Larder {
    Larder::with_config(&format!(
        "[[site]]\norigin = \"{}\"\npurge = {{ from = [\"127.0.0.0/8\"] }}\n{more}\n[http]\n\
         access_log = \"@DIR@/access.log\"\nlisten = [\"127.0.0.1:{port}\"]\n",
        origin.url()
    ))
}

#[track_caller]
pub(super) fn text(addr: SocketAddr, target: &str) -> String {
    Wire::connect(addr).ask("GET", target, &[HOST]).assert_status(200).text().to_owned()
}

/// Waits for the line of Larder's log about a page that names the server that was asked so.
pub(super) fn wait_for_word(larder: &Larder, target: &str, word: &str) {
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

/// The table of a parent that is chosen without queries.
pub(super) fn parent(addr: SocketAddr, select: &str) -> String {
    format!("[[peer]]\nurl = \"http://{addr}\"\nselect = \"{select}\"\n")
}

fn varnish(origin: &Origin) -> Started {
    Started::start(|dir, port| {
        let mut command = Command::new("/usr/sbin/varnishd");
        command.args(["-F", "-a", &format!("127.0.0.1:{port}"), "-s", "malloc,16m", "-n"]);
        command.arg(dir.join("varnish")).args(["-b", &origin.addr().to_string()]);
        (command, None)
    })
}

fn nginx(origin: &Origin) -> Started {
    Started::start(|dir, port| {
        let places = ["client_body", "fastcgi", "uwsgi", "scgi"];
        let places = places.map(|name| format!("{name}_temp_path {}/{name};", dir.display()));
        let text = format!(
            "daemon off;\npid {0}/pid;\nevents {{}}\nhttp {{\naccess_log off;\n{1}\n\
             proxy_temp_path {0}/proxy;\nproxy_cache_path {0}/cache keys_zone=all:1m;\n\
             server {{\nlisten 127.0.0.1:{port};\nlocation / {{\nproxy_cache all;\n\
             proxy_set_header Host $host;\nproxy_pass http://{2};\n}} }} }}\n",
            dir.display(),
            places.join("\n"),
            origin.addr(),
        );
        std::fs::write(dir.join("nginx.conf"), text).unwrap();
        let mut command = Command::new("/usr/sbin/nginx");
        command.arg("-e").arg(dir.join("errors")).arg("-c").arg(dir.join("nginx.conf"));
        (command, None)
    })
}

#[test]
fn varnish_and_nginx_are_parents() {
    let (origin, unasked) = (numbered(), numbered());
    for (parent_of, select) in [(varnish(&origin), "first"), (nginx(&origin), "hash")] {
        let larder = larder(&unasked, &parent(parent_of.addr(), select));
        let page = text(parent_of.addr(), &format!("/of/{select}"));
        // The parent has it under the same key, though it is sent the whole URL.
        assert_eq!(text(larder.addr(), &format!("/of/{select}")), page);
        text(larder.addr(), &format!("/new/{select}"));
    }
    assert_eq!((origin.count(), unasked.count()), (4, 0));
    assert_eq!(origin.last().fields.joined("host"), "site.test");
}

/// Squid and Larder before the same parents send a URL to the same one.
#[test]
fn carp_chooses_as_squid_does() {
    let parents = ["one", "two", "three"].map(|name| (name, Origin::serving(&[], name)));
    let unasked = numbered();
    let (mut of_squid, mut of_larder) = (String::new(), String::new());
    for (weight, (name, origin)) in (1..).zip(&parents) {
        let (port, url) = (origin.addr().port(), origin.url());
        of_squid += &format!(
            "cache_peer 127.0.0.1 parent {port} 0 no-query no-digest originserver carp \
             name={name} weight={weight}\n"
        );
        of_larder += &format!(
            "[[peer]]\nurl = \"{url}\"\nname = \"{name}\"\nselect = \"hash\"\nweight = \
             {weight}\n"
        );
    }
    let squid = Squid::start(&of_squid);
    let larder = larder(&unasked, &of_larder);
    for number in 0..30 {
        let target = format!("/page/{number}?of=carp");
        assert_eq!(text(larder.addr(), &target), text(squid.server.addr(), &target), "{target}");
    }
    let counts = parents.each_ref().map(|(_, origin)| origin.count());
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
}

#[test]
fn ages_and_states_are_right_over_two_hops() {
    let origin = Origin::serving(&[FRESH, "Age: 100"], "page");
    let unasked = numbered();
    let above = larder(&origin, "");
    let below = larder(&unasked, &parent(above.addr(), "first"));
    let ask = || Wire::connect(below.addr()).ask("GET", "/page", &[HOST]);
    let first = ask();
    let states = first.assert_status(200).fields.joined("cache-status");
    // RFC 9211 section 2: the cache nearest to the origin comes first.
    let states: Vec<&str> = states.split(", ").collect();
    assert!(
        matches!(&states[..], [a, b] if a.contains("fwd=") && b.contains("fwd=")),
        "{states:?}"
    );
    assert!(first.age() >= Some(100), "{first:?}");
    assert!(ask().age() >= Some(100));
    assert_eq!((origin.count(), unasked.count()), (1, 0));
}

#[test]
fn parents_of_each_other_ask_the_origin() {
    let origin = numbered();
    let (one, other) = (free_port(), free_port());
    let larders = [(one, other), (other, one)].map(|(own, other)| {
        larder_at(&origin, own, &parent(SocketAddr::from(([127, 0, 0, 1], other)), "first"))
    });
    for (number, larder) in larders.iter().enumerate() {
        text(larder.addr(), &format!("/{number}"));
    }
    assert_eq!(origin.count(), 2);
    assert!(origin.last().fields.joined("cdn-loop").contains("larder"));
}

/// The packet of MediaWiki's `HTCPPurge`: Squid's older order of bits, minor version 0.
pub(super) fn clr(url: &str) -> Vec<u8> {
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

#[test]
fn a_squid_is_told_of_purges() {
    let origin = numbered();
    let squid = Squid::before(&origin);
    let larder = larder(&origin, &squid.as_peer("sibling", "htcp"));
    let page = text(squid.server.addr(), "/a?b=c");
    assert_eq!(text(squid.server.addr(), "/a?b=c"), page);
    Wire::connect(larder.addr()).ask("PURGE", "/a?b=c", &[HOST]);
    wait_until("Squid to forget it", || text(squid.server.addr(), "/a?b=c") != page);
}

/// A group that no router passes on, of this machine alone (RFC 2365).
const GROUP: &str = "239.255.0.112";

#[test]
fn a_clr_to_a_multicast_group_purges_its_member() {
    let origin = numbered();
    let port = free_port();
    let larder = larder(
        &origin,
        &format!(
            "[htcp]\nlisten = [\"{GROUP}:{port}\"]\nfrom = [\"127.0.0.1\"]\nmulticast = \
             [\"{GROUP}\"]\ninterface = \"127.0.0.1\"\n"
        ),
    );
    let before = text(larder.addr(), "/wiki/A");
    // Its address says which interface it sends to the group by.
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(&clr("http://site.test/wiki/A"), (GROUP, port)).unwrap();
    wait_until("the page to be purged", || text(larder.addr(), "/wiki/A") != before);
}

#[test]
fn signed_questions_and_purges_are_served_and_others_are_not() {
    let origin = numbered();
    let unasked = numbered();
    let port = free_port();
    let secret = Scratch::new("secret");
    let path = secret.write("htcp", "secret-of-the-family\n");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    let path = path.display();
    let above = larder(
        &origin,
        &format!(
            "[htcp]\nlisten = [\"0.0.0.0:{port}\"]\nfrom = [\"127.0.0.1\"]\nsecret_file = \
             \"{path}\"\n"
        ),
    );
    let below = larder(
        &unasked,
        &format!(
            "[[peer]]\nurl = \"http://{}\"\nrole = \"sibling\"\nselect = \"htcp\"\nquery_port = \
             {port}\nquery_timeout = \"10s\"\nsecret_file = \"{path}\"\n",
            above.addr()
        ),
    );
    let page = text(above.addr(), "/page");
    assert_eq!(text(below.addr(), "/page"), page);
    wait_for_word(&below, "/page", "SIBLING_HIT");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut unsigned = clr("http://site.test/page");
    // An answer is wanted (RD, in the older order of bits).
    unsigned[7] = 0x40;
    socket.send_to(&unsigned, ("127.0.0.1", port)).unwrap();
    let mut answer = [0; 64];
    let (length, _) = socket.recv_from(&mut answer).unwrap();
    // RR and MO: the whole message is refused, as it is not authenticated (code 0).
    assert!(length >= 12 && answer[6] == 4 && answer[7] == 0xc0, "{:?}", &answer[..length]);
    assert_eq!(text(above.addr(), "/page"), page);
    Wire::connect(below.addr()).ask("PURGE", "/page", &[HOST]);
    wait_until("the page to be purged", || text(above.addr(), "/page") != page);
}
