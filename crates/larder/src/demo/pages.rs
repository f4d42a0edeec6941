//! The sample site's pages. They work without script; with it, a banner shows the source and the
//! time of the page.

use std::{fmt::Write as _, time::Duration};

use super::articles::{ARTICLES, Article};

/// One rendering of one page.
pub(super) struct Render {
    /// Counted over all pages.
    pub(super) number: u64,
    /// Its duration.
    pub(super) took: Duration,
    /// Its time, in milliseconds since 1970.
    pub(super) at: u64,
}

impl Render {
    fn clock(&self) -> String {
        let seconds = self.at / 1000;
        format!("{:02}:{:02}:{:02}", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60)
    }
}

/// Text in HTML.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}

/// `again`: whether the script may ask for the page's headers once more.
fn page(render: &Render, title: &str, again: bool, main: &str) -> String {
    let ms = render.took.as_millis();
    format!(
        r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} · The Pantry</title>
<link rel="icon" href="/favicon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/style.css">
<script src="/probe.js" defer></script>
</head>
<body>
<section class="banner" id="banner" data-render-ms="{ms}" data-rendered-at="{at}" data-again="{again}" aria-live="polite">
<p class="verdict" id="verdict">Rendered by the origin in {ms} ms at {clock} UTC</p>
<p class="detail">render no. {number}, {ms} ms of work, {clock} UTC</p>
<dl id="headers" hidden></dl>
</section>
<header>
<a class="name" href="/">The Pantry</a>
<nav><a href="/">Articles</a> <a href="/flaky">Flaky</a> <a href="/live">Live</a> <a href="/me">Profile</a></nav>
</header>
<main>
{main}
</main>
<footer><p>The sample site of <b>Larder</b>. Every page here takes its origin {ms} ms to make. Reload it.</p></footer>
</body>
</html>
"#,
        at = render.at,
        clock = render.clock(),
        number = render.number,
    )
}

/// `/`
pub(super) fn list(render: &Render) -> String {
    let mut main = String::from(
        "<h1>Things that keep</h1>\n<p class=\"lead\">Twenty short articles from a slow site. \
         Open one, reload it, and watch the banner: the first reader waits, the next ones do \
         not.</p>\n<ul class=\"cards\">\n",
    );
    for article in ARTICLES {
        // Writing to a String cannot fail.
        let _ = writeln!(
            main,
            "<li><a href=\"/article/{}\"><span class=\"sign\" \
             aria-hidden=\"true\">{}</span><b>{}</b><span>{}</span></a></li>",
            article.slug, article.sign, article.title, article.lead
        );
    }
    main.push_str(
        "</ul>\n<p class=\"note\">This list is fresh for 5 seconds. After that it is still served \
         at once, while Larder fetches it anew behind (stale-while-revalidate).</p>",
    );
    page(render, "Articles", true, &main)
}

/// `/article/{slug}`
pub(super) fn article(render: &Render, article: &Article, revision: u32) -> String {
    let mut main = format!(
        "<article>\n<p class=\"sign\" aria-hidden=\"true\">{}</p>\n<h1>{}</h1>\n<p \
         class=\"lead\">{}</p>\n",
        article.sign, article.title, article.lead
    );
    for paragraph in article.text {
        let _ = writeln!(main, "<p>{paragraph}</p>");
    }
    let _ = write!(
        main,
        "</article>\n<form class=\"note\" method=\"post\" \
         action=\"/article/{slug}/edit\">\n<p>Revision {revision}, kept for a minute. An edit \
         makes a new one, and the site tells Larder to purge the page: the next view is new, the \
         one after that from memory again.</p>\n<button>Edit, and purge</button>\n</form>\n<p \
         class=\"note\">By hand: with the <code>larder purge</code> commands that were printed at \
         the start.</p>",
        slug = article.slug,
    );
    page(render, article.title, true, &main)
}

/// `/me`
pub(super) fn me(render: &Render, user: &str) -> String {
    let form = if user.is_empty() {
        "<h1>Who are you?</h1>\n<form method=\"post\" action=\"/login\"><label>Name <input \
         name=\"name\" maxlength=\"30\" autocomplete=\"off\" required></label> <button>Log \
         in</button></form>"
            .to_owned()
    } else {
        format!(
            "<h1>Hello, {}</h1>\n<form method=\"post\" action=\"/logout\"><button>Log \
             out</button></form>",
            escape(user)
        )
    };
    let main = format!(
        "{form}\n<p class=\"note\">This page is marked <code>private</code>: Larder asks the \
         origin every time and keeps nothing of it. It stays slow, and it stays yours.</p>"
    );
    page(render, "Profile", false, &main)
}

/// `/live`
pub(super) fn live(render: &Render) -> String {
    let main = format!(
        "<h1>{} UTC</h1>\n<p class=\"lead\">A page that says <code>no-store</code>.</p>\n<p \
         class=\"note\">It is rendered for every request, and takes its time every time. This is \
         what all of the site would feel like.</p>",
        render.clock()
    );
    page(render, "Live", false, &main)
}

/// `/flaky`, when it works
pub(super) fn flaky(render: &Render) -> String {
    let main = "<h1>The flaky page</h1>\n<p class=\"lead\">Its origin answers 503 every other \
                time. You will not see it.</p>\n<ol><li>This copy is fresh for 5 \
                seconds.</li><li>Reload it after that: the origin fails, and Larder serves this \
                copy instead (stale-if-error). The time in the banner stays the \
                same.</li><li>Reload once more: the origin works again, and the page is \
                new.</li></ol>\n<p class=\"note\">Ask the origin itself, at the address \
                <code>larder demo</code> printed, to see it fail.</p>";
    page(render, "Flaky", true, main)
}

/// `/flaky`, when it does not
pub(super) fn failed(render: &Render) -> String {
    page(
        render,
        "Out of order",
        false,
        "<h1>503</h1>\n<p class=\"lead\">The origin failed, as it does every other time.</p>",
    )
}

/// Everywhere else
pub(super) fn not_found(render: &Render) -> String {
    page(
        render,
        "Not found",
        false,
        "<h1>404</h1>\n<p class=\"lead\">There is no such jar on the shelf. <a href=\"/\">Back to \
         the articles</a></p>",
    )
}
