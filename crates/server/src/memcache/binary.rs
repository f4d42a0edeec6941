//! Executes requests of the binary protocol. `proto::memcache::binary` decodes and encodes;
//! `ops.rs` changes the store.

use larder_proto::memcache::{
    binary::{
        self, Command, Decoded, Header, Status, count::Count, delete::Delete, flush::Flush, get,
        get::Get, sasl::Sasl, stat::Stat, store::Store,
    },
    sasl::{MAX_MESSAGE, PLAIN},
    text::Mode,
};
use larder_store::Entry;

use super::{
    Face, OBJECTS, auth,
    crawl::Walk,
    ops::{self, Counted, Deleted, NoMemory, Stop, Stored},
    stats::{self, lines::Form},
};
use crate::{
    clock::Ms,
    net::out::Out,
    object::{Client, WINDOW},
};

/// Version reported to clients: the memcached version that this face follows.
const VERSION: &[u8] = b"1.6.18";

/// State of a session in the binary protocol, kept between requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binary {
    /// The client may send any request.
    admitted: bool,
    /// An authentication has begun and needs another step.
    begun: bool,
}

/// Result of one request.
#[derive(Debug)]
pub(crate) enum Step {
    /// This many bytes are used.
    Used(usize),
    /// The value of this stub has to be read first.
    Away(Box<Entry<'static>>),
    /// The request is incomplete; it is complete at this many bytes.
    More(usize),
    /// As `More`; the missing part is the value.
    Block(usize),
    /// This many bytes must be discarded, received or not.
    Skip(u64),
    /// This many bytes are used. Behind them begins a value too long to buffer.
    Value(usize, Value),
    /// This many bytes are used. [`Walk::step`] continues a long answer.
    Walk(usize, Walk),
    /// The client ends the connection.
    Quit,
    /// An invalid request ends the connection.
    Fail,
}

/// A value that is stored as it arrives. [`Value::stored`] answers at its end.
#[derive(Debug)]
pub(crate) struct Value {
    header: Header,
    quiet: bool,
    pub(crate) mode: Mode,
    pub(crate) key: Box<[u8]>,
    pub(crate) flags: u32,
    pub(crate) expires: Option<Ms>,
    pub(crate) compare: Option<u64>,
    /// Length of the value in bytes.
    pub(crate) len: u64,
}

impl Value {
    /// Composes the answer.
    pub(crate) fn stored(&self, face: &Face, stored: Stored, out: &mut Out) {
        let write = ops::Write {
            mode: self.mode,
            key: &self.key,
            flags: self.flags,
            ..ops::Write::default()
        };
        answer_stored(face, (&self.header, self.quiet), (&write, self.len), stored, out);
    }
}

/// A request with the context that its handlers need.
struct Request<'r> {
    face: &'r Face,
    client: &'r Client,
    header: Header,
    now: Ms,
}

impl Binary {
    /// State of a new client.
    pub(crate) fn new(face: &Face) -> Self {
        Self { admitted: face.settings().sasl.is_none(), begun: false }
    }

    /// Executes the first request of `input`.
    pub(crate) fn turn(
        &mut self,
        face: &Face,
        client: &Client,
        input: &[u8],
        now: Ms,
        out: &mut Out,
    ) -> Step {
        let (header, command, used) = match binary::decode(input, self.admitted) {
            Decoded::Command(header, command, used) => (header, command, used),
            Decoded::Partial(whole) => return Step::More(whole),
            Decoded::Garbage => return Step::Fail,
            Decoded::Refused(refused) => return refuse(&refused, out),
        };
        let request = Request { face, client, header, now };
        if let Some(stub) = request.needed(&command) {
            return Step::Away(Box::new(stub));
        }
        match command {
            Command::Get(get) => {
                if let Some(stub) = request.get(&get, out) {
                    return Step::Away(Box::new(stub));
                }
            }
            Command::Store(store) => return request.store(&store, input, used, out),
            Command::Count(count) => request.count(&count, out),
            Command::Delete(delete) => request.delete(delete, out),
            Command::Flush(flush) => request.flush(flush, out),
            Command::Stat(stat) => return request.stat(stat, used, out),
            Command::Noop => binary::done(out.scratch(), &header, 0),
            Command::Version => binary::text(out.scratch(), &header, VERSION),
            Command::Quit(quiet) => {
                if !quiet {
                    binary::done(out.scratch(), &header, 0);
                }
                return Step::Quit;
            }
            Command::SaslList if face.settings().sasl.is_some() => {
                binary::text(out.scratch(), &header, PLAIN);
            }
            Command::SaslList => return refuse(&binary::unknown(header), out),
            Command::Sasl(sasl) => return self.authenticate(&request, &sasl, input, used, out),
        }
        Step::Used(used)
    }

