//! Checks the words and the widths of comments and documents: what a reader sees, not what the
//! compiler does.

use std::collections::BTreeSet;
use std::str::FromStr;

use proc_macro2::{TokenStream, TokenTree};
use regex::Regex;

/// Longest line of a comment or a document, in characters.
pub const COLUMNS: usize = 100;

/// A line of a text, counted from 1, with the fault found in it.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    /// The line, counted from 1.
    pub line: usize,
    /// The words at fault, for the message.
    pub words: String,
}

/// A paragraph, list item or table cell: its first line, counted from 1, and its text.
type Passage = (usize, String);

/// Kind of a line of a Markdown text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Blank,
    Heading,
    /// Inside a fence or indented by four columns after a blank line.
    Code,
    Table,
    Text,
}

/// The full-line comments of Rust source as `(line, text)`, without their marks. A line of code
/// between two comments separates them, and becomes an empty text.
pub fn comments(source: &str) -> Vec<(usize, String)> {
    let mark = Regex::new(r"^\s*//[/!]? ?(.*)$").unwrap();
    let text = |line| mark.captures(line).map_or_else(String::new, |found| found[1].to_owned());
    source.lines().enumerate().map(|(n, line)| (n + 1, text(line))).collect()
}

/// The lines of a document as `(line, text)`.
pub fn document(text: &str) -> Vec<(usize, String)> {
    text.lines().enumerate().map(|(n, line)| (n + 1, line.to_owned())).collect()
}

/// Sentences with a clause as their subject: they begin with "What", "Who", "Whose" or "That which"
/// and are not questions.
pub fn clauses_as_subjects(lines: &[(usize, String)]) -> Vec<Fault> {
    let start = Regex::new(r"^(What|Who|Whose|Whatever|Whoever|That which)\b").unwrap();
    let mut faults = Vec::new();
    for (line, passage) in passages(lines) {
        for sentence in sentences(&passage).filter(|s| start.is_match(s) && !s.ends_with('?')) {
            faults.push(Fault { line, words: sentence.chars().take(60).collect() });
        }
    }
    faults
}

/// Lines of text longer than [`COLUMNS`]. Tables, code and a single word that cannot be broken (a
/// link) are exempt.
pub fn too_long(lines: &[(usize, String)]) -> Vec<Fault> {
    beyond(lines, |_, text| text.chars().count())
}

/// The same of the comments of a source, with their marks.
pub fn too_long_comments(source: &str) -> Vec<Fault> {
    let whole: Vec<&str> = source.lines().collect();
    beyond(&comments(source), |line, _| whole[line - 1].chars().count())
}

/// Lines of code longer than [`COLUMNS`]. A line with a literal of text is exempt, because rustfmt
/// leaves it as it is and a break may change what it says.
pub fn too_long_code(source: &str) -> Vec<Fault> {
    let tokens = TokenStream::from_str(source).expect("Rust source");
    let mut texts = BTreeSet::new();
    lines_of_texts(tokens, &mut texts);
    let is_comment = |line: &str| line.trim_start().starts_with("//");
    let long = |(n, line): &(usize, &str)| {
        line.chars().count() > COLUMNS && !is_comment(line) && !texts.contains(&(n + 1))
    };
    let fault = |(n, line): (usize, &str)| Fault {
        line: n + 1,
        words: line.trim_start().chars().take(60).collect(),
    };
    source.lines().enumerate().filter(long).map(fault).collect()
}

/// Collects the lines, counted from 1, on which there is a literal of text.
fn lines_of_texts(tokens: TokenStream, into: &mut BTreeSet<usize>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => lines_of_texts(group.stream(), into),
            TokenTree::Literal(literal) if literal.to_string().contains('"') => {
                into.extend(literal.span().start().line..=literal.span().end().line);
            }
            _ => {}
        }
    }
}

fn beyond(lines: &[(usize, String)], width: impl Fn(usize, &str) -> usize) -> Vec<Fault> {
    let alone = Regex::new(r"^\s*([-*+]|\d+\.)?\s*(!\[.*\]\(\S+\)|\S+)$").unwrap();
    kinds(lines)
        .filter(|(kind, line, text)| {
            matches!(kind, Line::Text | Line::Heading)
                && width(*line, text) > COLUMNS
                && !alone.is_match(text)
        })
        .map(|(_, line, text)| Fault { line, words: text.chars().take(60).collect() })
        .collect()
}

