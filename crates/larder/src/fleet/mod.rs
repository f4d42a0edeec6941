//! `larder get`, `set`, `delete`, ...: a fleet of memcached servers from the command line. Does
//! what libmemcached's memccat, memccp, memcrm, memctouch, memcexist, memcstat, memcflush and
//! memcping do, and places keys as they do.
//!
//! Values go to standard output and nothing else does; errors go to standard error.

mod args;

use std::{
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, Subcommand};
use larder_client::{Client, Error, Expiry, Store, Stored};

pub(crate) use args::FleetArgs;

use crate::{config::bounded, exit};

/// Keys per request; further keys follow in turn, so that the memory for values is bounded.
const KEYS: usize = 256;

#[derive(Debug, Subcommand)]
pub(crate) enum FleetCommand {
    /// Print values from memcached servers
    #[command(after_help = EXITS)]
    Get(GetArgs),
    /// Store a value, or files under their names, on memcached servers
    #[command(after_help = EXITS)]
    Set(StoreArgs),
    /// Store a value where there is none
    #[command(after_help = EXITS)]
    Add(StoreArgs),
    /// Store a value where there is one
    #[command(after_help = EXITS)]
    Replace(StoreArgs),
    /// Add to the end of a value
    #[command(after_help = EXITS)]
    Append(StoreArgs),
    /// Add to the beginning of a value
    #[command(after_help = EXITS)]
    Prepend(StoreArgs),
    /// Delete items from memcached servers
    #[command(after_help = EXITS)]
    Delete(KeysArgs),
    /// Say by the exit code whether all of these are there
    #[command(after_help = EXITS)]
    Exist(KeysArgs),
    /// Add to a number, and print it
    #[command(after_help = EXITS)]
    Incr(CountArgs),
    /// Take from a number, and print it
    #[command(after_help = EXITS)]
    Decr(CountArgs),
    /// Give items a new expiry
    #[command(after_help = EXITS)]
    Touch(TouchArgs),
    /// Print the figures of memcached servers
    #[command(after_help = EXITS)]
    Stats(StatsArgs),
    /// Expire everything on memcached servers
    #[command(after_help = EXITS)]
    Flush(FlushArgs),
    /// Say which memcached servers answer
    #[command(after_help = EXITS)]
    Ping(PingArgs),
}

const EXITS: &str = "Exit code: 0 all was done, 1 something was not there or was not stored, 2 \
                     wrong usage, 3 a server refused, 4 a server was not reached.";

#[derive(Args, Debug)]
pub(crate) struct GetArgs {
    /// Print each item's flags, and a colon, before its value
    #[arg(short = 'F', long)]
    flags: bool,
    /// Print values one behind the other, without line ends
    #[arg(long)]
    raw: bool,
    /// Write the value to this file
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Keys
    #[arg(value_name = "KEY", required = true)]
    keys: Vec<String>,
    #[command(flatten)]
    fleet: FleetArgs,
}

#[derive(Args, Debug)]
pub(crate) struct StoreArgs {
    /// Lifetime: 60s, 30d, seconds, @SECONDS since 1970, never
    #[arg(short, long, value_name = "TIME", default_value = "never", value_parser = args::expiry)]
    expire: Expiry,
    /// Flags of the item
    #[arg(short = 'F', long, value_name = "N", default_value_t = 0)]
    flags: u32,
    /// Store these files, each under its name without directories, or under KEY
    #[arg(short, long, value_name = "FILE", num_args = 1)]
    file: Vec<PathBuf>,
    /// KEY VALUE; a VALUE of - is read from standard input
    #[arg(value_name = "KEY VALUE", num_args = 0..=2)]
    words: Vec<String>,
    #[command(flatten)]
    fleet: FleetArgs,
}

#[derive(Args, Debug)]
pub(crate) struct KeysArgs {
    /// Keys
    #[arg(value_name = "KEY", required = true)]
    keys: Vec<String>,
    #[command(flatten)]
    fleet: FleetArgs,
}

#[derive(Args, Debug)]
pub(crate) struct CountArgs {
    /// Key
    key: String,
    /// By how much
    #[arg(default_value_t = 1)]
    by: u64,
    #[command(flatten)]
    fleet: FleetArgs,
}

#[derive(Args, Debug)]
pub(crate) struct TouchArgs {
    /// Lifetime from now: 60s, 30d, seconds, @SECONDS since 1970, never
    #[arg(short, long, value_name = "TIME", value_parser = args::expiry)]
    expire: Expiry,
    /// Keys
    #[arg(value_name = "KEY", required = true)]
    keys: Vec<String>,
    #[command(flatten)]
    fleet: FleetArgs,
}

#[derive(Args, Debug)]
pub(crate) struct StatsArgs {
    /// Which: items, slabs, settings, ...
    of: Option<String>,
    #[command(flatten)]
    fleet: FleetArgs,
}

