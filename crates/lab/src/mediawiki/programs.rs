//! Required programs and their locations.

use std::path::{Path, PathBuf};

use super::{args::Php, error::Error};
use crate::peers;

/// Directories of servers on Debian, missing from an ordinary user's PATH.
const MORE_DIRECTORIES: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];
/// MediaWiki's directory in Debian's package, unless `MW_INSTALL_PATH` is set.
const MEDIAWIKI: &str = "/usr/share/mediawiki";
/// PHP modules needed by MediaWiki, its database and its object cache, with their packages.
const MODULES: [(&str, &str); 5] = [
    ("mbstring", "php-mbstring"),
    ("intl", "php-intl"),
    ("xml", "php-xml"),
    ("mysqli", "php-mysql"),
    ("memcached", "php-memcached"),
];

/// Paths of all programs of an experiment.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    pub(super) mediawiki: PathBuf,
    pub(super) php: PathBuf,
    /// Empty with PHP's own server.
    pub(super) php_fpm: PathBuf,
    pub(super) nginx: PathBuf,
    pub(super) mariadbd: PathBuf,
    pub(super) mariadb: PathBuf,
    pub(super) install_db: PathBuf,
    pub(super) memcached: PathBuf,
    pub(super) squid: PathBuf,
    pub(super) larder: PathBuf,
}

/// Search for programs that collects the missing ones.
struct Search {
    what: Vec<&'static str>,
    packages: Vec<&'static str>,
}

impl Search {
    fn miss(&mut self, what: &'static str, package: &'static str) {
        self.what.push(what);
        if !self.packages.contains(&package) {
            self.packages.push(package);
        }
    }

    fn program(&mut self, name: &'static str, package: &'static str) -> PathBuf {
        self.first(name, package, |file| file == name)
    }

    /// The first program on the PATH whose name fits.
    fn first(
        &mut self,
        what: &'static str,
        package: &'static str,
        fits: impl Fn(&str) -> bool,
    ) -> PathBuf {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let directories =
            std::env::split_paths(&path).chain(MORE_DIRECTORIES.iter().map(PathBuf::from));
        for directory in directories {
            let Ok(entries) = std::fs::read_dir(&directory) else { continue };
            let mut found: Vec<_> = entries
                .flatten()
                .filter(|entry| entry.file_name().to_str().is_some_and(&fits))
                .collect();
            // The newest of several versions.
            found.sort_by_key(std::fs::DirEntry::file_name);
            if let Some(entry) = found.pop() {
                return entry.path();
            }
        }
        self.miss(what, package);
        PathBuf::new()
    }
}

impl Programs {
    /// Finds all programs, or reports all missing ones together. The caches needed depend on the
    /// rows.
    pub(super) fn find(php: Php, memcached: bool, squid: bool) -> Result<Programs, Error> {
        let mut search = Search { what: Vec::new(), packages: Vec::new() };
        let mediawiki =
            PathBuf::from(std::env::var_os("MW_INSTALL_PATH").unwrap_or_else(|| MEDIAWIKI.into()));
        if !mediawiki.join("maintenance/install.php").is_file() {
            search.miss("MediaWiki", "mediawiki");
        }
        let optional = |search: &mut Search, wanted: bool, name, package| {
            if wanted { search.program(name, package) } else { PathBuf::new() }
        };
        let fpm = php == Php::Fpm;
        let programs = Programs {
            mediawiki,
            php: search.program("php", "php-cli"),
            php_fpm: if fpm { search.first("php-fpm", "php-fpm", is_fpm) } else { PathBuf::new() },
            nginx: optional(&mut search, fpm, "nginx", "nginx-light"),
            mariadbd: search.program("mariadbd", "mariadb-server"),
            mariadb: search.program("mariadb", "mariadb-client"),
            install_db: search.program("mariadb-install-db", "mariadb-server"),
            memcached: optional(&mut search, memcached, "memcached", "memcached"),
            squid: optional(&mut search, squid, "squid", "squid"),
            larder: peers::larder_program(None)?,
        };
        search.modules(&programs.php);
        if search.what.is_empty() {
            return Ok(programs);
        }
        Err(Error::Missing { what: search.what, packages: search.packages })
    }
}

impl Search {
    fn modules(&mut self, php: &Path) {
        if php.as_os_str().is_empty() {
            return MODULES.iter().for_each(|(module, package)| self.miss(module, package));
        }
        let printed =
            std::process::Command::new(php).arg("-m").output().map(|output| output.stdout);
        let printed = String::from_utf8_lossy(&printed.unwrap_or_default()).into_owned();
        for (module, package) in MODULES {
            if !printed.lines().any(|line| line.trim() == module) {
                self.miss(module, package);
            }
        }
    }
}

/// `php-fpm8.2`, or `php-fpm`.
fn is_fpm(name: &str) -> bool {
    name.strip_prefix("php-fpm")
        .is_some_and(|version| version.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_fpm_is_known_by_its_name() {
        assert!(is_fpm("php-fpm8.2") && is_fpm("php-fpm"));
        assert!(!is_fpm("php-fpm8.2.conf") && !is_fpm("php8.2"));
    }

    #[test]
    fn what_is_missing_is_named_with_its_package_once() {
        let mut search = Search { what: Vec::new(), packages: Vec::new() };
        search.program("no-such-program-of-larder", "its-package");
        search.program("no-such-tool-of-larder", "its-package");
        let said = Error::Missing { what: search.what, packages: search.packages }.to_string();
        assert!(said.ends_with("apt-get install --no-install-recommends its-package"), "{said}");
        assert!(said.contains("no-such-program-of-larder, no-such-tool-of-larder"), "{said}");
    }
}
