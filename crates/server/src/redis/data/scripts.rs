//! EVAL and EVALSHA of a few known scripts.
//!
//! Larder runs no scripts. But the locks of PHP sessions (phpredis), Laravel, redis-py and most
//! libraries that follow Redis's page on locks are taken with `SET key token NX PX` and released
//! with the same short Lua script: delete the key if it still has my token. Without it a session's
//! lock would hold until it expires. Laravel's `Cache::add`, which its rate limiter calls for every
//! request, is a script too, and django-redis counts with one. Each of them is one operation on one
//! key, and is executed as such; all other scripts are refused. EVALSHA of an unknown hash answers
//! NOSCRIPT, upon which libraries send the text.

use larder_proto::resp::{Args, Owned, number::parse_i64, table::absent::Absent};

use super::{
    counters,
    errors::{NOT_INTEGER, Outcome, Refused},
    expiry,
    joined::Whole,
    set::{self, Unit},
};
use crate::redis::ctx::{Class, Ctx};

/// Operation of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Script {
    /// Deletes the key if it has this value; answers whether it had.
    Release,
    /// PEXPIRE of the key if it has this value; answers whether it had.
    Renew,
    /// As `Renew`, with EXPIRE.
    RenewSeconds,
    /// As `Renew`; the time is added to the remaining one unless the last argument is other than 0.
    Extend,
    /// INCRBY of an existing key; null if it is missing.
    CountPresent,
    /// INCRBY.
    Count,
    /// SETEX of a missing key; null if it exists.
    Add,
}

impl Script {
    /// Number of arguments that it reads (ARGV).
    fn reads(self) -> usize {
        match self {
            Script::Release | Script::Count | Script::CountPresent => 1,
            Script::Renew | Script::RenewSeconds | Script::Add => 2,
            Script::Extend => 3,
        }
    }
}

/// The scripts, in lower case, without blanks, with double quotes.
const TEXTS: [(&str, Script); 9] = [
    // phpredis's sessions, Laravel, Redis's page on locks.
    (
        "ifredis.call(\"get\",keys[1])==argv[1]thenreturnredis.call(\"del\",keys[1])elsereturn0end",
        Script::Release,
    ),
    (
        "ifredis.call(\"get\",keys[1])==argv[1]thenreturnredis.call(\"pexpire\",keys[1],argv[2])elsereturn0end",
        Script::Renew,
    ),
    (
        "ifredis.call(\"get\",keys[1])==argv[1]thenreturnredis.call(\"expire\",keys[1],argv[2])elsereturn0end",
        Script::RenewSeconds,
    ),
    // redis-py's Lock.
    (
        "localtoken=redis.call(\"get\",keys[1])ifnottokenortoken~=argv[1]thenreturn0end\
         redis.call(\"del\",keys[1])return1",
        Script::Release,
    ),
    (
        "localtoken=redis.call(\"get\",keys[1])ifnottokenortoken~=argv[1]thenreturn0end\
         redis.call(\"pexpire\",keys[1],argv[2])return1",
        Script::Renew,
    ),
    (
        "localtoken=redis.call(\"get\",keys[1])ifnottokenortoken~=argv[1]thenreturn0end\
         localexpiration=redis.call(\"pttl\",keys[1])ifnotexpirationthenexpiration=0end\
         ifexpiration<0thenreturn0endlocalnewttl=argv[2]ifargv[3]==\"0\"thennewttl=argv[2]+expirationend\
         redis.call(\"pexpire\",keys[1],newttl)return1",
        Script::Extend,
    ),
    // django-redis.
    (
        "localexists=redis.call(\"exists\",keys[1])if(exists==1)then\
         returnredis.call(\"incrby\",keys[1],argv[1])elsereturnfalseend",
        Script::CountPresent,
    ),
    ("returnredis.call(\"incrby\",keys[1],argv[1])", Script::Count),
    // Laravel's Cache::add.
    (
        "returnredis.call(\"exists\",keys[1])<1andredis.call(\"setex\",keys[1],argv[2],argv[1])",
        Script::Add,
    ),
];

/// Hashes for EVALSHA: of phpredis's text and of redis-py's, blanks included.
const SUMS: [(&str, Script); 4] = [
    ("b70c2384248f88e6b75b9f89241a180f856ad852", Script::Release),
    ("c3f8721cbb97f72bc19e972846bd7aaf91901658", Script::Release),
    ("1cac51482acf5858da00f6d685d68f886cd6b6b2", Script::Renew),
    ("a4e8783852e6b949f9ef3a97212805108459a890", Script::Extend),
];

/// Longest text that can be one of them, in bytes.
const LONGEST: usize = 1024;

const NO_SCRIPT: &str = "NOSCRIPT No matching script. Please use EVAL.";

/// Returns whether this is an EVAL or EVALSHA of a known script, with one key and enough arguments.
pub(crate) fn knows(args: &Args<'_>) -> bool {
    script(args).is_some()
}

fn script(args: &Args<'_>) -> Option<Script> {
    let script = if args.is(0, "evalsha") {
        SUMS.iter().find(|(sum, _)| args.is(1, sum)).map(|(_, script)| *script)
    } else {
        known(args.get(1))
    };
    script.filter(|script| args.len() >= 4 + script.reads() && args.get(2) == b"1")
}

