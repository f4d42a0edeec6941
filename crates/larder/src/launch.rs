//! `larder app-exec`, a hidden command: it prepares its own process for an application, then
//! becomes it.
//!
//! The steps between fork and exec (a session, limits, another user, a root) need unsafe code in
//! the process that forks. So Larder starts itself a second time: the new process takes the steps,
//! all of them safe calls, and `exec` puts the application in its place. The listening socket is
//! its descriptor 0, as FastCGI has it (section 2.2 of the specification).

use std::{
    ffi::OsString,
    fs, io,
    os::{
        fd::AsFd,
        unix::{ffi::OsStrExt, process::CommandExt},
    },
    path::PathBuf,
    process::{Command, ExitCode},
};

use nix::unistd::{Gid, Uid, initgroups, setgid, setgroups, setuid};
use rustix::{
    io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd},
    process::{
        Pid, Resource, Rlimit, Signal, chroot, getppid, set_parent_process_death_signal, setrlimit,
        setsid,
    },
};

/// The hidden command.
pub(crate) const COMMAND: &str = "app-exec";

/// The first descriptor of `LISTEN_FDS` (sd_listen_fds(3)).
const LISTEN_FDS_START: i32 = 3;

/// Exit code if a step before `exec` failed.
const FAILED: u8 = 255;

/// The preparations of a process, in the order in which they are done, and its program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Launch {
    /// The name in messages.
    pub(crate) name: OsString,
    /// Ends after the preparations, without the program: 0 if they succeeded.
    pub(crate) check: bool,
    /// A session of its own, away from the terminal.
    pub(crate) session: bool,
    /// Standard output and error go to /dev/null.
    pub(crate) silent: bool,
    /// Resource limits by the names of [`LIMITS`], in units of setrlimit(2).
    pub(crate) limits: Vec<(String, u64)>,
    /// Group ID.
    pub(crate) group: Option<u32>,
    /// Supplementary groups are those of this user; None: there are none, if `group` is set.
    pub(crate) groups_of: Option<String>,
    /// Root directory.
    pub(crate) root: Option<PathBuf>,
    /// User ID.
    pub(crate) user: Option<u32>,
    /// Working directory, within the root, entered as that user.
    pub(crate) directory: Option<PathBuf>,
    /// Its parent: it is killed as soon as that has ended.
    pub(crate) parent: Option<u32>,
    /// The socket is descriptor 3 as well, as systemd hands it over (sd_listen_fds(3)).
    pub(crate) listen_fds: bool,
    /// The program and its arguments. Without a slash it is a file of the working directory, unless
    /// `search`.
    pub(crate) program: Vec<OsString>,
    /// The program's name for itself; None: as in `program`.
    pub(crate) arg0: Option<OsString>,
    /// A program without a slash is searched in PATH.
    pub(crate) search: bool,
}

/// Resource limits by name.
pub(crate) const LIMITS: [(&str, Resource); 6] = [
    ("nofile", Resource::Nofile),
    ("memory", Resource::As),
    ("processes", Resource::Nproc),
    ("cpu", Resource::Cpu),
    ("core", Resource::Core),
    ("file_size", Resource::Fsize),
];

impl Launch {
    /// The command that starts a process with these preparations.
    pub(crate) fn command(&self) -> Command {
        // The link stays right if the program's file is replaced while it runs.
        let mut command = Command::new("/proc/self/exe");
        command.arg0("larder").arg(COMMAND).arg("--name").arg(&self.name);
        for (set, flag) in [
            (self.check, "--check"),
            (self.session, "--session"),
            (self.silent, "--silent"),
            (self.listen_fds, "--listen-fds"),
            (self.search, "--search"),
        ] {
            if set {
                command.arg(flag);
            }
        }
        for (name, number) in
            [("--group", self.group), ("--user", self.user), ("--parent", self.parent)]
        {
            if let Some(number) = number {
                command.arg(name).arg(number.to_string());
            }
        }
        if let Some(user) = &self.groups_of {
            command.arg("--groups-of").arg(user);
        }
        if let Some(name) = &self.arg0 {
            command.arg("--arg0").arg(name);
        }
        for (name, path) in [("--root", &self.root), ("--directory", &self.directory)] {
            if let Some(path) = path {
                command.arg(name).arg(path);
            }
        }
        for (name, limit) in &self.limits {
            command.arg("--limit").arg(format!("{name}={limit}"));
        }
        command.arg("--").args(&self.program);
        command
    }

