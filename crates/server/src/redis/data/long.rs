//! Long strings: written in parts directly into the store's memory, without a second copy of the
//! value.
//!
//! The value becomes visible when it is complete, and replaces the one it was computed from. If
//! that has changed meanwhile (by the memcached face or an eviction), the command starts again.

use std::ops::Range;

use larder_proto::resp::Args;
use larder_store::{Entry, Fill, FillOptions, If, Namespace, Put, PutError};

use super::super::{
    ctx::Ctx,
    job::{Job, Progress},
};
use super::Run;
use super::errors::{Outcome, refused};
use crate::{
    clock::Ms,
    room::{Held, Place},
};

/// Values up to this length are written at once: a tenth of a millisecond.
pub(super) const AT_ONCE: u64 = 256 * 1024;
/// Bytes written between two checks of the clock.
pub(super) const PIECE: usize = 64 * 1024;

static ZEROS: [u8; PIECE] = [0; PIECE];

/// Bytes supplied by the command.
pub(super) enum Bytes {
    /// An argument, by position.
    Arg(usize),
    /// A part of an argument.
    Part(usize, Range<usize>),
    Own(Box<[u8]>),
}

impl Bytes {
    fn get<'a>(&'a self, args: &Args<'a>) -> &'a [u8] {
        match self {
            Bytes::Arg(at) => args.get(*at),
            Bytes::Part(at, part) => &args.get(*at)[part.clone()],
            Bytes::Own(bytes) => bytes,
        }
    }
}

/// Composition of a new string: an old one with patches in it, and zeros where there is neither.
pub(super) struct Layout {
    pub(super) old: Option<Entry<'static>>,
    pub(super) len: u64,
    /// Sorted, without overlaps, all before `len`.
    patches: Vec<(u64, Bytes)>,
}

impl Layout {
    pub(super) fn new(old: Option<Entry<'static>>, len: u64) -> Layout {
        Layout { old, len, patches: Vec::new() }
    }

    /// A string that equals the argument at `at`.
    pub(super) fn arg(args: &Args<'_>, at: usize) -> Layout {
        Layout::new(None, args.get(at).len() as u64).with(0, Bytes::Arg(at))
    }

    /// Adds these bytes at `at`, behind all earlier patches.
    pub(super) fn with(mut self, at: u64, bytes: Bytes) -> Layout {
        self.patches.push((at, bytes));
        self
    }

    /// Bytes that belong to the command; they are charged to the clients' memory already.
    fn own(&self, args: &Args<'_>) -> u64 {
        self.patches.iter().map(|(_, bytes)| bytes.get(args).len() as u64).sum()
    }

    /// Some of its bytes from `at` on; `at` must lie before the end.
    fn piece<'a>(&'a self, args: &Args<'a>, at: u64) -> &'a [u8] {
        let next = self.patches.partition_point(|(start, _)| *start <= at);
        if let Some((start, bytes)) = next.checked_sub(1).map(|index| &self.patches[index])
            && let Some(rest) =
                bytes.get(args).get((at - start) as usize..).filter(|rest| !rest.is_empty())
        {
            return &rest[..rest.len().min(PIECE)];
        }
        let end = self.patches.get(next).map_or(self.len, |(start, _)| *start);
        let old = self.old.as_ref().map_or(&[][..], |entry| entry.chunk_at(at));
        let piece = if old.is_empty() { &ZEROS[..] } else { old };
        &piece[..piece.len().min((end - at) as usize).min(PIECE)]
    }
}

/// Condition for storing the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// None.
    Any,
    /// The key must be missing.
    Absent,
    /// The key must exist.
    Present,
    /// The layout's old entry is still present, or the key still missing. Otherwise the command
    /// starts again.
    Same,
}

/// Destination of a value.
#[derive(Clone, Copy)]
pub(super) struct Target {
    pub(super) ns: Namespace,
    /// Position of the key among the arguments.
    pub(super) key: usize,
    pub(super) flags: u32,
    pub(super) expires: Option<Ms>,
    pub(super) condition: Condition,
}

/// Called at the end: true if the value was stored, false if the condition did not hold.
pub(super) type End = Box<dyn FnOnce(&mut Ctx<'_>, &Args<'_>, bool)>;

pub(super) fn store_condition<'e>(
    condition: Condition,
    old: Option<&'e Entry<'static>>,
) -> If<'e, 'static> {
    match condition {
        Condition::Any => If::Always,
        Condition::Absent => If::Absent,
        Condition::Present => If::Present,
        Condition::Same => old.map_or(If::Absent, If::Same),
    }
}

