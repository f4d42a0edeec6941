//! Files in a directory, asked for without a socket.

use std::{fs, path::Path};

use http::HeaderName;
use tempfile::TempDir;

use super::*;
use crate::{
    origin::{Asker, RequestBody},
    settings::Candidate,
};

fn files(root: &Path) -> Files {
    let candidate = |text| Candidate::parse(text).expect("a candidate");
    Files::new(Arc::new(TreeSettings {
        root: root.to_owned(),
        index: vec!["index.html".to_owned()],
        try_files: vec![candidate("$uri"), candidate("$uri/")],
        follow_links: false,
        types: vec![("odd".to_owned(), "text/x-odd".to_owned())],
        check: 1,
        expires: Vec::new(),
        listing: false,
        error_pages: Default::default(),
    }))
}

fn ask(files: &Files, target: &str, fields: &[(&'static str, &str)]) -> Response {
    let value = |value: &str| HeaderValue::from_str(value).expect("a value");
    let pair = |(name, text): &(&'static str, &str)| (HeaderName::from_static(name), value(text));
    let request = Request {
        method: Method::GET,
        target: target.to_owned(),
        visited: None,
        headers: fields.iter().map(pair).collect(),
        body: RequestBody::Empty,
        upgrade: false,
        asker: Asker::default(),
    };
    files.send(&request).expect("an answer")
}

fn text(response: &Response, name: &str) -> String {
    let value = response.headers.get(name).map(|value| value.to_str().expect("text"));
    value.unwrap_or_default().to_owned()
}

async fn read(mut response: Response) -> Result<Vec<u8>, OriginError> {
    let mut content = Vec::new();
    while let Some(piece) = response.body.chunk().await? {
        content.extend_from_slice(&piece);
    }
    Ok(content)
}

#[tokio::test]
async fn a_file_with_its_validators() {
    let root = TempDir::new().expect("a directory");
    fs::write(root.path().join("a.css"), "content").expect("a file");
    let files = files(root.path());
    let whole = ask(&files, "/a.css?v=1", &[]);
    assert_eq!((whole.status, text(&whole, "content-type")), (200, "text/css".to_owned()));
    assert_eq!(text(&whole, "surrogate-control"), "max-age=1");
    let (etag, modified) = (text(&whole, "etag"), text(&whole, "last-modified"));
    assert_eq!(read(whole).await.expect("content"), b"content");
    for (name, value) in [("if-none-match", &etag), ("if-modified-since", &modified)] {
        assert_eq!(ask(&files, "/a.css", &[(name, value)]).status, 304, "{name}");
    }
    assert_eq!(ask(&files, "/a.css", &[("if-match", "\"other\"")]).status, 412);
    fs::write(root.path().join("a.css"), "changes").expect("a file");
    assert_ne!(text(&ask(&files, "/a.css", &[]), "etag"), etag);
    assert_eq!(ask(&files, "/a.css", &[("if-none-match", &etag)]).status, 200);
}

#[tokio::test]
async fn parts() {
    let root = TempDir::new().expect("a directory");
    let bytes: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
    fs::write(root.path().join("a.odd"), &bytes).expect("a file");
    fs::write(root.path().join("empty"), "").expect("a file");
    let files = files(root.path());
    let part = ask(&files, "/a.odd", &[("range", "bytes=10-250009")]);
    assert_eq!((part.status, text(&part, "content-type")), (206, "text/x-odd".to_owned()));
    assert_eq!(text(&part, "content-range"), "bytes 10-250009/300000");
    assert_eq!(part.body.declared_length(), Some(250_000));
    assert!(read(part).await.expect("content") == bytes[10..250_010]);
    let beyond = ask(&files, "/a.odd", &[("range", "bytes=300000-")]);
    assert_eq!((beyond.status, text(&beyond, "content-range")), (416, "bytes */300000".to_owned()));
    for (range, other) in [("bytes=0-1,5-6", "*"), ("bytes=0-1", "\"other\"")] {
        let fields = [("range", range), ("if-range", other)];
        let fields = if other == "*" { &fields[..1] } else { &fields[..] };
        assert_eq!(ask(&files, "/a.odd", fields).status, 200, "{range}");
    }
    let empty = ask(&files, "/empty", &[]);
    assert_eq!((empty.status, text(&empty, "content-length")), (200, "0".to_owned()));
    assert_eq!(read(empty).await.expect("content"), b"");
}

#[tokio::test]
async fn compressed_forms() {
    let root = TempDir::new().expect("a directory");
    for (name, content) in [
        ("a.js.gz", "four"),
        ("a.js", "uncompressed"),
        ("a.js.br", "br"),
        ("a.js.zst", "a zstd form that is longer"),
    ] {
        fs::write(root.path().join(name), content).expect("a file");
    }
    // Older than the file that it should be of.
    let made = fs::File::open(root.path().join("a.js.gz")).expect("a file");
    made.set_modified(std::time::UNIX_EPOCH).expect("a time");
    let files = files(root.path());
    let form = |accepted: &str| {
        let answer = ask(&files, "/a.js", &[("accept-encoding", accepted)]);
        assert_eq!(text(&answer, "vary"), "Accept-Encoding");
        (text(&answer, "content-encoding"), text(&answer, "etag"))
    };
    let (identity, gzip, br) = (form("zstd"), form("gzip"), form("gzip, br"));
    assert_eq!((identity.0.as_str(), gzip.0.as_str(), br.0.as_str()), ("", "", "br"));
    assert!(identity.1 != br.1);
    fs::write(root.path().join("a.js.gz"), "four").expect("a file");
    assert_eq!(form("gzip").0, "gzip");
    assert_eq!(form("identity").0, "");
}

#[tokio::test]
async fn a_file_that_changes_while_it_is_read_is_not_complete() {
    let root = TempDir::new().expect("a directory");
    let path = root.path().join("a");
    fs::write(&path, vec![b'a'; 300_000]).expect("a file");
    let files = files(root.path());
    let mut shorter = ask(&files, "/a", &[]);
    shorter.body.chunk().await.expect("a piece");
    fs::write(&path, "now").expect("a file");
    assert!(matches!(read(shorter).await, Err(OriginError::Truncated)));
    fs::write(&path, vec![b'a'; 1000]).expect("a file");
    let mut changed = ask(&files, "/a", &[]);
    assert_eq!(changed.body.chunk().await.expect("a piece").map(|piece| piece.len()), Some(1000));
    fs::write(&path, vec![b'b'; 1000]).expect("a file");
    assert!(matches!(read(changed).await, Err(OriginError::Truncated)));
}

#[test]
fn large_files_are_not_stored() {
    let root = TempDir::new().expect("a directory");
    fs::write(root.path().join("a"), vec![0; (STORED_BYTES + 1) as usize]).expect("a file");
    assert_eq!(text(&ask(&files(root.path()), "/a", &[]), "surrogate-control"), "no-store");
}
