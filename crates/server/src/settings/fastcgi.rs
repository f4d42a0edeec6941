//! Applications that speak FastCGI.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use tokio::sync::Notify;

use super::TreeSettings;

/// An application that speaks FastCGI, in the Responder role.
#[derive(Debug, PartialEq, Eq)]
pub struct FastCgiSettings {
    /// The files that its scripts are among. None: the application knows its paths itself, and is
    /// sent every request.
    pub tree: Option<Arc<TreeSettings>>,
    /// The root as the application names it; None: as Larder does.
    pub app_root: Option<PathBuf>,
    /// Ends of the names of scripts (`.php`). Empty: every file is a script. Behind one of them a
    /// path may go on (PATH_INFO).
    pub split_path: Vec<String>,
    /// Parameters of the site's own: name and value, or None for one that is not sent.
    pub params: Vec<(String, Option<String>)>,
    /// Shared by the workers that use these settings.
    pub release: Release,
}

/// The workers' agreement on kept connections to one application. An application of one request at
/// a time (php-fpm: each process) serves nobody else while a worker keeps its connection, so a
/// worker that has to wait asks all of them to close theirs.
#[derive(Debug, Default)]
pub struct Release {
    /// How often that was asked. A connection of before is not kept.
    times: AtomicU64,
    asked: Notify,
}

impl Release {
    /// Asks all workers to close connections as soon as they are idle. The result is the number of
    /// times it was asked, this one included.
    pub(crate) fn ask(&self) -> u64 {
        let before = self.times.fetch_add(1, Relaxed);
        self.asked.notify_waiters();
        before + 1
    }

    /// Number of times it was asked so far.
    pub(crate) fn times(&self) -> u64 {
        self.times.load(Relaxed)
    }

    /// The next time that it is asked.
    pub(crate) fn asked(&self) -> &Notify {
        &self.asked
    }
}

/// It is no setting.
impl PartialEq for Release {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Release {}
