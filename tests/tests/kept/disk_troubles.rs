//! Disks that are full or belong to others, and sites that change their names: nothing stale comes
//! back, and no request fails.

#![allow(clippy::unwrap_used)]

use super::disk::{kill, loaded};
use larder_tests::scratch::Small;
use larder_tests::{Admin, Larder, Origin, Scratch, get, wait_until};
use std::path::Path;

const FRESH: &[&str] = &["Cache-Control: max-age=6000", "Surrogate-Key: red"];

fn start(path: &Path, origin: &Origin, site: &str) -> Larder {
    Larder::with_config(&format!(
        "[http]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"127.0.0.1:0\"\n[disk]\n\
         path = \"{}\"\nsize = \"64MiB\"\npatience = \"10s\"\n[[site]]\n{site}\n\
         origin = \"{}\"\npurge = {{ from = [\"127.0.0.1\"] }}\ndisk = \"always\"\n",
        path.display(),
        origin.url(),
    ))
}

fn figure(larder: &Larder, name: &str) -> u64 {
    Admin::of(larder).json("/api/v1/stats")["disk"][name].as_u64().unwrap()
}

fn purge_tag(larder: &Larder) {
    let fields = ["Host: site.test", "Larder-Purge: tag", "Surrogate-Key: red"];
    let answer = larder.connect().ask("PURGE", "/", &fields);
    // 404: nothing of it was in memory.
    assert!([200, 404].contains(&answer.status), "{answer:?}");
    assert!(!answer.text().contains("\"disk\":false"), "{answer:?}");
}

/// The name of a site is its first host: another one first, and a purge of a tag was forgotten.
#[test]
fn a_purge_of_a_tag_outlives_the_name_of_its_site() {
    let (place, origin) = (
        Scratch::new("disk"),
        Origin::start(|seen, reply| {
            reply.ok(FRESH, format!("{} {}", seen.target, seen.number));
        }),
    );
    let path = place.file("disk");
    let larder = loaded(start(&path, &origin, "hosts = [\"site.test\"]"));
    get(larder.addr(), "/a");
    get(larder.addr(), "/b");
    wait_until("they are written", || figure(&larder, "entries") == 2);
    kill(larder);
    // Not in memory: the disk alone hears of the purge.
    let larder = loaded(start(&path, &origin, "hosts = [\"site.test\"]"));
    purge_tag(&larder);
    get(larder.addr(), "/c");
    wait_until("it is written", || figure(&larder, "entries") == 3);
    kill(larder);
    let larder = loaded(start(&path, &origin, "hosts = [\"new.test\", \"site.test\"]"));
    get(larder.addr(), "/a").assert_forwarded();
    let newer = get(larder.addr(), "/c");
    assert!(newer.cache_status_has("detail=disk"), "{newer:?}");
    // A reload while it runs.
    purge_tag(&larder);
    let text = std::fs::read_to_string(larder.dir().join("larder.toml")).unwrap();
    larder.rewrite_config(
        &text.replace("\"new.test\", \"site.test\"", "\"third.test\", \"site.test\""),
    );
    larder.hup();
    wait_until("the reload", || larder.stderr().contains("configuration reloaded"));
    get(larder.addr(), "/b").assert_forwarded();
}

#[test]
fn a_full_file_system_stops_writes_until_there_is_room() {
    let Some(small) = Small::new("24m") else { return };
    let origin = Origin::start(|seen, reply| {
        reply.ok(FRESH, seen.target.repeat(20_000));
    });
    let path = small.file("disk");
    let larder = loaded(start(&path, &origin, ""));
    get(larder.addr(), "/kept");
    wait_until("it is written", || figure(&larder, "stores") == 1);
    // Others take all there is, and a reader keeps the room of segments that are given up.
    let filler = small.file("filler");
    let _ = std::fs::write(&filler, vec![1; 32 << 20]);
    let names = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
    let held: Vec<_> = names.map(|name| std::fs::File::open(name).unwrap()).collect();
    let mut number = 0;
    wait_until("writes to fail", || {
        number += 1;
        assert_eq!(get(larder.addr(), &format!("/{number}")).status, 200);
        figure(&larder, "failures") > 0
    });
    assert_eq!(figure(&larder, "up"), 1, "pages that are there are served");
    let stores = figure(&larder, "stores");
    std::fs::remove_file(&filler).unwrap();
    drop(held);
    wait_until("pages to be written again", || {
        number += 1;
        get(larder.addr(), &format!("/{number}"));
        figure(&larder, "stores") > stores + 5 && larder.stderr().contains("is used again")
    });
    let said = larder.stderr();
    assert_eq!(said.matches("cannot be written").count(), 1, "{said}");
    assert!(said.contains("free some of it") && said.contains("no page is written"), "{said}");
    kill(larder);
    let larder = loaded(start(&path, &origin, ""));
    assert_eq!(get(larder.addr(), &format!("/{number}")).status, 200);
}

#[test]
fn a_directory_of_another_user_is_not_used() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (place, origin) = (
        Scratch::new("disk"),
        Origin::start(|_, reply| {
            reply.ok(FRESH, "a page");
        }),
    );
    let path = place.file("disk");
    std::fs::create_dir(&path).unwrap();
    std::os::unix::fs::chown(&path, Some(1234), None).unwrap();
    let larder = start(&path, &origin, "");
    assert_eq!(get(larder.addr(), "/").status, 200);
    assert_eq!(figure(&larder, "up"), 0);
    assert!(larder.stderr().contains("a directory of another user (1234)"), "{}", larder.stderr());
    assert!(std::fs::read_dir(&path).unwrap().next().is_none());
}
