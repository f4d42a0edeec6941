//! The setup common to all rows: database, slow proxy, wiki, web server.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::{
    args::MediawikiArgs,
    check::{self, OriginalArticles},
    database::MariaDb,
    error::Error,
    programs::Programs,
    rows::{Database, Row},
    web::Web,
    wiki::Wiki,
};
use crate::{engine::Address, peers::Scratch, progress::Progress, slow};

/// The wiki and everything behind it.
pub(super) struct Setup {
    // In the order of ending: clients before servers.
    pub(super) web: Web,
    pub(super) wiki: Wiki,
    slow: slow::Handle,
    pub(super) database: MariaDb,
    pub(super) originals: OriginalArticles,
    pub(super) programs: Programs,
    pub(super) began: Instant,
    /// Of the rows; lines are printed above it.
    pub(super) progress: Progress,
    dir: PathBuf,
}

impl Setup {
    /// Builds the setup in this directory and reports progress.
    pub(super) fn build(
        args: &MediawikiArgs,
        programs: Programs,
        scratch: &Scratch,
        users: u32,
    ) -> Result<Setup, Error> {
        let began = Instant::now();
        let dir = scratch.path();
        let tell = |what: &str| eprintln!("{:6.1} s  {what}", began.elapsed().as_secs_f64());
        tell("starting MariaDB");
        let database = MariaDb::start(&programs, dir)?;
        let slow = slow::start(proxy(&database, args.delay))?;
        tell(&format!("installing MediaWiki and importing {} articles", args.articles));
        let wiki = Wiki::install(&programs, dir, &database, args)?;
        let web = Web::start(&programs, dir, &wiki, args.php, users)?;
        tell(&format!("rendering every article once, with {}", args.php.name()));
        let originals =
            OriginalArticles::take(web.addr(), &wiki.articles, 2).map_err(Error::Other)?;
        if let Some(pages) = &args.save_pages {
            tell(&format!("writing the pages to {}", pages.display()));
            check::save(web.addr(), &wiki.articles, 2, pages)?;
        }
        Ok(Setup {
            web,
            wiki,
            slow,
            database,
            originals,
            programs,
            began,
            progress: Progress::hidden(),
            dir: dir.to_owned(),
        })
    }

    /// Directory for files.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// MediaWiki's setting for its database server.
    pub(super) fn database_for(&self, way: Database) -> String {
        match way {
            Database::Tcp => self.database.addr().to_string(),
            Database::Socket => format!("localhost:{}", self.database.socket().display()),
            Database::Slow => match self.slow.address() {
                Address::Tcp(addr) => addr.to_string(),
                Address::Unix(path) => format!("localhost:{}", path.display()),
            },
        }
    }

    /// Prints a line of progress.
    pub(super) fn tell(&self, row: &Row, what: &str) {
        let time = self.began.elapsed().as_secs_f64();
        self.progress.say(&format!("{time:6.1} s  {:26} {what}", row.id));
    }
}

/// A proxy that delays each statement, on every connection.
fn proxy(database: &MariaDb, delay: Duration) -> slow::Config {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    slow::Config {
        protocol: slow::Protocol::Mysql,
        rules: vec![slow::Rule::delay(delay)],
        ..slow::Config::new(Address::Tcp(any), Address::Tcp(database.addr()))
    }
}