impl Ctx<'_> {
    /// Replaces the string at `key`.
    pub(super) fn target(&self, key: usize, expires: Option<Ms>, condition: Condition) -> Target {
        Target { ns: self.ns, key, flags: 0, expires, condition }
    }

    /// Stores a string. None: another write came first, and the caller must look the key up again
    /// ([`Ctx::retry`]); for a long string `again` does so.
    pub(super) fn write(
        &mut self,
        args: &Args<'_>,
        layout: Layout,
        target: Target,
        again: Run,
        end: End,
    ) -> Outcome<Option<()>> {
        if layout.len > AT_ONCE {
            let writing = StringWriter::begin(self, args, layout, target)?;
            self.go(WriteLong { writing, again, end: Some(end) }, args);
            return Ok(Some(()));
        }
        self.face.turn_time.copied(layout.len);
        let (mut parts, mut at) = (Vec::new(), 0);
        while at < layout.len {
            let piece = layout.piece(args, at);
            parts.push(piece);
            at += piece.len() as u64;
        }
        let Target { ns, key, flags, expires, condition } = target;
        let put = Put { value: &parts, flags, expires, ..Put::default() };
        let only_if = store_condition(condition, layout.old.as_ref());
        match self.store.put(ns, args.get(key), put, only_if, self.now) {
            Ok(_) => end(self, args, true),
            Err(PutError::Exists | PutError::NotFound) if condition == Condition::Same => {
                return Ok(None);
            }
            Err(PutError::Exists | PutError::NotFound) => end(self, args, false),
            Err(error) => return Err(refused(error, args.get(key))),
        }
        Ok(Some(()))
    }

    /// Stores an argument as a string, unconditionally.
    pub(super) fn store_arg(
        &mut self,
        args: &Args<'_>,
        (key, value): (usize, usize),
        expires: Option<Ms>,
        again: Run,
        end: End,
    ) -> Outcome {
        let target = self.target(key, expires, Condition::Any);
        self.write(args, Layout::arg(args, value), target, again, end).map(drop)
    }
}

/// A long string in transfer to the store.
pub(super) struct StringWriter {
    layout: Layout,
    target: Target,
    fill: Option<Fill<'static>>,
    at: u64,
    /// Memory in the store beyond the command's own bytes.
    held: Held,
}

impl StringWriter {
    pub(super) fn begin(
        ctx: &Ctx<'_>,
        args: &Args<'_>,
        layout: Layout,
        target: Target,
    ) -> Outcome<StringWriter> {
        let options = FillOptions {
            flags: target.flags,
            expires: target.expires,
            size_hint: Some(layout.len),
            contiguous: 0,
        };
        let key = args.get(target.key);
        let fill = ctx
            .store
            .fill(target.ns, key, options, ctx.now)
            .map_err(|error| refused(error, key))?;
        let held = Held::new(&ctx.conn.known.client.holder, Place::Store);
        Ok(StringWriter { layout, target, fill: Some(fill), at: 0, held })
    }

    /// Writes the next part. Some: the value was stored (Ok) or refused.
    pub(super) fn step(
        &mut self,
        ctx: &mut Ctx<'_>,
        args: &Args<'_>,
    ) -> Option<Result<(), PutError>> {
        let own = self.layout.own(args);
        while self.at < self.layout.len {
            let piece = self.layout.piece(args, self.at);
            let fill = self.fill.as_mut()?;
            if !self.held.resize(fill.memory(piece.len() as u64).saturating_sub(own)) {
                return Some(Err(PutError::Full));
            }
            if let Err(error) = fill.write(piece) {
                return Some(Err(error));
            }
            self.at += piece.len() as u64;
            if ctx.is_over() {
                return None;
            }
        }
        let Target { flags, expires, condition, .. } = self.target;
        let put = Put { flags, expires, ..Put::default() };
        let only_if = store_condition(condition, self.layout.old.as_ref());
        Some(self.fill.take()?.commit_put(put, only_if, ctx.now).map(drop))
    }
}

struct WriteLong {
    writing: StringWriter,
    again: Run,
    end: Option<End>,
}

impl Job for WriteLong {
    fn step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Progress {
        let Some(result) = self.writing.step(ctx, args) else { return Progress::Again };
        let target = self.writing.target;
        match result {
            Err(PutError::Exists | PutError::NotFound) if target.condition == Condition::Same => {
                (self.again)(ctx, args)
            }
            Ok(()) | Err(PutError::Exists | PutError::NotFound) => {
                if let Some(end) = self.end.take() {
                    end(ctx, args, result.is_ok());
                }
            }
            Err(error) => ctx.settle(Err(refused(error, args.get(target.key))), args),
        }
        Progress::Done
    }
}
