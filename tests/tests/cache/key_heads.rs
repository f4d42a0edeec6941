//! The rule for keys, on the wire: two requests of one key and one variant are one and the same to
//! the origin, byte for byte, but for fields listed as harmless. The heads that are compared are
//! whole: the client's fields, and those that Larder adds.

use larder_tests::wire::request;
use larder_tests::{Larder, Origin, Seen};

use super::key_overrides::{before, every_spelling, is_keyed};

/// Fields that go on as they are: a site that answers by them says `Vary`.
const HARMLESS: [&str; 4] = ["user-agent", "accept-language", "referer", "x-requested-with"];

/// Values that programs believe in fields about host, scheme, path, method and client.
const VALUES: [&str; 12] = [
    "evil.test",
    "evil.test, 127.0.0.1",
    "https",
    "http",
    "on",
    "8443",
    "203.0.113.7",
    "for=203.0.113.7;host=evil.test;proto=https",
    "/admin?a=b",
    "DELETE",
    "gzip;q=0",
    "",
];

/// Numbers that look drawn, the same in each run.
struct Draw(u64);

impl Draw {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % most as u64) as usize
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// Whether trusted proxies vouch for what it says.
fn is_believed(name: &str) -> bool {
    let plain = name.to_ascii_lowercase();
    ["x-forwarded-for", "x-forwarded-proto", "forwarded"].contains(&plain.as_str())
}

/// The lines of a request, but for the harmless ones.
fn head(seen: &Seen) -> Vec<(String, String)> {
    let lines =
        seen.fields.0.iter().filter(|(name, _)| {
            !HARMLESS.iter().any(|harmless| name.eq_ignore_ascii_case(harmless))
        });
    lines.cloned().collect()
}

fn pairs_of_one_key_are_one_to_the_origin(trusted: bool) {
    const PAIRS: usize = 400;
    let origin = Origin::serving(&["Cache-Control: max-age=600"], "page");
    let larder: Larder = before(&origin, trusted);
    let names: Vec<String> = every_spelling()
        .into_iter()
        .filter(|name| !trusted || !(is_keyed(name, true) || is_believed(name)))
        .collect();
    let mut draw = Draw(0x9E37_79B9_7F4A_7C15);
    let mut wire = larder.connect();
    let mut sent = Vec::new();
    for pair in 0..PAIRS {
        let common: Vec<String> = (0..draw.below(3))
            .map(|_| format!("{}: {}", draw.of(&names), draw.of(&VALUES)))
            .collect();
        for side in ["a", "b"] {
            let mut lines = vec!["Host: site.test".to_owned()];
            lines.extend(common.iter().cloned());
            for _ in 0..draw.below(8) {
                lines.push(format!("{}: {}", draw.of(&names), draw.of(&VALUES)));
            }
            lines.push(format!("{}: {side}{pair}", draw.of(&HARMLESS)));
            let fields: Vec<&str> = lines.iter().map(String::as_str).collect();
            wire.send(request("GET", &format!("/{side}{pair}"), &fields));
            wire.read().assert_status(200);
            sent.push(lines);
        }
    }
    let requests = origin.requests();
    assert_eq!(requests.len(), 2 * PAIRS, "each has a page of its own");
    for (both, lines) in requests.chunks(2).zip(sent.chunks(2)) {
        let [first, second] = both else { panic!("a request alone") };
        assert_eq!((&first.target[..2], &second.target[..2]), ("/a", "/b"));
        assert_eq!(head(first), head(second), "{lines:#?}");
        assert_eq!((&first.method, &first.version), (&second.method, &second.version));
    }
}

#[test]
fn pairs_of_anybody_are_one_to_the_origin() {
    pairs_of_one_key_are_one_to_the_origin(false);
}

#[test]
fn pairs_through_a_trusted_proxy_are_one_to_the_origin() {
    pairs_of_one_key_are_one_to_the_origin(true);
}
