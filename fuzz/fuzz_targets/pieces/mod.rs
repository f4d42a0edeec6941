//! A stream that is read as it arrives, in pieces.

/// One command at the start of the bytes that there are.
pub struct Read {
    /// The command in words.
    pub command: String,
    /// Bytes of its line, with the end.
    pub line: usize,
    /// Bytes behind the line that belong to it.
    pub block: usize,
}

/// The commands of a stream that arrives in pieces of `step` bytes. `read` gives None where more
/// has to come.
pub fn commands(stream: &[u8], step: usize, read: impl Fn(&[u8]) -> Option<Read>) -> Vec<String> {
    let (mut start, mut end, mut all) = (0, step.min(stream.len()), Vec::new());
    loop {
        match read(&stream[start..end]) {
            Some(Read { command, line, block }) => {
                assert!(line > 0 && line <= end - start);
                assert_eq!(stream[start + line - 1], b'\n');
                all.push(command);
                start = (start + line).saturating_add(block).min(stream.len());
                end = end.max(start);
            }
            None if end == stream.len() => return all,
            None => end = (end + step).min(stream.len()),
        }
    }
}
