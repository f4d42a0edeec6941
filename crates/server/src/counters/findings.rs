//! Why requests are not answered from memory: causes by site with a few of their URLs, from which
//! the advice of the dashboard and of `larder top` is made, and a line on the terminal.
//!
//! Only requests that memory did not answer come here. All is bounded: sites by [`SITES`], causes
//! by their list, URLs and names of each by [`EXAMPLES`].

use std::collections::BTreeMap;

use larder_metrics::Advice;
use parking_lot::Mutex;

use crate::clock::Ms;

/// Sites that are looked at.
const SITES: usize = 64;
/// Examples of one cause, and their longest text in bytes.
const EXAMPLES: usize = 3;
const EXAMPLE_BYTES: usize = 200;
/// Causes are those of the last one or two windows.
const WINDOW: Ms = 5 * 60 * 1000;
/// Requests of a site from which on there is advice.
const ENOUGH: u64 = 10;
/// A cause of at least one in so many is worth advice.
const SHARE: u64 = 10;
/// Pages without a lifetime after which a line is printed: the second one shows that the first was
/// not kept.
const TELL_AFTER: u64 = 2;
/// Requests of a site in a window that are looked at for its software: a site that does not show it
/// by then does not show it at all.
const LOOKS: u64 = 64;

/// A cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cause {
    /// The site gives no lifetime.
    NoFreshness,
    /// The same, and the request has cookies that count.
    Cookie,
    /// A cookie of `bypass_cookies`.
    BypassCookie,
    /// The answer sets a cookie.
    SetCookie,
    /// The answer is `private`.
    Private,
    /// The answer is `no-store`.
    NoStore,
    /// Only other variants are stored.
    Vary,
    /// Parameters of campaigns in the query.
    Query,
}

impl Cause {
    /// The cause behind a reason for not storing.
    pub(crate) fn named(word: &str) -> Option<Cause> {
        let all = [
            Cause::NoFreshness,
            Cause::Cookie,
            Cause::BypassCookie,
            Cause::SetCookie,
            Cause::Private,
            Cause::NoStore,
        ];
        all.into_iter().find(|cause| cause.word() == word)
    }

    fn word(self) -> &'static str {
        match self {
            Cause::NoFreshness => "no-freshness",
            Cause::Cookie => "cookie",
            Cause::BypassCookie => "bypass-cookie",
            Cause::SetCookie => "set-cookie",
            Cause::Private => "private",
            Cause::NoStore => "no-store",
            Cause::Vary => "vary",
            Cause::Query => "query",
        }
    }
}

/// A request that memory did not answer.
pub(crate) struct Finding<'f> {
    pub(crate) site: &'f str,
    /// None: none that advice is for.
    pub(crate) cause: Option<Cause>,
    pub(crate) url: &'f str,
    /// Names of its cookies or parameters, or the fields that its answer varies on.
    pub(crate) names: Vec<String>,
    /// The preset for the software of the site, where its answer shows it.
    pub(crate) software: Option<Software>,
    /// The site has a preset.
    pub(crate) preset: bool,
    /// It has a preset or a lifetime of its own.
    pub(crate) settled: bool,
}

/// Software that was recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Software {
    /// As people call it.
    pub(crate) name: &'static str,
    pub(crate) preset: &'static str,
    /// A sentence for software that forbids caches to keep its pages until it is told of one.
    pub(crate) hint: &'static str,
}

/// The causes of all sites.
#[derive(Debug, Default)]
pub(crate) struct Findings(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The beginning of `now`.
    begun: Ms,
    now: BTreeMap<Box<str>, Site>,
    before: BTreeMap<Box<str>, Site>,
    /// Sites of which a line was printed, and whether it named their software.
    told: BTreeMap<Box<str>, bool>,
}

#[derive(Clone, Debug, Default)]
struct Site {
    forwarded: u64,
    software: Option<Software>,
    preset: bool,
    causes: BTreeMap<Cause, Found>,
}

