//! Replies of the binary protocol.

use super::super::super::binary::{self, HEADER, Status, opcode};
use super::{Broken, Decoded, Done, Extra, Fault, Reply, Value, extra};

pub(super) fn decode(buffer: &[u8], max_value: usize) -> Result<Decoded<'_>, Broken> {
    let Some((head, rest)) = buffer.split_first_chunk::<HEADER>() else {
        return match buffer.first() {
            Some(&first) if first != binary::RESPONSE => Err(Broken::Unknown),
            _ => Ok(Decoded::Incomplete { need: HEADER }),
        };
    };
    let (header, status) = binary::Header::read_response(head).ok_or(Broken::Unknown)?;
    let (extras, key, body) =
        (usize::from(header.extras), usize::from(header.key), header.body as usize);
    let value = body.checked_sub(extras + key).ok_or(Broken::BadLengths)?;
    if value > max_value {
        return Err(Broken::TooLarge);
    }
    let need = HEADER + body;
    let Some(body) = rest.get(..body) else { return Ok(Decoded::Incomplete { need }) };
    let (extras_bytes, behind) = body.split_at(extras);
    let (key_bytes, value_bytes) = behind.split_at(key);
    let parts = Parts {
        extras: extras_bytes,
        key: key_bytes,
        value: value_bytes,
        at: HEADER + extras + key,
        extra: Extra::binary(extra::Header {
            opcode: header.opcode,
            opaque: header.opaque,
            cas: header.cas,
        }),
    };
    let reply = if status == Status::Ok as u16 {
        done(header.opcode, &parts)?
    } else {
        failed(status, &parts)
    };
    Ok(Decoded::Reply(reply, need))
}

/// The parts of a reply.
struct Parts<'a> {
    extras: &'a [u8],
    key: &'a [u8],
    value: &'a [u8],
    /// Offset of the value.
    at: usize,
    extra: Extra<'a>,
}

fn done<'a>(code: u8, parts: &Parts<'a>) -> Result<Reply<'a>, Broken> {
    let simply = |done| Ok(Reply::Done(done, parts.extra));
    match code {
        opcode::GET | opcode::GETQ | opcode::GETK | opcode::GETKQ => value(parts),
        opcode::GAT | opcode::GATQ | opcode::GATK | opcode::GATKQ => value(parts),
        opcode::SET | opcode::ADD | opcode::REPLACE | opcode::APPEND | opcode::PREPEND => {
            simply(Done::Stored)
        }
        opcode::SETQ | opcode::ADDQ | opcode::REPLACEQ | opcode::APPENDQ | opcode::PREPENDQ => {
            simply(Done::Stored)
        }
        opcode::DELETE | opcode::DELETEQ => simply(Done::Deleted),
        opcode::TOUCH => simply(Done::Touched),
        opcode::INCREMENT | opcode::DECREMENT | opcode::INCREMENTQ | opcode::DECREMENTQ => {
            let number = parts.value.try_into().map_err(|_| Broken::BadLengths)?;
            Ok(Reply::Number(u64::from_be_bytes(number), parts.extra))
        }
        opcode::NOOP => Ok(Reply::Noop(parts.extra)),
        opcode::VERSION => Ok(Reply::Version(parts.value)),
        opcode::STAT if parts.key.is_empty() => Ok(Reply::End),
        opcode::STAT => Ok(Reply::Stat { name: parts.key, value: parts.value }),
        opcode::FLUSH | opcode::FLUSHQ | opcode::QUIT | opcode::QUITQ => simply(Done::Ok),
        opcode::SASL_LIST => Ok(Reply::Mechanisms(parts.value)),
        opcode::SASL_AUTH | opcode::SASL_STEP => simply(Done::Ok),
        _ => Err(Broken::Unknown),
    }
}

fn value<'a>(parts: &Parts<'a>) -> Result<Reply<'a>, Broken> {
    let flags = parts.extras.try_into().map_err(|_| Broken::BadLengths)?;
    let (flags, cas) = (u32::from_be_bytes(flags), parts.extra.cas());
    let at = parts.at..parts.at + parts.value.len();
    Ok(Reply::Value(Value { key: parts.key, flags, cas, at, extra: parts.extra }))
}

fn failed<'a>(status: u16, parts: &Parts<'a>) -> Reply<'a> {
    let fault = match Status::of(status) {
        Some(Status::NotFound) => return Reply::Done(Done::NotFound, parts.extra),
        Some(Status::Exists) => return Reply::Done(Done::Exists, parts.extra),
        Some(Status::NotStored) => return Reply::Done(Done::NotStored, parts.extra),
        Some(Status::Invalid | Status::NotNumber) => Fault::Client,
        // PLAIN is one message: a server that wants another step does not support it.
        Some(Status::AuthError | Status::AuthContinue) => Fault::Auth,
        Some(Status::Unknown) => Fault::Command,
        Some(Status::TooLarge | Status::NoMemory | Status::Ok) | None => Fault::Server,
    };
    Reply::Error(fault, parts.value, parts.extra)
}
