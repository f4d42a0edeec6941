//! Reads a small file of the user, but nothing that blocks (a FIFO) or has no end (`/dev/zero`).

use std::{
    fs::{File, OpenOptions},
    io::{self, Read},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::Path,
};

use rustix::fs::OFlags;

/// The bytes of a regular file of at most `most`, and its permission bits. The error is a reason to
/// print behind the name of the file.
pub(crate) fn read(path: &Path, most: usize) -> Result<(Vec<u8>, u32), String> {
    let (file, mode) = open(path)?;
    let mut bytes = Vec::new();
    // One byte above the limit shows that the file is too large; its size in the metadata may have
    // changed.
    file.take(most as u64 + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() > most {
        return Err(format!("it is larger than {most} bytes"));
    }
    Ok((bytes, mode))
}

fn open(path: &Path) -> Result<(File, u32), String> {
    // NONBLOCK: opening a FIFO would wait for a writer.
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path);
    let file = file.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "there is no such file".to_owned(),
        _ => error.to_string(),
    })?;
    let data = file.metadata().map_err(|error| error.to_string())?;
    if data.is_file() {
        Ok((file, data.permissions().mode()))
    } else {
        Err("it is not a regular file".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("larder-bounded-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        directory.join(name)
    }

    #[test]
    fn a_file_has_a_limit() {
        let path = scratch("file");
        std::fs::write(&path, "12345").expect("a file");
        assert_eq!(read(&path, 5).expect("it fits").0, b"12345");
        assert_eq!(read(&path, 4), Err("it is larger than 4 bytes".to_owned()));
        std::fs::remove_file(path).expect("removed");
    }

    #[test]
    fn what_waits_or_never_ends_is_refused() {
        let fifo = scratch("fifo");
        mkfifoat(CWD, &fifo, Mode::RUSR | Mode::WUSR).expect("a FIFO");
        for path in [&*fifo, Path::new("/dev/zero"), Path::new("/")] {
            assert_eq!(
                read(path, 10),
                Err("it is not a regular file".to_owned()),
                "{}",
                path.display()
            );
        }
        std::fs::remove_file(&fifo).expect("removed");
        assert_eq!(read(&fifo, 10), Err("there is no such file".to_owned()));
    }
}
