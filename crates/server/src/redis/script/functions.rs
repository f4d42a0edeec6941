//! FCALL and FUNCTION (Redis 7.0: functions.c).

use std::{collections::VecDeque, sync::Arc};

use larder_proto::resp::{
    Args,
    glob::{self, Pattern},
    number::parse_i64,
    rdb::{NoFunctions, read_functions, write_functions},
};
use larder_script::{FLAGS, Task, Work, sha1_hex};

use super::{
    eval,
    job::ScriptJob,
    libraries::{BYTES, Library, Policy},
    running,
    shebang::{self, NO_WRITES},
};
use crate::{
    clock::Ms,
    redis::{ctx::Ctx, dispatch::text},
};

/// Milliseconds that a library may take to load.
const LOAD: Ms = 500;
/// Answer to a library that takes longer.
pub(super) const LATE: &[u8] = b"-ERR Error registering functions: ERR FUNCTION LOAD timeout\r\n";

/// FCALL function numkeys [key ...] [arg ...]
pub(super) fn call(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    run(ctx, args, false);
}

/// FCALL_RO function numkeys [key ...] [arg ...]
pub(super) fn call_read_only(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    run(ctx, args, true);
}

fn run(ctx: &mut Ctx<'_>, args: &Args<'_>, read_only: bool) {
    eval::show(ctx, args);
    let Some((library, function)) = ctx.shared.libraries.function(args.get(1)) else {
        return ctx.reply().error("ERR Function not found");
    };
    let keys = parse_i64(args.get(2)).ok_or("ERR Bad number of keys provided");
    let keys = match keys.and_then(|number| eval::count(args, number)) {
        Ok(keys) => keys,
        Err(text) => return ctx.reply().error(text),
    };
    let writes = function.flags & NO_WRITES == 0;
    if read_only && writes {
        return ctx.reply().error(eval::WRITES);
    }
    let what = (Arc::from(function.name), library.text.clone(), Work::Call(library.id));
    let task = eval::task(ctx, args, what, keys);
    eval::start(ctx, args, task, (!writes, Some(function.flags)));
}

/// Libraries that are loaded, one after the other.
pub(super) struct Loading {
    left: VecDeque<(String, Arc<[u8]>)>,
    current: Option<(String, Arc<[u8]>)>,
    loaded: Vec<Library>,
    policy: Policy,
    /// FUNCTION LOAD: the answer is the library's name.
    answers_name: bool,
    started: Ms,
    pub(super) is_late: bool,
}

impl Loading {
    /// The next task. None: all are loaded.
    pub(super) fn next(&mut self, ctx: &Ctx<'_>) -> Option<Task> {
        self.current = self.left.pop_front();
        self.started = ctx.face.clock.now();
        let (_, text) = self.current.as_ref()?;
        let (name, text) = (sha1_hex(text).into(), text.clone());
        let (keys, args) = Default::default();
        Some(Task { name, text, work: Work::Load, keys, args, version: ctx.version })
    }

    /// The current one has registered its functions.
    pub(super) fn loaded(&mut self, ctx: &Ctx<'_>, functions: Vec<larder_script::Registered>) {
        if let Some((name, text)) = self.current.take() {
            self.loaded.push(ctx.shared.libraries.library(name, text, functions));
        }
    }

    /// Returns whether the current one has taken too long.
    pub(super) fn look(&mut self, now: Ms) -> bool {
        self.is_late |= now.saturating_sub(self.started) > LOAD;
        self.is_late
    }

    /// All are loaded: adds them and answers.
    pub(super) fn end(&mut self, ctx: &mut Ctx<'_>) {
        let loaded = std::mem::take(&mut self.loaded);
        let name = loaded.first().filter(|_| self.answers_name).map(|library| library.name.clone());
        match (ctx.shared.libraries.add(ctx.shared, loaded, self.policy), name) {
            (Err(text), _) => ctx.reply().error(text),
            (Ok(()), Some(name)) => ctx.reply().bulk(name.as_bytes()),
            (Ok(()), None) => ctx.reply().ok(),
        }
    }
}

