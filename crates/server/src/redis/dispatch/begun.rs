//! Commands that go on in steps: stored after the first, continued until the last.

use larder_proto::resp::{
    Args,
    table::{self, Command, flag},
};

use super::{Guard, failed};
use crate::{
    clock::Ms,
    net::out::Out,
    redis::{
        ctx::Ctx,
        job::{self, Begun, Progress, Running},
        shared::Face,
        state::Conn,
        untold, waiting,
    },
    room::{Held, Place},
};

/// Stores a command that has more to do; it continues after other clients were served.
#[cold]
pub(super) fn goes_on(face: &Face, conn: &mut Conn, guard: Guard<'_>, args: &Args<'_>) {
    let ended = || Box::new(Begun { job: Box::new(untold::Rest), progress: Progress::Again });
    let mut begun = conn.begun.take().unwrap_or_else(ended);
    if face.has_untold() {
        begun.progress = Progress::Again;
    }
    let kept = match guard {
        Guard::One(one) if !begun.job.is_apart() => Some(one.keep(&face.shared)),
        Guard::Many(held) if !begun.job.is_apart() => Some(held.keep(&face.shared)),
        _ => None,
    };
    let owned = (!conn.stays).then(|| args.to_owned());
    let held = Held::new(&conn.known.client.holder, Place::Heap);
    let untold = Default::default();
    let (micros, is_silent, ready) = (0, true, face.ready.take());
    let mut running = Running { begun, owned, kept, untold, held, ready, micros, is_silent };
    running.take_untold(face, &conn.known.client);
    conn.running = Some(Box::new(running));
}

/// Continues a command. True: it has ended, and is answered.
#[cold]
pub(crate) fn resume(
    face: &Face,
    conn: &mut Conn,
    running: &mut Running,
    args: &Args<'_>,
    now: Ms,
    out: &mut Out,
) -> bool {
    let start = face.clock.micros();
    let at = out.scratch().len();
    face.until.set(start + job::STEP);
    face.ready.replace(std::mem::take(&mut running.ready));
    let mut ctx = Ctx::new(face, conn, now, out);
    let mut progress = match running.untold.deliver(face) {
        true => Progress::Again,
        false => running.begun.job.step(&mut ctx, args),
    };
    if let Some(again) = conn.begun.take() {
        // Another write came first; the command has started again.
        progress = again.progress;
        running.begun = again;
    }
    if progress == Progress::Done {
        if conn.blocked.is_some() {
            waiting::ended(face, conn);
        }
        waiting::serve(face, conn, now, out);
        if let Some(serving) = conn.begun.take() {
            progress = serving.progress;
            running.begun = serving;
        }
    }
    running.ready = face.ready.take();
    face.tell_gathered(conn.known.id());
    running.take_untold(face, &conn.known.client);
    if !running.untold.is_empty() {
        if progress == Progress::Done {
            (running.begun.job, running.kept) = (Box::new(untold::Rest), None);
        }
        progress = Progress::Again;
    }
    running.begun.progress = progress;
    let micros = face.clock.micros().saturating_sub(start);
    running.micros += micros;
    face.turn_time.took(micros);
    let Some(command) = running_command(args).filter(|_| progress == Progress::Done) else {
        running.is_silent &= out.scratch().len() == at;
        return progress == Progress::Done;
    };
    if running.is_silent && out.scratch().get(at) == Some(&b'-') {
        failed(face, conn, command, &out.scratch()[at + 1..]);
    }
    face.counters.commands[command.id as usize].micros.add(running.micros);
    if running.micros >= face.shared.config.slowlog_micros() && !command.has(flag::SKIP_SLOWLOG) {
        super::slow(&face.shared, conn, args, (now, running.micros));
    }
    let second = face.wall_micros() / 1_000_000;
    face.shared.events.took(&face.shared.config, command, second, running.micros);
    true
}

fn running_command(args: &Args<'_>) -> Option<&'static Command> {
    let command = table::find(args.get(0))?;
    Some(
        command
            .subcommand(args.get(1))
            .filter(|_| !command.subcommands.is_empty())
            .unwrap_or(command),
    )
}
