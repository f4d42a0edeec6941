//! Templates in `bench/peers`: `@name@` is replaced by a value, and lines between `#@ each list`
//! and `#@ end` are repeated for every member of the list, which is `@it@` there.

use std::collections::BTreeMap;

use super::Error;

/// A configuration template in the repository.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Template {
    /// File name in `bench/peers`.
    pub(crate) file: &'static str,
    pub(crate) text: &'static str,
}

/// Values for a template.
#[derive(Clone, Debug, Default)]
pub(crate) struct Values {
    single: BTreeMap<&'static str, String>,
    lists: BTreeMap<&'static str, Vec<String>>,
}

impl Values {
    pub(crate) fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.single.insert(name, value.to_string());
        self
    }

    pub(crate) fn with_list(mut self, name: &'static str, values: Vec<String>) -> Self {
        self.lists.insert(name, values);
        self
    }
}

impl Template {
    /// The configuration with all values filled in.
    pub(crate) fn fill(&self, values: &Values) -> Result<String, Error> {
        let mut filled = String::new();
        let mut lines = self.text.lines();
        while let Some(line) = lines.next() {
            let Some(list) = line.trim().strip_prefix("#@ each ") else {
                self.line(line, values, None, &mut filled)?;
                continue;
            };
            let members =
                values.lists.get(list).ok_or_else(|| self.fault(format!("no list `{list}`")))?;
            let block: Vec<&str> =
                lines.by_ref().take_while(|line| line.trim() != "#@ end").collect();
            for member in members {
                for line in &block {
                    self.line(line, values, Some(member), &mut filled)?;
                }
            }
        }
        Ok(filled)
    }

    /// For programs with options and no file: every line is one option with its value, `#` begins a
    /// comment.
    pub(crate) fn arguments(&self, values: &Values) -> Result<Vec<String>, Error> {
        let filled = self.fill(values)?;
        let lines =
            filled.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let split = |line: &str| match line.split_once(' ') {
            Some((option, value)) => vec![option.to_owned(), value.trim().to_owned()],
            None => vec![line.to_owned()],
        };
        Ok(lines.flat_map(split).collect())
    }

    fn line(
        &self,
        line: &str,
        values: &Values,
        it: Option<&String>,
        into: &mut String,
    ) -> Result<(), Error> {
        let mut rest = line;
        while let Some((before, name, after)) = place(rest) {
            let value = if name == "it" { it } else { values.single.get(name) };
            let value = value
                .ok_or_else(|| self.fault(format!("nothing is given for @{name}@ in `{line}`")))?;
            into.push_str(before);
            into.push_str(value);
            rest = after;
        }
        into.push_str(rest);
        into.push('\n');
        Ok(())
    }

    fn fault(&self, fault: String) -> Error {
        Error::Template { file: self.file, fault }
    }
}

/// Splits a line at its first `@name@`: text before, name, text after.
fn place(line: &str) -> Option<(&str, &str, &str)> {
    let (start, _) = line.match_indices('@').find(|(at, _)| name(&line[at + 1..]).is_some())?;
    let name = name(&line[start + 1..])?;
    Some((&line[..start], name, &line[start + name.len() + 2..]))
}

fn name(text: &str) -> Option<&str> {
    let (name, _) = text.split_once('@')?;
    let word =
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    word.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(text: &'static str) -> Template {
        Template { file: "it.conf", text }
    }

    #[test]
    fn places_are_filled() {
        let values = Values::default()
            .with("port", 80)
            .with("dir", "/d")
            .with_list("small", vec!["1".into(), "2".into()]);
        let text = "listen @port@ @dir@/@port@; mail a@b.c\n#@ each small\n at /@it@ { @dir@ \
                    }\n#@ end\nend";
        let filled = template(text).fill(&values).unwrap();
        assert_eq!(filled, "listen 80 /d/80; mail a@b.c\n at /1 { /d }\n at /2 { /d }\nend\n");
    }

    #[test]
    fn what_is_not_given_is_named_with_its_file() {
        let error = template("x @port@").fill(&Values::default()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "bench/peers/it.conf: nothing is given for @port@ in `x @port@`"
        );
        let error = template("#@ each small\n#@ end").fill(&Values::default()).unwrap_err();
        assert_eq!(error.to_string(), "bench/peers/it.conf: no list `small`");
    }

    #[test]
    fn options_are_one_a_line() {
        let text = "# one worker\n-t 1\n\n-p   a=b c\n-F\n";
        let arguments = template(text).arguments(&Values::default()).unwrap();
        assert_eq!(arguments, ["-t", "1", "-p", "a=b c", "-F"]);
    }
}
