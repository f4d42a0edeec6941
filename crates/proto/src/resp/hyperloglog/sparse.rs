//! The sparse form: `00llllll` (ZERO: 1 to 64 registers), `01llllll llllllll` (XZERO: 1 to 16,384),
//! `1vvvvvll` (VAL: 1 to 4 registers of the value 1 to 32).

use super::{Corrupted, HEAD, REGISTERS};

/// Greatest value of a register.
const MAX_VALUE: u8 = 32;
/// Most registers of a VAL and of a ZERO.
const MAX_VAL: usize = 4;
const MAX_ZERO: usize = 64;
/// Longest sparse value that is written, in bytes (Redis: `hll-sparse-max-bytes`).
const MOST: usize = 3000;
/// Runs that are looked at for neighbours to be joined.
const JOINED: usize = 5;

/// A run of registers: their number, their value, its bytes.
#[derive(Clone, Copy)]
struct Run {
    len: usize,
    value: u8,
    bytes: usize,
}

fn run(bytes: &[u8], at: usize) -> Result<Run, Corrupted> {
    let byte = *bytes.get(at).ok_or(Corrupted)?;
    let low = usize::from(byte & 0x3f);
    Ok(match byte >> 6 {
        0 => Run { len: low + 1, value: 0, bytes: 1 },
        1 => {
            let more = usize::from(*bytes.get(at + 1).ok_or(Corrupted)?);
            Run { len: (low << 8 | more) + 1, value: 0, bytes: 2 }
        }
        _ => Run { len: usize::from(byte & 3) + 1, value: (byte >> 2 & 0x1f) + 1, bytes: 1 },
    })
}

fn val(value: u8, len: usize) -> u8 {
    0x80 | (value - 1) << 2 | (len - 1) as u8
}

/// Appends a run of zeros.
pub(super) fn push_zeros(out: &mut Vec<u8>, len: usize) {
    let less = len - 1;
    if len > MAX_ZERO {
        out.extend_from_slice(&[0x40 | (less >> 8) as u8, less as u8]);
    } else {
        out.push(less as u8);
    }
}

/// Calls `f` with the first register, the number and the value of each run that is not zero.
pub(super) fn each_run(bytes: &[u8], mut f: impl FnMut(usize, usize, u8)) -> Result<(), Corrupted> {
    let (mut at, mut register) = (0, 0);
    while at < bytes.len() {
        let Run { len, value, bytes } = run(bytes, at)?;
        if register + len > REGISTERS {
            return Err(Corrupted);
        }
        if value > 0 {
            f(register, len, value);
        }
        (at, register) = (at + bytes, register + len);
    }
    if register == REGISTERS { Ok(()) } else { Err(Corrupted) }
}

/// The runs as text: `z:` and `Z:` with a number of zeros, `v:` with a value and a number.
pub(super) fn shown(bytes: &[u8]) -> Result<String, Corrupted> {
    let (mut at, mut words) = (0, Vec::new());
    while at < bytes.len() {
        let Run { len, value, bytes } = run(bytes, at)?;
        words.push(match (value, bytes) {
            (0, 1) => format!("z:{len}"),
            (0, _) => format!("Z:{len}"),
            _ => format!("v:{value},{len}"),
        });
        at += bytes;
    }
    Ok(words.join(" "))
}

/// Raises a register of a whole value. Some(false): it is as high. None: the value must become
/// dense for it.
pub(super) fn set_sparse(
    all: &mut Vec<u8>,
    register: usize,
    value: u8,
) -> Result<Option<bool>, Corrupted> {
    if value > MAX_VALUE {
        return Ok(None);
    }
    let (mut at, mut first, mut before) = (HEAD, 0, None);
    let found = loop {
        let run = run(all, at)?;
        if register < first + run.len {
            break run;
        }
        (before, at, first) = (Some(at), at + run.bytes, first + run.len);
    };
    if found.value >= value {
        return Ok(Some(false));
    }
    let mut new = Vec::with_capacity(5);
    let rest = |out: &mut Vec<u8>, len: usize| match (len, found.value) {
        (0, _) => {}
        (len, 0) => push_zeros(out, len),
        (len, value) => out.push(val(value, len)),
    };
    rest(&mut new, register - first);
    new.push(val(value, 1));
    rest(&mut new, first + found.len - 1 - register);
    if new.len() > found.bytes && all.len() + new.len() - found.bytes > MOST {
        return Ok(None);
    }
    all.splice(at..at + found.bytes, new);
    join(all, before.unwrap_or(HEAD));
    Ok(Some(true))
}

/// Joins neighbours with the same value; what is no run behind them stays, as in Redis.
fn join(all: &mut Vec<u8>, from: usize) {
    let mut at = from;
    for _ in 0..JOINED {
        let Ok(this) = run(all, at) else { return };
        at += this.bytes;
        let Ok(next) = run(all, at) else { return };
        if this.value == 0 {
            continue;
        }
        if next.value == this.value && this.len + next.len <= MAX_VAL {
            all[at] = val(this.value, this.len + next.len);
            at -= 1;
            all.remove(at);
        }
    }
}
