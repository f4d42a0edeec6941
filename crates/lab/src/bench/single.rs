//! One run against one server.

use std::{
    io::{self, Write},
    path::Path,
    process::ExitCode,
    thread,
    time::Duration,
};

use super::{
    args::{CheckName, Commands, Common, Gaps, HttpArgs, MemcachedArgs, RedisArgs},
    fill,
    live::Live,
    target::{self, Url},
};
use crate::{
    engine::{self, Address, Check, Error, HttpVersion, Plan, Protocol, Stop, Tls, Trust, Until},
    exit, interrupt,
    load::{Arrivals, Load, Mix, Pace, Verb},
    output::Output,
    report::{self, Run, show},
};

/// Length of a run if neither time nor count is given.
const DURATION: Duration = Duration::from_secs(10);
/// Interval at which interruptions are checked.
const LOOK: Duration = Duration::from_millis(50);

/// A prepared run.
struct Job<'a> {
    command: &'static str,
    common: &'a Common,
    plan: Plan,
    load: Load,
    fill: bool,
    name: String,
}

pub(super) fn http(args: &HttpArgs) -> ExitCode {
    run("bench http", http_job(args))
}

pub(super) fn memcached(args: &MemcachedArgs) -> ExitCode {
    let protocol = match args.protocol {
        Commands::Text => Protocol::MemcachedText,
        Commands::Meta => Protocol::MemcachedMeta,
    };
    run(
        "bench memcached",
        objects("bench memcached", &args.address, 11211, protocol, args.fill, &args.common),
    )
}

pub(super) fn redis(args: &RedisArgs) -> ExitCode {
    run(
        "bench redis",
        objects("bench redis", &args.address, 6379, Protocol::Redis, args.fill, &args.common),
    )
}

fn http_job(args: &HttpArgs) -> Result<Job<'_>, String> {
    let urls = args.urls.iter().map(|url| Url::parse(url)).collect::<Result<Vec<_>, _>>()?;
    let Some(first) = urls.first() else { return Err("expected an URL".to_owned()) };
    if args.connect.is_none() && urls.iter().any(|url| url.host != first.host) {
        return Err(
            "the URLs name several servers; --connect says where to go for all of them".to_owned()
        );
    }
    let fields = args
        .header
        .iter()
        .map(|field| checked_field(field, !args.http2 && !args.http3))
        .collect::<Result<Vec<_>, _>>()?;
    let mut load = args.common.load.clone();
    if urls.len() > 1 {
        if !load.key.is_empty()
            || load.pattern.is_some()
            || load.keys_file.is_some()
            || load.trace.is_some()
        {
            return Err("several URLs and --key, --pattern, --keys-file or --trace exclude each \
                        other"
                .to_owned());
        }
        let named = |url: &Url| format!("http://{}{}", url.host, url.target);
        let alike = args.host.is_some() || urls.iter().all(|url| url.host == first.host);
        load.key =
            urls.iter().map(|url| if alike { url.target.clone() } else { named(url) }).collect();
    }
    let host = args.host.clone().unwrap_or_else(|| first.host.clone());
    let port = if first.is_https { 443 } else { 80 };
    let address = target::address(args.connect.as_deref().unwrap_or(&first.host), port)?;
    let load = load.validate_http(&first.target)?;
    let (version, tls) = transport(args, &urls, &host)?;
    let mut plan = plan(&args.common, address, Protocol::Http { host, fields }, &load)?;
    (plan.version, plan.tls) = (version, tls);
    plan.check = check(args.common.check, false);
    let name = args.common.name.clone().unwrap_or_else(|| args.urls.join(" "));
    Ok(Job { command: "bench http", common: &args.common, plan, load, fill: false, name })
}

/// The version of HTTP and the TLS of a run.
fn transport(
    args: &HttpArgs,
    urls: &[Url],
    host: &str,
) -> Result<(HttpVersion, Option<Tls>), String> {
    let version = match (args.http2, args.http3) {
        (_, true) => HttpVersion::Http3,
        (true, _) => HttpVersion::Http2,
        _ => HttpVersion::Http1,
    };
    let is_https = urls.iter().all(|url| url.is_https);
    if !is_https {
        if urls.iter().any(|url| url.is_https) {
            return Err("URLs of http and https in one run".to_owned());
        }
        return if version == HttpVersion::Http3 {
            Err("--http3 is for https:// URLs".to_owned())
        } else if args.cacert.is_some() || args.insecure || args.resume {
            Err("--cacert, --insecure and --resume are for https:// URLs".to_owned())
        } else {
            Ok((version, None))
        };
    }
    let trust = match &args.cacert {
        _ if args.insecure => Trust::Anyone,
        Some(file) => Trust::Authority(file),
        None => Trust::System,
    };
    Ok((version, Some(Tls::new(Url::name(host), trust, version, args.resume)?)))
}

