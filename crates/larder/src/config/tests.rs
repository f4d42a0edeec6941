use std::{net::SocketAddr, time::Duration};

use larder_server::settings::{
    Limits, LogFormat, Policy, RefreshPattern, RequestView, RulePolicy, StatusTtl, Unframed,
};

use super::*;

mod acme;
mod family;
mod first_hour;
mod objects;

fn of(text: &str) -> Loaded {
    parse(Some(Path::new("l.toml")), text, &Flags::default())
}

fn good(text: &str) -> Settings {
    let loaded = of(text);
    loaded.settings.unwrap_or_else(|| panic!("{}", loaded.report))
}

fn with_flags(text: &str, flags: Flags) -> Loaded {
    parse(None, text, &flags)
}

fn origin_flag(flags: Flags) -> Flags {
    Flags { origin: vec!["http://127.0.0.1:9000".to_owned()], ..flags }
}

/// The first lines of all problems: place, kind, message.
fn said(loaded: &Loaded) -> Vec<String> {
    let text = loaded.report.to_string();
    text.lines()
        .filter(|line| {
            [": error: ", ": warning: ", ": note: "].iter().any(|kind| line.contains(kind))
        })
        .map(str::to_owned)
        .collect()
}

#[test]
fn announced_lines_are_none_that_end_an_answer() {
    for line in ["Content-Length: 5", "transfer-encoding: chunked", "Connection: close"] {
        let text = format!("[http]\nannounce = \"{line}\"\n[[site]]\norigin = \"http://a\"\n");
        let said = said(&of(&text));
        assert!(said[0].contains("not of the message itself"), "{line}: {said:?}");
    }
}

#[test]
fn http3_is_a_flag_of_a_listener_of_https() {
    let https = vec!["127.0.0.1:0".to_owned()];
    let loaded = with_flags("", origin_flag(Flags { https, http3: true, ..Flags::default() }));
    let settings = loaded.settings.unwrap_or_else(|| panic!("{}", loaded.report));
    assert!(settings.https.is_some_and(|https| https.http3));
    let loaded = with_flags("", origin_flag(Flags { http3: true, ..Flags::default() }));
    assert!(loaded.settings.is_none(), "{}", loaded.report);
}

#[test]
fn an_origin_is_all_it_takes_and_the_defaults_are_those_of_the_server() {
    let loaded = with_flags("", origin_flag(Flags::default()));
    let settings = loaded.settings.unwrap_or_else(|| panic!("{}", loaded.report));
    assert_eq!(settings.memory, 256 << 20);
    assert!(settings.threads >= 1);
    assert!(settings.access_log.is_none());
    let http = settings.http;
    assert_eq!(
        (http.listen, http.x_cache, http.via),
        (vec!["127.0.0.1:8080".parse().expect("an address")], true, Some("larder".to_owned()))
    );
    assert_eq!((http.announce, http.sndbuf, http.sendfile_cache), (None, 256 << 10, None));
    assert_eq!((http.limits.fields, http.limits.drain), (100, Duration::from_secs(30)));
    assert!(http.trusted_proxies.is_empty());
    let site = &settings.sites[0];
    assert!(
        site.hosts.is_empty()
            && site.rules.is_empty()
            && site.purge.from.is_empty()
            && site.purge.token.is_none()
    );
    let policy = RulePolicy { max_object: 64 << 20, ..RulePolicy::default() };
    assert_eq!(
        *site.defaults, policy,
        "max_object is a quarter of memory, all else as the server has it"
    );
    let origin = &*site.origin.members[0].origin;
    assert_eq!(
        (origin.host.as_str(), origin.port, origin.max_connections),
        ("127.0.0.1", 9000, 128)
    );
    assert_eq!(
        (origin.connect_timeout, origin.total_timeout),
        (Duration::from_secs(3), Duration::from_secs(3600))
    );
}

