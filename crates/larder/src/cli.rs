//! The command line.

use std::{ffi::OsString, net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::config::{Flags, options::flag_help, value};

/// A web cache in one program.
#[derive(Debug, Parser)]
#[command(name = "larder", version, about, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

// There is one.
#[allow(clippy::large_enum_variant)]
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve a site from memory
    Serve(ServeArgs),
    /// Keep objects for memcached's clients; takes memcached's own flags
    #[command(disable_help_flag = true)]
    Memcached(OwnFlags),
    /// Keep objects for Redis's clients; takes redis-server's names of options
    #[command(disable_help_flag = true)]
    Redis(OwnFlags),
    /// Start applications that speak FastCGI; takes spawn-fcgi's own flags
    #[command(disable_help_flag = true)]
    SpawnFcgi(OwnFlags),
    /// Show it: a slow sample site with Larder before it
    Demo(DemoArgs),
    /// Take pages out of a running server
    Purge(PurgeArgs),
    /// Have a running server read its configuration again
    Reload(OrderArgs),
    /// Stop a running server: requests under way finish
    Stop(OrderArgs),
    /// Have a new process take over from a running server: no request fails, memory stays
    Upgrade(UpgradeArgs),
    /// Watch several caches live: Larder, memcached, Redis
    Top(larder_top::TopArgs),
    /// Watch requests as they are answered
    Log(larder_top::LogArgs),
    /// Watch how long requests take, hits and misses apart
    Hist(larder_top::HistArgs),
    /// Find an error by the reference that its page shows
    Why(WhyArgs),
    /// Load a server, with honest percentiles; compare several
    #[command(disable_help_flag = true)]
    Bench(OwnFlags),
    /// Delay, limit and break what goes through: a proxy for tests and experiments
    #[command(disable_help_flag = true)]
    Slow(OwnFlags),
    /// Experiments, with reports
    #[command(disable_help_flag = true)]
    Lab(OwnFlags),
    #[command(flatten)]
    Fleet(crate::fleet::FleetCommand),
    /// Say what is wrong with a configuration
    Check(CheckArgs),
    /// Write a configuration that does what one of nginx, Varnish, Squid or memcached does
    Import(ImportArgs),
    /// List the certificates of a configuration, with what is left of each
    Certificates(CertificatesArgs),
    /// Look at the pages on a disk, check or empty it
    Disk(DiskArgs),
    /// Mount a read-only mirror of a directory, at the speed of the files below
    Mount(crate::mount::MountArgs),
    /// Write a page of the documentation to standard output
    #[command(hide = true)]
    Docs {
        /// Which
        page: DocsPage,
    },
    /// Write man pages, and completions for bash, zsh and fish, into a directory
    #[command(hide = true)]
    Generate {
        /// The directory
        directory: PathBuf,
    },
}

/// Flags that `memcached`, `redis`, `spawn-fcgi` or `larder-lab` parse themselves.
#[derive(Args, Debug)]
pub(crate) struct OwnFlags {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _words: Vec<OsString>,
}

/// Pages of the documentation that are generated.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum DocsPage {
    /// docs/configuration.md
    Configuration,
    /// docs/metrics.md
    Metrics,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Flags take precedence over the configuration file. SIGHUP reads the file again \
                        and reopens the log; SIGUSR2 has a new process take over; SIGTERM lets \
                        requests under way finish."
)]
pub(crate) struct ServeArgs {
    /// Configuration file [default: larder.toml, where there is one]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[arg(long, value_name = "ADDR", help = flag_help("--http"))]
    http: Vec<String>,
    #[arg(long, value_name = "ADDR", help = flag_help("--https"))]
    https: Vec<String>,
    #[arg(long, help = flag_help("--http3"))]
    http3: bool,
    #[arg(long, value_name = "FILE", help = flag_help("--cert"))]
    cert: Option<String>,
    #[arg(long, value_name = "FILE", help = flag_help("--key"))]
    key: Option<String>,
    #[arg(long, value_name = "EMAIL", help = flag_help("--acme"))]
    acme: Option<String>,
    #[arg(long = "name", value_name = "HOST", help = flag_help("--name"))]
    names: Vec<String>,
    #[arg(long, value_name = "URL", help = flag_help("--origin"))]
    origin: Vec<String>,
    #[arg(long, value_name = "DIR", help = flag_help("--root"))]
    root: Option<String>,
    #[arg(long, value_name = "NAME", help = flag_help("--preset"))]
    preset: Option<String>,
    #[arg(long, value_name = "TIME", help = flag_help("--ttl"))]
    ttl: Option<String>,
    #[arg(long, value_name = "ADDR", help = flag_help("--purge-from"))]
    purge_from: Vec<String>,
    #[arg(long, value_name = "ADDR", help = flag_help("--memcached"))]
    memcached: Vec<String>,
    #[arg(long, value_name = "ADDR", help = flag_help("--redis"))]
    redis: Vec<String>,
    #[arg(long, value_name = "ADDR", help = flag_help("--admin"))]
    admin: Vec<String>,
    #[arg(long, value_name = "DIR", help = flag_help("--disk"))]
    disk: Option<String>,
    #[arg(long, value_name = "SIZE", help = flag_help("--disk-size"))]
    disk_size: Option<String>,
    #[arg(long, value_name = "FILE", help = flag_help("--snapshot"))]
    snapshot: Option<String>,
    #[arg(long, value_name = "SIZE", help = flag_help("--memory"))]
    memory: Option<String>,
    #[arg(long, value_name = "NAME", help = flag_help("--user"))]
    user: Option<String>,
    #[arg(long, value_name = "NAME", help = flag_help("--group"))]
    group: Option<String>,
    #[arg(long, value_name = "N", help = flag_help("--threads"))]
    threads: Option<String>,
    #[arg(long, value_name = "PATH|-", help = flag_help("--access-log"))]
    access_log: Option<String>,
    /// Format of a line of the access log: squid, combined or json
    #[arg(long, value_name = "FORMAT")]
    access_log_format: Option<String>,
}

