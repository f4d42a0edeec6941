//! Colours: plotters draws with markers, which become classes whose colours the page defines for
//! light and dark.

use plotters::style::RGBColor;

/// Marker of texts and axes.
pub(super) const INK: RGBColor = RGBColor(1, 1, 1);
/// Marker of grid lines.
pub(super) const GRID: RGBColor = RGBColor(2, 2, 2);
/// Number of distinct series colours; the ninth series has the first colour, dashed.
const SERIES: usize = 8;
/// Marker of the first series, in its blue component.
const FIRST: u8 = 0x10;

/// Colours on white: contrast of at least 4 to 1, distinguishable with red-green colour blindness.
pub(crate) const LIGHT: &str = "--paper:#ffffff;--ink:#1b1f24;--soft:#57606a;--grid:#d8dee4;\
                                --panel:#f6f8fa;--bad:#b3261e;--s1:#1f6fb4;--s2:#c04a05;--s3:#\
                                1a7f4b;--s4:#8549b0;--s5:#8a6a00;--s6:#0b7285;--s7:#b32d68;--s8:#\
                                59636e";
/// Colours on almost black.
pub(crate) const DARK: &str = "--paper:#14171a;--ink:#e6e9ec;--soft:#a2abb5;--grid:#363c43;\
                               --panel:#1d2126;--bad:#ff8a80;--s1:#6cb2f0;--s2:#f59056;--s3:#\
                               5fcf95;--s4:#c99bea;--s5:#e3bd4a;--s6:#5ccfe0;--s7:#f285b0;--s8:#\
                               a9b3bf";

/// CSS rules for plots, for the page's style.
pub(crate) fn rules() -> String {
    let mut rules = String::from(
        ".plot{max-width:100%;height:auto;color:var(--ink)}.plot .g{stroke:var(--grid)}",
    );
    for n in 1..=SERIES {
        rules
            .push_str(&format!(".plot .l{n}{{stroke:var(--s{n})}}.plot .f{n}{{fill:var(--s{n})}}"));
    }
    rules
}

/// Marker of a series.
pub(super) fn series(n: usize) -> RGBColor {
    RGBColor(0, 0, FIRST + (n % SERIES) as u8)
}

/// Replaces the markers in plotters' output by classes, makes its size flexible, and adds an
/// accessible title.
pub(super) fn themed(svg: &str, title: &str, alone: bool) -> String {
    let (Some(end), Some(from)) = (svg.find('>'), svg.find("viewBox=")) else {
        return svg.to_owned();
    };
    let mut body = svg[end + 1..].to_owned();
    for attribute in ["fill", "stroke"] {
        body = body
            .replace(&format!("{attribute}=\"#010101\""), &format!("{attribute}=\"currentColor\""));
        for n in 0..SERIES {
            let marker = format!("{attribute}=\"#0000{:02X}\"", FIRST + n as u8);
            body = body.replace(
                &marker,
                &format!("class=\"{}{}\"", &attribute[..1].replace('s', "l"), n + 1),
            );
        }
    }
    body = body
        .replace("stroke=\"#020202\"", "class=\"g\"")
        .replace(" opacity=\"1\"", "")
        .replace(" stroke=\"none\"", "");
    let (width, title) = (super::canvas::WIDTH, crate::report::html::escaped(title));
    let style = if alone {
        format!(
            "<style>svg{{{LIGHT};background:var(--paper)}}@media(prefers-color-scheme:\
             dark){{svg{{{DARK}}}}}{}</style>",
            rules()
        )
    } else {
        String::new()
    };
    format!(
        "<svg class=\"plot\" role=\"img\" width=\"{width}\" {}<title>{title}</title>{style}{body}",
        &svg[from..=end]
    )
}
