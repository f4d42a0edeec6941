//! Clients in blocking commands (BLPOP, BZPOPMIN, ...).
//!
//! A client waits in the queue of each of its keys, and its command stays in its receive buffer. A
//! command that adds items to a list or sorted set serves the waiting clients at its end, in the
//! order in which they came, while it still holds the key ([`serve`]): nobody sees the items in
//! between, and a transaction serves them after its last command. For a client that moves an
//! element to another list (BLMOVE) that key is taken too; if somebody else has it, the client is
//! called instead, and its command runs again.
//!
//! A waiter's state is locked while an item is taken for it: it has the item, or it has timed out,
//! was unblocked or has gone.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use larder_proto::resp::{Args, Owned, Reply};
use larder_store::Namespace;
use parking_lot::Mutex;

use super::{
    attention,
    ctx::Ctx,
    data::{Wish, serve_one},
    job::{Job, Progress},
    known::flag,
    locks::KeptStripes,
    shared::{Face, Shared},
    slowlog::Slow,
    state::{Conn, ENTRY, gate},
    waiter::{State, Waiter},
};
use crate::{
    clock::Ms,
    net::out::Out,
    room::{Held, Place},
};

/// Milliseconds after which a client that waits without a limit looks again.
const LOOK: Ms = 3_600_000;

/// The clients that wait for a key.
type Queue = VecDeque<Arc<Waiter>>;
/// The same by database and key.
type Queues = HashMap<(u8, Box<[u8]>), Queue>;

/// All waiting clients.
#[derive(Default)]
pub(crate) struct Waiting {
    queues: Mutex<Queues>,
    clients: Mutex<HashMap<u64, Arc<Waiter>>>,
    count: AtomicUsize,
    /// Those of them that read for a group of a stream.
    readers: AtomicUsize,
}

/// A connection whose command waits.
pub(crate) struct Blocked {
    waiter: Arc<Waiter>,
    keys: Vec<Box<[u8]>>,
    /// None: it waits without a limit.
    deadline: Option<Ms>,
    #[allow(dead_code)] // held only for its drop
    held: Held,
}

impl Waiting {
    /// Number of waiting clients.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    fn enter(&self, shared: &Shared, blocked: &Blocked) {
        let mut queues = self.queues.lock();
        for key in &blocked.keys {
            let queue = queues.entry((blocked.waiter.db, key.clone())).or_default();
            queue.push_back(blocked.waiter.clone());
        }
        self.count.fetch_add(1, Relaxed);
        attention::set(shared, attention::WAITING, true);
        if blocked.wish().needs_key() {
            self.readers.fetch_add(1, Relaxed);
            attention::set(shared, attention::READERS, true);
        }
        drop(queues);
        self.clients.lock().insert(blocked.waiter.client.id, blocked.waiter.clone());
    }

    fn leave(&self, shared: &Shared, blocked: &Blocked) {
        let mut queues = self.queues.lock();
        for key in &blocked.keys {
            let name = (blocked.waiter.db, key.clone());
            if let Some(queue) = queues.get_mut(&name) {
                queue.retain(|waiter| !Arc::ptr_eq(waiter, &blocked.waiter));
                if queue.is_empty() {
                    queues.remove(&name);
                }
            }
        }
        if self.count.fetch_sub(1, Relaxed) == 1 {
            attention::set(shared, attention::WAITING, false);
        }
        if blocked.wish().needs_key() && self.readers.fetch_sub(1, Relaxed) == 1 {
            attention::set(shared, attention::READERS, false);
        }
        drop(queues);
        self.clients.lock().remove(&blocked.waiter.client.id);
    }

    /// A called client leaves its queues without what it was called for: the next ones are called.
    fn pass_on(&self, blocked: &Blocked) {
        for key in &blocked.keys {
            for waiter in self.of(blocked.waiter.db, key) {
                if waiter.call() {
                    break;
                }
            }
        }
    }

    /// The clients that wait for a key, in their order.
    fn of(&self, db: u8, key: &[u8]) -> Queue {
        self.queues.lock().get(&(db, Box::from(key))).cloned().unwrap_or_default()
    }

    fn waits(&self, shared: &Shared, ns: Namespace, key: &[u8]) -> bool {
        shared.database(ns).is_some_and(|db| self.queues.lock().contains_key(&(db, Box::from(key))))
    }

    /// Has the commands of all clients run again that wait in a database: it has another place.
    pub(crate) fn call_all(&self, databases: [u8; 2]) {
        let clients = self.clients.lock();
        for waiter in clients.values().filter(|waiter| databases.contains(&waiter.db)) {
            waiter.call();
        }
    }

    /// The keys of some databases that clients wait for who need them.
    fn needed(&self, databases: &Range<u8>) -> Vec<(u8, Box<[u8]>)> {
        let queues = self.queues.lock();
        let needed = queues.iter().filter(|((db, _), queue)| {
            databases.contains(db) && queue.iter().any(|waiter| waiter.wish.needs_key())
        });
        needed.map(|(name, _)| name.clone()).collect()
    }

    /// No command has removed a key: the commands of those who need it run again.
    pub(crate) fn removed(&self, db: u8, key: &[u8]) {
        for waiter in self.of(db, key).iter().filter(|waiter| waiter.wish.needs_key()) {
            waiter.misses();
        }
    }

    /// CLIENT UNBLOCK. False: the client does not wait.
    pub(crate) fn unblock(&self, client: u64, with_error: bool) -> bool {
        let Some(waiter) = self.clients.lock().get(&client).cloned() else { return false };
        waiter.change(|state| {
            if !matches!(*state, State::Waiting | State::Called) {
                return false;
            }
            *state = State::Unblocked { with_error, called: *state == State::Called };
            waiter.client.call();
            true
        })
    }
}

