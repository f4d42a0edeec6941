//! From typed values to settings: TLS of clients (`[https]`) and of origins.

use std::{
    net::SocketAddr,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use larder_server::settings::{
    Certificate, CertificateSource, ClientAuth, ClientAuthError, FaceTls, HttpsSettings, Listen,
    OriginScheme, OriginTls, Secret, TICKET_KEY_BYTES, TlsVersion,
};
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};

use super::{
    bounded,
    build::{file, files},
    origin::useless,
    problem::{Location, Problem, Report},
    reader::Values,
    value::{OriginUrl, UrlScheme},
};

/// Largest file of certificates or of a key, in bytes.
pub(super) const PEM_BYTES: usize = 1 << 20;

/// Before the end of a certificate: from here on it is warned of.
const SOON: Duration = Duration::from_secs(14 * 86_400);

/// Options about the certificates of clients.
const MODE: &str = "client_certificate";
const CA: &str = "client_ca";
const CRL: &str = "client_crl";

/// Options of https origins alone.
pub(super) const OF_HTTPS: [&str; 5] = ["ca", "verify", "tls_name", "cert", "key"];

/// HTTPS; None: the file has no such table, or has a mistake in it, which is in the report.
pub(super) fn https(root: &Values, directory: &Path, report: &mut Report) -> Option<HttpsSettings> {
    if !root.is_set("https") {
        return None;
    }
    let values = root.table("https");
    let listen: Vec<SocketAddr> = values.list("listen");
    // Of an address or a certificate that is wrong in a flag, its own mistake says enough.
    let wrong_flag = matches!(values.location("listen"), Location::Flag(_))
        || values
            .tables("certificates")
            .iter()
            .any(|one| !one.is_set("cert") || !one.is_set("key"));
    if listen.is_empty() && !wrong_flag {
        let problem = Problem::new(values.location("listen"), "it listens nowhere");
        let fix = match values.location {
            Location::Whole => "give --https 0.0.0.0:443",
            _ => "name an address, or take out [https]",
        };
        report.error(problem.fix(fix));
    }
    let mut certificates = Vec::new();
    for values in values.tables("certificates") {
        let stapled = certificate(values, directory, report)
            .and_then(|certificate| stapled(certificate, values, directory, report));
        certificates.extend(stapled.map(Arc::new));
    }
    if values.tables("certificates").is_empty() && !root.is_set("acme") {
        certificates.extend(self_signed(&values, &listen, report).map(Arc::new));
    }
    let min_version = min_version(&values)?;
    if values.get("redirect")? && !root.table("http").is_set("listen") {
        let message = "there is no listener of plain HTTP whose requests it could send here";
        let problem = Problem::new(values.location("redirect"), message);
        report.warn(problem.fix("name one: http.listen"));
    }
    Some(HttpsSettings {
        listen,
        certificates,
        ordered: Vec::new(),
        acme: None,
        min_version,
        ticket_keys: ticket_keys(&values, directory, report),
        http2: values.get("http2")?,
        http3: values.get("http3")?,
        redirect: values.get("redirect")?,
        hsts: hsts(&values, report),
    })
}

fn certificate(values: &Values, directory: &Path, report: &mut Report) -> Option<Certificate> {
    let (chain, key) = (file(values, "cert", directory)?, file(values, "key", directory)?);
    let (chain_bytes, _) = read(values, "cert", &chain, report)?;
    let key_bytes = read_secret(values, "key", &key, report)?;
    match Certificate::parse(&chain_bytes, &key_bytes) {
        Ok(mut certificate) => {
            look_at_time(values, &chain, &certificate, report);
            certificate.source = CertificateSource::File(chain);
            Some(certificate)
        }
        Err(error) => {
            let name = if error.is_of_key() { "key" } else { "cert" };
            let of = if error.is_of_key() { &key } else { &chain };
            let message = format!("{}: {error}", of.display());
            report.error(Problem::new(values.location(name), message));
            None
        }
    }
}

/// A certificate with the OCSP response of its file, if it names one.
fn stapled(
    mut certificate: Certificate,
    values: &Values,
    directory: &Path,
    report: &mut Report,
) -> Option<Certificate> {
    let Some(path) = file(values, "ocsp", directory) else { return Some(certificate) };
    let (response, _) = read(values, "ocsp", &path, report)?;
    if let Err(error) = certificate.staple(response) {
        let message = format!("{}: {error}", path.display());
        report.error(Problem::new(values.location("ocsp"), message));
        return None;
    }
    Some(certificate)
}

