//! The configuration that an import writes, part by part, and what it leaves out.

use std::fmt::Write as _;

/// A setting of another program that has no place here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Left {
    /// Its line, from 1 on; 0: of the command line.
    pub(super) line: usize,
    /// The setting, as written.
    pub(super) text: String,
    /// Why, and what to do.
    pub(super) why: String,
}

/// Keys with their values, as TOML has them, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Keys(Vec<(String, String)>);

impl Keys {
    /// Sets a key; the last one counts.
    pub(super) fn set(&mut self, key: &str, value: impl Into<String>) {
        let value = value.into();
        match self.0.iter_mut().find(|(held, _)| held == key) {
            Some((_, held)) => *held = value,
            None => self.0.push((key.to_owned(), value)),
        }
    }

    pub(super) fn text(&mut self, key: &str, value: &str) {
        self.set(key, quoted(value));
    }

    /// Adds a text to a list.
    pub(super) fn add(&mut self, key: &str, value: &str) {
        let value = quoted(value);
        match self.0.iter_mut().find(|(held, _)| held == key) {
            Some((_, held)) if held.contains(&value) => {}
            Some((_, held)) => {
                held.truncate(held.len() - 1);
                held.push_str(&format!(", {value}]"));
            }
            None => self.0.push((key.to_owned(), format!("[{value}]"))),
        }
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(held, _)| held == key)
    }

    /// Whether the key has this text.
    pub(super) fn is(&self, key: &str, text: &str) -> bool {
        self.0.iter().any(|(held, value)| held == key && *value == quoted(text))
    }

    /// Takes over other keys.
    pub(super) fn extend(&mut self, other: &Keys) {
        other.0.iter().for_each(|(key, value)| self.set(key, value.clone()));
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn write(&self, out: &mut String) {
        for (key, value) in &self.0 {
            let _ = writeln!(out, "{key} = {value}");
        }
    }

    /// As an inline table.
    fn inline(&self) -> String {
        let pairs: Vec<_> = self.0.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        format!("{{ {} }}", pairs.join(", "))
    }
}

/// A text as TOML has it.
pub(super) fn quoted(text: &str) -> String {
    toml_edit::Value::from(text).to_string().trim().to_owned()
}

/// A rule: its conditions and settings together.
#[derive(Clone, Debug, Default)]
pub(super) struct RuleDraft {
    pub(super) keys: Keys,
    pub(super) notes: Vec<String>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct SiteDraft {
    pub(super) hosts: Vec<String>,
    /// URLs of its servers.
    pub(super) origin: Vec<String>,
    /// Further keys of the origin.
    pub(super) origin_keys: Keys,
    pub(super) keys: Keys,
    pub(super) purge_from: Vec<String>,
    pub(super) rules: Vec<RuleDraft>,
    pub(super) notes: Vec<String>,
}

impl SiteDraft {
    /// The origin as a value: a text, a list, or a table.
    pub(super) fn origin_value(&self) -> String {
        origin(&self.origin, &self.origin_keys)
    }
}

/// An origin as a value: a text, a list, or a table.
pub(super) fn origin(urls: &[String], keys: &Keys) -> String {
    let url = match urls {
        [one] => quoted(one),
        several => {
            let all: Vec<_> = several.iter().map(|url| quoted(url)).collect();
            format!("[{}]", all.join(", "))
        }
    };
    if keys.is_empty() {
        return url;
    }
    let mut all = Keys::default();
    all.set("url", url);
    all.0.extend(keys.0.iter().cloned());
    all.inline()
}

/// A whole configuration.
#[derive(Debug, Default)]
pub(super) struct Draft {
    /// Before the first table.
    pub(super) root: Keys,
    pub(super) http: Keys,
    pub(super) limits: Keys,
    pub(super) https: Keys,
    /// Files of certificate and key.
    pub(super) certificates: Vec<(String, String)>,
    pub(super) memcached: Keys,
    pub(super) memcached_tls: Keys,
    pub(super) disk: Keys,
    pub(super) sites: Vec<SiteDraft>,
    pub(super) notes: Vec<String>,
    pub(super) left: Vec<Left>,
}

impl Draft {
    pub(super) fn leave(&mut self, line: usize, text: impl Into<String>, why: impl Into<String>) {
        self.left.push(Left { line, text: text.into(), why: why.into() });
    }

    /// The file. `from`: where it comes from, in words.
    pub(super) fn toml(&self, from: &str) -> String {
        let mut out = format!("# Written by `larder import` from {from}. Check it, then try it:\n");
        out.push_str("# larder check larder.toml && larder serve --config larder.toml\n");
        comments(&mut out, &self.notes);
        if !self.left.is_empty() {
            out.push_str("#\n# Not carried over:\n");
            for Left { line, text, why } in &self.left {
                let place = if *line > 0 { format!("line {line}: ") } else { String::new() };
                comment(&mut out, &format!("{place}{text}: {why}"));
            }
        }
        out.push('\n');
        self.root.write(&mut out);
        let table = |out: &mut String, name: &str, keys: &Keys| {
            if !keys.is_empty() {
                let _ = writeln!(out, "\n[{name}]");
                keys.write(out);
            }
        };
        table(&mut out, "http", &self.http);
        table(&mut out, "http.limits", &self.limits);
        table(&mut out, "https", &self.https);
        for (cert, key) in &self.certificates {
            let (cert, key) = (quoted(cert), quoted(key));
            let _ = writeln!(out, "\n[[https.certificates]]\ncert = {cert}\nkey = {key}");
        }
        table(&mut out, "memcached", &self.memcached);
        table(&mut out, "memcached.tls", &self.memcached_tls);
        table(&mut out, "disk", &self.disk);
        for site in &self.sites {
            site.write(&mut out);
        }
        out
    }
}

impl SiteDraft {
    fn write(&self, out: &mut String) {
        out.push('\n');
        comments(out, &self.notes);
        out.push_str("[[site]]\n");
        if !self.hosts.is_empty() {
            let hosts: Vec<_> = self.hosts.iter().map(|host| quoted(host)).collect();
            let _ = writeln!(out, "hosts = [{}]", hosts.join(", "));
        }
        let _ = writeln!(out, "origin = {}", self.origin_value());
        if !self.purge_from.is_empty() {
            let from: Vec<_> = self.purge_from.iter().map(|from| quoted(from)).collect();
            let _ = writeln!(out, "purge = {{ from = [{}] }}", from.join(", "));
        }
        self.keys.write(out);
        for rule in &self.rules {
            out.push('\n');
            comments(out, &rule.notes);
            out.push_str("[[site.rule]]\n");
            rule.keys.write(out);
        }
    }
}

fn comments(out: &mut String, notes: &[String]) {
    notes.iter().for_each(|note| comment(out, note));
}

/// A comment in lines of at most 100 columns.
fn comment(out: &mut String, text: &str) {
    let mut line = String::from("#");
    for word in text.split_whitespace() {
        if line.len() + 1 + word.len() > 100 && line.len() > 1 {
            out.push_str(&line);
            out.push('\n');
            line = String::from("#  ");
        }
        line.push(' ');
        line.push_str(word);
    }
    out.push_str(&line);
    out.push('\n');
}