impl Blocked {
    /// Notes its entry of the slow log.
    pub(super) fn was_slow(&self, shared: &Shared, entry: Slow) {
        self.waiter.was_slow(shared, entry);
    }

    /// Whether its command is to run again.
    pub(super) fn is_called(&self) -> bool {
        self.waiter.is_called()
    }
}

impl Face {
    /// A list or sorted set has new items.
    #[inline]
    pub(crate) fn signal(&self, ns: Namespace, key: &[u8]) {
        if attention::any(&self.shared, attention::WAITING)
            && self.shared.waiting.waits(&self.shared, ns, key)
        {
            self.ready.borrow_mut().push_back((ns, key.into()));
        }
    }

    /// Databases were emptied: clients may need keys of theirs.
    pub(crate) fn signal_flushed(&self, databases: &Range<u8>) {
        if attention::any(&self.shared, attention::READERS) {
            for (db, key) in self.shared.waiting.needed(databases) {
                self.ready.borrow_mut().push_back((self.shared.namespace(db), key));
            }
        }
    }

    /// As [`Face::signal`], to be served before others.
    fn signal_first(&self, ns: Namespace, key: &[u8]) {
        if attention::any(&self.shared, attention::WAITING)
            && self.shared.waiting.waits(&self.shared, ns, key)
        {
            self.ready.borrow_mut().push_front((ns, key.into()));
        }
    }
}

/// Serves the clients that wait for keys with new items, in steps. The keys are still held.
#[inline]
pub(crate) fn serve(face: &Face, conn: &mut Conn, now: Ms, out: &mut Out) {
    if !face.ready.borrow().is_empty() {
        serve_all(face, conn, now, out);
    }
}

#[cold]
fn serve_all(face: &Face, conn: &mut Conn, now: Ms, out: &mut Out) {
    let none = Owned::new(&[]);
    Ctx::new(face, conn, now, out).go(Serving::default(), &none.args());
}

/// A key of a namespace.
type Key = (Namespace, Box<[u8]>);

/// Keys with new items.
pub(crate) type Ready = VecDeque<Key>;

/// Waiting clients being served.
#[derive(Default)]
struct Serving {
    /// Keys with new items, and those among them that were served.
    ready: Ready,
    served: HashSet<Key>,
    /// The current key, and its clients that are still to be served.
    key: Option<Key>,
    waiters: Queue,
    /// Keys of other lists that clients have moved elements to.
    kept: Vec<KeptStripes>,
}

impl Job for Serving {
    fn step(&mut self, ctx: &mut Ctx<'_>, _: &Args<'_>) -> Progress {
        let (ns, db) = (ctx.ns, ctx.db);
        let progress = self.serve_some(ctx);
        (ctx.ns, ctx.db) = (ns, db);
        progress
    }
}

impl Serving {
    fn serve_some(&mut self, ctx: &mut Ctx<'_>) -> Progress {
        let shared = ctx.shared;
        let mut held = Vec::new();
        loop {
            if self.waiters.is_empty() && !self.next_key(ctx) {
                return Progress::Done;
            }
            if let (Some((ns, key)), Some(waiter)) = (&self.key, self.waiters.pop_front()) {
                (ctx.ns, ctx.db) = (*ns, shared.database(*ns).unwrap_or_default());
                // A called one comes first, and serves the others when it has run.
                if waiter.is_called() || !serve_one(ctx, shared, key, &waiter, &mut held) {
                    self.waiters.clear();
                }
                waiter.log(shared);
            }
            if ctx.is_over() {
                self.kept.extend(held.drain(..).map(|guard| guard.keep(&ctx.face.shared)));
                return Progress::Again;
            }
        }
    }

