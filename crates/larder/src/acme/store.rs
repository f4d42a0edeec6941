//! The files of `state_dir`: below a directory for each directory of ACME, `account`, and for
//! each name `NAME.pem` (chain, then key) and `NAME.json` (for `larder certificates`).
//!
//! Directories are made with mode 0700, files with 0600. A file is written beside its place and
//! renamed: it is there as a whole or not at all.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use instant_acme::AccountCredentials;
use larder_server::settings::{AcmeSettings, Certificate, CertificateSource};
use serde_json::{Value, json};

use super::order::Ordered;
use crate::config::bounded;

/// Largest file, in bytes.
const FILE_BYTES: usize = 1 << 20;

/// Bytes written to see whether the disk has room for an account and a certificate.
const PROBE_BYTES: usize = 64 << 10;

/// No certificate's file has this name: those end in .pem or .json.
const ACCOUNT: &str = "account";

/// The files of one directory of ACME.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    dir: PathBuf,
}

/// The content of `NAME.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Saved {
    /// Seconds since 1970 of the next order.
    pub(crate) renew_at: Option<i64>,
    /// The reason why the last order failed.
    pub(crate) reason: Option<String>,
}

impl Store {
    /// Certificates of one directory of ACME are not those of another: a change of the directory
    /// begins anew.
    pub(crate) fn new(settings: &AcmeSettings) -> Store {
        let url = settings.directory.trim_start_matches("https://");
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
        Store { dir: settings.state_dir.join(url.chars().map(plain).collect::<String>()) }
    }

    /// Makes the directories and tries to write there: a disk that is full takes empty files.
    pub(super) fn prepare(&self) -> Result<(), String> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.dir);
        let tried = made.and_then(|()| {
            let probe = self.dir.join(".probe");
            let mut file = new_file(&probe)?;
            let written = file.write_all(&[0; PROBE_BYTES]).and_then(|()| file.sync_all());
            fs::remove_file(probe).and(written)
        });
        tried.map_err(|error| format!("cannot write to {}: {error}", self.dir.display()))
    }

    /// The certificate of a name; None: there is none. The error is a sentence.
    pub(crate) fn certificate(&self, name: &str) -> Result<Option<Certificate>, String> {
        let path = self.path(name, "pem");
        let Some(bytes) = read(&path)? else { return Ok(None) };
        let mut certificate = Certificate::parse(&bytes, &bytes)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        certificate.source = CertificateSource::Acme;
        Ok(Some(certificate))
    }

    /// Keeps a certificate with its key.
    pub(super) fn save(&self, name: &str, ordered: &Ordered) -> Result<(), String> {
        let text = format!("{}\n{}", ordered.chain.trim_end(), ordered.key);
        self.write(&self.path(name, "pem"), text.as_bytes())
    }

    /// The account; None: there is none.
    pub(super) fn account(&self) -> Result<Option<AccountCredentials>, String> {
        let path = self.dir.join(ACCOUNT);
        let Some(bytes) = read(&path)? else { return Ok(None) };
        serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Keeps the account.
    pub(super) fn save_account(&self, account: &AccountCredentials) -> Result<(), String> {
        let text = serde_json::to_vec(account).map_err(|error| error.to_string())?;
        self.write(&self.dir.join(ACCOUNT), &text)
    }

    /// Puts an account aside that the directory does not know any more.
    pub(super) fn forget_account(&self) {
        let path = self.dir.join(ACCOUNT);
        let _ = fs::rename(&path, self.dir.join("account.old"));
    }

    /// Notes the next order. For people only: a failure to write it is ignored.
    pub(super) fn save_renewal(&self, name: &str, renew_at: i64) {
        let text = json!({ "renew_at": renew_at }).to_string();
        let _ = self.write(&self.path(name, "json"), text.as_bytes());
    }

    /// Notes a failure, for people.
    pub(super) fn save_failure(&self, name: &str, reason: &str) {
        let text = json!({ "renew_at": self.saved(name).renew_at, "reason": reason }).to_string();
        let _ = self.write(&self.path(name, "json"), text.as_bytes());
    }

    /// The notes on a name.
    pub(crate) fn saved(&self, name: &str) -> Saved {
        let bytes = read(&self.path(name, "json")).ok().flatten().unwrap_or_default();
        let saved: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        Saved {
            renew_at: saved["renew_at"].as_i64(),
            reason: saved["reason"].as_str().map(str::to_owned),
        }
    }

    fn path(&self, name: &str, ending: &str) -> PathBuf {
        self.dir.join(format!("{name}.{ending}"))
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), String> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        let beside = PathBuf::from(beside);
        let written = (|| {
            let mut file = new_file(&beside)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&beside, path)?;
            File::open(&self.dir)?.sync_all()
        })();
        written.map_err(|error: io::Error| format!("cannot write {}: {error}", path.display()))
    }
}

/// Opens a new file that nobody else may read.
fn new_file(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// The bytes of a file; None: there is none.
fn read(path: &Path) -> Result<Option<Vec<u8>>, String> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        _ => {}
    }
    match bounded::read(path, FILE_BYTES) {
        Ok((bytes, _)) => Ok(Some(bytes)),
        Err(reason) => Err(format!("cannot read {}: {reason}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        ffi::OsString,
        os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    };

    use super::*;

    #[test]
    fn a_state_directory_needs_not_be_utf_8() {
        let mut dir = std::env::temp_dir().into_os_string().into_vec();
        dir.extend_from_slice(format!("/larder-store-{}-\u{e9}", std::process::id()).as_bytes());
        dir.pop();
        let dir = PathBuf::from(OsString::from_vec(dir));
        assert!(std::str::from_utf8(dir.as_os_str().as_bytes()).is_err());
        let store = Store { dir: dir.clone() };
        store.prepare().unwrap();
        store.save_failure("a.example", "a reason");
        assert_eq!(store.saved("a.example").reason.as_deref(), Some("a reason"));
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1, "no other file is left");
        fs::remove_dir_all(dir).unwrap();
    }
}
