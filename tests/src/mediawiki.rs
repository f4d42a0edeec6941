//! A real MediaWiki as origin, and its visitors.
//!
//! The scripts in `tests/mediawiki/` install and serve it; here they are run and watched. See
//! `tests/mediawiki/setup.sh` for what the wiki holds and `count.php` for how renders are counted.

use crate::helper::{free_port, source_root};
use crate::listening;
use crate::php;
use crate::scratch::Scratch;
use crate::visitor::Visitor;
use crate::wait::wait_until;
use serde_json::Value;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// The name under which readers know the wiki: `$wgServer` is `http://` and this.
pub const HOST: &str = "wiki.test";

/// Where Debian has MediaWiki.
const INSTALLED: &str = "/usr/share/mediawiki";

/// An installed wiki; after [`Wiki::serve`] an origin. Its processes end when it is dropped.
pub struct Wiki {
    addr: SocketAddr,
    paths: Vec<String>,
    php: Option<Child>,
    fastcgi: bool,
    dir: Scratch,
}

/// One request that reached MediaWiki, from the log that `count.php` writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Render {
    /// The method.
    pub method: String,
    /// The request target.
    pub target: String,
    /// `Host` as received.
    pub host: String,
    /// Names of the cookies as received, joined by commas; `-` for none.
    pub cookies: String,
    /// `X-Forwarded-For` as received; `-` when absent.
    pub forwarded_for: String,
}

impl Wiki {
    /// Makes the wiki and its articles; fails, saying what is missing, where the packages are not
    /// installed.
    #[track_caller]
    pub fn install() -> Wiki {
        let dir = Scratch::new("mediawiki");
        let output = Command::new(scripts().join("setup.sh")).arg(dir.path()).output().unwrap();
        assert!(output.status.success(), "setup.sh: {}", String::from_utf8_lossy(&output.stderr));
        let paths = std::fs::read_to_string(dir.file("paths.txt")).unwrap();
        let paths = paths.lines().map(str::to_owned).collect();
        // PHP cannot be asked which port it took, so one is found for it.
        let addr = SocketAddr::from(([127, 0, 0, 1], free_port()));
        Wiki { addr, paths, php: None, fastcgi: false, dir }
    }

    /// Starts it. `cdn` is where it sends its purges.
    #[track_caller]
    pub fn serve(&mut self, cdn: SocketAddr) {
        match self.fastcgi {
            true => self.serve_fastcgi(cdn),
            false => self.serve_with(cdn, &[]),
        }
    }

    /// Starts it with objects and sessions in the memcached at `objects`, reached by one of
    /// MediaWiki's clients: `memcached-php` or `memcached-pecl`.
    #[track_caller]
    pub fn serve_with_objects(&mut self, cdn: SocketAddr, objects: SocketAddr, client: &str) {
        let objects = objects.to_string();
        self.serve_with(
            cdn,
            &[("LARDER_MW_MEMCACHED", objects.as_str()), ("LARDER_MW_CLIENT", client)],
        );
    }

    /// Starts it with these Larders' addresses for HTCP, to which it sends its purges.
    #[track_caller]
    pub fn serve_with_htcp(&mut self, caches: &[SocketAddr]) {
        let all = caches.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(",");
        self.serve_with(caches[0], &[("LARDER_MW_HTCP", &all)]);
    }

    #[track_caller]
    fn serve_with(&mut self, cdn: SocketAddr, variables: &[(&str, &str)]) {
        let printed = std::fs::File::create(self.dir.file("php.log")).unwrap();
        let mut child = Command::new(scripts().join("serve.sh"))
            .args([
                self.dir.path().as_os_str(),
                self.addr.to_string().as_ref(),
                cdn.to_string().as_ref(),
            ])
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(printed.try_clone().unwrap())
            .stderr(printed)
            // Its workers outlive it unless the whole group is ended.
            .process_group(0)
            .spawn()
            .unwrap();
        wait_until("PHP's server to accept", || {
            let ended = child.try_wait().unwrap();
            assert!(ended.is_none(), "PHP's server ended at once: {ended:?}");
            TcpStream::connect(self.addr).is_ok()
        });
        self.php = Some(child);
    }

    /// It will be an application of php-fpm instead of PHP's own server.
    pub fn by_fastcgi(mut self) -> Wiki {
        self.fastcgi = true;
        self
    }

