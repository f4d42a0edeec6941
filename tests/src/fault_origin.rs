//! An origin that misbehaves on demand, and bodies that tell whether they are whole.
//!
//! Every body is made from its target alone, so any reader can say byte by byte what it should be,
//! whoever kept it and for how long. Which fault a request meets is set by the test while requests
//! are under way.

use crate::answer::Answer;
use crate::origin::{Origin, Reply};
use crate::origin_request::Seen;
use crate::wait::{PATIENCE, wait_for, wait_until};
use std::io::Read;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// Answered as it should be.
    Well,
    /// Never answered.
    Hung,
    /// Head and half the body, then silence.
    HungMidBody,
    /// `Content-Length` promises more than comes before the connection ends.
    ShortLength,
    /// Chunks that end without the last one.
    ShortChunks,
    /// A few bytes at a time: small bodies come through, large ones take longer than anybody waits.
    Drip,
    /// Bytes that are no HTTP, or HTTP that contradicts itself.
    Garbage,
    /// A TCP reset in the middle of the body.
    Reset,
    /// Another of the above for each request.
    Mixed,
}

const MODES: [Mode; 9] = [
    Mode::Well,
    Mode::Hung,
    Mode::HungMidBody,
    Mode::ShortLength,
    Mode::ShortChunks,
    Mode::Drip,
    Mode::Garbage,
    Mode::Reset,
    Mode::Mixed,
];

/// The origin, which can be killed and brought back at the same address.
pub struct FaultOrigin {
    addr: SocketAddr,
    state: Arc<State>,
    running: Mutex<Option<Origin>>,
}

struct State {
    mode: AtomicU8,
    served: AtomicUsize,
    spoiled: AtomicUsize,
    spoiling: AtomicUsize,
}

impl FaultOrigin {
    /// Starts it in [`Mode::Well`].
    pub fn start() -> FaultOrigin {
        let state = Arc::new(State {
            mode: AtomicU8::new(Mode::Well as u8),
            served: AtomicUsize::new(0),
            spoiled: AtomicUsize::new(0),
            spoiling: AtomicUsize::new(0),
        });
        let origin = Origin::start(script(state.clone()));
        FaultOrigin { addr: origin.addr(), state, running: Mutex::new(Some(origin)) }
    }

    /// `http://ADDR`.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// What happens to requests from now on.
    pub fn set(&self, mode: Mode) {
        self.state.mode.store(mode as u8, Ordering::SeqCst);
    }

    /// Closes the listener and every connection.
    pub fn kill(&self) {
        if let Some(origin) = self.running.lock().unwrap().take() {
            origin.stop();
        }
    }

    /// Comes back at the same address.
    #[track_caller]
    pub fn revive(&self) {
        let script = || script(self.state.clone());
        let origin =
            wait_for("the origin's port to be free", || Origin::at(self.addr, script()).ok());
        *self.running.lock().unwrap() = Some(origin);
    }

    /// Requests that got a well-formed answer.
    pub fn served(&self) -> usize {
        self.state.served.load(Ordering::SeqCst)
    }

    /// Requests that met a fault.
    pub fn spoiled(&self) -> usize {
        self.state.spoiled.load(Ordering::SeqCst)
    }

    /// Waits until no request that met a fault is under way any more.
    #[track_caller]
    pub fn settle(&self) {
        wait_until("the last faults to be over", || {
            self.state.spoiling.load(Ordering::SeqCst) == 0
        });
    }
}

