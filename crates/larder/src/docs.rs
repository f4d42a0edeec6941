//! docs/configuration.md, from the table of options (`larder docs configuration`), and
//! docs/metrics.md from the tables of figures (`larder docs metrics`).

use std::{fmt::Write as _, process::ExitCode};

use crate::{
    cli::DocsPage,
    config::{
        item,
        options::{Kind, Opt, Section},
        presets,
    },
    exit,
};

/// Writes a page to standard output.
pub(crate) fn run(page: DocsPage) -> ExitCode {
    match page {
        DocsPage::Configuration => print!("{}", configuration()),
        DocsPage::Metrics => print!("{}", larder_metrics::docs()),
    }
    exit::DONE
}

const INTRODUCTION: &str = include_str!("docs/introduction.md");

/// The whole page.
pub(crate) fn configuration() -> String {
    let mut out = INTRODUCTION.to_owned();
    for section in Section::DOCUMENTED {
        // Writing to a String cannot fail.
        let _ = write!(out, "\n## {}\n\n{}\n\n", heading(section), wrapped(about(section)));
        out.push_str("| key | value | default | |\n|---|---|---|---|\n");
        for opt in section.options().filter(|opt| !is_shared(section, opt)) {
            let _ = writeln!(
                out,
                "| `{}` | {} | {} | {} |",
                opt.name,
                value(opt),
                default(opt),
                opt.help.replace('|', "\\|")
            );
        }
    }
    out.push_str(
        "\n## What becomes of requests\n\nIn a `[[site]]` for all of its requests, in a \
         `[[site.rule]]` for those to which it applies.\n\n",
    );
    out.push_str("| key | value | default | |\n|---|---|---|---|\n");
    for opt in Section::Rule.options().filter(|opt| is_shared(Section::Rule, opt)) {
        let _ = writeln!(
            out,
            "| `{}` | {} | {} | {} |",
            opt.name,
            value(opt),
            default(opt),
            opt.help.replace('|', "\\|")
        );
    }
    out.push_str("\n## Presets\n\n");
    out.push_str(&wrapped(
        "The settings of `preset = \"...\"`. A key of the site overrides the preset's; rules of \
         the site come before the preset's rules.",
    ));
    out.push_str("\n\n");
    let _ = write!(out, "```toml\n{}```\n", presets::TEXT);
    out
}

/// Options that sites and rules have in common are shown once.
fn is_shared(section: Section, opt: &Opt) -> bool {
    let both = Section::Site.option(opt.name).is_some() && Section::Rule.option(opt.name).is_some();
    both && matches!(section, Section::Site | Section::Rule)
}

/// A paragraph in lines of at most 100 columns, as all documents have.
fn wrapped(text: &str) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split(' ') {
        let width = word.chars().count();
        if column > 0 && column + 1 + width > 100 {
            out.push('\n');
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += width;
    }
    out
}

fn heading(section: Section) -> &'static str {
    match section {
        Section::Root => "Top level",
        Section::Http => "`[http]`",
        Section::AccessLog => "`access_log` of `[http]`",
        Section::Limits => "`[http.limits]`",
        Section::Https => "`[https]`",
        Section::Certificate => "`certificates` of `[https]`",
        Section::Acme => "`[acme]`",
        Section::Memcached => "`[memcached]`",
        Section::Redis => "`[redis]`",
        Section::FaceTls => "`[memcached.tls]`, `[redis.tls]`, `[admin.tls]`",
        Section::Admin => "`[admin]`",
        Section::Disk => "`[disk]`",
        Section::Remote => "`[remote]`",
        Section::Peer => "`[[peer]]`",
        Section::Icp => "`[icp]`",
        Section::Htcp => "`[htcp]`",
        Section::Publish => "`[publish]`",
        Section::Queue => "`[queue]`",
        Section::QueueNamed => "`[[queue.named]]`",
        Section::Debug => "`debug` of a site",
        Section::Dictionary => "`dictionary` of a site",
        Section::Tracing => "`[tracing]`",
        Section::App => "Applications: `[[app]]`",
        Section::AppLimits => "`limits` of `[[app]]`",
        Section::Site => "`[[site]]`",
        Section::Origin => "`origin` of a site",
        Section::Health => "`health` of an origin",
        Section::Purge => "`purge` of a site",
        Section::Rule => "Rules: `[[site.rule]]`",
        Section::Refresh => "`refresh` of a site or rule",
        Section::Preset => "Presets",
    }
}