/// The bytes of a file, and its permission bits.
fn read(
    values: &Values,
    name: &'static str,
    path: &Path,
    report: &mut Report,
) -> Option<(Vec<u8>, u32)> {
    match bounded::read(path, PEM_BYTES) {
        Ok(read) => Some(read),
        Err(reason) => {
            let message = format!("cannot read {}: {reason}", path.display());
            report.error(Problem::new(values.location(name), message));
            None
        }
    }
}

/// The bytes of a file that nobody else should read.
fn read_secret(
    values: &Values,
    name: &'static str,
    path: &Path,
    report: &mut Report,
) -> Option<Vec<u8>> {
    let (bytes, mode) = read(values, name, path, report)?;
    if mode & 0o004 != 0 {
        let message = "every user of this machine can read the key";
        let problem = Problem::new(values.location(name), message);
        report.warn(problem.fix(format!("chmod o-r {}", path.display())));
    }
    Some(bytes)
}

/// The keys of session tickets; empty: none are named, or one is unusable, which is in the report.
fn ticket_keys(values: &Values, directory: &Path, report: &mut Report) -> Vec<Secret> {
    const NAME: &str = "ticket_key_file";
    let mut keys = Vec::new();
    for path in files(values, NAME, directory) {
        let Some(bytes) = read_secret(values, NAME, &path, report) else { continue };
        match Secret::new(&bytes).filter(|_| TICKET_KEY_BYTES.contains(&bytes.len())) {
            Some(key) => keys.push(key),
            None => {
                let message =
                    format!("{}: expected 48 or 80 bytes, found {}", path.display(), bytes.len());
                let problem = Problem::new(values.location(NAME), message);
                report.error(problem.fix(format!("openssl rand 80 > {}", path.display())));
            }
        }
    }
    keys
}

/// The certificates that the clients of a site are asked for: as the site says, or else as
/// `[https]` does. None: they are not asked, or there is a mistake, which is in the report.
pub(super) fn client_auth(
    root: &Values,
    site: &Values,
    directory: &Path,
    report: &mut Report,
) -> Option<Arc<ClientAuth>> {
    let https = root.table("https");
    if !root.is_set("https") && site.is_set("client_ca") {
        let message = "certificates are asked for over HTTPS, and it is not served";
        report.error(Problem::new(site.location("client_ca"), message));
        return None;
    }
    asked_of_clients(|name| if site.is_set(name) { site } else { &https }, directory, report)
}

/// The same by the options of the tables that `of` gives by the names of the options.
fn asked_of_clients<'v>(
    of: impl Fn(&'static str) -> &'v Values,
    directory: &Path,
    report: &mut Report,
) -> Option<Arc<ClientAuth>> {
    let mode: Option<String> = of(MODE).maybe(MODE);
    let path = match file(of(CA), CA, directory) {
        Some(path) if mode.as_deref() != Some("off") => path,
        None if mode.is_some_and(|mode| mode != "off") => {
            let message = "no authority is named whose certificates clients could show";
            let problem = Problem::new(of(MODE).location(MODE), message);
            report.error(problem.fix("give client_ca = \"FILE\""));
            return None;
        }
        _ => return None,
    };
    let (known, _) = read(of(CA), CA, &path, report)?;
    let revoked_path = file(of(CRL), CRL, directory);
    let revoked = match &revoked_path {
        Some(path) => Some(read(of(CRL), CRL, path, report)?.0),
        None => None,
    };
    let required = mode.is_none_or(|mode| mode == "required");
    match ClientAuth::new(required, &known, revoked.as_deref()) {
        Ok(auth) => Some(Arc::new(auth)),
        Err(error) => {
            let (name, path) = match (&error, revoked_path) {
                (ClientAuthError::NoList(_), Some(path)) => (CRL, path),
                _ => (CA, path),
            };
            let message = format!("{}: {error}", path.display());
            report.error(Problem::new(of(name).location(name), message));
            None
        }
    }
}

/// TLS of an object face. None: it is not spoken, or there is a mistake, which is in the report.
pub(super) fn face_tls(
    face: &Values,
    listen: impl Fn(&Values) -> Vec<Listen>,
    directory: &Path,
    report: &mut Report,
) -> Option<FaceTls> {
    if !face.is_set("tls") {
        return None;
    }
    let values = face.table("tls");
    let listen = listen(&values);
    if listen.is_empty() {
        let problem = Problem::new(values.location("listen"), "it listens nowhere");
        report.error(problem.fix("name an address, or take out `tls`"));
    }
    Some(FaceTls {
        listen,
        certificate: Arc::new(certificate(&values, directory, report)?),
        min_version: min_version(&values)?,
        clients: asked_of_clients(|_| &values, directory, report),
    })
}

