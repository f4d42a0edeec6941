//! A site of documents that have much in common, over HTTPS, and clients with dictionaries.

#![allow(clippy::unwrap_used)]

use std::{
    fmt::Write as _,
    io::{Read as _, Write as _},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
};

use aws_lc_rs::digest::{SHA256, digest};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use larder_proto::http::dictionary::PATH;
use larder_tests::{
    Admin, Answer, H2, Larder, Origin, Papers, Reply, Scratch, Wire, helper::source_root, wait_for,
    wait_until,
};
use tokio_rustls::rustls::ClientConfig;

/// The Accept-Encoding of a browser with a dictionary.
pub(crate) const ALL: &str = "gzip, deflate, br, zstd, dcb, dcz";
/// Documents of which the dictionary is made in these tests.
const DOCUMENTS: usize = 12;

/// Numbers that follow from a text, so that pages do not compress by themselves.
fn words(text: &str, count: usize) -> impl Iterator<Item = u64> {
    let mut state =
        text.bytes().fold(7_u64, |state, byte| state.wrapping_mul(31).wrapping_add(byte.into()));
    (0..count).map(move |_| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 40
    })
}

/// A page of some 20 KB: a frame that all have, and text of its own.
pub(crate) fn page(target: &str) -> String {
    page_of(target, "version 1")
}

fn page_of(target: &str, version: &str) -> String {
    let mut out = format!("<!doctype html>\n<title>{target}</title>\n<p>{version}</p>\n");
    for (number, word) in words("frame", 400).enumerate() {
        writeln!(out, "<li class=\"menu-{number}\"><a href=\"/{word:x}\">{word:06x}</a></li>")
            .unwrap();
    }
    for word in words(target, 40) {
        writeln!(out, "<p>{word:x} is of {target} alone</p>").unwrap();
    }
    out
}

/// A page that is for some: text of its own kind that it shares with others of that kind.
fn page_for_some(target: &str) -> String {
    let kind = target.rsplit_once('/').unwrap().0;
    let own: String =
        words(kind, 200).map(|word| format!("<p>{word:x} of {kind} is for some</p>\n")).collect();
    format!("{own}{}", page(target))
}

pub(crate) struct Site {
    pub(crate) origin: Origin,
    pub(crate) larder: Larder,
    papers: Papers,
    client: Arc<ClientConfig>,
    version: Arc<AtomicU32>,
    fresh: AtomicU32,
}

impl Site {
    /// With further lines of the site.
    pub(crate) fn start(lines: &str) -> Site {
        let version = Arc::new(AtomicU32::new(1));
        let current = version.clone();
        let origin = Origin::start(move |seen, reply| {
            let version = current.load(SeqCst);
            let tag = if version == 1 { "ETag: \"one\"" } else { "ETag: \"two\"" };
            let html = "Content-Type: text/html; charset=utf-8";
            let age = "Cache-Control: max-age=600";
            let target = seen.target.as_str();
            let named = match target {
                "/app/v1.js" => "Use-As-Dictionary: match=\"/app/*.js\", id=\"app\"",
                "/use/type" => "Use-As-Dictionary: match=\"/*\", type=other",
                "/use/pattern" => "Use-As-Dictionary: match=\"/:name/*\"",
                "/use/broken" => "Use-As-Dictionary: match=\"/*",
                _ if target.starts_with("/use/") => "Use-As-Dictionary: match=\"/*\"",
                _ => "X-Nothing: here",
            };
            if seen.get("if-none-match").is_some_and(|known| tag.ends_with(known)) {
                reply.answer(304, &[tag, age], "");
                return;
            }
            let text = page_of(target, &format!("version {version}"));
            match target {
                "/style.css" | "/app/style.css" => {
                    reply.ok(&["Content-Type: text/css", age], page(target))
                }
                _ if target.ends_with(".js") => {
                    reply.ok(&["Content-Type: text/javascript", age, tag, named], page(target))
                }
                "/use/private" => reply.ok(&[html, "Cache-Control: private", named], text),
                "/use/cookie" => reply.ok(&[html, age, "Set-Cookie: a=b", named], text),
                _ if target.starts_with("/some/") => some(seen.get("cookie"), target, reply),
                _ if target.starts_with("/shared/") => {
                    reply.ok(&[html, age, "Access-Control-Allow-Origin: https://a"], text)
                }
                // Browsers ask again each time.
                _ if target.starts_with("/live/") => {
                    reply.ok(&[html, "Cache-Control: s-maxage=600, max-age=0", tag], text)
                }
                _ => reply.ok(&[html, age, tag, named], text),
            };
        });
        let papers = Papers::issue();
        let sites = format!(
            "[[site]]\norigin = \"{}\"\ncompress = [\"zstd\", \"br\", \"gzip\"]\n{lines}",
            origin.url()
        );
        let larder = Larder::with_config(&papers.config("server", "", &sites));
        let client = papers.client();
        Site { origin, larder, papers, client, version, fresh: AtomicU32::new(0) }
    }

    /// The documents change.
    pub(crate) fn version(&self, version: u32) {
        self.version.store(version, SeqCst);
    }

    pub(crate) fn wire(&self) -> Wire {
        Wire::connect_tls(self.larder.face("https"), &self.client, "127.0.0.1")
    }

    pub(crate) fn http2(&self) -> H2 {
        let mut client =
            H2::connect_tls(self.larder.face("https"), &self.papers.client(), "127.0.0.1");
        client.ask_for("site.test");
        client
    }

    #[track_caller]
    pub(crate) fn get(&self, target: &str, fields: &[&str]) -> Answer {
        self.wire().get(target, fields)
    }

