//! `larder serve` alone runs WordPress: the example of docs/operations.md. Larder starts PHP, serves
//! the files and keeps the pages; MariaDB alone stands beside it.

// A harness reports by panicking.
#![allow(clippy::unwrap_used)]

use larder_tests::databases::{mariadb, mariadb_client, must};
use larder_tests::helper::{free_port, source_root};
use larder_tests::{Answer, Larder, Scratch, Started, Visitor};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Where Debian has WordPress.
const INSTALLED: &str = "/usr/share/wordpress";

const PASSWORD: &str = "larder-test-pass";

/// A blog, served by Larder.
struct Blog {
    larder: Larder,
    host: String,
    site: Scratch,
    database: Started,
}

impl Blog {
    #[track_caller]
    fn install() -> Blog {
        let database = mariadb();
        must(mariadb_client(database.port()).args(["-e", "CREATE DATABASE blog"]));
        let site = Scratch::new("wordpress");
        copy(site.path(), database.port());
        let port = free_port();
        let host = format!("127.0.0.1:{port}");
        let larder = Larder::with_config(&config(site.path(), port));
        let blog = Blog { larder, host, site, database };
        let installed = blog.visitor().post(
            "/wp-admin/install.php?step=2",
            &[
                ("weblog_title", "Larder's blog"),
                ("user_name", "admin"),
                ("admin_password", PASSWORD),
                ("admin_password2", PASSWORD),
                ("pw_weak", "1"),
                ("admin_email", "admin@blog.test"),
                ("blog_public", "1"),
            ],
        );
        assert!(installed.text().contains("Success!"), "{}", said(&installed));
        blog
    }

    /// Somebody without any cookie.
    fn visitor(&self) -> Visitor {
        Visitor::of(self.larder.addr(), &self.host)
    }

    /// Somebody who has logged in.
    #[track_caller]
    fn administrator(&self) -> Visitor {
        let mut admin = self.visitor().with_cookie("wordpress_test_cookie", "WP%20Cookie%20check");
        let form = [("log", "admin"), ("pwd", PASSWORD), ("testcookie", "1")];
        let answer = admin.post("/wp-login.php", &form);
        answer.assert_status(302);
        assert!(admin.cookies().keys().any(|name| name.starts_with("wordpress_logged_in_")));
        admin
    }

    /// The path of a URL of the blog.
    fn path<'u>(&self, url: &'u str) -> &'u str {
        let rest = url.strip_prefix("http://").and_then(|rest| rest.strip_prefix(&self.host));
        rest.unwrap_or_else(|| panic!("{url} is not of this blog"))
    }
}

/// WordPress with a theme, the plugin that purges, and its configuration.
fn copy(site: &Path, database: u16) {
    // Links of Debian's package lead elsewhere.
    let source = format!("{INSTALLED}/.");
    must(Command::new("cp").args(["-rL", "--no-preserve=all", &source]).arg(site));
    let content = site.join("wp-content");
    fs::create_dir_all(content.join("mu-plugins")).unwrap();
    fs::create_dir_all(content.join("uploads")).unwrap();
    let plugin = source_root().join("contrib/wordpress/larder-purge.php");
    fs::copy(plugin, content.join("mu-plugins/larder-purge.php")).unwrap();
    let config = format!(
        "<?php\ndefine('DB_NAME', 'blog');\ndefine('DB_USER', 'root');\ndefine('DB_PASSWORD', \
         '');\ndefine('DB_HOST', '127.0.0.1:{database}');\ndefine('AUTH_KEY', 'a');\n\
         define('WP_DEFAULT_THEME', 'twentytwentyone');\ndefine('DISABLE_WP_CRON', true);\n\
         define('WP_HTTP_BLOCK_EXTERNAL', true);\n$table_prefix = 'wp_';\n\
         if (!defined('ABSPATH')) define('ABSPATH', __DIR__ . '/');\n\
         require_once ABSPATH . 'wp-settings.php';\n"
    );
    fs::write(site.join("wp-config.php"), config).unwrap();
    fs::write(content.join("uploads/evil.php"), "<?php echo 6 * 7;").unwrap();
    fs::write(content.join("uploads/a.txt"), "0123456789").unwrap();
}