/// Starts to load libraries.
fn start(
    ctx: &mut Ctx<'_>,
    args: &Args<'_>,
    texts: Vec<(String, Arc<[u8]>)>,
    policy: Policy,
    answers_name: bool,
) {
    let mut loading = Loading {
        left: texts.into(),
        current: None,
        loaded: Vec::new(),
        policy,
        answers_name,
        started: 0,
        is_late: false,
    };
    let Some(task) = loading.next(ctx) else { return loading.end(ctx) };
    let Some(state) = ctx.face.machines.take(ctx.face) else {
        return ctx.reply().error(running::BUSY);
    };
    let job = ScriptJob::loading(ctx, args, state, task, loading);
    ctx.go(job, args);
}

/// FUNCTION LOAD [REPLACE] code
pub(super) fn load(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let mut policy = Policy::Append;
    for at in 2..args.len() - 1 {
        if !args.is(at, "replace") {
            let error = format!("ERR Unknown option given: {}", line(args.get(at)));
            return ctx.reply().error(error);
        }
        policy = Policy::Replace;
    }
    let code = args.get(args.len() - 1);
    let name = match shebang::library(code) {
        Ok(name) => name,
        Err(text) => return ctx.reply().error(text),
    };
    if policy == Policy::Append && ctx.shared.libraries.has(&name) {
        return ctx.reply().error(format!("ERR Library '{name}' already exists"));
    }
    start(ctx, args, vec![(name, code.into())], policy, true);
}

/// An argument in an error, which is one line.
fn line(bytes: &[u8]) -> String {
    text(bytes).replace(['\r', '\n'], " ")
}

/// FUNCTION DELETE library
pub(super) fn delete(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    match ctx.shared.libraries.delete(ctx.shared, args.get(2)) {
        true => ctx.reply().ok(),
        false => ctx.reply().error("ERR Library not found"),
    }
}

/// Redis's answer to a subcommand with too many arguments.
fn too_many(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let name = line(args.get(1));
    ctx.reply().error(format!(
        "ERR unknown subcommand or wrong number of arguments for '{name}'. Try FUNCTION HELP."
    ));
}

/// FUNCTION FLUSH [ASYNC | SYNC]
pub(super) fn flush(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    if args.len() > 3 {
        return too_many(ctx, args);
    }
    if args.len() == 3 && !args.is(2, "sync") && !args.is(2, "async") {
        return ctx.reply().error("ERR FUNCTION FLUSH only supports SYNC|ASYNC option");
    }
    match ctx.shared.libraries.add(ctx.shared, Vec::new(), Policy::Flush) {
        Ok(()) => ctx.reply().ok(),
        Err(text) => ctx.reply().error(text),
    }
}

/// FUNCTION LIST [LIBRARYNAME pattern] [WITHCODE]
pub(super) fn list(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let (mut pattern, mut with_code, mut at) = (None, false, 2);
    while at < args.len() {
        if !with_code && args.is(at, "withcode") {
            with_code = true;
        } else if pattern.is_none() && args.is(at, "libraryname") {
            at += 1;
            if at >= args.len() {
                return ctx.reply().error("ERR library name argument was not given");
            }
            pattern = Some(args.get(at));
        } else {
            return ctx.reply().error(format!("ERR Unknown argument {}", line(args.get(at))));
        }
        at += 1;
    }
    if pattern.is_some_and(|pattern| pattern.len() > glob::LONGEST) {
        return ctx.reply().error(glob::TOO_LONG);
    }
    let mut libraries = ctx.shared.libraries.all();
    if let Some(pattern) = pattern.map(Pattern::new) {
        libraries.retain(|library| pattern.matches(library.name.as_bytes()));
    }
    ctx.reply().array(libraries.len());
    libraries.iter().for_each(|library| describe(ctx, library, with_code));
}

