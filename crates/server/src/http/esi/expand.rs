//! From the plan of a page to the segments of one answer.

use std::{collections::HashMap, rc::Rc};

use bytes::Bytes;
use larder_proto::esi::{Escape, Facts, Include, Node, Value};

use super::{Arrived, Budget, Failed, Missing, Piece, Segment, TOO_LONG, Text, part};

/// Parts that lie in the page itself, by their names.
type Inlines = HashMap<Box<[u8]>, Vec<Node>>;

/// Appends what the nodes of a page are for its request; the parts that are missing are requested.
pub(super) fn expand(
    text: &Rc<Text>,
    nodes: Vec<Node>,
    out: &mut Vec<Segment>,
) -> Result<(), Missing> {
    let mut inlines = Inlines::new();
    for node in &nodes {
        if let Node::Inline(name, nodes) = node {
            inlines.insert(name.clone(), nodes.clone());
        }
    }
    let pages = text.budget.pages.clone();
    text.request.with(&pages, |request| {
        request.with_facts(|facts| {
            let walked = Walk { text, facts, inlines: &inlines, depth: text.depth };
            let expanded = walked.nodes(nodes, out);
            if facts.personal.get() {
                text.budget.private.set(true);
            }
            expanded
        })
    })
}

/// The pieces of an answer all of whose parts are there; None: some are not.
pub(super) fn pieces(budget: &Budget, segments: Vec<Segment>) -> Option<Vec<Piece>> {
    let mut out = Vec::with_capacity(segments.len());
    for segment in segments {
        match segment {
            Segment::Piece(piece) => out.push(piece),
            Segment::Arrived(Arrived::Failed(failed)) => out.extend(instead(budget, &failed)),
            Segment::Arrived(Arrived::Segments(inner)) => out.extend(pieces(budget, inner)?),
            Segment::Arrived(_) | Segment::Part(_) | Segment::Try(..) => return None,
        }
    }
    Some(out)
}

/// The piece that is sent in place of a part that failed.
pub(super) fn instead(budget: &Budget, failed: &Failed) -> Option<Piece> {
    budget.pages.counters.parts_failed.one();
    let comment = || {
        // Visitors choose some of these bytes: none ends the comment.
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || "/._~%?=&:,-".contains(c) { c } else { '_' }
        };
        let src: String = failed.src.chars().map(plain).collect();
        let src = src.replace("--", "__");
        format!("<!-- no part {src} ({}) -->", failed.status)
    };
    budget.limits.comment.then(|| Piece::Ready(Bytes::from(comment())))
}

struct Walk<'w> {
    text: &'w Rc<Text>,
    facts: &'w Facts<'w>,
    inlines: &'w Inlines,
    /// How deep its nodes lie in other pages, and in parts of the page itself.
    depth: u32,
}

impl Walk<'_> {
    fn nodes(&self, nodes: Vec<Node>, out: &mut Vec<Segment>) -> Result<(), Missing> {
        for node in nodes {
            match node {
                Node::Text(from, to) => {
                    out.push(Segment::Piece(self.text.source.piece(from, to)));
                }
                Node::Vars(value) => {
                    let text = self.value(&value, Escape::Html);
                    out.push(Segment::Piece(Piece::Ready(Bytes::from(text))));
                }
                Node::Include(include) => self.include(&include, out)?,
                Node::Try(attempt, except) => self.attempt(attempt, except, out)?,
                Node::Choose(branches) => {
                    let chosen = branches
                        .into_iter()
                        .find(|(test, _)| test.as_ref().is_none_or(|test| test.holds(self.facts)));
                    if let Some((_, nodes)) = chosen {
                        self.nodes(nodes, out)?;
                    }
                }
                Node::Inline(..) => {}
            }
        }
        Ok(())
    }

    fn value(&self, value: &Value, escape: Escape) -> Vec<u8> {
        let mut out = Vec::new();
        value.write(self.facts, escape, &mut out);
        out
    }

    fn include(&self, include: &Include, out: &mut Vec<Segment>) -> Result<(), Missing> {
        let budget = &self.text.budget;
        let src = self.value(&include.src, Escape::Target);
        let alt = include.alt.as_ref().map(|alt| self.value(alt, Escape::Target));
        let fails = |status| {
            let src = String::from_utf8_lossy(&src).into_owned();
            Segment::Arrived(Arrived::Failed(Failed { status, src }))
        };
        let Some(left) = budget.left.get().checked_sub(1) else {
            out.push(fails(TOO_LONG));
            return Ok(());
        };
        budget.left.set(left);
        if self.depth >= budget.limits.depth {
            out.push(fails(TOO_LONG));
            return Ok(());
        }
        if let Some(nodes) = self.inlines.get(&src[..]) {
            if !budget.takes(nodes) {
                out.push(fails(TOO_LONG));
                return Ok(());
            }
            return Walk { depth: self.depth + 1, ..*self }.nodes(nodes.clone(), out);
        }
        budget.pages.counters.parts.one();
        let wanted = part::Wanted {
            places: std::iter::once(src).chain(alt).collect(),
            ttl: include.ttl,
            grace: include.grace,
        };
        match part::begin(self.text, wanted)? {
            Segment::Arrived(Arrived::Failed(_)) if include.continues => {}
            Segment::Part(part) if include.continues => {
                out.push(Segment::Part(part::continuing(part)));
            }
            segment => out.push(segment),
        }
        Ok(())
    }

    fn attempt(
        &self,
        attempt: Vec<Node>,
        except: Vec<Node>,
        out: &mut Vec<Segment>,
    ) -> Result<(), Missing> {
        let mut segments = Vec::new();
        self.nodes(attempt, &mut segments)?;
        let failed = |segment: &Segment| matches!(segment, Segment::Arrived(Arrived::Failed(_)));
        let waits = |segment: &Segment| matches!(segment, Segment::Part(_) | Segment::Try(..));
        if segments.iter().any(failed) {
            return self.nodes(except, out);
        }
        if segments.iter().any(waits) {
            out.push(Segment::Try(segments, self.text.clone(), except));
        } else {
            out.append(&mut segments);
        }
        Ok(())
    }
}