#[derive(Clone, Debug, Default)]
struct Found {
    requests: u64,
    urls: Vec<String>,
    names: Vec<String>,
}

impl Findings {
    /// Notes a request. Returns the line for the terminal, if it is due. Never waits: a request
    /// that finds another thread here is not noted.
    pub(crate) fn note(&self, now: Ms, finding: Finding<'_>) -> Option<String> {
        let mut state = self.0.try_lock()?;
        if now.saturating_sub(state.begun) >= WINDOW {
            // Of the window before, nothing is left if nothing came in this one.
            let recent = now.saturating_sub(state.begun) < 2 * WINDOW;
            let last = std::mem::take(&mut state.now);
            state.before = if recent { last } else { BTreeMap::new() };
            state.begun = now;
        }
        if !state.now.contains_key(finding.site) && state.now.len() >= SITES {
            return None;
        }
        let site = state.now.entry(finding.site.into()).or_default();
        site.forwarded += 1;
        site.software = finding.software.or(site.software);
        site.preset = finding.preset;
        let found = site.causes.entry(finding.cause?).or_default();
        found.requests += 1;
        add(&mut found.urls, finding.url);
        finding.names.iter().for_each(|name| add(&mut found.names, name));
        let requests = found.requests;
        let due = match finding.cause? {
            Cause::NoFreshness => requests >= TELL_AFTER && !finding.settled,
            Cause::Private | Cause::NoStore if site.software.is_some_and(|one| one.forbids()) => {
                if finding.preset {
                    // Software that is told of its cache has some private pages as well.
                    site.forwarded >= ENOUGH && requests * 2 >= site.forwarded
                } else {
                    requests >= TELL_AFTER && !finding.settled
                }
            }
            _ => false,
        };
        let named = site.software.is_some();
        // Told once more when the software shows later: the first line could not name its preset.
        if !due || state.told.get(finding.site).is_some_and(|before| *before || !named) {
            return None;
        }
        let site = state.now.get(finding.site)?.clone();
        state.told.insert(finding.site.into(), named);
        Some(line(finding.site, &site, finding.cause?, finding.url))
    }

    /// Whether the software of this site is not known yet, and may show. Never waits: false where
    /// another thread is here.
    pub(crate) fn is_unknown(&self, site: &str) -> bool {
        let Some(state) = self.0.try_lock() else { return false };
        let known = |sites: &BTreeMap<Box<str>, Site>| {
            sites.get(site).is_some_and(|site| site.software.is_some() || site.forwarded >= LOOKS)
        };
        let before = state.before.get(site);
        !known(&state.now) && before.is_none_or(|site| site.software.is_none())
    }

    /// Forgets everything: the settings are others.
    pub(crate) fn forget(&self) {
        *self.0.lock() = State::default();
    }

    /// The advice, the most frequent causes first.
    pub(crate) fn advice(&self) -> Vec<Advice> {
        let state = self.0.lock();
        let mut sites = state.before.clone();
        for (name, site) in &state.now {
            sites.entry(name.clone()).or_default().merge(site);
        }
        drop(state);
        let mut all = Vec::new();
        for (name, site) in sites.iter().filter(|(_, site)| site.forwarded >= ENOUGH) {
            for (cause, found) in &site.causes {
                if found.requests * SHARE >= site.forwarded {
                    all.push(advice(name, site, *cause, found));
                }
            }
        }
        all.sort_by_key(|advice| std::cmp::Reverse(advice.requests));
        all
    }
}

impl Site {
    fn merge(&mut self, other: &Site) {
        self.forwarded += other.forwarded;
        self.software = other.software.or(self.software);
        self.preset |= other.preset;
        for (cause, found) in &other.causes {
            let sum = self.causes.entry(*cause).or_default();
            sum.requests += found.requests;
            found.urls.iter().for_each(|url| add(&mut sum.urls, url));
            found.names.iter().for_each(|name| add(&mut sum.names, name));
        }
    }
}

