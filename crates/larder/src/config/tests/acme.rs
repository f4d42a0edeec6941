//! `[acme]`.

use larder_server::settings::{AcmeSettings, CertificateSource, ChallengeKind, HostPattern};

use super::*;

const SITES: &str = "[[site]]\nhosts = [\"b.example\", \"*.b.example\", \"A.example\"]\norigin = \
                     \"http://127.0.0.1:9\"\n";

fn acme(text: &str) -> (Loaded, Option<AcmeSettings>) {
    let loaded = of(&format!("{text}\n{SITES}"));
    let settings = loaded.settings.as_ref().and_then(|settings| settings.https.as_ref());
    let acme = settings.and_then(|https| https.acme.as_deref().cloned());
    (loaded, acme)
}

fn taken(text: &str) -> AcmeSettings {
    let (loaded, acme) = acme(text);
    acme.unwrap_or_else(|| panic!("{}", loaded.report))
}

#[test]
fn names_are_those_of_the_sites_and_wildcards_are_left_out() {
    let text = "[https]\nlisten = \"0.0.0.0:443\"\n[acme]\nstate_dir = \"none\"\n";
    let (loaded, acme) = acme(text);
    let acme = acme.unwrap_or_else(|| panic!("{}", loaded.report));
    assert_eq!(acme.names, ["b.example", "a.example"]);
    assert!(loaded.report.to_string().contains("no certificate is ordered for *.b.example"));
    assert_eq!(acme.directory, "https://acme-v02.api.letsencrypt.org/directory");
    assert_eq!(acme.email, None);
    assert_eq!(acme.challenge, ChallengeKind::TlsAlpn01, "plain HTTP is not served");
    let named = taken(&format!("{text}names = [\"c.example\"]\nstaging = true\n"));
    assert_eq!(named.names, ["c.example"]);
    assert!(named.directory.contains("staging"));
    let plain = taken(&format!("[http]\nlisten = \"0.0.0.0:80\"\n{text}"));
    assert_eq!(plain.challenge, ChallengeKind::Http01);
}

#[test]
fn names_without_a_certificate_have_a_self_signed_one() {
    let text = "[https]\nlisten = \"0.0.0.0:443\"\n[acme]\nstate_dir = \"none\"\n";
    let https = good(&format!("{text}{SITES}")).https.expect("HTTPS");
    let [made] = &https.ordered[..] else { panic!("{:?}", https.ordered) };
    assert_eq!(made.source, CertificateSource::SelfSigned);
    let names = ["b.example", "a.example"].map(|name| HostPattern::Exact(name.to_owned()));
    assert_eq!(made.names, names);
}

#[test]
fn mistakes_are_told() {
    let https = "[https]\nlisten = \"127.0.0.1:443\"\n";
    for (text, expected) in [
        ("[acme]\n".to_owned(), "certificates are for HTTPS, and it is not served"),
        (format!("{https}[acme]\nchallenge = \"http-01\"\n"), "http-01 is answered over plain"),
        (format!("{https}[acme]\ndirectory = \"http://ca.example/\"\n"), "expected the https URL"),
        (
            format!("{https}[acme]\ndirectory = \"https://ca.example/\"\nstaging = true\n"),
            "`staging` names Let's Encrypt's directory",
        ),
        (format!("{https}[acme]\neab_kid = \"a\"\n"), "eab_kid and eab_key_file"),
        (format!("{https}[acme]\nnames = [\"*.a.example\"]\n"), "wildcards take dns-01"),
    ] {
        let (loaded, acme) = acme(&text);
        assert!(acme.is_none() && loaded.report.to_string().contains(expected), "{text}: {}", {
            loaded.report
        });
    }
}
