//! A script in progress.

use std::sync::Arc;

use larder_proto::resp::{Args, Owned, Version, table::Command};
use larder_script::{Event, Task, Work};

use super::{
    functions::{LATE, Loading},
    machines::State,
    running::{Called, Running},
    shebang::ALLOW_OOM,
};
use crate::{
    clock::Ms,
    net::out::Out,
    redis::{
        ctx::Ctx,
        dispatch,
        job::{Begun, Job, Progress},
        locks::{KeptStripes, WantedStripes},
        slowlog,
        state::gate,
    },
};

/// Error if there is no memory for a script's state.
const NO_ROOM: &[u8] =
    b"-OOM command not allowed when used memory > 'maxmemory'. There is no room for the script\r\n";

/// The next action of a script.
pub(super) enum Next {
    Start(Box<Task>),
    Go,
    Reply(Vec<u8>),
    /// A command that waits for a key which somebody else has.
    Call(Box<Owned>, Version),
    /// A command in steps.
    Command(Box<Begun>, Owned),
}

/// A script in progress. It holds the keys that it has declared until it ends, and every further
/// one from its first use on.
pub(super) struct ScriptJob {
    state: Option<State>,
    next: Option<Next>,
    pub(super) read_only: bool,
    /// It may write when the memory is full (`allow-oom`).
    pub(super) allows_full: bool,
    /// The time for all its commands.
    pub(super) now: Ms,
    /// Database, which SELECT changes for the script alone.
    pub(super) db: u8,
    /// Replies of its commands.
    pub(super) out: Out,
    pub(super) held: WantedStripes,
    /// Its declared keys, if its client is to be told of their changes once it has read (Redis:
    /// whichever key it reads).
    pub(super) tracked: Vec<Vec<u8>>,
    /// The stripes of its declared keys.
    declared: WantedStripes,
    /// Hash of the script, by which it is known to use no others; 0: it is no script.
    hash: u64,
    /// Libraries that it loads.
    loading: Option<Loading>,
    /// The function that it calls.
    function: Option<Arc<str>>,
    /// It has used a key that it had not declared.
    pub(super) strayed: bool,
    pub(super) more: Vec<KeptStripes>,
    pub(super) wrote: bool,
    /// Known to others once it takes longer than a step.
    running: Option<Arc<Running>>,
    /// It has ended for want of memory.
    is_out_of_room: bool,
}

impl ScriptJob {
    pub(super) fn new(
        ctx: &Ctx<'_>,
        args: &Args<'_>,
        state: State,
        task: Task,
        (read_only, flags): (bool, Option<u8>),
    ) -> ScriptJob {
        let mut held = ctx.conn.exec_stripes.as_deref().cloned().unwrap_or_default();
        if ctx.conn.exec_stripes.is_none()
            && let Some(command) = command(args)
        {
            dispatch::want(&ctx.shared.locks, &mut held, command, args);
        }
        let mut declared = WantedStripes::default();
        task.keys.iter().for_each(|key| declared.key(key));
        let remembers = ctx.conn.gates & gate::TRACKING != 0 && ctx.conn.remembers;
        let tracked = if remembers { task.keys.clone() } else { Vec::new() };
        let hash =
            command(args).map_or(0, |command| ctx.shared.locks.declared.hash(command.id, args));
        let is_call = matches!(task.work, Work::Call(_));
        ScriptJob {
            loading: None,
            function: is_call.then(|| task.name.clone()),
            state: Some(state),
            next: Some(Next::Start(Box::new(task))),
            read_only,
            allows_full: flags.is_some_and(|flags| flags & ALLOW_OOM != 0),
            now: ctx.now,
            db: ctx.db,
            out: Out::default(),
            held,
            tracked,
            declared,
            hash,
            strayed: false,
            more: Vec::new(),
            wrote: false,
            running: None,
            is_out_of_room: false,
        }
    }

    /// A job that loads libraries.
    pub(super) fn loading(
        ctx: &Ctx<'_>,
        args: &Args<'_>,
        state: State,
        task: Task,
        loading: Loading,
    ) -> ScriptJob {
        let job = ScriptJob::new(ctx, args, state, task, (true, None));
        ScriptJob { loading: Some(loading), hash: 0, ..job }
    }

    /// It is about to write, and cannot be killed from now on. False: it is killed.
    pub(super) fn may_write(&mut self) -> bool {
        let may = self.running.as_ref().is_none_or(|running| running.writes());
        self.wrote |= may;
        may
    }

    /// Notes the stripes that a command needs.
    pub(super) fn uses(&mut self, wanted: &WantedStripes) {
        self.strayed |= !self.declared.cover(wanted);
    }

