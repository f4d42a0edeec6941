//! The dictionary of a set of documents: what several of them have in common.
//!
//! Documents are cut behind tags, lines and other ends of text into pieces. A piece that is in
//! fewer than [`COMMON`] documents is left out: it gains little, and it may be somebody's. The
//! pieces that are left keep the order of their documents, so that a client's page finds long runs
//! of them; those in most documents stand at the end, where distances are short.

use std::collections::{HashMap, HashSet};

use rapidhash::v3::rapidhash_v3;

/// Documents that must have a piece: no text of one or two pages gets into the dictionary.
const COMMON: u32 = 3;
/// Bytes of all documents that are looked at, at the most: with their pieces they take 20 MiB of
/// memory outside the store.
const DOCUMENTS: usize = 8 << 20;
/// Longest piece, in bytes.
const PIECE: usize = 1024;
/// A run is not broken by pieces that the dictionary has already, up to so many bytes: matches of
/// clients' pages go over them.
const BRIDGE: usize = 64;
/// A shorter dictionary gains less than it costs to fetch, in bytes.
const SHORTEST: usize = 1024;

/// A document.
pub(crate) struct Sample(pub(crate) Vec<u8>);

/// The documents that a piece is in.
struct Seen {
    times: u32,
    /// The last of them.
    last: usize,
    length: usize,
}

/// A dictionary of at most `size` bytes. None: the documents have too little in common.
pub(crate) fn build(samples: &[Sample], size: usize) -> Option<Vec<u8>> {
    let samples = within(samples);
    let mut seen: HashMap<u64, Seen> = HashMap::new();
    for (number, Sample(text)) in samples.iter().enumerate() {
        for piece in pieces(text) {
            let length = piece.len();
            let known =
                seen.entry(rapidhash_v3(piece)).or_insert(Seen { times: 1, last: number, length });
            if known.last != number {
                (known.times, known.last) = (known.times + 1, number);
            }
        }
    }
    let least = least(&seen, size);
    let most = samples.len() as u32 * 3 / 4;
    let times = |piece: &[u8]| seen.get(&rapidhash_v3(piece)).map_or(0, |seen| seen.times);
    let mut out = Writer { text: Vec::new(), has: HashSet::new(), size };
    // Pieces of most documents come last, and are chosen first where the size is not enough.
    let frequent = |piece: &[u8]| times(piece) >= least.max(most);
    let mut end = Writer { text: Vec::new(), has: HashSet::new(), size };
    samples.iter().for_each(|sample| end.add(sample, frequent));
    out.size = size - end.text.len();
    out.has = end.has;
    let rarer = |piece: &[u8]| times(piece) >= least;
    samples.iter().for_each(|sample| out.add(sample, rarer));
    out.text.extend_from_slice(&end.text);
    (out.text.len() >= SHORTEST).then_some(out.text)
}

/// As many documents as are looked at.
fn within(samples: &[Sample]) -> &[Sample] {
    let mut bytes = 0;
    let count = samples.iter().take_while(|Sample(text)| {
        bytes += text.len();
        bytes <= DOCUMENTS
    });
    &samples[..count.count()]
}

/// The number of documents that a piece must be in, so that all such pieces fit.
fn least(seen: &HashMap<u64, Seen>, size: usize) -> u32 {
    let mut lengths: Vec<(u32, usize)> = seen
        .values()
        .filter(|seen| seen.times >= COMMON)
        .map(|seen| (seen.times, seen.length))
        .collect();
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    let mut left = size;
    for (times, length) in lengths {
        match left.checked_sub(length) {
            Some(rest) => left = rest,
            None => return times,
        }
    }
    COMMON
}

struct Writer {
    text: Vec<u8>,
    /// The pieces that are in it, by their hashes.
    has: HashSet<u64>,
    /// Most bytes.
    size: usize,
}

