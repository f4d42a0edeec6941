//! EVAL, of one script: the one that lets go of a lock.
//!
//! Larder runs no scripts. But the locks of PHP sessions (phpredis), of Laravel and of most libraries after Redis's own page on
//! locks are taken with `SET key token NX PX` and let go with the same few words of Lua: delete the key if it still has
//! my token. They are known by their text and done here; without them a session's lock would hold until it expires. EVALSHA is
//! refused like all scripts: clients then send EVAL.

use larder_proto::resp::{Args, table::absent::Absent};

use super::{access::bytes, errors::Outcome};
use crate::redis::ctx::{Class, Ctx};

/// The scripts, in small letters, without blanks, all quotes double: as phpredis and Laravel have it, and as redis-py does.
const RELEASES: [&str; 2] = [
    "ifredis.call(\"get\",keys[1])==argv[1]thenreturnredis.call(\"del\",keys[1])elsereturn0end",
    "localtoken=redis.call(\"get\",keys[1])ifnottokenortoken~=argv[1]thenreturn0endredis.call(\"del\",keys[1])return1",
];

/// A script longer than this is none of them.
const LONGEST: usize = 512;

/// EVAL script 1 key token
pub(crate) fn release(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    if args.get(2) != b"1" || !is_release(args.get(1)) {
        return ctx.reply().error(Absent::Scripts.error());
    }
    let outcome = release_step(ctx, args.get(3), args.get(4));
    ctx.settle(outcome, args);
}

fn release_step(ctx: &mut Ctx<'_>, key: &[u8], token: &[u8]) -> Outcome {
    // The key's stripe is held: nobody puts another token there in between.
    let held = ctx.look_string(key)?.is_some_and(|entry| *bytes(&entry) == *token);
    let released = held && ctx.store.delete(ctx.ns, key, ctx.now);
    if released {
        ctx.modified(Class::Generic, "del", key);
    }
    ctx.reply().integer(i64::from(released));
    Ok(())
}

fn is_release(script: &[u8]) -> bool {
    if script.len() > LONGEST {
        return false;
    }
    let plain = |byte: &u8| if *byte == b'\'' { b'"' } else { byte.to_ascii_lowercase() };
    let text: Vec<u8> = script.iter().filter(|byte| !byte.is_ascii_whitespace()).map(plain).collect();
    RELEASES.iter().any(|known| known.as_bytes() == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scripts_of_libraries_are_known() {
        for script in [
            "if redis.call(\"get\",KEYS[1]) == ARGV[1] then return redis.call(\"del\",KEYS[1]) else return 0 end",
            "if redis.call('GET', KEYS[1]) == ARGV[1] then\n    return redis.call('DEL', KEYS[1])\nelse\n    return 0\nend\n",
            "\n        local token = redis.call('get', KEYS[1])\n        if not token or token ~= ARGV[1] then\n            return 0\n        end\n        redis.call('del', KEYS[1])\n        return 1\n    ",
        ] {
            assert!(is_release(script.as_bytes()), "{script}");
        }
        for script in [
            "return 1",
            "",
            "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[2]) else return 0 end",
        ] {
            assert!(!is_release(script.as_bytes()), "{script}");
        }
    }
}
