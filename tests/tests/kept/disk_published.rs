//! Published pages on the disk: found again after a kill, gone for good once they are deleted or
//! purged.

#![allow(clippy::unwrap_used)]

use larder_tests::{Admin, Answer, Larder, Origin, get, get_with, wait_until};

use crate::disk::{Place, figure, kill, loaded, purge, stop};

fn numbered() -> Origin {
    Origin::start(|seen, reply| {
        reply.ok(&["Cache-Control: max-age=6000"], format!("origin {}", seen.number + 1));
    })
}

/// By the name that visitors of the tests use.
fn target(path: &str, more: &str) -> String {
    format!("/api/v1/pages?url=http://site.test{path}{more}")
}

#[track_caller]
fn publish(larder: &Larder, path: &str, more: &str, body: &str) {
    let answer = Admin::of(larder).order("PUT", &target(path, more), body);
    assert!([201, 204].contains(&answer.status), "{answer:?}");
}

fn delete(larder: &Larder, path: &str) -> Answer {
    Admin::of(larder).order("DELETE", &target(path, ""), "")
}

fn written(larder: &Larder, stores: u64) {
    wait_until("they are written", || {
        figure(larder, "stores") >= stores && figure(larder, "entries") >= stores
    });
}

#[track_caller]
fn from_disk(larder: &Larder, path: &str) -> Answer {
    let answer = get(larder.addr(), path);
    assert!(answer.is_hit() && answer.cache_status_has("detail=disk"), "{answer:?}");
    answer
}

#[test]
fn published_pages_are_there_after_a_kill_and_can_be_deleted() {
    let (place, origin) = (Place::new(), numbered());
    let larder = loaded(place.start(&origin, ""));
    for (path, more) in [("/a.css", "&ttl=1h&tags=red"), ("/b", ""), ("/c", ""), ("/d", "")] {
        publish(&larder, path, more, &format!("published {path}"));
    }
    written(&larder, 4);
    kill(larder);
    let larder = loaded(place.start(&origin, ""));
    let page = from_disk(&larder, "/a.css");
    assert_eq!(page.text(), "published /a.css");
    assert_eq!(page.get("content-type"), Some("text/css; charset=utf-8"));
    let pages = Admin::of(&larder).json("/api/v1/pages")["pages"].clone();
    assert_eq!((pages.as_array().unwrap().len(), &pages[0]["tags"][0]), (1, &"red".into()));
    // A reload does not ask the origin for a page that it does not have.
    let reload = get_with(larder.addr(), "/b", &["Cache-Control: max-age=0"]);
    assert_eq!((reload.text(), origin.count()), ("published /b", 0));
    // One that is in memory, and one that is on the disk alone.
    assert_eq!([delete(&larder, "/b").status, delete(&larder, "/c").status], [204, 204]);
    assert_eq!([delete(&larder, "/b").status, delete(&larder, "/x").status], [404, 404]);
    kill(larder);
    let larder = loaded(place.start(&origin, ""));
    for (path, text) in [("/b", "origin 1"), ("/c", "origin 2"), ("/d", "published /d")] {
        assert_eq!(get(larder.addr(), path).text(), text, "{path}");
    }
    // A page of the origin is not deleted so.
    assert_eq!(delete(&larder, "/b").status, 404);
    stop(larder);
    let larder = loaded(place.start(&origin, ""));
    assert_eq!(from_disk(&larder, "/d").text(), "published /d");
}

#[test]
fn purged_and_replaced_published_pages_do_not_come_back() {
    let (place, origin) = (Place::new(), numbered());
    let larder = loaded(place.start(&origin, "disk = \"always\""));
    get(larder.addr(), "/again").assert_forwarded();
    for path in ["/url", "/below/a", "/again", "/changed"] {
        publish(&larder, path, "", &format!("published {path}"));
    }
    publish(&larder, "/tagged", "&tags=red", "published /tagged");
    publish(&larder, "/again", "", "newer");
    written(&larder, 5);
    purge(&larder, "/url", &[]).assert_status(200);
    purge(&larder, "/below/", &["Larder-Purge: prefix"]).assert_status(200);
    purge(&larder, "/", &["Larder-Purge: tag", "Surrogate-Key: red"]).assert_status(200);
    // A change by a client of the site.
    larder.connect().ask("POST", "/changed", &["Host: site.test", "Content-Length: 0"]);
    wait_until("the newer one is written", || place.holds(b"newer"));
    // The purge that nobody waits for.
    wait_until("the journal has it", || figure(&larder, "purges") >= 4);
    kill(larder);
    let larder = loaded(place.start(&origin, ""));
    for path in ["/url", "/below/a", "/tagged", "/changed"] {
        get(larder.addr(), path).assert_forwarded();
    }
    assert_eq!(from_disk(&larder, "/again").text(), "newer");
}

#[test]
fn published_pages_stay_off_the_disk_by_rule_and_cover_files_after_a_stop() {
    let place = Place::new();
    let files = larder_tests::Scratch::new("files");
    files.write("page.txt", "the file");
    let larder = |rule: &str| {
        loaded(Larder::with_config(&format!(
            "[http]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"127.0.0.1:0\"\n[disk]\npath = \
             \"{}\"\nsize = \"64MiB\"\npatience = \"10s\"\n[[site]]\norigin = \"files:{}\"\n{rule}\n",
            place.path().display(),
            files.path().display(),
        )))
    };
    let first = larder("disk = \"never\"");
    assert_eq!(get(first.addr(), "/page.txt").text(), "the file");
    publish(&first, "/page.txt", "", "published");
    assert_eq!(get(first.addr(), "/page.txt").text(), "published");
    stop(first);
    let second = larder("");
    assert_eq!(get(second.addr(), "/page.txt").text(), "the file");
    publish(&second, "/page.txt", "", "published");
    stop(second);
    let third = larder("");
    assert_eq!(from_disk(&third, "/page.txt").text(), "published");
    assert_eq!(delete(&third, "/page.txt").status, 204);
    assert_eq!(get(third.addr(), "/page.txt").text(), "the file");
    stop(third);
    assert_eq!(get(larder("").addr(), "/page.txt").text(), "the file");
}
