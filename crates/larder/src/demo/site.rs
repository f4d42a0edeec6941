//! The slow answers of the sample site.

use std::{
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use http_body_util::Full;
use hyper::{Response, body::Bytes};

use super::{
    articles::{ARTICLES, Article},
    pages::{self, Render},
};

/// For shared caches alone (RFC 9213): a short lifetime, then served stale while it is refreshed.
const LIST: &str = "max-age=5, stale-while-revalidate=3600";
/// For shared caches alone: a short lifetime, then served for a day if the origin fails.
const FLAKY: &str = "max-age=5, stale-if-error=86400";
/// The usual header: browsers ask every time, the cache keeps the page for a minute.
const ARTICLE: &str = "public, max-age=0, s-maxage=60";
/// Names longer than this are cut.
const NAME: usize = 40;

/// The used parts of a request.
pub(super) struct SiteRequest<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) cookie: &'a str,
    pub(super) if_none_match: &'a str,
    pub(super) form: &'a str,
}

/// An answer.
#[derive(Debug, Default)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: String,
    /// Paths to purge at the cache before the site.
    pub(super) purge: Vec<String>,
}

impl Reply {
    fn html(status: u16, body: String) -> Reply {
        Reply { status, body, ..Reply::default() }.with("Content-Type", "text/html; charset=utf-8")
    }

    fn with(mut self, name: &'static str, value: impl Into<String>) -> Reply {
        self.headers.push((name, value.into()));
        self
    }

    fn see_other(location: &str) -> Reply {
        Reply { status: 303, ..Reply::default() }
            .with("Location", location)
            .with("Cache-Control", "no-store")
    }

    /// The HTTP response; for HEAD, the length of the body without the body.
    pub(super) fn into_response(self, head: bool) -> Response<Full<Bytes>> {
        let mut builder = Response::builder().status(self.status);
        for (name, value) in &self.headers {
            builder = builder.header(*name, value);
        }
        if head {
            builder = builder.header("Content-Length", self.body.len());
        }
        let body = if head { Bytes::new() } else { Bytes::from(self.body) };
        builder.body(Full::new(body)).unwrap_or_else(|_| {
            let mut failed = Response::new(Full::new(Bytes::new()));
            *failed.status_mut() = hyper::StatusCode::INTERNAL_SERVER_ERROR;
            failed
        })
    }
}

/// The site's state: revisions of its articles, number of renderings.
pub(super) struct Site {
    delay: Duration,
    started: SystemTime,
    revisions: Vec<AtomicU32>,
    renders: AtomicU64,
    flaky: AtomicU64,
}

impl Site {
    pub(super) fn new(delay: Duration) -> Site {
        let revisions = ARTICLES.iter().map(|_| AtomicU32::new(1)).collect();
        Site {
            delay,
            started: SystemTime::now(),
            revisions,
            renders: AtomicU64::new(0),
            flaky: AtomicU64::new(0),
        }
    }

    pub(super) async fn answer(&self, request: &SiteRequest<'_>) -> Reply {
        let reading = matches!(request.method, "GET" | "HEAD");
        match (reading, request.path) {
            (true, "/style.css") => asset("text/css; charset=utf-8", include_str!("style.css")),
            (true, "/probe.js") => {
                asset("text/javascript; charset=utf-8", include_str!("probe.js"))
            }
            (true, "/favicon.svg") => asset("image/svg+xml", include_str!("favicon.svg")),
            (true, _) => self.page(request).await,
            (false, "/login") if request.method == "POST" => log_in(request.form),
            (false, "/logout") if request.method == "POST" => Reply::see_other("/me")
                .with("Set-Cookie", "demo_user=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax"),
            (false, path) if request.method == "POST" => self.edit(path),
            _ => Reply { status: 405, ..Reply::default() }.with("Allow", "GET, HEAD, POST"),
        }
    }

