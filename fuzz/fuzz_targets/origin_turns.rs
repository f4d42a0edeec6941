//! Whatever an origin sends, in whatever pieces, before, between and behind its answers: an answer
//! is only ever made of bytes that arrived after its request was begun, and a connection on which
//! more may come is not used again.
#![no_main]

use larder_proto::http::{
    Answered, ChunkLimits, ChunkedDecoder, Fields, ResponseBody, ResponseHead, Step, Turn,
    framing::content_length, parse_response,
};
use larder_proto::rules::{split_head, with_fields};
use libfuzzer_sys::fuzz_target;

// A byte says what happens: bytes of the origin arrive (how many, and which, follows), the reader
// reads what is there, a request takes the connection, or the first byte of that request is
// written.
fuzz_target!(|input: &[u8]| {
    let mut pipe = Pipe::default();
    let mut rest = input;
    while let Some((&what, behind)) = rest.split_first() {
        rest = behind;
        match what % 4 {
            0 => {
                let (said, behind) = rest.split_at(usize::from(what >> 2).min(rest.len()));
                rest = behind;
                pipe.arrive(said);
            }
            1 => pipe.read(),
            2 => pipe.take(what & 4 != 0),
            _ => pipe.write(),
        }
    }
});

/// A pooled connection, its reader no quicker than the script.
#[derive(Default)]
struct Pipe {
    turn: Turn,
    /// Bytes that have arrived and are not read, each with the number of requests begun when it
    /// arrived.
    waiting: Vec<(u8, usize)>,
    /// Bytes that are read and not understood.
    read: Vec<(u8, usize)>,
    begun: usize,
    to_head: bool,
    odd_interim: bool,
    /// The content that comes, and what the head said of its end.
    content: Option<(Content, Answered)>,
}

enum Content {
    Length(u64),
    Chunked(Box<ChunkedDecoder>),
    UntilClose,
}

impl Pipe {
    fn arrive(&mut self, said: &[u8]) {
        self.waiting.extend(said.iter().map(|byte| (*byte, self.begun)));
    }

    fn take(&mut self, to_head: bool) {
        if self.turn == Turn::Idle {
            self.turn = self.turn.read(self.waiting.len()).ask();
            self.to_head = to_head;
        }
    }

    fn write(&mut self) {
        let before = self.turn;
        self.turn = before.write(!self.waiting.is_empty());
        if (before, self.turn) == (Turn::Asked, Turn::Answering) {
            self.begun += 1;
            self.odd_interim = false;
        }
    }

    fn read(&mut self) {
        self.turn = self.turn.read(self.waiting.len());
        self.read.append(&mut self.waiting);
        while self.turn == Turn::Answering && self.understand() {}
    }

    /// Takes what is understood. False: nothing more is to be had of what was read.
    fn understand(&mut self) -> bool {
        let bytes: Vec<u8> = self.read.iter().map(|(byte, _)| *byte).collect();
        let Some((mut content, answered)) = self.content.take() else {
            return match parse_response(&bytes, self.to_head) {
                Ok(None) => false,
                Ok(Some(head)) => self.head(&head, &bytes),
                Err(_) => self.broken(),
            };
        };
        match content.pass(&bytes) {
            Ok((used, true)) => {
                self.used(used);
                self.ended(answered)
            }
            Ok((used, false)) => {
                self.used(used);
                self.content = Some((content, answered));
                used > 0
            }
            Err(()) => self.broken(),
        }
    }

    fn head(&mut self, head: &ResponseHead, bytes: &[u8]) -> bool {
        let said = Said::of(&bytes[..head.used]);
        self.used(head.used);
        match head.status {
            101 => return self.broken(),
            100..=199 => {
                self.odd_interim |= said.coded || said.length.is_some();
                return true;
            }
            _ => {}
        }
        let content = match head.body {
            ResponseBody::None => Content::Length(0),
            ResponseBody::Length(length) => Content::Length(length),
            ResponseBody::Chunked => {
                Content::Chunked(Box::new(ChunkedDecoder::new(ChunkLimits::default())))
            }
            ResponseBody::UntilClose => Content::UntilClose,
        };
        let answered = Answered {
            to_head: self.to_head,
            status: head.status,
            length: said.length,
            coded: said.coded,
            conditional: true,
            odd_interim: self.odd_interim,
        };
        // An origin that took the HEAD for a GET, or sends content with a status that has none,
        // sends as much as it says.
        let announces = said.coded || said.length.is_some_and(|length| length > 0);
        let bodiless = matches!(head.status, 204 | 304);
        let more = announces || !bodiless && said.length.is_none();
        assert!(!answered.is_over() || !(more && (bodiless || self.to_head)), "{answered:?}");
        self.content = Some((content, answered));
        true
    }

    /// These bytes are of the answer to the last request that was begun.
    fn used(&mut self, used: usize) {
        assert!(self.read.drain(..used).all(|(_, begun)| begun == self.begun));
    }

    fn ended(&mut self, answered: Answered) -> bool {
        // What lies behind the answer in the reader's buffer was sent when nothing was asked.
        self.turn = self.turn.end(answered.is_over()).read(self.read.len());
        assert!(self.turn != Turn::Idle || self.read.is_empty());
        false
    }

    fn broken(&mut self) -> bool {
        self.turn = Turn::Spoilt;
        false
    }
}

impl Content {
    /// How many of the bytes belong to it, and whether it ends with them.
    fn pass(&mut self, bytes: &[u8]) -> Result<(usize, bool), ()> {
        match self {
            Self::Length(left) => {
                let used = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= used as u64;
                Ok((used, *left == 0))
            }
            Self::Chunked(decoder) => match decoder.decode(bytes).map_err(drop)? {
                Step::Need => Ok((0, false)),
                Step::Skip { used } | Step::Data { used, .. } => Ok((used, false)),
                Step::End { used, .. } => Ok((used, true)),
            },
            Self::UntilClose => Ok((bytes.len(), false)),
        }
    }
}

/// What a head says of its content.
struct Said {
    length: Option<u64>,
    coded: bool,
}

impl Said {
    fn of(head: &[u8]) -> Said {
        let nothing = Said { length: Some(u64::MAX), coded: true };
        let Some((_, lines)) = split_head(head) else { return nothing };
        let lines = lines.strip_suffix(b"\r\n").unwrap_or(lines);
        let said = with_fields(lines, |fields: Fields<'_>| {
            let lengths = fields.all("content-length");
            let length = lengths.map(|value| content_length(value).unwrap_or(u64::MAX)).max();
            Said { length, coded: fields.has("transfer-encoding") }
        });
        // Lines that only the more tolerant parser reads: nothing is known, so more may come.
        said.unwrap_or(nothing)
    }
}