    #[track_caller]
    fn serve_fastcgi(&mut self, cdn: SocketAddr) {
        let (dir, wiki) = (self.dir.path(), source_root().join("crates/lab/src/mediawiki/wiki"));
        let socket = dir.join("php.sock");
        let mut command = php::fpm(dir, &socket.display().to_string(), 4);
        command.arg("-d").arg(format!("auto_prepend_file={}", wiki.join("count.php").display()));
        let cdn = cdn.to_string();
        let log = dir.join("origin.log");
        let child = command
            .env("MW_INSTALL_PATH", INSTALLED)
            .env("MW_CONFIG_FILE", wiki.join("LocalSettings.php"))
            .env("LARDER_MW_DIR", dir)
            .env("LARDER_MW_CDN", cdn)
            .env("LARDER_MW_SERVER", format!("http://{HOST}"))
            .env("LARDER_MW_LOG", log)
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        self.php = Some(child);
        wait_until("php-fpm to listen", || listening::path(&socket));
    }

    /// Lines of `[site.origin]`.
    pub fn origin(&self) -> String {
        if !self.fastcgi {
            return format!("url = \"{}\"\n", self.origin_url());
        }
        format!(
            "url = \"fcgi+unix:{}\"\nroot = \"{INSTALLED}\"\nsymlinks = \"follow\"\ntry_files = \
             [\"$uri\", \"/index.php\"]\n",
            self.dir.file("php.sock").display()
        )
    }

    /// URL for a configuration's `origin`.
    pub fn origin_url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Where the wiki itself listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// URL path of each article, as MediaWiki writes it in links and purges.
    pub fn paths(&self) -> &[String] {
        &self.paths
    }

    /// Everything that reached MediaWiki so far.
    pub fn renders(&self) -> Vec<Render> {
        let log = std::fs::read_to_string(self.dir.file("origin.log")).unwrap_or_default();
        log.lines().map(render).collect()
    }

    /// How many GET requests for this target reached MediaWiki so far.
    pub fn renders_of(&self, target: &str) -> usize {
        self.renders().iter().filter(|seen| seen.method == "GET" && seen.target == target).count()
    }

    /// Uncompressed content of a gzip answer.
    #[track_caller]
    pub fn gunzip(&self, bytes: &[u8]) -> Vec<u8> {
        let path = self.dir.file("body.gz");
        std::fs::write(&path, bytes).unwrap();
        let output = Command::new("gzip").arg("-dc").arg(path).output().unwrap();
        assert!(output.status.success(), "gzip: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }
}

impl Drop for Wiki {
    fn drop(&mut self) {
        let Some(mut child) = self.php.take() else { return };
        let group = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(group) = group {
            // Gone already is fine.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = child.wait();
    }
}

fn scripts() -> PathBuf {
    source_root().join("tests/mediawiki")
}

fn render(line: &str) -> Render {
    let columns: Vec<&str> = line.split('\t').collect();
    let column = |at: usize| columns.get(at).copied().unwrap_or("-").to_owned();
    Render {
        method: column(0),
        target: column(1),
        host: column(3),
        cookies: column(4),
        forwarded_for: column(6),
    }
}

impl Visitor {
    /// Somebody new, who reads the wiki at this address.
    pub fn new(addr: SocketAddr) -> Visitor {
        Visitor::of(addr, HOST)
    }

    /// Calls the API by POST; gives the decoded answer.
    #[track_caller]
    pub fn api(&mut self, parameters: &[(&str, &str)]) -> Value {
        let form = [&[("format", "json")], parameters].concat();
        let answer = self.post("/api.php", &form);
        answer.assert_status(200);
        serde_json::from_slice(&answer.body).unwrap_or_else(|e| panic!("API: {e}: {answer:?}"))
    }

    /// Logs in as the administrator.
    #[track_caller]
    pub fn log_in(&mut self) {
        let token = self.token("login");
        let result = self.api(&[
            ("action", "clientlogin"),
            ("username", "Admin"),
            ("password", "larder-test-pass"),
            ("loginreturnurl", "http://wiki.test/"),
            ("rememberMe", "1"),
            ("logintoken", &token),
        ]);
        assert_eq!(result["clientlogin"]["status"], "PASS", "{result}");
    }

    /// Logs out.
    #[track_caller]
    pub fn log_out(&mut self) {
        let token = self.token("csrf");
        let result = self.api(&[("action", "logout"), ("token", &token)]);
        assert!(result.get("error").is_none(), "{result}");
    }

    /// Saves a page.
    #[track_caller]
    pub fn edit(&mut self, title: &str, text: &str) {
        let token = self.token("csrf");
        let result =
            self.api(&[("action", "edit"), ("title", title), ("text", text), ("token", &token)]);
        assert_eq!(result["edit"]["result"], "Success", "{result}");
        assert!(result["edit"].get("nochange").is_none(), "the edit changed nothing: {result}");
    }

    fn token(&mut self, kind: &str) -> String {
        let result = self.api(&[("action", "query"), ("meta", "tokens"), ("type", kind)]);
        let token = &result["query"]["tokens"][format!("{kind}token")];
        token.as_str().unwrap_or_else(|| panic!("no {kind} token: {result}")).to_owned()
    }
}
