//! From typed values to settings: `[[peer]]`, `[icp]`, `[htcp]`.

use std::{
    collections::HashSet,
    net::{IpAddr, SocketAddr},
    path::Path,
    sync::Arc,
    time::Duration,
};

use larder_server::settings::{
    FamilySettings, HtcpKey, HtcpSettings, IcpSettings, Net, OriginGroup, OriginScheme,
    OriginSettings, PeerRole, PeerSelect, PeerSettings, Site, TargetForm,
};

use super::{
    build::{anyone, token_file},
    problem::{Location, Problem, Report, nearest},
    reader::Values,
    value::{OriginUrl, UrlScheme},
};

/// Port of ICP.
const ICP_PORT: u16 = 3130;
/// Port of HTCP.
const HTCP_PORT: u16 = 4827;
/// The most peers: each worker has sockets for each of them.
const MAX_PEERS: usize = 64;

/// The family of caches. Mistakes are in the report.
pub(super) fn family(
    root: &Values,
    directory: &Path,
    sites: &[Arc<Site>],
    report: &mut Report,
) -> FamilySettings {
    FamilySettings {
        peers: peers(root, directory, sites, report),
        icp: icp(root, report),
        htcp: htcp(root, directory, report),
    }
}

fn peers(
    root: &Values,
    directory: &Path,
    sites: &[Arc<Site>],
    report: &mut Report,
) -> Vec<Arc<PeerSettings>> {
    let tables = root.tables("peer");
    let (mut seen, mut peers) = (HashSet::new(), Vec::new());
    for values in tables {
        let Some(peer) = peer(values, directory, report) else { continue };
        if !seen.insert(peer.name.clone()) {
            let message = format!("there are two peers of the name \"{}\"", peer.name);
            let problem = Problem::new(values.location("name"), message);
            report.error(problem.fix("give one of them another `name`"));
        }
        for (name, location) in values.items::<String>("sites").unwrap_or_default() {
            if !sites.iter().any(|site| site.name == name) {
                let message = format!("there is no site \"{name}\"");
                let problem = Problem::new(location, message);
                let names = sites.iter().map(|site| site.name.as_str());
                report.error(match nearest(&name, names) {
                    Some(near) => problem.fix(format!("did you mean \"{near}\"?")),
                    None => problem.fix("a site is named by the first of its `hosts`"),
                });
            }
        }
        peers.push(Arc::new(peer));
    }
    if let Some(extra) = tables.get(MAX_PEERS) {
        let message = format!("{} peers; at most {MAX_PEERS}", tables.len());
        report.error(Problem::new(extra.location.clone(), message));
    }
    peers
}

fn peer(values: &Values, directory: &Path, report: &mut Report) -> Option<PeerSettings> {
    let url: OriginUrl = values.get("url")?;
    if url.scheme != UrlScheme::Http || url.host.is_empty() {
        let problem = Problem::new(values.location("url"), "peers are reached by plain http");
        report.error(problem.fix("write `http://` and an address"));
        return None;
    }
    let role = match values.get::<String>("role")?.as_str() {
        "sibling" => PeerRole::Sibling,
        _ => PeerRole::Parent,
    };
    let (select, port) = match values.get::<String>("select")?.as_str() {
        "icp" => (PeerSelect::Icp, Some(ICP_PORT)),
        "htcp" => (PeerSelect::Htcp, Some(HTCP_PORT)),
        "hash" => (PeerSelect::Hash, None),
        _ => (PeerSelect::First, None),
    };
    if (role, select) == (PeerRole::Sibling, PeerSelect::Hash) {
        let message = "`hash` names the cache that is to fetch a page, and a sibling fetches none";
        let problem = Problem::new(values.location("select"), message);
        report.error(problem.fix("make it a parent, or `select = \"htcp\"`"));
    }
    let address = url.host.parse::<IpAddr>().ok();
    let clear = values.maybe("clear").unwrap_or(select == PeerSelect::Htcp);
    if address.is_none() && (port.is_some() || clear) {
        let message = "a peer that is queried or told of purges is named by its address";
        let problem = Problem::new(values.location("url"), message);
        report.error(problem.fix("write the address, and the name into `name`"));
    }
    let at = |port: u16| address.map(|ip| SocketAddr::new(ip, port));
    let port = port.map(|default| values.maybe("query_port").unwrap_or(default));
    let of_htcp = port.filter(|_| select == PeerSelect::Htcp);
    let clear_port = values.maybe("clear_port").or(of_htcp).unwrap_or(HTCP_PORT);
    if port.is_none() && values.is_set("query_port") {
        let problem =
            Problem::new(values.location("query_port"), "it gets no queries, and has no port");
        report.warn(problem.fix("`select = \"icp\"` or `select = \"htcp\"`"));
    }
    let name = values.maybe("name").unwrap_or_else(|| url.host.to_ascii_lowercase());
    let weight = values.get("weight")?;
    Some(PeerSettings {
        name,
        role,
        select,
        weight,
        sites: values.list("sites"),
        queries: port.and_then(at),
        query_timeout: values.get("query_timeout")?,
        dead_after: values.get("dead_after")?,
        clears: clear.then(|| at(clear_port)).flatten(),
        key: key(values, directory, report),
        group: Arc::new(OriginGroup {
            // A sibling's 504 says that it has nothing, which is no failure.
            retry_status: Vec::new(),
            ..OriginGroup::single(Arc::new(origin(values, url)?))
        }),
    })
}