fn objects<'a>(
    command: &'static str,
    to: &str,
    port: u16,
    protocol: Protocol,
    fill: bool,
    common: &'a Common,
) -> Result<Job<'a>, String> {
    let address = target::address(to, port)?;
    let load = common.load.validate()?;
    if fill && common.load.trace.is_some() {
        return Err("--fill writes the keys of a list or pattern; a trace writes by itself what \
                    it recorded"
            .to_owned());
    }
    let writes = match &common.load.mix {
        Some(mix) => Mix::parse(mix)?.share(Verb::Set) > 0.0,
        None => false,
    };
    let mut plan = plan(common, address, protocol, &load)?;
    plan.check = check(common.check, fill || writes);
    plan.lengths = load.lengths(fill);
    let name = common.name.clone().unwrap_or_else(|| format!("{} at {to}", plan.protocol));
    Ok(Job { command, common, plan, load, fill, name })
}

fn checked_field(field: &str, is_http1: bool) -> Result<String, String> {
    let wrong = || format!("--header {field:?}: expected a field such as \"Accept-Language: de\"");
    let (name, value) = field.split_once(':').ok_or_else(wrong)?;
    let name = name.trim();
    if name.is_empty()
        || !name.bytes().all(larder_proto::http::fields::is_token_byte)
        || value.contains(['\r', '\n', '\0'])
    {
        return Err(wrong());
    }
    match name.to_ascii_lowercase().as_str() {
        "host" => Err("--header Host: give --host instead".to_owned()),
        "connection" | "keep-alive" | "te" | "upgrade" if !is_http1 => {
            Err(format!("--header {name}: only HTTP/1.1 has it"))
        }
        "content-length" | "transfer-encoding" => {
            Err(format!("--header {name}: set by what is sent"))
        }
        _ => Ok(format!("{name}: {}", value.trim())),
    }
}

fn check(wanted: Option<CheckName>, writes: bool) -> Check {
    match wanted {
        Some(CheckName::Framing) => Check::Framing,
        None if !writes => Check::Framing,
        Some(CheckName::Bytes) | None => Check::Bytes,
    }
}

fn plan(
    common: &Common,
    address: Address,
    protocol: Protocol,
    load: &Load,
) -> Result<Plan, String> {
    let pace = match (common.rate, common.speed) {
        (Some(rate), _) => {
            let arrivals = match common.arrivals {
                Gaps::Even => Arrivals::Even,
                Gaps::Poisson => Arrivals::Poisson,
            };
            Pace::Open { rate, arrivals }
        }
        (None, Some(_)) if !load.is_timed() => {
            return Err("--speed: this trace has no times; give a --rate, or none for a closed \
                        loop"
                .to_owned());
        }
        (None, Some(speed)) => Pace::Recorded { speed },
        (None, None) => Pace::Closed,
    };
    if common.limit.iter().any(|limit| limit.needs_server()) && common.server_pid.is_empty() {
        return Err("--limit cpu: give the server's process with --server-pid".to_owned());
    }
    let ends = common.requests.is_some()
        || common.per_connection.is_some()
        || common.load.trace.is_some() && !common.load.repeat
        || common.load.popularity.as_deref() == Some("once");
    Ok(Plan {
        connections: common.connections,
        depth: common.depth,
        threads: common.threads,
        pace,
        until: Until {
            time: common.duration.or((!ends).then_some(DURATION)),
            requests: common.requests,
        },
        warm_up: common.warm_up,
        ramp_up: common.ramp_up,
        timeout: common.timeout,
        per_connection: common.per_connection,
        reconnect: common.reconnect,
        seed: load.seed_used(),
        server_pids: common.server_pid.clone(),
        ..Plan::new(address, protocol)
    })
}

