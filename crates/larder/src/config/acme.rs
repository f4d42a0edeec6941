//! From typed values to settings: certificates by ACME (`[acme]`).

use std::{
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use larder_server::settings::{
    AcmeSettings, ChallengeKind, ExternalAccount, HostPattern, HttpsSettings, Site,
};

use super::{
    TOKEN_BYTES, bounded,
    build::file,
    https::roots,
    problem::{Problem, Report},
    reader::Values,
};
use crate::acme;

/// Let's Encrypt's directory for tries.
const STAGING: &str = "https://acme-staging-v02.api.letsencrypt.org/directory";

/// The ports at which authorities ask.
const HTTP_PORT: u16 = 80;
const TLS_PORT: u16 = 443;

/// Reads `[acme]` into the settings of HTTPS, with the certificates that were ordered before.
/// `plain`: the listeners of plain HTTP.
pub(super) fn acme(
    root: &Values,
    directory: &Path,
    sites: &[Arc<Site>],
    plain: &[SocketAddr],
    https: Option<&mut HttpsSettings>,
    report: &mut Report,
) {
    if !root.is_set("acme") {
        return;
    }
    let values = root.table("acme");
    let Some(https) = https else {
        if !root.is_set("https") {
            let message = "certificates are for HTTPS, and it is not served";
            let problem = Problem::new(values.location("email"), message);
            report.error(problem.fix("give --https 0.0.0.0:443, or [https] with `listen`"));
        }
        return;
    };
    let Some(settings) = settings(&values, directory, sites, plain, https, report) else { return };
    let (ordered, faults) = acme::ordered(&settings, &https.certificates, &[]);
    for fault in faults {
        report.warn(Problem::new(values.location("state_dir"), fault));
    }
    https.ordered = ordered;
    https.acme = Some(Arc::new(settings));
}

fn settings(
    values: &Values,
    directory: &Path,
    sites: &[Arc<Site>],
    plain: &[SocketAddr],
    https: &HttpsSettings,
    report: &mut Report,
) -> Option<AcmeSettings> {
    let names = names(values, sites, https, report)?;
    let url = directory_url(values, report)?;
    let challenge = challenge(values, plain, https, report)?;
    let Some(state_dir) = file(values, "state_dir", directory).or_else(default_state_dir) else {
        let problem = Problem::new(values.location("state_dir"), "there is no place for the keys");
        report.error(problem.fix("set acme.state_dir"));
        return None;
    };
    Some(AcmeSettings {
        email: values.maybe("email"),
        directory: url,
        challenge,
        state_dir,
        names,
        roots: roots(values, directory, report)?.into(),
        external_account: external_account(values, directory, report)?,
    })
}

/// The names to order certificates for, in lower case.
fn names(
    values: &Values,
    sites: &[Arc<Site>],
    https: &HttpsSettings,
    report: &mut Report,
) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut add = |name: String| {
        if !names.contains(&name) {
            names.push(name);
        }
    };
    let mut wrong = false;
    if let Some(items) = values.items::<HostPattern>("names") {
        for (pattern, location) in items {
            match pattern {
                HostPattern::Exact(name) if !is_address(&name) => add(name),
                _ => {
                    let message = "a certificate is ordered for a host name; wildcards take \
                                   dns-01, which Larder does not speak";
                    report.error(Problem::new(location, message));
                    wrong = true;
                }
            }
        }
    } else {
        let mut left_out = Vec::new();
        for host in sites.iter().flat_map(|site| &site.hosts) {
            match host {
                HostPattern::Suffix(suffix) => left_out.push(format!("*{suffix}")),
                HostPattern::Exact(name) if is_address(name) || name == "localhost" => {
                    left_out.push(name.clone())
                }
                HostPattern::Exact(name) => {
                    let has = https.certificates.iter().any(|held| held.rank(name).is_some());
                    (!has).then(|| add(name.clone()));
                }
            }
        }
        if !left_out.is_empty() {
            let message = format!("no certificate is ordered for {}", left_out.join(", "));
            report.note(Problem::new(values.location("names"), message));
        }
    }
    if names.is_empty() && !wrong {
        let problem =
            Problem::new(values.location("names"), "there is no name to order a certificate for");
        report.error(
            problem.fix(
                "give --name www.example.org, or acme.names, or name the `hosts` of a [[site]]",
            ),
        );
    }
    (!names.is_empty()).then_some(names)
}

