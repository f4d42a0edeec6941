//! Purges through the admin interface: a request in JSON, with its token.

use std::process::ExitCode;

use serde_json::json;

use super::{read_token, report_done};
use crate::{
    ask::{self, Answer},
    cli::PurgeArgs,
    config::value,
    exit,
};

/// The default address of the admin interface.
pub(super) const ADMIN: &str = "127.0.0.1:8081";

/// The request of the command line.
pub(super) fn bytes(args: &PurgeArgs, admin: &str) -> Result<Vec<u8>, String> {
    let token = args.token_file.as_deref().map(read_token).transpose()?;
    let mut order = match (&args.url, &args.prefix, &args.ban) {
        (Some(url), ..) => json!({"url": url}),
        (None, Some(prefix), _) => json!({"prefix": prefix}),
        (None, None, Some(ban)) => json!({"ban": ban}),
        (None, None, None) => match &args.host {
            Some(host) => json!({"tags": args.tag, "host": host}),
            None => json!({"tags": args.tag}),
        },
    };
    order["soft"] = json!(args.soft);
    let order = order.to_string();
    if admin.starts_with("unix:") {
        return Ok(ask::request("POST", "/api/v1/purge", &order, token.as_deref()));
    }
    let host = admin.trim_start_matches("http://").trim_end_matches('/');
    let host = if host.starts_with(':') { format!("127.0.0.1{host}") } else { host.to_owned() };
    if value::split_authority(&host).is_none() {
        return Err(format!("expected an address such as \"{ADMIN}\", found {admin:?}"));
    }
    Ok(ask::request_to(&host, "POST", "/api/v1/purge", &order, token.as_deref()))
}

/// Prints the result.
pub(super) fn report(answer: &Answer, server: &str, soft: bool) -> ExitCode {
    match answer.status {
        200 if answer.purged == Some(0) => {
            println!("nothing was there");
            ExitCode::from(exit::NOTHING)
        }
        200 => report_done(answer.purged, soft),
        401 | 403 => {
            eprintln!("larder purge: {server} refuses: {}; give --token-file", message(answer));
            ExitCode::from(exit::REFUSED)
        }
        400 => {
            eprintln!("larder purge: {}", message(answer));
            ExitCode::from(exit::USAGE)
        }
        status => {
            eprintln!("larder purge: {server} answers {status}: {}", message(answer));
            ExitCode::from(exit::UNREACHABLE)
        }
    }
}

/// The message of an error.
fn message(answer: &Answer) -> String {
    let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap_or_default();
    body["error"]["message"].as_str().unwrap_or("it is not Larder's admin interface").to_owned()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn request(words: &[&str]) -> Result<String, String> {
        let words = ["larder", "purge"].iter().chain(words);
        let Command::Purge(args) = Cli::parse_from(words).command else { panic!("not a purge") };
        let admin = args.admin.clone().unwrap_or_else(|| ADMIN.to_owned());
        bytes(&args, &admin).map(|bytes| String::from_utf8(bytes).expect("text"))
    }

    #[test]
    fn an_order_says_what_the_command_line_says() {
        let body = |words: &[&str]| -> serde_json::Value {
            let text = request(words).expect("a request");
            let (head, body) = text.split_once("\r\n\r\n").expect("a head");
            assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
            serde_json::from_str(body).expect("JSON")
        };
        assert_eq!(body(&["--ban", "url ~ \"x\""]), json!({"ban": "url ~ \"x\"", "soft": false}));
        assert_eq!(
            body(&["--admin", ":1", "--soft", "http://a/"]),
            json!({"url": "http://a/", "soft": true})
        );
        assert_eq!(
            body(&["--admin", ":1", "--prefix", "http://a/"]),
            json!({"prefix": "http://a/", "soft": false})
        );
        let tags = body(&["--admin", ":1", "--tag", "x", "--tag", "y", "--host", "a"]);
        assert_eq!(tags, json!({"tags": ["x", "y"], "host": "a", "soft": false}));
    }

    #[test]
    fn hosts_are_named_as_the_admin_interface_wants_them() {
        assert!(
            request(&["--ban", "url ~ x"])
                .is_ok_and(|text| text.contains("\r\nHost: 127.0.0.1:8081\r\n"))
        );
        let text = request(&["--admin", ":99", "http://a/"]);
        assert!(text.is_ok_and(|text| text.contains("\r\nHost: 127.0.0.1:99\r\n")));
        assert!(request(&["--admin", "a\r\nX: y", "http://a/"]).is_err());
    }
}
