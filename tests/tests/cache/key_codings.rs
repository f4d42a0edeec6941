//! One rule for keys: the origin is told which codings a client takes as Larder understood it, and
//! what comes in another one is for nobody else.

use larder_tests::{Gate, Larder, Origin, Started, Wire, get, get_with};
use std::process::{Command, Stdio};

const FRESH: &str = "Cache-Control: max-age=600";
const ZIPPED: &str = "(zipped)";

/// Texts in which `gzip` is not asked for as RFC 9110 12.5.3 has it.
const NO_GZIP: &[&str] = &[
    "gzip;q=5",
    "gzip;q=1.0000",
    "gzip;q=",
    "gzip;q",
    "\"gzip\"",
    "notgzip",
    "gzipped",
    "gzip;q=0",
    "gzip;q=0.000",
    "gzip;level=9",
    "gzip;q=-1",
    "gzip;q=1;q=1",
    "gzip/1",
    "gzip, gzip;q=0",
    "*, gzip;q=0",
    "identity, gzip;q=2",
    "x gzip",
    "gzip;;q=1",
    "",
];

/// An origin that looks for the word, as mod_deflate does.
fn careless(vary: bool) -> (Origin, Larder) {
    let origin = Origin::start(move |seen, reply| {
        let mut fields = vec![FRESH];
        fields.extend(vary.then_some("Vary: Accept-Encoding"));
        if seen.fields.joined("accept-encoding").contains("gzip") {
            fields.push("Content-Encoding: gzip");
            reply.ok(&fields, ZIPPED)
        } else {
            reply.ok(&fields, "plain")
        };
    });
    let larder = Larder::before(&origin.url());
    (origin, larder)
}