fn about(section: Section) -> &'static str {
    match section {
        Section::Root => "Before the first `[header]` of the file.",
        Section::Http => "Listeners, and settings for all sites.",
        Section::AccessLog => {
            "`access_log = \"access.log\"`, or `access_log = { path = \"access.log\", format = \
             \"json\" }`. Lines are written off the hot path; when the disk is too slow they are \
             dropped and counted, and no request waits for it."
        }
        Section::Https => {
            "The pages over TLS. `larder serve --https 127.0.0.1:8443 --cert site.pem --key \
             site.key` needs no file. Where it is set and `http.listen` is not, plain HTTP is not \
             served."
        }
        Section::Certificate => {
            "`certificates = [{ cert = \"site.pem\", key = \"site.key\" }]`, or a \
             `[[https.certificates]]` for each."
        }
        Section::Acme => {
            "Certificates that Larder orders and renews (ACME, RFC 8555), and whose terms are \
             accepted by this; [operations.md](operations.md#certificates-by-themselves)."
        }
        Section::Disk => {
            "Pages on disk, found again after any restart; [operations.md](operations.md) has a \
             chapter. `larder serve --disk /var/cache/larder --disk-size 20GiB` needs no file."
        }
        Section::Publish => {
            "Objects that programs set by memcached or Redis are served as pages; \
             [publish.md](publish.md)."
        }
        Section::Dictionary => {
            "`dictionary = true`, or `dictionary = { size = \"64KiB\", refresh = \"12h\" }`; [when it \
             helps, and what it costs](operations.md#compress-with-dictionaries)."
        }
        other => about_others(other),
    }
}

fn about_others(section: Section) -> &'static str {
    match section {
        Section::Memcached => {
            "Objects over memcached's protocols (text, meta, binary), in the same memory as the \
             pages; [memcached.md](memcached.md) lists the differences from memcached. `larder \
             serve --memcached 127.0.0.1:11211` needs no file; `larder memcached` takes \
             memcached's own flags instead."
        }
        Section::FaceTls => {
            "TLS of the object faces and of the admin interface; [how to serve them \
             so](operations.md#serve-objects-to-memcached-and-redis-clients)."
        }
        Section::Admin => {
            "The admin interface: a dashboard, metrics, an API; [admin.md](admin.md). `larder \
             serve --admin 127.0.0.1:8081` needs no file."
        }
        Section::Redis => {
            "Objects over Redis's protocol (RESP2, RESP3), in the same memory as the pages; \
             [redis.md](redis.md) lists the commands. `larder serve --redis 127.0.0.1:6379` needs \
             no file; `larder redis` takes redis-server's names of options instead."
        }
        Section::Remote => {
            "Several Larders share whole pages through memcached or Valkey servers; \
             [remote.md](remote.md) describes how to set them up, and the effects of a failure. \
             `remote = false` in a `[[site]]` excludes its pages."
        }
        Section::Health => {
            "`health = \"/ping\"`, or `health = { path = \"/ping\", interval = \"1s\" }`: every server of \
             the origin is asked, by one thread for all."
        }
        Section::Debug => {
            "`debug = { from = [\"127.0.0.1\"], token_file = \"debug.token\" }`, with the rules of \
             `purge`."
        }
        Section::Tracing => "Traces of requests, sent to an OpenTelemetry collector.",
        Section::Limits => "Every limit has its own status, and is counted.",
        Section::Site => {
            "Once per site. A request goes to the site that has its host: exactly, else by the \
             longest `*.domain`, else to the site without `hosts`; if there is none, it is refused \
             with 421. The keys of [What becomes of requests](#what-becomes-of-requests) are valid \
             here too."
        }
        Section::Origin => {
            "`origin = \"http://127.0.0.1:9000\"`, or `origin = { url = \"http://127.0.0.1:9000\", \
             connect_timeout = \"1s\" }`. [PHP by FastCGI](operations.md#run-php-by-fastcgi): \
             `origin = { url = \"fcgi+unix:/run/php/php-fpm.sock\", root = \"/srv/www\" }`. \
             [Files](operations.md#serve-files): `origin = \"files:/srv/www\"`."
        }
        Section::Purge => {
            "`purge = { from = [\"127.0.0.1\"], token_file = \"purge.token\" }`. The address is \
             that of the connection; if it is one of `http.trusted_proxies`, the client named in \
             `X-Forwarded-For`. Behind any other proxy, all clients have the proxy's address."
        }
        Section::Rule => {
            "A rule applies to a request that matches all its conditions. If several rules apply, \
             each key has the value of the first rule that sets it; then that of the site, then \
             the default. A path is compared as it was \
             sent, and as most servers understand it (`/%61dmin//x/../` is `/admin/`): a rule that \
             matches either applies. The keys of [What becomes of requests](#what-becomes-of-requests) are \
             its effects. At most 64 per site."
        }
        Section::Refresh => {
            "Like Squid's `refresh_pattern`: the lifetime of a page with neither `max-age` nor \
             `Expires`. `refresh = { min = \"1m\", percent = 20, max = \"1h\" }`. Without \
             `Last-Modified` it is `min`. Not set: as RFC 9111 suggests, a tenth of the time since \
             `Last-Modified`, at most a day."
        }
        Section::App => {
            "Applications that Larder starts, watches and stops, for origins `app:NAME`; \
             [operations.md](operations.md#run-applications) describes it. The keys of a FastCGI \
             origin are in the site: `origin = { url = \"app:php\", root = \"/srv/www\" }`."
        }
        Section::AppLimits => {
            "`limits = { nofile = 1024, memory = \"2GiB\" }`: the soft and the hard limit of each \
             process, as setrlimit(2) has them."
        }
        other => about_the_rest(other),
    }
}

