//! Users and their rights: the users of the process, the rights of a connection, ACL LOG. The rules
//! are in `larder_proto::resp::acl`, the commands in [`super::admin`].
//!
//! A connection remembers its user as it was at the last look. Every change of a user raises a
//! number (`Shared::changes`); a connection that has seen another looks again before its next
//! command, at the place of its database too.
//! A connection whose user may do everything pays one branch for this, on a word that other
//! observers share ([`super::attention`]).

mod log;
mod rights;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use larder_proto::resp::acl::{self, Hash, User};
use parking_lot::{Mutex, RwLock};

use super::{
    hub::Kind,
    known::{Known, flag},
    shared::Shared,
};
use crate::{
    room::{Holding, Room},
    settings::{RedisSettings, Secret, sha256},
};

pub(crate) use log::{AclLog, Context, Reason};
pub(crate) use rights::{
    Rights, check, check_in_script, check_queued, check_reading_all, enter, is_behind, log_in,
    may_call, may_go_on, refusal,
};

/// Name of the user of connections that have not authenticated.
pub(crate) const DEFAULT: &[u8] = b"default";

/// The users by name.
pub(crate) type Users = BTreeMap<Box<[u8]>, User>;

/// A user that connections refer to.
#[derive(Debug)]
pub(crate) struct Slot {
    name: Box<[u8]>,
    user: RwLock<Arc<User>>,
    /// The user was deleted: its connections end.
    gone: AtomicBool,
}

impl Slot {
    fn new(name: &[u8], user: User) -> Arc<Slot> {
        let user = RwLock::new(Arc::new(user));
        Arc::new(Slot { name: name.into(), user, gone: AtomicBool::new(false) })
    }

    pub(crate) fn user(&self) -> Arc<User> {
        self.user.read().clone()
    }
}

/// The users, and the memory that they take.
struct Slots {
    all: BTreeMap<Box<[u8]>, Arc<Slot>>,
    held: Holding,
}

/// Users of the process.
pub(crate) struct Acl {
    slots: RwLock<Slots>,
    /// The user `default`, which always exists.
    default: Arc<Slot>,
    /// The user `default` needs no password.
    is_open: AtomicBool,
    /// Connections must authenticate: the user `default` needs a password, or is off.
    asks: AtomicBool,
    /// The users of the configuration, as they were applied last.
    configured: Mutex<Users>,
    pub(crate) log: Mutex<AclLog>,
}

/// Reasons to refuse a change of users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// There are too many.
    Many,
    /// There is no memory for their rules.
    Room,
}

impl Full {
    pub(crate) fn error(self) -> &'static str {
        match self {
            Full::Many => "ERR there may be 1024 users",
            Full::Room => "OOM no room for the rules of so many users",
        }
    }
}

/// The users that a configuration describes.
fn configured(settings: &RedisSettings) -> Users {
    let default = || match &settings.password {
        Some(password) => User::with_passwords(&[sha256(password.bytes())]),
        None => User::open(),
    };
    if let Some(file) = &settings.acl {
        let mut users = (*file.users).clone();
        users.entry(DEFAULT.into()).or_insert_with(default);
        return users;
    }
    let mut passwords: BTreeMap<&str, Vec<Hash>> = BTreeMap::new();
    for (name, password) in settings.users.iter().flat_map(|users| users.iter()) {
        passwords.entry(name).or_default().push(sha256(password.bytes()));
    }
    let mut users: Users = passwords
        .iter()
        .map(|(name, hashes)| (name.as_bytes().into(), User::with_passwords(hashes)))
        .collect();
    users.insert(DEFAULT.into(), default());
    users
}

impl Acl {
    pub(crate) fn new(settings: &RedisSettings, room: &Arc<Room>) -> Acl {
        let configured = configured(settings);
        let all: BTreeMap<_, _> = configured
            .iter()
            .map(|(name, user)| (name.clone(), Slot::new(name, user.clone())))
            .collect();
        let default = match all.get(DEFAULT) {
            Some(slot) => slot.clone(),
            None => Slot::new(DEFAULT, User::open()),
        };
        let acl = Acl {
            slots: RwLock::new(Slots { all, held: Holding::new(room) }),
            default,
            is_open: AtomicBool::new(false),
            asks: AtomicBool::new(true),
            configured: Mutex::new(configured),
            log: Mutex::default(),
        };
        // The users of a configuration are served, whatever memory they take.
        acl.slots.write().charge();
        acl.look_at_default();
        acl
    }

