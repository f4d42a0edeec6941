//! Style of the pages.

use crate::report::plot::theme;

/// The style sheet: colours by the reader's preference, and for print.
pub(super) fn sheet() -> String {
    format!(
        ":root{{color-scheme:light \
         dark;{}}}@media(prefers-color-scheme:dark){{:root{{{}}}}}@media \
         print{{:root{{{}}}}}{BODY}{}",
        theme::LIGHT,
        theme::DARK,
        theme::LIGHT,
        theme::rules()
    )
}

const BODY: &str = "\
*{box-sizing:border-box}body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 \
     system-ui,sans-serif}main{max-width:58rem;margin:0 auto;padding:2rem 1.5rem \
     4rem}h1{font-size:1.7rem;line-height:1.2;margin:0 0 1rem}h2{font-size:1.25rem;margin:2.5rem \
     0 .75rem;padding-bottom:.25rem;border-bottom:1px solid \
     var(--grid)}h3{font-size:1.05rem;margin:1.75rem 0 .5rem}p{margin:.5rem 0 \
     1rem;max-width:46rem}p.soft,figcaption,caption{color:var(--soft)}p.bad{color:var(--bad);\
     font-weight:600}a{color:var(--s1)}.wide{overflow-x:auto;margin:1rem 0 \
     1.5rem}table{border-collapse:collapse;font-variant-numeric:tabular-nums}caption{text-align:\
     left;padding:0 0 .4rem;font-size:.95rem}th,td{padding:.3rem .9rem .3rem \
     0;text-align:left;vertical-align:top;border-bottom:1px solid \
     var(--grid)}th{font-weight:600}thead th{border-bottom:2px solid \
     var(--grid);vertical-align:bottom}.n{text-align:right;white-space:nowrap}tbody \
     th{font-weight:400}tr.mark td,tr.mark \
     th{font-weight:600}dl.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(9.5rem,\
     1fr));gap:.75rem;margin:1.25rem 0 1.5rem}dl.facts \
     div{background:var(--panel);border-radius:.4rem;padding:.6rem .8rem}dl.facts \
     dt{font-size:.85rem;color:var(--soft)}dl.facts \
     dd{margin:0;font-size:1.25rem;font-weight:600}figure{margin:1.25rem 0 \
     2rem}figcaption{margin-bottom:.5rem;font-size:.95rem}pre{background:var(--panel);padding:.\
     8rem 1rem;border-radius:.4rem;overflow-x:auto;font:.875rem/1.45 \
     ui-monospace,monospace}code{font-family:ui-monospace,monospace;font-size:.\
     92em}details{margin:1rem 0}summary{cursor:pointer}@media \
     print{main{max-width:none;padding:0}figure,tr{break-inside:avoid}}";
