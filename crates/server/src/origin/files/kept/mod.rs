//! Files that are asked for again, kept ready: an open descriptor, or the content of a small file,
//! and the head of the answer.
//!
//! Each worker has its own, as with the copies of large pages (docs/decisions/0019): the system
//! counts references to an open file with atomic operations, for which workers would compete. A
//! name is looked at again after `check`, after a purge, and at once where the system tells of a
//! change ([`watch`](super::watch)). Names of one inode share its content.

mod file;

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
    io,
    rc::{Rc, Weak},
    sync::Arc,
};

use larder_proto::{Ms, http::DecodedPath};
use rustix::fs::{fstat, stat};

use self::file::{Identity, Inode, KeptFile, OVERHEAD, SMALL, read, record};
pub(crate) use self::file::{KeptContent, KeptForm};

use super::{
    form::{self, Form},
    watch::{Directory, Moment, Watcher},
};
use crate::{
    net::sendfile::{Budget, FileCopy},
    origin::tree::{self, Asked, Root},
    settings::TreeSettings,
};

/// Longer paths are not kept, in bytes.
const LONGEST_PATH: usize = 512;
/// A file whose changes are told is looked at after so many times `check`, for those that are not:
/// writes to mapped memory, other file systems.
const WATCHED_CHECKS: u64 = 30;
/// Names that one search for room looks at.
const EVICTION_SCAN: usize = 1024;
/// Milliseconds between two looks at the directories that trees begin at: none is below a watched
/// one.
const ROOT_CHECK: Ms = 1000;
/// Directories and trees whose state is remembered; with more, all are looked up again.
const REMEMBERED: usize = 8192;

/// The kept files of one worker.
pub(crate) struct KeptFiles {
    budget: Rc<Budget>,
    inner: RefCell<Inner>,
    seed: u64,
    watcher: Arc<Watcher>,
    /// When the directories that trees begin at were looked at last.
    roots_checked: Cell<Ms>,
}

#[derive(Default)]
struct Inner {
    /// Places of names in `names`, by their hash.
    places: HashMap<u64, usize, BuildHasherDefault<AsIs>>,
    names: Vec<Option<Name>>,
    /// Places without a name.
    free: Vec<usize>,
    /// Content by device and inode.
    inodes: HashMap<DeviceInode, Weak<Inode>>,
    /// The place at which the next search for room begins.
    hand: usize,
    /// Directories of kept files by the address of their tree, and their name below its root. None:
    /// it cannot be watched.
    directories: HashMap<(usize, Box<[u8]>), Option<Directory>>,
    /// Trees, with device and inode of the directory that each begins at.
    roots: Vec<(Arc<TreeSettings>, Option<DeviceInode>)>,
}

/// Device and inode.
type DeviceInode = (u64, u64);

/// A path that leads to a file.
struct Name {
    hash: u64,
    /// It keeps the tree, so that no other one has its address.
    tree: Arc<TreeSettings>,
    path: Box<str>,
    file: Rc<KeptFile>,
    /// See [`KeptFile::is_settled`].
    settled: bool,
    /// It was asked for since the hand came by.
    used: Cell<bool>,
    /// When it was looked at last.
    checked: Cell<Ms>,
    /// The count of purges then.
    purges: Cell<u64>,
    /// Events until then. None: its changes are not told.
    moment: Cell<Option<Moment>>,
}

/// The file that a path leads to.
struct Looked {
    /// Its name below the root.
    name: Vec<u8>,
    forms: Vec<Form>,
    /// Events before it was looked up.
    moment: Option<Moment>,
}

/// How a file was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// It was kept.
    Kept,
    /// It was opened.
    Opened,
    /// It was kept, and has been changed.
    Changed,
}

impl KeptFiles {
    /// None are kept yet. `seed`: a number that nobody outside can guess.
    pub(crate) fn new(budget: Rc<Budget>, seed: u64, watcher: Arc<Watcher>) -> KeptFiles {
        let (inner, roots_checked) = (RefCell::default(), Cell::new(0));
        KeptFiles { budget, inner, seed, watcher, roots_checked }
    }