fn is_address(name: &str) -> bool {
    name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
}

fn directory_url(values: &Values, report: &mut Report) -> Option<String> {
    let staging: bool = values.get("staging")?;
    if staging && values.is_set("directory") {
        let message = "`staging` names Let's Encrypt's directory, and `directory` another one";
        report.error(Problem::new(values.location("staging"), message).fix("take one of them out"));
        return None;
    }
    let url = if staging { STAGING.to_owned() } else { values.get("directory")? };
    let host = |url: &http::Uri| url.host().is_some_and(|host| !host.is_empty());
    let parsed = url.parse::<http::Uri>().ok().filter(host);
    if parsed.is_none_or(|url| url.scheme_str() != Some("https")) {
        let message = format!("expected the https URL of a directory, found {url:?}");
        report.error(Problem::new(values.location("directory"), message));
        return None;
    }
    Some(url)
}

fn challenge(
    values: &Values,
    plain: &[SocketAddr],
    https: &HttpsSettings,
    report: &mut Report,
) -> Option<ChallengeKind> {
    let challenge = match values.maybe::<String>("challenge").as_deref() {
        Some("tls-alpn-01") => ChallengeKind::TlsAlpn01,
        Some(_) => ChallengeKind::Http01,
        // An authority does not reach a listener for this machine alone.
        None if plain.iter().all(is_local) && !https.listen.iter().all(is_local) => {
            ChallengeKind::TlsAlpn01
        }
        None if plain.is_empty() => ChallengeKind::TlsAlpn01,
        None => ChallengeKind::Http01,
    };
    let location = values.location("challenge");
    if challenge == ChallengeKind::Http01 && plain.is_empty() {
        let problem =
            Problem::new(location, "http-01 is answered over plain HTTP, and there is none");
        report.error(problem.fix("give http.listen at port 80, or take tls-alpn-01"));
        return None;
    }
    let (listen, port) = match challenge {
        ChallengeKind::Http01 => (plain, HTTP_PORT),
        ChallengeKind::TlsAlpn01 => (&https.listen[..], TLS_PORT),
    };
    if !listen.iter().any(|address| address.port() == port) {
        let message = format!(
            "authorities ask for {} at port {port}, and Larder listens on others: that port must \
             lead here",
            challenge.as_str()
        );
        report.note(Problem::new(location, message));
    }
    Some(challenge)
}

fn is_local(address: &SocketAddr) -> bool {
    address.ip().is_loopback()
}

/// None: there is a mistake, which is in the report.
fn external_account(
    values: &Values,
    directory: &Path,
    report: &mut Report,
) -> Option<Option<ExternalAccount>> {
    let kid: Option<String> = values.maybe("eab_kid");
    let (kid, path) = match (kid, file(values, "eab_key_file", directory)) {
        (None, None) => return Some(None),
        (Some(kid), Some(path)) => (kid, path),
        _ => {
            let message = "an external account has a name and a key: eab_kid and eab_key_file";
            report.error(Problem::new(values.location("eab_kid"), message));
            return None;
        }
    };
    let key = bounded::read(&path, TOKEN_BYTES).and_then(|(text, _)| {
        let text = text.trim_ascii();
        let text = text.strip_suffix(b"==").or_else(|| text.strip_suffix(b"=")).unwrap_or(text);
        BASE64_URL_SAFE_NO_PAD.decode(text).map_err(|_| "it is not base64url".to_owned())
    });
    match key {
        Ok(key) => Some(Some(ExternalAccount { kid, key })),
        Err(reason) => {
            let message = format!("cannot use the key file {}: {reason}", path.display());
            report.error(Problem::new(values.location("eab_key_file"), message));
            None
        }
    }
}

fn default_state_dir() -> Option<PathBuf> {
    let of = |variable: &str| {
        // Of several directories in STATE_DIRECTORY the first counts.
        let value = std::env::var_os(variable)?;
        std::env::split_paths(&value).next().filter(|path| path.is_absolute())
    };
    if let Some(path) = of("STATE_DIRECTORY") {
        return Some(path.join("acme"));
    }
    if rustix::process::geteuid().is_root() {
        return Some(PathBuf::from("/var/lib/larder/acme"));
    }
    let state = of("XDG_STATE_HOME").or_else(|| Some(of("HOME")?.join(".local/state")))?;
    Some(state.join("larder/acme"))
}