#[derive(Args, Debug)]
pub(crate) struct FlushArgs {
    /// In so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    delay: u32,
    #[command(flatten)]
    fleet: FleetArgs,
}

#[derive(Args, Debug)]
pub(crate) struct PingArgs {
    #[command(flatten)]
    fleet: FleetArgs,
}

/// The worst result, which becomes the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Done,
    Nothing,
    Refused,
    Usage,
    Unreachable,
}

impl Outcome {
    fn code(self) -> ExitCode {
        match self {
            Outcome::Done => exit::DONE,
            Outcome::Nothing => ExitCode::from(exit::NOTHING),
            Outcome::Refused => ExitCode::from(exit::REFUSED),
            Outcome::Usage => ExitCode::from(exit::USAGE),
            Outcome::Unreachable => ExitCode::from(exit::UNREACHABLE),
        }
    }
}

/// Runs a command.
pub(crate) fn run(command: &FleetCommand) -> ExitCode {
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => match runtime.block_on(command.run()) {
            Ok(outcome) => outcome.code(),
            Err(message) => {
                eprintln!("larder: {message}");
                Outcome::Usage.code()
            }
        },
        Err(error) => {
            eprintln!("larder: {error}");
            ExitCode::from(exit::NOTHING)
        }
    }
}

impl FleetCommand {
    async fn run(&self) -> Result<Outcome, String> {
        match self {
            FleetCommand::Get(args) => get(args).await,
            FleetCommand::Set(args) => store(args, Client::set).await,
            FleetCommand::Add(args) => store(args, Client::add).await,
            FleetCommand::Replace(args) => store(args, Client::replace).await,
            FleetCommand::Append(args) => {
                store(args, async |c, k, v, _| c.append(k, v).await).await
            }
            FleetCommand::Prepend(args) => {
                store(args, async |c, k, v, _| c.prepend(k, v).await).await
            }
            FleetCommand::Delete(args) => {
                each(&args.fleet, &args.keys, async |client, key| client.delete(key).await).await
            }
            FleetCommand::Exist(args) => {
                each(&args.fleet, &args.keys, async |client, key| {
                    Ok(client.get(key).await?.is_some())
                })
                .await
            }
            FleetCommand::Touch(args) => {
                each(&args.fleet, &args.keys, async |client, key| {
                    client.touch(key, args.expire).await
                })
                .await
            }
            FleetCommand::Incr(args) => count(args, Client::incr).await,
            FleetCommand::Decr(args) => count(args, Client::decr).await,
            FleetCommand::Stats(args) => stats(args).await,
            FleetCommand::Flush(args) => {
                let client = client(&args.fleet)?;
                Ok(tell(&client, client.flush(args.delay).await, |_, ()| Ok(())))
            }
            FleetCommand::Ping(args) => {
                let client = client(&args.fleet)?;
                let show = |name: &str, version: String| print(format_args!("{name} {version}\n"));
                Ok(tell(&client, client.version().await, show))
            }
        }
    }
}

fn client(args: &FleetArgs) -> Result<Client, String> {
    Client::new(args.config()?).map_err(|error| error.to_string())
}

fn print(text: std::fmt::Arguments<'_>) -> io::Result<()> {
    io::stdout().lock().write_fmt(text)
}

/// Prints the error of a key or a server.
fn failed(what: &str, error: &Error) -> Outcome {
    eprintln!("larder: {what}: {error}");
    match error {
        Error::Key | Error::TooLarge { .. } => Outcome::Usage,
        Error::Auth(_) | Error::Refused(_) | Error::Server(_) => Outcome::Refused,
        _ => Outcome::Unreachable,
    }
}

/// The result of printing. If standard output is closed, that is no error.
fn printed(result: io::Result<()>) -> Outcome {
    let Err(error) = result else { return Outcome::Done };
    if error.kind() != io::ErrorKind::BrokenPipe {
        eprintln!("larder: standard output: {error}");
    }
    Outcome::Nothing
}

async fn get(args: &GetArgs) -> Result<Outcome, String> {
    if args.file.is_some() && args.keys.len() > 1 {
        return Err("--file takes the value of one key".to_owned());
    }
    let client = client(&args.fleet)?;
    let mut outcome = Outcome::Done;
    for keys in args.keys.chunks(KEYS) {
        let wanted: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
        for (key, found) in keys.iter().zip(client.get_many(&wanted).await) {
            outcome = outcome.max(match found {
                Ok(Some(item)) => match &args.file {
                    Some(path) => {
                        std::fs::write(path, &item.value)
                            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
                        Outcome::Done
                    }
                    None => printed(show(&item, args)),
                },
                Ok(None) => {
                    eprintln!("larder: {key}: not there");
                    Outcome::Nothing
                }
                Err(error) => failed(key, &error),
            });
        }
    }
    Ok(outcome)
}

