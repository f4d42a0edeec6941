//! A child's output, in a file without a name: what the child has written is there at once, also
//! when it has ended.

use crate::scratch::Scratch;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::process::Stdio;

/// A stream of a child.
pub(crate) struct Printed(File);

impl Printed {
    /// A stream to be, and the child's end of it. The directory is free again at once.
    pub(crate) fn new(scratch: &Scratch) -> (Printed, Stdio) {
        let path = scratch.file("printed");
        let writes = OpenOptions::new().append(true).create_new(true).open(&path).unwrap();
        let reads = File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        (Printed(reads), writes.into())
    }

    /// Its whole lines so far.
    pub(crate) fn text(&self) -> String {
        let length = usize::try_from(self.0.metadata().unwrap().len()).unwrap();
        let mut bytes = vec![0; length];
        self.0.read_exact_at(&mut bytes, 0).unwrap();
        bytes.truncate(bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1));
        String::from_utf8_lossy(&bytes).into_owned()
    }
}
