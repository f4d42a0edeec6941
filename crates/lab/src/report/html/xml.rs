//! Checks that markup is well-formed, as an XML parser would: for tests.

/// Every element closed in its order, every attribute quoted and there once, nothing left unescaped.
pub(crate) fn well_formed(markup: &str) -> Result<(), String> {
    let mut open: Vec<String> = Vec::new();
    let mut rest = markup.strip_prefix("<!DOCTYPE html>\n").unwrap_or(markup);
    while let Some(start) = rest.find('<') {
        check_text(&rest[..start])?;
        let end = rest[start..].find('>').ok_or("a tag without end")? + start;
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            let opened = open.pop().ok_or(format!("</{name}> closes nothing"))?;
            if opened != name {
                return Err(format!("</{name}> closes <{opened}>"));
            }
            continue;
        }
        let (body, alone) = tag.strip_suffix('/').map_or((tag, false), |body| (body, true));
        let (name, attributes) = body.split_once(' ').unwrap_or((body, ""));
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric()) {
            return Err(format!("<{tag}> has no name"));
        }
        check_attributes(attributes).map_err(|why| format!("<{tag}>: {why}"))?;
        if name == "style" {
            let end = rest.find("</style>").ok_or("a style without end")?;
            rest = &rest[end..];
        }
        if !alone {
            open.push(name.to_owned());
        }
    }
    check_text(rest)?;
    if open.is_empty() { Ok(()) } else { Err(format!("left open: {open:?}")) }
}

fn check_text(text: &str) -> Result<(), String> {
    if text.contains('>') {
        return Err(format!("a bare > in {text:?}"));
    }
    for (at, _) in text.match_indices('&') {
        let after = &text[at..];
        let end = after.find(';').ok_or(format!("a bare & in {text:?}"))?;
        if !matches!(&after[..=end], "&amp;" | "&lt;" | "&gt;" | "&quot;" | "&apos;" | "&#39;") {
            return Err(format!("an unknown entity in {text:?}"));
        }
    }
    Ok(())
}

fn check_attributes(mut rest: &str) -> Result<(), String> {
    let mut seen: Vec<&str> = Vec::new();
    while !rest.trim_start().is_empty() {
        rest = rest.trim_start();
        let (name, after) = rest.split_once("=\"").ok_or(format!("{rest:?} is no attribute"))?;
        let (value, after) = after.split_once('"').ok_or("a value without its closing quote")?;
        if seen.contains(&name) || name.contains(char::is_whitespace) {
            return Err(format!("{name:?} twice, or no name"));
        }
        check_text(value)?;
        seen.push(name);
        rest = after;
    }
    Ok(())
}

#[test]
fn knows_what_is_not_well_formed() {
    for right in ["<a b=\"c\"><d/>x &amp; y</a>", "<p>&#39;</p>", ""] {
        assert_eq!(well_formed(right), Ok(()));
    }
    for wrong in [
        "<a>",
        "</a>",
        "<a></b>",
        "<a b=c></a>",
        "<a b=\"1\" b=\"2\"></a>",
        "<p>a & b</p>",
        "<p>a > b</p>",
        "<a b=\"&\"/>",
        "<",
        "<>",
    ] {
        assert!(well_formed(wrong).is_err(), "{wrong}");
    }
}