#[test]
fn flags_go_before_the_file() {
    let text = "memory = \"1GiB\"\nthreads = 3\n[http]\nlisten = \"127.0.0.1:1\"\naccess_log = { path = \"a\", format = \"json\" }\n\
                [[site]]\nhosts = \"a.org\"\norigin = { url = \"http://b:1\", connect_timeout = \"1s\" }\n";
    let flags = Flags {
        memory: Some("64MiB".to_owned()),
        threads: Some("2".to_owned()),
        http: vec!["127.0.0.1:2".to_owned(), "[::1]:3".to_owned()],
        access_log: Some("-".to_owned()),
        ..origin_flag(Flags::default())
    };
    let settings = with_flags(text, flags).settings.expect("valid");
    assert_eq!((settings.memory, settings.threads), (64 << 20, 2));
    let listen: Vec<String> = settings.http.listen.iter().map(SocketAddr::to_string).collect();
    assert_eq!(listen, ["127.0.0.1:2", "[::1]:3"]);
    let log = settings.access_log.expect("a log");
    assert_eq!((log.path, log.format), (PathBuf::from("-"), LogFormat::Json));
    let site = &settings.sites[0];
    assert_eq!((site.name.as_str(), site.origin.members[0].origin.port), ("a.org", 9000));
    assert_eq!(
        site.origin.members[0].origin.connect_timeout,
        Duration::from_secs(1),
        "the rest of the table stays"
    );
}

#[test]
fn every_key_reaches_the_settings() {
    let settings = good(
        r#"
threads = 2
[http]
announce = "X-From: memory"
via = ""
x_cache = false
cache_status = false
trusted_proxies = ["10.0.0.0/8"]
limits = { fields = 50, drain = "5s" }
access_log = "log/a.log"
[[site]]
hosts = ["A.example.org", "*.b.example.org"]
origin = { url = "http://[::1]:9000", host_header = "in.example.org", max_connections = 4, total_timeout = "1m" }
ttl = "10m"
error_ttl = ["404 1m", "5xx 2s"]
grace = "1m"
keep = "1d"
disconnected = "2d"
refresh = { min = "1m", percent = 20 }
bypass_cookies = ["session"]
ignore_cookies = ["_ga*"]
vary_cookies = []
drop_query = "utm_*"
sort_query = true
max_object = "1MiB"
strip_s_maxage = true
allow_set_cookie = true
allow_authorization = true
client_cache_control = false
stale_against_origin = true
targets = ["Larder-Cache-Control", "CDN-Cache-Control"]
surrogate_control = false
unframed = "keep"
cache = true
[[site.rule]]
path = ["/a", "/b/*"]
path_regex = "x$"
method = ["GET", "HEAD"]
cookie = "user=*"
header = "X-Key: k*"
pass = true
"#,
    );
    assert_eq!(settings.http.announce.as_deref(), Some("X-From: memory"));
    assert_eq!(settings.http.via, None);
    assert!(!settings.http.x_cache && !settings.http.cache_status);
    let defaults = build::http_defaults().expect("defaults").limits;
    assert_eq!(
        settings.http.limits,
        Limits { fields: 50, drain: Duration::from_secs(5), ..defaults }
    );
    assert_eq!(settings.access_log.expect("a log").path, PathBuf::from("log/a.log"));
    let site = &settings.sites[0];
    assert_eq!(site.name, "a.example.org");
    assert_eq!(
        (
            site.origin.members[0].origin.host.as_str(),
            site.origin.members[0].origin.max_connections
        ),
        ("::1", 4)
    );
    assert_eq!(site.origin.members[0].origin.host_header.as_deref(), Some("in.example.org"));
    let policy = &site.defaults;
    assert_eq!(
        policy.cache,
        Policy {
            ttl: Some(600),
            status_ttl: vec![
                StatusTtl { first: 404, last: 404, ttl: 60 },
                StatusTtl { first: 500, last: 599, ttl: 2 }
            ],
            grace: Some(60),
            keep: Some(86_400),
            disconnected: 172_800,
            refresh: Some(RefreshPattern { min: 60, percent: 20, max: 86_400 }),
            allow_set_cookie: true,
            allow_authorization: true,
            force_cache: true,
            stale_against_origin: true,
            honour_client_cc: false,
            targets: vec!["Larder-Cache-Control".to_owned(), "CDN-Cache-Control".to_owned()],
            surrogate: false,
            strip_s_maxage: true,
            vary_cookies: vec![String::new()],
            unframed: Unframed::Keep,
            ..Policy::default()
        }
    );
    let ga = larder_proto::http::cookie::cookies(b"_ga_1=x").next().expect("a cookie");
    assert!(policy.bypassed_by(b"session=1") && policy.ignores_cookie(&ga));
    assert!(policy.sort_query && policy.max_object == 1 << 20 && !policy.pass);
    let matcher = &site.rules[0].matcher;
    assert_eq!((matcher.paths.len(), matcher.methods.len()), (2, 2));
    assert!(matcher.path_regex.is_some() && matcher.cookie.is_some() && matcher.header.is_some());
    assert!(site.rules[0].alone.pass && site.rules[0].alone.sort_query);
}

