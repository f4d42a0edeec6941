//! VCL as a tree: declarations, subroutines, statements and conditions.

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Statement {
    /// `if (CONDITION) { ... }`; what follows `else` is a statement of its own.
    If { line: usize, condition: Vec<String>, inner: Vec<Statement> },
    /// `else { ... }`, `elseif`.
    Else { line: usize, condition: Vec<String>, inner: Vec<Statement> },
    /// Anything else, by its words.
    Plain { line: usize, words: Vec<String> },
}

/// `backend NAME { ... }`, `acl NAME { ... }`, `sub NAME { ... }`, `probe NAME { ... }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Declaration {
    pub(super) line: usize,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) inner: Vec<Statement>,
}

/// The top level of a file. Text that is no VCL is skipped.
pub(super) fn parse(text: &str) -> Vec<Declaration> {
    let tokens = tokens(text);
    let mut at = 0;
    let mut out = Vec::new();
    while at < tokens.len() {
        let (word, line) = &tokens[at];
        if matches!(word.as_str(), "backend" | "acl" | "sub" | "probe" | "director") {
            let name = tokens.get(at + 1).map(|(name, _)| name.clone()).unwrap_or_default();
            let (line, kind) = (*line, word.clone());
            while at < tokens.len() && tokens[at].0 != "{" {
                at += 1;
            }
            at += 1;
            let inner = block(&tokens, &mut at, 0);
            out.push(Declaration { line, kind, name, inner });
        } else {
            let (line, mut words) = (*line, Vec::new());
            while at < tokens.len() && !matches!(tokens[at].0.as_str(), ";" | "{" | "}") {
                words.push(tokens[at].0.clone());
                at += 1;
            }
            at += 1;
            let kind = words.first().cloned().unwrap_or_default();
            let name = words.get(1..).unwrap_or_default().join(" ");
            out.push(Declaration { line, kind, name, inner: Vec::new() });
        }
    }
    out
}

/// Deepest nesting that is read.
const DEPTH: usize = 64;

fn block(tokens: &[(String, usize)], at: &mut usize, depth: usize) -> Vec<Statement> {
    let mut out = Vec::new();
    let mut words = Vec::new();
    let mut line = 0;
    while let Some((word, here)) = tokens.get(*at) {
        *at += 1;
        match word.as_str() {
            "}" => break,
            ";" => {
                let words = std::mem::take(&mut words);
                out.extend((!words.is_empty()).then_some(Statement::Plain { line, words }));
            }
            "{" if depth < DEPTH => {
                let inner = block(tokens, at, depth + 1);
                let mut words = std::mem::take(&mut words);
                let first = if words.is_empty() { String::new() } else { words.remove(0) };
                let mut condition = words;
                if condition.first().is_some_and(|word| word == "if") {
                    condition.remove(0);
                }
                out.push(match first.as_str() {
                    "if" => Statement::If { line, condition, inner },
                    "else" | "elseif" | "elsif" | "elif" => {
                        Statement::Else { line, condition, inner }
                    }
                    // `.probe = { ... }`
                    _ => {
                        let mut words = vec![first];
                        words.extend(condition);
                        words.push("{".to_owned());
                        out.push(Statement::Plain { line, words });
                        out.extend(inner);
                        continue;
                    }
                });
            }
            _ => {
                if words.is_empty() {
                    line = *here;
                }
                words.push(word.clone());
            }
        }
    }
    out.extend((!words.is_empty()).then_some(Statement::Plain { line, words }));
    out
}

/// Words, strings with their quotes, operators and punctuation, with their lines.
fn tokens(text: &str) -> Vec<(String, usize)> {
    let mut out = Vec::new();
    let (mut line, mut rest) = (1, text);
    while let Some(c) = rest.chars().next() {
        let skipped = if c.is_whitespace() {
            c.len_utf8()
        } else if rest.starts_with('#') || rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else {
            0
        };
        if skipped > 0 {
            line += rest[..skipped].matches('\n').count();
            rest = &rest[skipped..];
            continue;
        }
        let length = length(rest);
        out.push((rest[..length].to_owned(), line));
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    out
}

/// Length of the token at the beginning; at least one character.
fn length(rest: &str) -> usize {
    if let Some(inner) = rest.strip_prefix("{\"") {
        return inner.find("\"}").map_or(rest.len(), |end| end + 4);
    }
    if let Some(inner) = rest.strip_prefix('"') {
        return inner.find(['"', '\n']).map_or(rest.len(), |end| end + 2).min(rest.len());
    }
    for operator in ["&&", "||", "==", "!=", "!~", "<=", ">=", "+="] {
        if rest.starts_with(operator) {
            return 2;
        }
    }
    let is_word = |c: char| c.is_alphanumeric() || "._-:/$".contains(c);
    match rest.find(|c| !is_word(c)) {
        Some(0) => rest.chars().next().map_or(1, char::len_utf8),
        Some(end) => end,
        None => rest.len(),
    }
}

/// The text of a string with its quotes.
pub(super) fn unquoted(word: &str) -> &str {
    let long = word.strip_prefix("{\"").and_then(|word| word.strip_suffix("\"}"));
    let short = word.strip_prefix('"').map(|word| word.strip_suffix('"').unwrap_or(word));
    long.or(short).unwrap_or(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_statements_and_conditions() {
        let text = "vcl 4.1;\nimport std;\nbackend default { .host = \"a\"; .probe = { .url = \"/\"; } }\n\
                    sub vcl_recv {\n  if (req.url ~ \"^/a\" || req.method == \"PURGE\") { return (pass); }\n  \
                    else if (x) { unset req.http.Cookie; } /* y */ // z\n}";
        let parsed = parse(text);
        let kinds: Vec<_> =
            parsed.iter().map(|one| (one.kind.as_str(), one.name.as_str())).collect();
        assert_eq!(
            kinds,
            [("vcl", "4.1"), ("import", "std"), ("backend", "default"), ("sub", "vcl_recv")]
        );
        let [Statement::If { condition, inner, line }, Statement::Else { .. }] =
            &parsed[3].inner[..]
        else {
            panic!("{parsed:?}")
        };
        assert_eq!(condition.join(" "), "( req.url ~ \"^/a\" || req.method == \"PURGE\" )");
        assert_eq!((inner.len(), *line), (1, 5));
    }

    #[test]
    fn anything_is_read_to_its_end() {
        for text in ["{", "}", "sub x {", "sub", "\"", "{\"", "/*", "if (", "ü;", "sub a { b { c"]
        {
            let _ = parse(text);
        }
        let deep = format!("sub a {}", "{ x ".repeat(5000));
        let _ = parse(&deep);
    }
}
