use regex::Regex;

use super::*;

impl Settings {
    /// A server of nothing, for tests.
    pub(crate) fn empty() -> Self {
        Settings {
            memory: 1 << 20,
            threads: 1,
            http: HttpSettings::default(),
            https: None,
            sites: Vec::new(),
            apps: Vec::new(),
            access_log: None,
            pages: Share::default(),
            memcached: None,
            redis: None,
            admin: None,
            control: None,
            upgrade: UpgradeSettings::default(),
            snapshot: None,
            disk: None,
            queue: None,
            identity: None,
            remote: None,
            family: FamilySettings::default(),
            tracing: None,
            publish: None,
        }
    }
}

fn site(hosts: &[&str]) -> Site {
    Site {
        name: hosts.first().copied().unwrap_or("default").to_owned(),
        hosts: hosts.iter().map(|host| HostPattern::parse(host).expect("a host")).collect(),
        origin: Arc::new(OriginGroup::single(Arc::default())),
        purge: Permission::default(),
        remote: true,
        client_auth: None,
        debug: Permission::default(),
        error_pages: Arc::default(),
        dictionary: None,
        defaults: Arc::default(),
        preset: None,
        rules: Vec::new(),
    }
}

fn settings(sites: Vec<Site>) -> Settings {
    let sites = sites.into_iter().map(Arc::new).collect();
    Settings { sites, ..Settings::empty() }
}

#[test]
fn the_most_specific_site_answers() {
    let settings = settings(vec![
        site(&[]),
        site(&["*.example.org"]),
        site(&["wiki.example.org", "*.en.example.org"]),
    ]);
    let name = |host| settings.site_for(host).map(|site| site.name.as_str());
    assert_eq!(name("wiki.example.org"), Some("wiki.example.org"));
    assert_eq!(name("WIKI.Example.ORG."), Some("wiki.example.org"));
    assert_eq!(name("a.en.example.org"), Some("wiki.example.org"), "the longer wildcard");
    assert_eq!(name("a.example.org"), Some("*.example.org"));
    assert_eq!(name("example.org"), Some("default"), "a wildcard is not the domain itself");
    assert_eq!(name("badexample.org"), Some("default"));
    assert_eq!(name(".example.org"), Some("default"));
    assert_eq!(name("é.org"), Some("default"), "no cut inside a character");
}

#[test]
fn a_host_nobody_has_has_no_site() {
    assert!(settings(vec![site(&["a.org"])]).site_for("b.org").is_none());
}

#[test]
fn globs() {
    for (pattern, text, matches) in [
        ("*", "", true),
        ("", "", true),
        ("", "a", false),
        ("/api/*", "/api/", true),
        ("/api/*", "/api/a/b", true),
        ("/api/*", "/ap", false),
        ("*_session", "wiki_session", true),
        ("*_session", "wiki_sessions", false),
        ("a?c", "abc", true),
        ("a?c", "ac", false),
        ("*a*b*", "xxaxxbxx", true),
        ("*a*b", "xxaxxbxxa", false),
        ("*ab", "aab", true),
        ("**", "x", true),
    ] {
        assert_eq!(Glob::new(pattern).matches(text.as_bytes()), matches, "{pattern} {text}");
    }
}

#[test]
fn a_hostile_glob_ends_soon() {
    let pattern = Glob::new(&"*a".repeat(50));
    assert!(
        !pattern.matches("a".repeat(20_000).replace('a', "ba").trim_end_matches('a').as_bytes())
    );
}

