//! Comparison of received articles with the originals.

use std::{
    net::SocketAddr,
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use super::{
    error::Error,
    fetch,
    web::LONGEST_PAGE,
    wiki::{Article, HOST},
};
use crate::interrupt;

/// Marks the start of the article in MediaWiki's page, at its title.
const BEGIN: &[u8] = b"id=\"firstHeading\"";
/// Marks its end: the text after it contains times and numbers of the rendering request.
const END: &[u8] = b"<!-- \nNewPP limit report";
/// Faults described in the report; further ones are only counted.
const DESCRIBED: usize = 3;

/// Every article as first rendered by the wiki, without a cache.
#[derive(Debug)]
pub(super) struct OriginalArticles(Vec<Vec<u8>>);

/// Result of comparing articles.
#[derive(Clone, Debug, Default)]
pub(super) struct Round {
    /// Number of correct articles.
    pub(super) right: usize,
    /// Descriptions of the first faults.
    pub(super) faults: Vec<String>,
}

/// The article in a page.
fn article(page: &[u8]) -> Option<&[u8]> {
    let begin = memchr::memmem::find(page, BEGIN)?;
    let length = memchr::memmem::find(&page[begin..], END)?;
    Some(&page[begin..begin + length])
}

/// Fetches each article once by `get`, `users` at a time; returns what it gave in order.
fn ask(
    get: impl Fn(&str) -> Result<Vec<u8>, String> + Sync,
    articles: &[&Article],
    users: usize,
) -> Vec<Result<Vec<u8>, String>> {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(vec![Err("not asked".to_owned()); articles.len()]);
    thread::scope(|scope| {
        for _ in 0..users.min(articles.len()) {
            scope.spawn(|| {
                while let Some((at, wanted)) = {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    articles.get(at).map(|wanted| (at, wanted))
                } {
                    let got = get(&wanted.path);
                    found.lock().unwrap_or_else(PoisonError::into_inner)[at] = got;
                }
            });
        }
    });
    found.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// The bytes of an article.
fn one(addr: SocketAddr, path: &str) -> Result<Vec<u8>, String> {
    let page = page(addr, path)?;
    let article = article(&page).ok_or_else(|| format!("{path}: no article in the page"))?;
    Ok(article.to_vec())
}

/// The page of an article.
fn page(addr: SocketAddr, path: &str) -> Result<Vec<u8>, String> {
    if interrupt::requested() {
        return Err(format!("{path}: interrupted"));
    }
    let answer = fetch::get(addr, HOST, path, Duration::from_secs(LONGEST_PAGE));
    let answer = answer.map_err(|e| format!("{path}: {e}"))?;
    if answer.status != 200 {
        return Err(format!("{path}: status {}", answer.status));
    }
    Ok(answer.body)
}

/// Writes the page of each article to a file of this directory, by its number.
pub(super) fn save(
    addr: SocketAddr,
    articles: &[Article],
    users: usize,
    dir: &Path,
) -> Result<(), Error> {
    std::fs::create_dir_all(dir).map_err(|e| Error::file(dir, e))?;
    let all: Vec<_> = articles.iter().collect();
    let pages = ask(|path| page(addr, path), &all, users);
    for (number, page) in pages.into_iter().enumerate() {
        let file = dir.join(format!("{number}.html"));
        std::fs::write(&file, page.map_err(Error::Other)?).map_err(|e| Error::file(&file, e))?;
    }
    Ok(())
}

impl OriginalArticles {
    /// Renders every article once.
    pub(super) fn take(
        addr: SocketAddr,
        articles: &[Article],
        users: usize,
    ) -> Result<OriginalArticles, String> {
        let all: Vec<_> = articles.iter().collect();
        let originals: Vec<Vec<u8>> =
            ask(|path| one(addr, path), &all, users).into_iter().collect::<Result<_, _>>()?;
        Ok(OriginalArticles(originals))
    }

    /// Fetches and compares every `step`th article.
    pub(super) fn compare(
        &self,
        addr: SocketAddr,
        articles: &[Article],
        users: usize,
        step: usize,
    ) -> Round {
        let wanted: Vec<_> = articles.iter().step_by(step.max(1)).collect();
        let originals = self.0.iter().step_by(step.max(1));
        let mut round = Round::default();
        for ((got, original), wanted) in
            ask(|path| one(addr, path), &wanted, users).into_iter().zip(originals).zip(&wanted)
        {
            match got {
                Ok(article) if article == *original => round.right += 1,
                Ok(_) => round.fault(format!(
                    "{}: not the article that the wiki rendered first",
                    wanted.path
                )),
                Err(fault) => round.fault(fault),
            }
        }
        round
    }
}

impl Round {
    fn fault(&mut self, what: String) {
        if self.faults.len() < DESCRIBED {
            self.faults.push(what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_article_is_what_does_not_change_from_render_to_render() {
        let page = |request: &str| {
            format!(
                "<script>{request}</script><h1 id=\"firstHeading\">T</h1>text<!-- \nNewPP limit \
                 report\n{request}"
            )
        };
        let (first, second) = (page("1"), page("2"));
        assert_eq!(article(first.as_bytes()), article(second.as_bytes()));
        assert_eq!(article(first.as_bytes()), Some(b"id=\"firstHeading\">T</h1>text".as_slice()));
        assert_eq!(article(b"<h1 id=\"firstHeading\">cut off"), None);
    }
}
