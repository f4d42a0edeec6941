//! Walks over the stored pages: in steps, with a limit on each call, and few at once.

use larder_store::{Cursor, EntryInfo, Keep};
use serde::{Deserialize, Deserializer, de::Error as _};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{App, answer::Refused};
use crate::page::lookup::PAGES;

/// Entries visited before other requests get their turn.
const STEP: usize = 256;
/// Approximate limit of visited entries per call; then the answer has a cursor, with whatever was
/// found.
const VISITS: usize = 50_000;
/// Walks at the same time.
const WALKS: usize = 2;
/// Time for which a walk waits for a permit.
const TURN: std::time::Duration = std::time::Duration::from_secs(10);

/// Permits for walks.
pub(super) struct WalkPermits(Semaphore);

impl Default for WalkPermits {
    fn default() -> Self {
        WalkPermits(Semaphore::new(WALKS))
    }
}

impl WalkPermits {
    /// Waits for a permit, with a time limit.
    pub(super) async fn take(&self) -> Result<SemaphorePermit<'_>, Refused> {
        match tokio::time::timeout(TURN, self.0.acquire()).await {
            Ok(Ok(turn)) => Ok(turn),
            _ => Err(Refused::busy("others walk through the store: come again")),
        }
    }
}

/// The position of a walk, as clients return it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bookmark(Cursor);

impl Default for Bookmark {
    fn default() -> Self {
        Bookmark(Cursor::START)
    }
}

impl Bookmark {
    fn text(self) -> String {
        format!("{:x}", self.0.0)
    }
}

impl<'de> Deserialize<'de> for Bookmark {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let number = u64::from_str_radix(&text, 16);
        number
            .map(|number| Bookmark(Cursor(number)))
            .map_err(|_| D::Error::custom("no such cursor"))
    }
}

/// Visits the pages from `from` on until about `limit` were found. Returns them and the next
/// position.
pub(super) async fn some<T>(
    app: &App,
    from: Bookmark,
    limit: usize,
    mut see: impl FnMut(&[u8], &EntryInfo) -> Option<T>,
) -> Result<(Vec<T>, Option<String>), Refused> {
    let _turn = app.turns.take().await?;
    let (mut found, mut visited, mut cursor) = (Vec::new(), 0, Some(from.0));
    while let Some(at) = cursor {
        if found.len() >= limit || visited >= VISITS {
            break;
        }
        // Small steps for small limits: a step cannot be interrupted.
        let step = STEP.min(limit - found.len());
        cursor = app.store.scan(PAGES, at, step, &mut |key, info| {
            found.extend(see(key, info));
            Keep::Keep
        });
        visited += step;
        tokio::task::yield_now().await;
    }
    Ok((found, cursor.map(|at| Bookmark(at).text())))
}

/// Visits all pages, as long as `see` returns true.
pub(super) async fn all(app: &App, mut see: impl FnMut(&[u8]) -> bool) -> Result<(), Refused> {
    let _turn = app.turns.take().await?;
    let (mut cursor, mut on) = (Some(Cursor::START), true);
    while let (Some(at), true) = (cursor, on) {
        cursor = app.store.scan(PAGES, at, STEP, &mut |key, _| {
            on = on && see(key);
            Keep::Keep
        });
        tokio::task::yield_now().await;
    }
    Ok(())
}
