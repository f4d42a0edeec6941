//! The policy for the requests of a site, a rule or a preset, from typed values.

use std::{sync::Arc, time::Duration};

use larder_proto::{http::Codings, rules::VaryField};
use larder_server::settings::{
    CacheAction, CookiePattern, Esi, FieldEdit, Glob, Handling, KeyField, PartsAction, Pattern,
    RefreshPattern, RuleAction, RulePolicy, Slicing, StatusTtl, Unframed,
};

use super::{
    disk,
    item::default_items,
    options::Section,
    problem::{Location, Problem, Report},
    reader::Values,
};

/// Smallest slice, in bytes: each is a request to the origin, and a record in memory.
const LEAST_SLICE: u64 = 64 << 10;

/// The defaults of the table of options, as a policy.
pub(super) fn of_the_table() -> RulePolicy {
    let mut values = Values::empty(Section::Rule, Location::Whole);
    for opt in Section::Rule.options() {
        let items = default_items(opt);
        if !items.is_empty() {
            values.set_default(opt, items);
        }
    }
    action(&values).over(&RulePolicy::default())
}

/// The actions of a site, a rule or a preset.
pub(super) fn action(values: &Values) -> RuleAction {
    RuleAction {
        pass: values.maybe("pass"),
        bypass_cookies: values.maybe_list::<CookiePattern>("bypass_cookies").map(Arc::from),
        ignore_cookies: values.maybe_list::<Glob>("ignore_cookies").map(Arc::from),
        key_fields: values.maybe_list::<KeyField>("key_fields").map(Arc::from),
        drop_query: values.maybe_list::<Pattern>("drop_query").map(Arc::from),
        sort_query: values.maybe("sort_query"),
        early_hints: values.maybe("early_hints"),
        convert_head: values.maybe("convert_head"),
        mend_redirects: values.maybe("mend_redirects"),
        forward_client: values.maybe("forward_client"),
        limit: values.maybe("limit").map(Some),
        max_object: values.maybe("max_object"),
        disk: values.maybe::<String>("disk").as_deref().map(disk::disk_use),
        slice: values.maybe("slice").map(slicing),
        one_form: values.maybe::<String>("store_forms").map(|word| word == "one"),
        parts: PartsAction {
            credentials: values.maybe("esi_credentials"),
            comment: values.maybe::<String>("esi_error").map(|word| word == "comment"),
            depth: values.maybe("esi_depth"),
            number: values.maybe("esi_parts"),
            size: values.maybe("esi_size"),
            timeout: values.maybe("esi_timeout"),
        },
        cache: CacheAction {
            ttl: seconds(values, "ttl").map(Some),
            status_ttl: values.maybe_list::<StatusTtl>("error_ttl"),
            grace: seconds(values, "grace").map(Some),
            keep: seconds(values, "keep").map(Some),
            disconnected: seconds(values, "disconnected"),
            refresh: values.is_set("refresh").then(|| refresh(&values.table("refresh"))),
            allow_set_cookie: values.maybe("allow_set_cookie"),
            allow_authorization: values.maybe("allow_authorization"),
            force_cache: values.maybe("cache"),
            stale_against_origin: values.maybe("stale_against_origin"),
            honour_client_cc: values.maybe("client_cache_control"),
            targets: values.maybe_list("targets"),
            surrogate: values.maybe("surrogate_control"),
            strip_s_maxage: values.maybe("strip_s_maxage"),
            vary_cookies: values.maybe_list("vary_cookies").map(counting_cookies),
            vary_fields: values.maybe_list::<String>("vary_fields").map(vary_fields),
            unframed: values.maybe::<String>("unframed").as_deref().map(unframed),
            compress: values.maybe_list::<String>("compress").map(codings),
            esi: values.maybe::<String>("esi").as_deref().map(esi),
        },
        handling: handling(values),
    }
}

/// Warns of slices that are larger than the setting says.
pub(super) fn small(values: &Values, report: &mut Report) {
    if matches!(values.maybe::<u64>("slice"), Some(1..LEAST_SLICE)) {
        let problem = Problem::new(values.location("slice"), "slices have 64 KiB at least");
        report.warn(problem.fix("write \"64KiB\", or \"1MiB\" for videos"));
    }
}

fn slicing(bytes: u64) -> Slicing {
    match bytes {
        0 => Slicing::Never,
        u64::MAX => Slicing::Auto,
        bytes => Slicing::Every(bytes.max(LEAST_SLICE)),
    }
}

fn handling(values: &Values) -> Handling {
    let prefix = |name| values.maybe::<String>(name).map(Arc::from);
    let edits = |name| values.maybe_list::<FieldEdit>(name).map(Arc::from);
    Handling {
        strip_prefix: prefix("strip_prefix"),
        add_prefix: prefix("add_prefix"),
        request_fields: edits("request_fields"),
        response_fields: edits("response_fields"),
        redirect: values.maybe("redirect").map(Arc::new),
        ..Handling::default()
    }
}

fn unframed(word: &str) -> Unframed {
    match word {
        "keep" => Unframed::Keep,
        "pass" => Unframed::Pass,
        _ => Unframed::Brief,
    }
}

fn esi(word: &str) -> Esi {
    match word {
        "never" => Esi::Never,
        "always" => Esi::Always,
        _ => Esi::Surrogate,
    }
}

fn vary_fields(names: Vec<String>) -> Vec<VaryField> {
    names.iter().filter_map(|name| VaryField::named(name)).collect()
}

fn codings(names: Vec<String>) -> Vec<Codings> {
    names.iter().filter_map(|name| Codings::named(name.as_bytes())).collect()
}

/// In rules, an empty list means "all cookies". "No cookie" is a name that no cookie can have.
fn counting_cookies(names: Vec<String>) -> Vec<String> {
    if names.is_empty() { vec![String::new()] } else { names }
}

fn seconds(values: &Values, name: &str) -> Option<u32> {
    values.maybe::<Duration>(name).map(whole_seconds)
}

fn whole_seconds(time: Duration) -> u32 {
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX)
}

fn refresh(values: &Values) -> Option<RefreshPattern> {
    Some(RefreshPattern {
        min: whole_seconds(values.get("min")?),
        percent: values.get("percent")?,
        max: whole_seconds(values.get("max")?),
    })
}