    fn authenticate(
        &mut self,
        request: &Request<'_>,
        sasl: &Sasl<'_>,
        input: &[u8],
        used: usize,
        out: &mut Out,
    ) -> Step {
        let (header, len) = (&request.header, sasl.len as usize);
        let settings = request.face.settings();
        let Some(users) = &settings.sasl else { return refuse(&binary::unknown(*header), out) };
        // A message that is too long is invalid; it is not waited for.
        let message = if len > MAX_MESSAGE { Some(&[][..]) } else { input.get(used..used + len) };
        let Some(message) = message else { return Step::Block(used + len) };
        let step = if len > MAX_MESSAGE && sasl.mechanism == PLAIN {
            auth::Step::Failed
        } else {
            auth::sasl(users, sasl, message, self.begun)
        };
        self.begun = step == auth::Step::GoOn;
        let counters = &request.face.counters;
        if step != auth::Step::Invalid && step != auth::Step::GoOn {
            counters.auth_cmds.one();
        }
        match step {
            auth::Step::In => {
                self.admitted = true;
                binary::text(out.scratch(), header, b"Authenticated");
            }
            auth::Step::GoOn => binary::sasl::go_on(out.scratch(), header),
            auth::Step::Invalid => binary::error(out.scratch(), header, Status::Invalid),
            auth::Step::Failed => {
                // A failed login also ends an earlier one.
                self.admitted = false;
                counters.auth_errors.one();
                binary::error(out.scratch(), header, Status::AuthError);
            }
        }
        Step::Skip((used + len) as u64)
    }
}

fn refuse(refused: &binary::Refused, out: &mut Out) -> Step {
    binary::error(out.scratch(), &refused.header, refused.status);
    if refused.close { Step::Fail } else { Step::Skip(refused.skip) }
}