    /// From the words behind the name of the command. None: they are not from [`Launch::command`].
    fn parse(words: impl Iterator<Item = OsString>) -> Option<Launch> {
        let mut words = words;
        let mut launch = Launch::default();
        loop {
            let flag = words.next()?;
            let mut number = || words.next()?.to_str()?.parse::<u32>().ok();
            match flag.to_str()? {
                "--" => break,
                "--check" => launch.check = true,
                "--session" => launch.session = true,
                "--silent" => launch.silent = true,
                "--listen-fds" => launch.listen_fds = true,
                "--search" => launch.search = true,
                "--group" => launch.group = Some(number()?),
                "--user" => launch.user = Some(number()?),
                "--parent" => launch.parent = Some(number()?),
                "--name" => launch.name = words.next()?,
                "--arg0" => launch.arg0 = Some(words.next()?),
                "--groups-of" => launch.groups_of = Some(words.next()?.into_string().ok()?),
                "--root" => launch.root = Some(PathBuf::from(words.next()?)),
                "--directory" => launch.directory = Some(PathBuf::from(words.next()?)),
                "--limit" => {
                    let word = words.next()?;
                    let (name, limit) = word.to_str()?.split_once('=')?;
                    launch.limits.push((name.to_owned(), limit.parse().ok()?));
                }
                _ => return None,
            }
        }
        launch.program.extend(words);
        (!launch.program.is_empty() || launch.check).then_some(launch)
    }

    /// Prepares this process and becomes the program. Returns only if that failed, or at the end of
    /// a check; the code is that of the process.
    pub(crate) fn run(&self) -> ExitCode {
        self.run_with(None)
    }

    /// The same with a variable in the program's environment.
    pub(crate) fn run_with(&self, variable: Option<(&str, String)>) -> ExitCode {
        if let Err((step, error)) = self.prepare() {
            self.complain(&step, &error);
            return ExitCode::from(FAILED);
        }
        if self.check {
            return ExitCode::SUCCESS;
        }
        let [program, arguments @ ..] = self.program.as_slice() else {
            return ExitCode::from(FAILED);
        };
        let mut command = match self.search || program.as_bytes().contains(&b'/') {
            true => Command::new(program),
            false => Command::new(PathBuf::from(".").join(program)),
        };
        command.arg0(self.arg0.as_ref().unwrap_or(program)).args(arguments).envs(variable);
        if self.listen_fds {
            command.env("LISTEN_FDS", "1").env("LISTEN_PID", std::process::id().to_string());
        }
        let error = command.exec();
        self.complain("exec failed", &error);
        let code = error.raw_os_error().and_then(|code| u8::try_from(code).ok());
        ExitCode::from(code.unwrap_or(FAILED))
    }

    fn complain(&self, step: &str, error: &io::Error) {
        eprintln!("{}: {step}: {}", self.name.display(), plain(error));
    }

    /// The error is the name of the failed step, and its reason.
    fn prepare(&self) -> Result<(), (String, io::Error)> {
        let of = |step: &'static str| move |error: io::Error| (format!("{step}() failed"), error);
        if self.session {
            // Fails for the leader of a process group, which is away from its terminal already.
            let _ = setsid();
        }
        let null = match self.silent {
            true => Some(fs::OpenOptions::new().read(true).write(true).open("/dev/null")),
            false => None,
        };
        for (name, limit) in &self.limits {
            set_limit(name, *limit).map_err(|error| (format!("limits.{name} failed"), error))?;
        }
        if let Some(group) = self.group {
            setgid(Gid::from_raw(group)).map_err(io::Error::from).map_err(of("setgid"))?;
            match &self.groups_of {
                Some(user) => {
                    let user = std::ffi::CString::new(user.as_bytes())
                        .map_err(|_| of("initgroups")(io::ErrorKind::InvalidInput.into()))?;
                    initgroups(&user, Gid::from_raw(group)).map_err(io::Error::from)
                }
                None => setgroups(&[]).map_err(io::Error::from),
            }
            .map_err(of("setgroups"))?;
        }
        if let Some(root) = &self.root {
            let named = |call: &str| format!("{call}('{}') failed", root.display());
            chroot(root).map_err(|error| (named("chroot"), error.into()))?;
            std::env::set_current_dir("/")
                .map_err(|error| ("chdir('/') failed".to_owned(), error))?;
        }
        if let Some(user) = self.user {
            setuid(Uid::from_raw(user)).map_err(io::Error::from).map_err(of("setuid"))?;
        }
        if let Some(directory) = &self.directory {
            std::env::set_current_dir(directory)
                .map_err(|error| (format!("chdir('{}') failed", directory.display()), error))?;
        }
        if let Some(parent) = self.parent {
            follow(parent).map_err(of("prctl"))?;
        }
        if self.listen_fds {
            give_descriptor().map_err(of("dup"))?;
        }
        if let Some(Ok(null)) = null {
            let _ = rustix::stdio::dup2_stdout(&null);
            let _ = rustix::stdio::dup2_stderr(&null);
        }
        Ok(())
    }
}

