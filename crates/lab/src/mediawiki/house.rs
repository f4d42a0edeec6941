//! Everything that stays the same through all rows: the database, the slow proxy before it, the wiki and what serves it.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::{
    args::MediawikiArgs,
    check::Originals,
    database::MariaDb,
    error::Error,
    programs::Programs,
    rows::{Database, Row},
    web::Web,
    wiki::Wiki,
};
use crate::{engine::Address, peers::Scratch, slow};

/// The wiki with all that stands behind it.
pub(super) struct House {
    // In the order in which they are to end: what asks before what is asked.
    pub(super) web: Web,
    pub(super) wiki: Wiki,
    slow: slow::Handle,
    pub(super) database: MariaDb,
    pub(super) originals: Originals,
    pub(super) programs: Programs,
    pub(super) began: Instant,
    dir: PathBuf,
}

impl House {
    /// Builds it in this directory, telling what it does.
    pub(super) fn build(
        args: &MediawikiArgs,
        programs: Programs,
        scratch: &Scratch,
        users: u32,
    ) -> Result<House, Error> {
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
        let originals = Originals::take(web.addr(), &wiki.articles, 2).map_err(Error::Other)?;
        Ok(House { web, wiki, slow, database, originals, programs, began, dir: dir.to_owned() })
    }

    /// Where files go.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// How MediaWiki is told to reach its database.
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

    /// A line of progress.
    pub(super) fn tell(&self, row: &Row, what: &str) {
        eprintln!("{:6.1} s  {:26} {what}", self.began.elapsed().as_secs_f64(), row.id);
    }
}

/// Each statement later by this, whichever connection it comes on.
fn proxy(database: &MariaDb, delay: Duration) -> slow::Config {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    slow::Config {
        protocol: slow::Protocol::Mysql,
        rules: vec![slow::Rule::delay(delay)],
        ..slow::Config::new(Address::Tcp(any), Address::Tcp(database.addr()))
    }
}
