//! Command line arguments of `larder slow`.

use std::{
    io::Write,
    net::ToSocketAddrs,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::mpsc::Receiver,
    time::Duration,
};

use clap::{Args, ValueEnum};
use larder_proto::units;
use tokio::signal::unix::{SignalKind, signal};

use super::{
    Conditions, Config, Direction, Faults, Handle, Per, Protocol, Request, Rule, Script, Spread,
    Stall, proxy, record, script,
};
use crate::{engine::Address, exit};

/// Arguments of `larder slow`.
#[derive(Args, Debug)]
pub struct SlowArgs {
    /// Address to listen on: 127.0.0.1:3307, or unix:PATH
    #[arg(long, value_name = "ADDR", value_parser = listen)]
    listen: Address,
    /// The server: HOST:PORT, or unix:PATH
    #[arg(long, value_name = "ADDR", value_parser = server)]
    to: Address,
    /// How requests are recognised
    #[arg(long, value_enum, default_value_t)]
    protocol: Protocol,
    /// Scope of the options below [default: bytes for tcp, request for the others]
    #[arg(long, value_enum)]
    per: Option<TypedPer>,
    /// Direction [default: delays of requests apply towards the server, everything else towards the
    /// client]
    #[arg(long, value_enum)]
    direction: Option<TypedDirection>,
    /// Additional delay: 300ms
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    delay: Option<Duration>,
    /// Random variation of the delay, up to this much in either direction
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    jitter: Option<Duration>,
    /// Use a normal distribution with the jitter as standard deviation
    #[arg(long, requires = "jitter")]
    normal: bool,
    /// Bytes per second of each connection (with --per request: of each answer): 1MB/s
    #[arg(long, value_name = "SIZE", value_parser = script::rate)]
    rate: Option<u64>,
    /// Bytes per second of all connections together
    #[arg(long, value_name = "SIZE", value_parser = script::rate)]
    shared_rate: Option<u64>,
    /// Stop passing bytes for this time, or forever
    #[arg(long, value_name = "TIME", value_parser = script::stall)]
    stall: Option<Stall>,
    /// Stall from this byte on
    #[arg(
        long, value_name = "SIZE", value_parser = units::size, requires = "stall",
        conflicts_with = "stall_at"
    )]
    stall_after: Option<u64>,
    /// Stall all connections from this time after the start
    #[arg(long, value_name = "TIME", value_parser = units::duration, requires = "stall")]
    stall_at: Option<Duration>,
    /// Break the connection with a TCP reset after this many bytes
    #[arg(
        long, value_name = "AFTER", value_parser = units::size, num_args = 0..=1,
        default_missing_value = "0"
    )]
    reset: Option<u64>,
    /// Close the connection cleanly after this many bytes
    #[arg(
        long, value_name = "AFTER", value_parser = units::size, num_args = 0..=1,
        default_missing_value = "0"
    )]
    truncate: Option<u64>,
    /// Change a bit of each byte with this probability
    #[arg(long, value_name = "SHARE")]
    corrupt: Option<f64>,
    /// Change a bit of the byte at this offset
    #[arg(long, value_name = "OFFSET", value_parser = units::size)]
    corrupt_at: Option<u64>,
    /// Reset connections as soon as they are accepted
    #[arg(long)]
    refuse: bool,
    /// Apply the faults only to this share of connections or requests: 0.1
    #[arg(long, value_name = "SHARE")]
    probability: Option<f64>,
    /// Only statements that match this regular expression (mysql, postgres; http: method and
    /// target)
    #[arg(long, value_name = "REGEX")]
    statement: Option<regex::Regex>,
    /// Faults in TOML, see docs/slow.md; read again on SIGHUP
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// Seed of random choices; the same seed gives the same faults [default: the script's, or 0]
    #[arg(long)]
    seed: Option<u64>,
    /// Print a line for each request on standard output: start, connection and number, delay,
    /// duration, text
    #[arg(long)]
    log: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum TypedPer {
    Bytes,
    Connection,
    Request,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum TypedDirection {
    ToServer,
    ToClient,
    Both,
}

fn listen(text: &str) -> Result<Address, String> {
    match text.strip_prefix("unix:") {
        Some(path) => Ok(Address::Unix(PathBuf::from(path))),
        None => units::address(text)
            .map(Address::Tcp)
            .map_err(|expected| format!("expected {expected}, or unix:PATH")),
    }
}

fn server(text: &str) -> Result<Address, String> {
    if text.starts_with("unix:") {
        return listen(text);
    }
    let mut found = text
        .to_socket_addrs()
        .map_err(|error| format!("{error}; expected HOST:PORT, or unix:PATH"))?;
    found.next().map(Address::Tcp).ok_or_else(|| "has no address".to_owned())
}

impl SlowArgs {
    /// The rules of the options.
    fn rules(&self) -> Vec<Rule> {
        let when = Conditions {
            probability: self.probability,
            statement: self.statement.clone(),
            ..Conditions::default()
        };
        let (stall, at_a_time) = match self.stall_at {
            Some(_) => (None, self.stall),
            None => (self.stall, None),
        };
        let what = Faults {
            delay: self.delay.unwrap_or_default(),
            jitter: self.jitter.unwrap_or_default(),
            spread: if self.normal { Spread::Normal } else { Spread::Uniform },
            rate: self.rate,
            shared_rate: self.shared_rate,
            stall,
            stall_after: self.stall_after.unwrap_or(0),
            reset: self.reset,
            truncate: self.truncate,
            corrupt: self.corrupt,
            corrupt_at: self.corrupt_at,
            refuse: self.refuse,
        };
        let per = self.per.map(|per| match per {
            TypedPer::Bytes => Per::Bytes,
            TypedPer::Connection => Per::Connection,
            TypedPer::Request => Per::Request,
        });
        let direction = self.direction.map(|direction| match direction {
            TypedDirection::ToServer => Direction::ToServer,
            TypedDirection::ToClient => Direction::ToClient,
            TypedDirection::Both => Direction::Both,
        });
        let mut rules = vec![Rule { per, direction, when, what }];
        if let (Some(after), Some(stall)) = (self.stall_at, at_a_time) {
            let until = match stall {
                Stall::For(time) => Some(after + time),
                Stall::ToEnd => None,
            };
            let when = Conditions { after: Some(after), until, ..Conditions::default() };
            let what = Faults { stall: Some(Stall::ToEnd), ..Faults::default() };
            rules.push(Rule { per: Some(Per::Bytes), direction, when, what });
        }
        rules
    }

    fn config(&self) -> Result<Config, String> {
        let mut config = Config::new(self.listen.clone(), self.to.clone());
        config.rules = self.rules();
        for rule in &config.rules {
            script::check(rule)?;
        }
        if let Some(path) = &self.script {
            let script = read(path)?;
            config.seed = script.seed.unwrap_or(0);
            config.rules.extend(script.rules);
        }
        config.seed = self.seed.unwrap_or(config.seed);
        config.protocol = self.protocol;
        config.tell = Some(|what| eprintln!("larder slow: {what}"));
        Ok(config)
    }
}

fn read(path: &Path) -> Result<Script, String> {
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Script::parse(&text).map_err(|why| format!("{}: {why}", path.display()))
}

pub(crate) fn run(args: &SlowArgs) -> ExitCode {
    let config = match args.config() {
        Ok(config) => config,
        Err(why) => return exit::usage("slow", &why),
    };
    raise_descriptors();
    let (log, lines) = record::log();
    let handle = match proxy::start_logged(config, args.log.then_some(log)) {
        Ok(handle) => handle,
        Err(error) => return exit::usage("slow", &error.to_string()),
    };
    let printer = std::thread::spawn(move || print(&lines));
    eprintln!("larder slow: listening on {}", handle.address());
    if let Err(error) = serve(args, &handle) {
        eprintln!("larder slow: the system refuses what the program needs: {error}");
        return ExitCode::FAILURE;
    }
    let totals = finish(handle);
    // The log's sender ended with the proxy.
    let _ = printer.join();
    eprintln!("{totals}");
    ExitCode::SUCCESS
}

/// Ends all connections and returns the final totals.
fn finish(handle: Handle) -> record::Totals {
    let totals = handle.totals();
    drop(handle);
    totals
}

/// A connection takes two descriptors; the soft limit of many systems is 1024.
fn raise_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // If it fails, fewer connections are possible.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Runs until a signal.
fn serve(args: &SlowArgs, handle: &Handle) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut count = signal(SignalKind::user_defined1())?;
        let mut again = signal(SignalKind::hangup())?;
        loop {
            tokio::select! {
                _ = terminate.recv() => return Ok(()),
                _ = interrupt.recv() => return Ok(()),
                _ = count.recv() => eprintln!("{}", handle.totals()),
                _ = again.recv() => match args.config() {
                    Ok(config) => {
                        handle.set(config.rules);
                        eprintln!("larder slow: the script was read again");
                    }
                    Err(why) => eprintln!("larder slow: the script stays as it was: {why}"),
                },
            }
        }
    })
}

fn print(lines: &Receiver<Request>) {
    let mut out = std::io::stdout().lock();
    while let Ok(request) = lines.recv() {
        // If the reader is gone, logging ends but the proxy stays useful.
        if writeln!(out, "{request}").and_then(|()| out.flush()).is_err() {
            return;
        }
    }
}
