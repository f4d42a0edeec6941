//! A directory whose files are served, alone or beside an application.

use std::{path::PathBuf, sync::Arc};

use super::{ErrorPages, Glob};

/// A tree of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeSettings {
    /// The directory; nothing outside it is served. Absolute.
    pub root: PathBuf,
    /// Names of files that answer for their directory, by preference.
    pub index: Vec<String>,
    /// Places to look at for a path, in order; 404 behind the last.
    pub try_files: Vec<Candidate>,
    /// Symbolic links that lead out of the root, and absolute ones, are followed.
    pub follow_links: bool,
    /// Media types by extension in lower case, before the usual ones.
    pub types: Vec<(String, String)>,
    /// Seconds for which a stored file is used without another look at it.
    pub check: u32,
    /// Lifetime that clients are told, in seconds, by media type; the first that matches counts.
    pub expires: Vec<(Glob, u32)>,
    /// A directory without an index answers with a list of what it has.
    pub listing: bool,
    /// Pages for paths that lead to no file.
    pub error_pages: Arc<ErrorPages>,
}

/// A place to look at for a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Candidate {
    /// A file or directory of this name.
    Name(NamePattern),
    /// The request is answered with this status, 400 to 599.
    Status(u16),
}

/// The name of a file or directory, with the path of the request in it or without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePattern {
    /// Text before the path.
    pub before: String,
    /// Text behind the path; None: the path is no part of the name.
    pub after: Option<String>,
    /// The name is that of a directory, whose index answers.
    pub directory: bool,
    /// The query, with `$args` and `$uri` in it; None: that of the request.
    pub query: Option<String>,
}

impl Candidate {
    /// Reads `$uri`, `$uri/`, `/index.php`, `/index.php?q=$uri&$args`, `=404`. None: something
    /// else.
    pub fn parse(text: &str) -> Option<Candidate> {
        if let Some(status) = text.strip_prefix('=') {
            let status = status.parse().ok().filter(|status| (400..600).contains(status))?;
            return Some(Candidate::Status(status));
        }
        let (name, query) = match text.split_once('?') {
            Some((name, query)) => (name, Some(query.to_owned())),
            None => (text, None),
        };
        let directory = name.ends_with('/');
        let name = name.strip_suffix('/').unwrap_or(name);
        let (before, after) = match name.split_once("$uri") {
            Some((before, after)) => (before, Some(after.to_owned())),
            None => (name, None),
        };
        let literal = |text: &str| !text.contains(['$', '\0']);
        let begins =
            before.starts_with('/') || (before.is_empty() && (after.is_some() || directory));
        let valid = begins && literal(before) && after.as_deref().is_none_or(literal);
        let own = |query: &String| query != "$args" && query != "$query_string";
        valid.then(|| {
            let (before, query) = (before.to_owned(), query.filter(own));
            Candidate::Name(NamePattern { before, after, directory, query })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(before: &str, after: Option<&str>, directory: bool, query: Option<&str>) -> Candidate {
        Candidate::Name(NamePattern {
            before: before.to_owned(),
            after: after.map(str::to_owned),
            directory,
            query: query.map(str::to_owned),
        })
    }

    #[test]
    fn candidates() {
        for (text, expected) in [
            ("$uri", name("", Some(""), false, None)),
            ("$uri/", name("", Some(""), true, None)),
            ("$uri.html", name("", Some(".html"), false, None)),
            ("/cache$uri/", name("/cache", Some(""), true, None)),
            ("/index.php", name("/index.php", None, false, None)),
            ("/index.php?$args", name("/index.php", None, false, None)),
            ("/i.php?q=$uri&$args", name("/i.php", None, false, Some("q=$uri&$args"))),
            ("/", name("", None, true, None)),
            ("=404", Candidate::Status(404)),
        ] {
            assert_eq!(Candidate::parse(text), Some(expected), "{text}");
        }
        for text in ["", "index.php", "=200", "=x", "$document_root$uri", "$uri$uri", "/a$b"] {
            assert_eq!(Candidate::parse(text), None, "{text}");
        }
    }
}
