//! nginx's configuration as a tree of directives.

/// A directive: its words, and the directives in its braces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Directive {
    pub(super) line: usize,
    pub(super) words: Vec<String>,
    pub(super) block: Option<Vec<Directive>>,
}

impl Directive {
    pub(super) fn name(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    pub(super) fn args(&self) -> &[String] {
        self.words.get(1..).unwrap_or_default()
    }

    /// The first argument.
    pub(super) fn arg(&self) -> &str {
        self.args().first().map_or("", String::as_str)
    }

    pub(super) fn inner(&self) -> &[Directive] {
        self.block.as_deref().unwrap_or_default()
    }

    /// As written, without its block.
    pub(super) fn text(&self) -> String {
        self.words.join(" ")
    }
}

#[derive(PartialEq, Eq)]
enum Token {
    Word(String),
    Open,
    Close,
    End,
}

/// Reads a configuration. A brace that is not closed is closed at the end: the parts before it are
/// of use.
pub(super) fn parse(text: &str) -> Vec<Directive> {
    let tokens = tokens(text);
    let mut stack: Vec<(Vec<Directive>, Directive)> = Vec::new();
    let (mut list, mut now) = (Vec::new(), Directive::default());
    for (token, line) in tokens {
        match token {
            Token::Word(word) => {
                if now.words.is_empty() {
                    now.line = line;
                }
                now.words.push(word);
            }
            Token::End => {
                let done = std::mem::take(&mut now);
                list.extend((!done.words.is_empty()).then_some(done));
            }
            Token::Open => stack.push((std::mem::take(&mut list), std::mem::take(&mut now))),
            Token::Close => close(&mut stack, &mut list),
        }
    }
    while !stack.is_empty() {
        close(&mut stack, &mut list);
    }
    list
}

fn close(stack: &mut Vec<(Vec<Directive>, Directive)>, list: &mut Vec<Directive>) {
    if let Some((before, mut owner)) = stack.pop() {
        owner.block = Some(std::mem::replace(list, before));
        list.push(owner);
    }
}

fn tokens(text: &str) -> Vec<(Token, usize)> {
    let mut out = Vec::new();
    let mut line = 1;
    let mut chars = text.chars().peekable();
    while let Some(&c) = chars.peek() {
        match c {
            '\n' => {
                line += 1;
                chars.next();
            }
            c if c.is_whitespace() => drop(chars.next()),
            '#' => while chars.next_if(|c| *c != '\n').is_some() {},
            '{' | '}' | ';' => {
                chars.next();
                let token = match c {
                    '{' => Token::Open,
                    '}' => Token::Close,
                    _ => Token::End,
                };
                out.push((token, line));
            }
            _ => {
                let at = line;
                let word = word(&mut chars, &mut line);
                out.push((Token::Word(word), at));
            }
        }
    }
    out
}

fn word(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, line: &mut usize) -> String {
    let mut out = String::new();
    if let Some(quote) = chars.next_if(|c| matches!(c, '"' | '\'')) {
        while let Some(c) = chars.next() {
            *line += usize::from(c == '\n');
            match c {
                c if c == quote => break,
                '\\' => match chars.next() {
                    Some(c) if c == quote || c == '\\' => out.push(c),
                    Some(c) => out.extend(['\\', c]),
                    None => {}
                },
                c => out.push(c),
            }
        }
        return out;
    }
    while let Some(&c) = chars.peek() {
        // `${name}` is a variable, and braces belong to expressions such as `\d{4}`.
        let variable = c == '{' && out.ends_with(['$', 'd', ']', ')', 'w', '.']);
        if c.is_whitespace() || c == ';' || (c == '{' && !variable) {
            break;
        }
        if c == '}' && !out.contains('{') {
            break;
        }
        out.push(c);
        chars.next();
        if c == '\\' {
            out.extend(chars.next());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_blocks_quotes_and_comments() {
        let text =
            "a 1; # b;\nserver {\n  listen 80; # x\n  location ~ \"^/x{2}\" { c 'd e'; }\n}\nf";
        let parsed = parse(text);
        assert_eq!(parsed.iter().map(Directive::name).collect::<Vec<_>>(), ["a", "server"]);
        let server = &parsed[1];
        assert_eq!((server.line, server.inner()[0].line), (2, 3));
        assert_eq!(server.inner()[1].args(), ["~", "^/x{2}"]);
        assert_eq!(server.inner()[1].inner()[0].args(), ["d e"]);
    }

    #[test]
    fn anything_is_read_to_its_end() {
        for text in ["{", "}", "a {", "a { b; } }", "\"", "a \\", "${x", ";;;", "a{b{c;"] {
            let _ = parse(text);
        }
        assert_eq!(parse("a { b;")[0].inner()[0].name(), "b");
    }
}