    /// Renders a page slowly.
    async fn page(&self, request: &SiteRequest<'_>) -> Reply {
        let begun = Instant::now();
        tokio::time::sleep(self.delay).await;
        let number = self.renders.fetch_add(1, Ordering::Relaxed) + 1;
        let render = Render { number, took: begun.elapsed(), at: now_ms() };
        match request.path {
            "/" => Reply::html(200, pages::list(&render))
                .with("Cache-Control", "max-age=0")
                .with("CDN-Cache-Control", LIST)
                .with("Surrogate-Key", "articles"),
            "/me" => Reply::html(200, pages::me(&render, &user(request.cookie)))
                .with("Cache-Control", "private, no-store"),
            "/live" => Reply::html(200, pages::live(&render)).with("Cache-Control", "no-store"),
            "/flaky" => self.flaky(request, &render),
            path => match find(path) {
                Some((index, article)) => self.article(request, &render, index, article),
                None => {
                    Reply::html(404, pages::not_found(&render)).with("Cache-Control", "max-age=0")
                }
            },
        }
    }

    fn article(
        &self,
        request: &SiteRequest<'_>,
        render: &Render,
        index: usize,
        article: &Article,
    ) -> Reply {
        let revision = self.revisions[index].load(Ordering::Relaxed);
        // Weak: renderings of one revision differ only in their time.
        let etag = format!("W/\"{}-{revision}\"", article.slug);
        let known = request.if_none_match.split(',').any(|tag| tag.trim() == etag);
        let reply = if known {
            Reply { status: 304, ..Reply::default() }
        } else {
            Reply::html(200, pages::article(render, article, revision))
                .with("Last-Modified", http_date(self.started))
        };
        reply
            .with("ETag", etag)
            .with("Cache-Control", ARTICLE)
            .with("Surrogate-Key", format!("articles article-{}", article.slug))
    }

    /// Every other rendering fails; a HEAD does not count.
    fn flaky(&self, request: &SiteRequest<'_>, render: &Render) -> Reply {
        let count = match request.method {
            "HEAD" => self.flaky.load(Ordering::Relaxed).saturating_sub(1),
            _ => self.flaky.fetch_add(1, Ordering::Relaxed),
        };
        if count % 2 == 1 {
            return Reply::html(503, pages::failed(render)).with("Cache-Control", "no-store");
        }
        Reply::html(200, pages::flaky(render))
            .with("Cache-Control", "max-age=0")
            .with("CDN-Cache-Control", FLAKY)
    }

    /// `POST /article/{slug}/edit`: a new revision, and a purge of the page.
    fn edit(&self, path: &str) -> Reply {
        let Some((index, article)) = path.strip_suffix("/edit").and_then(find) else {
            return Reply { status: 404, ..Reply::default() }.with("Cache-Control", "no-store");
        };
        self.revisions[index].fetch_add(1, Ordering::Relaxed);
        let page = format!("/article/{}", article.slug);
        Reply { purge: vec![page.clone()], ..Reply::see_other(&page) }
    }
}

fn asset(kind: &str, text: &str) -> Reply {
    Reply { status: 200, body: text.to_owned(), ..Reply::default() }
        .with("Content-Type", kind)
        .with("Cache-Control", "public, max-age=60")
}

fn find(path: &str) -> Option<(usize, &'static Article)> {
    let slug = path.strip_prefix("/article/")?;
    ARTICLES.iter().enumerate().find(|(_, article)| article.slug == slug)
}

fn log_in(form: &str) -> Reply {
    let given = form.split('&').find_map(|pair| pair.strip_prefix("name=")).unwrap_or_default();
    // The name as received, percent-encoded; other characters are removed, so that it is safe in a
    // cookie.
    let name: String = given
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || "%+-_.".contains(*c))
        .take(NAME)
        .collect();
    let name = if name.is_empty() { "guest".to_owned() } else { name };
    Reply::see_other("/me").with(
        "Set-Cookie",
        format!("demo_user={name}; Path=/; Max-Age=3600; HttpOnly; SameSite=Lax"),
    )
}