fn show(item: &larder_client::Item, args: &GetArgs) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if args.flags {
        write!(out, "{}:", item.flags)?;
    }
    out.write_all(&item.value)?;
    if !args.raw {
        out.write_all(b"\n")?;
    }
    out.flush()
}

async fn store<F>(args: &StoreArgs, verb: F) -> Result<Outcome, String>
where
    F: AsyncFn(&Client, &[u8], bytes::Bytes, Store) -> Result<Stored, Error>,
{
    let client = client(&args.fleet)?;
    let most = client.config().max_item;
    let with = Store { flags: args.flags, expiry: args.expire, cas: None };
    let mut values: Vec<(String, PathBuf)> = Vec::new();
    let mut outcome = Outcome::Done;
    match (args.words.as_slice(), args.file.as_slice()) {
        ([key, value], []) => {
            let value = match value.as_str() {
                "-" => input(most)?,
                text => text.as_bytes().to_vec(),
            };
            return Ok(stored(key, verb(&client, key.as_bytes(), value.into(), with).await));
        }
        ([key], [file]) => values.push((key.clone(), file.clone())),
        ([], files) if !files.is_empty() => {
            for file in files {
                values.push((name(file)?, file.clone()));
            }
        }
        _ => return Err("expected KEY VALUE, or --file FILE...".to_owned()),
    }
    for (key, file) in values {
        let (value, _) = bounded::read(&file, most)
            .map_err(|reason| format!("cannot use {}: {reason}", file.display()))?;
        outcome =
            outcome.max(stored(&key, verb(&client, key.as_bytes(), value.into(), with).await));
    }
    Ok(outcome)
}

/// A file's name without directories: memccp's key.
fn name(file: &Path) -> Result<String, String> {
    let name = file.file_name().and_then(|name| name.to_str());
    name.map(str::to_owned).ok_or_else(|| format!("{} has no name for a key", file.display()))
}

/// Standard input, at most one byte more than allowed.
fn input(most: usize) -> Result<Vec<u8>, String> {
    let mut value = Vec::new();
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    io::stdin()
        .lock()
        .take(limit)
        .read_to_end(&mut value)
        .map_err(|error| format!("standard input: {error}"))?;
    Ok(value)
}

fn stored(key: &str, stored: Result<Stored, Error>) -> Outcome {
    match stored {
        Ok(Stored::Stored) => Outcome::Done,
        Ok(_) => {
            eprintln!("larder: {key}: not stored");
            Outcome::Nothing
        }
        Err(error) => failed(key, &error),
    }
}

async fn each<F>(fleet: &FleetArgs, keys: &[String], verb: F) -> Result<Outcome, String>
where
    F: AsyncFn(&Client, &[u8]) -> Result<bool, Error>,
{
    let client = client(fleet)?;
    let mut outcome = Outcome::Done;
    for key in keys {
        outcome = outcome.max(match verb(&client, key.as_bytes()).await {
            Ok(true) => Outcome::Done,
            Ok(false) => {
                eprintln!("larder: {key}: not there");
                Outcome::Nothing
            }
            Err(error) => failed(key, &error),
        });
    }
    Ok(outcome)
}

async fn count<F>(args: &CountArgs, verb: F) -> Result<Outcome, String>
where
    F: AsyncFn(&Client, &[u8], u64) -> Result<Option<u64>, Error>,
{
    let client = client(&args.fleet)?;
    Ok(match verb(&client, args.key.as_bytes(), args.by).await {
        Ok(Some(number)) => printed(print(format_args!("{number}\n"))),
        Ok(None) => {
            eprintln!("larder: {}: not there", args.key);
            Outcome::Nothing
        }
        Err(error) => failed(&args.key, &error),
    })
}

async fn stats(args: &StatsArgs) -> Result<Outcome, String> {
    let client = client(&args.fleet)?;
    let answers = client.stats(args.of.as_deref()).await;
    Ok(tell(&client, answers, |name, figures| {
        let mut text = format!("Server: {name}\n");
        for (figure, value) in figures {
            text.push_str(&format!("\t {figure}: {value}\n"));
        }
        print(format_args!("{text}"))
    }))
}

/// Prints the answers of all servers.
fn tell<T>(
    client: &Client,
    answers: Vec<Result<T, Error>>,
    show: impl Fn(&str, T) -> io::Result<()>,
) -> Outcome {
    let mut outcome = Outcome::Done;
    for (server, answer) in client.servers().iter().zip(answers) {
        outcome = outcome.max(match answer {
            Ok(answer) => printed(show(&server.name, answer)),
            Err(error) => failed(&server.name, &error),
        });
    }
    outcome
}