    /// Returns whether the user `default` needs no password.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    fn look_at_default(&self) {
        let user = self.default.user();
        self.is_open.store(user.needs_no_password(), Ordering::Relaxed);
        self.asks.store(!user.needs_no_password() || !user.is_on(), Ordering::Relaxed);
    }

    /// Users have changed: connections look again.
    fn changed(&self, shared: &Shared) {
        self.look_at_default();
        shared.look_again();
    }

    pub(crate) fn slot(&self, name: &[u8]) -> Option<Arc<Slot>> {
        self.slots.read().all.get(name).cloned()
    }

    pub(crate) fn user(&self, name: &[u8]) -> Option<Arc<User>> {
        self.slot(name).map(|slot| slot.user())
    }

    /// The names of all users, in order.
    pub(crate) fn names(&self) -> Vec<Box<[u8]>> {
        self.slots.read().all.keys().cloned().collect()
    }

    /// All users by name.
    pub(crate) fn all(&self) -> Vec<(Box<[u8]>, Arc<User>)> {
        self.slots.read().all.iter().map(|(name, slot)| (name.clone(), slot.user())).collect()
    }

    /// The user that this name and password belong to.
    pub(crate) fn admitted(&self, name: &[u8], password: &[u8]) -> Option<Arc<Slot>> {
        let slot = self.slot(name)?;
        slot.user().admits(&sha256(password)).then_some(slot)
    }

    /// Puts `user` in the place of the one with this name, or adds it. Returns the user before.
    pub(crate) fn set(
        &self,
        shared: &Shared,
        name: &[u8],
        user: User,
    ) -> Result<Option<Arc<User>>, Full> {
        let mut slots = self.slots.write();
        let user = Arc::new(user);
        let before = match slots.all.get(name) {
            Some(slot) => Some(std::mem::replace(&mut *slot.user.write(), user)),
            None if slots.all.len() >= acl::USERS => return Err(Full::Many),
            None => {
                slots.all.insert(name.into(), Slot::new(name, (*user).clone()));
                None
            }
        };
        if !slots.charge() {
            match (slots.all.get(name), before) {
                (Some(slot), Some(before)) => *slot.user.write() = before,
                _ => drop(slots.all.remove(name)),
            }
            slots.charge();
            return Err(Full::Room);
        }
        drop(slots);
        self.changed(shared);
        Ok(before)
    }

    /// CONFIG SET requirepass; None: no password is needed.
    pub(crate) fn set_password(&self, shared: &Shared, password: Option<&Secret>) {
        let mut user = (*self.default.user()).clone();
        user.set_password(password.map(|password| sha256(password.bytes())));
        *self.default.user.write() = Arc::new(user);
        self.changed(shared);
    }

    /// Deletes users. Returns how many there were, and whether `me` was a connection of one.
    pub(crate) fn delete<'n>(
        &self,
        shared: &Shared,
        names: impl Iterator<Item = &'n [u8]>,
        me: u64,
    ) -> (usize, bool) {
        let mut slots = self.slots.write();
        let gone: Vec<_> = names.filter_map(|name| slots.all.remove(name)).collect();
        slots.charge();
        drop(slots);
        (gone.len(), self.end(shared, &gone, me))
    }

    /// Ends the connections of deleted users. Returns whether `me` is one; that is not ended.
    fn end(&self, shared: &Shared, gone: &[Arc<Slot>], me: u64) -> bool {
        if gone.is_empty() {
            return false;
        }
        gone.iter().for_each(|slot| slot.gone.store(true, Ordering::Release));
        self.changed(shared);
        let mut has_me = false;
        for known in shared.registry.list() {
            let user = known.text.lock().user.clone();
            if gone.iter().any(|slot| *slot.name == *user) {
                if known.id() == me {
                    has_me = true;
                } else {
                    known.client.kill();
                }
            }
        }
        has_me
    }

    /// ACL LOAD: these users in the place of all others. As in Redis, connections of users other
    /// than `default` end. Returns whether `me` is one; that is not ended.
    pub(crate) fn load(&self, shared: &Shared, users: Users, me: u64) -> Result<bool, Full> {
        let mut slots = self.slots.write();
        let new = users.into_iter().map(|(name, user)| (name.clone(), Slot::new(&name, user)));
        let before = std::mem::replace(&mut slots.all, new.collect());
        if !slots.charge() {
            slots.all = before;
            slots.charge();
            return Err(Full::Room);
        }
        let default = slots.all.insert(DEFAULT.into(), self.default.clone());
        *self.default.user.write() =
            default.map_or_else(|| Arc::new(User::open()), |new| new.user());
        drop(slots);
        let gone: Vec<_> = before.into_values().filter(|slot| *slot.name != *DEFAULT).collect();
        let has_me = self.end(shared, &gone, me);
        self.changed(shared);
        Ok(has_me)
    }

    /// A reload of the configuration: if its users have changed, they take the place of all others.
    /// Connections of users that remain go on with their new rights.
    pub(crate) fn reload(&self, shared: &Shared, settings: &RedisSettings) {
        let new = configured(settings);
        let mut last = self.configured.lock();
        if *last == new {
            return;
        }
        last.clone_from(&new);
        let mut slots = self.slots.write();
        let (mut gone, mut changed) = (Vec::new(), Vec::new());
        slots.all.retain(|name, slot| {
            let stays = new.contains_key(name);
            if !stays {
                gone.push(slot.clone());
            }
            stays
        });
        for (name, user) in new {
            match slots.all.get(&name) {
                Some(slot) => {
                    let before = std::mem::replace(&mut *slot.user.write(), Arc::new(user));
                    changed.push((name, before));
                }
                None => drop(slots.all.insert(name.clone(), Slot::new(&name, user))),
            }
        }
        slots.charge();
        drop(slots);
        self.changed(shared);
        self.end(shared, &gone, 0);
        for (name, before) in changed {
            let mut revoked = Revoked::new(shared, &name, &before);
            while revoked.as_mut().is_some_and(|revoked| revoked.step(shared, 0)) {}
        }
    }
}

