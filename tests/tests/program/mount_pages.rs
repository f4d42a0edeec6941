//! Pages of a mounted site: versions, time limits, types, TLS, queries.

#![allow(clippy::unwrap_used)]

use larder_proto::http::date;
use larder_tests::mount::{Mount, possible};
use larder_tests::{Gate, Larder, Origin, Papers, wait_for, wait_until};
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A time as fields have it.
fn time(seconds: u64) -> String {
    String::from_utf8(date::format(seconds).to_vec()).unwrap()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn mounted(origin: &Origin, options: &str) -> Mount {
    Mount::of(&format!("{}/", origin.url()), &["-o", options])
}

#[test]
fn two_contents_of_one_second_are_two_versions() {
    if !possible() {
        return;
    }
    static BODY: Mutex<&str> = Mutex::new("before");
    let changed = now();
    let origin = Origin::start(move |seen, reply| {
        let body = *BODY.lock().unwrap();
        let (old, new) = (time(changed - 3600), time(changed));
        let (old, new) = (format!("Last-Modified: {old}"), format!("Last-Modified: {new}"));
        let answered = format!("Date: {}", time(changed));
        let fields = match seen.path() {
            "/weak" => ["ETag: W/\"1\"", "X-A: b", &answered],
            "/young" => [&*new, "X-A: b", &answered],
            "/undated" => [&*old, "X-A: b", "X-C: d"],
            _ => [&*old, "X-A: b", &answered],
        };
        if seen.method == "HEAD" {
            let length = format!("Content-Length: {}", body.len());
            reply.head(200, &[fields[0], fields[1], fields[2], &length]);
        } else {
            reply.ok(&fields, body);
        }
    });
    let mount = mounted(&origin, "lifetime=1h");
    let read = |name: &str| fs::read_to_string(mount.file(name)).unwrap();
    let all = ["weak", "young", "undated", "old"];
    for name in all {
        assert_eq!(read(name), "before", "{name}");
        assert_eq!(fs::metadata(mount.file(name)).unwrap().len(), 6, "{name}");
    }
    *BODY.lock().unwrap() = "behind";
    for name in &all[..3] {
        assert_eq!(read(name), "behind", "{name}");
    }
    // Its time says that it is the same: the kernel has it.
    assert_eq!(read("old"), "before");
}

#[test]
fn an_operation_has_one_time_limit() {
    if !possible() {
        return;
    }
    let gate = Gate::closed();
    let held = gate.clone();
    let origin = Origin::start(move |seen, reply| match seen.path() {
        "/fine" if seen.method == "HEAD" => {
            reply.head(200, &["Content-Length: 4"]);
        }
        "/fine" => {
            reply.ok(&[], "fine");
        }
        // A page that comes in parts, each of them within the limit, all of them not.
        "/parts" if seen.method == "HEAD" => {
            reply.chunked(200, &[]);
        }
        "/parts" => {
            reply.chunked(200, &[]);
            for _ in 0..8 {
                std::thread::sleep(Duration::from_millis(400));
                reply.chunk("part");
            }
            reply.end();
        }
        path if path.starts_with("/held") => held.wait(),
        // Each answer is within the limit, all of them are not.
        path if path.starts_with("/hop") => {
            std::thread::sleep(Duration::from_millis(700));
            let next = path.len() - 4;
            reply.answer(302, &[&format!("Location: /hop{}", "+".repeat(next + 1))], "");
        }
        _ => {
            reply.answer(404, &[], "");
        }
    });
    let mount = mounted(&origin, "timeout=2s,lifetime=0s");
    let late = &|name: &str| fs::read(mount.file(name)).unwrap_err().raw_os_error();
    assert_eq!(late("hop"), Some(110), "ETIMEDOUT");
    // More than there are connections: those who wait for one are told, too.
    std::thread::scope(|scope| {
        // The kernel looks one name up once at a time.
        let held = |number| scope.spawn(move || late(&format!("held-{number}")));
        let all: Vec<_> = (0..70).map(held).collect();
        for one in all {
            assert_eq!(one.join().unwrap(), Some(110), "ETIMEDOUT");
        }
    });
    gate.open();
    let file = wait_for("a name", || fs::File::open(mount.file("parts")).ok());
    let mut bytes = [0; 100];
    let mut read = || std::os::unix::fs::FileExt::read_at(&file, &mut bytes, 0);
    assert_eq!(read().unwrap_err().raw_os_error(), Some(110), "ETIMEDOUT");
    // The page goes on arriving: a later read finds it.
    wait_until("the page", || read().is_ok_and(|length| length == 32));
    wait_until("a free connection", || fs::read(mount.file("fine")).is_ok_and(|is| is == b"fine"));
}

/// The extended attributes of a file, with their values.
fn attributes(path: &Path) -> Vec<(String, String)> {
    let mut names = vec![0; 1000];
    let length = rustix::fs::listxattr(path, &mut names[..]).unwrap();
    let names = String::from_utf8(names[..length].to_vec()).unwrap();
    let value = |name: &str| {
        let mut value = vec![0; 1000];
        let length = rustix::fs::getxattr(path, name, &mut value[..]).unwrap();
        String::from_utf8(value[..length].to_vec()).unwrap()
    };
    names.split_terminator('\0').map(|name| (name.to_owned(), value(name))).collect()
}

#[test]
fn types_of_pages_are_extended_attributes() {
    if !possible() {
        return;
    }
    let origin = Origin::start(|seen, reply| {
        let kind = match seen.path() {
            "/page" => "Content-Type: text/html; charset=UTF-8",
            "/picture" => "Content-Type: image/png",
            _ => "X-No: type",
        };
        match seen.method.as_str() {
            "HEAD" => reply.head(200, &[kind, "ETag: \"a\"", "Content-Length: 1"]),
            _ => reply.ok(&[kind, "ETag: \"a\""], "x"),
        };
    });
    let mount = mounted(&origin, "lifetime=1h");
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let both = [pair("user.mime_type", "text/html"), pair("user.charset", "utf-8")];
    assert_eq!(attributes(&mount.file("page")), both);
    assert_eq!(attributes(&mount.file("picture")), [pair("user.mime_type", "image/png")]);
    assert_eq!(attributes(&mount.file("other")), []);
    let asked = |name: &str, room: usize| {
        rustix::fs::getxattr(mount.file("page"), name, &mut vec![0; room][..])
    };
    assert_eq!(asked("user.mime_type", 3), Err(rustix::io::Errno::RANGE));
    assert_eq!(asked("user.other", 9), Err(rustix::io::Errno::NODATA));
    assert_eq!(asked("trusted.other", 9), Err(rustix::io::Errno::OPNOTSUPP));
}

#[test]
fn sites_by_https_with_a_certificate_that_is_trusted() {
    if !possible() {
        return;
    }
    let papers = Papers::issue();
    let origin = Origin::serving(&["ETag: \"a\"", "Cache-Control: max-age=600"], "by TLS");
    let site = format!("[[site]]\norigin = \"{}\"\n", origin.url());
    let larder = Larder::with_config(&papers.config("server", "", &site));
    let url = format!("https://{}/", larder.face("https"));
    let mount = Mount::trusting(&url, &[], Some(&papers.path("authority.pem")));
    assert_eq!(fs::read_to_string(mount.file("page")).unwrap(), "by TLS");
    let stranger = Papers::issue();
    let mount = Mount::trusting(&url, &[], Some(&stranger.path("authority.pem")));
    assert_eq!(fs::read(mount.file("page")).unwrap_err().raw_os_error(), Some(5), "EIO");
}

#[test]
fn a_question_mark_begins_a_query_where_it_is_wanted() {
    if !possible() {
        return;
    }
    let origin = Origin::start(|seen, reply| {
        let body = seen.target.clone();
        match seen.method.as_str() {
            "HEAD" => reply.head(200, &[&format!("Content-Length: {}", body.len())]),
            _ => reply.ok(&[], body),
        };
    });
    let read = |mount: &Mount| fs::read_to_string(mount.file("a b?c=%2F&d=e f")).unwrap();
    assert_eq!(read(&mounted(&origin, "queries")), "/a%20b?c=%2F&d=e%20f");
    assert_eq!(read(&mounted(&origin, "lifetime=1s")), "/a%20b%3Fc=%252F&d=e%20f");
}