/// Answers a store request of `len` bytes.
fn answer_stored(
    face: &Face,
    (header, quiet): (&Header, bool),
    (write, len): (&ops::Write<'_>, u64),
    stored: Stored,
    out: &mut Out,
) {
    let mode = write.mode;
    let joins = matches!(mode, Mode::Append | Mode::Prepend);
    let status = match stored {
        Stored::Stored(_) if quiet => return,
        Stored::Stored(version) => {
            return binary::done(out.scratch(), header, face.version(version));
        }
        Stored::NoMemory => {
            let text = "Out of memory allocating item";
            return binary::error_saying(out.scratch(), header, Status::NoMemory, text);
        }
        Stored::Exists => Status::Exists,
        Stored::NotFound | Stored::NotStored if joins => Status::NotStored,
        // The sent value fits, the joined value does not.
        Stored::TooLarge if joins && ops::fits(face, write.key, write.flags, len) => {
            Status::NotStored
        }
        Stored::NotStored if mode == Mode::Add => Status::Exists,
        Stored::NotStored if mode == Mode::Replace => Status::NotFound,
        Stored::NotStored => Status::NotStored,
        Stored::NotFound => Status::NotFound,
        Stored::TooLarge => Status::TooLarge,
    };
    binary::error(out.scratch(), header, status);
}

impl Request<'_> {
    /// The version that the client requires.
    fn compare(&self) -> Option<u64> {
        (self.header.cas != 0).then_some(self.header.cas)
    }

    fn expires(&self, exptime: u32) -> Option<Ms> {
        ops::expires(i64::from(exptime), self.now)
    }

    /// The stub of a key whose value a request needs, but for gets.
    fn needed(&self, command: &Command<'_>) -> Option<Entry<'static>> {
        let key = match command {
            Command::Store(store) if matches!(store.mode, Mode::Append | Mode::Prepend) => {
                store.key
            }
            Command::Count(count) => count.key,
            _ => return None,
        };
        self.face.stub(key, self.now)
    }

    /// Returns a stub whose value has to be read first.
    #[inline]
    fn get(&self, get: &Get<'_>, out: &mut Out) -> Option<Entry<'static>> {
        let found = match get.touch {
            None => {
                let hint = self.face.store.hint(OBJECTS, get.key);
                ops::get(self.face, get.key, hint, self.now)
            }
            Some(exptime) if get.value => {
                ops::get_and_touch(self.face, get.key, self.expires(exptime), self.now)
            }
            Some(exptime) => {
                // The flags are reported even if this touch ends the item.
                let entry = self.face.store.peek(OBJECTS, get.key, self.now);
                let touched = ops::touch(self.face, get.key, self.expires(exptime), self.now);
                touched.map(|touched| entry.filter(|_| touched)).map_err(|NoMemory| Stop::NoMemory)
            }
        };
        let found = match found {
            Ok(found) => found,
            Err(Stop::Away(stub)) => return Some(stub),
            Err(Stop::NoMemory) => {
                binary::error(out.scratch(), &self.header, Status::NoMemory);
                return None;
            }
        };
        let Some(entry) = found else {
            get::miss(out.scratch(), &self.header, get);
            return None;
        };
        let (flags, len) = (entry.flags(), entry.len());
        let cas = self.face.version(entry.version());
        get::hit(out.scratch(), &self.header, get, flags, cas, len as u32);
        if get.value {
            out.stored(entry, 0, len);
        }
        None
    }

    fn store(&self, store: &Store<'_>, input: &[u8], used: usize, out: &mut Out) -> Step {
        let compare = self.compare();
        let joins = matches!(store.mode, Mode::Append | Mode::Prepend);
        let write = ops::Write {
            // Every store request with a version is a `cas`.
            mode: if compare.is_some() && !joins { Mode::Set } else { store.mode },
            key: store.key,
            flags: store.flags,
            expires: self.expires(store.exptime),
            compare,
            ..ops::Write::default()
        };
        let whole = used + store.len as usize;
        if let Some(value) = input.get(used..whole) {
            let stored = ops::store(self.face, &write, &[value], self.now);
            let answering = (&self.header, store.quiet);
            answer_stored(self.face, answering, (&write, u64::from(store.len)), stored, out);
            return Step::Used(whole);
        }
        if whole <= WINDOW {
            return Step::Block(whole);
        }
        let value = Value {
            header: self.header,
            quiet: store.quiet,
            mode: write.mode,
            key: store.key.into(),
            flags: write.flags,
            expires: write.expires,
            compare: write.compare,
            len: u64::from(store.len),
        };
        Step::Value(used, value)
    }

    fn count(&self, count: &Count<'_>, out: &mut Out) {
        let asked = ops::Count {
            key: count.key,
            delta: count.delta,
            down: count.down,
            compare: self.compare(),
            initial: count.initial.map(|(value, exptime)| (value, self.expires(exptime))),
            ..ops::Count::default()
        };
        let status = match ops::count(self.face, &asked, self.now) {
            Counted::Number { .. } if count.quiet => return,
            Counted::Number { value, version, .. } => {
                let cas = self.face.version(version);
                return binary::count::counted(out.scratch(), &self.header, value, cas);
            }
            Counted::NoMemory => {
                let text = "Out of memory incrementing value";
                return binary::error_saying(out.scratch(), &self.header, Status::NoMemory, text);
            }
            Counted::NotFound => Status::NotFound,
            Counted::NotNumber => Status::NotNumber,
            Counted::Exists => Status::Exists,
        };
        binary::error(out.scratch(), &self.header, status);
    }

    fn delete(&self, delete: Delete<'_>, out: &mut Out) {
        let status = match ops::delete(self.face, delete.key, self.compare(), self.now) {
            Deleted::Deleted if delete.quiet => return,
            Deleted::Deleted => return binary::done(out.scratch(), &self.header, 0),
            Deleted::NotFound => Status::NotFound,
            Deleted::Exists => Status::Exists,
        };
        binary::error(out.scratch(), &self.header, status);
    }

    fn flush(&self, flush: Flush, out: &mut Out) {
        if !self.face.settings().flush_all {
            return binary::error(out.scratch(), &self.header, Status::AuthError);
        }
        ops::flush(self.face, i64::from(flush.exptime), self.now);
        if !flush.quiet {
            binary::done(out.scratch(), &self.header, 0);
        }
    }

    fn stat(&self, stat: Stat<'_>, used: usize, out: &mut Out) -> Step {
        let form = Form::Binary { opaque: self.header.opaque.to_be_bytes() };
        match stats::command(self.face, self.client, stat.what, form, self.now, out) {
            Some(walk) => Step::Walk(used, walk),
            None => Step::Used(used),
        }
    }
}
