//! A kept file: its forms, each with the head of the answer and the content of an inode.

use std::{fs::File, io, os::unix::fs::FileExt, rc::Rc};

use larder_proto::{
    Ms,
    http::Fields,
    page::{Meta, PageFlags, PageView, Parts, TRAILER_LEN, Verify, encode_head, view},
};
use rustix::fs::Stat;

use crate::{
    net::sendfile::{Budget, FileCopy},
    origin::files::form::{self, Form},
    settings::TreeSettings,
};

/// The content of larger files is not kept, in bytes: from there on `sendfile` gains
/// (docs/decisions/0008).
pub(super) const SMALL: u64 = 16 << 10;
/// Memory besides the content that is counted for a file whose content is kept.
pub(super) const OVERHEAD: u64 = 1 << 10;
/// A file that was changed within these milliseconds may change again without another time of
/// change: its content is not kept.
const RECENT: Ms = 1000;

/// A file, ready to be sent.
#[derive(Debug)]
pub(crate) struct KeptFile {
    /// As it is, then compressed ones.
    pub(super) forms: Vec<KeptForm>,
}

/// One form of a file.
#[derive(Debug)]
pub(crate) struct KeptForm {
    pub(super) coding: Option<&'static str>,
    /// The head, as a page's record begins.
    pub(super) record: Vec<u8>,
    pub(super) inode: Rc<Inode>,
    /// It is text of which no compressed form lies beside it.
    pub(super) compressible: bool,
    /// Its type is one in which markup of ESI is expected.
    pub(super) markup: bool,
}

/// The content of a file, for all its names.
#[derive(Debug)]
pub(super) struct Inode {
    pub(super) identity: Identity,
    pub(super) content: KeptContent,
    pub(super) budget: Rc<Budget>,
}

/// Bytes of a file.
#[derive(Debug)]
pub(crate) enum KeptContent {
    /// Of a small file.
    Memory(Box<[u8]>),
    /// Of a larger one: its descriptor.
    File(Rc<FileCopy>),
}

/// Facts of a file of which some are different after any change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) device: u64,
    pub(super) inode: u64,
    size: i64,
    mode: u32,
    modified: (i64, u64),
    changed: (i64, u64),
}

impl Identity {
    pub(super) fn of(stat: &Stat) -> Identity {
        Identity {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: stat.st_size,
            mode: stat.st_mode,
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    pub(super) fn is_recent(&self, now: Ms) -> bool {
        let changed = u64::try_from(self.changed.0).unwrap_or_default() * 1000;
        now < changed + self.changed.1 / 1_000_000 + RECENT
    }
}

impl KeptFile {
    /// The form for a client: that with the fewest bytes of those it takes.
    pub(crate) fn form(&self, fields: Fields<'_>) -> &KeptForm {
        let forms = self.forms.iter().map(|form| (form.coding, form.len()));
        &self.forms[form::choose(fields, forms)]
    }
}

impl KeptForm {
    /// The answer's head and facts, as those of a stored page.
    pub(crate) fn page(&self) -> Option<PageView<'_>> {
        let length = self.record.len() as u64 + self.len() + TRAILER_LEN as u64;
        view(&self.record, length, Verify::Layout).ok()
    }

    /// Where pages are compressed, it is to be stored as one.
    pub(crate) fn is_compressible(&self) -> bool {
        self.compressible
    }

    /// Where pages may have markup of ESI, it is one.
    pub(crate) fn may_have_markup(&self) -> bool {
        self.markup
    }

    pub(crate) fn content(&self) -> &KeptContent {
        &self.inode.content
    }

    fn len(&self) -> u64 {
        self.inode.len()
    }
}

impl Inode {
    fn len(&self) -> u64 {
        match &self.content {
            KeptContent::Memory(bytes) => bytes.len() as u64,
            KeptContent::File(file) => file.len(),
        }
    }

    fn is_open(&self) -> bool {
        matches!(self.content, KeptContent::File(_))
    }

    /// There is memory for its content.
    fn takes_memory(&self) -> bool {
        self.len() + OVERHEAD <= self.budget.limit().0
    }

    /// Its content could be kept now.
    pub(super) fn may_be_copied(&self, now: Ms) -> bool {
        self.is_open()
            && self.len() <= SMALL
            && self.takes_memory()
            && !self.identity.is_recent(now)
    }
}

impl Drop for Inode {
    fn drop(&mut self) {
        if let KeptContent::Memory(bytes) = &self.content {
            self.budget.release(bytes.len() as u64 + OVERHEAD);
        }
    }
}

impl KeptFile {
    /// Whether it holds an open file (or memory for its content).
    pub(super) fn holds(&self, open: bool) -> bool {
        self.forms.iter().any(|form| form.inode.is_open() == open)
    }

    /// Whether it is kept as it will be, once its last change is not recent.
    pub(super) fn is_settled(&self) -> bool {
        let small = |form: &KeptForm| form.len() <= SMALL && form.inode.takes_memory();
        !self.forms.iter().any(|form| form.inode.is_open() && small(form))
    }

    /// Whether these are its forms, unchanged.
    pub(super) fn has(&self, forms: &[Form]) -> bool {
        let same = |(kept, form): (&KeptForm, &Form)| {
            kept.coding == form.coding && kept.inode.identity == Identity::of(&form.open.stat)
        };
        self.forms.len() == forms.len() && self.forms.iter().zip(forms).all(same)
    }

    /// The content of a form could be kept now.
    pub(super) fn may_be_copied(&self, now: Ms) -> bool {
        self.forms.iter().any(|form| form.inode.may_be_copied(now))
    }
}

/// The head of the answer.
pub(super) fn record(
    tree: &TreeSettings,
    name: &[u8],
    form: &Form,
    varies: bool,
    now: Ms,
) -> Option<Vec<u8>> {
    let mut head = b"HTTP/1.1 200 OK\r\n".to_vec();
    let mut line = |name: &str, value: &str| {
        // No value has a line end: types are checked by the configuration.
        head.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    };
    for (name, value) in form::fields(tree, name, form, varies, now / 1000) {
        line(name, &value);
    }
    line("Content-Length", &form.version.size.to_string());
    let meta = Meta {
        status: 200,
        flags: PageFlags::HAS_LENGTH,
        last_modified: form.version.last_modified(now / 1000),
        ..Meta::default()
    };
    let etag = form.version.etag();
    encode_head(&meta, &Parts { etag: etag.as_bytes(), head: &head, ..Parts::default() }).ok()
}

/// The content of a file of this size.
pub(super) fn read(file: &File, size: u64) -> io::Result<Box<[u8]>> {
    let mut bytes = vec![0; size as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes.into())
}
