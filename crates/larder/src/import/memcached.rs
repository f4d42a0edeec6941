//! A command line of memcached as the table `[memcached]`.

use super::{draft::Draft, times};

/// Flags with a value.
const WITH_VALUE: &str = "pUslamcuPfntRbBIoYeND";

/// The draft of these flags.
pub(super) fn draft(words: &[&str]) -> Draft {
    let mut draft = Draft::default();
    let (mut port, mut addresses) = ("11211".to_owned(), Vec::new());
    let mut tls = false;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let (flag, value) = split(word, &mut words);
        match flag.as_str() {
            "-p" | "--port" => port = value,
            "-l" | "--listen" => addresses.extend(value.split(',').map(str::to_owned)),
            "-s" | "--unix-socket" => draft.memcached.add("listen", &format!("unix:{value}")),
            "-a" | "--unix-mask" => draft.memcached.text("unix_mode", &value),
            "-U" | "--udp-port" if value == "0" => {}
            "-U" | "--udp-port" => draft.memcached.add("udp", &format!("127.0.0.1:{value}")),
            "-m" | "--memory-limit" => match times::memory(&format!("{value}m")) {
                Some(memory) => draft.root.text("memory", &memory),
                None => draft.leave(0, format!("{flag} {value}"), "it is no number"),
            },
            "-t" | "--threads" => draft.root.set("threads", value),
            "-c" | "--conn-limit" => draft.memcached.set("connections", value),
            "-I" | "--max-item-size" => match times::size(&value) {
                Some(size) => draft.memcached.text("item_size", &size),
                None => draft.leave(0, format!("{flag} {value}"), "it is no size"),
            },
            "-M" | "--disable-evictions" => draft.memcached.set("evict", "false"),
            "-b" | "--listen-backlog" => draft.memcached.set("backlog", value),
            "-B" | "--protocol" => draft.memcached.text("protocol", &value),
            "-C" | "--disable-cas" => draft.memcached.set("cas", "false"),
            "-F" | "--disable-flush-all" => draft.memcached.set("flush_all", "false"),
            "-X" | "--disable-dumping" => draft.memcached.set("dump", "false"),
            "-W" | "--disable-watch" => draft.memcached.set("watch", "false"),
            "-A" | "--enable-shutdown" => draft.memcached.set("shutdown", "true"),
            "-u" | "--user" => draft.root.text("user", &value),
            "-Z" | "--enable-ssl" => tls = true,
            "-o" | "--extended" => value.split(',').for_each(|word| extended(word, &mut draft)),
            "-v" | "-vv" | "-vvv" | "--verbose" | "-k" | "--lock-memory" => {}
            "-d" | "--daemon" | "-P" | "--pidfile" | "-r" | "--enable-coredumps" => draft.leave(
                0,
                format!("{flag} {value}").trim().to_owned(),
                "the service manager does that: contrib/systemd/larder.service",
            ),
            "-f"
            | "--slab-growth-factor"
            | "-n"
            | "--slab-min-size"
            | "-L"
            | "--enable-largepages" => {
                draft.leave(0, flag, "there are no slabs: memory is one log of segments")
            }
            _ => draft.leave(
                0,
                format!("{flag} {value}").trim().to_owned(),
                "`larder memcached` takes memcached's own flags, this one among them",
            ),
        }
    }
    if addresses.is_empty() && !draft.memcached.has("listen") {
        addresses.push("0.0.0.0".to_owned());
        draft.notes.push(
            "memcached listens on every address unless it is told where: name one where you can."
                .to_owned(),
        );
    }
    if tls && !(draft.memcached_tls.has("cert") && draft.memcached_tls.has("key")) {
        let why = "name its files: [memcached.tls] cert and key";
        draft.leave(0, "-Z", why);
    }
    listen(&mut draft, addresses, &port, tls);
    draft
}

/// The addresses, with TLS or without: memcached's `notls:` is without.
fn listen(draft: &mut Draft, addresses: Vec<String>, port: &str, tls: bool) {
    for address in addresses {
        let (address, plain) = match address.strip_prefix("notls:") {
            Some(address) => (address.to_owned(), true),
            None => (address, !tls),
        };
        let address = if address == "*" { "0.0.0.0" } else { &address };
        let named = match address.parse::<std::net::IpAddr>() {
            Ok(ip) => format!("{}:{port}", shown(ip)),
            Err(_) if address == "localhost" => format!("127.0.0.1:{port}"),
            Err(_) => address.to_owned(),
        };
        let keys = if plain { &mut draft.memcached } else { &mut draft.memcached_tls };
        keys.add("listen", &named);
    }
}

/// An option of `-o`.
fn extended(word: &str, draft: &mut Draft) {
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    let tls = &mut draft.memcached_tls;
    match (name, value) {
        ("ssl_chain_cert", _) => tls.text("cert", value),
        ("ssl_key", _) => tls.text("key", value),
        ("ssl_ca_cert", _) => tls.text("client_ca", value),
        ("ssl_verify_mode", "0") => tls.text("client_certificate", "off"),
        ("ssl_verify_mode", "1") => tls.text("client_certificate", "optional"),
        ("ssl_verify_mode", "2" | "3") => tls.text("client_certificate", "required"),
        // TLS 1.2 is the oldest that Larder speaks.
        ("ssl_min_version", "3" | "tlsv1.3") => tls.text("min_version", "1.3"),
        ("ssl_min_version", _) => {}
        _ => draft.leave(
            0,
            format!("-o {word}"),
            "`larder memcached` takes memcached's own flags, this one among them",
        ),
    }
}

fn shown(ip: std::net::IpAddr) -> String {
    match ip {
        std::net::IpAddr::V6(ip) => format!("[{ip}]"),
        std::net::IpAddr::V4(ip) => ip.to_string(),
    }
}

/// A flag and its value: `-m64`, `-m 64`, `--port=11211`, `--port 11211`.
fn split<'w>(word: &str, rest: &mut impl Iterator<Item = &'w &'w str>) -> (String, String) {
    let mut next = || rest.next().map(|word| (*word).to_owned()).unwrap_or_default();
    if let Some((name, value)) = word.split_once('=').filter(|_| word.starts_with("--")) {
        return (name.to_owned(), value.to_owned());
    }
    if let Some(name) = word.strip_prefix("--") {
        let long = ["port", "listen", "unix-socket", "unix-mask", "udp-port", "memory-limit"];
        let more = ["threads", "conn-limit", "max-item-size", "listen-backlog", "protocol", "user"];
        let others = ["pidfile", "slab-growth-factor", "slab-min-size", "extended", "auth-file"];
        let has = long.contains(&name) || more.contains(&name) || others.contains(&name);
        return (word.to_owned(), if has { next() } else { String::new() });
    }
    let Some(letter) = word.strip_prefix('-').and_then(|flag| flag.chars().next()) else {
        return (word.to_owned(), String::new());
    };
    let has = WITH_VALUE.contains(letter);
    match (has, &word[1 + letter.len_utf8()..]) {
        (false, _) => (word.to_owned(), String::new()),
        (true, "") => (format!("-{letter}"), next()),
        (true, value) => (format!("-{letter}"), value.to_owned()),
    }
}