/// Texts with mistakes, and the first lines of all their problems.
const WRONG: &[(&str, &[&str])] = &[
    (
        "memory = 1\n[[site]]\norigin = \"http://a\"\n",
        &["l.toml:1:10: error: expected a size from \"16MiB\" to \"512GiB\", found 1"],
    ),
    (
        "[[site]]\norgin = \"http://a\"\n",
        &[
            "l.toml:1:1: error: `origin` is missing in [[site]]",
            "l.toml:2:1: error: unknown key `orgin` in [[site]]",
        ],
    ),
    (
        "[[site]]\norigin = \"ftp://a\"\n",
        &[
            "l.toml:2:10: error: expected an origin such as \"http://127.0.0.1:9000\", found \"ftp://a\"",
        ],
    ),
    (
        "[site]\norigin = \"http://a\"\n",
        &[
            "l.toml:1:1: error: expected tables, each under its own header in double brackets, found a table",
        ],
    ),
    (
        "[[site]]\norigin = { url = \"http://a\", connect_timeout = 5 }\n",
        &["l.toml:2:48: error: expected a duration from \"1ms\" to \"1d\", found 5"],
    ),
    (
        "[http]\nx_cache = \"true\"\n[[site]]\norigin = \"http://a\"\n",
        &["l.toml:2:11: error: expected true or false, found a text"],
    ),
    (
        "threads = 0\n[[site]]\norigin = \"http://a\"\n",
        &["l.toml:1:11: error: expected a number from 1 to 1024, found 0"],
    ),
    (
        "[http]\nlimits = { fields = 257 }\n[[site]]\norigin = \"http://a\"\n",
        &["l.toml:2:21: error: expected a number from 10 to 256, found 257"],
    ),
    (
        "threads = -1\n[[site]]\norigin = \"http://a\"\n",
        &["l.toml:1:11: error: expected a number from 1 to 1024, found -1"],
    ),
    (
        "[http]\nlisten = [\"127.0.0.1:80\", \"x\"]\n[[site]]\norigin = \"http://a\"\n",
        &[
            "l.toml:2:27: error: expected an address and port such as \"127.0.0.1:8080\" or \"[::1]:8080\", found \"x\"",
        ],
    ),
    (
        "[[site]]\norigin = \"http://a\"\npreset = \"mediawki\"\n",
        &[
            "l.toml:3:10: error: expected one of \"anonymous\", \"discourse\", \"django\", \"drupal\", \"ghost\", \"magento\", \"mediawiki\", \"static\", \"typo3\", \"wordpress\", found \"mediawki\"",
        ],
    ),
    (
        "[[site]]\norigin = \"http://a\"\n[[site.rule]]\npass = true\n",
        &["l.toml:3:1: error: the rule does not say which requests it is for"],
    ),
    (
        "[[site]]\norigin = \"http://a\"\n[[site.rule]]\npath = \"api/*\"\npass = true\nttl = \"5 parsecs\"\n",
        &[
            "l.toml:6:7: error: expected a duration such as \"300ms\", \"5s\" or \"1h30m\", found \"5 parsecs\"",
            "l.toml:4:8: warning: no path matches \"api/*\": paths begin with a slash",
        ],
    ),
    (
        "[[site]]\norigin = \"http://a\"\n[[site.rule]]\npath_regex = \"(\"\n",
        &["l.toml:4:14: error: expected a regular expression (unclosed group), found \"(\""],
    ),
    (
        "[[site]]\nhosts = [\"a.org\"]\norigin = \"http://a\"\n[[site]]\nhosts = [\"b.org\", \"A.org\"]\norigin = \"http://a\"\n",
        &["l.toml:5:19: error: the host \"a.org\" is already in use above"],
    ),
    (
        "[[site]]\norigin = \"http://a\"\n[[site]]\norigin = \"http://b\"\n",
        &["l.toml:3:1: error: a second site without `hosts`: it would never be asked"],
    ),
    (
        "[[site]]\norigin = \"http://a\"\npurge = { from = [\"0.0.0.0/0\"] }\n",
        &["l.toml:3:19: warning: anyone on the Internet may purge"],
    ),
    (
        "[[site]]\norigin = \"http://a\"\nslice = \"1KB\"\n",
        &["l.toml:3:1: warning: slices have 64 KiB at least"],
    ),
    (
        "[http]\ntrusted_proxies = \"10.0.0.0/8\"\n[[site]]\norigin = \"http://a\"\npurge = { from = [\"127.0.0.1\", \"10.1.0.0/16\"] }\n",
        &[
            "l.toml:5:32: note: of requests through a trusted proxy, the client it names is judged, not the proxy",
        ],
    ),
    (
        "[[site]]\norigin = \"http://a\"\npurge = { token_file = \"/nonexistent\" }\n",
        &["l.toml:3:11: error: cannot use the token file /nonexistent: there is no such file"],
    ),
    (
        "[[site]]\norigin = \"http://a\"\npurge = { token_file = \"/dev/zero\" }\n",
        &["l.toml:3:11: error: cannot use the token file /dev/zero: it is not a regular file"],
    ),
    (
        "[http]\nlisten = \"127.0.0.1:9000\"\n[[site]]\norigin = \"http://127.0.0.1:9000\"\n",
        &["l.toml: error: the origin of the site \"default\" is this server itself"],
    ),
    (
        "memory = \"1GiB\"\n[memcache]\nlisten = [\"127.0.0.1:11211\"]\n[[site]]\norigin = \"http://a\"\n",
        &["l.toml:2:2: error: unknown key `memcache` in the top level"],
    ),
    (
        "memory = \n",
        &["l.toml:1:10: error: not TOML: string values must be quoted, expected literal string"],
    ),
    ("memory = \"1GiB\"\n", &["l.toml: error: there is no origin to get pages from"]),
    (
        "[queue]\nlisten = \"127.0.0.1:22133\"\npath = \"/tmp\"\n[[queue.named]]\nname = \"a\"\nmax_aborts = 1\nerror_queue = \"a\"\n",
        &["l.toml:7:1: error: \"a\" is its own error queue: its items would be lost"],
    ),
    (
        "[queue]\nlisten = \"127.0.0.1:22133\"\npath = \"/tmp\"\nsync = \"100\"\n",
        &["l.toml:4:1: error: `sync` is not \"100\""],
    ),
    (
        "[htcp]\nlisten = \"127.0.0.1:4827\"\nfrom = \"0.0.0.0/0\"\n[[site]]\norigin = \"http://a\"\n",
        &["l.toml:3:1: warning: anyone on the Internet may clear pages"],
    ),
    ("", &["l.toml: error: there is no origin to get pages from"]),
];