fn run(command: &str, job: Result<Job<'_>, String>) -> ExitCode {
    let job = match job {
        Ok(job) => job,
        Err(wrong) => return exit::usage(command, &wrong),
    };
    let files = match Files::open(job.common) {
        Ok(files) => files,
        Err(wrong) => return exit::usage(command, &wrong),
    };
    interrupt::watch();
    forward(job.plan.stop.clone());
    match carry_out(&job, files) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("larder {command}: {error}");
            ExitCode::from(match error {
                Error::Plan(_) | Error::Files { .. } | Error::Process { .. } => exit::USAGE,
                Error::Unreachable { .. } | Error::System { .. } => exit::UNREACHABLE,
            })
        }
    }
}

/// Ends the run at Ctrl-C. The thread ends with the process.
fn forward(stop: Stop) {
    let watching = thread::Builder::new().name("stop".to_owned()).spawn(move || {
        while !interrupt::requested() {
            thread::sleep(LOOK);
        }
        stop.set();
    });
    // Without the thread the first Ctrl-C does nothing and the second ends the process.
    drop(watching);
}

fn carry_out(job: &Job<'_>, files: Files) -> Result<ExitCode, Error> {
    let (plan, load) = (&job.plan, &job.load);
    if job.fill {
        let filled = fill::fill(plan, load, job.common.quiet)?;
        say_filled(job, &filled);
    }
    let mut live = Live::new(job.common.quiet);
    let run = engine::run(
        plan,
        &|thread| load.source(thread, plan.threads, plan.seed),
        &mut |number, second| {
            live.second(number, second);
        },
    );
    live.end();
    let mut run = run?;
    run.name.clone_from(&job.name);
    run.how.extend(load.describe());
    say_troubles(job.command, load);
    let shown = show_run(job.common, &run, files);
    if let Err(wrong) = &shown {
        eprintln!("larder {}: {wrong}", job.command);
    }
    let mut missed = run.wrong > 0 || run.answers == 0;
    for limit in &job.common.limit {
        if let Some(found) = limit.missed(&run) {
            missed = true;
            eprintln!("larder {}: limit {limit} missed: {found}", job.command);
        }
    }
    // The result of the run takes precedence over an error in writing it.
    Ok(match shown {
        _ if missed => ExitCode::from(exit::MISSED),
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(exit::USAGE),
    })
}

fn say_filled(job: &Job<'_>, filled: &Run) {
    if !job.common.quiet {
        eprintln!("{} keys written", show::count(filled.answers));
    }
    for (kind, count) in &filled.errors {
        eprintln!("larder {}: while filling: {} {kind}", job.command, show::count(*count));
    }
}

fn say_troubles(command: &str, load: &Load) {
    let Some(skipped) = load.skipped() else { return };
    if skipped.malformed() > 0 {
        let lines = show::count(skipped.malformed());
        eprintln!(
            "larder {command}: {lines} lines of the trace could not be read: {}",
            skipped.examples().join("; ")
        );
    }
    if let Some(broken) = skipped.broken() {
        eprintln!("larder {command}: the trace ended early: {broken}");
    }
}

/// Files for reports, besides standard output.
struct Files {
    json: Option<Output>,
    html: Option<Output>,
}

impl Files {
    fn open(common: &Common) -> Result<Self, String> {
        let json = common.json.as_deref().filter(|_| !is_json_shown(common));
        Ok(Self {
            json: Output::maybe("--json", json)?,
            html: Output::maybe("--html", common.html.as_deref())?,
        })
    }
}

/// Whether standard output receives the JSON instead of the text.
fn is_json_shown(common: &Common) -> bool {
    common.json.as_deref() == Some(Path::new("-"))
}

/// Tries both files even if one fails.
fn show_run(common: &Common, run: &Run, files: Files) -> Result<(), String> {
    let to_stdout = is_json_shown(common);
    if !common.quiet && !to_stdout {
        print(&report::text(run));
    }
    if to_stdout {
        print(&report::json(run));
        print("\n");
    }
    let json = files.json.map_or(Ok(()), |json| json.write(&(report::json(run) + "\n")));
    let html = files.html.map_or(Ok(()), |html| html.write(&report::html(run)));
    json.and(html)
}

/// A closed pipe is not an error.
fn print(text: &str) {
    let _ = io::stdout().lock().write_all(text.as_bytes());
}
