//! `larder log`: requests as they are answered.

use std::{
    fmt::Write as _,
    io::{self, IsTerminal, Write as _},
    process::ExitCode,
    time::Duration,
};

use larder_metrics::{Advice, LogLine, Snapshot};
use serde::Deserialize;
use tokio::time::{sleep, timeout};

use crate::{
    LogArgs,
    address::Address,
    ask, exit, poll,
    screen::Palette,
    sse::{Event, Events},
    text,
};

/// Time limit for connecting and the head of the answer.
const ANSWER: Duration = Duration::from_secs(10);
/// First pause before reconnecting; it doubles up to [`LONGEST_PAUSE`].
const PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Why `larder log` ends.
enum EndReason {
    /// The requested number of events was shown, or standard output is closed.
    Done,
    /// An error: exit code and message.
    Failed(u8, String),
}

/// Why an event stream could not be opened: exit code and message.
pub(crate) type ExitError = (u8, String);

/// Opens an event stream.
pub(crate) async fn open(
    address: &Address,
    path: &str,
    token: Option<&str>,
) -> Result<Events, ExitError> {
    let endpoint = address.endpoints.first().ok_or((exit::USAGE, "no address".to_owned()))?;
    let lost = |why: String| (exit::UNREACHABLE, format!("{endpoint}: {why}"));
    let answer =
        timeout(ANSWER, ask::request(endpoint, path, token, "text/event-stream", u64::MAX)).await;
    let answer = answer.map_err(|_| lost(format!("no answer within {ANSWER:?}")))?.map_err(lost)?;
    match answer.status().as_u16() {
        200 => {
            let stream = answer.headers().get("content-type").and_then(|value| value.to_str().ok());
            if !stream.is_some_and(|value| value.starts_with("text/event-stream")) {
                return Err(lost(
                    "answers without events: not a Larder's admin address".to_owned(),
                ));
            }
            Ok(Events::of(answer.into_body()))
        }
        status @ (401 | 403) => {
            Err((exit::REFUSED, format!("{endpoint}: {}", ask::refused(status))))
        }
        400 => {
            let said = timeout(ANSWER, ask::read_all(answer.into_body())).await;
            let said = said.ok().and_then(Result::ok).unwrap_or_default();
            Err((exit::USAGE, message(&said)))
        }
        status => Err(lost(ask::refused(status))),
    }
}

/// The message of `{"error":{"code":"...","message":"..."}}`.
fn message(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Answer {
        error: Fault,
    }
    #[derive(Deserialize)]
    struct Fault {
        message: String,
    }
    match text::from_json::<Answer>(body) {
        Ok(answer) => answer.error.message,
        Err(_) => "the server does not understand the filter".to_owned(),
    }
}

/// Runs `larder log`.
pub(crate) async fn run(args: &LogArgs, server: &Address) -> ExitCode {
    let token = match poll::token(args.token_file.as_deref()) {
        Ok(token) => server.token.clone().or(token),
        Err(message) => return exit::usage("log", &message),
    };
    match follow(args, server, token.as_deref()).await {
        EndReason::Done => ExitCode::SUCCESS,
        EndReason::Failed(code, message) => {
            eprintln!("larder log: {message}");
            ExitCode::from(code)
        }
    }
}

/// Prints the causes of misses that the server has found, for those who look for one. None: it does
/// not say.
async fn advise(server: &Address, token: Option<&str>) -> Option<()> {
    let endpoint = server.endpoints.first()?;
    let path = "/api/v1/stats";
    let asked = ask::request(endpoint, path, token, "application/json", u64::MAX);
    let answer = timeout(ANSWER, asked).await.ok()?.ok().filter(|answer| answer.status() == 200)?;
    let body = timeout(ANSWER, ask::read_all(answer.into_body())).await.ok()?.ok()?;
    let snapshot = text::from_json::<Snapshot>(&body).ok()?;
    text::states(&snapshot).iter().for_each(|line| eprintln!("larder log: {line}"));
    for cause in snapshot.advice {
        let Advice { site, reason, requests, of, text, setting, .. } = cause;
        eprintln!("larder log: {site}: {requests} of {of} misses, {reason}: {text} {setting}");
    }
    Some(())
}

async fn follow(args: &LogArgs, server: &Address, token: Option<&str>) -> EndReason {
    let path = path(args);
    if !args.json {
        advise(server, token).await;
    }
    let colours = io::stdout().is_terminal() && Palette::of_environment().colours;
    let mut left = args.count.unwrap_or(u64::MAX);
    let mut events = match open(server, &path, token).await {
        Ok(events) => events,
        Err((code, message)) => return EndReason::Failed(code, message),
    };
    let mut pause = PAUSE;
    while left > 0 {
        let why = match events.next().await {
            Ok(event) => {
                pause = PAUSE;
                match show(&event, args.json, colours) {
                    Ok(requests) => left -= requests.min(left),
                    Err(_) => return EndReason::Done,
                }
                continue;
            }
            Err(why) => why,
        };
        eprintln!("larder log: {why}; trying again");
        events = loop {
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
            match open(server, &path, token).await {
                Ok(events) => break events,
                Err((exit::UNREACHABLE, why)) => {
                    eprintln!("larder log: {why}; again in {}", text::time(pause));
                }
                Err((code, message)) => return EndReason::Failed(code, message),
            }
        };
        eprintln!("larder log: connected again; requests in between are not shown");
    }
    EndReason::Done
}

