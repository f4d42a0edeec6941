//! Problems of a configuration, with their positions: all are collected, none ends the parsing.

use std::{fmt, ops::Range, path::Path};

/// The position of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// Bytes of the configuration file.
    File(Range<usize>),
    /// A flag, with its dashes.
    Flag(&'static str),
    /// No position: it is missing, or a default.
    Whole,
}

/// One mistake, warning or note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Its position.
    pub(crate) position: Location,
    /// The mistake and the expected form.
    pub(crate) message: String,
    /// The suggestion.
    pub(crate) fix: Option<String>,
}

impl Problem {
    /// A problem without a suggested fix.
    pub(crate) fn new(position: Location, message: impl Into<String>) -> Problem {
        Problem { position, message: message.into(), fix: None }
    }

    /// Adds a suggestion.
    pub(crate) fn fix(mut self, fix: impl Into<String>) -> Problem {
        self.fix = Some(fix.into());
        self
    }
}

/// All problems of one configuration, with its text.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    /// The file as the user named it; None: there is no file.
    name: Option<String>,
    text: String,
    /// Mistakes: with any of these nothing is started.
    pub(crate) errors: Vec<Problem>,
    /// Warnings: the server starts nevertheless.
    pub(crate) warnings: Vec<Problem>,
    /// Notes: no mistakes, but useful to know.
    pub(crate) notes: Vec<Problem>,
}

impl Report {
    /// An empty report about `text` of the file `name`.
    pub(crate) fn new(name: Option<&Path>, text: &str) -> Report {
        let name = name.map(|path| path.display().to_string());
        Report {
            name,
            text: text.to_owned(),
            errors: Vec::new(),
            warnings: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Notes a mistake.
    pub(crate) fn error(&mut self, problem: Problem) {
        self.errors.push(problem);
    }

    /// Notes a doubt.
    pub(crate) fn warn(&mut self, problem: Problem) {
        self.warnings.push(problem);
    }

    /// Notes what is worth knowing.
    pub(crate) fn note(&mut self, problem: Problem) {
        self.notes.push(problem);
    }

    /// Mistakes in the order of the text, then those without a position.
    pub(crate) fn sort(&mut self) {
        let key = |problem: &Problem| match &problem.position {
            Location::File(span) => (0, span.start),
            Location::Flag(_) => (1, 0),
            Location::Whole => (2, 0),
        };
        self.errors.sort_by_key(key);
        self.warnings.sort_by_key(key);
        self.notes.sort_by_key(key);
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, problem: &Problem, kind: &str) -> fmt::Result {
        let name = self.name.as_deref().unwrap_or("larder");
        match &problem.position {
            Location::File(span) => {
                let at = Position::of(&self.text, span.start);
                writeln!(f, "{name}:{}:{}: {kind}: {}", at.line, at.column, problem.message)?;
                let quoted = self.text[at.line_start..].lines().next().unwrap_or("");
                let width = marked(&self.text, span, at.line_start + quoted.len());
                writeln!(f, "{:>5} | {quoted}", at.line)?;
                writeln!(f, "      | {}{}", " ".repeat(at.column - 1), "^".repeat(width))?;
            }
            Location::Flag(flag) => writeln!(f, "{flag}: {kind}: {}", problem.message)?,
            Location::Whole => writeln!(f, "{name}: {kind}: {}", problem.message)?,
        }
        match &problem.fix {
            Some(fix) => writeln!(f, "      = {fix}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.errors {
            self.write(f, problem, "error")?;
        }
        for problem in &self.warnings {
            self.write(f, problem, "warning")?;
        }
        for problem in &self.notes {
            self.write(f, problem, "note")?;
        }
        Ok(())
    }
}

/// Characters of `span` on its first line, at least 1.
fn marked(text: &str, span: &Range<usize>, line_end: usize) -> usize {
    let end = span.end.min(line_end).max(span.start);
    text.get(span.start..end).map_or(1, |part| part.chars().count().max(1))
}

/// Line and column, both from 1; columns count characters.
struct Position {
    line: usize,
    column: usize,
    line_start: usize,
}

impl Position {
    fn of(text: &str, offset: usize) -> Position {
        let mut offset = offset.min(text.len());
        while !text.is_char_boundary(offset) {
            offset -= 1;
        }
        let before = &text[..offset];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = before.matches('\n').count() + 1;
        Position { line, column: before[line_start..].chars().count() + 1, line_start }
    }
}

/// The candidate closest to `word`, when it is close enough to be what was meant.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let word = word.to_ascii_lowercase().replace('-', "_");
    let allowed = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(&word, candidate), candidate))
        .filter(|(steps, _)| *steps <= allowed)
        .min_by_key(|(steps, _)| *steps)
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions, replacements and swaps of neighbours that lead from one word to the
/// other.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let mut best = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    best = best.min(rows[i - 2][j - 2] + 1);
                }
                best
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        let names = ["origin", "hosts", "preset", "purge", "drop_query"];
        assert_eq!(nearest("orgin", names), Some("origin"));
        assert_eq!(nearest("oirgin", names), Some("origin"));
        assert_eq!(nearest("drop-query", names), Some("drop_query"));
        assert_eq!(nearest("Hosts", names), Some("hosts"));
        assert_eq!(nearest("memcached", names), None);
        assert_eq!(nearest("x", names), None);
    }

    #[test]
    fn a_problem_shows_line_column_and_the_text_it_means() {
        let text = "a = 1\nbä = \"x\"\n";
        let mut report = Report::new(Some(Path::new("l.toml")), text);
        let start = text.find('"').expect("there is a quote");
        report.error(Problem::new(Location::File(start..start + 3), "wrong").fix("write 2"));
        let shown = report.to_string();
        assert_eq!(
            shown,
            "l.toml:2:6: error: wrong\n    2 | bä = \"x\"\n      |      ^^^\n      = write 2\n"
        );
    }
}