#[test]
fn what_is_wrong_is_said_with_line_and_column() {
    let mut failed = String::new();
    for (text, expected) in WRONG {
        let loaded = of(text);
        let said = said(&loaded);
        let errors = expected.iter().any(|line| line.contains(": error: "));
        if said != *expected || loaded.settings.is_none() != errors {
            failed.push_str(&format!("---\n{text}expected {expected:#?}\nsaid {said:#?}\n"));
        }
    }
    assert!(failed.is_empty(), "{failed}");
}

#[test]
fn all_mistakes_are_said_at_once_and_the_nearest_name_too() {
    let loaded = of("memry = \"1GiB\"\n[http]\nlisten = 5\n[[site]]\norigin = \"http://a\"\nhost \
                     = \"a.org\"\ndrop-query = \"x\"\nhead_bytes = 5\n");
    assert_eq!(loaded.report.errors.len(), 5, "{}", loaded.report);
    let text = loaded.report.to_string();
    for fix in [
        "did you mean `memory`?",
        "did you mean `hosts`?",
        "did you mean `drop_query`?",
        "`head_bytes` belongs into [http.limits]",
    ] {
        assert!(text.contains(fix), "{fix} is not in\n{text}");
    }
}

#[test]
fn wrong_flags_are_named() {
    let loaded = with_flags(
        "",
        origin_flag(Flags {
            memory: Some("lots".to_owned()),
            threads: Some("x".to_owned()),
            ..Flags::default()
        }),
    );
    assert!(loaded.settings.is_none());
    assert_eq!(
        said(&loaded),
        [
            "--memory: error: expected a size such as \"512MiB\" or \"1GiB\", found \"lots\"",
            "--threads: error: expected a number from 1 to 1024, found \"x\"",
        ]
    );
}

