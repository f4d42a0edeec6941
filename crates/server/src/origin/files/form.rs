//! The forms of a file: as it is, and compressed ones that lie beside it.

use std::io;

use larder_proto::{
    Secs,
    http::{Codings, Fields, date},
    rules::{compress::worth_compressing, esi},
};

use super::{STORED_BYTES, content::Version};
use crate::{
    origin::tree::{FoundFile, OpenFile, Root},
    settings::{Glob, TreeSettings},
};

/// Compressed forms that may lie beside a file: coding and extension.
const CODINGS: [(&str, &str); 3] = [("br", ".br"), ("zstd", ".zst"), ("gzip", ".gz")];

/// One form of a file, open.
#[derive(Debug)]
pub(super) struct Form {
    pub(super) open: OpenFile,
    pub(super) version: Version,
    /// The coding of a compressed form.
    pub(super) coding: Option<&'static str>,
}

/// The forms of a file that are of use: the file itself, then those that have fewer bytes.
pub(super) fn open(found: FoundFile) -> io::Result<Vec<Form>> {
    let FoundFile { name, open, root } = found;
    let version = Version::of(&open.stat);
    let mut forms = vec![Form { open, version, coding: None }];
    for (coding, extension) in CODINGS {
        let compressed = [&name, extension.as_bytes()].concat();
        let Some(open) = beside(&root, &compressed)? else { continue };
        let form = Version::of(&open.stat);
        // One that was made of an older file is of no use, nor one that is being made.
        if form.modified >= version.modified && form.size < version.size && form.size > 0 {
            forms.push(Form { open, version: form, coding: Some(coding) });
        }
    }
    Ok(forms)
}

/// One that cannot be read is as good as none.
fn beside(root: &Root, name: &[u8]) -> io::Result<Option<OpenFile>> {
    match root.read(name) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
        read => read,
    }
}

/// The place, among forms of these codings and sizes, of the one with the fewest bytes that a
/// client takes. The first has no coding.
pub(super) fn choose<'f>(
    fields: Fields<'_>,
    forms: impl ExactSizeIterator<Item = (Option<&'f str>, u64)>,
) -> usize {
    if forms.len() < 2 {
        return 0;
    }
    let accepted = Codings::parse(fields.all("accept-encoding"));
    let taken = |coding: &str| accepted.allows(std::iter::once(coding.as_bytes()));
    forms
        .enumerate()
        .filter(|(_, (coding, _))| coding.is_none_or(taken))
        .min_by_key(|(_, (_, size))| *size)
        .map_or(0, |(place, _)| place)
}

/// The fields that describe a form of a file. `varies`: there are several forms.
pub(super) fn fields(
    tree: &TreeSettings,
    name: &[u8],
    form: &Form,
    varies: bool,
    now: Secs,
) -> Vec<(&'static str, String)> {
    let media_type = media_type(tree, name);
    let mut fields = vec![
        ("Content-Type", media_type.to_owned()),
        ("ETag", form.version.etag()),
        ("Accept-Ranges", "bytes".to_owned()),
    ];
    if let Some(modified) = form.version.last_modified(now) {
        let date = String::from_utf8_lossy(&date::format(modified)).into_owned();
        fields.push(("Last-Modified", date));
    }
    if let Some(coding) = form.coding {
        fields.push(("Content-Encoding", coding.to_owned()));
    }
    if varies {
        fields.push(("Vary", "Accept-Encoding".to_owned()));
    }
    if let Some(seconds) = expires(tree, media_type) {
        fields.push(("Cache-Control", format!("max-age={seconds}")));
    }
    fields
}

/// Seconds for which clients may use a file of this type.
fn expires(tree: &TreeSettings, media_type: &str) -> Option<u32> {
    let bare = media_type.split(';').next().unwrap_or_default().trim();
    let matches = |types: &Glob| types.matches_as(bare.as_bytes(), |b| b.to_ascii_lowercase());
    tree.expires.iter().find(|(types, _)| matches(types)).map(|(_, seconds)| *seconds)
}

/// Whether a file is of use as a page that is compressed: text that is stored.
pub(super) fn is_compressible(tree: &TreeSettings, name: &[u8], form: &Form) -> bool {
    let size = form.version.size;
    size <= STORED_BYTES && worth_compressing(media_type(tree, name).as_bytes(), size)
}

/// Whether markup of ESI is expected in a file.
pub(super) fn may_have_markup(tree: &TreeSettings, name: &[u8]) -> bool {
    esi::has_markup(media_type(tree, name).as_bytes())
}

/// By the extension of the name: as configured, else as usual.
fn media_type<'t>(tree: &'t TreeSettings, name: &[u8]) -> &'t str {
    let dot = name.iter().rposition(|byte| *byte == b'.');
    let extension = dot.and_then(|at| std::str::from_utf8(&name[at + 1..]).ok());
    let extension = extension.unwrap_or_default().to_ascii_lowercase();
    let own = tree.types.iter().find(|(configured, _)| *configured == extension);
    own.map(|(_, media_type)| media_type.as_str())
        .or_else(|| mime_guess::from_ext(&extension).first_raw())
        .unwrap_or("application/octet-stream")
}