/// Prints an event; returns the number of requests shown.
fn show(event: &Event, json: bool, colours: bool) -> io::Result<u64> {
    let mut out = io::stdout().lock();
    match event.name.as_str() {
        "request" if json => {
            writeln!(out, "{}", text::clean_json(&event.data))?;
            out.flush()?;
            Ok(1)
        }
        "request" => match text::from_json::<LogLine>(event.data.as_bytes()) {
            Ok(request) => {
                writeln!(out, "{}", line_of(&request, colours))?;
                out.flush()?;
                Ok(1)
            }
            Err(why) => {
                eprintln!("larder log: an event is not understood: {why}");
                Ok(0)
            }
        },
        "dropped" => {
            let count = text::from_json::<Dropped>(event.data.as_bytes()).unwrap_or_default().count;
            eprintln!("larder log: {count} requests were not shown: too many at once");
            Ok(0)
        }
        _ => Ok(0),
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Dropped {
    count: u64,
}

/// Time, duration, status, result, bytes, client, protocol, method, URL.
fn line_of(request: &LogLine, colours: bool) -> String {
    let status = Some(request.status).filter(|status| *status > 0);
    let status_shown = status.map_or_else(|| "-".to_owned(), |status| status.to_string());
    let result = &request.result;
    let colour = |code: &str, text: String| {
        if colours && !code.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text }
    };
    let of_status = match status {
        Some(500..) => "31",
        Some(400..=499) => "33",
        _ => "",
    };
    let of_result = if result.contains("HIT") {
        "32"
    } else if result.contains("MISS") {
        "33"
    } else {
        ""
    };
    // The first word is the version of TLS; the suite and the resumption are in the JSON.
    let tls = request.tls.as_deref().and_then(|tls| tls.split(' ').next());
    let protocol = match tls {
        Some(tls) => format!("{}+{tls}", request.http_version),
        None => request.http_version.clone(),
    };
    let reference = request.reference.as_ref();
    let reference = reference.map_or_else(String::new, |reference| format!(" ref={reference}"));
    format!(
        "{} {:>6} {} {} {:>5} {} {protocol} {} {}{reference}",
        text::clock(request.time_ms),
        text::time(Duration::from_micros(request.elapsed_us)),
        colour(of_status, format!("{status_shown:>3}")),
        colour(of_result, format!("{result:<22}")),
        text::bytes(request.bytes as f64),
        request.client,
        request.method,
        request.url,
    )
}

/// The path with the filters as query.
fn path(args: &LogArgs) -> String {
    let slower = args.slower_than.map(|time| time.as_micros().div_ceil(1000).to_string());
    let filters = [
        ("url", &args.url),
        ("regex", &args.regex),
        ("status", &args.status),
        ("result", &args.result),
        ("site", &args.site),
        ("method", &args.method),
        ("slower_than_ms", &slower),
    ];
    let given =
        filters.into_iter().filter_map(|(name, value)| value.as_ref().map(|value| (name, value)));
    let given: Vec<String> =
        given.map(|(name, value)| format!("{name}={}", escape(value))).collect();
    if given.is_empty() {
        "/api/v1/log".to_owned()
    } else {
        format!("/api/v1/log?{}", given.join("&"))
    }
}

/// Percent-encodes all but the unreserved characters (RFC 3986, 2.3).
fn escape(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_escaped() {
        assert_eq!(escape("^/a?b=ü&c d+"), "%5E%2Fa%3Fb%3D%C3%BC%26c%20d%2B");
    }

    #[test]
    fn lines_are_readable_and_harmless() {
        let json = r#"{"time_ms":1763647387042,"elapsed_us":12345,"client":"127.0.0.1","method":"GET",
            "url":"http://a/\u001b[2J","status":503,"bytes":1536,"result":"TCP_MISS","http_version":"HTTP/1.1","new":1}"#;
        let request: LogLine = text::from_json(json.as_bytes()).expect("a request");
        let line = line_of(&request, false);
        assert_eq!(
            line,
            "14:03:07.042 12.3ms 503 TCP_MISS               1.50K 127.0.0.1 HTTP/1.1 GET \
             http://a/\\x1b[2J"
        );
        let tls = Some("TLSv1.3 TLS_AES_128_GCM_SHA256 resumed".to_owned());
        let request = LogLine { http_version: "HTTP/2".to_owned(), tls, ..request };
        let line = line_of(&request, false);
        assert!(line.contains(" 127.0.0.1 HTTP/2+TLSv1.3 GET "), "{line}");
        assert!(line_of(&request, true).contains("\x1b[31m503\x1b[0m \x1b[33mTCP_MISS "));
    }

    #[test]
    fn the_servers_message_is_told() {
        let body = br#"{"error":{"code":"bad_filter","message":"expected a \u001b regex"}}"#;
        assert_eq!(message(body), "expected a \\x1b regex");
        assert_eq!(message(b"x"), "the server does not understand the filter");
    }
}
