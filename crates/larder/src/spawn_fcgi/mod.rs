//! `larder spawn-fcgi`, and the program under the name `spawn-fcgi`: starts applications that speak
//! FastCGI, with the flags of lighttpd's program of that name.
//!
//! Scripts and unit files that start spawn-fcgi 1.6 can start Larder: it has the same flags,
//! messages and exit codes. The listening socket becomes descriptor 0 of each process. Processes
//! are started by [`crate::launch`].
//!
//! With `-c` this process stays outside of the new root, from which it could not start itself
//! again. It opens the socket as seen from within, and has a process of its own try the steps that
//! each application takes.

mod flags;
mod owner;
mod socket;
mod supervise;

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::OpenOptionsExt,
    },
    path::PathBuf,
    process::{Child, ExitCode, Stdio},
    time::Duration,
};

use self::owner::{Owner, find};
use crate::launch::{Launch, plain};

/// The compatible release.
const COMPATIBLE: &str = "1.6.4";

/// Exit code of all failures before a process is started (-1 in C).
const FAILED: u8 = 255;

/// Processes that are started at most; spawn-fcgi itself has no limit.
const MOST_FORKS: i32 = 10_000;

/// Time in which an application ends that cannot start, as in spawn-fcgi.
const EARLY_END: Duration = Duration::from_millis(100);

/// An end before a process is started.
#[derive(Debug)]
enum Exit {
    /// A message for standard error, behind the name of the program.
    Failure(String),
    /// The help, behind a message.
    Help { message: Option<String>, code: u8 },
    /// A text for standard output.
    Show(String),
    /// The reason was told.
    Told,
}

impl Exit {
    fn failure(message: impl Into<String>) -> Exit {
        Exit::Failure(message.into())
    }
}

impl From<String> for Exit {
    /// The messages of getopt. spawn-fcgi succeeds then.
    fn from(message: String) -> Exit {
        Exit::Help { message: Some(message), code: 0 }
    }
}

/// The flags as typed, or their defaults.
#[derive(Debug)]
struct Typed {
    /// `-f`, for /bin/sh.
    program: Option<String>,
    directory: Option<String>,
    address: Option<String>,
    port: u16,
    socket: Option<String>,
    mode: Option<u32>,
    /// `PHP_FCGI_CHILDREN`; None: it is not set.
    children: Option<i32>,
    forks: i32,
    backlog: i32,
    pid_file: Option<String>,
    no_fork: bool,
    /// Stays, and starts processes again that end; spawn-fcgi itself has no such flag.
    supervise: bool,
    root: Option<String>,
    /// The socket is opened outside of the root.
    socket_outside: bool,
    user: Option<String>,
    group: Option<String>,
    socket_user: Option<String>,
    socket_group: Option<String>,
    /// The application and its arguments.
    words: Vec<String>,
}

impl Default for Typed {
    fn default() -> Typed {
        Typed {
            program: None,
            directory: None,
            address: None,
            port: 0,
            socket: None,
            mode: None,
            children: None,
            forks: 1,
            backlog: 1024,
            pid_file: None,
            no_fork: false,
            supervise: false,
            root: None,
            socket_outside: false,
            user: None,
            group: None,
            socket_user: None,
            socket_group: None,
            words: Vec::new(),
        }
    }
}

/// Starts what the flags (without the program's own name) ask for.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let root = rustix::process::getuid().is_root();
    let (supervise, arguments) = supervise::asked(arguments);
    let begun =
        flags::read(&arguments, root).and_then(|typed| begin(&Typed { supervise, ..typed }, root));
    match begun {
        Ok(code) => code,
        Err(Exit::Failure(message)) => {
            eprintln!("spawn-fcgi: {message}");
            ExitCode::from(FAILED)
        }
        Err(Exit::Help { message, code }) => {
            if let Some(message) = message {
                eprintln!("{}: {message}", name());
            }
            print!("{}", flags::help());
            ExitCode::from(code)
        }
        Err(Exit::Told) => ExitCode::from(FAILED),
        Err(Exit::Show(text)) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
    }
}

/// The name of the program, as getopt takes it.
fn name() -> String {
    let name = std::env::args_os().next().unwrap_or_default().to_string_lossy().into_owned();
    if name.ends_with("spawn-fcgi") { name } else { format!("{name} spawn-fcgi") }
}

/// In spawn-fcgi's order: the flags together, the file of process numbers, the users, the socket.
fn begin(typed: &Typed, root: bool) -> Result<ExitCode, Exit> {
    check(typed)?;
    let mut pid_file = match &typed.pid_file {
        Some(path) if !typed.no_fork || typed.supervise => Some(open_pid_file(path)?),
        _ => None,
    };
    let owner = if root { find(typed)? } else { Owner::default() };
    if let Some(root) = typed.root.as_ref().filter(|_| !typed.socket_outside) {
        look_at_root(root)?;
    }
    let socket = socket::bind(typed, &owner)?;
    if let Some(root) = &typed.root {
        look_at_root(root)?;
    }
    let launch = Launch {
        name: "spawn-fcgi".into(),
        group: owner.group,
        groups_of: owner.name,
        root: typed.root.as_ref().map(PathBuf::from),
        user: owner.user,
        directory: typed.directory.as_ref().map(PathBuf::from),
        program: program(typed),
        arg0: typed.words.is_empty().then(|| "sh".into()),
        ..Launch::default()
    };
    if typed.supervise {
        try_steps(&launch)?;
        if let Some(file) = &mut pid_file {
            let _ = write!(file, "{}", std::process::id());
        }
        let launch = Launch { session: true, parent: Some(std::process::id()), ..launch };
        return supervise::run(typed, &launch, &socket).map(|()| ExitCode::SUCCESS);
    }
    if typed.no_fork {
        return Ok(become_application(typed, &launch, &socket));
    }
    try_steps(&launch)?;
    let launch = Launch { session: true, silent: true, ..launch };
    start(typed, &launch, &socket, pid_file.as_mut())
}

