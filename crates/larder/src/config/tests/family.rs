//! `[[peer]]`, `[icp]`, `[htcp]`.

use larder_server::settings::{FamilySettings, PeerRole, PeerSelect};

use super::*;

const SITE: &str = "[[site]]\nhosts = [\"a.example\"]\norigin = \"http://127.0.0.1:9\"\n";

fn family(text: &str) -> FamilySettings {
    good(&format!("{SITE}{text}")).family
}

#[test]
fn a_site_has_no_family_unless_it_is_named() {
    let family = family("");
    assert!(family.peers.is_empty() && family.icp.is_none() && family.htcp.is_none());
}

#[test]
fn ports_follow_from_the_way_a_peer_is_chosen() {
    let at = |text: &str| Some(text.parse::<SocketAddr>().expect("an address"));
    let url = "[[peer]]\nurl = \"http://192.0.2.1:3128\"\n";
    for (more, queries, clears) in [
        ("", None, None),
        ("select = \"icp\"", at("192.0.2.1:3130"), None),
        ("select = \"htcp\"", at("192.0.2.1:4827"), at("192.0.2.1:4827")),
        ("select = \"htcp\"\nquery_port = 9", at("192.0.2.1:9"), at("192.0.2.1:9")),
        ("select = \"htcp\"\nclear = false", at("192.0.2.1:4827"), None),
        ("select = \"hash\"\nclear = true", None, at("192.0.2.1:4827")),
        ("select = \"icp\"\nclear = true\nclear_port = 9", at("192.0.2.1:3130"), at("192.0.2.1:9")),
    ] {
        let family = family(&format!("{url}{more}\n"));
        let [peer] = &family.peers[..] else { panic!("{more}: {family:?}") };
        assert_eq!((peer.queries, peer.clears), (queries, clears), "{more}");
        assert_eq!(peer.name, "192.0.2.1");
    }
    let family = family(&format!("{url}role = \"sibling\"\nselect = \"htcp\"\n"));
    assert_eq!(family.peers[0].role, PeerRole::Sibling);
    assert_eq!(family.peers[0].select, PeerSelect::Htcp);
    assert!(family.peers[0].is_for("a.example"));
}

#[test]
fn those_that_may_ask_are_named() {
    let family = family(
        "[icp]\nlisten = [\"127.0.0.1:3130\"]\nfrom = [\"192.0.2.0/24\"]\n[htcp]\nlisten = \
         [\"127.0.0.1:4827\"]\nfrom = [\"198.51.100.1\"]\nmulticast = [\"239.128.0.112\"]\n",
    );
    let may = |text: &str| family.may_ask(text.parse().expect("an address"));
    assert!(may("192.0.2.7") && may("198.51.100.1"));
    assert!(!may("198.51.100.2") && !may("127.0.0.1"));
    let loaded = of(&format!("{SITE}[icp]\nlisten = [\"127.0.0.1:3130\"]\n"));
    assert!(said(&loaded)[0].contains("nobody may ask here"), "{}", loaded.report);
}

#[test]
fn mistakes_of_families_are_told() {
    let peer = "[[peer]]\nurl = \"http://192.0.2.1\"\n";
    for (text, expected) in [
        ("[[peer]]\nurl = \"https://192.0.2.1\"\n".to_owned(), "reached by plain http"),
        (
            "[[peer]]\nurl = \"http://cache.example\"\nselect = \"icp\"\n".to_owned(),
            "is named by its address",
        ),
        (format!("{peer}role = \"sibling\"\nselect = \"hash\"\n"), "a sibling fetches none"),
        (format!("{peer}{peer}"), "two peers of the name \"192.0.2.1\""),
        (format!("{peer}sites = [\"a.exampel\"]\n"), "there is no site \"a.exampel\""),
        ("[htcp]\nmulticast = [\"192.0.2.1\"]\n".to_owned(), "expected a multicast group"),
        ("[htcp]\ninterface = \"eth0\"\n".to_owned(), "expected an IPv4 address"),
    ] {
        let loaded = of(&format!("{SITE}{text}"));
        assert!(loaded.settings.is_none(), "{text}");
        let said = said(&loaded);
        assert!(said.iter().any(|line| line.contains(expected)), "{text}: {said:?}");
    }
}