fn describe(ctx: &mut Ctx<'_>, library: &Library, with_code: bool) {
    let mut reply = ctx.reply();
    reply.map(if with_code { 4 } else { 3 });
    reply.bulk(b"library_name");
    reply.bulk(library.name.as_bytes());
    reply.bulk(b"engine");
    reply.bulk(b"LUA");
    reply.bulk(b"functions");
    reply.array(library.functions.len());
    for function in &library.functions {
        reply.map(3);
        reply.bulk(b"name");
        reply.bulk(function.name.as_bytes());
        reply.bulk(b"description");
        match &function.description {
            Some(description) => reply.bulk(description),
            None => reply.null(),
        }
        reply.bulk(b"flags");
        reply.set(function.flags.count_ones() as usize);
        for (at, flag) in FLAGS.iter().enumerate() {
            if function.flags >> at & 1 == 1 {
                reply.simple(flag);
            }
        }
    }
    if with_code {
        reply.bulk(b"library_code");
        reply.bulk(&library.text);
    }
}

/// FUNCTION STATS
pub(super) fn stats(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    let now = ctx.face.clock.now();
    let running = ctx.shared.scripts.running.lock();
    let called =
        running.iter().find_map(|running| Some((running.called.clone()?, running.started)));
    drop(running);
    let (libraries, functions, _) = ctx.shared.libraries.size();
    let mut reply = ctx.reply();
    reply.map(2);
    reply.bulk(b"running_script");
    match called {
        Some((called, started)) => {
            reply.map(3);
            reply.bulk(b"name");
            reply.bulk(called.name.as_bytes());
            reply.bulk(b"command");
            reply.array(called.command.len());
            called.command.iter().for_each(|word| reply.bulk(word));
            reply.bulk(b"duration_ms");
            reply.integer(now.saturating_sub(started) as i64);
        }
        None => reply.null(),
    }
    reply.bulk(b"engines");
    reply.map(1);
    reply.bulk(b"LUA");
    reply.map(2);
    for (name, count) in [("libraries_count", libraries), ("functions_count", functions)] {
        reply.bulk(name.as_bytes());
        reply.count(count);
    }
}

/// FUNCTION KILL
pub(super) fn kill(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    match running::kill(ctx.shared, true) {
        Ok(()) => ctx.reply().ok(),
        Err(text) => ctx.reply().error(text),
    }
}

/// FUNCTION DUMP
pub(super) fn dump(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    let libraries = ctx.shared.libraries.all();
    let payload = write_functions(libraries.iter().map(|library| &library.text[..]));
    ctx.reply().bulk(&payload);
}

/// FUNCTION RESTORE payload [FLUSH | APPEND | REPLACE]
pub(super) fn restore(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    if args.len() > 4 {
        return too_many(ctx, args);
    }
    let policy = match () {
        () if args.len() == 3 || args.is(3, "append") => Policy::Append,
        () if args.is(3, "replace") => Policy::Replace,
        () if args.is(3, "flush") => Policy::Flush,
        () => {
            return ctx.reply().error(
                "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
            );
        }
    };
    let texts = match read_functions(args.get(2), BYTES) {
        Ok(texts) => texts,
        Err(why) => {
            return ctx.reply().error(match why {
                NoFunctions::Sum => "ERR DUMP payload version or checksum are wrong",
                NoFunctions::Type => "ERR given type is not a function",
                NoFunctions::Text => "ERR Failed loading library data",
            });
        }
    };
    let mut named: Vec<(String, Arc<[u8]>)> = Vec::new();
    for text in texts {
        match shebang::library(&text) {
            Ok(name) if named.iter().any(|(other, _)| *other == name) => {
                return ctx.reply().error(format!("ERR Library '{name}' already exists"));
            }
            Ok(name) => named.push((name, text.into())),
            Err(error) => return ctx.reply().error(error),
        }
    }
    start(ctx, args, named, policy, false);
}
