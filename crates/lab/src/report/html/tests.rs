//! Pages are well-formed and contain their text, whatever it is.

use proptest::prelude::*;

use super::*;

#[test]
fn everything_a_page_can_hold() {
    let mut table = Table::new("Caption <1>", ["name", "words", "number"]).words(&[1]);
    table.row(["a&b", "c", "1"]).marked_row(["d", "e", "2"]);
    let mut page = Page::new("Title & <title>");
    page.heading("Part")
        .subheading("Sub")
        .paragraph("Run `larder bench <url>` now, `unclosed")
        .remark("r")
        .warning("w");
    page.list(["one", "`two`"])
        .verbatim("a < b\n\tc")
        .facts([("rate", "5/s")])
        .table(&table)
        .pairs("p", [("a", "b")]);
    page.folded("more", |page| {
        page.paragraph("inside");
    });
    let html = page.html();
    well_formed(&html).unwrap_or_else(|why| panic!("{why}\n{html}"));
    for part in [
        "<title>Title &amp; &lt;title&gt;</title>",
        "<code>larder bench &lt;url&gt;</code> now, `unclosed",
        "<th scope=\"row\">a&amp;b</th><td>c</td><td class=\"n\">1</td>",
        "<tr class=\"mark\">",
        "<details><summary>more</summary>\n<p>inside</p>\n</details>",
    ] {
        assert!(html.contains(part), "{part:?} is not in\n{html}");
    }
}

proptest! {
    #[test]
    fn no_text_breaks_a_page(text in any::<String>()) {
        let mut table = Table::new(&text, [text.as_str()]);
        table.row([text.as_str(), text.as_str()]);
        let mut page = Page::new(&text);
        page.heading(&text).paragraph(&text).verbatim(&text).list([&text]).facts([(&text,
            &text)]).table(&table);
        prop_assert!(well_formed(&page.html()).is_ok());
    }
}