#[test]
fn the_origin_is_told_what_was_understood() {
    let (origin, larder) = careless(true);
    let asked = |number: usize, fields: &[&str]| {
        get_with(larder.addr(), &format!("/{number}"), fields);
        origin.last().fields.all("accept-encoding").map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(asked(0, &[]), ["identity"]);
    for (number, (text, told)) in [
        ("gzip", "gzip"),
        ("GZIP;q=0.5", "gzip"),
        ("x-gzip", "gzip"),
        ("br;q=0.1, gzip;q=1.000", "br, gzip"),
        ("gzip, deflate, br, zstd", "br, deflate, gzip, zstd"),
        ("*", "br, deflate, gzip, zstd"),
        ("gzip, identity;q=0", "gzip, identity;q=0"),
        ("compress, sdch", "identity"),
        ("gzip;q=5, br", "br"),
    ]
    .iter()
    .enumerate()
    {
        assert_eq!(asked(number + 1, &[&format!("Accept-Encoding: {text}")]), [*told], "{text}");
    }
    assert_eq!(asked(50, &["Accept-Encoding: gzip", "Accept-Encoding: br;q=1"]), ["br, gzip"]);
}

#[test]
fn what_was_not_asked_for_is_given_to_nobody() {
    for vary in [true, false] {
        let (_origin, larder) = careless(vary);
        for (number, text) in NO_GZIP.iter().enumerate() {
            let target = format!("/{number}");
            get_with(larder.addr(), &target, &[&format!("Accept-Encoding: {text}")]);
            for fields in [&[][..], &["Accept-Encoding: identity"], &["Accept-Encoding: br"]] {
                let answer = get_with(larder.addr(), &target, fields);
                assert_eq!(
                    (answer.text(), answer.get("content-encoding")),
                    ("plain", None),
                    "after {text}"
                );
            }
        }
    }
}

/// A page that came coded is for those who take the coding, though it does not say that it varies.
#[test]
fn a_coded_page_without_vary_is_for_those_who_take_the_coding() {
    let (origin, larder) = careless(false);
    for _ in 0..2 {
        assert_eq!(get_with(larder.addr(), "/", &["Accept-Encoding: gzip"]).text(), ZIPPED);
        assert_eq!(
            get_with(larder.addr(), "/", &["Accept-Encoding: br, gzip;q=0.1"]).assert_hit().text(),
            ZIPPED
        );
    }
    for fields in [&[][..], &["Accept-Encoding: gzip;q=0"], &["Accept-Encoding: br"]] {
        assert_eq!(get_with(larder.addr(), "/", fields).text(), "plain", "{fields:?}");
    }
    get(larder.addr(), "/").assert_hit();
    assert!(origin.count() <= 4, "{}", origin.count());
}

/// An origin that codes whatever it is asked: who did not ask gets it as it is, and it is not kept.
#[test]
fn a_coding_nobody_asked_for_is_not_kept() {
    let origin = Origin::serving(&[FRESH, "Content-Encoding: gzip"], ZIPPED);
    let larder = Larder::before(&origin.url());
    for fields in [&[][..], &["Accept-Encoding: gzip;q=5"], &["Accept-Encoding: br"]] {
        let answer = get_with(larder.addr(), "/", fields);
        assert_eq!((answer.text(), answer.get("content-encoding")), (ZIPPED, Some("gzip")));
        assert!(answer.cache_status_has("detail=coding-not-accepted"), "{answer:?}");
    }
    assert_eq!(origin.count(), 3);
    get_with(larder.addr(), "/", &["Accept-Encoding: gzip"]).assert_forwarded();
    get_with(larder.addr(), "/", &["Accept-Encoding: gzip, br"]).assert_hit();
    get(larder.addr(), "/").assert_forwarded();
}

/// The answer to a client that refuses what is not coded is not for those who do not.
#[test]
fn an_error_for_who_refuses_the_identity_is_not_kept() {
    let origin = Origin::start(|seen, reply| {
        match seen.fields.joined("accept-encoding").contains("identity;q=0") {
            true => reply.answer(406, &[FRESH, "Vary: Accept-Encoding"], "nothing acceptable"),
            false => reply.ok(&[FRESH, "Vary: Accept-Encoding"], "plain"),
        };
    });
    let larder = Larder::before(&origin.url());
    for refusing in ["identity;q=0", "*;q=0", "gzip, *;q=0"] {
        assert_eq!(
            get_with(larder.addr(), "/", &[&format!("Accept-Encoding: {refusing}")]).status,
            406
        );
    }
    get(larder.addr(), "/").assert_status(200);
    get_with(larder.addr(), "/", &["Accept-Encoding: gzip"]).assert_status(200);
}

/// Those who wait together for a cold page take different codings.
#[test]
fn a_coded_answer_is_not_shared_with_those_who_wait_and_did_not_ask_for_it() {
    for leader in ["Accept-Encoding: gzip", "Accept-Encoding: gzip;q=5"] {
        let gate = Gate::closed();
        let door = gate.clone();
        let origin = Origin::start(move |seen, reply| {
            if seen.target == "/warm" {
                reply.ok(&[FRESH], "warm");
                return;
            }
            door.wait();
            match seen.fields.joined("accept-encoding").contains("gzip") {
                true => reply.ok(&[FRESH, "Content-Encoding: gzip"], ZIPPED),
                false => reply.ok(&[FRESH], "plain"),
            };
        });
        let larder = Larder::before(&origin.url());
        larder.connect().get("/warm", &[]);
        let ask = |fields: &str| {
            let mut wire: Wire = larder.connect();
            let get = |target, fields: &str| {
                format!("GET {target} HTTP/1.1\r\nHost: site.test\r\n{fields}\r\n")
            };
            wire.send(get("/warm", "") + &get("/cold", fields));
            wire.read().assert_hit();
            wire
        };
        let mut first = ask(&format!("{leader}\r\n"));
        origin.wait_for(2);
        let mut waiting: Vec<Wire> = (0..5).map(|_| ask("")).collect();
        gate.open();
        first.read().assert_status(200);
        for wire in &mut waiting {
            let answer = wire.read();
            assert_eq!(
                (answer.text(), answer.get("content-encoding")),
                ("plain", None),
                "{leader}"
            );
        }
    }
}

/// Apache with mod_deflate, which looks for the word `gzip`.
fn apache() -> Started {
    Started::start(|dir, port| {
        let page = "<p>A page that is worth a coding.</p>\n".repeat(40);
        std::fs::create_dir(dir.join("pages")).expect("a directory");
        for number in 0..NO_GZIP.len() {
            std::fs::write(dir.join(format!("pages/{number}.html")), &page).expect("a page");
        }
        let module = |name: &str| {
            format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n")
        };
        let modules: String = ["mpm_event", "authz_core", "mime", "filter", "deflate", "headers"]
            .map(module)
            .concat();
        let dir_name = dir.display();
        let text = format!(
            "{modules}ServerRoot {dir_name}\nListen 127.0.0.1:{port}\nServerName \
             site.test\nPidFile {dir_name}/pid\nErrorLog {dir_name}/error\nDocumentRoot \
             {dir_name}/pages\nTypesConfig /dev/null\nAddType text/html .html\nSetOutputFilter \
             DEFLATE\nHeader set Cache-Control max-age=600\n"
        );
        let config = dir.join("apache.conf");
        std::fs::write(&config, text).expect("a configuration");
        let mut command = Command::new("/usr/sbin/apache2");
        command.arg("-X").arg("-f").arg(config).stdin(Stdio::null());
        (command, None)
    })
}

#[test]
fn apaches_mod_deflate_codes_nothing_for_those_who_did_not_ask() {
    let apache = apache();
    let larder = Larder::before(&format!("http://{}", apache.addr()));
    for (number, text) in NO_GZIP.iter().enumerate() {
        let target = format!("/{number}.html");
        get_with(larder.addr(), &target, &[&format!("Accept-Encoding: {text}")]).assert_status(200);
        let plain = get(larder.addr(), &target);
        assert_eq!(plain.get("content-encoding"), None, "after {text}");
        assert!(plain.text().starts_with("<p>A page"), "after {text}: {plain:?}");
        // What was left uncoded for one who takes other codings may do for this one too.
        let zipped = get_with(larder.addr(), &target, &["Accept-Encoding: gzip"]);
        let coded = zipped.body.starts_with(&[0x1f, 0x8b]);
        assert_eq!(zipped.get("content-encoding"), coded.then_some("gzip"), "after {text}");
        assert!(coded || text.contains('*'), "after {text}: {zipped:?}");
        get(larder.addr(), &target).assert_hit();
        get_with(larder.addr(), &target, &["Accept-Encoding: x-gzip, br"]).assert_hit();
    }
}

/// A coding that nobody registered is a coding all the same: clients that did not ask for it could
/// not read it.
#[test]
fn a_coding_nobody_asked_for_is_kept_for_nobody() {
    let origin = Origin::start(|seen, reply| {
        let coding = format!("Content-Encoding: {}", &seen.path()[1..]);
        reply.ok(&["Cache-Control: max-age=600", &coding], "packed");
    });
    let larder = Larder::before(&origin.url());
    for (number, coding) in ["lzma", "foo", "x-lz4", "Own", "gzip,foo"].iter().enumerate() {
        let target = format!("/{coding}");
        for _ in 0..2 {
            get_with(larder.addr(), &target, &["Accept-Encoding: gzip"]).assert_status(200);
        }
        assert_eq!(origin.count(), 2 * (number + 1), "{coding} was not stored");
    }
    // Words that servers write there by mistake: the content is not coded.
    for (number, word) in ["utf-8", "UTF-8", "none", "iso-8859-1"].iter().enumerate() {
        for _ in 0..2 {
            get_with(larder.addr(), &format!("/{word}"), &["Accept-Encoding: gzip"]);
        }
        assert_eq!(origin.count(), 10 + number + 1, "{word} was stored");
    }
}