impl Slots {
    /// Charges the memory of the rules. False: there is no room.
    fn charge(&mut self) -> bool {
        let bytes: usize =
            self.all.iter().map(|(name, slot)| name.len() + slot.user.read().bytes()).sum();
        self.held.resize(bytes as u64)
    }
}

/// A search for subscriptions that a changed user may not have any more; their connections end.
pub(crate) struct Revoked {
    user: Arc<User>,
    /// Subscribers of the user.
    clients: Vec<Arc<Known>>,
    /// The next part of the table of subscriptions.
    next: (Kind, usize),
    /// The connection that has changed the user is one of them.
    pub(crate) has_me: bool,
}

impl Revoked {
    /// None: nobody has such subscriptions.
    pub(crate) fn new(shared: &Shared, name: &[u8], before: &User) -> Option<Revoked> {
        let user = shared.acl.user(name)?;
        if !user.lacks_channels_of(before) {
            return None;
        }
        let mut clients = shared.registry.list();
        clients.retain(|known| known.has(flag::SUBSCRIBER) && known.text.lock().user == name);
        let next = (Kind::Channel, 0);
        (!clients.is_empty()).then_some(Revoked { user, clients, next, has_me: false })
    }

    /// Looks at the next part of the table. False: none remain.
    pub(crate) fn step(&mut self, shared: &Shared, me: u64) -> bool {
        let (kind, part) = self.next;
        let is_pattern = kind == Kind::Pattern;
        let (user, clients, has_me) = (&self.user, &self.clients, &mut self.has_me);
        let more = shared.hub.subscriptions(kind, part, &mut |name, ids| {
            let mut of_user = ids
                .filter_map(|id| clients.binary_search_by_key(&id, |known| known.id()).ok())
                .peekable();
            if of_user.peek().is_some() && !user.may_subscribe(name, is_pattern) {
                for known in of_user.map(|at| &clients[at]) {
                    if known.id() == me {
                        *has_me = true;
                    } else {
                        known.client.kill();
                    }
                }
            }
        });
        self.next = match (more, kind) {
            (true, _) => (kind, part + 1),
            (false, Kind::Channel) => (Kind::Shard, 0),
            (false, Kind::Shard) => (Kind::Pattern, 0),
            (false, Kind::Pattern) => return false,
        };
        true
    }
}
