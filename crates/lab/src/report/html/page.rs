//! Builder of pages.

use super::{Table, escaped, style};
use crate::report::plot::{Bars, Lines};

/// A page under construction; parts appear in the order they are added.
#[derive(Clone, Debug)]
pub struct Page {
    title: String,
    body: String,
}

impl Page {
    /// A page with a title.
    pub fn new(title: &str) -> Page {
        Page { title: title.to_owned(), body: String::new() }
    }

    /// Adds a heading of a section.
    pub fn heading(&mut self, text: &str) -> &mut Page {
        self.add(&format!("<h2>{}</h2>\n", escaped(text)))
    }

    /// Adds a heading of a subsection.
    pub fn subheading(&mut self, text: &str) -> &mut Page {
        self.add(&format!("<h3>{}</h3>\n", escaped(text)))
    }

    /// Adds a paragraph. Text between backquotes is code.
    pub fn paragraph(&mut self, text: &str) -> &mut Page {
        self.add(&format!("<p>{}</p>\n", with_code(text)))
    }

    /// Adds a less prominent paragraph, for example a remark or source.
    pub fn remark(&mut self, text: &str) -> &mut Page {
        self.add(&format!("<p class=\"soft\">{}</p>\n", with_code(text)))
    }

    /// Adds a warning, for example a missed limit or wrong answers.
    pub fn warning(&mut self, text: &str) -> &mut Page {
        self.add(&format!("<p class=\"bad\">{}</p>\n", with_code(text)))
    }

    /// Adds a list.
    pub fn list<T: AsRef<str>>(&mut self, items: impl IntoIterator<Item = T>) -> &mut Page {
        let items: String = items
            .into_iter()
            .map(|item| format!("<li>{}</li>\n", with_code(item.as_ref())))
            .collect();
        self.add(&format!("<ul>{items}</ul>\n"))
    }

    /// Adds preformatted text: a configuration, a command.
    pub fn verbatim(&mut self, text: &str) -> &mut Page {
        self.add(&format!("<pre>{}</pre>\n", escaped(text)))
    }

    /// Adds key figures in large type: name, and value with unit.
    pub fn facts<N: AsRef<str>, V: AsRef<str>>(
        &mut self,
        facts: impl IntoIterator<Item = (N, V)>,
    ) -> &mut Page {
        self.add("<dl class=\"facts\">");
        for (name, value) in facts {
            self.add(&format!(
                "<div><dt>{}</dt><dd>{}</dd></div>\n",
                escaped(name.as_ref()),
                escaped(value.as_ref())
            ));
        }
        self.add("</dl>\n")
    }

    /// Adds a table.
    pub fn table(&mut self, table: &Table) -> &mut Page {
        self.add(&table.html())
    }

    /// Adds a table of names and values, such as the options of a run.
    pub fn pairs<N: AsRef<str>, V: AsRef<str>>(
        &mut self,
        caption: &str,
        pairs: impl IntoIterator<Item = (N, V)>,
    ) -> &mut Page {
        let mut table = Table::new(caption, ["what", "value"]).words(&[1]);
        for (name, value) in pairs {
            table.row([name.as_ref(), value.as_ref()]);
        }
        self.table(&table)
    }

    /// Adds a plot of lines with its title.
    pub fn plot(&mut self, plot: &Lines) -> &mut Page {
        self.figure(plot.title(), &plot.svg())
    }

    /// Adds a plot of bars with its title.
    pub fn bars(&mut self, plot: &Bars) -> &mut Page {
        self.figure(plot.title(), &plot.svg())
    }

    /// Adds what `inside` adds, collapsed behind a line of text.
    pub fn folded(&mut self, summary: &str, inside: impl FnOnce(&mut Page)) -> &mut Page {
        self.add(&format!("<details><summary>{}</summary>\n", escaped(summary)));
        inside(self);
        self.add("</details>\n")
    }

    /// The complete document.
    pub fn html(&self) -> String {
        let title = escaped(&self.title);
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><meta \
             name=\"viewport\" content=\"width=device-width, \
             initial-scale=1\"/>\n<title>{title}</title><style>{}</style></head>\n<body><main>\n\
             <h1>{title}</h1>\n{}</main></body></html>\n",
            style::sheet(),
            self.body
        )
    }

    /// Adds a drawing from `report::plot`, which is already markup.
    fn figure(&mut self, title: &str, svg: &str) -> &mut Page {
        self.add(&format!("<figure><figcaption>{}</figcaption>{svg}</figure>\n", escaped(title)))
    }

    fn add(&mut self, html: &str) -> &mut Page {
        self.body.push_str(html);
        self
    }
}

/// Escapes text and marks code between backquotes.
fn with_code(text: &str) -> String {
    let mut out = String::new();
    let mut parts = text.split('`').peekable();
    let mut code = false;
    while let Some(part) = parts.next() {
        let part = escaped(part);
        match (code, parts.peek().is_some()) {
            (true, true) => out.push_str(&format!("<code>{part}</code>")),
            // An unpaired backquote stays a backquote.
            (true, false) => out.push_str(&format!("`{part}")),
            (false, _) => out.push_str(&part),
        }
        code = !code;
    }
    out
}
