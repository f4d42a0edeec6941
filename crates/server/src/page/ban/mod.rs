//! Bans: which stored responses an expression means.
//!
//! ```text
//! expression = term *( "&&" term )
//! term       = text-field ( "==" | "!=" | "~" | "!~" ) text
//!            / number-field ( "==" | "!=" | "<" | "<=" | ">" | ">=" ) number
//! ```
//!
//! | field | is |
//! |---|---|
//! | `url`, `req.url` | path and query, as the page is stored under |
//! | `host`, `req.http.host` | the host, lower case, without port |
//! | `tag` | any of the page's surrogate keys; `!=` and `!~`: none of them |
//! | `content_type`, `obj.http.content-type` | `==`: the media type without parameters; `~`: the whole value |
//! | `status`, `obj.status` | `404`, or a class: `5xx` |
//! | `age`, `obj.age` | since the origin made it: `90s`, `1h30m`, `2d` |
//! | `size` | of the body: `1000`, `64KiB`, `1MB` |
//!
//! A text is a word or stands in double quotes (`\"` and `\\` inside); behind `~` it is a regular
//! expression, searched for anywhere unless it is anchored. Varnish's names are understood where
//! they mean the same.

mod parse;
#[cfg(test)]
mod tests;

use larder_proto::{
    http::key::{KeyParts, split_behind},
    page::PageView,
};
use regex::bytes::Regex;

use crate::clock::Ms;
pub(crate) use crate::page::ban::parse::Wrong;
pub(crate) use crate::page::ban::parse::seconds;

/// A parsed expression: means everything that satisfies all of its terms.
#[derive(Clone, Debug)]
pub(crate) struct Ban(Vec<Term>);

#[derive(Clone, Debug)]
enum Term {
    Url(Text),
    Host(Text),
    Tag(Text),
    ContentType(Text),
    Status(Number),
    Age(Number),
    Size(Number),
}

/// The operand of a text comparison.
#[derive(Clone, Debug)]
struct Text {
    with: Wanted,
    negated: bool,
}

#[derive(Clone, Debug)]
enum Wanted {
    Same(Vec<u8>),
    Like(Regex),
}

/// The operand of a number comparison: from `low` to `high`, which differ for a class of statuses
/// only.
#[derive(Clone, Copy, Debug)]
struct Number {
    how: How,
    low: u64,
    high: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Equal,
    Unequal,
    Less,
    AtMost,
    More,
    AtLeast,
}

impl Ban {
    /// Reads an expression.
    pub(crate) fn parse(text: &str) -> Result<Ban, Wrong> {
        parse::expression(text).map(Ban)
    }

    /// Whether a response stored under this key could be meant, as far as the key says.
    pub(crate) fn may(&self, key: &KeyParts<'_>) -> bool {
        self.0.iter().all(|term| match term {
            Term::Url(text) => text.fits([path(key)]),
            Term::Host(text) => text.fits([key.host.as_bytes()]),
            _ => true,
        })
    }

    /// Whether this response is meant.
    pub(crate) fn means(&self, key: &KeyParts<'_>, page: &PageView<'_>, now: Ms) -> bool {
        self.0.iter().all(|term| match term {
            Term::Url(text) => text.fits([path(key)]),
            Term::Host(text) => text.fits([key.host.as_bytes()]),
            Term::Tag(text) => text.fits(page.tags),
            Term::ContentType(text) => {
                let value = crate::page::head::field(page.head, "content-type").unwrap_or_default();
                match &text.with {
                    Wanted::Like(_) => text.fits([value]),
                    Wanted::Same(_) => text.fits([media_type(value).as_slice()]),
                }
            }
            Term::Status(number) => number.fits(page.meta.status.into()),
            Term::Age(number) => {
                let resident = now.saturating_sub(page.meta.response_time) / 1000;
                number.fits(resident + u64::from(page.meta.initial_age))
            }
            Term::Size(number) => number.fits(page.content_len()),
        })
    }
}

/// Without what is in a key besides its URL.
fn path<'k>(key: &KeyParts<'k>) -> &'k [u8] {
    split_behind(key.path_and_query).0
}

fn media_type(value: &[u8]) -> Vec<u8> {
    value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii().to_ascii_lowercase()
}

impl Text {
    /// Of several values one must be as wanted; negated, none may be.
    fn fits<'v>(&self, values: impl IntoIterator<Item = &'v [u8]>) -> bool {
        let any = values.into_iter().any(|value| match &self.with {
            Wanted::Same(wanted) => value == wanted.as_slice(),
            Wanted::Like(regex) => regex.is_match(value),
        });
        any != self.negated
    }
}

impl Number {
    fn fits(&self, value: u64) -> bool {
        match self.how {
            How::Equal => (self.low..=self.high).contains(&value),
            How::Unequal => !(self.low..=self.high).contains(&value),
            How::Less => value < self.low,
            How::AtMost => value <= self.high,
            How::More => value > self.high,
            How::AtLeast => value >= self.low,
        }
    }
}