fn about_the_rest(section: Section) -> &'static str {
    match section {
        Section::Queue => {
            "Durable queues over Kestrel's protocol; [queues.md](queues.md) describes commands \
             and promises. The rules from `max_items` on are those of queues that are not in \
             `[[queue.named]]`."
        }
        Section::QueueNamed => "Rules of one queue, and of its children.",
        Section::Peer => {
            "Other caches that are asked on a miss, before the origin: [family.md](family.md)."
        }
        Section::Icp => {
            "The Internet Cache Protocol, version 2 (RFC 2186), over UDP: [how other caches \
             ask](family.md#how-do-i-let-other-caches-ask)."
        }
        Section::Htcp => {
            "The Hyper Text Caching Protocol (RFC 2756), over UDP: TST, CLR and NOP. [MediaWiki's \
             purges](family.md#how-do-purges-reach-a-larder-by-htcp) are CLR."
        }
        _ => "",
    }
}

fn value(opt: &Opt) -> String {
    let one = match opt.kind {
        Kind::Table(_, Some(key)) => format!("its `{key}`, or a table"),
        Kind::Table(_, None) => "table".to_owned(),
        Kind::Tables(_) => "tables".to_owned(),
        kind => item::expected(kind).replace('|', "\\|"),
    };
    // A table has any number of pages already.
    if opt.list && opt.kind != Kind::ErrorPage { format!("{one}, or a list") } else { one }
}

fn default(opt: &Opt) -> String {
    match (opt.required, opt.default, opt.kind) {
        (true, ..) => "required".to_owned(),
        (_, "", _) => String::new(),
        (_, text, Kind::Bool | Kind::Count(..)) => format!("`{text}`"),
        (_, text, _) => format!("`\"{text}\"`"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{Flags, parse};

    /// Compares a page with the one in docs/, or writes it with LARDER_BLESS.
    fn compare(file: &str, made: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(file);
        if std::env::var_os("LARDER_BLESS").is_some() {
            std::fs::write(&path, made).expect("the page can be written");
        }
        let held = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            held == made,
            "docs/{file} is not what the code says: LARDER_BLESS=1 cargo test -p larder docs"
        );
    }

    #[test]
    fn the_pages_are_those_in_docs() {
        compare("configuration.md", &configuration());
        compare("metrics.md", &larder_metrics::docs());
    }

    #[test]
    fn the_examples_of_the_page_are_valid() {
        let mut examples = 0;
        for example in INTRODUCTION.split("```toml\n").skip(1) {
            let text = example.split("```").next().expect("an end");
            let loaded = parse(None, text, &Flags::default());
            assert!(loaded.settings.is_some(), "{text}\n{}", loaded.report);
            examples += 1;
        }
        assert!(examples > 0);
    }
}
