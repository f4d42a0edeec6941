//! `larder mount` of a directory or a site, and the program under the name `mount.larder`, which
//! mount(8) starts.

use std::{
    io::{Read, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    sync::Arc,
};

use clap::Args;
use larder_fuse::{MountError, Mounted, Options};
use rustix::process::setsid;

use crate::{exit, signals::Signals, systemd};

/// Set in the environment of a process in the background.
const DAEMON: &str = "LARDER_MOUNT_BACKGROUND";
/// Its message when it is mounted.
const UP: &[u8] = b"mounted\n";

const HELP: &str = "\
larder mount /srv/files /mnt/files
larder mount /srv/files /mnt/files --allow-other -o lifetime=10m
larder mount http://127.0.0.1:8080/static/ /mnt/static
larder mount https://www.example.org/ /mnt/site

Options of -o: allow_other, lifetime=TIME [default: 60s], unwatched=TIME [1s], files=N, watches=N \
[65536], threads=N, nopassthrough, noopen, noexec, suid, dev, fsname=NAME; of a site: lifetime=TIME [1s], \
timeout=TIME [30s], dirs, queries. Those of fstab(5) are taken.

SIGTERM, SIGINT and umount(8) end it.

Exit code: 0 unmounted, 1 not mounted, 2 wrong usage.";

#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct MountArgs {
    /// The directory to mirror, read-only; or the URL of a site, by http or https
    #[arg(value_name = "SOURCE")]
    source: PathBuf,
    /// The directory to mount at
    #[arg(value_name = "TARGET")]
    target: PathBuf,
    /// Let other users use it, as the modes of the files say
    #[arg(long)]
    allow_other: bool,
    /// Options as mount(8) has them, with commas between
    #[arg(short = 'o', value_name = "OPTIONS")]
    options: Vec<String>,
    /// Return when it is mounted, and go on in the background
    #[arg(long)]
    background: bool,
}

/// Mounts, and stays until it is unmounted.
pub(crate) fn run(args: &MountArgs) -> ExitCode {
    let mut options = Options::default();
    options.mount.allow_other = args.allow_other;
    for list in &args.options {
        if let Err(fault) = options.take(list) {
            eprintln!("larder mount: -o {fault}");
            return ExitCode::from(exit::USAGE);
        }
    }
    if args.background && std::env::var_os(DAEMON).is_none() {
        return daemonize();
    }
    // Before the mount: a signal must not leave a mount without its program.
    let mut signals = match Signals::install() {
        Ok(signals) => signals,
        Err(error) => {
            eprintln!("larder mount: {error}");
            return ExitCode::from(exit::NOTHING);
        }
    };
    let mounted = match args.source.to_str().filter(|source| source.contains("://")) {
        Some(url) => larder_fuse::mount_site(url, &args.target, &options),
        None => larder_fuse::mount_directory(&args.source, &args.target, &options),
    };
    match mounted {
        Ok(mounted) => {
            say_mounted(args, &mounted);
            stay(Arc::new(mounted), &mut signals)
        }
        Err(error) => {
            eprintln!("larder mount: {error}");
            ExitCode::from(match error {
                MountError::Option(_) | MountError::Nested { .. } | MountError::Mirror(_) => {
                    exit::USAGE
                }
                _ => exit::NOTHING,
            })
        }
    }
}

fn say_mounted(args: &MountArgs, mounted: &Mounted) {
    let way = if mounted.is_site() {
        "pages are read through the server"
    } else if mounted.is_passthrough() {
        "the kernel reads the files itself (passthrough)"
    } else {
        "reads go through this program (no passthrough)"
    };
    let (source, target) = (args.source.display(), args.target.display());
    eprintln!("larder: {source} is mounted at {target}; {way}");
    systemd::notify("READY=1");
    if std::env::var_os(DAEMON).is_some() {
        leave();
    }
}

/// Waits for the end. A first signal unmounts; while files are open there the program goes on for
/// them, and a second signal ends it.
fn stay(mounted: Arc<Mounted>, signals: &mut Signals) -> ExitCode {
    let waiting = mounted.clone();
    if signals.during(move || waiting.wait()) {
        return exit::DONE;
    }
    systemd::notify("STOPPING=1");
    if let Err(error) = mounted.stop() {
        eprintln!("larder mount: cannot unmount: {error}");
        return ExitCode::from(exit::NOTHING);
    }
    let waiting = mounted.clone();
    if !signals.during(move || waiting.wait()) {
        eprintln!("larder mount: ended while files were open");
    }
    exit::DONE
}

/// Starts this command a second time, waits until it has mounted or has ended.
fn daemonize() -> ExitCode {
    let failed = |error: std::io::Error| {
        eprintln!("larder mount: {error}");
        ExitCode::from(exit::NOTHING)
    };
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return failed(error),
    };
    let mut words = std::env::args_os();
    let mut command = Command::new(program);
    if let Some(name) = words.next() {
        command.arg0(name);
    }
    command.args(words).env(DAEMON, "1").stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return failed(error),
    };
    let mut said = Vec::new();
    if let Some(out) = child.stdout.take() {
        let _ended = out.take(UP.len() as u64).read_to_end(&mut said);
    }
    if said == UP {
        return exit::DONE;
    }
    let code = child.wait().ok().and_then(|status| status.code());
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(exit::NOTHING).max(1))
}

/// The process in the background leaves the terminal and tells its parent.
fn leave() {
    let _leader_already = setsid();
    let _stays = std::env::set_current_dir("/");
    let mut out = std::io::stdout();
    let _gone = out.write_all(UP).and_then(|()| out.flush());
    if let Ok(null) = std::fs::OpenOptions::new().write(true).open("/dev/null") {
        let _stays = rustix::stdio::dup2_stdout(&null);
        let _stays = rustix::stdio::dup2_stderr(&null);
    }
}

/// The program as mount(8) starts it: `mount.larder SOURCE TARGET [-sfnv] [-o OPTIONS]`.
pub(crate) fn run_helper(words: &[String]) -> ExitCode {
    let mut args = MountArgs {
        source: PathBuf::new(),
        target: PathBuf::new(),
        allow_other: false,
        options: Vec::new(),
        background: true,
    };
    let (mut places, mut fake) = (Vec::new(), false);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.strip_prefix('-').filter(|letters| !letters.is_empty()) {
            Some("o") => args.options.extend(words.next().cloned()),
            // The namespace and the type: mount(8) is in the one, and the other is known.
            Some("N" | "t") => drop(words.next()),
            Some(letters) if letters.chars().all(|letter| "sfnv".contains(letter)) => {
                fake |= letters.contains('f');
            }
            Some(_) => return helper_usage(),
            None => places.push(Path::new(word).to_owned()),
        }
    }
    let [source, target] = <[PathBuf; 2]>::try_from(places).unwrap_or_default();
    if source.as_os_str().is_empty() {
        return helper_usage();
    }
    if fake {
        return exit::DONE;
    }
    (args.source, args.target) = (source, target);
    run(&args)
}

fn helper_usage() -> ExitCode {
    eprintln!("mount.larder: usage: mount.larder SOURCE TARGET [-sfnv] [-o OPTIONS]");
    ExitCode::from(exit::USAGE)
}
