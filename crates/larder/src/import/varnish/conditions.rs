//! Conditions of VCL as those of rules.

use super::{
    super::{draft::Keys, times},
    Side,
    parse::unquoted,
};

/// Conditions whose usual effect Larder has by itself.
pub(super) fn covered(text: &str, side: Side) -> bool {
    let bare: String = text.chars().filter(|c| !c.is_whitespace() && !"()".contains(*c)).collect();
    let methods = bare.replace("req.method", "").replace("req.request", "");
    let only_methods = methods
        .split("&&")
        .all(|part| part.starts_with("!=\"") || part == "==\"POST\"" || part == "==\"OPTIONS\"");
    match side {
        Side::Request => {
            only_methods
                || bare == "req.http.Authorization"
                || bare == "req.restarts==0"
                || bare.contains("req.http.Upgrade~\"i?")
                || bare.contains("req.http.upgrade~\"?i")
                || bare.starts_with("req.http.X-Forwarded-For")
                || bare.starts_with("req.http.x-forwarded-for")
                || bare.contains("req.http.Accept-Encoding")
        }
        Side::Response => {
            bare.contains("beresp.ttl<=0s")
                || bare.contains("beresp.http.Set-Cookie&&")
                || bare.contains("beresp.uncacheable")
        }
        Side::Deliver => bare.starts_with("obj.hits"),
    }
}

/// The conditions of rules, one for each alternative that can be said, and whether all can. None:
/// it has no counterpart.
pub(super) fn conditions(words: &[String], side: Side) -> Option<(Vec<Keys>, bool)> {
    let bare = words.iter().map(String::as_str).filter(|word| !matches!(*word, "(" | ")"));
    let words: Vec<&str> = bare.collect();
    if words.contains(&"&&") && words.contains(&"||") {
        return None;
    }
    if words.contains(&"&&") {
        let mut all = Keys::default();
        for part in words.split(|word| *word == "&&") {
            one(part, side, &mut all)?;
        }
        return Some((vec![all], true));
    }
    let parts: Vec<_> = words.split(|word| *word == "||").collect();
    let said = parts.iter().filter_map(|part| {
        let mut keys = Keys::default();
        one(part, side, &mut keys).map(|()| keys)
    });
    let said: Vec<Keys> = said.collect();
    let whole = said.len() == parts.len();
    (!said.is_empty()).then_some((said, whole))
}

fn one(words: &[&str], side: Side, keys: &mut Keys) -> Option<()> {
    let request = if side == Side::Request || side == Side::Deliver { "req." } else { "bereq." };
    match words {
        [subject, operator, value] => {
            let (subject, value) = (subject.strip_prefix(request)?, unquoted(value));
            match (subject, *operator) {
                ("url", "~") => keys.text("path_regex", &url_regex(value)?),
                ("url", "==") if !value.contains('?') => keys.text("path", value),
                ("method" | "request", "==") => keys.add("method", value),
                (field, "~") if field.eq_ignore_ascii_case("http.cookie") => {
                    let names = cookie_names(value)?;
                    keys.text("cookie", &names);
                }
                (field, "~") if field.starts_with("http.") => {
                    let plain = value.chars().all(|c| c.is_alphanumeric() || "-_/ ".contains(c));
                    plain.then(|| keys.text("header", &format!("{}: *{value}*", &field[5..])))?;
                }
                (field, "==")
                    if field.starts_with("http.") && !field.eq_ignore_ascii_case("http.host") =>
                {
                    keys.text("header", &format!("{}: {value}", &field[5..]));
                }
                _ => return None,
            }
        }
        [subject] => {
            let field = subject.strip_prefix(request)?.strip_prefix("http.")?;
            if field.eq_ignore_ascii_case("cookie") {
                keys.text("cookie", "*");
            } else {
                keys.text("header", &format!("{field}: *"));
            }
        }
        _ => return None,
    }
    Some(())
}

/// An expression over the URL as one over the path, which rules look at.
fn url_regex(pattern: &str) -> Option<String> {
    // The query is often spelled out behind the end of the path.
    let path = pattern.replace("(\\?.*)?$", "$").replace("(\\?.*|)$", "$").replace("(\\?|$)", "$");
    let path = path.replace("(\\?[^\\?]*)?$", "$");
    // The rest is about the query, which rules do not look at.
    if path.contains("\\?") || path.contains(['=', '&']) {
        return None;
    }
    times::regex(&path, false)
}

/// `wordpress_logged_in|PHPSESSID`, `(^|;\s*)(session)=`: the name of the only cookie.
fn cookie_names(pattern: &str) -> Option<String> {
    let bare =
        pattern.trim_start_matches("(^|;\\s*)").trim_start_matches("(^|; )").trim_end_matches('=');
    let bare = bare.trim_matches(['(', ')']);
    let plain = bare.chars().all(|c| c.is_alphanumeric() || "-_".contains(c)) && !bare.is_empty();
    plain.then(|| format!("{bare}*"))
}
