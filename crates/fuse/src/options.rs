//! Options of a mount, as mount(8) passes them: a list with commas.

use std::time::Duration;

use larder_proto::units;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Names and attributes of watched directories are kept this long: for changes that the system
/// does not tell, such as writes to mapped memory.
const LIFETIME: Duration = Duration::from_secs(60);
/// The same for directories that cannot be watched.
const UNWATCHED: Duration = Duration::from_secs(1);
/// Watched directories, if not set: each takes about 1 KiB of the kernel's memory.
const WATCHES: usize = 65_536;
/// Descriptors, if not set, and however many the process may have: each keeps a file of the source
/// in the kernel's memory.
const MOST_FILES: usize = 65_536;
/// Threads, if not set and where there are as many processors.
const MOST_THREADS: usize = 16;
/// Threads that may be set.
const THREADS: usize = 256;
/// The longest lifetime, a year: longer ones have no use, and the protocol's fields an end.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);

/// All options of a mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Those of the mount itself.
    pub mount: MountOptions,
    /// Those of a mirrored directory.
    pub mirror: MirrorOptions,
    /// Those of a mounted site.
    pub site: SiteOptions,
}

/// Options of a mounted site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteOptions {
    /// How long names, attributes and absence are kept.
    pub lifetime: Duration,
    /// Names without a dot that the site does not know are directories.
    pub directories: bool,
    /// A question mark in a name begins a query.
    pub queries: bool,
    /// The limit for an operation, with all its requests and the wait for a connection.
    pub timeout: Duration,
}

impl Default for SiteOptions {
    fn default() -> SiteOptions {
        SiteOptions {
            lifetime: crate::site::LIFETIME,
            directories: false,
            queries: false,
            timeout: crate::site::TIMEOUT,
        }
    }
}

/// Options of the mount itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// Other users may use it; the modes of the files decide.
    pub allow_other: bool,
    /// Programs with the set-user-ID bit get that user's rights.
    pub suid: bool,
    /// Device files work.
    pub dev: bool,
    /// Programs cannot be run.
    pub noexec: bool,
    /// The name of the source in the table of mounts, instead of the source itself.
    pub name: Option<String>,
    /// Threads that answer requests.
    pub threads: usize,
}

impl Default for MountOptions {
    fn default() -> MountOptions {
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        MountOptions {
            allow_other: false,
            suid: false,
            dev: false,
            noexec: false,
            name: None,
            threads: processors.clamp(2, MOST_THREADS),
        }
    }
}

/// Options of a mirrored directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorOptions {
    /// How long names and attributes are kept in watched directories.
    pub lifetime: Duration,
    /// How long in others.
    pub unwatched: Duration,
    /// Descriptors that stay open. None: half of those that the process may have.
    pub files: Option<usize>,
    /// Directories that are watched for changes.
    pub watches: usize,
    /// The kernel reads files itself, where it can.
    pub passthrough: bool,
    /// The kernel asks for each open. Else it opens files by itself, and keeps their content.
    pub opens: bool,
}

impl Default for MirrorOptions {
    fn default() -> MirrorOptions {
        MirrorOptions {
            lifetime: LIFETIME,
            unwatched: UNWATCHED,
            files: None,
            watches: WATCHES,
            passthrough: true,
            opens: true,
        }
    }
}

/// Half of the descriptors that the process may have; the limit is raised to the one that is
/// allowed.
pub(crate) fn descriptors() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    current.map_or(MOST_FILES, |most| (most as usize / 2).clamp(16, MOST_FILES))
}

/// Options of mount(8) and fstab(5) that say nothing about a read-only mount by a program.
const WITHOUT_EFFECT: &[&str] = &[
    "ro",
    "rw",
    "defaults",
    "auto",
    "noauto",
    "user",
    "users",
    "nouser",
    "owner",
    "group",
    "nogroup",
    "_netdev",
    "nofail",
    "nosuid",
    "nodev",
    "exec",
    "atime",
    "noatime",
    "diratime",
    "nodiratime",
    "relatime",
    "norelatime",
    "strictatime",
    "lazytime",
    "nolazytime",
    "async",
    "sync",
    "dirsync",
    "default_permissions",
    "silent",
    "loud",
];

