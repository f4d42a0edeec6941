//! `larder check`: prints the problems of a configuration.

use std::process::ExitCode;

use larder_server::settings::{Listen, Settings};

use crate::{
    config::{self, Flags, value},
    exit,
};

/// Prints every problem; without errors, the faces with their addresses.
pub(crate) fn run(flags: &Flags) -> ExitCode {
    let loaded = match config::load(flags) {
        Ok(loaded) => loaded,
        Err(message) => {
            eprint!("{message}");
            return ExitCode::from(exit::USAGE);
        }
    };
    eprint!("{}", loaded.report);
    match loaded.settings {
        Some(settings) => {
            summary(&settings);
            exit::DONE
        }
        None => {
            eprintln!("{}", count(loaded.report.errors.len()));
            ExitCode::from(exit::USAGE)
        }
    }
}

/// "1 error", "2 errors".
pub(crate) fn count(errors: usize) -> String {
    if errors == 1 { "1 error".to_owned() } else { format!("{errors} errors") }
}

fn summary(settings: &Settings) {
    println!(
        "good: {} of memory, threads: {}",
        value::show_size(settings.memory),
        settings.threads
    );
    for address in &settings.http.listen {
        println!("  listens on http://{address}");
    }
    for address in settings.https.iter().flat_map(|https| &https.listen) {
        println!("  listens on https://{address}");
    }
    for address in settings.https.iter().filter(|https| https.http3).flat_map(|h| &h.listen) {
        println!("  listens on http3+udp://{address}");
    }
    for (face, listen) in [
        ("memcached", settings.memcached.as_ref().map(|face| &face.listen)),
        ("redis", settings.redis.as_ref().map(|face| &face.listen)),
        ("queue", settings.queue.as_ref().map(|face| &face.listen)),
    ] {
        for listen in listen.into_iter().flatten() {
            match listen {
                Listen::Tcp(address) => println!("  listens on {face}://{address}"),
                Listen::Unix { path, mode } => {
                    println!("  listens on {face}+unix:{} ({mode:o})", path.display())
                }
            }
        }
    }
    for address in settings.memcached.iter().flat_map(|face| &face.udp) {
        println!("  listens on memcached+udp://{address}");
    }
    for app in &settings.apps {
        println!("  runs {}: {}, processes: {}", app.name, app.command.join(" "), app.processes);
    }
    for site in &settings.sites {
        println!("  {} from {}, rules: {}", site.name, site.origin.name(), site.rules.len());
    }
}