impl Writer {
    /// Appends the pieces of a document that `wanted` names and that are not there yet.
    fn add(&mut self, Sample(text): &Sample, wanted: impl Fn(&[u8]) -> bool) {
        // Known pieces behind one that was appended.
        let mut bridge: Vec<u8> = Vec::new();
        let mut runs = false;
        for piece in pieces(text) {
            let hash = rapidhash_v3(piece);
            if self.has.contains(&hash) {
                runs = runs && bridge.len() + piece.len() <= BRIDGE;
                bridge.extend_from_slice(if runs { piece } else { b"" });
            } else if wanted(piece) {
                if runs && self.fits(bridge.len() + piece.len()) {
                    self.text.extend_from_slice(&bridge);
                }
                if self.fits(piece.len()) {
                    self.text.extend_from_slice(piece);
                    self.has.insert(hash);
                }
                bridge.clear();
                runs = true;
            } else {
                bridge.clear();
                runs = false;
            }
        }
    }

    fn fits(&self, more: usize) -> bool {
        self.text.len() + more <= self.size
    }
}

/// The pieces of a text, which together are the text.
fn pieces(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let is_end = |byte: &u8| matches!(byte, b'>' | b'\n' | b';' | b',' | b'}');
        let window = &rest[..rest.len().min(PIECE)];
        let length = window.iter().position(is_end).map_or(window.len(), |at| at + 1);
        let (piece, behind) = rest.split_at(length);
        rest = behind;
        (!piece.is_empty()).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Documents of one site: a frame, a line that some have, and text of their own.
    fn documents(count: usize) -> Vec<Sample> {
        let frame: String =
            (0..100).map(|n| format!("<li class=\"menu-{n}\">Item {n}</li>")).collect();
        (0..count)
            .map(|n| {
                let third = if n % 3 == 0 { "<p>A notice on some of the pages</p>" } else { "" };
                let own = format!("<p>Secret number {n} of one page alone</p>");
                let pair = format!("<p>Secret of the pair {}</p>", n / 2);
                Sample(format!("<body>{third}{own}{pair}{frame}</body>\n").into_bytes())
            })
            .collect()
    }

    fn has(text: &[u8], part: &str) -> bool {
        text.windows(part.len()).any(|window| window == part.as_bytes())
    }

    #[test]
    fn pieces_are_the_text() {
        for text in [&b""[..], b"a", b"<a>b</a>;;,\n", &[b'x'; 3000], b">>>"] {
            let all: Vec<&[u8]> = pieces(text).collect();
            assert_eq!(all.concat(), text);
            assert!(all.iter().all(|piece| !piece.is_empty() && piece.len() <= PIECE));
        }
    }

    #[test]
    fn a_dictionary_has_what_several_documents_have() {
        let text = build(&documents(12), 64 << 10).expect("a dictionary");
        assert!(has(&text, "<li class=\"menu-5\">Item 5</li><li class=\"menu-6\">Item 6</li>"));
        assert!(has(&text, "A notice on some of the pages</p>"));
        // Text of one document, or of two, is in none.
        assert!(!has(&text, "Secret"), "{}", String::from_utf8_lossy(&text));
        // Each piece is there once, and the frame once.
        assert!(text.len() < documents(1)[0].0.len() + 100);
    }

    #[test]
    fn it_has_no_more_bytes_than_it_may() {
        for size in [1500, 2000, 4096] {
            let text = build(&documents(12), size).expect("a dictionary");
            assert!(text.len() <= size && text.len() > size / 2, "{} of {size}", text.len());
        }
    }

    #[test]
    fn documents_that_have_nothing_in_common_make_none() {
        let own = |n: usize| (0..200).map(|at| format!("<p>{n} {at}</p>")).collect::<String>();
        let texts: Vec<_> = (0..10).map(|n| Sample(own(n).into_bytes())).collect();
        assert_eq!(build(&texts, 64 << 10), None);
        assert_eq!(build(&[], 64 << 10), None);
        assert_eq!(build(&documents(2), 64 << 10), None);
    }
}