impl Options {
    /// Takes a list such as `allow_other,lifetime=10s`.
    pub fn take(&mut self, list: &str) -> Result<(), String> {
        for option in list.split(',').filter(|option| !option.is_empty()) {
            let (name, value) = match option.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (option, None),
            };
            self.take_one(name, value).map_err(|wanted| format!("{option}: {wanted}"))?;
        }
        Ok(())
    }

    fn take_one(&mut self, name: &str, value: Option<&str>) -> Result<(), String> {
        if name.starts_with("x-") || WITHOUT_EFFECT.contains(&name) || name == "comment" {
            return Ok(());
        }
        let needed = || value.ok_or_else(|| format!("give a value, as in {name}=..."));
        let time = || {
            let time =
                units::duration(needed()?).map_err(|expected| format!("expected {expected}"))?;
            if time > LONGEST { Err("at most 365d".to_owned()) } else { Ok(time) }
        };
        let number = |least: usize, most: usize| {
            let number = needed()?.parse().ok().filter(|number| (least..=most).contains(number));
            number.ok_or_else(|| format!("a number from {least} to {most}"))
        };
        match name {
            "allow_other" => self.mount.allow_other = true,
            "suid" => self.mount.suid = true,
            "dev" => self.mount.dev = true,
            "noexec" => self.mount.noexec = true,
            "fsname" => self.mount.name = Some(needed()?.to_owned()),
            "threads" => self.mount.threads = number(1, THREADS)?,
            "lifetime" => {
                self.mirror.lifetime = time()?;
                self.site.lifetime = self.mirror.lifetime;
            }
            "dirs" => self.site.directories = true,
            "queries" => self.site.queries = true,
            "timeout" => {
                let timeout = time()?;
                self.site.timeout = timeout.max(Duration::from_millis(1));
            }
            "unwatched" => self.mirror.unwatched = time()?,
            "files" => self.mirror.files = Some(number(1, 1 << 20)?),
            "watches" => self.mirror.watches = number(0, 1 << 24)?,
            "nopassthrough" => self.mirror.passthrough = false,
            // A file that the kernel opened by itself has no file below.
            "noopen" => (self.mirror.opens, self.mirror.passthrough) = (false, false),
            _ => {
                return Err("unknown. Larder's are allow_other, suid, dev, noexec, fsname=, \
                            threads=, lifetime=, unwatched=, files=, watches=, nopassthrough, \
                            noopen; of a site: dirs, queries, timeout="
                    .to_owned());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_as_mount_passes_them_are_read() {
        let mut options = Options::default();
        options.take("rw,nosuid,x-systemd.automount,,lifetime=9s").expect("known");
        options.take("allow_other,files=7,watches=0,threads=3").expect("known");
        options.take("nopassthrough,unwatched=0s,dirs,queries,timeout=2s").expect("known");
        assert_eq!(options.site.timeout, Duration::from_secs(2));
        assert_eq!(options.mirror.lifetime, Duration::from_secs(9));
        assert_eq!(options.mirror.unwatched, Duration::ZERO);
        assert_eq!((options.mirror.files, options.mirror.watches), (Some(7), 0));
        assert!(options.mount.allow_other && !options.mirror.passthrough);
        assert_eq!(options.mount.threads, 3);
        let mut options = Options::default();
        options.take("noopen").expect("known");
        assert!(!options.mirror.opens && !options.mirror.passthrough);
    }

    #[test]
    fn wrong_options_are_named() {
        let fault = |list| Options::default().take(list).expect_err("refused");
        assert_eq!(fault("files=0"), "files=0: a number from 1 to 1048576");
        assert_eq!(fault("lifetime"), "lifetime: give a value, as in lifetime=...");
        assert!(fault("allow_root").starts_with("allow_root: unknown."));
        assert_eq!(fault("lifetime=99999999s"), "lifetime=99999999s: at most 365d");
    }
}