fn min_version(values: &Values) -> Option<TlsVersion> {
    Some(match values.get::<String>("min_version")?.as_str() {
        "1.3" => TlsVersion::Tls13,
        _ => TlsVersion::Tls12,
    })
}

/// The protocol of an origin, with what secures it. None: a mistake, which is in the report.
pub(super) fn origin_scheme(
    values: &Values,
    url: &OriginUrl,
    directory: &Path,
    report: &mut Report,
) -> Option<OriginScheme> {
    if url.scheme != UrlScheme::Https {
        useless(values, &OF_HTTPS, "for https origins", report);
        return Some(OriginScheme::Http);
    }
    let name = values.maybe("tls_name").unwrap_or_else(|| url.host.clone());
    if ServerName::try_from(name.as_str()).is_err() {
        let message = format!("expected a host name or an address, found {name:?}");
        report.error(Problem::new(values.location("tls_name"), message));
        return None;
    }
    let client = match (values.is_set("cert"), values.is_set("key")) {
        (false, false) => None,
        (true, true) => Some(Arc::new(certificate(values, directory, report)?)),
        _ => {
            let message = "a certificate and its key are two files: cert and key";
            report.error(Problem::new(values.location("cert"), message));
            return None;
        }
    };
    let verify = values.get("verify")?;
    let roots = if verify { roots(values, directory, report)? } else { Vec::new() };
    let tls = OriginTls { name, roots: roots.into(), verify, client };
    Some(OriginScheme::Https(Arc::new(tls)))
}

/// The authorities that may sign the certificate of a server that Larder asks: an origin, a
/// directory of ACME.
pub(super) fn roots(
    values: &Values,
    directory: &Path,
    report: &mut Report,
) -> Option<Vec<CertificateDer<'static>>> {
    let Some(path) = file(values, "ca", directory) else {
        let roots = rustls_native_certs::load_native_certs().certs;
        if roots.is_empty() {
            let message = "this system knows no authority that could sign the certificate of an \
                           https server";
            let problem = Problem::new(values.location("url"), message);
            report.error(problem.fix("install ca-certificates, or give `ca`"));
            return None;
        }
        return Some(roots);
    };
    let (bytes, _) = read(values, "ca", &path, report)?;
    let roots: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match roots {
        Ok(roots) if !roots.is_empty() => Some(roots),
        _ => {
            let message = format!("{}: there is no certificate in PEM", path.display());
            report.error(Problem::new(values.location("ca"), message));
            None
        }
    }
}

fn look_at_time(values: &Values, path: &Path, certificate: &Certificate, report: &mut Report) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let left = certificate.not_after - now.as_secs() as i64;
    let message = if left < 0 {
        format!("{}: the certificate has expired", path.display())
    } else if left < SOON.as_secs() as i64 {
        format!("{}: the certificate ends in {} days", path.display(), left / 86_400)
    } else {
        return;
    };
    report.warn(Problem::new(values.location("cert"), message));
}

/// A certificate for trying, where no other machine is served.
fn self_signed(values: &Values, listen: &[SocketAddr], report: &mut Report) -> Option<Certificate> {
    if let Some(open) = listen.iter().find(|address| !address.ip().is_loopback()) {
        let message = format!("there is no certificate, and other machines can reach {open}");
        let problem = Problem::new(values.location("certificates"), message);
        report.error(problem.fix(
            "give --acme EMAIL --name HOST, or --cert FILE --key FILE, or certificates = [{ cert, \
             key }]",
        ));
        return None;
    }
    if listen.is_empty() {
        return None;
    }
    report.warn(Problem::new(
        Location::Whole,
        "there is no certificate: HTTPS shows a self-signed one that no client knows",
    ));
    match Certificate::self_signed() {
        Ok(certificate) => Some(certificate),
        Err(error) => {
            report.error(Problem::new(values.location("certificates"), error.to_string()));
            None
        }
    }
}

fn hsts(values: &Values, report: &mut Report) -> Option<String> {
    let value: String = values.get("hsts").filter(|value: &String| !value.is_empty())?;
    let directives = value.split(';').map(|part| part.trim().to_ascii_lowercase());
    let age = |part: &String| {
        part.strip_prefix("max-age=").is_some_and(|seconds| {
            !seconds.is_empty() && seconds.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    let visible = value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if visible && directives.filter(age).count() == 1 {
        return Some(value);
    }
    let message = format!("expected one `max-age=SECONDS` and directives, found {value:?}");
    let problem = Problem::new(values.location("hsts"), message);
    report.error(problem.fix("write hsts = \"max-age=31536000\""));
    None
}
