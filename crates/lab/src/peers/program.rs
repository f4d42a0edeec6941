//! Installed programs: paths and versions.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use super::Error;

/// Directories of servers on Debian, missing from an ordinary user's PATH.
const SERVERS: [&str; 2] = ["/usr/local/sbin", "/usr/sbin"];

/// Path of a program.
///
/// # Errors
/// [`Error::NotInstalled`], with its Debian package.
pub fn find(program: &str, package: &'static str) -> Result<PathBuf, Error> {
    on_path(program).ok_or_else(|| Error::NotInstalled { program: program.to_owned(), package })
}

/// The first file of this name on the PATH, or in Debian's directories of servers.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let directories = env::split_paths(&path).chain(SERVERS.map(PathBuf::from));
    directories.map(|directory| directory.join(program)).find(|file| file.is_file())
}

/// The version printed by a program when run with `argument`. `None`: it prints none.
pub fn version(program: &Path, argument: &str) -> Option<String> {
    let output = Command::new(program).arg(argument).output().ok()?;
    let said = [output.stdout, output.stderr].concat();
    number(&String::from_utf8_lossy(&said)).map(str::to_owned)
}

/// The first number with a dot in it.
fn number(text: &str) -> Option<&str> {
    let pieces = text.split(|letter: char| !letter.is_ascii_digit() && letter != '.');
    let mut numbers = pieces.map(|piece| piece.trim_matches('.'));
    numbers.find(|piece| piece.contains('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_as_programs_print_them() {
        for (said, version) in [
            ("nginx version: nginx/1.22.1", "1.22.1"),
            ("varnishd (varnish-7.1.1 revision 7cee1c581bead20e88d101ab3d72afb29f14d87a)", "7.1.1"),
            ("Squid Cache: Version 5.7\nService Name: squid", "5.7"),
            ("Traffic Server 9.2.9 Apr  4 2026 14:52:39 localhost", "9.2.9"),
            ("HAProxy version 2.6.12-1+deb12u4 2026/10/17 - https://haproxy.org/", "2.6.12"),
            ("lighttpd/1.4.69 (ssl) - a light and fast webserver", "1.4.69"),
            ("memcached 1.6.18", "1.6.18"),
            ("Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64", "7.0.15"),
        ] {
            assert_eq!(number(said), Some(version));
        }
        assert_eq!(number("no version at all."), None);
    }

    #[test]
    fn a_program_that_is_missing_is_named_with_its_package() {
        assert!(find("sh", "dash").unwrap().is_absolute());
        let error = find("larder-no-such-program", "some-package").unwrap_err().to_string();
        assert_eq!(
            error,
            "larder-no-such-program is not installed: `apt-get install some-package` brings it"
        );
    }
}