fn script(state: Arc<State>) -> impl Fn(&Seen, &mut Reply) + Send + Sync + 'static {
    move |seen, reply| {
        let mode = match MODES[usize::from(state.mode.load(Ordering::SeqCst))] {
            Mode::Mixed => {
                let number =
                    state.served.load(Ordering::Relaxed) + state.spoiled.load(Ordering::Relaxed);
                MODES[number * 7 % (MODES.len() - 1)]
            }
            mode => mode,
        };
        let page = Page::of(&seen.target);
        if mode == Mode::Well {
            state.served.fetch_add(1, Ordering::SeqCst);
            well(seen, &page, reply);
        } else {
            state.spoiled.fetch_add(1, Ordering::SeqCst);
            state.spoiling.fetch_add(1, Ordering::SeqCst);
            spoil(mode, &page, reply);
            state.spoiling.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

fn spoil(mode: Mode, page: &Page, reply: &mut Reply) {
    match mode {
        Mode::Well | Mode::Mixed => unreachable!("{mode:?} is no fault"),
        Mode::Hung => until_peer_leaves(reply),
        Mode::HungMidBody => {
            half(page, reply);
            until_peer_leaves(reply);
        }
        Mode::ShortLength => {
            reply.head(200, &page.fields_with_length()).raw(page.first_half()).close();
        }
        Mode::ShortChunks => {
            reply.chunked(200, &page.fields()).chunk(page.first_half()).close();
        }
        Mode::Drip => drip(page, reply),
        Mode::Garbage => garbage(page, reply),
        Mode::Reset => {
            half(page, reply);
            reset(reply);
        }
    }
}

fn well(seen: &Seen, page: &Page, reply: &mut Reply) {
    let fields = page.fields();
    if page.is_known_to(seen) {
        reply.head(304, &fields);
    } else if page.chunked {
        reply.chunked(200, &fields);
        for piece in page.body.chunks(16_000) {
            reply.chunk(piece);
        }
        reply.end();
    } else {
        reply.ok(&fields, &page.body);
    }
}

fn half(page: &Page, reply: &mut Reply) {
    if page.chunked {
        reply.chunked(200, &page.fields()).chunk(page.first_half());
    } else {
        reply.head(200, &page.fields_with_length()).raw(page.first_half());
    }
}

/// Some bytes each 20 ms; a large body would take minutes, and the cache gives up before.
fn drip(page: &Page, reply: &mut Reply) {
    reply.head(200, &page.fields_with_length());
    for piece in page.body.chunks(40) {
        std::thread::sleep(Duration::from_millis(20));
        if reply.raw(piece).peer_gone() {
            return;
        }
    }
}

fn garbage(page: &Page, reply: &mut Reply) {
    let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=300\r\n";
    let half = page.first_half();
    let bytes = match page.hash % 8 {
        0 => page.body.clone(),
        1 => b"220 mail.test ESMTP ready\r\n".to_vec(),
        2 => [head.as_bytes(), b"Content-Length: 10\r\nContent-Length: 20\r\n\r\n", half].concat(),
        3 => [head.as_bytes(), b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", half].concat(),
        4 => [head.as_bytes(), b"Content-Length: -5\r\n\r\n", half].concat(),
        5 => [head.as_bytes(), b"Bad\0Name: x\r\nContent-Length: 1\r\n\r\n", half].concat(),
        6 => [b"HTTP/1.1 2 hundred\r\nContent-Length: 4\r\n\r\n", half].concat(),
        _ => [head.as_bytes(), "X-Long: y\r\n".repeat(20_000).as_bytes()].concat(),
    };
    reply.raw(bytes).close();
}

/// Blocks until the other side closes, or nobody could be waiting any more.
fn until_peer_leaves(reply: &mut Reply) {
    let mut stream = reply.take_stream();
    if stream.set_read_timeout(Some(PATIENCE)).is_ok() {
        while stream.read(&mut [0; 512]).is_ok_and(|n| n > 0) {}
    }
}

/// Dissolving the association of a connected TCP socket sends a reset at once (connect(2),
/// `AF_UNSPEC`). Closing would not do: the harness holds a second handle.
fn reset(reply: &mut Reply) {
    let stream = reply.take_stream();
    // The peer may have left before.
    let _ = rustix::net::connect_unspec(&stream);
}

/// What a target stands for.
struct Page {
    hash: u64,
    body: Vec<u8>,
    etag: Option<String>,
    control: &'static str,
    chunked: bool,
    length: String,
}

impl Page {
    fn of(target: &str) -> Page {
        let hash = hash(target);
        let control = match hash % 5 {
            0 => "Cache-Control: max-age=1",
            1 => "Cache-Control: max-age=1, stale-if-error=600, stale-while-revalidate=2",
            2 => "Cache-Control: no-store",
            _ => "Cache-Control: max-age=600",
        };
        let body = body_of(target);
        Page {
            hash: hash >> 8,
            // A tag for some only, so that pages are refreshed in both ways: with a 304 and whole.
            etag: (hash >> 24 & 1 == 1).then(|| format!("ETag: \"{hash:016x}\"")),
            control,
            chunked: hash >> 20 & 1 == 1,
            length: format!("Content-Length: {}", body.len()),
            body,
        }
    }

    fn fields(&self) -> Vec<&str> {
        let mut fields = vec![self.control, "Content-Type: application/octet-stream"];
        fields.extend(self.etag.as_deref());
        fields
    }

    /// Whether this request already has the page.
    fn is_known_to(&self, seen: &Seen) -> bool {
        let offered = seen.get("if-none-match");
        offered.is_some()
            && offered == self.etag.as_deref().and_then(|line| line.strip_prefix("ETag: "))
    }

    fn fields_with_length(&self) -> Vec<&str> {
        let mut fields = self.fields();
        fields.push(&self.length);
        fields
    }

    fn first_half(&self) -> &[u8] {
        &self.body[..self.body.len() / 2]
    }
}

/// The one right body of a target: 100 bytes to 400 kB, mostly some tens of kB, of bytes that
/// depend on every earlier choice, so that a byte of another page, of another place or missing is
/// seen.
pub fn body_of(target: &str) -> Vec<u8> {
    let mut state = hash(target) | 1;
    let mut next = || {
        // xorshift64 (Marsaglia 2003)
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let length = match next() % 20 {
        0..5 => 100 + next() % 900,
        5..19 => 8_000 + next() % 60_000,
        _ => 200_000 + next() % 200_000,
    };
    let mut body = format!("{target} has {length} bytes\n").into_bytes();
    while (body.len() as u64) < length {
        body.extend_from_slice(&next().to_le_bytes());
    }
    body.truncate(usize::try_from(length).unwrap());
    body
}

/// Fails, naming the first wrong byte, unless this is exactly what the target stands for.
#[track_caller]
pub fn assert_right(target: &str, answer: &Answer) {
    let right = body_of(target);
    let differs = right.iter().zip(&answer.body).position(|(a, b)| a != b);
    assert!(
        differs.is_none() && right.len() == answer.body.len(),
        "{target}: {} bytes for {}, first difference at {differs:?}; {} {:?}",
        answer.body.len(),
        right.len(),
        answer.status_line,
        answer.fields
    );
}

/// FNV-1a, then a finaliser, so that neighbouring targets have unlike low bits.
fn hash(text: &str) -> u64 {
    let fnv = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, b| {
        (hash ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let mixed = (fnv ^ fnv >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ mixed >> 33
}