    /// Goes on until the step is over, or the script has ended.
    fn run(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Progress {
        let Some(mut state) = self.state.take() else { return Progress::Done };
        state.until.set(ctx.face.until.get());
        loop {
            let event = match self.next.take() {
                Some(Next::Start(task)) => state.machine.start(*task),
                Some(Next::Go) | None => state.machine.resume(),
                Some(Next::Reply(bytes)) => state.machine.reply(bytes),
                Some(Next::Call(owned, version)) => {
                    self.next = self.call(ctx, *owned, version);
                    if matches!(self.next, Some(Next::Call(..))) || ctx.is_over() {
                        break;
                    }
                    continue;
                }
                Some(Next::Command(begun, owned)) => {
                    self.next = self.step_command(ctx, begun, owned);
                    if ctx.is_over() {
                        break;
                    }
                    continue;
                }
            };
            match event {
                Event::Call(owned, version) => {
                    self.next = Some(Next::Call(Box::new(owned), version));
                }
                Event::Check(owned) => {
                    self.next = Some(Next::Reply(super::calls::check(ctx, &owned)))
                }
                Event::Log(..) => self.next = Some(Next::Go),
                Event::Slice => {
                    self.next = Some(Next::Go);
                    if ctx.is_over() {
                        break;
                    }
                }
                Event::Done(reply) => {
                    let next = self.load_next(ctx, &mut state, &reply);
                    if next.is_none() {
                        self.end(ctx, state, &reply);
                        return Progress::Done;
                    }
                    self.next = next;
                    if ctx.is_over() {
                        break;
                    }
                }
            }
        }
        self.state = Some(state);
        self.pause(ctx, args);
        Progress::Again
    }

    /// Goes on with the next library, if one was loaded. None: there is none.
    fn load_next(&mut self, ctx: &Ctx<'_>, state: &mut State, reply: &[u8]) -> Option<Next> {
        let loading =
            self.loading.as_mut().filter(|loading| reply.is_empty() && !loading.is_late)?;
        loading.loaded(ctx, state.machine.take_registered());
        loading.next(ctx).map(|task| Next::Start(Box::new(task)))
    }

    /// The step is over: others learn of the script, and it of others.
    fn pause(&mut self, ctx: &Ctx<'_>, args: &Args<'_>) {
        let (shared, wrote) = (ctx.shared, self.wrote);
        let (client, now) = (ctx.conn.known.id(), ctx.face.clock.now());
        let is_killed = match &mut self.loading {
            Some(loading) => loading.look(now),
            None => {
                let function = &self.function;
                let called = || {
                    let name = function.clone()?;
                    Some(Called { name, command: slowlog::shortened(args) })
                };
                let running = self
                    .running
                    .get_or_insert_with(|| Running::enter(shared, called(), (client, now), wrote));
                running.look(shared, now);
                running.is_killed(shared)
            }
        };
        let Some(state) = &mut self.state else { return };
        self.is_out_of_room |= !state.hold();
        if is_killed || self.is_out_of_room {
            state.machine.kill();
            if let Some(Next::Call(..)) = self.next {
                // It waits for a key no longer.
                self.next = Some(Next::Reply(b"-ERR killed\r\n".to_vec()));
            }
        }
    }

    /// The script has ended.
    fn end(&mut self, ctx: &mut Ctx<'_>, state: State, reply: &[u8]) {
        if let Some(running) = self.running.take() {
            running.leave(ctx.shared);
        }
        self.stop_waiting(ctx);
        if self.hash > 0 {
            ctx.shared.locks.declared.learn(self.hash, self.strayed);
        }
        self.more.clear();
        ctx.conn.is_passed_on = state.machine.is_passed_on();
        ctx.face.machines.give(state);
        let reply = match &mut self.loading {
            Some(loading) if loading.is_late => LATE,
            Some(loading) if reply.is_empty() && !self.is_out_of_room => return loading.end(ctx),
            _ if self.is_out_of_room => NO_ROOM,
            _ => reply,
        };
        ctx.out.scratch().extend_from_slice(reply);
    }

    /// Continues a command in steps that the script has called.
    fn step_command(
        &mut self,
        ctx: &mut Ctx<'_>,
        mut begun: Box<Begun>,
        owned: Owned,
    ) -> Option<Next> {
        let mut own = Ctx::new(ctx.face, ctx.conn, self.now, &mut self.out);
        let mut progress = begun.job.step(&mut own, &owned.args());
        if let Some(again) = ctx.conn.begun.take() {
            (begun, progress) = (again, Progress::Again);
        }
        if progress != Progress::Done {
            return Some(Next::Command(begun, owned));
        }
        Some(Next::Reply(self.replied(ctx)))
    }

    /// The reply of the command that has ended. One that is too long may lack its end.
    pub(super) fn replied(&mut self, ctx: &Ctx<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        if ctx.is_too_long(&self.out) {
            self.out = Out::default();
            return b"-ERR the reply is too long for a script\r\n".to_vec();
        }
        // Writing to memory does not fail.
        let _ = self.out.send(&mut bytes);
        bytes
    }
}

/// The command that runs the script.
fn command(args: &Args<'_>) -> Option<&'static Command> {
    larder_proto::resp::table::find(args.get(0))
}

impl Job for ScriptJob {
    fn step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Progress {
        // The first look at the time starts the step.
        ctx.is_over();
        let conn = &mut ctx.conn;
        let outer = (conn.version, conn.db, conn.in_exec, conn.in_script);
        (conn.in_exec, conn.in_script) = (true, true);
        let progress = self.run(ctx, args);
        let conn = &mut ctx.conn;
        (conn.version, conn.db, conn.in_exec, conn.in_script) = outer;
        conn.ns = ctx.shared.namespace(conn.db);
        progress
    }
}