/// The name in the cookie, decoded; empty: no user is logged in.
fn user(cookie: &str) -> String {
    let value = cookie
        .split(';')
        .find_map(|pair| pair.trim().strip_prefix("demo_user="))
        .unwrap_or_default();
    let mut bytes = Vec::new();
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let mut digit = || rest.next().and_then(|b| char::from(b).to_digit(16));
                if let (Some(high), Some(low)) = (digit(), digit()) {
                    bytes.push((high * 16 + low) as u8);
                }
            }
            _ => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(0)
}

/// IMF-fixdate (RFC 9110 section 5.6.7).
fn http_date(time: SystemTime) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let days = seconds / 86_400;
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let weekday = DAYS[(days % 7) as usize];
    format!(
        "{weekday}, {day:02} {} {year} {hour:02}:{minute:02}:{second:02} GMT",
        MONTHS[month - 1]
    )
}

/// Year, month (from 1) and day of a number of days since 1970-01-01.
fn civil(mut days: u64) -> (u64, usize, u64) {
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request<'a>(method: &'a str, path: &'a str) -> SiteRequest<'a> {
        SiteRequest { method, path, cookie: "", if_none_match: "", form: "" }
    }

    fn ask(site: &Site, request: &SiteRequest<'_>) -> Reply {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(site.answer(request))
    }

    fn header<'a>(reply: &'a Reply, name: &str) -> Option<&'a str> {
        reply.headers.iter().find(|(held, _)| *held == name).map(|(_, value)| value.as_str())
    }

    #[test]
    fn dates() {
        let at = |seconds| http_date(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(at(951_782_400), "Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(at(0), "Thu, 01 Jan 1970 00:00:00 GMT");
    }

    #[test]
    fn an_edit_makes_a_new_revision_and_purges() {
        let site = Site::new(Duration::ZERO);
        let path = format!("/article/{}", ARTICLES[0].slug);
        let before = ask(&site, &request("GET", &path));
        let etag = header(&before, "ETag").expect("an ETag").to_owned();
        let again = ask(&site, &SiteRequest { if_none_match: &etag, ..request("GET", &path) });
        assert_eq!(again.status, 304);
        let edit = ask(&site, &request("POST", &format!("{path}/edit")));
        assert_eq!((edit.status, edit.purge), (303, vec![path.clone()]));
        let after = ask(&site, &SiteRequest { if_none_match: &etag, ..request("GET", &path) });
        assert_eq!(after.status, 200);
    }

    #[test]
    fn every_other_render_of_the_flaky_page_fails_and_a_look_does_not_count() {
        let site = Site::new(Duration::ZERO);
        let status = |method| ask(&site, &request(method, "/flaky")).status;
        let seen = ["GET", "HEAD", "HEAD", "GET", "HEAD", "GET"].map(status);
        assert_eq!(seen, [200, 200, 200, 503, 503, 200]);
    }

    #[test]
    fn the_profile_is_private_and_shows_no_markup_of_its_visitor() {
        let site = Site::new(Duration::ZERO);
        let login =
            ask(&site, &SiteRequest { form: "name=%3Cb%3EAnna%3B", ..request("POST", "/login") });
        let cookie = header(&login, "Set-Cookie")
            .expect("a cookie")
            .split(';')
            .next()
            .expect("a pair")
            .to_owned();
        let page = ask(&site, &SiteRequest { cookie: &cookie, ..request("GET", "/me") });
        assert_eq!(header(&page, "Cache-Control"), Some("private, no-store"));
        assert!(page.body.contains("&lt;b&gt;Anna;"), "{}", page.body);
        assert!(!page.body.contains("<b>Anna"));
    }

    #[test]
    fn every_article_has_its_page() {
        let site = Site::new(Duration::ZERO);
        for article in ARTICLES {
            let page = ask(&site, &request("GET", &format!("/article/{}", article.slug)));
            assert_eq!(page.status, 200);
            assert!(page.body.contains(article.title));
        }
        assert_eq!(ask(&site, &request("GET", "/article/none")).status, 404);
        assert_eq!(ask(&site, &request("DELETE", "/")).status, 405);
    }
}