/// The example of docs/operations.md, with a port and directories of the test's own.
fn config(site: &Path, port: u16) -> String {
    let document = fs::read_to_string(source_root().join("docs/operations.md")).unwrap();
    let (_, rest) = document.split_once("## Run WordPress by Larder alone").unwrap();
    let (_, rest) = rest.split_once("```toml\n").unwrap();
    let mut example = rest.split_once("```").unwrap().0.to_owned();
    for (word, by) in [
        ("0.0.0.0:80\"", format!("127.0.0.1:{port}\"")),
        ("blog.example.org", "127.0.0.1".to_owned()),
        ("/srv/wordpress", site.display().to_string()),
        ("http://127.0.0.1\"", format!("http://127.0.0.1:{port}\"")),
        // The tests' user may not become another one.
        ("user = \"www-data\"\n", String::new()),
    ] {
        assert!(example.contains(word), "the example has no {word}");
        example = example.replace(word, &by);
    }
    example
}

/// What an answer shows, for a failed test.
fn said(answer: &Answer) -> String {
    let text = String::from_utf8_lossy(&answer.body);
    format!("{:?}\n{}", answer.fields, text.chars().take(2000).collect::<String>())
}

/// The text between two others.
#[track_caller]
fn between<'t>(text: &'t str, begin: &str, end: &str) -> &'t str {
    let found = text.split_once(begin).and_then(|(_, rest)| rest.split_once(end));
    found.unwrap_or_else(|| panic!("no {begin:?} in {text}")).0
}

#[test]
fn a_blog_by_larder_alone() {
    let blog = Blog::install();
    let post = pages_come_from_memory(&blog);
    files_are_files(&blog);
    a_logged_in_user_stays_apart(&blog, &post);
    a_comment_appears_when_it_is_approved(&blog, &post);
    the_menu_of_a_user_is_a_part(&blog, &post);
    pages_outlive_their_programs(&blog, &post);
}

/// The result is the path of a post.
fn pages_come_from_memory(blog: &Blog) -> String {
    let first = blog.visitor().view("/");
    first.assert_status(200).assert_forwarded();
    assert!(first.text().contains("Hello world!"), "{}", said(&first));
    let second = blog.visitor().view("/");
    second.assert_hit();
    assert_eq!(second.body, first.body);
    let heading = between(first.text(), "entry-title", "</h2>");
    let post = blog.path(between(heading, "href=\"", "\"")).to_owned();
    // WordPress has asked itself through Larder whether such paths work.
    assert!(post.ends_with("/hello-world/") && !post.contains("index.php"), "{post}");
    blog.visitor().view(&post).assert_hit();
    blog.visitor().view(&format!("{post}?utm_source=x")).assert_hit();
    blog.visitor().view("/no-such-post/").assert_status(404);
    post
}

fn files_are_files(blog: &Blog) {
    let mut visitor = blog.visitor();
    let style = visitor.view("/wp-includes/css/dist/block-library/style.min.css");
    style.assert_status(200);
    assert_eq!(style.get("content-type"), Some("text/css"));
    let part = visitor.view_with("/wp-content/uploads/a.txt", &["Range: bytes=2-4"]);
    assert_eq!((part.status, part.text()), (206, "234"));
    // A script among the uploads is a file like any other; one elsewhere is never shown.
    assert_eq!(visitor.view("/wp-content/uploads/evil.php").text(), "<?php echo 6 * 7;");
    for script in ["/wp-config.php", "/wp-includes/version.php", "/wp-load.php"] {
        assert_eq!(visitor.view(script).text(), "", "{script}");
    }
    assert!(blog.site.file("wp-config.php").exists());
}

fn a_logged_in_user_stays_apart(blog: &Blog, post: &str) {
    let mut admin = blog.administrator();
    let page = admin.view(post);
    page.assert_status(200).assert_forwarded();
    assert!(page.text().contains("admin-bar") && page.text().contains("Log out"));
    let other = blog.visitor().view(post);
    other.assert_hit();
    assert!(!other.text().contains("Log out"));
    assert!(admin.view("/wp-admin/").text().contains("Dashboard"));
    blog.visitor().view("/wp-admin/").assert_status(302);
}

