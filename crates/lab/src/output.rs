//! Result files, opened before a measurement so that it is not made in vain.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// A file to be written later. Its contents stay until then; a new file that is never written is
/// removed.
#[derive(Debug)]
pub(crate) struct Output {
    option: &'static str,
    path: PathBuf,
    file: File,
    new: bool,
}

impl Output {
    /// Opens the file named by `option`. The error names both and the reason.
    pub(crate) fn open(option: &'static str, path: &Path) -> Result<Self, String> {
        let new = !path.exists();
        let file = File::options().write(true).create(true).truncate(false).open(path);
        let file = file.map_err(|error| told(option, path, &error))?;
        Ok(Self { option, path: path.to_owned(), file, new })
    }

    /// The same for an optional file.
    pub(crate) fn maybe(option: &'static str, path: Option<&Path>) -> Result<Option<Self>, String> {
        path.map(|path| Self::open(option, path)).transpose()
    }

    /// Replaces the contents of the file. The error names it and the reason.
    pub(crate) fn write(mut self, text: &str) -> Result<(), String> {
        self.new = false;
        self.replace(text).map_err(|error| told(self.option, &self.path, &error))
    }

    fn replace(&mut self, text: &str) -> io::Result<()> {
        // A pipe or a device has no length.
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        self.file.write_all(text.as_bytes())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.new {
            // An empty file left behind does no harm.
            let _stays = fs::remove_file(&self.path);
        }
    }
}

fn told(option: &str, path: &Path, error: &io::Error) -> String {
    format!("{option} {}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::Scratch;

    #[test]
    fn a_file_is_what_was_written_last_and_nothing_else() {
        let scratch = Scratch::new("output").unwrap();
        let path = scratch.write("old", "a long text").unwrap();
        let output = Output::open("--json", &path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "a long text");
        output.write("short").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "short");
        drop(Output::open("--json", &path).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "short");
        let path = scratch.path().join("new");
        drop(Output::open("--json", &path).unwrap());
        assert!(!path.exists(), "an empty file is left");
    }

    #[test]
    fn what_cannot_be_written_is_told_with_its_option() {
        let error = Output::open("--html", Path::new("/nonexistent/x")).unwrap_err();
        assert!(error.starts_with("--html /nonexistent/x: "), "{error}");
        let error = Output::open("--json", Path::new("/dev/full")).unwrap().write("x").unwrap_err();
        assert!(error.starts_with("--json /dev/full: "), "{error}");
    }
}