#[test]
fn an_origin_flag_does_not_guess_between_sites() {
    let text = "[[site]]\nhosts = \"a\"\norigin = \"http://a\"\n[[site]]\nhosts = \"b\"\norigin = \"http://b\"\n";
    let loaded = with_flags(text, origin_flag(Flags::default()));
    assert_eq!(
        said(&loaded),
        ["--origin: error: the configuration has 2 sites: which one is meant?"]
    );
}

#[test]
fn a_site_of_flags_is_that_of_a_file() {
    let flags = origin_flag(Flags {
        preset: Some("wordpress".to_owned()),
        ttl: Some("90s".to_owned()),
        purge_from: vec!["127.0.0.1".to_owned(), "10.0.0.0/8".to_owned()],
        ..Flags::default()
    });
    let text = "[[site]]\norigin = \"http://127.0.0.1:9000\"\npreset = \"wordpress\"\n\
                ttl = \"90s\"\npurge = { from = [\"127.0.0.1\", \"10.0.0.0/8\"] }\n";
    let [flagged, written] = [with_flags("", flags), of(text)].map(|loaded| {
        let settings = loaded.settings.unwrap_or_else(|| panic!("{}", loaded.report));
        format!("{:?}", settings.sites)
    });
    assert_eq!(flagged, written);
    let alone = Flags { ttl: Some("90s".to_owned()), ..Flags::default() };
    assert_eq!(said(&with_flags("", alone)), ["--ttl: error: there is no site that it is about"]);
    let wrong = Flags { preset: Some("wordpres".to_owned()), ..Flags::default() };
    let loaded = with_flags("", origin_flag(wrong));
    assert!(said(&loaded)[0].starts_with("--preset: error: "), "{:?}", said(&loaded));
    assert!(said(&loaded)[0].ends_with(", found \"wordpres\""), "{:?}", said(&loaded));
    let text = loaded.report.to_string();
    assert!(text.contains("= did you mean \"wordpress\"?"), "{text}");
}

fn policy_of(settings: &Settings, path: &str, cookie: &'static str) -> RulePolicy {
    let any = move |name: &str, test: &mut dyn FnMut(&[u8]) -> bool| {
        name.eq_ignore_ascii_case("cookie") && !cookie.is_empty() && test(cookie.as_bytes())
    };
    let request = RequestView { method: "GET", path, any: &any };
    settings.sites[0].policy(&request).into_owned().as_ref().clone()
}

fn with_preset(preset: &str) -> Settings {
    good(&format!("[[site]]\norigin = \"http://a\"\npreset = \"{preset}\"\n"))
}

