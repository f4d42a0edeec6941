//! `larder bench origin` and `larder bench peer`: the servers of a comparison on their own, to
//! inspect or to load by hand.

use std::{
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    process::ExitCode,
    thread::sleep,
    time::Duration,
};

use clap::Args;

use super::{
    Error, Origin, PEERS, Peer, PeerConfig, Running, Scratch, docroot, floor, larder_program,
};
use crate::{exit, interrupt};

/// Interval at which interruptions are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Arguments of `larder bench origin`.
#[derive(Args, Debug)]
pub(crate) struct OriginArgs {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9000")]
    listen: SocketAddr,
}

/// Serves canned pages until it is ended.
pub(crate) fn origin(args: &OriginArgs) -> ExitCode {
    let listener = match TcpListener::bind(args.listen) {
        Ok(listener) => listener,
        Err(error) => {
            return exit::usage("bench origin", &format!("--listen {}: {error}", args.listen));
        }
    };
    let address = listener.local_addr().unwrap_or(args.listen);
    println!(
        "pages at http://{address}/SIZE/NUMBER, for instance http://{address}/26510/0; how many \
         were sent: http://{address}/asked"
    );
    match floor::serve(listener, &floor::FloorState::default()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("larder bench origin: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Arguments of `larder bench peer`.
#[derive(Args, Debug)]
pub(crate) struct PeerArgs {
    /// Servers, as named by `larder bench compare --only`
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// Sizes of the pages of file servers
    #[arg(long, value_delimiter = ',', default_value = "1000,26510,100000,1000000")]
    sizes: Vec<usize>,
    /// Memory of each cache, in MiB
    #[arg(long, default_value_t = 512)]
    memory: usize,
    /// The program to start as Larder [default: the one beside this program, else on the PATH]
    #[arg(long, value_name = "PATH")]
    larder: Option<PathBuf>,
}

/// Starts servers as a comparison does, and waits for Ctrl-C.
pub(crate) fn peer(args: &PeerArgs) -> ExitCode {
    interrupt::watch();
    let mut peers = Vec::new();
    for name in &args.names {
        let Some(peer) = PEERS.iter().find(|peer| peer.name == name.as_str()) else {
            let names: Vec<&str> = PEERS.iter().map(|peer| peer.name).collect();
            return exit::usage(
                "bench peer",
                &format!("there is no `{name}`; there are {}", names.join(", ")),
            );
        };
        peers.push(peer);
    }
    match run(&peers, args) {
        Ok(()) | Err(Error::Interrupted) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("larder bench peer: {error}");
            ExitCode::from(exit::UNREACHABLE)
        }
    }
}

fn run(peers: &[&Peer], args: &PeerArgs) -> Result<(), Error> {
    let origin = Origin::start()?;
    let scratch = Scratch::new("docroot")?;
    scratch.show()?;
    let config = PeerConfig {
        origin: origin.address(),
        docroot: docroot(&scratch, &args.sizes, 1)?,
        sizes: args.sizes.clone(),
        memory: args.memory,
        larder: larder_program(args.larder.as_deref())?,
        cpu: None,
    };
    println!("origin           {} (its /asked says how often it was asked)", origin.address());
    let mut running = Vec::new();
    for peer in peers {
        let started = peer.start(&config)?;
        println!("{}", line(&started));
        running.push(started);
    }
    println!("pages are at /SIZE/0 for the sizes {:?}; Ctrl-C ends all", args.sizes);
    while !interrupt::requested() {
        running.iter_mut().try_for_each(|running| running.process.alive())?;
        sleep(POLL_INTERVAL);
    }
    running.iter().for_each(|running| running.process.ask_to_end());
    Ok(())
}

fn line(running: &Running) -> String {
    let version = running.version.as_deref().unwrap_or("of unknown version");
    let redis =
        running.redis.map(|redis| format!(", Redis's protocol at {redis}")).unwrap_or_default();
    format!(
        "{:16} {}{redis} ({version}; processes {:?}, {} threads)",
        running.peer.name,
        running.address,
        running.process.pids(),
        running.process.threads()
    )
}
