//! Ten configurations of each program and more, written after its documentation and usual guides.
//! The result of each is compared with the one beside it; LARDER_BLESS=1 writes it anew. Each is
//! valid.

use std::{collections::BTreeMap, fs, path::PathBuf};

use super::{draft::Draft, memcached, nginx, squid, varnish};
use crate::config::{Flags, parse};

fn directory(program: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/import/samples").join(program)
}

/// Files of the directory with this ending, by their names.
fn samples(program: &str, ending: &str) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    for entry in fs::read_dir(directory(program)).expect("samples") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == ending) {
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            out.insert(name, fs::read_to_string(path).expect("a sample"));
        }
    }
    out
}

fn compare(program: &str, name: &str, draft: &Draft) {
    let made = draft.toml(name);
    let path = directory(program).join(format!("{name}.toml"));
    if std::env::var_os("LARDER_BLESS").is_some() {
        fs::write(&path, &made).expect("written");
    }
    let held = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        held == made,
        "{program}/{name} has changed: LARDER_BLESS=1 cargo test -p larder import"
    );
    let checked = parse(None, &made, &Flags::default());
    assert!(checked.settings.is_some(), "{program}/{name}\n{}\n{made}", checked.report);
}

#[test]
fn nginx_sites() {
    let all = samples("nginx", "conf");
    assert_eq!(all.len(), 11);
    for (name, text) in all {
        compare("nginx", &name, &nginx::draft(&text));
    }
}

#[test]
fn varnish_files_with_flags() {
    let all = samples("varnish", "vcl");
    assert_eq!(all.len(), 11);
    for (name, text) in all {
        // The first line may have flags of varnishd.
        let first = text.lines().next().unwrap_or_default();
        let flags = first.strip_prefix("# varnishd ").unwrap_or_default();
        let flags: Vec<String> = flags.split_whitespace().map(str::to_owned).collect();
        compare("varnish", &name, &varnish::draft(&text, &flags));
    }
}

#[test]
fn squid_accelerators() {
    let all = samples("squid", "conf");
    assert_eq!(all.len(), 10);
    for (name, text) in all {
        compare("squid", &name, &squid::draft(&text));
    }
}

#[test]
fn memcached_command_lines() {
    let all = samples("memcached", "txt");
    let lines: Vec<&str> = all["lines"].lines().collect();
    assert_eq!(lines.len(), 10);
    for (number, line) in lines.iter().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        compare("memcached", &format!("{number}"), &memcached::draft(&words));
    }
}

/// A server of TLS is not imported as one without.
#[test]
fn memcached_with_tls() {
    let words = "-Z -l 10.0.0.1,notls:127.0.0.1 -o ssl_chain_cert=/etc/c.pem,ssl_key=/etc/k.pem,\
                 ssl_ca_cert=/etc/ca.pem,ssl_verify_mode=2,modern";
    let draft = memcached::draft(&words.split_whitespace().collect::<Vec<_>>());
    let made = draft.toml("x");
    let (plain, tls) = made.split_once("[memcached.tls]").expect("a table");
    assert!(plain.contains("listen = [\"127.0.0.1:11211\"]"), "{made}");
    let keys: Vec<&str> = tls.lines().filter(|line| !line.is_empty()).collect();
    let expected = [
        "cert = \"/etc/c.pem\"",
        "key = \"/etc/k.pem\"",
        "client_ca = \"/etc/ca.pem\"",
        "client_certificate = \"required\"",
        "listen = [\"10.0.0.1:11211\"]",
    ];
    assert_eq!(keys, expected, "{made}");
    assert_eq!(draft.left.len(), 1, "{:?}", draft.left);
    // Without its files nothing is served in plain text.
    let draft = memcached::draft(&["-Z"]);
    assert_eq!(draft.left[0].text, "-Z");
    assert!(!draft.toml("x").contains("[memcached]"));
}

#[test]
fn nothing_is_left_out_in_silence() {
    let draft = nginx::draft("server { proxy_pass http://a; weird on; location /x { odd 1; } }");
    let texts: Vec<_> = draft.left.iter().map(|left| left.text.as_str()).collect();
    assert_eq!(texts, ["weird on", "odd 1"]);
    let draft = squid::draft("http_port 3128\nweird on\n");
    assert_eq!(draft.left.len(), 3, "{:?}", draft.left);
    let draft = varnish::draft("sub vcl_recv { call odd; }", &[]);
    assert!(draft.left.iter().any(|left| left.text == "call odd"), "{:?}", draft.left);
}

#[test]
fn any_text_is_read_to_its_end() {
    let parts = [
        "server {",
        "location ~ (",
        "}",
        "if (",
        "\"",
        "sub vcl_recv {",
        "set",
        "acl a src",
        ";",
        "\n",
        "é",
    ];
    let mut text = String::new();
    let mut seed: u32 = 1;
    for _ in 0..2000 {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        text.push_str(parts[(seed >> 16) as usize % parts.len()]);
        text.push(' ');
        if text.len() > 400 {
            text.clear();
        }
        let _ = (nginx::draft(&text).toml("x"), squid::draft(&text).toml("x"));
        let _ = varnish::draft(&text, &[]).toml("x");
    }
}