fn a_comment_appears_when_it_is_approved(blog: &Blog, post: &str) {
    let page = blog.visitor().view(post);
    let id = between(page.text(), "name='comment_post_ID' value='", "'").to_owned();
    let mut reader = blog.visitor();
    let form = [
        ("comment", "A word from a reader"),
        ("author", "Reader"),
        ("email", "reader@blog.test"),
        ("comment_post_ID", &id),
        ("comment_parent", "0"),
        ("wp-comment-cookies-consent", "yes"),
    ];
    reader.post("/wp-comments-post.php", &form).assert_status(302);
    // It waits for approval: its writer sees it, by a cookie, and nobody else.
    assert!(reader.view(post).text().contains("A word from a reader"));
    let unchanged = blog.visitor().view(post);
    assert!(!unchanged.text().contains("A word from a reader"));
    blog.visitor().view(post).assert_hit();
    let mut admin = blog.administrator();
    let list = admin.view("/wp-admin/edit-comments.php?comment_status=moderated");
    let approve = between(list.text(), "<span class='approve'><a href=\"", "\"");
    let approve = approve.replace("&amp;", "&").replace("&#038;", "&");
    assert!(approve.contains("action=approvecomment"), "{approve}");
    admin.view(&format!("/wp-admin/{approve}")).assert_status(302);
    // The plugin has purged the page; nothing else says that it has changed.
    let now = blog.visitor().view(post);
    assert!(now.text().contains("A word from a reader"), "{}", blog.larder.stderr());
    blog.visitor().view(post).assert_hit();
    assert!(!blog.larder.stderr().contains("PURGE"), "{}", blog.larder.stderr());
}

/// The text of the first block in a language behind some words of docs/operations.md.
fn example(behind: &str, language: &str) -> String {
    let document = fs::read_to_string(source_root().join("docs/operations.md")).unwrap();
    let (_, rest) = document.split_once(behind).unwrap();
    let (_, rest) = rest.split_once(&format!("```{language}\n")).unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

/// Readers who are logged in get the page of all with their own menu in it: a second Larder for the
/// blog, with the lines and the plugin of docs/operations.md.
fn the_menu_of_a_user_is_a_part(blog: &Blog, post: &str) {
    let lines = example("by mistake:\n", "toml");
    let (site, rule) = lines.split_once("[[site.rule]]").unwrap();
    let site = site.split_once("preset = \"mediawiki\"\n").unwrap().1;
    let preset = "preset = \"wordpress\"\n";
    let config = config(blog.site.path(), free_port());
    let config = config.replace(preset, &format!("{preset}{site}"));
    let larder = Larder::with_config(&format!("{config}\n[[site.rule]]{rule}"));
    let plugin = blog.site.path().join("wp-content/mu-plugins/user-menu.php");
    fs::write(&plugin, example("mu-plugins/user-menu.php`:\n", "php")).unwrap();
    let visitor = || Visitor::of(larder.addr(), &blog.host);
    let cookies = blog.administrator().cookies().clone();
    let user =
        || cookies.iter().fold(visitor(), |user, (name, value)| user.with_cookie(name, value));
    let menu = |page: &Answer| page.text().contains("Hello, admin. ");
    let first = visitor().view(post);
    first.assert_status(200).assert_forwarded();
    assert!(first.text().contains(">Log in</a>") && !menu(&first), "{}", said(&first));
    for (mut reader, logged_in) in [(user(), true), (visitor(), false), (user(), true)] {
        let page = reader.view(post);
        // The page was in memory, its part was not: it never is.
        assert!(page.cache_status_has("fwd=partial"), "{}", said(&page));
        assert!(page.cache_status_has("detail=esi"), "{}", said(&page));
        assert_eq!(page.get("cache-control"), Some("private, no-cache"));
        let text = page.text();
        assert_eq!((menu(&page), text.contains(">Log out</a>")), (logged_in, logged_in), "{text}");
        assert!(!text.contains("esi:include") && !text.contains("wpadminbar"), "{text}");
    }
    // A page that is not there has the menu too; users work as before.
    let missing = user().view("/no-such-post/");
    assert!(missing.status == 404 && menu(&missing), "{}", said(&missing));
    assert!(user().view("/wp-admin/").text().contains("Dashboard"));
    fs::remove_file(plugin).unwrap();
}

fn pages_outlive_their_programs(blog: &Blog, post: &str) {
    let pid = rustix::process::Pid::from_raw(blog.database.pid().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    blog.visitor().view(post).assert_hit();
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
}