/// Preset, path, cookie, whether the request is passed.
const PRESETS: &[(&str, &str, &str, bool)] = &[
    ("anonymous", "/", "", false),
    ("anonymous", "/", "_ga=1; _ga_XYZ=2; _pk_id.1.a=3", false),
    ("anonymous", "/", "_ga=1; sid=2", true),
    ("mediawiki", "/wiki/Main_Page", "", false),
    ("mediawiki", "/wiki/Main_Page", "mwuser-sessionId=abc; theme=dark", false),
    ("mediawiki", "/wiki/Main_Page", "wikidb_session=abc", true),
    ("mediawiki", "/wiki/Main_Page", "wikidb_mw_UserID=1; x=y", true),
    ("mediawiki", "/wiki/Main_Page", "wikidbUserName=Anna", false),
    ("mediawiki", "/wiki/Main_Page", "wikidbToken=1", true),
    ("mediawiki", "/wiki/Special:UserLogin", "", true),
    ("mediawiki", "/wiki/Special%3AUserLogin", "", true),
    ("mediawiki", "/wiki/UserLogin", "", false),
    ("wordpress", "/", "", false),
    ("wordpress", "/", "wordpress_logged_in_abc=1", true),
    ("wordpress", "/", "wp-postpass_abc=1", true),
    ("wordpress", "/", "wordpress.logged_in_abc=1", true),
    ("wordpress", "/", "wordpress_logged in_abc =1", true),
    ("mediawiki", "/wiki/Main_Page", "mw[session=1", true),
    ("wordpress", "/", "comment_author_abc=1", true),
    ("wordpress", "/", "woocommerce_items_in_cart=1", true),
    ("wordpress", "/", "wp-settings-time-1=1; _ga=1", false),
    ("wordpress", "/wp-admin/edit.php", "", true),
    ("wordpress", "/wp-login.php", "", true),
    ("wordpress", "/blog/wp-cron.php", "", true),
    ("wordpress", "/checkout/", "", true),
    ("wordpress", "/wp-content/a.css", "", false),
    ("django", "/blog/", "_ga=1", false),
    ("django", "/blog/", "sessionid=1", true),
    ("django", "/admin/login/", "", true),
    ("drupal", "/node/1", "_ga=1", false),
    ("drupal", "/node/1", "SSESS0123=a", true),
    ("drupal", "/de/user/login", "", true),
    ("typo3", "/", "", false),
    ("typo3", "/", "fe_typo_user=1", true),
    ("magento", "/shirt.html", "PHPSESSID=1; form_key=2", false),
    ("magento", "/checkout/cart/", "", true),
    ("ghost", "/a-post/", "", false),
    ("ghost", "/a-post/", "ghost-members-ssr=a", true),
    ("discourse", "/t/a/1", "_t=1", true),
    ("static", "/", "anything=1", false),
];

#[test]
fn presets_pass_users_and_keep_visitors() {
    for (preset, path, cookie, passed) in PRESETS {
        let policy = policy_of(&with_preset(preset), path, cookie);
        let is = policy.pass || policy.bypassed_by(cookie.as_bytes());
        assert_eq!(is, *passed, "{preset} {path} {cookie}");
    }
}

#[test]
fn presets_set_what_their_sites_need() {
    let mediawiki = policy_of(&with_preset("mediawiki"), "/", "");
    assert!(mediawiki.cache.strip_s_maxage && !mediawiki.cache.honour_client_cc);
    assert!(mediawiki.drop_query.iter().any(|name| name.matches("utm_source")));
    assert!(!mediawiki.drop_query.iter().any(|name| name.matches("title")));
    let wordpress = policy_of(&with_preset("wordpress"), "/", "");
    assert_eq!(wordpress.cache.refresh, Some(RefreshPattern { min: 60, percent: 10, max: 3600 }));
    assert_eq!(wordpress.cache.vary_cookies, [""], "no cookie counts");
    let counting = |policy: &RulePolicy, line: &[u8]| {
        let mut out = Vec::new();
        policy.write_cookies([line].into_iter(), &mut out);
        out
    };
    assert_eq!(counting(&wordpress, b"wordpress_test_cookie=1; _ga=2"), b"");
    assert_eq!(counting(&mediawiki, b"_ga=2; mf_useformat=mobile"), b"mf_useformat=mobile");
}

#[test]
fn what_the_site_says_goes_before_its_preset() {
    let settings = good(
        "[[site]]\norigin = \"http://a\"\npreset = \"wordpress\"\ngrace = \
         \"5s\"\n[[site.rule]]\npath = \"/wp-admin/ajax\"\npass = false\n",
    );
    assert_eq!(policy_of(&settings, "/", "").cache.grace, Some(5));
    assert_eq!(policy_of(&settings, "/", "").cache.keep, Some(86_400));
    assert!(!policy_of(&settings, "/wp-admin/ajax", "").pass);
    assert!(policy_of(&settings, "/wp-admin/", "").pass);
}

#[test]
fn paths_of_the_file_begin_in_its_directory_and_those_of_flags_do_not() {
    let text = "[http]\naccess_log = \"a.log\"\n[[site]]\norigin = \"http://a\"\n";
    let path = |flags: &Flags| {
        let settings =
            parse(Some(Path::new("/etc/larder/l.toml")), text, flags).settings.expect("valid");
        settings.access_log.expect("a log").path
    };
    assert_eq!(path(&Flags::default()), PathBuf::from("/etc/larder/a.log"));
    assert_eq!(
        path(&Flags { access_log: Some("b.log".to_owned()), ..Flags::default() }),
        PathBuf::from("b.log")
    );
}
