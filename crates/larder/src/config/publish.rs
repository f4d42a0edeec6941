//! From typed values to settings: `[publish]`.

use larder_server::settings::{MemcachedSettings, ObjectSpace, PublishSettings, RedisSettings};

use super::{
    problem::{Problem, Report},
    reader::Values,
};

/// Longest prefix in bytes: memcached's keys have 250.
const PREFIX: usize = 64;

/// Which objects are pages; None: the file has no such table, or has a mistake in it, which is in
/// the report.
pub(super) fn publish(
    root: &Values,
    memcached: Option<&MemcachedSettings>,
    redis: Option<&RedisSettings>,
    report: &mut Report,
) -> Option<PublishSettings> {
    if !root.is_set("publish") {
        return None;
    }
    let values = root.table("publish");
    let prefix: String = values.get("prefix")?;
    if !(1..=PREFIX).contains(&prefix.len()) || !prefix.bytes().all(|byte| byte.is_ascii_graphic())
    {
        let message = format!("a prefix is 1 to {PREFIX} visible ASCII characters");
        report.error(Problem::new(values.location("prefix"), message));
    }
    let database: usize = values.get("database")?;
    let of_redis = values.get::<String>("namespace")? == "redis";
    let (name, served) =
        if of_redis { ("redis", redis.is_some()) } else { ("memcached", memcached.is_some()) };
    if !served {
        let message = format!("nobody can set such an object: there is no [{name}]");
        let problem = Problem::new(values.location("namespace"), message);
        report.error(problem.fix("add its table, or name the other face"));
    }
    if values.is_set("database") && !of_redis {
        let message = "memcached has no databases";
        report.error(Problem::new(values.location("database"), message));
    }
    if redis.is_some_and(|redis| of_redis && database >= redis.databases) {
        let message = format!("there is no database {database}: see `redis.databases`");
        report.error(Problem::new(values.location("database"), message));
    }
    let number = u8::try_from(database).ok()?;
    let objects = if of_redis { ObjectSpace::Redis(number) } else { ObjectSpace::Memcached };
    Some(PublishSettings { prefix, hosts: values.list("hosts"), objects })
}