    /// The file that answers a path, ready to be sent. None: something else answers, or there is no
    /// room. `purges`: a count of purges, after each of which files are looked at again.
    pub(crate) fn find(
        &self,
        tree: &Arc<TreeSettings>,
        target: &str,
        now: Ms,
        purges: u64,
    ) -> Option<(Rc<KeptFile>, Seen)> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let hash = rapidhash::v3::rapidhash_v3(path.as_bytes()) ^ self.seed;
        let hash = hash ^ (Arc::as_ptr(tree) as usize as u64);
        let inner = &mut *self.inner.borrow_mut();
        let place = inner.place(hash, tree, path);
        if now >= self.roots_checked.get() + ROOT_CHECK {
            self.check_roots(inner, now);
        }
        if let Some(name) = place.and_then(|place| inner.names[place].as_ref()) {
            name.used.set(true);
            if name.purges.get() == purges && self.is_fresh(name, now) {
                return Some((name.file.clone(), Seen::Kept));
            }
        }
        if self.budget.limit().1 == 0 || path.len() > LONGEST_PATH {
            return None;
        }
        let looked = self.look(inner, tree, path, query).ok().flatten();
        let Some(Looked { name, forms, moment }) = looked else {
            place.into_iter().for_each(|place| inner.remove(place));
            return None;
        };
        let seen = match place.and_then(|place| inner.names[place].as_ref()) {
            None => Seen::Opened,
            Some(known) if !known.file.has(&forms) => Seen::Changed,
            Some(known) if known.file.may_be_copied(now) => Seen::Kept,
            Some(known) => {
                known.checked.set(now);
                known.purges.set(purges);
                known.moment.set(moment);
                return Some((known.file.clone(), Seen::Kept));
            }
        };
        let file = Rc::new(self.keep(inner, tree, &name, forms, now)?);
        // Making room may have removed it already; another path may have the same hash.
        let before = inner.places.get(&hash).copied();
        before.into_iter().for_each(|place| inner.remove(place));
        inner.insert(Name {
            hash,
            tree: tree.clone(),
            path: path.into(),
            settled: file.is_settled(),
            file: file.clone(),
            used: Cell::new(false),
            checked: Cell::new(now),
            purges: Cell::new(purges),
            moment: Cell::new(moment),
        });
        Some((file, seen))
    }

    /// Whether a name need not be looked at.
    #[inline]
    fn is_fresh(&self, name: &Name, now: Ms) -> bool {
        let check = 1000 * u64::from(name.tree.check);
        match name.moment.get() {
            None => now < name.checked.get() + check,
            Some(moment) => {
                let checks = if name.settled { WATCHED_CHECKS } else { 1 };
                now < name.checked.get() + checks * check && self.watcher.is_current(&moment)
            }
        }
    }

    /// Looks whether trees begin at other directories by now.
    #[cold]
    fn check_roots(&self, inner: &mut Inner, now: Ms) {
        self.roots_checked.set(now);
        let before = inner.roots.len();
        inner.roots.retain(|(tree, _)| Arc::strong_count(tree) > 1);
        if inner.roots.len() < before {
            // Another tree may get the address.
            inner.directories.clear();
        }
        for (tree, before) in &mut inner.roots {
            let root = root_of(tree);
            if root != *before {
                *before = root;
                self.watcher.forget_paths();
            }
        }
    }

    /// The file that a path leads to, with its forms.
    fn look(
        &self,
        inner: &mut Inner,
        tree: &Arc<TreeSettings>,
        path: &str,
        query: &str,
    ) -> io::Result<Option<Looked>> {
        let Some(decoded) = DecodedPath::new(path) else { return Ok(None) };
        let asked = Asked { path, query, decoded: &decoded };
        inner.know_root(tree);
        let root = Root::open(&tree.root, tree.follow_links)?;
        let first = tree::first_name(tree, asked);
        let moment = first.as_deref().and_then(|name| self.moment(inner, tree, &root, name));
        let Some(found) = tree::find_file(tree, root, asked)? else { return Ok(None) };
        let name = found.name.clone();
        let forms = form::open(found)?;
        // A link may be changed elsewhere, and so may the file by another of its names.
        let told = |form: &Form| !form.open.linked && form.open.stat.st_nlink == 1;
        let moment = moment.filter(|_| first.as_ref() == Some(&name) && forms.iter().all(told));
        if moment.is_none() {
            inner.know_directory(tree, &name, None);
        }
        Ok(Some(Looked { name, forms, moment }))
    }

    /// The moment before a name is looked up. None: its changes are not told.
    fn moment(
        &self,
        inner: &mut Inner,
        tree: &Arc<TreeSettings>,
        root: &Root,
        name: &[u8],
    ) -> Option<Moment> {
        let directory = match inner.directories.get(&of_directory(tree, name)) {
            Some(None) => return None,
            Some(Some(known)) if self.watcher.is_there(*known) => *known,
            Some(Some(_)) | None => {
                let directory = self.watcher.directory(root, directory_of(name))?;
                inner.know_directory(tree, name, Some(directory));
                directory
            }
        };
        Some(self.watcher.moment(directory, &name[directory_of(name).len() + 1..]))
    }

    /// The forms of a file, ready to be sent. None: there is no room.
    fn keep(
        &self,
        inner: &mut Inner,
        tree: &TreeSettings,
        name: &[u8],
        forms: Vec<Form>,
        now: Ms,
    ) -> Option<KeptFile> {
        let varies = forms.len() > 1;
        let mut kept = Vec::with_capacity(forms.len());
        for form in forms {
            let record = record(tree, name, &form, varies, now)?;
            let coding = form.coding;
            let compressible = !varies && form::is_compressible(tree, name, &form);
            let markup = form::may_have_markup(tree, name);
            let inode = self.inode(inner, form, now)?;
            kept.push(KeptForm { coding, record, inode, compressible, markup });
        }
        Some(KeptFile { forms: kept })
    }

    /// The content of a file: that of another name, or a new one.
    fn inode(&self, inner: &mut Inner, form: Form, now: Ms) -> Option<Rc<Inode>> {
        let identity = Identity::of(&form.open.stat);
        let number = (identity.device, identity.inode);
        let known = inner.inodes.get(&number).and_then(Weak::upgrade);
        if let Some(known) = known.filter(|known| known.identity == identity)
            && !known.may_be_copied(now)
        {
            return Some(known);
        }
        let size = form.version.size;
        let takes = size + OVERHEAD;
        let small = size <= SMALL && takes <= self.budget.limit().0 && !identity.is_recent(now);
        let content = if small {
            inner.make_room(|| self.budget.has_bytes(takes), false, self.most())?;
            let bytes = read(&form.open.file, size).ok()?;
            // It may have been changed while it was read.
            if fstat(&form.open.file).ok().is_none_or(|stat| Identity::of(&stat) != identity) {
                return None;
            }
            self.budget.take(takes);
            KeptContent::Memory(bytes)
        } else {
            inner.make_room(|| self.budget.has_file(), true, self.most())?;
            KeptContent::File(FileCopy::of_file(form.open.file.into(), size, &self.budget))
        };
        let inode = Rc::new(Inode { identity, content, budget: self.budget.clone() });
        inner.share(number, &inode);
        Some(inode)
    }

    /// The most names.
    fn most(&self) -> usize {
        let (bytes, files) = self.budget.limit();
        files + usize::try_from(bytes / OVERHEAD).unwrap_or(usize::MAX)
    }
}

