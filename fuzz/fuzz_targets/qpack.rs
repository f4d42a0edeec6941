//! Field sections of any bytes are decoded within bounds, and the same whatever the limit of the
//! list; sections that are written are read as they were.
#![no_main]

use larder_proto::hpack::Line;
use larder_proto::qpack::{QpackError, Section, decode};
use libfuzzer_sys::fuzz_target;

type Lines = Vec<(Vec<u8>, Vec<u8>)>;

fuzz_target!(|input: &[u8]| {
    let all = lines(input, usize::MAX);
    let some = lines(input, 200);
    match (&all, &some) {
        (Ok((all, size)), Ok((some, small))) => {
            assert_eq!(size, small, "the limit does not change the size");
            assert!(all.starts_with(some), "and delivers the first lines");
        }
        _ => assert_eq!(all.as_ref().err(), some.as_ref().err()),
    }
    let Ok((all, _)) = all else { return };
    // As heads have them; other lines cannot be written as lines.
    let is_line = |(name, value): &&(Vec<u8>, Vec<u8>)| {
        let plain = |byte: &u8| byte.is_ascii_lowercase() || *byte == b'-';
        !name.is_empty()
            && name.iter().all(plain)
            && !value.contains(&b'\n')
            && value.trim_ascii() == &value[..]
    };
    let dropped: [&[u8]; 5] =
        [b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"];
    let good: Lines =
        all.iter().filter(is_line).filter(|(n, _)| !dropped.contains(&&n[..])).cloned().collect();
    let mut head = Vec::new();
    for (name, value) in &good {
        head.extend_from_slice(&[&name[..], b": ", value, b"\r\n"].concat());
    }
    let mut section = Vec::new();
    Section::new(&mut section).lines(&head);
    assert_eq!(lines(&section, usize::MAX).expect("our own section").0, good);
});

fn lines(section: &[u8], limit: usize) -> Result<(Lines, usize), QpackError> {
    let mut lines = Lines::new();
    let sink = &mut |line: Line<'_>| lines.push((line.name.to_vec(), line.value.to_vec()));
    let decoded = decode(section, limit, &mut Vec::new(), sink)?;
    assert_eq!(decoded.too_large, decoded.size > limit);
    Ok((lines, decoded.size))
}