fn kinds(lines: &[(usize, String)]) -> impl Iterator<Item = (Line, usize, &str)> {
    let mut fenced = false;
    let mut before = Line::Blank;
    lines.iter().map(move |(n, text)| {
        let trimmed = text.trim_start();
        let kind = if trimmed.starts_with("```") {
            fenced = !fenced;
            Line::Code
        } else if trimmed.is_empty() {
            Line::Blank
        } else if fenced || (text.starts_with("    ") && before != Line::Text) {
            Line::Code
        } else if trimmed.starts_with('|') {
            Line::Table
        } else if trimmed.starts_with("# ") || trimmed.starts_with("##") {
            Line::Heading
        } else {
            Line::Text
        };
        before = kind;
        (kind, *n, text.as_str())
    })
}

fn passages(lines: &[(usize, String)]) -> Vec<Passage> {
    let item = Regex::new(r"^\s*([-*+]|\d+\.)\s+").unwrap();
    let mut found: Vec<Passage> = Vec::new();
    let mut open = false;
    for (kind, line, text) in kinds(lines) {
        match kind {
            Line::Table => {
                found.extend(text.split('|').map(|cell| (line, cell.trim().to_owned())));
                open = false;
            }
            Line::Text => {
                let begins = !open || item.is_match(text);
                let text = item.replace(text, "");
                if begins {
                    found.push((line, text.trim().to_owned()));
                } else if let Some((_, passage)) = found.last_mut() {
                    passage.push(' ');
                    passage.push_str(text.trim());
                }
                open = true;
            }
            Line::Blank | Line::Heading | Line::Code => open = false,
        }
    }
    found
}

/// The sentences of a passage, each with its mark at the end.
fn sentences(passage: &str) -> impl Iterator<Item = &str> {
    let mut rest = passage;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches([' ', '*', '(']);
        if rest.is_empty() {
            return None;
        }
        let end = [". ", "? ", "! ", ".** ", ".) "]
            .iter()
            .filter_map(|mark| rest.find(mark).map(|at| at + 1))
            .min()
            .unwrap_or(rest.len());
        let (sentence, after) = rest.split_at(end);
        rest = after.trim_start_matches(['*', ')']);
        Some(sentence)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> Vec<usize> {
        clauses_as_subjects(&document(text)).into_iter().map(|fault| fault.line).collect()
    }

    #[test]
    fn clauses_are_found_at_the_start_of_every_sentence() {
        assert_eq!(faults("What is there goes.\n"), [1]);
        assert_eq!(faults("It is full.\nWho comes is\nrefused.\n"), [1]);
        assert_eq!(
            faults("- **Index.** Whose it is, is not known.\n- It is. (What is not.)\n"),
            [1, 2]
        );
        assert_eq!(faults("text\n\n| a | What it does |\n"), [3]);
        assert_eq!(faults("One.\n\nThat which stays is kept.\n"), [3]);
    }

    #[test]
    fn questions_headings_code_and_clauses_inside_are_left_alone() {
        let text = "# What it is\n\nWhat happens then? It says what is there. Whether it is \
                    full.\n\n    What\n\n```text\nWho\n```\nWhole pages only.\n";
        assert!(faults(text).is_empty());
    }

    #[test]
    fn comments_are_joined_and_code_parts_them() {
        let source = "//! One.\n//! What is there\n//! goes.\nlet a = 1; // What\n/// Who \
                      asks.\nfn f() {}\n";
        let lines: Vec<_> =
            clauses_as_subjects(&comments(source)).into_iter().map(|f| f.line).collect();
        assert_eq!(lines, [1, 5]);
    }

    #[test]
    fn long_code_is_found_but_for_texts() {
        let words = "a + ".repeat(30);
        let source = format!(
            "fn f() {{\n    let a = {words}a;\n    let b = (\"{words}\", b'\\'');\n    let c = \
             r#\"x\n{words}\"#;\n}}\n// {words}\n"
        );
        let lines: Vec<_> = too_long_code(&source).into_iter().map(|f| f.line).collect();
        assert_eq!(lines, [2]);
    }

    #[test]
    fn long_lines_are_found_but_for_tables_code_and_links() {
        let words = "word ".repeat(21);
        let long = |text: &str| too_long(&document(text)).len();
        assert_eq!(long(&words), 1);
        assert_eq!(long(&format!("- a\n  {words}")), 1);
        assert_eq!(long(&format!("a\n    {words}")), 1);
        assert_eq!(long(&format!("| {words} |")), 0);
        assert_eq!(long(&format!("text\n\n    {words}\n\n```sh\n{words}\n```\n")), 0);
        assert_eq!(long(&format!("- [{}](b.md)", "a".repeat(120))), 0);
        assert_eq!(long(&format!("![{words}](a.png)")), 0);
    }
}
