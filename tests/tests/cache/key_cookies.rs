//! One rule for keys: where cookies select, the origin is sent what is in the key and nothing else;
//! and who is logged in for the site is not anonymous here, however the cookie's name is spelled.

use larder_tests::{Larder, Origin, get, get_with};

const FRESH: &str = "Cache-Control: max-age=600";

/// A page that shows the cookies it was made for.
fn showing(lines: &str) -> (Origin, Larder) {
    let origin = Origin::start(|seen, reply| {
        let shown: Vec<&str> = seen.fields.all("cookie").collect();
        reply.ok(&[FRESH, "Vary: Cookie"], shown.join(" | "));
    });
    let larder = Larder::site(&origin.url(), lines);
    (origin, larder)
}

fn shown(larder: &Larder, target: &str, cookies: &[&str]) -> String {
    let lines: Vec<String> = cookies.iter().map(|line| format!("Cookie: {line}")).collect();
    let fields: Vec<&str> = lines.iter().map(String::as_str).collect();
    get_with(larder.addr(), target, &fields).text().to_owned()
}

#[test]
fn the_origin_is_sent_the_cookies_that_select_in_the_form_of_the_key() {
    let (_origin, larder) = showing("vary_cookies = [\"theme\", \"lang\"]");
    for (number, (cookies, expected)) in [
        (&["theme=dark"][..], "theme=dark"),
        (&["theme =dark"], "theme=dark"),
        (&["theme\t=dark"], "theme=dark"),
        (&["theme= dark "], "theme=dark"),
        (&[";; theme=dark;"], "theme=dark"),
        (&["session=1; theme=dark; x=y"], "theme=dark"),
        (&["session=1", "lang=de;theme=dark"], "theme=dark; lang=de"),
        (&["theme=light; theme=dark"], "theme=light; theme=dark"),
        (&["theme=light", "theme=dark"], "theme=light; theme=dark"),
        (&["theme=dark; theme=light"], "theme=dark; theme=light"),
        (&["the.me=x; the me=x; theme[a]=x; Theme=x; theme; xtheme=x; =theme"], ""),
        (&["theme"], ""),
        (&["session=1"], ""),
        (&[], ""),
    ]
    .iter()
    .enumerate()
    {
        // Cold, and by whatever was stored for the others.
        assert_eq!(shown(&larder, &format!("/{number}"), cookies), *expected, "{cookies:?}");
        assert_eq!(shown(&larder, "/", cookies), *expected, "{cookies:?}");
    }
}

/// What reads differently to a site has no effect on the page of the plain spelling.
#[test]
fn odd_spellings_do_not_poison_the_page_of_the_plain_one() {
    for odd in [
        "theme =light",
        "theme\t=light",
        "theme=dark; theme=light",
        "theme=light; theme=dark",
        "the.me=light",
    ] {
        // The last of a name counts for this origin, and names are as they are written: `theme ` is
        // another one.
        let origin = Origin::start(|seen, reply| {
            let line = seen.fields.joined("cookie");
            let mut themes = line.split(';').filter_map(|pair| pair.trim_start().split_once('='));
            let last = themes.rfind(|(name, _)| *name == "theme");
            reply.ok(&[FRESH, "Vary: Cookie"], last.map_or("none", |(_, value)| value));
        });
        let larder = Larder::site(&origin.url(), "vary_cookies = [\"theme\"]");
        shown(&larder, "/", &[odd]);
        for (theme, cookie) in [("light", "theme=light"), ("dark", "theme=dark"), ("none", "a=b")] {
            assert_eq!(shown(&larder, "/", &[cookie]), theme, "after {odd}");
        }
    }
}

#[test]
fn without_a_list_all_cookies_select_and_go_in_one_line() {
    let (origin, larder) = showing("ignore_cookies = [\"_ga*\"]");
    assert_eq!(shown(&larder, "/", &["a=1;b=2", "_ga=3; c = 4"]), "a=1; b=2; c = 4");
    get_with(larder.addr(), "/", &["Cookie: a=1", "Cookie: b=2;c = 4"]).assert_hit();
    assert_eq!(shown(&larder, "/", &["a=1; b=2"]), "a=1; b=2");
    assert_eq!(shown(&larder, "/", &["_ga=9"]), "");
    get(larder.addr(), "/").assert_hit();
    assert_eq!(origin.count(), 3);
}

#[test]
fn no_cookies_select_where_the_list_is_empty() {
    let (origin, larder) = showing("vary_cookies = []");
    assert_eq!(shown(&larder, "/", &["a=1; =b"]), "");
    get(larder.addr(), "/").assert_hit();
    assert_eq!(origin.count(), 1);
}

/// PHP reads `.`, a space and `[` in names as `_`.
#[test]
fn whoever_php_takes_for_logged_in_is_passed() {
    for (preset, cookies) in [
        (
            "wordpress",
            [
                "wordpress.logged_in_x=1",
                "wordpress logged in_x=1",
                "a=1; wp-postpass_[x]=1",
                "wordpress_logged_in_x =1",
            ],
        ),
        ("mediawiki", ["mw[session=1", "mw.session=1", "wikiUserID =5", "wiki_session[0]=1"]),
    ] {
        let origin = Origin::start(|seen, reply| {
            reply.ok(&[FRESH], format!("cookies: {}", seen.fields.joined("cookie")));
        });
        let larder = Larder::site(&origin.url(), &format!("preset = \"{preset}\""));
        get(larder.addr(), "/page");
        get(larder.addr(), "/page").assert_hit();
        for cookie in cookies {
            // As it came, and neither from memory nor for it.
            assert_eq!(
                shown(&larder, "/page", &[cookie]),
                format!("cookies: {cookie}"),
                "{preset}"
            );
            let cold = format!("/cold-{}", origin.count());
            assert_eq!(shown(&larder, &cold, &[cookie]), format!("cookies: {cookie}"), "{preset}");
            assert_eq!(get(larder.addr(), &cold).text(), "cookies: ", "{preset}");
        }
        get(larder.addr(), "/page").assert_hit();
    }
}
