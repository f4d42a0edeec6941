//! Options that are flags of `larder serve`, too.

use super::Section;

/// The options behind flags such as `--memory`.
const FLAGS: [(&str, Section, &str); 23] = [
    ("--memory", Section::Root, "memory"),
    ("--threads", Section::Root, "threads"),
    ("--user", Section::Root, "user"),
    ("--group", Section::Root, "group"),
    ("--snapshot", Section::Root, "snapshot"),
    ("--http", Section::Http, "listen"),
    ("--https", Section::Https, "listen"),
    ("--http3", Section::Https, "http3"),
    ("--cert", Section::Certificate, "cert"),
    ("--key", Section::Certificate, "key"),
    ("--acme", Section::Acme, "email"),
    ("--name", Section::Acme, "names"),
    ("--origin", Section::Site, "origin"),
    ("--root", Section::Origin, "root"),
    ("--preset", Section::Site, "preset"),
    ("--ttl", Section::Rule, "ttl"),
    ("--purge-from", Section::Purge, "from"),
    ("--memcached", Section::Memcached, "listen"),
    ("--redis", Section::Redis, "listen"),
    ("--admin", Section::Admin, "listen"),
    ("--disk", Section::Disk, "path"),
    ("--disk-size", Section::Disk, "size"),
    ("--access-log", Section::Http, "access_log"),
];

/// The help of a flag: that of the option, and its default.
pub(crate) fn flag_help(flag: &str) -> String {
    let Some((_, section, name)) = FLAGS.iter().find(|(name, ..)| *name == flag) else {
        return String::new();
    };
    let Some(opt) = section.option(name) else { return String::new() };
    match opt.default {
        "" => opt.help.to_owned(),
        default => format!("{} [default: {default}]", opt.help),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_unique_and_every_flag_is_an_option() {
        for section in Section::DOCUMENTED {
            let mut seen = HashSet::new();
            for opt in section.options() {
                assert!(seen.insert(opt.name), "{} twice in {}", opt.name, section.title());
                assert!(opt.help.ends_with('.'), "{}: {}", opt.name, opt.help);
            }
        }
        for (flag, ..) in FLAGS {
            assert!(!flag_help(flag).is_empty(), "{flag}");
        }
    }
}