    /// Begins with the next key. False: there is none.
    fn next_key(&mut self, ctx: &Ctx<'_>) -> bool {
        if self.ready.is_empty() {
            self.served.clear();
            self.ready = std::mem::take(&mut *ctx.face.ready.borrow_mut());
        }
        let Some(key) = self.ready.pop_front() else { return false };
        if self.served.insert(key.clone()) {
            self.waiters = ctx
                .shared
                .database(key.0)
                .map_or_else(Queue::default, |db| ctx.shared.waiting.of(db, &key.1));
            self.key = Some(key);
        }
        true
    }
}

impl Ctx<'_> {
    /// Has the command wait for items of these keys, which it holds, until `deadline`. In a
    /// transaction it does not wait. False: answered instead.
    pub(super) fn wait(&mut self, keys: Vec<Box<[u8]>>, wish: Wish, deadline: Option<Ms>) {
        if self.conn.in_exec {
            return self.reply().null_array();
        }
        if let Some(blocked) = self.conn.blocked.as_ref() {
            // It was called for nothing, and keeps its place.
            blocked.waiter.change(|state| {
                if *state == State::Called {
                    *state = State::Waiting;
                }
            });
            return;
        }
        let mut held = Held::new(&self.conn.known.client.holder, Place::Heap);
        let bytes: usize = keys.iter().map(|key| 2 * (key.len() + ENTRY)).sum();
        if !held.resize(bytes as u64) {
            return self.reply().error("OOM no room for the keys of a waiting client");
        }
        let client = self.conn.known.client.clone();
        let waiter = Arc::new(Waiter::new(client, self.db, self.version, wish));
        let blocked = Blocked { waiter, keys, deadline, held };
        self.shared.waiting.enter(self.shared, &blocked);
        // One that was evicted before it entered was told to nobody.
        if blocked.wish().needs_key() && blocked.keys.iter().any(|key| self.look(key).is_none()) {
            blocked.waiter.call();
        }
        self.conn.blocked = Some(Box::new(blocked));
        self.conn.known.raise(flag::BLOCKED);
        self.conn.set_gate(gate::BLOCKED, true);
    }
}

impl Ctx<'_> {
    /// A command that was called has items, and goes on in steps.
    pub(crate) fn waits_no_more(&mut self) {
        if self.conn.blocked.is_some() {
            ended(self.face, self.conn);
        }
    }
}

/// A command has ended. If it was called for items, and waits no more, it leaves its queues, and
/// those behind it are looked at.
#[cold]
pub(crate) fn ended(face: &Face, conn: &mut Conn) {
    let Some(blocked) = conn.blocked.as_ref().filter(|blocked| blocked.is_called()) else { return };
    for key in &blocked.keys {
        face.signal_first(face.shared.namespace(blocked.waiter.db), key);
    }
    leave(&face.shared, conn);
}

impl Blocked {
    /// The items that it waits for.
    pub(super) fn wish(&self) -> &Wish {
        &self.waiter.wish
    }
}

/// Ends the waiting of a connection.
pub(crate) fn end(shared: &Shared, conn: &mut Conn) {
    if let Some((blocked, State::Called | State::Unblocked { called: true, .. })) =
        leave(shared, conn)
    {
        shared.waiting.pass_on(&blocked);
    }
}

/// Takes a connection from its queues; returns its last state.
fn leave(shared: &Shared, conn: &mut Conn) -> Option<(Box<Blocked>, State)> {
    let blocked = conn.blocked.take()?;
    let state = blocked.waiter.change(|state| std::mem::replace(state, State::Ended));
    shared.waiting.leave(shared, &blocked);
    conn.known.lower(flag::BLOCKED);
    conn.set_gate(gate::BLOCKED, false);
    Some((blocked, state))
}

/// Milliseconds until a waiting command is looked at again without a call.
pub(crate) fn time_left(blocked: &Blocked, now: Ms) -> Ms {
    blocked.deadline.map_or(LOOK, |deadline| deadline.saturating_sub(now).clamp(1, LOOK))
}

/// Looks at a waiting command. Some(true): it has ended, and is answered. None: it runs again.
#[cold]
pub(crate) fn look(face: &Face, conn: &mut Conn, now: Ms, out: &mut Out) -> Option<bool> {
    let blocked = conn.blocked.as_ref()?;
    let is_late = blocked.deadline.is_some_and(|deadline| deadline <= now);
    let ended = blocked.waiter.change(|state| {
        match state {
            State::Called => return None,
            State::Waiting if !is_late => return Some(false),
            State::Served(answer) => out.scratch().extend_from_slice(answer),
            State::Unblocked { with_error: true, .. } => Reply::new(out.scratch(), conn.version)
                .error("UNBLOCKED client unblocked via CLIENT UNBLOCK"),
            State::Waiting | State::Unblocked { .. } | State::Ended => {
                let mut reply = Reply::new(out.scratch(), conn.version);
                match blocked.wish() {
                    Wish::Nothing => reply.ok(),
                    _ => reply.null_array(),
                }
            }
        }
        Some(true)
    });
    if ended == Some(true) {
        end(&face.shared, conn);
    }
    ended
}