    #[track_caller]
    pub(crate) fn ask(&self, method: &str, target: &str, fields: &[&str]) -> Answer {
        self.wire().ask(method, target, &[&["Host: site.test"], fields].concat())
    }

    /// Requests a page until it comes in this coding. Without an Accept-Encoding among the fields,
    /// the client takes this coding alone.
    #[track_caller]
    pub(crate) fn coded(&self, target: &str, coding: &str, fields: &[&str]) -> Answer {
        let taken = format!("Accept-Encoding: {coding}");
        let mut fields = fields.to_vec();
        if !fields.iter().any(|line| line.starts_with("Accept-Encoding")) {
            fields.push(&taken);
        }
        let mut wire = self.wire();
        wait_for(&format!("{target} in {coding}"), || {
            let answer = wire.get(target, &fields);
            (answer.get("content-encoding") == Some(coding)).then_some(answer)
        })
    }

    /// Waits until the thread that compresses has made what was asked for.
    #[track_caller]
    pub(crate) fn settled(&self) {
        let admin = Admin::of(&self.larder);
        let waiting = || admin.json("/api/v1/stats")["compression"]["waiting"].as_u64();
        wait_until("nothing waits", || waiting() == Some(0));
        // Its work before is done when the next is.
        let number = self.fresh.fetch_add(1, SeqCst);
        self.coded(&format!("/fresh/{number}"), "gzip", &[]);
    }

    /// The dictionary of the documents, after some of them were asked for.
    #[track_caller]
    pub(crate) fn dictionary(&self) -> Dictionary {
        self.dictionary_of("site.test")
    }

    /// The same for another host.
    #[track_caller]
    pub(crate) fn dictionary_of(&self, host: &str) -> Dictionary {
        let host = format!("Host: {host}");
        let mut wire = self.wire();
        for number in 0..DOCUMENTS {
            let target = format!("/page/{number}");
            wait_until("a document in br", || {
                let answer = wire.ask("GET", &target, &[&host, "Accept-Encoding: br"]);
                answer.get("content-encoding") == Some("br")
            });
        }
        let answer = wait_for("the dictionary", || {
            Some(wire.ask("GET", PATH, &[&host])).filter(|answer| answer.status == 200)
        });
        Dictionary { content: answer.body }
    }

    /// The file of its certificate.
    pub(crate) fn certificate(&self) -> String {
        self.papers.path("server.pem")
    }
}

/// Answers for some: private, with a cookie, for one cookie, for one user.
fn some<'r>(cookie: Option<&str>, target: &str, reply: &'r mut Reply) -> &'r mut Reply {
    let html = "Content-Type: text/html";
    let own = page_for_some(target);
    let age = "Cache-Control: max-age=600";
    let kind = target.rsplit_once('/').map_or("", |(kind, _)| kind);
    match (kind, cookie) {
        ("/some/private", _) => reply.ok(&[html, "Cache-Control: private, max-age=600"], own),
        ("/some/set", _) => reply.ok(&[html, age, "Set-Cookie: seen=1"], own),
        ("/some/vary", Some(_)) => reply.ok(&[html, age, "Vary: Cookie"], own),
        ("/some/vary", None) => reply.ok(&[html, age, "Vary: Cookie"], page(target)),
        _ => reply.ok(&[html, "Cache-Control: public, max-age=600"], own),
    }
}

/// A dictionary that a client has.
pub(crate) struct Dictionary {
    pub(crate) content: Vec<u8>,
}

impl Dictionary {
    fn hash(&self) -> Vec<u8> {
        digest(&SHA256, &self.content).as_ref().to_vec()
    }

    pub(crate) fn base64(&self) -> String {
        STANDARD.encode(self.hash())
    }

    /// The line by which a request names it.
    pub(crate) fn available(&self) -> String {
        format!("Available-Dictionary: :{}:", self.base64())
    }

    /// Its name in entity tags.
    pub(crate) fn short(&self) -> String {
        self.hash()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The content of an answer. Those with a dictionary are decoded by Google's brotli and
    /// Facebook's zstd, whose format the RFC names.
    #[track_caller]
    pub(crate) fn decoded(&self, answer: &Answer) -> Vec<u8> {
        let body = &answer.body[..];
        let mut out = Vec::new();
        match answer.get("content-encoding") {
            None => out.extend_from_slice(body),
            Some("gzip") => {
                flate2::read::GzDecoder::new(body).read_to_end(&mut out).unwrap();
            }
            Some("br") => {
                brotli::Decompressor::new(body, 4096).read_to_end(&mut out).unwrap();
            }
            Some("zstd") => out = zstd::stream::decode_all(body).unwrap(),
            Some(coding) => out = self.decoded_by_others(coding, body),
        }
        out
    }

    #[track_caller]
    fn decoded_by_others(&self, coding: &str, body: &[u8]) -> Vec<u8> {
        let scratch = Scratch::new("dictionary");
        let file = scratch.file("dictionary");
        std::fs::write(&file, &self.content).unwrap();
        decoded_by_others(&[coding, file.to_str().unwrap()], body)
    }
}

/// The content of a body by Google's decoder of brotli and Facebook's of zstd. The words: its
/// coding, and the file of the dictionary if it has one.
#[track_caller]
pub(crate) fn decoded_by_others(words: &[&str], body: &[u8]) -> Vec<u8> {
    let modules = source_root().join("tests/.cache/dictionary");
    assert!(modules.is_dir(), "not installed: run scripts/test-deps.sh");
    let mut child = Command::new("/usr/bin/python3")
        .env("PYTHONPATH", modules)
        .arg(source_root().join("tests/clients/dictionary.py"))
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(body).unwrap();
    let done = child.wait_with_output().unwrap();
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    done.stdout
}
