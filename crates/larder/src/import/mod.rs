//! `larder import`: the configuration of nginx, Varnish, Squid or memcached as one of Larder.
//!
//! A setting without a counterpart is left out and reported, with its line; none in silence.
//! The result is checked as `larder check` does.

mod draft;
mod memcached;
mod nginx;
mod squid;
#[cfg(test)]
mod tests;
mod times;
mod varnish;

use std::{io::Read as _, path::Path, process::ExitCode};

use crate::{
    check,
    cli::{ImportArgs, ImportFrom},
    config::{self, Flags, bounded},
    exit,
};
use draft::{Draft, Left};

/// Largest configuration that is read, in bytes.
const BYTES: usize = 4 << 20;

/// Writes the configuration to standard output, and the report to standard error.
pub(crate) fn run(args: &ImportArgs) -> ExitCode {
    let (draft, from) = match read(args) {
        Ok(read) => read,
        Err(message) => {
            eprintln!("larder import: {message}");
            return ExitCode::from(exit::USAGE);
        }
    };
    let text = draft.toml(&from);
    print!("{text}");
    report(&draft.left);
    let checked = config::parse(None, &text, &Flags::default());
    if !checked.report.errors.is_empty() {
        let count = check::count(checked.report.errors.len());
        eprintln!("larder import: the result needs your hand, {count}:\n{}", checked.report);
        return ExitCode::from(exit::NOTHING);
    }
    exit::DONE
}

/// Says what was left out.
fn report(left: &[Left]) {
    for Left { line, text, why } in left {
        let place = if *line > 0 { format!("line {line}: ") } else { String::new() };
        eprintln!("larder import: {place}{text}: {why}");
    }
    match left.len() {
        0 => eprintln!("larder import: everything was carried over"),
        1 => eprintln!("larder import: 1 setting was not carried over"),
        count => eprintln!("larder import: {count} settings were not carried over"),
    }
}

/// The draft, and where it comes from in words.
fn read(args: &ImportArgs) -> Result<(Draft, String), String> {
    if args.from == ImportFrom::Memcached {
        let mut words: Vec<&str> = args.words.iter().map(String::as_str).collect();
        words.splice(0..0, args.file.as_deref());
        let named = words.first().is_some_and(|word| word.ends_with("memcached"));
        let flags = if named { &words[1..] } else { &words[..] };
        return Ok((memcached::draft(flags), format!("`memcached {}`", flags.join(" "))));
    }
    let file = args.file.as_deref().ok_or("say which file is to be read; `-`: standard input")?;
    let text = text_of(file)?;
    let draft = match args.from {
        ImportFrom::Nginx => nginx::draft(&text),
        ImportFrom::Varnish => varnish::draft(&text, &args.words),
        ImportFrom::Squid | ImportFrom::Memcached => squid::draft(&text),
    };
    Ok((draft, file.to_owned()))
}

fn text_of(file: &str) -> Result<String, String> {
    let bytes = match file {
        "-" => {
            let mut bytes = Vec::new();
            let input = std::io::stdin().lock().take(BYTES as u64 + 1);
            let mut input = input;
            input.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
            if bytes.len() > BYTES {
                return Err(format!("it is larger than {BYTES} bytes"));
            }
            bytes
        }
        path => bounded::read(Path::new(path), BYTES).map_err(|why| format!("{path}: {why}"))?.0,
    };
    String::from_utf8(bytes).map_err(|_| format!("{file}: it is not UTF-8 text"))
}
