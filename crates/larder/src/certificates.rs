//! `larder certificates`: lists the certificates of a configuration.

use std::{
    path::Path,
    process::ExitCode,
    time::{SystemTime, UNIX_EPOCH},
};

use larder_server::settings::{Certificate, CertificateSource, HttpsSettings};

use crate::{acme::Store, cli::CertificatesArgs, config, exit};

const DAY: i64 = 86_400;

/// Prints a line for each certificate and for each name that has none yet.
pub(crate) fn run(args: &CertificatesArgs) -> ExitCode {
    let flags = args.flags();
    if flags.config.is_none() && !Path::new(config::DEFAULT_FILE).exists() {
        eprintln!("larder: no configuration: name its file with --config FILE");
        return ExitCode::from(exit::USAGE);
    }
    let loaded = match config::load(&flags) {
        Ok(loaded) => loaded,
        Err(message) => {
            eprint!("{message}");
            return ExitCode::from(exit::USAGE);
        }
    };
    eprint!("{}", loaded.report);
    let Some(settings) = loaded.settings else { return ExitCode::from(exit::USAGE) };
    let Some(https) = &settings.https else {
        eprintln!("larder: HTTPS is not served");
        return ExitCode::from(exit::NOTHING);
    };
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut rows = vec![["NAMES", "FROM", "ENDS", "RENEWAL"].map(str::to_owned)];
    rows.extend(list(https, i64::try_from(since.as_secs()).unwrap_or(i64::MAX)));
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2)];
    for [names, from, ends, renewal] in &rows {
        let [a, b, c] = widths;
        println!("{names:a$}  {from:b$}  {ends:c$}  {renewal}");
    }
    exit::DONE
}

fn list(https: &HttpsSettings, now: i64) -> Vec<[String; 4]> {
    let mut rows = Vec::new();
    for certificate in &https.certificates {
        let names = if certificate.names.is_empty() {
            vec!["(none)".to_owned()]
        } else {
            names(certificate)
        };
        let from = match &certificate.source {
            CertificateSource::File(path) => path.display().to_string(),
            source => source.as_str().to_owned(),
        };
        rows.push([names.join(" "), from, ends(certificate, now), "yours to do".to_owned()]);
    }
    let Some(settings) = &https.acme else { return rows };
    let store = Store::new(settings);
    for name in &settings.names {
        let held = https.ordered.iter().find(|certificate| {
            certificate.source == CertificateSource::Acme && certificate.rank(name).is_some()
        });
        let saved = store.saved(name);
        let mut renewal = match saved.renew_at {
            Some(at) if held.is_some() && at > now => format!("in {}", days(at - now)),
            _ => "at once".to_owned(),
        };
        if let Some(reason) = saved.reason {
            renewal.push_str(&format!("; the last order failed: {reason}"));
        }
        let ends = held.map_or_else(|| "there is none yet".to_owned(), |held| ends(held, now));
        rows.push([name.clone(), settings.directory.clone(), ends, renewal]);
    }
    rows
}

fn names(certificate: &Certificate) -> Vec<String> {
    certificate.names.iter().map(ToString::to_string).collect()
}

fn ends(certificate: &Certificate, now: i64) -> String {
    match certificate.not_after - now {
        left @ 0.. => format!("in {}", days(left)),
        left => format!("{} ago", days(-left)),
    }
}

fn days(seconds: i64) -> String {
    match seconds / DAY {
        0 => format!("{} hours", seconds / 3_600),
        days => format!("{days} days"),
    }
}