/// Adds an example, cut to its longest.
fn add(list: &mut Vec<String>, text: &str) {
    let text = cut(text);
    if list.len() < EXAMPLES && !list.iter().any(|known| known == text) {
        list.push(text.to_owned());
    }
}

/// The beginning of a text, of whole characters.
fn cut(text: &str) -> &str {
    let mut end = text.len().min(EXAMPLE_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The line for pages that are not kept, for want of a lifetime or because the software says so.
fn line(name: &str, site: &Site, cause: Cause, url: &str) -> String {
    let url = cut(url);
    let why = match cause {
        Cause::Private => "the site says that it is private",
        Cause::NoStore => "the site says that it must not be kept (no-store)",
        _ => "the site gives it no lifetime (Cache-Control, Expires or Last-Modified)",
    };
    if let Some(software) = site.software.filter(|_| site.preset) {
        return format!("larder: site {name}: {url} is not kept, {why}. {}", software.hint);
    }
    let (looks, preset) = match site.software {
        Some(software) => {
            let hint = if cause == Cause::NoFreshness { "" } else { software.hint };
            let space = if hint.is_empty() { "" } else { " " };
            (format!("It looks like {}.{space}{hint} Set ", software.name), software.preset)
        }
        None => (
            "If visitors without cookies may share them for a minute: ".to_owned(),
            Software::UNKNOWN.preset,
        ),
    };
    format!(
        "larder: site {name}: {url} is not kept, {why}. {looks}`--preset {preset}`, or in its \
         [[site]]: preset = \"{preset}\""
    )
}

impl Software {
    const UNKNOWN: Software = Software { name: "", preset: "anonymous", hint: "" };

    /// Whether it forbids caches to keep any page until it is told of one.
    fn forbids(&self) -> bool {
        !self.hint.is_empty()
    }
}

fn advice(name: &str, site: &Site, cause: Cause, found: &Found) -> Advice {
    let (text, setting) = words(site, cause, found);
    Advice {
        site: name.to_owned(),
        reason: cause.word().to_owned(),
        requests: found.requests,
        of: site.forwarded,
        text,
        setting,
        urls: found.urls.clone(),
    }
}

/// The observation, and the setting that mends it.
fn words(site: &Site, cause: Cause, found: &Found) -> (String, String) {
    let names = found.names.join(", ");
    let list = |names: &[String]| {
        names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
    };
    match cause {
        Cause::NoFreshness => {
            let software = site.software.unwrap_or(Software::UNKNOWN);
            let looks = match software.name {
                "" => String::new(),
                name => format!(" It looks like {name}, and there is a preset for it."),
            };
            (
                format!("The site gives these pages no lifetime, so they are not kept.{looks}"),
                format!("preset = \"{}\"", software.preset),
            )
        }
        Cause::Cookie => (
            format!(
                "The requests have cookies ({names}), and the site gives these pages no lifetime \
                 of its own, so they are for visitors without cookies. Ignore the cookies that \
                 change no page."
            ),
            format!("ignore_cookies = [{}]", list(&found.names)),
        ),
        Cause::BypassCookie => (
            format!(
                "The requests have cookies of bypass_cookies ({names}). That is right for \
                 visitors who are logged in; a cookie that every visitor has belongs to those \
                 that are ignored."
            ),
            format!("ignore_cookies = [{}]", list(&found.names)),
        ),
        Cause::SetCookie => (
            "These answers set a cookie, which would be everybody's if they were kept. The site \
             should set it only where it is needed, or say Cache-Control: no-cache=\"set-cookie\"."
                .to_owned(),
            String::new(),
        ),
        Cause::Private => forbidden(site, "are private", found),
        Cause::NoStore => forbidden(site, "must not be kept (no-store)", found),
        Cause::Vary => vary(&names),
        Cause::Query => (
            format!(
                "The URLs differ in parameters of campaigns ({names}), which change no page and \
                 make a copy each."
            ),
            format!("drop_query = [{}]", list(&TRACKERS.map(str::to_owned))),
        ),
    }
}

/// Of answers that the site forbids to keep. `is`: in which words.
fn forbidden(site: &Site, is: &str, found: &Found) -> (String, String) {
    let text = format!("The site says that these answers {is}.");
    match site.software {
        Some(software) if site.preset && software.forbids() => {
            (format!("{text} {}", software.hint), String::new())
        }
        Some(software) if !site.preset => {
            let Software { name, preset, hint } = software;
            let space = if hint.is_empty() { "" } else { " " };
            let text =
                format!("{text} It looks like {name}, and there is a preset for it.{space}{hint}");
            (text, format!("preset = \"{preset}\""))
        }
        _ => {
            let same = "If they are the same for everyone, a rule for their paths can keep them.";
            (format!("{text} {same}"), rule(found))
        }
    }
}

fn vary(names: &str) -> (String, String) {
    let text = format!(
        "The pages are stored, but for requests with other fields: the site varies on {names}."
    );
    let lower = names.to_ascii_lowercase();
    let setting = if lower.contains("cookie") {
        "vary_cookies = []  # or the names of the cookies that change a page"
    } else {
        "response_fields = [\"Vary: Accept-Encoding\"]  # where the pages do not differ"
    };
    (text, setting.to_owned())
}

/// A rule for the path of the first URL.
fn rule(found: &Found) -> String {
    let url = found.urls.first().map_or("", String::as_str);
    let path = url.split_once("://").and_then(|(_, rest)| rest.find('/').map(|at| &rest[at..]));
    let path = path.unwrap_or("/").split('?').next().unwrap_or("/");
    format!("[[site.rule]] path = {path:?}, cache = true, ttl = \"60s\"")
}

/// Parameters by which campaigns and networks mark their links.
const TRACKERS: [&str; 8] =
    ["utm_*", "fbclid", "gclid", "gbraid", "wbraid", "msclkid", "mc_cid", "mc_eid"];

/// The names of such parameters in a query.
pub(crate) fn trackers(target: &str) -> Vec<String> {
    let Some((_, query)) = target.split_once('?') else { return Vec::new() };
    let names = query.split('&').map(|pair| pair.split('=').next().unwrap_or_default());
    let known = |name: &&str| {
        TRACKERS.iter().any(|tracker| match tracker.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == tracker,
        })
    };
    names.filter(known).take(EXAMPLES).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDPRESS: Software = Software { name: "WordPress", preset: "wordpress", hint: "" };

    fn finding(cause: Option<Cause>, url: &str) -> Finding<'_> {
        let (site, software) = ("a.org", Some(WORDPRESS));
        let names = vec!["sid".to_owned()];
        Finding { site, cause, url, names, software, preset: false, settled: false }
    }

    #[test]
    fn a_line_is_printed_once_and_names_the_preset() {
        let findings = Findings::default();
        let note = |url| findings.note(1, finding(Some(Cause::NoFreshness), url));
        assert_eq!(note("http://a.org/"), None);
        let line = note("http://a.org/x").expect("the second one");
        assert!(line.contains("WordPress") && line.contains("--preset wordpress"), "{line}");
        assert_eq!(note("http://a.org/y"), None);
        let settled = Finding { settled: true, ..finding(Some(Cause::NoFreshness), "http://b/") };
        let other = Findings::default();
        assert_eq!(other.note(1, settled), None);
    }

    #[test]
    fn software_that_shows_later_is_told_once_more() {
        let findings = Findings::default();
        let with = |software| {
            let cause = Some(Cause::NoFreshness);
            findings.note(1, Finding { software, ..finding(cause, "http://a.org/") })
        };
        assert_eq!(with(None), None);
        let line = with(None).expect("the second one");
        assert!(line.contains("--preset anonymous"), "{line}");
        assert_eq!(with(None), None);
        let line = with(Some(WORDPRESS)).expect("a better one");
        assert!(line.contains("--preset wordpress"), "{line}");
        assert_eq!(with(Some(WORDPRESS)), None);
    }

    #[test]
    fn software_that_forbids_caches_despite_its_preset_is_told_of() {
        let hint = "Set its switch.";
        let software = Some(Software { hint, ..WORDPRESS });
        let with = |findings: &Findings, cause| {
            let finding = finding(cause, "http://a.org/");
            findings.note(1, Finding { software, preset: true, settled: true, ..finding })
        };
        let all = Findings::default();
        for _ in 1..ENOUGH {
            assert_eq!(with(&all, Some(Cause::Private)), None);
        }
        let line = with(&all, Some(Cause::Private)).expect("a line");
        assert!(line.ends_with(hint) && !line.contains("--preset"), "{line}");
        assert_eq!(with(&all, Some(Cause::Private)), None);
        let few = Findings::default();
        for _ in 0..ENOUGH {
            assert_eq!(with(&few, None), None);
            assert_eq!(with(&few, None), None);
            assert_eq!(with(&few, Some(Cause::Private)), None, "some pages are private");
        }
    }

    #[test]
    fn advice_is_of_causes_with_a_share_and_of_the_last_minutes() {
        let findings = Findings::default();
        for n in 0..9 {
            findings.note(1, finding(Some(Cause::Cookie), &format!("http://a.org/{n}")));
        }
        assert_eq!(findings.advice(), Vec::new(), "nine requests say nothing yet");
        findings.note(1, finding(Some(Cause::SetCookie), "http://a.org/"));
        let advice = findings.advice();
        assert_eq!(advice.len(), 2, "{advice:?}");
        assert_eq!(
            (advice[0].reason.as_str(), advice[0].requests, advice[0].of),
            ("cookie", 9, 10)
        );
        assert_eq!(advice[0].setting, "ignore_cookies = [\"sid\"]");
        assert_eq!(advice[0].urls.len(), EXAMPLES);
        for _ in 0..100 {
            findings.note(2, finding(None, "http://a.org/"));
        }
        assert!(findings.advice().is_empty(), "less than a tenth each");
        findings.note(2 * WINDOW + 2, finding(None, "http://a.org/"));
        for _ in 0..10 {
            findings.note(2 * WINDOW + 2, finding(Some(Cause::Query), "http://a.org/?utm_a=1"));
        }
        assert_eq!(findings.advice().len(), 1);
        findings.forget();
        assert!(findings.advice().is_empty());
    }

    #[test]
    fn software_is_looked_for_until_it_is_known() {
        let findings = Findings::default();
        assert!(findings.is_unknown("a.org"));
        let unknown = || Finding { software: None, ..finding(None, "http://a.org/") };
        for _ in 1..LOOKS {
            findings.note(1, unknown());
        }
        assert!(findings.is_unknown("a.org"));
        findings.note(1, unknown());
        assert!(!findings.is_unknown("a.org"));
        // Once more in each window; what is known is known for one window more.
        findings.note(1 + WINDOW, unknown());
        assert!(findings.is_unknown("a.org"));
        findings.note(1 + WINDOW, finding(None, "http://a.org/"));
        assert!(!findings.is_unknown("a.org"));
        findings.note(1 + 2 * WINDOW, unknown());
        assert!(!findings.is_unknown("a.org"));
    }

    #[test]
    fn parameters_of_campaigns_are_known() {
        assert_eq!(trackers("/a?page=1&utm_source=x&fbclid=1"), ["utm_source", "fbclid"]);
        assert!(trackers("/a?fbclids=1").is_empty() && trackers("/a").is_empty());
    }
}
