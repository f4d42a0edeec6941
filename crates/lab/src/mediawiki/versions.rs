//! Versions of the measured programs.

use std::{collections::BTreeMap, path::Path, process::Command};

use super::programs::Programs;

/// Names and versions as reported by the programs.
pub(super) fn of(programs: &Programs) -> BTreeMap<&'static str, String> {
    let programs_asked: [(&str, &Path, &str); 7] = [
        ("PHP", &programs.php, "--version"),
        ("MariaDB", &programs.mariadbd, "--version"),
        ("nginx", &programs.nginx, "-v"),
        ("memcached", &programs.memcached, "--version"),
        ("Squid", &programs.squid, "--version"),
        ("Larder", &programs.larder, "--version"),
        ("Linux", Path::new("uname"), "-r"),
    ];
    let mut versions: BTreeMap<_, _> = programs_asked
        .into_iter()
        .filter_map(|(name, program, flag)| Some((name, version(program, flag)?)))
        .collect();
    versions.extend(mediawiki(&programs.mediawiki).map(|version| ("MediaWiki", version)));
    versions
}

/// The first number with a dot in a program's version output.
fn version(program: &Path, flag: &str) -> Option<String> {
    if program.as_os_str().is_empty() {
        return None;
    }
    let output = Command::new(program).arg(flag).output().ok()?;
    // nginx prints it on standard error.
    let text = [output.stdout, output.stderr].concat();
    first(&String::from_utf8_lossy(&text))
}

fn first(text: &str) -> Option<String> {
    let words = text.split(|c: char| c.is_whitespace() || matches!(c, '/' | ',' | '('));
    let mut numbers =
        words.filter(|word| word.contains('.') && word.starts_with(|c: char| c.is_ascii_digit()));
    numbers.next().map(str::to_owned)
}

/// `define( 'MW_VERSION', '1.39.17' );`
fn mediawiki(dir: &Path) -> Option<String> {
    let defines = std::fs::read_to_string(dir.join("includes/Defines.php")).ok()?;
    let rest = defines.split_once("'MW_VERSION'")?.1;
    rest.split('\'').nth(1).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_the_first_number_with_a_dot() {
        let of = |text| first(text).unwrap();
        assert_eq!(of("nginx version: nginx/1.22.1"), "1.22.1");
        assert_eq!(
            of("mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu"),
            "10.11.19-MariaDB-0+deb12u1"
        );
        assert_eq!(of("PHP 8.2.29 (cli) (built: Jul)"), "8.2.29");
    }
}
