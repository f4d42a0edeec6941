//! Tables, also accessible to screen readers.

use super::escaped;

/// A table with a caption, column headings, and rows whose first cell is their heading.
#[derive(Clone, Debug, Default)]
pub struct Table {
    caption: String,
    columns: Vec<String>,
    rows: Vec<(Vec<String>, bool)>,
    words: Vec<usize>,
}

impl Table {
    /// An empty table. All columns but the first are right-aligned numbers unless changed by
    /// `words`.
    pub fn new<C: Into<String>>(caption: &str, columns: impl IntoIterator<Item = C>) -> Table {
        let columns = columns.into_iter().map(Into::into).collect();
        Table { caption: caption.to_owned(), columns, ..Table::default() }
    }

    /// Makes these columns, counted from 0, left-aligned text.
    #[must_use]
    pub fn words(mut self, columns: &[usize]) -> Table {
        self.words.extend_from_slice(columns);
        self
    }

    /// Adds a row.
    pub fn row<C: Into<String>>(&mut self, cells: impl IntoIterator<Item = C>) -> &mut Table {
        self.rows.push((cells.into_iter().map(Into::into).collect(), false));
        self
    }

    /// Adds a highlighted row.
    pub fn marked_row<C: Into<String>>(
        &mut self,
        cells: impl IntoIterator<Item = C>,
    ) -> &mut Table {
        self.rows.push((cells.into_iter().map(Into::into).collect(), true));
        self
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn html(&self) -> String {
        let class = |column: usize| {
            if column == 0 || self.words.contains(&column) { "" } else { " class=\"n\"" }
        };
        let mut out = String::from("<div class=\"wide\"><table>");
        if !self.caption.is_empty() {
            out.push_str(&format!("<caption>{}</caption>", escaped(&self.caption)));
        }
        out.push_str("<thead><tr>");
        for (n, name) in self.columns.iter().enumerate() {
            out.push_str(&format!("<th scope=\"col\"{}>{}</th>", class(n), escaped(name)));
        }
        out.push_str("</tr></thead>\n<tbody>");
        for (cells, marked) in &self.rows {
            out.push_str(if *marked { "<tr class=\"mark\">" } else { "<tr>" });
            for (n, cell) in cells.iter().enumerate() {
                let cell = escaped(cell);
                match n {
                    0 => out.push_str(&format!("<th scope=\"row\">{cell}</th>")),
                    _ => out.push_str(&format!("<td{}>{cell}</td>", class(n))),
                }
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table></div>\n");
        out
    }
}
