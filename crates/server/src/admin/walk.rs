//! Walks over what is stored: in steps, with a limit on each call, and never more than a few at
//! once.

use larder_store::{Cursor, EntryInfo, Keep};
use serde::{Deserialize, Deserializer, de::Error as _};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{App, answer::Refused};
use crate::page::lookup::PAGES;

/// Entries visited between two looks at other requests.
const STEP: usize = 256;
/// Entries visited for one call, about; it answers with a cursor then, however little it has found.
const VISITS: usize = 50_000;
/// Walks at the same time.
const WALKS: usize = 2;
/// How long a walk waits for its turn.
const TURN: std::time::Duration = std::time::Duration::from_secs(10);

/// Turns for walks.
pub(super) struct Turns(Semaphore);

impl Default for Turns {
    fn default() -> Self {
        Turns(Semaphore::new(WALKS))
    }
}

impl Turns {
    /// Waits for a turn, for a while.
    pub(super) async fn take(&self) -> Result<SemaphorePermit<'_>, Refused> {
        match tokio::time::timeout(TURN, self.0.acquire()).await {
            Ok(Ok(turn)) => Ok(turn),
            _ => Err(Refused::busy("others walk through the store: come again")),
        }
    }
}

/// Where a walk goes on, as clients hand it back.
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
        number.map(|number| Bookmark(Cursor(number))).map_err(|_| D::Error::custom("no such cursor"))
    }
}

/// Goes through the pages from `from` on until about `limit` were found, and says where to go on.
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
        // Small steps where little is wanted: a step cannot be left in the middle.
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

/// Goes through all of the pages; `see` says whether to go on.
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