#[test]
fn networks() {
    let net = |text| Net::parse(text).unwrap_or_else(|| panic!("{text}"));
    let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
    assert!(net("127.0.0.1").contains(ip("127.0.0.1")));
    assert!(!net("127.0.0.1").contains(ip("127.0.0.2")));
    assert!(net("10.0.0.0/8").contains(ip("10.255.0.1")));
    assert!(!net("10.0.0.0/8").contains(ip("11.0.0.1")));
    assert!(net("10.0.0.0/8").contains(ip("::ffff:10.1.2.3")), "IPv4-mapped");
    assert!(net("0.0.0.0/0").contains(ip("203.0.113.9")));
    assert!(!net("0.0.0.0/0").contains(ip("2001:db8::1")), "all of IPv4 is not all");
    assert!(net("2001:db8::/32").contains(ip("2001:db8:1::1")));
    assert!(net("::/0").contains(ip("2001:db8::1")));
    for text in ["", "10.0.0.1/8", "10.0.0.0/33", "::/129", "localhost", "10.0.0", "10.0.0.0/"] {
        assert!(Net::parse(text).is_none(), "{text}");
    }
    for (one, other, common) in [
        ("10.0.0.0/8", "10.1.0.0/16", true),
        ("10.1.2.3", "10.0.0.0/8", true),
        ("::ffff:10.1.2.3", "10.0.0.0/8", true),
        ("::/0", "192.0.2.1", true),
        ("10.0.0.0/8", "11.0.0.0/8", false),
        ("10.0.0.1", "10.0.0.2", false),
        ("2001:db8::/32", "0.0.0.0/0", false),
    ] {
        assert_eq!(net(one).overlaps(&net(other)), common, "{one} {other}");
        assert_eq!(net(other).overlaps(&net(one)), common, "{other} {one}");
    }
    for text in ["10.0.0.0/8", "127.0.0.1/32", "2001:db8::/32", "::1/128"] {
        assert_eq!(net(text).to_string(), text);
    }
}

#[test]
fn nobody_purges_without_permission() {
    let peer = IpAddr::from([127, 0, 0, 1]);
    assert!(!Permission::default().allows(peer, Some(b"Bearer ")));
    let listed = Permission { from: vec![Net::parse("127.0.0.1").expect("a net")], token: None };
    assert!(listed.allows(peer, None));
    assert!(!listed.allows(IpAddr::from([127, 0, 0, 2]), None));
}

#[test]
fn a_token_is_compared_whole() {
    let purge = Permission { from: Vec::new(), token: Secret::new(b"secret") };
    let peer = IpAddr::from([192, 0, 2, 1]);
    assert!(purge.allows(peer, Some(b"Bearer secret")));
    assert!(purge.allows(peer, Some(b"bearer  secret ")));
    for wrong in [
        "secret",
        "Bearer secre",
        "Bearer secretsecret",
        "Bearer ",
        "Bearer",
        "Basic secret",
        "Bearer Secret",
    ] {
        assert!(!purge.allows(peer, Some(wrong.as_bytes())), "{wrong}");
    }
    assert!(!purge.allows(peer, None));
    assert!(Secret::new(b"").is_none(), "an empty token would let everyone in");
    assert!(!format!("{purge:?}").contains("secret"));
}