impl Inner {
    /// The place of a name.
    fn place(&self, hash: u64, tree: &Arc<TreeSettings>, path: &str) -> Option<usize> {
        let place = *self.places.get(&hash)?;
        let name = self.names[place].as_ref()?;
        (Arc::ptr_eq(&name.tree, tree) && *name.path == *path).then_some(place)
    }

    fn insert(&mut self, name: Name) {
        let hash = name.hash;
        let place = self.free.pop().unwrap_or_else(|| {
            self.names.push(None);
            self.names.len() - 1
        });
        self.names[place] = Some(name);
        self.places.insert(hash, place);
    }

    fn remove(&mut self, place: usize) {
        if let Some(name) = self.names[place].take() {
            self.places.remove(&name.hash);
            self.free.push(place);
        }
    }

    /// Remembers the directory of a name; one that is watched stays so.
    fn know_directory(
        &mut self,
        tree: &Arc<TreeSettings>,
        name: &[u8],
        directory: Option<Directory>,
    ) {
        if self.directories.len() >= REMEMBERED {
            self.directories.clear();
        }
        let known = self.directories.entry(of_directory(tree, name)).or_default();
        *known = directory.or(*known);
    }

    /// Remembers where a tree begins.
    fn know_root(&mut self, tree: &Arc<TreeSettings>) {
        if self.roots.iter().any(|(known, _)| Arc::ptr_eq(known, tree)) {
            return;
        }
        if self.roots.len() >= REMEMBERED {
            self.roots.clear();
            self.directories.clear();
        }
        self.roots.push((tree.clone(), root_of(tree)));
    }

    /// Lets names go that were not asked for lately until there is room, and fewer than `most` are
    /// left. `open`: open files are what there is too little of, else memory. None: there is no
    /// room.
    fn make_room(&mut self, has_room: impl Fn() -> bool, open: bool, most: usize) -> Option<()> {
        // The first round may find all in use, and leaves them unused for the second. Files that
        // are being sent stay open whatever goes, so a search ends.
        for _ in 0..(2 * self.names.len()).min(EVICTION_SCAN) {
            let room = has_room();
            let few = self.names.len() - self.free.len() < most;
            if room && few {
                return Some(());
            }
            let place = self.hand;
            self.hand = (place + 1) % self.names.len();
            let helps = |name: &Name| (!room && name.file.holds(open)) || !few;
            let unused = |name: &&Name| helps(name) && !name.used.replace(false);
            if self.names[place].as_ref().filter(unused).is_some() {
                self.remove(place);
            }
        }
        let few = self.names.len() - self.free.len() < most;
        (has_room() && few).then_some(())
    }

    /// Lets other names have this content.
    fn share(&mut self, number: (u64, u64), inode: &Rc<Inode>) {
        // Those that no name has any more, whenever they may be half of all.
        if self.inodes.len() > 64 + 4 * (self.names.len() - self.free.len()) {
            self.inodes.retain(|_, inode| inode.strong_count() > 0);
        }
        self.inodes.insert(number, Rc::downgrade(inode));
    }
}

/// The directory of a name below a root.
fn directory_of(name: &[u8]) -> &[u8] {
    &name[..name.iter().rposition(|byte| *byte == b'/').unwrap_or_default()]
}

fn of_directory(tree: &Arc<TreeSettings>, name: &[u8]) -> (usize, Box<[u8]>) {
    (Arc::as_ptr(tree) as usize, directory_of(name).into())
}

/// Device and inode of the directory that a tree begins at.
fn root_of(tree: &TreeSettings) -> Option<(u64, u64)> {
    stat(&tree.root).ok().map(|stat| (stat.st_dev, stat.st_ino))
}

/// The keys are hashes.
#[derive(Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
