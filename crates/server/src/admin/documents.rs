//! The documents of `docs/`, as pages: advice of the dashboard links to their sections.
//!
//! They are carried in the program, which gives them at its start, and rendered for each request,
//! which is rare. The text is ours, and no markup of it is passed on but that which the renderer
//! makes.

use std::{collections::HashMap, sync::OnceLock};

use axum::{extract::Path, http::StatusCode, response::Response};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd, html};

use super::answer::{self, Refused};

/// The documents, each by its name.
pub type Documents = &'static [(&'static str, &'static str)];

/// Those of the program. They are not part of this crate: it would be built anew for each change of
/// a document.
static DOCUMENTS: OnceLock<Documents> = OnceLock::new();

/// Gives the admin interface the documents that it serves. The first ones count; without any, none
/// is served.
pub fn provide_documents(documents: Documents) {
    // Others before them are those of the same program.
    let _ = DOCUMENTS.set(documents);
}

/// A document as a page.
pub(super) async fn document(Path(file): Path<String>) -> Result<Response, Refused> {
    let text = text_of(&file)
        .ok_or_else(|| Refused::absent("no_document", "there is no such document"))?;
    Ok(answer::typed(StatusCode::OK, "text/html; charset=utf-8", page(&file, text)))
}

fn text_of(file: &str) -> Option<&'static str> {
    DOCUMENTS.get()?.iter().find(|(name, _)| *name == file).map(|(_, text)| *text)
}

/// The page: its headings have the anchors that GitHub gives them.
fn page(file: &str, text: &str) -> String {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
    let parsed: Vec<Event<'_>> = Parser::new_ext(text, options).collect();
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\"><title>{file} – Larder</title><link \
         rel=\"icon\" href=\"/assets/icon.svg\" type=\"image/svg+xml\"><link rel=\"stylesheet\" \
         href=\"/assets/style.css\"></head><body><main class=\"doc\">\n"
    );
    html::push_html(&mut out, served(parsed).into_iter());
    out.push_str("</main></body></html>\n");
    out
}

/// The events of a document as they are served: headings with anchors, links only to what is here
/// or elsewhere on the web, no pictures, and nothing that is markup in the text.
fn served(events: Vec<Event<'_>>) -> Vec<Event<'_>> {
    let mut anchors = anchors(&events).into_iter();
    // Links and pictures under way whose tags are left out.
    let mut left_out = Vec::new();
    let mut out = Vec::with_capacity(events.len());
    for event in events {
        match event {
            Event::Start(Tag::Heading { level, classes, attrs, .. }) => {
                let id = anchors.next().map(Into::into);
                out.push(Event::Start(Tag::Heading { level, id, classes, attrs }));
            }
            Event::Start(Tag::Link { dest_url, link_type, title, id }) => {
                let kept = is_served(&dest_url);
                left_out.push(!kept);
                if kept {
                    out.push(Event::Start(Tag::Link { dest_url, link_type, title, id }));
                }
            }
            Event::Start(Tag::Image { .. }) => {}
            Event::End(TagEnd::Image) => {}
            Event::End(TagEnd::Link) if left_out.pop() == Some(true) => {}
            Event::Start(Tag::Table(columns)) => {
                // A wide table scrolls by itself.
                out.push(Event::Html("<div class=\"table\" tabindex=\"0\">".into()));
                out.push(Event::Start(Tag::Table(columns)));
            }
            Event::End(TagEnd::Table) => {
                out.push(Event::End(TagEnd::Table));
                out.push(Event::Html("</div>".into()));
            }
            Event::Html(text) | Event::InlineHtml(text) => out.push(Event::Text(text)),
            event => out.push(event),
        }
    }
    out
}

/// Whether a link leads somewhere from here.
fn is_served(link: &str) -> bool {
    let file = link.split('#').next().unwrap_or_default();
    file.is_empty() || link.starts_with("https://") || text_of(file).is_some()
}

/// The anchors of the headings, in their order; the second one of a name has a number.
fn anchors(events: &[Event<'_>]) -> Vec<String> {
    let (mut anchors, mut seen) = (Vec::new(), HashMap::<String, u32>::new());
    let mut title: Option<String> = None;
    for event in events {
        match event {
            Event::Start(Tag::Heading { .. }) => title = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                let name = anchor(&title.take().unwrap_or_default());
                let count = seen.entry(name.clone()).or_default();
                anchors.push(if *count == 0 { name } else { format!("{name}-{count}") });
                *count += 1;
            }
            Event::Text(text) | Event::Code(text) => {
                if let Some(title) = &mut title {
                    title.push_str(text);
                }
            }
            _ => {}
        }
    }
    anchors
}

fn anchor(title: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    title.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    /// Those of the tree.
    fn documents() -> Documents {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let mut all = Vec::new();
        for entry in fs::read_dir(docs).expect("docs") {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|end| end == "md") {
                let name = path.file_name().and_then(|name| name.to_str()).expect("UTF-8");
                let text = fs::read_to_string(&path).expect("a document");
                all.push((&*name.to_owned().leak(), &*text.leak()));
            }
        }
        provide_documents(all.leak());
        DOCUMENTS.get().expect("provided")
    }

    #[test]
    fn headings_have_anchors_and_links_lead_somewhere() {
        documents();
        let text = "# A `b`: c, d\n\n## Same\n\n## Same\n\n[here](top.md#a-b) \
                    [gone](decisions/1.md) <b>x</b> ![picture](images/x.png)\n\n\
                    | a | b |\n|---|---|\n| 1 | 2 |\n";
        let page = page("x.md", text);
        for part in [
            "<h1 id=\"a-b-c-d\">",
            "<h2 id=\"same\">",
            "<h2 id=\"same-1\">",
            "<a href=\"top.md#a-b\">here</a> gone &lt;b&gt;x&lt;/b&gt; picture",
            "<div class=\"table\" tabindex=\"0\"><table>",
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
    }

    #[test]
    fn all_are_rendered_and_their_links_are_right() {
        for (name, text) in documents() {
            let page = page(name, text);
            assert!(page.contains("<h1 id="), "{name}");
            for link in page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
                let Some((file, place)) = link.split_once('#') else { continue };
                if link.starts_with("https://") {
                    continue;
                }
                let there = if file.is_empty() { *text } else { text_of(file).expect("served") };
                let parsed: Vec<_> = Parser::new_ext(there, Options::ENABLE_TABLES).collect();
                let anchors = anchors(&parsed);
                assert!(anchors.iter().any(|anchor| anchor == place), "{name}: {link}");
            }
        }
    }
}
