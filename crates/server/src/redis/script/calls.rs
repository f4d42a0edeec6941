//! Commands that a script calls.
//!
//! A script that is known to use its declared keys alone ([`super::declared`]) has their stripes,
//! any other has all. If it uses another key nevertheless, its stripe is taken, if it is free, and
//! kept until the script ends. If somebody has it, the script waits. Scripts that wait hold
//! stripes, so two of them could wait for each other for ever: only one script of the process may
//! wait at a time. A second one does not wait, and its command runs all the same: that command is
//! not isolated from the one that holds the key.

use larder_proto::resp::{
    Args, Owned, Version,
    table::{self, flag},
};

use super::job::{Next, ScriptJob};
use crate::redis::{
    acl, attention,
    ctx::Ctx,
    dispatch::{self, Found},
    locks::WantedStripes,
    pause, refusals,
    state::gate,
};

const UNKNOWN: &str = "ERR Unknown Redis command called from script";
const WRONG_NUMBER: &str = "ERR Wrong number of args calling Redis command from script";
const NOT_ALLOWED: &str = "ERR This Redis command is not allowed from script";
const READ_ONLY: &str = "ERR Write commands are not allowed from read-only scripts.";

impl ScriptJob {
    /// Executes a command.
    pub(super) fn call(
        &mut self,
        ctx: &mut Ctx<'_>,
        owned: Owned,
        version: Version,
    ) -> Option<Next> {
        let args = owned.args();
        let found = match self.may_run(ctx, &args) {
            Ok(found) => found,
            Err(text) => {
                let found = dispatch::find(ctx.face, &args).map(|found| found.command).ok();
                if let Some(command) = found.or_else(|| table::find(args.get(0))) {
                    ctx.face.counters.commands[command.id as usize].rejected.one();
                }
                ctx.face.counters.error(text.as_bytes());
                return Some(Next::Reply(format!("-{text}\r\n").into_bytes()));
            }
        };
        if found.command.has(flag::WRITE | flag::READONLY) && !self.has_keys(ctx, found, &args) {
            return Some(Next::Call(Box::new(owned), version));
        }
        if found.command.has(flag::WRITE) && !self.may_write() {
            return Some(Next::Reply(b"-ERR killed\r\n".to_vec()));
        }
        if found.command.has(flag::READONLY) && !self.tracked.is_empty() {
            ctx.conn.remembers = true;
            ctx.remember(std::mem::take(&mut self.tracked).iter().map(Vec::as_slice));
        }
        // The hint belongs to the command that runs the script.
        ctx.face.hint.set(None);
        ctx.conn.version = version;
        // Its place may have changed before the script had a key.
        (ctx.conn.db, ctx.conn.ns) = (self.db, ctx.shared.namespace(self.db));
        dispatch::call(ctx.face, ctx.conn, found, &args, self.now, &mut self.out);
        self.db = ctx.conn.db;
        if let Some(begun) = ctx.conn.begun.take() {
            return Some(Next::Command(begun, owned));
        }
        Some(Next::Reply(self.replied(ctx)))
    }

    /// The command, if a script may call it; else the error (script.c, `scriptCall`).
    fn may_run(&self, ctx: &Ctx<'_>, args: &Args<'_>) -> Result<Found, String> {
        let found = dispatch::find(ctx.face, args).map_err(|text| {
            let text = String::from_utf8_lossy(&text).into_owned();
            match text {
                _ if text.starts_with("ERR wrong number") => WRONG_NUMBER.into(),
                _ if text.starts_with("ERR unknown") => UNKNOWN.into(),
                _ => text,
            }
        })?;
        if found.command.has(flag::NOSCRIPT) {
            return Err(NOT_ALLOWED.into());
        }
        if ctx.conn.gates & gate::RESTRICTED != 0 {
            acl::check_in_script(ctx.shared, ctx.conn, found.command, args)?;
        }
        if self.read_only && pause::changes(found.command) {
            return Err(READ_ONLY.into());
        }
        if attention::any(ctx.shared, attention::REFUSALS)
            && !self.wrote
            && let Some(text) = refusals::in_script(ctx.shared, found.command, self.allows_full)
        {
            return Err(text.into());
        }
        Ok(found)
    }

    /// Takes the stripes of the command's keys. False: the command must wait.
    fn has_keys(&mut self, ctx: &Ctx<'_>, found: Found, args: &Args<'_>) -> bool {
        let mut wanted = WantedStripes::default();
        dispatch::want(&ctx.shared.locks, &mut wanted, found.command, args);
        self.uses(&wanted);
        match ctx.shared.locks.add(&ctx.face.shared, &mut self.held, &wanted) {
            Ok(kept) => {
                self.more.extend(kept);
                self.stop_waiting(ctx);
                true
            }
            Err(()) => {
                let mut waits = ctx.shared.scripts.waits.lock();
                let client = ctx.conn.known.id();
                *waits.get_or_insert(client) != client
            }
        }
    }

    /// Another script may wait.
    pub(super) fn stop_waiting(&self, ctx: &Ctx<'_>) {
        let mut waits = ctx.shared.scripts.waits.lock();
        if *waits == Some(ctx.conn.known.id()) {
            *waits = None;
        }
    }
}

/// `redis.acl_check_cmd`: may the user run this command? Nothing: there is no such command.
pub(super) fn check(ctx: &Ctx<'_>, owned: &Owned) -> Vec<u8> {
    match acl::may_call(ctx.conn, owned) {
        Some(true) => b"1".to_vec(),
        Some(false) => b"0".to_vec(),
        None => Vec::new(),
    }
}
