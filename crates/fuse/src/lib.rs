//! Mounts: a directory mirrored, read-only, at the speed of the files below; a site, through a
//! Larder.
//!
//! | file | what |
//! |---|---|
//! | `options.rs` | options as mount(8) passes them |
//! | `session.rs` | a mount from its start to its end |
//! | `mirror/` | a directory as a file system |
//! | `site/` | a site as a file system |
//!
//! The protocol with the kernel is fuser's. Nothing here knows the server, the store or its
//! configuration: a site is asked over HTTP, as any client asks it.
#![forbid(unsafe_code)]

mod mirror;
mod options;
mod session;
mod site;

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use thiserror::Error;

pub use crate::{
    options::{MirrorOptions, MountOptions, Options, SiteOptions},
    session::Mounted,
};

/// A mount that did not come about.
#[derive(Debug, Error)]
pub enum MountError {
    /// An option, with the reason.
    #[error("{0}")]
    Option(String),
    /// A path of the caller's.
    #[error("{}: {error}", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// Not a directory.
    #[error("{} is not a directory", .0.display())]
    NoDirectory(PathBuf),
    /// One of both is below the other.
    #[error(
        "{} and {} are one below the other: a look at the mount would wait for itself. Mount at a \
         directory outside of the source", source_path.display(), target.display()
    )]
    Nested {
        /// The source.
        source_path: PathBuf,
        /// The mount point.
        target: PathBuf,
    },
    /// The source is a mirror: two of them in a circle would wait for each other, and nothing could
    /// end them.
    #[error(
        "{} is a mirror of Larder's itself, and two of them could wait for each other. Mount the \
         source of that mirror", .0.display()
    )]
    Mirror(PathBuf),
    /// The system did not mount.
    #[error("cannot mount at {}: {error}{}", target.display(), hint(error))]
    System {
        /// The mount point.
        target: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
}

/// The remedy for the usual reasons.
fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => {
            ". /dev/fuse or fusermount3 is missing: `modprobe fuse`, or \
                                    install the package fuse3"
        }
        io::ErrorKind::PermissionDenied => {
            ". Users other than root need fusermount3 (the package \
                                            fuse3), and `user_allow_other` in /etc/fuse.conf for \
                                            `allow_other`"
        }
        _ => "",
    }
}

/// Mounts a read-only mirror of a directory. It ends with [`Mounted::stop`], or when somebody
/// unmounts it; [`Mounted::wait`] waits for that.
pub fn mount_directory(
    source: &Path,
    target: &Path,
    options: &Options,
) -> Result<Mounted, MountError> {
    session::clear_dead(target);
    let source = directory(source)?;
    let target = directory(target)?;
    if is_within(&source, &target)? || is_within(&target, &source)? {
        return Err(MountError::Nested { source_path: source, target });
    }
    if session::is_mirror(&source) {
        return Err(MountError::Mirror(source));
    }
    // The table of mounts would show it as the mount of a site.
    if let Some(name) = options.mount.name.as_deref().filter(|name| name.contains("://")) {
        let message = format!("fsname={name} is the name of a site, and {source:?} a directory");
        return Err(MountError::Option(message));
    }
    let ended = Arc::default();
    let opened = mirror::Mirror::open(&source, &options.mirror, Arc::clone(&ended));
    let files = opened.map_err(|error| MountError::Path { path: source.clone(), error })?;
    let served = files.served();
    let name = options.mount.name.clone().unwrap_or_else(|| source.to_string_lossy().into_owned());
    Mounted::start(files, served, ended, &name, &target, &options.mount)
        .map_err(|error| MountError::System { target, error })
}

/// Mounts a site by its URL: pages by path, read-only, as a Larder gives them.
pub fn mount_site(url: &str, target: &Path, options: &Options) -> Result<Mounted, MountError> {
    session::clear_dead(target);
    let target = directory(target)?;
    let ended = Arc::default();
    let files = site::Site::open(url, &options.site, Arc::clone(&ended));
    let files = files.map_err(|error| MountError::Option(error.to_string()))?;
    let name = options.mount.name.as_deref().unwrap_or(url);
    Mounted::start(files, Box::new(site::SiteServed), ended, name, &target, &options.mount)
        .map_err(|error| MountError::System { target, error })
}

/// The path of a directory without links and dots.
fn directory(path: &Path) -> Result<PathBuf, MountError> {
    let failed = |error| MountError::Path { path: path.to_owned(), error };
    let whole = fs::canonicalize(path).map_err(failed)?;
    if !fs::metadata(&whole).map_err(failed)?.is_dir() {
        return Err(MountError::NoDirectory(whole));
    }
    Ok(whole)
}

/// Whether a directory is `other` or below it, under whatever name (a bind mount).
fn is_within(path: &Path, other: &Path) -> Result<bool, MountError> {
    let identity = |path: &Path| {
        fs::metadata(path)
            .map(|stat| (stat.dev(), stat.ino()))
            .map_err(|error| MountError::Path { path: path.to_owned(), error })
    };
    let wanted = identity(other)?;
    for above in path.ancestors() {
        if identity(above)? == wanted {
            return Ok(true);
        }
    }
    Ok(false)
}
