//! Just enough of Rust's grammar to measure source text: comments, literals, braces and functions.

use std::ops::Range;

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Its lines, from `fn` to the closing brace, counted from 0.
    pub lines: Range<usize>,
}

/// One file, its comments and literals blanked out (line breaks kept) so that words and braces can
/// be trusted.
pub struct Source {
    code: String,
}

impl Source {
    /// Blanks out `text`.
    pub fn new(text: &str) -> Source {
        Source { code: blank(text) }
    }

    /// The lines of code, without comments and literals.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.code.lines()
    }

    /// Lines of `#[cfg(test)]` modules.
    pub fn test_lines(&self) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        for (at, _) in self.code.match_indices("#[cfg(test)]") {
            let rest = self.code[at + "#[cfg(test)]".len()..].trim_start();
            if rest.starts_with("mod ")
                && let Some(end) = self.body_end(at)
            {
                found.push(self.line_of(at)..self.line_of(end) + 1);
            }
        }
        found
    }

    /// Every function with a body, nested ones too.
    pub fn functions(&self) -> Vec<Function> {
        let mut found = Vec::new();
        for (at, _) in self.code.match_indices("fn ") {
            let starts_word = !self.code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
            let rest = &self.code[at + 3..];
            let name: String =
                rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            if starts_word
                && !name.is_empty()
                && let Some(end) = self.body_end(at)
            {
                found.push(Function { name, lines: self.line_of(at)..self.line_of(end) + 1 });
            }
        }
        found
    }

    /// Where the block that opens after `from` is closed; `None` when a `;` outside brackets comes
    /// first.
    fn body_end(&self, from: usize) -> Option<usize> {
        let mut depth = 0;
        let mut brackets = 0;
        for (i, c) in self.code[from..].char_indices() {
            match c {
                '{' => depth += 1,
                '}' => {
                    depth -= 1;
                    if depth == 0 {
                        return Some(from + i);
                    }
                }
                '(' | '[' => brackets += 1,
                ')' | ']' => brackets -= 1,
                ';' if depth == 0 && brackets == 0 => return None,
                _ => {}
            }
        }
        None
    }

    fn line_of(&self, at: usize) -> usize {
        self.code[..at].matches('\n').count()
    }
}

/// Replaces comments and the insides of literals by spaces.
fn blank(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let in_word = code.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let len = match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => block_comment(rest),
            '"' => string(rest, 1),
            'r' if !in_word => raw_string(rest, 1),
            'b' if !in_word && rest.starts_with("br") => raw_string(rest, 2),
            '\'' => char_literal(rest),
            _ => 0,
        };
        if len == 0 {
            code.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            code.extend(rest[..len].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            rest = &rest[len..];
        }
    }
    code
}

fn block_comment(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    at
}

fn string(text: &str, open: usize) -> usize {
    let mut escaped = false;
    for (i, c) in text[open..].char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return open + i + 1,
            _ => {}
        }
    }
    text.len()
}

/// Length of `r"..."`, `r#"..."#`; 0 when it is a word that begins with r.
fn raw_string(text: &str, prefix: usize) -> usize {
    let hashes = text[prefix..].bytes().take_while(|&b| b == b'#').count();
    let open = prefix + hashes;
    if !text[open..].starts_with('"') {
        return 0;
    }
    let close = format!("\"{}", "#".repeat(hashes));
    text[open + 1..].find(&close).map_or(text.len(), |i| open + 1 + i + close.len())
}

/// Length of `'x'` or `'\n'`; 0 when it is a lifetime.
fn char_literal(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match chars.next() {
        Some((_, '\\')) => text[3..].find('\'').map_or(0, |i| 3 + i + 1),
        Some(_) => chars.next().filter(|&(_, c)| c == '\'').map_or(0, |(i, _)| i + 1),
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_hide_what_looks_like_code() {
        let source = Source::new(
            "let a = \"} fn x\"; // fn y {\n/* /* { */ fn z */ let c = '{'; let r = r#\"fn \"{\"#;",
        );
        assert!(source.lines().all(|line| !line.contains("fn") && !line.contains(['{', '}'])));
        assert_eq!(source.lines().count(), 2);
    }

    #[test]
    fn functions_are_measured_with_their_bodies() {
        let text = "trait T { fn none(&self) -> [u8; 4]; }\nfn long<'a>(x: &'a str) {\n  match x \
                    { _ => '}' };\n}\n";
        let functions = Source::new(text).functions();
        assert_eq!(functions, [Function { name: "long".into(), lines: 1..4 }]);
    }

    #[test]
    fn test_modules_are_found() {
        let source =
            Source::new("fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n");
        assert_eq!(source.test_lines(), vec![Range { start: 1, end: 5 }]);
    }
}
