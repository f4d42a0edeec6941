//! EVAL and EVALSHA, of two scripts known by their text.
//!
//! Larder runs no scripts. But the locks of PHP sessions (phpredis), of Laravel, of redis-py and of most libraries after Redis's
//! own page on locks are taken with `SET key token NX PX` and let go with the same few words of Lua: delete the key if it
//! still has my token. Without them a session's lock would hold until it expires. And django-redis counts only what is there.
//! Both are one command on one key, and done here as such; all other scripts are refused.

use larder_proto::resp::{Args, Owned, table::absent::Absent};

use super::{access::bytes, counters, errors::Outcome};
use crate::redis::ctx::{Class, Ctx};

/// What a script does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Script {
    /// Delete the key if it has this value; whether it had.
    Release,
    /// INCRBY of a key that is there; null when it is not.
    Count,
}

/// The scripts, in small letters, without blanks, all quotes double: as phpredis and Laravel have it, redis-py, django-redis.
const TEXTS: [(&str, Script); 3] = [
    (
        "ifredis.call(\"get\",keys[1])==argv[1]thenreturnredis.call(\"del\",keys[1])elsereturn0end",
        Script::Release,
    ),
    (
        "localtoken=redis.call(\"get\",keys[1])ifnottokenortoken~=argv[1]thenreturn0end\
         redis.call(\"del\",keys[1])return1",
        Script::Release,
    ),
    (
        "localexists=redis.call(\"exists\",keys[1])if(exists==1)then\
         returnredis.call(\"incrby\",keys[1],argv[1])elsereturnfalseend",
        Script::Count,
    ),
];

/// What EVALSHA calls them: the text of phpredis, and that of redis-py, blanks and all.
const SUMS: [(&str, Script); 2] = [
    ("b70c2384248f88e6b75b9f89241a180f856ad852", Script::Release),
    ("c3f8721cbb97f72bc19e972846bd7aaf91901658", Script::Release),
];

/// A script longer than this is none of them.
const LONGEST: usize = 512;

/// EVAL script 1 key arg, EVALSHA sum 1 key arg
pub(crate) fn eval(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let known = if args.is(0, "evalsha") {
        SUMS.iter().find(|(sum, _)| args.is(1, sum)).map(|(_, script)| *script)
    } else {
        known(args.get(1))
    };
    match known.filter(|_| args.get(2) == b"1") {
        Some(Script::Release) => {
            let outcome = release(ctx, args.get(3), args.get(4));
            ctx.settle(outcome, args);
        }
        Some(Script::Count) if ctx.look(args.get(3)).is_none() => ctx.reply().null(),
        Some(Script::Count) => {
            let incrby = Owned::new(&[b"incrby", args.get(3), args.get(4)]);
            counters::incrby(ctx, &incrby.args());
        }
        None => ctx.reply().error(Absent::Scripts.error()),
    }
}

fn release(ctx: &mut Ctx<'_>, key: &[u8], token: &[u8]) -> Outcome {
    // The key's stripe is held: nobody puts another token there in between.
    let held = ctx.look_string(key)?.is_some_and(|entry| *bytes(&entry) == *token);
    let released = held && ctx.store.delete(ctx.ns, key, ctx.now);
    if released {
        ctx.modified(Class::Generic, "del", key);
    }
    ctx.reply().integer(i64::from(released));
    Ok(())
}

fn known(script: &[u8]) -> Option<Script> {
    if script.len() > LONGEST {
        return None;
    }
    let plain = |byte: &u8| if *byte == b'\'' { b'"' } else { byte.to_ascii_lowercase() };
    let text: Vec<u8> = script.iter().filter(|byte| !byte.is_ascii_whitespace()).map(plain).collect();
    TEXTS.iter().find(|(known, _)| known.as_bytes() == text).map(|(_, script)| *script)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scripts_of_libraries_are_known() {
        for (script, is) in [
            (
                "if redis.call(\"get\",KEYS[1]) == ARGV[1] then return redis.call(\"del\",KEYS[1]) else return 0 end",
                Some(Script::Release),
            ),
            (
                "if redis.call('GET', KEYS[1]) == ARGV[1] then\n return redis.call('DEL', KEYS[1])\nelse\n return 0\nend\n",
                Some(Script::Release),
            ),
            (
                "\n local token = redis.call('get', KEYS[1])\n if not token or token ~= ARGV[1] then\n return 0\n end\n \
                 redis.call('del', KEYS[1])\n return 1\n ",
                Some(Script::Release),
            ),
            (
                "\n local exists = redis.call('EXISTS', KEYS[1])\n if (exists == 1) then\n \
                 return redis.call('INCRBY', KEYS[1], ARGV[1])\n else return false end\n ",
                Some(Script::Count),
            ),
            (
                "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[2]) else return 0 end",
                None,
            ),
            ("return 1", None),
            ("", None),
        ] {
            assert_eq!(known(script.as_bytes()), is, "{script}");
        }
    }
}
