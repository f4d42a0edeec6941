//! Names and identities in the source. Every name is opened by the descriptor of its directory, one
//! component at a time, and no symbolic link is followed: neither a link nor a name with dots leads
//! out of the source.

use std::{
    ffi::OsStr,
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use fuser::{FileAttr, FileType, INodeNo};
use rustix::{
    fs::{
        AtFlags, CWD, Mode, OFlags, ResolveFlags, Statx, StatxFlags, StatxTimestamp, fstatfs,
        makedev, openat, openat2, statx,
    },
    io::Errno,
};

/// Magic numbers of file systems on which every change comes from this system: ext2 to 4, XFS,
/// btrfs, tmpfs, overlayfs, F2FS, bcachefs, ZFS, ramfs.
const LOCAL: [u32; 9] = [
    0xEF53,
    0x5846_5342,
    0x9123_683E,
    0x0102_1994,
    OVERLAY,
    0xF2F5_2010,
    0xCA45_1A4E,
    0x2FC1_2FC1,
    0x8584_58F6,
];

/// The magic number of overlayfs.
const OVERLAY: u32 = 0x794C_7630;

/// A file for as long as it exists. The number of an inode may be given to another file later; the
/// time of its birth tells them apart, on file systems that know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    pub(super) device: u64,
    pub(super) inode: u64,
    born: (i64, u32),
    kind: u16,
}

impl Identity {
    pub(super) fn of(stat: &Statx) -> Identity {
        let known = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BTIME);
        let born = if known { (stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec) } else { (0, 0) };
        Identity { device: device(stat), inode: stat.stx_ino, born, kind: stat.stx_mode & FORMAT }
    }

    pub(super) fn is_directory(&self) -> bool {
        self.kind == FORMAT_DIRECTORY
    }

    pub(super) fn is_regular(&self) -> bool {
        self.kind == FORMAT_REGULAR
    }
}

/// The bits of a mode that tell the kind of a file, and two of its kinds (inode(7)).
const FORMAT: u16 = 0o170_000;
const FORMAT_DIRECTORY: u16 = 0o040_000;
const FORMAT_REGULAR: u16 = 0o100_000;

/// The device of a file.
pub(super) fn device(stat: &Statx) -> u64 {
    makedev(stat.stx_dev_major, stat.stx_dev_minor)
}

/// Opens the root of the source, to look up names below it.
pub(super) fn open_root(path: &Path) -> io::Result<OwnedFd> {
    Ok(openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Opens a name in a directory, to look at it: a link itself, no device. `own`: the device of this
/// mount, into which no name leads: a request to it would wait for itself.
pub(super) fn open_name(dir: impl AsFd, name: &OsStr, own: Option<u64>) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    match openat2(&dir, name, flags, Mode::empty(), beneath | ResolveFlags::NO_XDEV) {
        Err(Errno::XDEV) => {
            let opened = openat2(&dir, name, flags, Mode::empty(), beneath)?;
            // Without a request to the file system there, which may be this one.
            let at = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
            let stat = statx(&opened, "", at, StatxFlags::TYPE)?;
            if own == Some(device(&stat)) {
                return Err(Errno::LOOP.into());
            }
            Ok(opened)
        }
        opened => Ok(opened?),
    }
}

/// Opens a file for reading that was opened to look at it: the same one, whatever its name means
/// by now.
pub(super) fn open_to_read(looked: impl AsFd, directory: bool) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    if directory {
        return Ok(openat(looked, ".", flags | OFlags::DIRECTORY, Mode::empty())?);
    }
    Ok(openat(CWD, link(&looked), flags, Mode::empty())?)
}

/// The path by which the system names an open file.
pub(super) fn link(file: impl AsFd) -> String {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())
}

/// The attributes of an open file.
pub(super) fn stat(file: impl AsFd) -> io::Result<Statx> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    Ok(statx(file, "", AtFlags::EMPTY_PATH, wanted)?)
}

/// Whether every change of a directory comes from this system, so that it tells of it.
pub(super) fn is_local(directory: impl AsFd) -> bool {
    fstatfs(directory).is_ok_and(|system| LOCAL.contains(&(system.f_type as u32)))
}

/// Whether a directory is on overlayfs: passthrough then needs one level more of stacking.
pub(super) fn is_stacked(directory: impl AsFd) -> bool {
    fstatfs(directory).is_ok_and(|system| system.f_type as u32 == OVERLAY)
}

/// Attributes as the kernel wants them; `number`: the number of the inode in the mount.
pub(super) fn attributes(stat: &Statx, number: u64) -> FileAttr {
    FileAttr {
        ino: INodeNo(number),
        size: stat.stx_size,
        blocks: stat.stx_blocks,
        atime: time(&stat.stx_atime),
        mtime: time(&stat.stx_mtime),
        ctime: time(&stat.stx_ctime),
        crtime: UNIX_EPOCH,
        kind: kind(stat.stx_mode),
        perm: stat.stx_mode & !FORMAT,
        nlink: stat.stx_nlink,
        uid: stat.stx_uid,
        gid: stat.stx_gid,
        // The 32 bits of the protocol: minor, major, minor's upper part.
        rdev: (stat.stx_rdev_minor & 0xff)
            | (stat.stx_rdev_major << 8)
            | ((stat.stx_rdev_minor & !0xff) << 12),
        blksize: stat.stx_blksize,
        flags: 0,
    }
}

fn kind(mode: u16) -> FileType {
    match mode & FORMAT {
        FORMAT_DIRECTORY => FileType::Directory,
        0o120_000 => FileType::Symlink,
        0o010_000 => FileType::NamedPipe,
        0o020_000 => FileType::CharDevice,
        0o060_000 => FileType::BlockDevice,
        0o140_000 => FileType::Socket,
        _ => FileType::RegularFile,
    }
}

fn time(stamp: &StatxTimestamp) -> SystemTime {
    let nanos = Duration::from_nanos(u64::from(stamp.tv_nsec));
    let seconds = Duration::from_secs(stamp.tv_sec.unsigned_abs());
    let whole = match stamp.tv_sec {
        0.. => UNIX_EPOCH.checked_add(seconds),
        _ => UNIX_EPOCH.checked_sub(seconds),
    };
    whole.and_then(|whole| whole.checked_add(nanos)).unwrap_or(UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn no_name_leads_out() {
        let place = std::env::temp_dir().join(format!("larder-fuse-tree-{}", std::process::id()));
        fs::create_dir_all(place.join("in/below")).expect("directories");
        fs::write(place.join("secret"), "x").expect("a file");
        symlink("../secret", place.join("in/link")).expect("a link");
        symlink("/", place.join("in/root")).expect("a link");
        let root = open_root(&place.join("in")).expect("the root");
        for name in ["..", "../secret", "/etc/passwd", "root/etc", "below/../../secret"] {
            assert!(open_name(&root, OsStr::new(name), None).is_err(), "{name}");
        }
        let link = open_name(&root, OsStr::new("link"), None).expect("the link itself");
        assert_eq!(kind(stat(&link).expect("its attributes").stx_mode), FileType::Symlink);
        assert!(open_name(&root, OsStr::new("below"), None).is_ok());
        fs::remove_dir_all(&place).expect("removed");
    }
}