fn check(typed: &Typed) -> Result<(), Exit> {
    if typed.program.is_none() && typed.words.is_empty() {
        return Err(Exit::failure("no FastCGI application given"));
    }
    match (typed.port, &typed.socket) {
        (0, None) => Err(Exit::failure("no socket given (use either -p or -s)")),
        (1.., Some(_)) => {
            Err(Exit::failure("either a Unix domain socket or a TCP-port, but not both"))
        }
        (_, Some(path)) if path.len() > socket::LONGEST_PATH => {
            Err(Exit::failure("path of the Unix domain socket is too long"))
        }
        _ => Ok(()),
    }
}

/// The file is opened before anything else happens, and holds the numbers of running processes.
fn open_pid_file(path: &str) -> Result<File, Exit> {
    let failed = |error: io::Error| {
        Exit::failure(format!("opening PID-file '{path}' failed: {}", plain(&error)))
    };
    let mut options = OpenOptions::new();
    options.write(true).mode(0o644);
    match options.clone().create_new(true).open(path) {
        Ok(file) => return Ok(file),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed(error)),
    }
    let known = fs::metadata(path).map_err(|error| {
        Exit::failure(format!("stating PID-file '{path}' failed: {}", plain(&error)))
    })?;
    if !known.is_file() {
        let message = format!("PID-file exists and isn't regular file: '{path}'");
        return Err(Exit::Failure(message));
    }
    options.create(true).truncate(true).open(path).map_err(failed)
}

fn look_at_root(root: &str) -> Result<(), Exit> {
    let looked = socket::open_root(root);
    looked.map(drop).map_err(|error| {
        Exit::failure(format!("chroot('{root}') failed: {}", plain(&error.into())))
    })
}

/// The words behind `--`, or `-f` through the shell.
fn program(typed: &Typed) -> Vec<OsString> {
    if !typed.words.is_empty() {
        return typed.words.iter().map(OsString::from).collect();
    }
    let line = format!("exec {}", typed.program.as_deref().unwrap_or_default());
    vec!["/bin/sh".into(), "-c".into(), line.into()]
}

/// The name of PHP's variable, and the value of `-C`.
fn children(typed: &Typed) -> Option<(&'static str, String)> {
    typed.children.map(|count| ("PHP_FCGI_CHILDREN", count.to_string()))
}

/// `-n`: this process becomes the application.
fn become_application(typed: &Typed, launch: &Launch, socket: &OwnedFd) -> ExitCode {
    if let Err(error) = rustix::stdio::dup2_stdin(socket.as_fd()) {
        eprintln!("spawn-fcgi: {}", plain(&error.into()));
        return ExitCode::from(FAILED);
    }
    launch.run_with(children(typed))
}

/// Has a process take the steps before the program: its message, if one fails, is the only one.
fn try_steps(launch: &Launch) -> Result<(), Exit> {
    let steps = Launch { check: true, ..launch.clone() };
    let status = steps.command().stdin(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(Exit::Told),
        Err(error) => Err(Exit::failure(format!("fork failed: {}", plain(&error)))),
    }
}

/// Starts the processes, and tells what became of each.
fn start(
    typed: &Typed,
    launch: &Launch,
    socket: &OwnedFd,
    mut pid_file: Option<&mut File>,
) -> Result<ExitCode, Exit> {
    let mut started = Vec::new();
    for _ in 0..typed.forks {
        let mut command = launch.command();
        let given = socket.try_clone().map(Stdio::from);
        match given.and_then(|socket| command.envs(children(typed)).stdin(socket).spawn()) {
            Ok(child) => started.push(child),
            Err(error) => eprintln!("spawn-fcgi: fork failed: {}", plain(&error)),
        }
    }
    // One wait for all: each has had this time when it is asked.
    std::thread::sleep(EARLY_END);
    let mut code = 0;
    let count = started.len();
    for (number, child) in started.iter_mut().enumerate() {
        if let Some(failed) = look(child, pid_file.as_deref_mut(), number + 1 == count) {
            code = failed;
        }
    }
    Ok(ExitCode::from(code))
}

/// None: the process runs, and its number was written. Else the exit code that it stands for.
fn look(child: &mut Child, pid_file: Option<&mut File>, last: bool) -> Option<u8> {
    use std::os::unix::process::ExitStatusExt;

    let Ok(Some(status)) = child.try_wait() else {
        println!("spawn-fcgi: child spawned successfully: PID: {}", child.id());
        if let Some(file) = pid_file {
            let end = if last { "" } else { "\n" };
            let _ = write!(file, "{}{end}", child.id());
        }
        return None;
    };
    if let Some(code) = status.code() {
        eprintln!("spawn-fcgi: child exited with: {code}");
        return Some(u8::try_from(code).unwrap_or(FAILED));
    }
    match status.signal() {
        Some(signal) => eprintln!("spawn-fcgi: child signaled: {signal}"),
        None => eprintln!("spawn-fcgi: child died somehow: exit status = {}", status.into_raw()),
    }
    Some(1)
}
