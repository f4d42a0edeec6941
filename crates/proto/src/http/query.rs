//! Changes that an operator may make to the query before it becomes part of the key (and of the
//! request to the origin).
//!
//! Parameters are separated by `&` only and compared as written. A cache that also splits at `;`,
//! or decodes names, sees other parameters than the origin does, and can be made to drop one that
//! the origin uses (parameter cloaking).

use std::borrow::Cow;

/// Names of parameters to drop: one name, or all names with a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// That name.
    Exact(String),
    /// `prefix*`: every name with this prefix.
    Prefix(String),
}

impl Pattern {
    /// Reads `name` or `prefix*`.
    pub fn parse(text: &str) -> Self {
        match text.strip_suffix('*') {
            Some(prefix) => Self::Prefix(prefix.to_owned()),
            None => Self::Exact(text.to_owned()),
        }
    }

    /// Whether it matches `name`; names are case-sensitive.
    pub fn matches(&self, name: &str) -> bool {
        match self {
            Self::Exact(exact) => exact == name,
            Self::Prefix(prefix) => name.starts_with(prefix.as_str()),
        }
    }
}

/// Path and query without the parameters in `drop`, and with the rest in the order of their names
/// if `sort`.
///
/// Sorting is stable: parameters of one name keep their order, which matters to origins
/// (`a[]=1&a[]=2`). If no parameter is left, the `?` is removed, too. Borrowed when nothing
/// changes.
pub fn normalise_query<'a>(path_and_query: &'a str, drop: &[Pattern], sort: bool) -> Cow<'a, str> {
    let Some((path, query)) = path_and_query.split_once('?') else {
        return Cow::Borrowed(path_and_query);
    };
    let keep = |parameter: &&str| !drop.iter().any(|p| p.matches(name(parameter)));
    let drops = !query.split('&').all(|p| keep(&p));
    let sorted = !sort || query.split('&').is_sorted_by_key(name);
    if !drops && sorted {
        return Cow::Borrowed(path_and_query);
    }
    let mut kept: Vec<&str> = query.split('&').filter(keep).collect();
    if sort {
        kept.sort_by_key(|p| name(p));
    }
    let mut out = String::with_capacity(path_and_query.len());
    out.push_str(path);
    for (index, parameter) in kept.into_iter().enumerate() {
        out.push(if index == 0 { '?' } else { '&' });
        out.push_str(parameter);
    }
    Cow::Owned(out)
}

fn name(parameter: &str) -> &str {
    parameter.split_once('=').map_or(parameter, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn dropping_and_sorting() {
        let drop = [Pattern::parse("utm_*"), Pattern::parse("fbclid")];
        for (before, dropped, sorted) in [
            ("/", "/", "/"),
            ("/?", "/?", "/?"),
            ("/?a=1&b=2", "/?a=1&b=2", "/?a=1&b=2"),
            ("/?b=2&a=1", "/?b=2&a=1", "/?a=1&b=2"),
            ("/?utm_source=x", "/", "/"),
            ("/?b&utm_=x&fbclid&a", "/?b&a", "/?a&b"),
            ("/?fbclidx=1&UTM_x=2", "/?fbclidx=1&UTM_x=2", "/?UTM_x=2&fbclidx=1"),
            ("/?a=1;utm_source=x", "/?a=1;utm_source=x", "/?a=1;utm_source=x"),
            ("/?utm%5Fsource=x", "/?utm%5Fsource=x", "/?utm%5Fsource=x"),
            ("/?x[]=2&x[]=1&a", "/?x[]=2&x[]=1&a", "/?a&x[]=2&x[]=1"),
            ("/?b=?&a", "/?b=?&a", "/?a&b=?"),
            ("/utm_a=1&?a", "/utm_a=1&?a", "/utm_a=1&?a"),
        ] {
            assert_eq!(normalise_query(before, &drop, false), dropped, "{before}");
            assert_eq!(normalise_query(before, &drop, true), sorted, "{before} sorted");
            assert_eq!(normalise_query(before, &[], false), before);
        }
        assert!(matches!(normalise_query("/?a&b", &drop, true), Cow::Borrowed(_)));
    }

    proptest! {
        #[test]
        fn once_is_enough(query in "/(\\?[a-c=&;?]{0,12})?", sort: bool) {
            let drop = [Pattern::parse("a*"), Pattern::parse("b")];
            let once = normalise_query(&query, &drop, sort);
            prop_assert_eq!(normalise_query(&once, &drop, sort), once.clone());
        }

        #[test]
        fn sorting_loses_nothing(query in "[a-c=]{1,3}(&[a-c=]{0,3}){0,4}") {
            let sorted = normalise_query(&format!("/?{query}"), &[], true).into_owned();
            let parameters = |text: &str| {
                let mut list: Vec<String> = text.split('&').map(str::to_owned).collect();
                list.sort();
                list
            };
            prop_assert_eq!(parameters(&sorted[2..]), parameters(&query));
        }
    }
}
