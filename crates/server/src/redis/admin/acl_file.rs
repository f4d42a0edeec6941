//! ACL LOAD and ACL SAVE. A thread reads or writes the file; the command looks for its end in
//! steps, so that no worker waits for a disk.

use std::{
    fs::{self, File, OpenOptions},
    io::{Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{Receiver, TryRecvError, channel},
    },
};

use larder_proto::resp::{
    Args,
    acl::{self, User},
};

use crate::{
    redis::{
        ctx::Ctx,
        job::{Job, Progress},
    },
    settings::AclFile,
};

const NO_FILE: &str = "ERR This Redis instance is not configured to use an ACL file. You may want to specify users \
     via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis \
     configuration file set) in order to store users in the Redis configuration.";

pub(crate) fn load(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    start(ctx, args, |path, _| read(&path).map(Some));
}

pub(crate) fn save(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    start(ctx, args, |path, users| {
        let users = users.iter().map(|(name, user)| (&name[..], &**user));
        write(&path, &acl::write(users)).map(|()| None)
    });
}

/// The users that were read, or None for what was written.
type Result = std::result::Result<Option<AclFile>, String>;

/// All users by name.
type Users = Vec<(Box<[u8]>, Arc<User>)>;

fn start(ctx: &mut Ctx<'_>, args: &Args<'_>, work: fn(PathBuf, Users) -> Result) {
    let Some(path) = ctx.shared.settings.acl.as_ref().map(|file| file.path.clone()) else {
        return ctx.reply().error(NO_FILE);
    };
    let users = ctx.shared.acl.all();
    let (sender, result) = channel();
    let thread = std::thread::Builder::new().name("acl file".to_owned());
    let spawned = thread.spawn(move || {
        // Nobody waits for it if the server ends.
        let _ = sender.send(work(path, users));
    });
    match spawned {
        Ok(_) => ctx.go(Work { result }, args),
        Err(error) => ctx.reply().error(format!("ERR no thread for the file: {error}")),
    }
}

/// A read or write in progress.
struct Work {
    result: Receiver<Result>,
}

impl Job for Work {
    fn is_apart(&self) -> bool {
        true
    }

    fn step(&mut self, ctx: &mut Ctx<'_>, _args: &Args<'_>) -> Progress {
        let result = match self.result.try_recv() {
            Ok(result) => result,
            Err(TryRecvError::Empty) => return Progress::Again,
            Err(TryRecvError::Disconnected) => Err("the thread for the file has ended".to_owned()),
        };
        let loaded = match result {
            Ok(Some(file)) => {
                let (users, me) = (Arc::unwrap_or_clone(file.users), ctx.conn.known.id());
                ctx.shared.acl.load(ctx.shared, users, me).map_err(|full| full.error().to_owned())
            }
            Ok(None) => Ok(false),
            Err(text) => Err(format!("ERR {text}")),
        };
        match loaded {
            Ok(has_me) => {
                ctx.conn.closing |= has_me;
                ctx.reply().ok();
            }
            Err(text) => ctx.reply().error(text.replace(['\r', '\n'], " ")),
        }
        Progress::Done
    }
}

fn read(path: &Path) -> std::result::Result<AclFile, String> {
    let failed = |error: std::io::Error| {
        format!("Error loading ACLs, opening file '{}': {error}", path.display())
    };
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file =
        OpenOptions::new().read(true).custom_flags(nonblocking).open(path).map_err(failed)?;
    let is_file = file.metadata().is_ok_and(|data| data.is_file());
    let mut text = Vec::new();
    if is_file {
        file.take(AclFile::BYTES as u64 + 1).read_to_end(&mut text).map_err(failed)?;
    }
    if !is_file || text.len() > AclFile::BYTES {
        return Err(format!(
            "Error loading ACLs: '{}' is no file of at most {} bytes",
            path.display(),
            AclFile::BYTES
        ));
    }
    AclFile::parse(path.to_owned(), &text)
}

/// Writes a new file and puts it in the place of the old one, with its permissions and owner.
fn write(path: &Path, text: &[u8]) -> std::result::Result<(), String> {
    let beside = path.with_extension("new");
    let written = write_beside(path, &beside, text);
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written.map_err(|error| format!("There was an error trying to save the ACLs: {error}"))
}

fn write_beside(path: &Path, beside: &Path, text: &[u8]) -> std::io::Result<()> {
    let before = fs::metadata(path).ok();
    let _ = fs::remove_file(beside);
    let mode = before.as_ref().map_or(0o600, |data| data.permissions().mode() & 0o777);
    let mut file: File =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(beside)?;
    file.write_all(text)?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    if let Some(before) = before {
        // Only root may; the file is the server's own then.
        let _ = std::os::unix::fs::fchown(&file, Some(before.uid()), Some(before.gid()));
    }
    file.sync_all()?;
    fs::rename(beside, path)
}
