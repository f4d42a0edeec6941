//! Self-contained HTML pages: headings, paragraphs, tables and figures, in light and dark colours,
//! without scripts and external resources. All text is escaped here.

mod page;
mod run;
mod style;
mod table;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod xml;

pub use page::Page;
pub use run::page;
pub use table::Table;
#[cfg(test)]
pub(crate) use xml::well_formed;

/// Escapes text for HTML and SVG, also within quotes. Control characters, which neither allows,
/// become spaces.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(character),
            _ if character.is_control() => out.push(' '),
            _ => out.push(character),
        }
    }
    out
}