/// EVAL script 1 key arg [arg ...], EVALSHA sum 1 key arg [arg ...]
pub(crate) fn eval(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let Some(script) = script(args) else {
        let error = if args.is(0, "evalsha") { NO_SCRIPT } else { Absent::Scripts.error() };
        return ctx.reply().error(error);
    };
    let (key, argument) = (args.get(3), args.get(4));
    match script {
        Script::Release => {
            let outcome = release(ctx, key, argument);
            ctx.settle(outcome, args);
        }
        Script::Renew | Script::RenewSeconds | Script::Extend => {
            let outcome = renew(ctx, args, script);
            ctx.settle(outcome, args);
        }
        Script::CountPresent if ctx.look(key).is_none() => ctx.reply().null(),
        Script::CountPresent | Script::Count => {
            counters::incrby(ctx, &Owned::new(&[b"incrby", key, argument]).args());
        }
        Script::Add if ctx.look(key).is_some() => ctx.reply().null(),
        // A long value is stored in steps, which see EVAL's arguments: no arguments of SETEX are
        // composed.
        Script::Add => {
            let outcome = set::set_expiring(ctx, args, [3, 5, 4], Unit::Seconds, eval);
            let of_setex = |refused| match refused {
                Refused::Expiry => "ERR invalid expire time in 'setex' command".into(),
                other => other,
            };
            ctx.settle(outcome.map_err(of_setex), args);
        }
    }
}

// The caller holds the key's stripe, so no other client can replace the token meanwhile.

fn holds(ctx: &mut Ctx<'_>, key: &[u8], token: &[u8]) -> Outcome<bool> {
    Ok(ctx.look_string(key)?.is_some_and(|entry| *Whole::of(&entry) == *token))
}

fn release(ctx: &mut Ctx<'_>, key: &[u8], token: &[u8]) -> Outcome {
    let released = holds(ctx, key, token)? && ctx.store.delete(ctx.ns, key, ctx.now);
    if released {
        ctx.modified(Class::Generic, "del", key);
    }
    ctx.reply().integer(i64::from(released));
    Ok(())
}

fn renew(ctx: &mut Ctx<'_>, args: &Args<'_>, script: Script) -> Outcome {
    let key = args.get(3);
    if !holds(ctx, key, args.get(4))? {
        ctx.reply().integer(0);
        return Ok(());
    }
    let mut time = parse_i64(args.get(5)).ok_or(NOT_INTEGER)?;
    if script == Script::Extend {
        let Some(expires) = ctx.look(key).and_then(|entry| entry.expires()) else {
            ctx.reply().integer(0);
            return Ok(());
        };
        if args.get(6) == b"0" {
            let left = expires.saturating_sub(ctx.now) as i64;
            time = time.checked_add(left).ok_or(Refused::Expiry)?;
        }
    }
    let time = time.to_string();
    if script == Script::RenewSeconds {
        expiry::expire(ctx, &Owned::new(&[b"expire", key, time.as_bytes()]).args());
    } else {
        expiry::pexpire(ctx, &Owned::new(&[b"pexpire", key, time.as_bytes()]).args());
    }
    Ok(())
}

fn known(script: &[u8]) -> Option<Script> {
    if script.len() > LONGEST {
        return None;
    }
    let plain = |byte: &u8| if *byte == b'\'' { b'"' } else { byte.to_ascii_lowercase() };
    let text: Vec<u8> =
        script.iter().filter(|byte| !byte.is_ascii_whitespace()).map(plain).collect();
    TEXTS.iter().find(|(known, _)| known.as_bytes() == text).map(|(_, script)| *script)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scripts_of_libraries_are_known() {
        for (script, is) in [
            (
                "if redis.call(\"get\",KEYS[1]) == ARGV[1] then return \
                 redis.call(\"del\",KEYS[1]) else return 0 end",
                Some(Script::Release),
            ),
            (
                "if redis.call('GET', KEYS[1]) == ARGV[1] then\n return redis.call('DEL', \
                 KEYS[1])\nelse\n return 0\nend\n",
                Some(Script::Release),
            ),
            (
                "\n local token = redis.call('get', KEYS[1])\n if not token or token ~= ARGV[1] \
                 then\n return 0\n end\n redis.call('del', KEYS[1])\n return 1\n ",
                Some(Script::Release),
            ),
            (
                "\n local exists = redis.call('EXISTS', KEYS[1])\n if (exists == 1) then\n return \
                 redis.call('INCRBY', KEYS[1], ARGV[1])\n else return false end\n ",
                Some(Script::CountPresent),
            ),
            ("\n return redis.call('INCRBY', KEYS[1], ARGV[1])\n ", Some(Script::Count)),
            (
                "return redis.call('exists',KEYS[1])<1 and \
                 redis.call('setex',KEYS[1],ARGV[2],ARGV[1])",
                Some(Script::Add),
            ),
            (
                "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[2]) \
                 else return 0 end",
                None,
            ),
            ("return 1", None),
            ("", None),
        ] {
            assert_eq!(known(script.as_bytes()), is, "{script}");
        }
    }
}
