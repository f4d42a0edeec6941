//! Paths over a real directory.

use std::{fs, os::unix::fs::symlink, path::Path};

use tempfile::TempDir;

use super::*;

fn sample() -> TempDir {
    let root = TempDir::new().expect("a directory");
    let at = |name: &str| root.path().join(name);
    for directory in ["upload", "blog", "empty", "odd.php", ".git", ".well-known"] {
        fs::create_dir(at(directory)).expect("a directory");
    }
    for file in [
        "index.php",
        "style.css",
        "upload/evil.jpg",
        "blog/index.php",
        "blog/post.php",
        "odd.php/in.php",
        ".env",
        ".git/config",
        ".well-known/token",
        "old.PHP",
        "backup.php5",
    ] {
        fs::write(at(file), file).expect("a file");
    }
    symlink("style.css", at("link.css")).expect("a link");
    symlink("/etc/passwd", at("absolute")).expect("a link");
    symlink("../..", at("up")).expect("a link");
    symlink("/etc", at("etc.php")).expect("a link");
    root
}

fn tree(root: &Path, try_files: &[&str]) -> TreeSettings {
    let candidate = |text: &&str| Candidate::parse(text).expect("a candidate");
    TreeSettings {
        root: root.to_owned(),
        index: vec!["index.php".to_owned(), "index.html".to_owned()],
        try_files: try_files.iter().map(candidate).collect(),
        follow_links: false,
        types: Vec::new(),
        check: 1,
        expires: Vec::new(),
        listing: false,
        error_pages: Default::default(),
    }
}

fn asked(tree: &TreeSettings, scripts: Option<&[String]>, target: &str) -> Found {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let decoded = DecodedPath::new(path).expect("a path");
    find(tree, scripts, Asked { path, query, decoded: &decoded }).expect("a root")
}

fn script(name: &str, path_info: &str) -> Found {
    let (name, path_info) = (name.as_bytes().to_vec(), path_info.as_bytes().to_vec());
    Found::Script(Script { name, path_info, query: None })
}

const PLAIN: &[&str] = &["$uri", "$uri/"];

#[test]
fn scripts_files_and_directories() {
    let (root, php) = (sample(), [".php".to_owned()]);
    let tree = tree(root.path(), PLAIN);
    let of = |target| asked(&tree, Some(&php), target);
    assert_eq!(of("/"), script("/index.php", ""));
    assert_eq!(of("/index.php"), script("/index.php", ""));
    assert_eq!(of("/index.php/"), script("/index.php", "/"));
    assert_eq!(of("/index.php/a%2Fb/../c"), script("/index.php", "/a/b/../c"));
    assert_eq!(of("/index.php/x.php"), script("/index.php", "/x.php"));
    assert_eq!(of("/odd.php/in.php/x"), script("/odd.php/in.php", "/x"));
    assert_eq!(of("/blog"), Found::Directory);
    assert_eq!(of("/blog/"), script("/blog/index.php", ""));
    assert_eq!(of("/style.css"), Found::File(b"/style.css".to_vec()));
    assert_eq!(of("/link.css"), Found::File(b"/link.css".to_vec()));
    assert_eq!(of("/.well-known/token"), Found::File(b"/.well-known/token".to_vec()));
}

#[test]
fn what_is_not_served() {
    let (root, php) = (sample(), [".php".to_owned()]);
    let tree = tree(root.path(), PLAIN);
    for target in [
        "/upload/evil.jpg/x.php",
        "/upload/evil.jpg/.php",
        "/missing.php",
        "/empty/",
        "/style.css/",
        "//index.php",
        "/blog//post.php",
        "/blog%2Fpost.php",
        "/blog/../index.php",
        "/blog/%2e%2e/index.php",
        "/.env",
        "/.git/config",
        "/.git/",
        "/absolute",
        "/up/index.php",
        "/etc.php/passwd",
        "/etc.php",
        "/old.PHP",
        "/backup.php5",
        "/upload/%2e%2e%2findex.php/x",
    ] {
        assert_eq!(asked(&tree, Some(&php), target), Found::Status(404), "{target}");
    }
}

#[test]
fn links_out_of_the_root_are_followed_where_that_is_wanted() {
    let root = sample();
    let tree = TreeSettings { follow_links: true, ..tree(root.path(), PLAIN) };
    assert_eq!(asked(&tree, None, "/absolute"), Found::File(b"/absolute".to_vec()));
}

#[test]
fn front_controllers() {
    let (root, php) = (sample(), [".php".to_owned()]);
    let of = |try_files: &[&str], target| asked(&tree(root.path(), try_files), Some(&php), target);
    let wordpress = ["$uri", "$uri/", "/index.php?$args"];
    assert_eq!(of(&wordpress, "/2026/hello"), script("/index.php", ""));
    assert_eq!(of(&wordpress, "/empty/"), script("/index.php", ""));
    assert_eq!(of(&wordpress, "/.env"), script("/index.php", ""));
    assert_eq!(of(&wordpress, "/upload/evil.jpg/x.php"), script("/index.php", ""));
    let path_info = ["$uri", "/index.php$uri"];
    assert_eq!(of(&path_info, "/wiki/A%2FB"), script("/index.php", "/wiki/A/B"));
    let Found::Script(found) = of(&["$uri", "/index.php?q=$uri&$args"], "/a%20b?c=d") else {
        panic!("no script");
    };
    assert_eq!(found.query.as_deref(), Some("q=/a%20b&c=d"));
    let Found::Script(found) = of(&["$uri", "/index.php?q=$uri&$args"], "/$args$uri?c=$uri") else {
        panic!("no script");
    };
    assert_eq!(found.query.as_deref(), Some("q=/$args$uri&c=$uri"));
    assert_eq!(of(&["$uri", "=410", "/index.php"], "/a"), Found::Status(410));
}

#[test]
fn files_alone_and_scripts_alone() {
    let root = sample();
    let tree = tree(root.path(), PLAIN);
    assert_eq!(asked(&tree, None, "/blog/post.php"), Found::File(b"/blog/post.php".to_vec()));
    assert_eq!(asked(&tree, Some(&[]), "/style.css"), script("/style.css", ""));
}

#[test]
fn a_root_that_is_gone_is_an_error() {
    let tree = tree(Path::new("/nowhere/at/all"), PLAIN);
    let decoded = DecodedPath::new("/").expect("a path");
    assert!(find(&tree, None, Asked { path: "/", query: "", decoded: &decoded }).is_err());
}
