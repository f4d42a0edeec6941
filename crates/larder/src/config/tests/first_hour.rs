//! Mistakes of the first hour: each is said once, with what mends it.

use larder_server::settings::ChallengeKind;

use super::*;

/// The problems of these flags beside an origin.
fn told(flags: Flags) -> String {
    with_flags("", origin_flag(flags)).report.to_string()
}

#[test]
fn half_a_disk_is_an_error_that_names_the_other_half() {
    let disk = |path: Option<&str>, size: Option<&str>| {
        let (disk, disk_size) = (path.map(str::to_owned), size.map(str::to_owned));
        with_flags("", origin_flag(Flags { disk, disk_size, ..Flags::default() }))
    };
    let directory = std::env::temp_dir();
    let directory = directory.to_str().expect("UTF-8");
    let path_alone = disk(Some(directory), None);
    assert!(path_alone.settings.is_none());
    assert_eq!(
        said(&path_alone),
        ["--disk: error: a disk has a directory and a size: `--disk-size SIZE` is missing"]
    );
    let size_alone = disk(None, Some("1GiB"));
    assert!(size_alone.settings.is_none());
    assert_eq!(
        said(&size_alone),
        ["--disk-size: error: a disk has a directory and a size: `--disk DIR` is missing"]
    );
    let both = disk(Some(directory), Some("1GiB")).settings.expect("good");
    assert_eq!(both.disk.expect("a disk").size, 1 << 30);
    // A flag adds to what the file has.
    let text = format!("[disk]\npath = {directory:?}\nsize = \"1GiB\"\n");
    let flags = Flags { disk_size: Some("2GiB".to_owned()), ..Flags::default() };
    let settings = with_flags(&text, origin_flag(flags)).settings.expect("good");
    assert_eq!(settings.disk.expect("a disk").size, 2 << 30);
}

#[test]
fn more_memory_than_the_store_takes_is_refused_in_units() {
    let text = "memory = \"1000GiB\"\n[[site]]\norigin = \"http://127.0.0.1:9000\"\n";
    assert_eq!(
        said(&of(text)),
        ["l.toml:1:10: error: expected a size from \"16MiB\" to \"512GiB\", found \"1000GiB\""]
    );
}

#[test]
fn a_flag_with_a_mistake_has_no_other_one() {
    let http = told(Flags { http: vec!["19901".to_owned()], ..Flags::default() });
    assert!(http.contains("--http: error: ") && !http.contains("nowhere"), "{http}");
    let https = told(Flags { https: vec!["19901".to_owned()], ..Flags::default() });
    assert!(https.contains("--https: error: ") && !https.contains("nowhere"), "{https}");
    let ttl = told(Flags { ttl: Some("60".to_owned()), ..Flags::default() });
    assert!(ttl.contains("--ttl: error: ") && ttl.contains("with a unit: --ttl 60s"), "{ttl}");
    assert!(!ttl.contains("cookies"), "{ttl}");
    let word = told(Flags { ttl: Some("soon".to_owned()), ..Flags::default() });
    assert!(!word.contains("with a unit"), "{word}");
    let cert = told(Flags { cert: Some("c.pem".to_owned()), ..Flags::default() });
    assert!(cert.contains("--cert FILE --key FILE") && !cert.contains("nowhere"), "{cert}");
    let nowhere = with_flags("[https]\nlisten = []\n", origin_flag(Flags::default()));
    assert!(said(&nowhere)[0].contains("it listens nowhere"), "{}", nowhere.report);
}

#[test]
fn a_socket_that_is_not_there_is_a_doubt() {
    let at = |url: &str| {
        let origin = vec![url.to_owned()];
        let loaded = with_flags("", Flags { origin, ..Flags::default() });
        assert!(loaded.settings.is_some(), "{}", loaded.report);
        loaded.report.to_string()
    };
    let fcgi = at("fcgi+unix:/nonexistent/a.sock");
    assert!(fcgi.contains("warning: /nonexistent/a.sock is not there"), "{fcgi}");
    assert_eq!(at("fcgi+unix:/dev/null"), "");
}

#[test]
fn a_name_is_proved_where_the_authority_can_ask() {
    let challenge = |http: &str, https: &str| {
        let text = format!(
            "[http]\nlisten = {http:?}\n[https]\nlisten = {https:?}\n[acme]\nnames = \
             \"a.example\"\nstate_dir = \"/nonexistent/acme\"\n[[site]]\norigin = \"http://127.0.0.1:9000\"\n"
        );
        let settings = good(&text);
        settings.https.and_then(|https| https.acme).expect("ACME").challenge
    };
    let (public, local) = ("0.0.0.0:443", "127.0.0.1:8443");
    assert_eq!(challenge("127.0.0.1:8080", public), ChallengeKind::TlsAlpn01);
    assert_eq!(challenge("0.0.0.0:80", public), ChallengeKind::Http01);
    assert_eq!(challenge("127.0.0.1:8080", local), ChallengeKind::Http01);
}