/// The cookies that are not ignored.
fn counting(policy: &RulePolicy, line: &[u8]) -> String {
    let mut out = Vec::new();
    policy.write_cookies([line].into_iter(), &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

#[test]
fn ignored_cookies_neither_bypass_nor_count() {
    let policy = RulePolicy {
        bypass_cookies: Arc::new([CookiePattern::new("*")]),
        ignore_cookies: Arc::new([Glob::new("_ga*")]),
        ..RulePolicy::default()
    };
    assert!(!policy.bypassed_by(b"_ga=1; _ga_X=2"));
    assert!(policy.bypassed_by(b"_ga=1; session=2"));
    assert_eq!(counting(&policy, b"_ga=1; a=\"x y\" ;_gab=2;c"), "a=\"x y\"; c");
    assert_eq!(counting(&policy, b"_ga=1"), "");
}

#[test]
fn a_lone_star_ignores_what_no_other_list_names() {
    let policy = RulePolicy {
        bypass_cookies: Arc::new([CookiePattern::new("session_*")]),
        ignore_cookies: Arc::new([Glob::new("*"), Glob::new("session_test")]),
        cache: Policy { vary_cookies: vec!["view".to_owned()], ..Policy::default() },
        ..RulePolicy::default()
    };
    assert!(policy.bypassed_by(b"a=1; session_x=2"));
    assert!(!policy.bypassed_by(b"a=1; session_test=2"));
    assert_eq!(counting(&policy, b"a=1; view=m; session_test=1"), "view=m");
}

/// A request that PHP takes for logged in is passed, in any spelling of the cookie's name.
#[test]
fn bypass_cookies_match_names_as_php_reads_them() {
    let policy = RulePolicy {
        bypass_cookies: Arc::new([
            CookiePattern::new("wp_logged_in_*"),
            CookiePattern::new("mw_session"),
        ]),
        ignore_cookies: Arc::new([Glob::new("*")]),
        ..RulePolicy::default()
    };
    for line in [
        "wp.logged_in_x=1",
        "wp logged in x=1",
        "mw[session=1",
        "a=1; mw_session[x]=1",
        "mw_session =1",
    ] {
        assert!(policy.bypassed_by(line.as_bytes()), "{line}");
    }
    assert!(!policy.bypassed_by(b"wp-logged_in_x=1; mw_sessions=1; xmw.session=1"));
}

fn request<'a>(path: &'a str, any: &'a AnyField<'a>) -> RequestView<'a> {
    RequestView { method: "GET", path, any }
}

fn paths(paths: &[&str]) -> Matcher {
    Matcher { paths: paths.iter().map(|path| Glob::new(path)).collect(), ..Matcher::default() }
}

#[test]
fn the_first_matching_rule_wins_per_field() {
    let mut site = site(&[]);
    let ttl = |ttl| RuleAction {
        cache: CacheAction { ttl: Some(Some(ttl)), ..CacheAction::default() },
        ..RuleAction::default()
    };
    let pass = RuleAction { pass: Some(true), ..ttl(9) };
    site.rules = vec![
        Rule::new(paths(&["/a/*"]), ttl(5), &site.defaults),
        Rule::new(paths(&["/a/b/*", "/c"]), pass, &site.defaults),
    ];
    let none = |_: &str, _: &mut dyn FnMut(&[u8]) -> bool| false;
    let of = |path: &str| {
        let policy = site.policy(&request(path, &none));
        (policy.pass, policy.cache.ttl)
    };
    assert_eq!(of("/"), (false, None));
    assert_eq!(of("/a/x"), (false, Some(5)));
    assert_eq!(of("/c"), (true, Some(9)));
    assert_eq!(of("/a/b/c"), (true, Some(5)));
    assert!(matches!(site.policy(&request("/c", &none)), Cow::Borrowed(_)));
}

#[test]
fn a_matcher_needs_all_it_names() {
    let matcher = Matcher {
        path_regex: Some(Regex::new("^/w/").expect("a regex")),
        methods: vec!["GET".to_owned()],
        cookie: Some(CookiePattern::new("user=a*")),
        header: Some(("X-Key".to_owned(), Glob::new("k?"))),
        ..Matcher::default()
    };
    let fields = |cookie: &'static [u8], key: &'static [u8]| {
        move |name: &str, test: &mut dyn FnMut(&[u8]) -> bool| match name
            .to_ascii_lowercase()
            .as_str()
        {
            "cookie" => test(cookie),
            "x-key" => test(key),
            _ => false,
        }
    };
    let good = fields(b"x=1; user=anna", b"k1");
    assert!(matcher.matches(&request("/w/index.php", &good)));
    assert!(!matcher.matches(&request("/x/w/", &good)));
    assert!(!matcher.matches(&request("/w/", &fields(b"user=bob", b"k1"))));
    assert!(!matcher.matches(&request("/w/", &fields(b"user=anna", b"k12"))));
    assert!(!matcher.matches(&RequestView { method: "POST", ..request("/w/", &good) }));
}