impl ServeArgs {
    /// As flags of the configuration.
    pub(crate) fn flags(&self) -> Flags {
        Flags {
            config: self.config.clone(),
            memory: self.memory.clone(),
            threads: self.threads.clone(),
            user: self.user.clone(),
            group: self.group.clone(),
            http: self.http.clone(),
            https: self.https.clone(),
            http3: self.http3,
            cert: self.cert.clone(),
            key: self.key.clone(),
            acme: self.acme.clone(),
            names: self.names.clone(),
            origin: self.origin.clone(),
            root: self.root.clone(),
            preset: self.preset.clone(),
            ttl: self.ttl.clone(),
            purge_from: self.purge_from.clone(),
            access_log: self.access_log.clone(),
            access_log_format: self.access_log_format.clone(),
            memcached: self.memcached.clone(),
            redis: self.redis.clone(),
            admin: self.admin.clone(),
            disk: self.disk.clone(),
            disk_size: self.disk_size.clone(),
            snapshot: self.snapshot.clone(),
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    /// Configuration file [default: larder.toml]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The configuration file, without a flag
    #[arg(value_name = "FILE", conflicts_with = "config")]
    file: Option<PathBuf>,
}

impl CheckArgs {
    /// As flags of the configuration: a file is always read.
    pub(crate) fn flags(&self) -> Flags {
        let named = self.config.as_ref().or(self.file.as_ref());
        let config = named.cloned().unwrap_or_else(|| PathBuf::from(crate::config::DEFAULT_FILE));
        Flags { config: Some(config), ..Flags::default() }
    }
}

#[derive(Args, Debug)]
#[command(after_help = "Exit code: 0 done, 1 not done.")]
pub(crate) struct OrderArgs {
    /// The server: its process ID or its control socket [default: your only Larder on this machine]
    #[arg(value_name = "PID|PATH")]
    pub(crate) server: Option<String>,
}

#[derive(Args, Debug)]
#[command(after_help = "Exit code: 0 done, 1 not done: the old process goes on.")]
pub(crate) struct UpgradeArgs {
    /// The new program [default: the file that the server was started from, as it is now]
    #[arg(long, value_name = "FILE")]
    pub(crate) program: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) order: OrderArgs,
}

#[derive(Args, Debug)]
#[command(
    after_help = "A server remembers its latest 512 failures (5xx) and 256 refusals (4xx).\n\nExit \
                        code: 0 found, 1 not found, 2 wrong usage, 3 refused, 4 server not reached."
)]
pub(crate) struct WhyArgs {
    /// The reference, as the page shows it [default: the latest errors]
    #[arg(value_name = "REFERENCE")]
    pub(crate) reference: Option<String>,
    /// Print at most so many errors
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 20)]
    pub(crate) count: usize,
    /// The admin interface of the server, or its control socket `unix:PATH` [default: your Larder
    /// on this machine, else 127.0.0.1:8081]
    #[arg(long, value_name = "ADDR")]
    pub(crate) admin: Option<String>,
    /// A file with the token for the admin API
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

/// Programs whose configurations are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ImportFrom {
    /// A configuration with proxy_cache or fastcgi_cache, or the output of `nginx -T`
    Nginx,
    /// A VCL file, and varnishd's flags behind `--`
    Varnish,
    /// A squid.conf of a reverse proxy
    Squid,
    /// memcached's flags behind `--`
    Memcached,
}

