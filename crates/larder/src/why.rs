//! `larder why`: finds an error by the reference that its page shows.

use std::{path::Path, process::ExitCode};

use larder_metrics::AnsweredError;
use larder_proto::http::date;

use crate::{
    ask,
    cli::WhyArgs,
    config::{TOKEN_BYTES, bounded, value},
    control, exit,
};

/// The admin interface where none is named and none of this user answers on its control socket.
const ADMIN: &str = "127.0.0.1:8081";
/// All errors that a server remembers, with the longest URLs.
const ANSWER_BYTES: usize = 4 << 20;

/// Prints the error of a reference, or the latest ones.
pub(crate) fn run(args: &WhyArgs) -> ExitCode {
    let named = args.admin.is_some() || args.token_file.is_some();
    control::only_for("why", named, |local| print(args, local))
}

fn print(args: &WhyArgs, local: Option<&Path>) -> ExitCode {
    match asked(args, local) {
        Ok(errors) if errors.is_empty() => {
            let what = if args.reference.is_some() { "no such error" } else { "no error" };
            println!("{what} among those that the server remembers");
            ExitCode::from(exit::NOTHING)
        }
        Ok(errors) => {
            errors.iter().take(args.count).for_each(|error| print!("{}", told(error)));
            exit::DONE
        }
        Err((code, message)) => {
            eprintln!("larder why: {message}");
            ExitCode::from(code)
        }
    }
}

fn asked(args: &WhyArgs, local: Option<&Path>) -> Result<Vec<AnsweredError>, (u8, String)> {
    let server = match (&args.admin, local) {
        (Some(server), _) => server.clone(),
        (None, Some(path)) => format!("unix:{}", path.display()),
        (None, None) => ADMIN.to_owned(),
    };
    let token = args.token_file.as_ref().map(|path| {
        let read = bounded::read(path, TOKEN_BYTES);
        let (bytes, _) = read.map_err(|why| (exit::USAGE, format!("{}: {why}", path.display())))?;
        Ok(String::from_utf8_lossy(bytes.trim_ascii()).into_owned())
    });
    let token = token.transpose()?;
    let target = match &args.reference {
        Some(reference) => format!("/api/v1/errors?reference={}", plain(reference)),
        None => "/api/v1/errors".to_owned(),
    };
    let host = if server.starts_with("unix:") { "localhost" } else { &server };
    let host = host.trim_start_matches("http://").trim_end_matches('/');
    if value::split_authority(host).is_none() {
        return Err((exit::USAGE, format!("expected an address and port, found {server:?}")));
    }
    let request = ask::request_to(host, "GET", &target, "", token.as_deref());
    let answer = ask::send_for(&server, &request, ANSWER_BYTES)
        .map_err(|error| (exit::UNREACHABLE, format!("no answer from {server}: {error}")))?;
    match answer.status {
        200 => serde_json::from_str(&answer.body)
            .map_err(|_| (exit::UNREACHABLE, format!("{server} is no Larder"))),
        401 | 403 => {
            Err((exit::REFUSED, format!("{server} refuses: give its token with --token-file")))
        }
        status => Err((exit::UNREACHABLE, format!("{server} answers {status}"))),
    }
}

/// The letters and digits of a reference.
fn plain(reference: &str) -> String {
    reference.chars().filter(char::is_ascii_alphanumeric).take(64).collect()
}

/// An error in a few lines.
fn told(error: &AnsweredError) -> String {
    let AnsweredError { reference, status, why, method, url, site, client, http_version, .. } =
        error;
    let time = date::format(error.time_ms / 1000);
    let time = String::from_utf8_lossy(&time);
    let mut out = format!("{reference}  {time}  {status}: {why}\n");
    if let Some(detail) = &error.detail {
        out.push_str(&format!("  reason   {detail}\n"));
    }
    out.push_str(&format!("  request  {method} {url} {http_version}\n"));
    let site = if site.is_empty() { "none of this host" } else { site };
    out.push_str(&format!("  client   {client}    site  {site}\n"));
    out.push_str(&format!("  after    {} ms\n", error.elapsed_us / 1000));
    // A client chooses the URL: it does not steer the terminal.
    out.chars().map(|c| if c.is_control() && c != '\n' { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_told_in_full_and_steers_no_terminal() {
        let error = AnsweredError {
            reference: "ABCDE-12345".to_owned(),
            time_ms: 1_763_647_387_042,
            status: 502,
            why: "the site failed".into(),
            detail: Some("Connection refused".to_owned()),
            url: "http://a/\x1b[2J".to_owned(),
            ..AnsweredError::default()
        };
        let told = told(&error);
        let first = "ABCDE-12345  Thu, 20 Nov 2025 14:03:07 GMT  502: the site failed\n";
        assert!(told.starts_with(first), "{told}");
        assert!(told.contains("Connection refused") && told.contains("http://a/?[2J"), "{told}");
        assert_eq!(plain(" abc-de\r\n"), "abcde");
    }
}
