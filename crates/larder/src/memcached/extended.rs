//! `-o`: a list of `name` and `name=value`, as memcached 1.6 knows them. Most of them tune parts
//! that Larder does not have (slabs, LRU threads, external storage): they are checked as memcached
//! checks them, and have no effect.

use super::{Exit, Typed};
use crate::getopt::atoi;

/// The rule for the value of a sub-option.
#[derive(Clone, Copy)]
enum Check {
    /// No rule: the value is optional.
    Free,
    /// Required, with the message if it is missing.
    There(&'static str),
    /// A number of this range. The first message is for a missing value, the second for a wrong
    /// one.
    Within(&'static str, f64, f64, &'static str),
    /// Digits, else `could not parse argument to ...`. The message is for a missing value.
    Digits(&'static str),
    /// Sub-options with an effect or messages of their own.
    Idle,
    Watcher,
    Fast(bool),
    Sizes,
    /// Defaults of memcached 1.4: of these, connections beyond the limit wait.
    NoModern,
    HashPower,
    HashAlgorithm,
    Automove,
    ExtPath,
    /// TLS.
    Tls(Tls),
}

/// An option of TLS.
#[derive(Clone, Copy)]
enum Tls {
    Chain,
    Key,
    Authority,
    Verify,
    MinVersion,
}

const MANY: f64 = f64::INFINITY;

const TABLE: &[(&str, Check)] = &[
    ("maxconns_fast", Check::Fast(true)),
    ("no_maxconns_fast", Check::Fast(false)),
    ("hashpower", Check::HashPower),
    ("slab_reassign", Check::Free),
    ("no_slab_reassign", Check::Free),
    ("slab_automove", Check::Automove),
    ("no_slab_automove", Check::Free),
    (
        "slab_automove_ratio",
        Check::Within(
            "Missing slab_automove_ratio argument",
            f64::MIN_POSITIVE,
            1.0,
            "slab_automove_ratio must be > 0 and < 1",
        ),
    ),
    (
        "slab_automove_window",
        Check::Within(
            "Missing slab_automove_window argument",
            3.0,
            MANY,
            "slab_automove_window must be > 2",
        ),
    ),
    ("slab_automove_freeratio", Check::There("Missing slab_automove_freeratio argument")),
    (
        "tail_repair_time",
        Check::Within(
            "Missing numeric argument for tail_repair_time",
            10.0,
            MANY,
            "Cannot set tail_repair_time to less than 10 seconds",
        ),
    ),
    ("hash_algorithm", Check::HashAlgorithm),
    ("lru_crawler", Check::Free),
    ("no_lru_crawler", Check::Free),
    (
        "lru_crawler_sleep",
        Check::Within(
            "Missing lru_crawler_sleep value",
            0.0,
            1_000_001.0,
            "LRU crawler sleep must be between 0 and 1 second",
        ),
    ),
    ("lru_crawler_tocrawl", Check::There("Missing lru_crawler_tocrawl value")),
    ("lru_maintainer", Check::Free),
    ("no_lru_maintainer", Check::Free),
    (
        "hot_lru_pct",
        Check::Within(
            "Missing hot_lru_pct argument",
            1.0,
            80.0,
            "hot_lru_pct must be > 1 and < 80",
        ),
    ),
    (
        "warm_lru_pct",
        Check::Within(
            "Missing warm_lru_pct argument",
            1.0,
            80.0,
            "warm_lru_pct must be > 1 and < 80",
        ),
    ),
    (
        "hot_max_factor",
        Check::Within(
            "Missing hot_max_factor argument",
            f64::MIN_POSITIVE,
            MANY,
            "hot_max_factor must be > 0",
        ),
    ),
    (
        "warm_max_factor",
        Check::Within(
            "Missing warm_max_factor argument",
            f64::MIN_POSITIVE,
            MANY,
            "warm_max_factor must be > 0",
        ),
    ),
    ("temporary_ttl", Check::There("Missing temporary_ttl argument")),
    ("idle_timeout", Check::Idle),
    ("watcher_logbuf_size", Check::Watcher),
    ("worker_logbuf_size", Check::Digits("Missing worker_logbuf_size argument")),
    ("slab_chunk_max", Check::Digits("Missing slab_chunk_max argument")),
    ("slab_sizes", Check::Free),
    ("track_sizes", Check::Sizes),
    ("no_hashexpand", Check::Free),
    ("inline_ascii_resp", Check::Free),
    ("no_inline_ascii_resp", Check::Free),
    ("no_chunked_items", Check::Free),
    ("drop_privileges", Check::Free),
    ("no_drop_privileges", Check::Free),
    ("resp_obj_mem_limit", Check::Free),
    ("read_buf_mem_limit", Check::Digits("Missing read_buf_mem_limit argument")),
    ("sock_cookie_id", Check::There("Missing sock_cookie_id argument")),
    ("ssl_chain_cert", Check::Tls(Tls::Chain)),
    ("ssl_key", Check::Tls(Tls::Key)),
    ("ssl_ca_cert", Check::Tls(Tls::Authority)),
    ("ssl_verify_mode", Check::Tls(Tls::Verify)),
    ("ssl_min_version", Check::Tls(Tls::MinVersion)),
    ("ssl_keyformat", Check::Free),
    ("ssl_ciphers", Check::Free),
    ("ssl_wbuf_size", Check::Free),
    ("ssl_session_cache", Check::Free),
    ("ssl_kernel_tls", Check::Free),
    ("modern", Check::Free),
    ("no_modern", Check::NoModern),
    ("ext_path", Check::ExtPath),
    ("ext_page_size", Check::Digits("Missing ext_page_size argument")),
    ("ext_wbuf_size", Check::Digits("Missing ext_wbuf_size argument")),
    ("ext_threads", Check::Digits("Missing ext_threads argument")),
    ("ext_io_depth", Check::Digits("Missing ext_io_depth argument")),
    ("ext_item_size", Check::Digits("Missing ext_item_size argument")),
    ("ext_item_age", Check::Digits("Missing ext_item_age argument")),
    ("ext_low_ttl", Check::Digits("Missing ext_low_ttl argument")),
    ("ext_recache_rate", Check::Digits("Missing ext_recache_rate argument")),
    ("ext_compact_under", Check::Digits("Missing ext_compact_under argument")),
    ("ext_drop_under", Check::Digits("Missing ext_drop_under argument")),
    ("ext_max_sleep", Check::Digits("Missing ext_max_sleep argument")),
    ("ext_max_frag", Check::There("Missing ext_max_frag argument")),
    ("ext_drop_unread", Check::Free),
];

/// Parses one `-o`.
pub(super) fn read(text: &str, typed: &mut Typed) -> Result<(), Exit> {
    let parts = if text.is_empty() { Vec::new() } else { text.split(',').collect() };
    for part in parts {
        let (name, value) = match part.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (part, None),
        };
        match TABLE.iter().find(|(known, _)| *known == name) {
            Some((name, check)) => sub_option(name, *check, value, typed)?,
            None => return Err(Exit::failure(format!("Illegal suboption \"{part}\""))),
        }
    }
    Ok(())
}

fn sub_option(
    name: &'static str,
    check: Check,
    value: Option<&str>,
    typed: &mut Typed,
) -> Result<(), Exit> {
    let there = |missing: &str| value.ok_or_else(|| Exit::failure(missing.to_owned()));
    let digits = |missing: &str| {
        let text = there(missing)?;
        text.trim()
            .parse::<u64>()
            .map_err(|_| Exit::failure(format!("could not parse argument to {name}")))
    };
    match check {
        Check::Fast(fast) => typed.connections_fast = fast,
        Check::Sizes => typed.sizes = true,
        Check::NoModern => typed.connections_fast = false,
        Check::Idle => {
            // A negative number is a very long time if it is read as unsigned.
            let seconds = atoi(there("Missing numeric argument for idle_timeout")?);
            typed.idle_seconds = u64::try_from(seconds).unwrap_or(0);
        }
        Check::Watcher => {
            let kilobytes = digits("Missing watcher_logbuf_size argument")?;
            typed.watcher_kilobytes = kilobytes.clamp(1, 1 << 16);
        }
        Check::Free => typed.without_effect.push(format!("-o {name}")),
        Check::There(missing) => {
            there(missing)?;
            typed.without_effect.push(format!("-o {name}"));
        }
        Check::Digits(missing) => {
            digits(missing)?;
            typed.without_effect.push(format!("-o {name}"));
        }
        Check::Within(missing, from, below, wrong) => {
            let number: f64 = there(missing)?.trim().parse().unwrap_or(0.0);
            if !(from..below).contains(&number) {
                return Err(Exit::failure(wrong.to_owned()));
            }
            typed.without_effect.push(format!("-o {name}"));
        }
        Check::HashPower => {
            hash_power(atoi(there("Missing numeric argument for hashpower")?))?;
            typed.without_effect.push(format!("-o {name}"));
        }
        Check::HashAlgorithm => {
            if !["jenkins", "murmur3", "xxh3"].contains(&there("Missing hash_algorithm argument")?)
            {
                let known = "Unknown hash_algorithm option (jenkins, murmur3, xxh3)";
                return Err(Exit::failure(known.to_owned()));
            }
            typed.without_effect.push(format!("-o {name}"));
        }
        Check::Automove => {
            if value.is_some_and(|value| !(0..=2).contains(&atoi(value))) {
                return Err(Exit::failure("slab_automove must be between 0 and 2".to_owned()));
            }
            typed.without_effect.push(format!("-o {name}"));
        }
        Check::Tls(option) => {
            tls_option(option, there(&format!("Missing {name} argument"))?, typed)?;
        }
        Check::ExtPath => {
            let path = there("missing argument to ext_path, ie: ext_path=/d/file:5G")?;
            if !path.contains(':') {
                let message = "must supply size to ext_path, ie: ext_path=/f/e:64m (M|G|T|P \
                               supported)\nfailed to parse ext_path argument";
                return Err(Exit::failure(message.to_owned()));
            }
            typed.without_effect.push(format!("-o {name}"));
        }
    }
    Ok(())
}

fn tls_option(option: Tls, value: &str, typed: &mut Typed) -> Result<(), Exit> {
    let files = &mut typed.tls_files;
    match option {
        Tls::Chain => files.cert = Some(value.into()),
        Tls::Key => files.key = Some(value.into()),
        Tls::Authority => files.ca = Some(value.into()),
        Tls::Verify => {
            files.required = match value {
                "0" => None,
                "1" => Some(false),
                "2" | "3" => Some(true),
                _ => return Err(Exit::failure("Invalid ssl_verify_mode".to_owned())),
            };
        }
        Tls::MinVersion => {
            files.only_13 = match value {
                "tlsv1.3" => true,
                // Older ones than 1.2 are not spoken.
                "tlsv1.0" | "tlsv1.1" | "tlsv1.2" => false,
                _ => return Err(Exit::failure("Invalid ssl_min_version".to_owned())),
            };
        }
    }
    Ok(())
}

fn hash_power(power: i64) -> Result<(), Exit> {
    let message = match power {
        ..12 => format!("Initial hashtable multiplier of {power} is too low"),
        12..=32 => return Ok(()),
        _ => format!(
            "Initial hashtable multiplier of {power} is too high\nChoose a value based on \"STAT \
             hash_power_level\" from a running instance"
        ),
    };
    Err(Exit::failure(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_one(text: &str) -> Result<Typed, String> {
        let mut typed = Typed::default();
        read(text, &mut typed).map_err(|exit| exit.message)?;
        Ok(typed)
    }

    #[test]
    fn those_with_effect_are_taken() {
        let typed =
            read_one("idle_timeout=5,no_maxconns_fast,watcher_logbuf_size=64").expect("good");
        assert_eq!(
            (typed.idle_seconds, typed.connections_fast, typed.watcher_kilobytes),
            (5, false, 64)
        );
        assert_eq!(typed.without_effect, Vec::<String>::new());
        assert!(!typed.sizes && read_one("track_sizes").expect("good").sizes);
        assert!(!read_one("no_modern").expect("good").connections_fast);
        assert!(
            read_one("no_modern,maxconns_fast").expect("good").connections_fast,
            "the last one counts"
        );
    }

    #[test]
    fn those_without_are_checked_and_named() {
        let typed =
            read_one("modern,hashpower=20,hot_lru_pct=10,ext_path=/srv/x:1G").expect("good");
        assert_eq!(typed.without_effect.len(), 4);
        for (text, message) in [
            ("foo=1", "Illegal suboption \"foo=1\""),
            (",", "Illegal suboption \"\""),
            ("hashpower=11", "Initial hashtable multiplier of 11 is too low"),
            ("warm_max_factor=0", "warm_max_factor must be > 0"),
            ("hot_lru_pct=80", "hot_lru_pct must be > 1 and < 80"),
            ("watcher_logbuf_size=x", "could not parse argument to watcher_logbuf_size"),
        ] {
            assert_eq!(read_one(text).err().as_deref(), Some(message), "{text}");
        }
        assert!(read_one("").is_ok(), "nothing is asked for");
    }
}
