//! Lifetimes that the site does not give, and the cookies that they depend on.

use larder_server::settings::RulePolicy;

use super::{
    problem::{Problem, Report},
    reader::Values,
};

/// Warns of a lifetime of the operator without a word on cookies: it is for visitors without any,
/// and most visitors have some.
pub(super) fn doubt(values: &Values, policy: &RulePolicy, report: &mut Report) {
    let Some(name) = ["ttl", "refresh"].into_iter().find(|name| values.has_value(name)) else {
        return;
    };
    let named = !policy.bypass_cookies.is_empty()
        || !policy.ignore_cookies.is_empty()
        || !policy.cache.vary_cookies.is_empty();
    if named || policy.pass || policy.cache.force_cache {
        return;
    }
    let message =
        format!("`{name}` is for visitors without cookies: nothing says which cookies count");
    let problem = Problem::new(values.location(name), message);
    report.warn(problem.fix(
        "name those that log in: bypass_cookies; or those that mean nothing: ignore_cookies = [\"*\"]",
    ));
}
