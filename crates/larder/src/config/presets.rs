//! The presets, read from presets.toml: data in the words of a `[[site]]`.

use std::path::Path;

use toml_edit::Document;

use super::{
    options::Section,
    problem::Report,
    reader::{Values, read_table},
};

/// The file, also shown in the documentation.
pub(crate) const TEXT: &str = include_str!("presets.toml");

/// The values of `preset`.
pub(crate) const NAMES: &[&str] = &[
    "anonymous",
    "discourse",
    "django",
    "drupal",
    "ghost",
    "magento",
    "mediawiki",
    "static",
    "typo3",
    "wordpress",
];

/// The preset of this name, and its mistakes (none: a test reads them all).
pub(crate) fn preset(name: &str) -> Option<(Values, Report)> {
    let mut report = Report::new(Some(Path::new("presets.toml")), TEXT);
    let document = Document::parse(TEXT).ok()?;
    let table = document.as_table().get(name)?.as_table_like()?;
    let values = read_table(Section::Preset, table, 0..0, &mut report);
    Some((values, report))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_reads_without_a_mistake() {
        for name in NAMES {
            let (values, report) =
                preset(name).unwrap_or_else(|| panic!("{name} is missing or not TOML"));
            assert!(report.errors.is_empty(), "{report}");
            assert!(values.is_set("bypass_cookies"), "{name} lets users in");
        }
        let document = Document::parse(TEXT).expect("presets.toml is TOML");
        assert_eq!(document.as_table().iter().map(|(name, _)| name).collect::<Vec<_>>(), NAMES);
    }
}
