//! `--server`: a server started by the user.

use super::servers::ExternalServer;

/// Parses `NAME=ADDR[,pid=N][,speaks=text|meta|redis]`.
pub(crate) fn parse(text: &str) -> Result<ExternalServer, String> {
    let wrong = || {
        "expected NAME=ADDR[,pid=N][,speaks=text|meta|redis], as in mine=127.0.0.1:8080,pid=4711"
            .to_owned()
    };
    let (name, rest) = text.split_once('=').ok_or_else(wrong)?;
    let mut parts = rest.split(',');
    let address = parts.next().and_then(|address| address.parse().ok()).ok_or_else(wrong)?;
    let mut external =
        ExternalServer { name: name.to_owned(), address, pid: None, speaks: "text".to_owned() };
    for part in parts {
        match part.split_once('=') {
            Some(("pid", pid)) => external.pid = Some(pid.parse().map_err(|_| wrong())?),
            Some(("speaks", speaks @ ("text" | "meta" | "redis"))) => {
                external.speaks = speaks.to_owned()
            }
            _ => return Err(wrong()),
        }
    }
    Ok(external)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_a_name_an_address_and_a_process() {
        let external = parse("mine=127.0.0.1:80,pid=12,speaks=redis").unwrap();
        assert_eq!(
            (external.name.as_str(), external.pid, external.speaks.as_str()),
            ("mine", Some(12), "redis")
        );
        assert_eq!(external.address.to_string(), "127.0.0.1:80");
        assert_eq!(parse("mine=127.0.0.1:80").unwrap().pid, None);
        for text in
            ["", "mine", "mine=80", "mine=127.0.0.1:80,pid=x", "mine=127.0.0.1:80,speaks=latin"]
        {
            assert!(parse(text).unwrap_err().starts_with("expected NAME=ADDR"), "{text}");
        }
    }
}
