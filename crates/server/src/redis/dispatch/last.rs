//! A cache of the command that a connection sent last.

use larder_proto::resp::{Args, table};

use super::Found;

/// The last command of a connection. Pipelines mostly repeat a command, and comparing one word is
/// cheaper than a look-up in the table.
#[derive(Default)]
pub(crate) struct Last {
    /// See [`word`]; 0: none.
    name: u64,
    found: Option<Found>,
}

impl Last {
    #[inline]
    pub(super) fn find(&self, args: &Args<'_>) -> Option<Found> {
        self.found
            .filter(|found| word(args.get(0)) == Some(self.name) && found.command.takes(args.len()))
    }

    pub(super) fn keep(&mut self, args: &Args<'_>, found: Found) {
        // For a container (`CONFIG GET`) the first word does not determine the command.
        let plain = !found.command.name.contains('|') && table::find(args.get(0)).is_some();
        if let Some(name) =
            word(args.get(0)).filter(|_| plain && found.command.subcommands.is_empty())
        {
            (self.name, self.found) = (name, Some(found));
        }
    }
}

/// A name of 3 to 8 bytes as a number: equal only for equal names.
#[inline]
fn word(name: &[u8]) -> Option<u64> {
    let bits = match *name {
        [a, b, c] => u64::from_le_bytes([a, b, c, 0, 0, 0, 0, 0]),
        [a, b, c, d, .., w, x, y, z] => u64::from_le_bytes([a, b, c, d, w, x, y, z]),
        [a, b, c, d, ref rest @ ..] => {
            rest.iter().fold(u64::from(u32::from_le_bytes([a, b, c, d])), |bits, byte| {
                bits << 8 | u64::from(*byte)
            })
        }
        _ => return None,
    };
    match name.len() {
        // No letter is as small as a length: the last byte tells them apart.
        8 => (name[7] >= 8).then_some(bits),
        len => (len < 8).then_some(bits | (len as u64) << 56),
    }
}
