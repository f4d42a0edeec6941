//! From typed values to settings: `[queue]`.

use std::{path::Path, time::Duration};

use larder_queue::{Limits, Rules, is_valid};
use larder_server::settings::{QueueSettings, QueueSync};

use super::{
    build::file,
    directory,
    objects::{listen, no_listener},
    problem::{Problem, Report},
    reader::Values,
    value,
};

/// Shortest interval between two syncs: more of them keep a device busy with nothing else.
const LEAST_INTERVAL: Duration = Duration::from_millis(1);
/// Longest interval between two syncs.
const MOST_INTERVAL: Duration = Duration::from_secs(3600);

/// The queue face; None: the file has no such table, or has a mistake in it, which is in the
/// report.
pub(super) fn queue(
    root: &Values,
    relative_to: &Path,
    report: &mut Report,
) -> Option<QueueSettings> {
    if !root.is_set("queue") {
        return None;
    }
    let values = root.table("queue");
    let default = limits(&values, &Limits::default(), report)?;
    let mut rules =
        Rules { default, named: Vec::new(), queues: values.get::<usize>("max_queues")? };
    for named in values.tables("named") {
        let name: String = named.get("name")?;
        let known = rules.named.iter().any(|(other, _)| **other == *name.as_bytes());
        if known || !is_valid(name.as_bytes()) {
            let message = match known {
                true => format!("there are two queues \"{name}\""),
                false => format!("\"{name}\" is no name of a queue"),
            };
            let fix = "a name is at most 250 visible characters without `/`, of which those beyond \
                       ASCII letters and digits count three times, with one `+` for a child: \
                       `orders+audit`";
            report.error(Problem::new(named.location("name"), message).fix(fix));
        }
        let limits = limits(named, &rules.default, report)?;
        rules.named.push((name.as_bytes().into(), limits));
    }
    let path = file(&values, "path", relative_to)?;
    directory::look(&values, "path", &path, directory::Need::Needed, report);
    let settings = QueueSettings {
        listen: listen(&values, relative_to),
        path,
        sync: sync(&values, report).unwrap_or(QueueSync::Always),
        memory: values.get("memory")?,
        segment: values.get("segment")?,
        rules,
        connections: values.get("connections")?,
        idle_timeout: values.get("idle_timeout")?,
        receive_timeout: values.get("receive_timeout")?,
        send_timeout: values.get("send_timeout")?,
        shutdown: values.get("shutdown")?,
        backlog: values.get("backlog")?,
    };
    no_listener(&values, &settings.listen, report);
    Some(settings)
}

fn sync(values: &Values, report: &mut Report) -> Option<QueueSync> {
    let text: String = values.get("sync")?;
    match text.as_str() {
        "always" => return Some(QueueSync::Always),
        "never" => return Some(QueueSync::Never),
        _ => {}
    }
    let interval = value::duration(&text).ok();
    let interval = interval.filter(|time| (LEAST_INTERVAL..=MOST_INTERVAL).contains(time));
    if interval.is_none() {
        let message = format!("`sync` is not \"{text}\"");
        let fix = "write \"always\", \"never\", or a time from \"1ms\" to \"1h\": \"100ms\"";
        report.error(Problem::new(values.location("sync"), message).fix(fix));
    }
    interval.map(QueueSync::Every)
}

/// The rules in a table; those it does not name are `default`'s.
fn limits(values: &Values, default: &Limits, report: &mut Report) -> Option<Limits> {
    let mut limits = default.clone();
    let is_first = values.section.option("name").is_none();
    let has = |name: &str| is_first || values.is_set(name);
    let time = |name: &str| values.get::<Duration>(name).map(|time| time.as_millis() as u64);
    if has("max_items") {
        limits.items = values.get("max_items")?;
    }
    if has("max_bytes") {
        limits.bytes = values.get("max_bytes")?;
    }
    if has("item_size") {
        limits.item_size = values.get("item_size")?;
    }
    if has("discard_oldest") {
        limits.discard_oldest = values.get("discard_oldest")?;
    }
    if has("max_age") {
        limits.max_age = time("max_age")?;
    }
    if has("default_expiry") {
        limits.default_expiry = time("default_expiry")?;
    }
    if has("max_aborts") {
        limits.max_aborts = values.get::<u64>("max_aborts")? as u32;
    }
    if has("memory_only") {
        limits.memory_only = values.get("memory_only")?;
    }
    if has("fanout_only") {
        limits.fanout_only = values.get("fanout_only")?;
    }
    if let Some(name) = values.get::<String>("error_queue") {
        let at = || values.location("error_queue");
        if !is_valid(name.as_bytes()) {
            report.error(Problem::new(at(), format!("\"{name}\" is no name of a queue")));
        }
        if values.get::<String>("name").is_some_and(|own| own == name) {
            let message = format!("\"{name}\" is its own error queue: its items would be lost");
            report.error(Problem::new(at(), message).fix("name another queue"));
        }
        if limits.max_aborts == 0 {
            let message = format!("no item goes to \"{name}\": `max_aborts` is 0");
            report.warn(Problem::new(at(), message).fix("set `max_aborts`, for example 5"));
        }
        limits.error_queue = Some(name.as_bytes().into());
    }
    Some(limits)
}