/// A peer as an origin: requests to it have the whole URL, as those to a proxy.
fn origin(values: &Values, url: OriginUrl) -> Option<OriginSettings> {
    let first_byte_timeout: Duration = values.get("first_byte_timeout")?;
    Some(OriginSettings {
        scheme: OriginScheme::Http,
        target: TargetForm::Absolute,
        host: url.host,
        port: url.port,
        socket: None,
        address: None,
        app: None,
        send_files: Vec::new(),
        proxy_protocol: None,
        host_header: None,
        connect_timeout: values.get("connect_timeout")?,
        first_byte_timeout,
        between_bytes_timeout: Duration::from_secs(30),
        total_timeout: Duration::from_secs(3600),
        max_connections: 128,
        max_waiting: 1024,
        // A peer that is busy is no help: the next one is asked.
        max_wait: Duration::from_secs(1),
        idle_connections: 32,
        idle_timeout: Duration::from_secs(30),
    })
}

fn key(values: &Values, directory: &Path, report: &mut Report) -> Option<HtcpKey> {
    let secret = token_file(values, "secret_file", directory, report)?;
    Some(HtcpKey { name: values.get("key_name")?, secret })
}

/// The caches that may ask by ICP; None: nobody may.
fn icp(root: &Values, report: &mut Report) -> Option<IcpSettings> {
    let values = root.is_set("icp").then(|| root.table("icp"))?;
    nobody(&values, report);
    Some(IcpSettings { listen: values.list("listen"), from: values.list("from") })
}

/// Those that may ask by HTCP; None: nobody may.
fn htcp(root: &Values, directory: &Path, report: &mut Report) -> Option<HtcpSettings> {
    let values = root.is_set("htcp").then(|| root.table("htcp"))?;
    nobody(&values, report);
    let mut multicast = Vec::new();
    for (text, location) in values.items::<String>("multicast").unwrap_or_default() {
        match text.parse::<IpAddr>() {
            Ok(group) if group.is_multicast() => multicast.push(group),
            _ => {
                let message = format!("expected a multicast group, found {text:?}");
                let problem = Problem::new(location, message);
                report.error(problem.fix("an address such as \"239.128.0.112\""));
            }
        }
    }
    let key = key(&values, directory, report);
    let from: Vec<Net> = values.list("from");
    if key.is_none() && from.iter().any(|net| anyone(*net)) {
        let problem =
            Problem::new(values.location("from"), "anyone on the Internet may clear pages");
        report.warn(problem.fix("name the caches that may, or a `secret_file`"));
    }
    let interface = values.maybe::<String>("interface");
    let parsed = interface.as_ref().map(|text| text.parse());
    if let (Some(text), Some(Err(_))) = (&interface, &parsed) {
        let message = format!("expected an IPv4 address of this machine, found {text:?}");
        report.error(Problem::new(values.location("interface"), message));
    }
    Some(HtcpSettings {
        listen: values.list("listen"),
        from,
        multicast,
        interface: parsed.and_then(Result::ok),
        key,
    })
}

/// Warns where nobody may ask.
fn nobody(values: &Values, report: &mut Report) {
    let asked = !values.list::<SocketAddr>("listen").is_empty();
    if asked && values.list::<Net>("from").is_empty() {
        let problem = Problem::new(values.location("listen"), "nobody may ask here");
        report.warn(problem.fix("name the caches that may in `from`"));
    }
    if !asked {
        let location: Location = values.location.clone();
        let problem = Problem::new(location, "it is served nowhere");
        report.warn(problem.fix("name an address in `listen`"));
    }
}