#[derive(Args, Debug)]
#[command(
    after_help = "The configuration goes to standard output; what could not be carried over goes to \
                        standard error, and into comments.\n\nlarder import nginx /etc/nginx/sites-enabled/shop > \
                        larder.toml\nlarder import varnish default.vcl -- -a :80 -s malloc,1G\nlarder import \
                        memcached -- -m 512 -l 127.0.0.1\n\nExit code: 0 written, 1 written and to be \
                        mended by hand, 2 wrong usage."
)]
pub(crate) struct ImportArgs {
    /// The program it is from
    #[arg(value_name = "PROGRAM")]
    pub(crate) from: ImportFrom,
    /// Its configuration; `-`: standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<String>,
    /// Flags of its command line
    #[arg(last = true, value_name = "FLAGS")]
    pub(crate) words: Vec<String>,
}

#[derive(Args, Debug)]
pub(crate) struct CertificatesArgs {
    /// Configuration file [default: larder.toml, where there is one]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl CertificatesArgs {
    /// As flags of the configuration.
    pub(crate) fn flags(&self) -> Flags {
        Flags { config: self.config.clone(), ..Flags::default() }
    }
}

#[derive(Args, Debug)]
#[command(after_help = "Exit code: 0 done, 1 nothing there, damaged or in use.")]
pub(crate) struct DiskArgs {
    #[command(subcommand)]
    pub(crate) command: DiskCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DiskCommand {
    /// List the pages: bytes, status, seconds until they expire, URL
    List {
        /// The directory of the disk
        directory: PathBuf,
    },
    /// Read everything, and say what is damaged
    Check {
        /// The directory of the disk
        directory: PathBuf,
    },
    /// Write a page to standard output
    Dump {
        /// The directory of the disk
        directory: PathBuf,
        /// URL of the page
        url: String,
        /// Status line and fields before the body
        #[arg(long)]
        head: bool,
        /// Which of several variants, from 1
        #[arg(long, value_name = "N", default_value_t = 1)]
        variant: usize,
    },
    /// Remove everything from a disk that no Larder uses
    Empty {
        /// The directory of the disk
        directory: PathBuf,
    },
}

#[derive(Args, Debug)]
pub(crate) struct DemoArgs {
    /// Address to listen on [default: 127.0.0.1:8080, or the next free port]
    #[arg(long, value_name = "ADDR", value_parser = value::address)]
    pub(crate) http: Option<SocketAddr>,
    /// Time the sample site takes for a page
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = demo_delay)]
    pub(crate) delay: Duration,
}

/// The longest delay of the demonstration.
const LONGEST_DELAY: Duration = Duration::from_secs(30);

fn demo_delay(text: &str) -> Result<Duration, String> {
    let delay = value::duration(text)?;
    if delay > LONGEST_DELAY { Err("at most 30s".to_owned()) } else { Ok(delay) }
}

#[derive(Args, Debug)]
#[command(after_help = "Exit code: 0 something was purged, 1 nothing was there, 2 wrong usage, 3 \
                        refused, 4 server not reached.\n\nOn the machine of the server, \
                        its user and root need no permission. Else a site says who may purge: `purge = { \
                        from = [\"127.0.0.1\"], token_file = \"purge.token\" }`.")]
pub(crate) struct PurgeArgs {
    /// The page to purge, as visitors ask for it
    #[arg(value_name = "URL", required_unless_present_any = ["prefix", "tag", "ban"], conflicts_with_all = ["prefix", "tag", "ban"])]
    pub(crate) url: Option<String>,
    /// Everything whose URL begins with this one
    #[arg(long, value_name = "URL", conflicts_with_all = ["tag", "ban"])]
    pub(crate) prefix: Option<String>,
    /// Everything with this tag (`Surrogate-Key`); may be given several times
    #[arg(long, value_name = "TAG", conflicts_with = "ban")]
    pub(crate) tag: Vec<String>,
    /// Everything that an expression means, such as `url ~ "^/news/" && age > 1h`; uses the admin
    /// interface
    #[arg(long, value_name = "EXPR")]
    pub(crate) ban: Option<String>,
    /// With --tag: the host whose site is meant [default: the address of the server]
    #[arg(long, value_name = "HOST", requires = "tag")]
    pub(crate) host: Option<String>,
    /// Mark as stale instead: asked for anew, served meanwhile where grace allows
    #[arg(long)]
    pub(crate) soft: bool,
    /// Send PURGE requests to the server at this address [default: your Larder on this machine, by
    /// its control socket; else 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR")]
    pub(crate) server: Option<String>,
    /// Use the admin interface there, with its token, or the control socket `unix:PATH`
    #[arg(long, value_name = "ADDR", conflicts_with = "server")]
    pub(crate) admin: Option<String>,
    /// A file with the token
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_help_of_flags_comes_from_the_table_of_options() {
        let mut command = Cli::command();
        let serve = command.find_subcommand_mut("serve").expect("serve");
        let help = serve.render_help().to_string();
        assert!(help.contains("[default: 256MiB]"), "{help}");
    }
}