/// Both the soft and the hard limit; the hard one is not raised.
fn set_limit(name: &str, limit: u64) -> io::Result<()> {
    let resource = LIMITS.iter().find(|(known, _)| *known == name).map(|(_, resource)| *resource);
    let resource = resource.ok_or(io::ErrorKind::InvalidInput)?;
    Ok(setrlimit(resource, Rlimit { current: Some(limit), maximum: Some(limit) })?)
}

/// This process is killed when `parent` ends; at once if it has ended. The signal is forgotten by
/// the kernel when the user changes, so this comes after.
fn follow(parent: u32) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let is_there = getppid()
        .map(Pid::as_raw_nonzero)
        .is_some_and(|pid| u32::try_from(pid.get()).is_ok_and(|pid| pid == parent));
    if is_there { Ok(()) } else { Err(io::Error::other("its parent has ended")) }
}

/// Makes the socket descriptor 3.
fn give_descriptor() -> io::Result<()> {
    let socket = fcntl_dupfd_cloexec(io::stdin().as_fd(), LISTEN_FDS_START)?;
    if std::os::fd::AsRawFd::as_raw_fd(&socket) != LISTEN_FDS_START {
        let message = "descriptor 3 is taken: Larder was started with it";
        return Err(io::Error::other(message));
    }
    fcntl_setfd(&socket, FdFlags::empty())?;
    // It belongs to the program that takes the place of this one.
    std::mem::forget(socket);
    Ok(())
}

/// The words of the C library, without the number.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error ") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}

/// Runs the hidden command with the words behind it.
pub(crate) fn run(words: impl Iterator<Item = OsString>) -> ExitCode {
    match Launch::parse(words) {
        Some(launch) => launch.run(),
        None => {
            eprintln!("larder: {COMMAND} is started by Larder itself");
            ExitCode::from(crate::exit::USAGE)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(launch: &Launch) -> Option<Launch> {
        let command = launch.command();
        Launch::parse(command.get_args().skip(1).map(std::ffi::OsStr::to_owned))
    }

    #[test]
    fn a_launch_arrives_as_it_was_meant() {
        let full = Launch {
            name: "larder".into(),
            check: true,
            session: true,
            silent: true,
            limits: vec![("nofile".to_owned(), 64), ("memory".to_owned(), 1 << 40)],
            group: Some(33),
            groups_of: Some("www-data".to_owned()),
            root: Some(PathBuf::from("/srv")),
            user: Some(34),
            directory: Some(PathBuf::from("/app")),
            parent: Some(1),
            listen_fds: true,
            arg0: Some("sh".into()),
            program: vec!["--check".into(), "--".into(), "a b".into()],
            search: true,
        };
        assert_eq!(through(&full), Some(full.clone()));
        let plain = Launch { program: vec!["php-cgi".into()], ..Launch::default() };
        assert_eq!(through(&plain), Some(plain.clone()));
        assert_eq!(through(&Launch::default()), None, "a program is missing");
    }

    #[test]
    fn other_words_are_refused() {
        for words in [&[][..], &["--check"], &["--user", "x", "--", "a"], &["--what", "--", "a"]] {
            assert_eq!(Launch::parse(words.iter().map(OsString::from)), None, "{words:?}");
        }
    }

    #[test]
    fn reasons_have_no_numbers() {
        let error = io::Error::from_raw_os_error(2);
        assert_eq!(plain(&error), "No such file or directory");
    }
}
