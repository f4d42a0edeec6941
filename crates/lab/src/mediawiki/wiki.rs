//! Installation of MediaWiki, its articles, and its connections to database and object cache.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
};

use super::{args::MediawikiArgs, database::MariaDb, error::Error, programs::Programs};
use crate::peers::Process;

/// Host name of the wiki.
pub(super) const HOST: &str = "wiki.test";
/// Length of articles in bytes of wikitext: lognormal with this median and this standard deviation
/// of the logarithm. The mean is about 9 kB, as in Wikipedias of a few hundred thousand articles;
/// articles.php limits it to 600 bytes and 80 kB.
pub(super) const MEDIAN: f64 = 6000.0;
/// See [`MEDIAN`].
pub(super) const SIGMA: f64 = 0.9;

/// Files shared with the MediaWiki tests.
const SETTINGS: &str = include_str!("wiki/LocalSettings.php");
const ARTICLES: &str = include_str!("wiki/articles.php");
const ROUTER: &str = include_str!("wiki/router.php");
const COUNT: &str = include_str!("wiki/count.php");

/// An article.
#[derive(Clone, Debug)]
pub(super) struct Article {
    /// Target of a request, as in links.
    pub(super) path: String,
    /// Bytes of wikitext.
    pub(super) length: usize,
}

/// An installed wiki with articles.
#[derive(Debug)]
pub(super) struct Wiki {
    dir: PathBuf,
    mediawiki: PathBuf,
    pub(super) articles: Vec<Article>,
}

impl Wiki {
    pub(super) fn install(
        programs: &Programs,
        dir: &Path,
        database: &MariaDb,
        args: &MediawikiArgs,
    ) -> Result<Wiki, Error> {
        let mut wiki = Wiki {
            dir: dir.to_owned(),
            mediawiki: programs.mediawiki.clone(),
            articles: Vec::new(),
        };
        for (name, text) in [
            ("LocalSettings.php", SETTINGS),
            ("articles.php", ARTICLES),
            ("router.php", ROUTER),
            ("count.php", COUNT),
        ] {
            wiki.write(name, text)?;
        }
        std::fs::create_dir_all(dir.join("cache")).map_err(|e| Error::file(dir, e))?;
        let local = format!("localhost:{}", database.socket().display());

        // The installer writes its own LocalSettings.php, and refuses to run if there is one.
        let own = dir.join("installer");
        std::fs::create_dir_all(&own).map_err(|e| Error::file(&own, e))?;
        let mut install = wiki.php(programs);
        install.env("MW_CONFIG_FILE", own.join("none.php")).arg(wiki.script("install.php"));
        install.args(["--dbtype", "mysql", "--dbname", "wiki", "--dbserver", &local]);
        install.args([
            // As root: it then creates no user, which fails over a socket.
            "--dbuser",
            "root",
            "--dbpass",
            "",
            "--installdbuser",
            "root",
            "--installdbpass",
            "",
        ]);
        install.args(["--scriptpath", "", "--server", "http://wiki.test", "--skins", "Vector"]);
        install.arg("--confpath").arg(&own).args([
            "--pass",
            "larder-lab-pass",
            "Larder lab wiki",
            "Admin",
        ]);
        Process::spawn("MediaWiki's installer", install, &dir.join("install.log"), None)?
            .finish()?;

        wiki.route(&local, None)?;
        wiki.fill(programs, args)?;
        Ok(wiki)
    }

    fn fill(&mut self, programs: &Programs, args: &MediawikiArgs) -> Result<(), Error> {
        // The log of this step is the dump.
        let (dump, paths) = (self.dir.join("dump.xml"), self.dir.join("paths.txt"));
        let mut generate = self.php(programs);
        // PHP's generator takes 31 bits.
        generate
            .arg(self.dir.join("articles.php"))
            .args([args.articles.to_string(), (args.seed & 0x7fff_ffff).to_string()]);
        generate.arg(&paths).args([MEDIAN.to_string(), SIGMA.to_string()]);
        Process::spawn("articles.php", generate, &dump, None)?.finish()?;
        let mut import = self.php(programs);
        import.arg(self.script("importDump.php")).args(["--report", "1000"]).arg(&dump);
        Process::spawn("MediaWiki's importer", import, &self.dir.join("import.log"), None)?
            .finish()?;
        let mut jobs = self.php(programs);
        jobs.arg(self.script("runJobs.php"));
        Process::spawn("MediaWiki's job runner", jobs, &self.dir.join("jobs.log"), None)?
            .finish()?;

        let text = std::fs::read_to_string(&paths).map_err(|e| Error::file(&paths, e))?;
        self.articles = text.lines().filter_map(article).collect();
        if self.articles.len() != args.articles as usize {
            return Err(Error::Other(format!(
                "articles.php named {} articles",
                self.articles.len()
            )));
        }
        Ok(())
    }

    fn script(&self, name: &str) -> PathBuf {
        self.mediawiki.join("maintenance").join(name)
    }

    fn write(&self, name: &str, text: &str) -> Result<PathBuf, Error> {
        let path = self.dir.join(name);
        std::fs::write(&path, text).map_err(|e| Error::file(&path, e))?;
        Ok(path)
    }

    /// PHP with the environment of the settings.
    fn php(&self, programs: &Programs) -> Command {
        let mut php = Command::new(&programs.php);
        php.envs(self.environment());
        php
    }

    /// Environment read by the settings.
    pub(super) fn environment(&self) -> Vec<(&'static str, PathBuf)> {
        vec![
            ("MW_INSTALL_PATH", self.mediawiki.clone()),
            ("MW_CONFIG_FILE", self.dir.join("LocalSettings.php")),
            ("LARDER_MW_DIR", self.dir.clone()),
            ("LARDER_MW_SERVER", PathBuf::from(format!("http://{HOST}"))),
            ("LARDER_MW_ROUTE", self.dir.join("route.ini")),
            ("LARDER_MW_LOG", self.dir.join("origin.log")),
        ]
    }

    /// Switches database and object cache from the next request on. Each request reads one file, so
    /// that processes and compiled code stay the same through all rows.
    pub(super) fn route(&self, database: &str, objects: Option<SocketAddr>) -> Result<(), Error> {
        let mut text = format!("database={database}\n");
        if let Some(objects) = objects {
            text.push_str(&format!("objects={objects}\n"));
        }
        // Renamed, so that no request reads an incomplete file.
        let new = self.write("route.ini.new", &text)?;
        std::fs::rename(&new, self.dir.join("route.ini")).map_err(|e| Error::file(&new, e))
    }
}

/// Parses `/wiki/Title`, a tab, and the length.
fn article(line: &str) -> Option<Article> {
    let (path, length) = line.split_once('\t')?;
    Some(Article { path: path.to_owned(), length: length.parse().ok()? })
}
