use super::*;

const LIMITS: Limits = Limits { stderr: 1 << 10 };
const HEAD: HeadLimits = HeadLimits { bytes: 200, fields: 4 };

/// A record as an application writes it.
fn record(kind: u8, id: u16, content: &[u8], padding: u8) -> Vec<u8> {
    let [id_high, id_low] = id.to_be_bytes();
    let [high, low] = (content.len() as u16).to_be_bytes();
    let mut out = vec![1, kind, id_high, id_low, high, low, padding, 0];
    out.extend_from_slice(content);
    out.extend(std::iter::repeat_n(0xff, padding.into()));
    out
}

fn ended(status: u8) -> Vec<u8> {
    record(kind::END, 1, &[0, 0, 0, 7, status, 0, 0, 0], 0)
}

/// Everything that an answer says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    end: Option<End>,
    rest: Vec<u8>,
}

/// Decodes bytes that arrive in these pieces.
fn decode<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> Result<Said, RecordError> {
    let (mut decoder, mut said) = (Decoder::new(1, LIMITS), Said::default());
    let mut buf = Vec::new();
    for piece in pieces {
        buf.extend_from_slice(piece);
        loop {
            let used = match decoder.decode(&buf)? {
                Step::Need => break,
                Step::Skip { used } => used,
                Step::Stdout { used, data } => {
                    said.stdout.extend_from_slice(data);
                    used
                }
                Step::Stderr { used, data } => {
                    said.stderr.extend_from_slice(data);
                    used
                }
                Step::End { used, end } => {
                    said.end = Some(end);
                    used
                }
            };
            assert!(used > 0);
            buf.drain(..used);
        }
        assert!(buf.len() < 279 || decoder.is_over());
    }
    said.rest = buf;
    Ok(said)
}

fn whole(bytes: &[u8]) -> Result<Said, RecordError> {
    decode([bytes])
}

fn sample() -> Vec<u8> {
    let records = [
        record(kind::STDOUT, 1, b"Content-Type: text/plain\r\n", 6),
        record(kind::STDERR, 1, b"a notice", 0),
        record(kind::STDOUT, 1, b"\r\nhello", 255),
        record(kind::STDERR, 1, b"", 3),
        record(kind::STDOUT, 1, b"", 0),
        record(kind::END, 1, &[0, 0, 0, 7, 0, 9, 9, 9], 8),
    ];
    records.concat()
}

#[test]
fn an_answer_cut_anywhere_says_the_same() {
    let bytes = sample();
    let expected = Said {
        stdout: b"Content-Type: text/plain\r\n\r\nhello".to_vec(),
        stderr: b"a notice".to_vec(),
        end: Some(End::Complete(7)),
        rest: Vec::new(),
    };
    assert_eq!(whole(&bytes).as_ref(), Ok(&expected));
    assert_eq!(decode(bytes.chunks(1)).as_ref(), Ok(&expected));
    for cut in 0..bytes.len() {
        assert_eq!(decode([&bytes[..cut], &bytes[cut..]]).as_ref(), Ok(&expected), "{cut}");
        let partial = whole(&bytes[..cut]).expect("the beginning of an answer");
        assert_eq!(partial.end, None, "{cut}");
        assert!(expected.stdout.starts_with(&partial.stdout));
    }
}

#[test]
fn bytes_behind_the_end_are_not_used() {
    let mut bytes = sample();
    bytes.extend_from_slice(&record(kind::STDOUT, 1, b"poison", 0));
    let said = whole(&bytes).expect("an answer");
    assert!(!said.stdout.ends_with(b"poison"));
    assert_eq!(said.rest.len(), 14);
}

#[test]
fn the_protocols_status_is_told() {
    let of = |status| whole(&ended(status)).expect("an end").end;
    assert_eq!(of(0), Some(End::Complete(7)));
    assert_eq!(of(1), Some(End::CannotMultiplex));
    assert_eq!(of(2), Some(End::Overloaded));
    assert_eq!(of(3), Some(End::UnknownRole));
    assert_eq!(of(4), Some(End::Unknown(4)));
}

#[test]
fn a_hostile_application_is_found_out() {
    let error = |bytes: &[u8]| whole(bytes).expect_err("an error");
    assert_eq!(error(&record(kind::STDOUT, 2, b"other", 0)), RecordError::Id(2));
    assert_eq!(error(&record(kind::END, 0, &[0; 8], 0)), RecordError::Id(0));
    assert_eq!(error(&record(11, 0, &[0; 8], 0)), RecordError::Kind(11));
    assert_eq!(error(&record(kind::STDIN, 1, b"x", 0)), RecordError::Kind(kind::STDIN));
    assert_eq!(error(&record(kind::END, 1, &[0; 9], 0)), RecordError::End(9));
    assert_eq!(error(&record(kind::END, 1, &[0; 7], 1)), RecordError::End(7));
    assert_eq!(error(b"HTTP/1.1 200 OK\r\n"), RecordError::Version(b'H'));
    let again = [record(kind::STDOUT, 1, b"", 0), record(kind::STDOUT, 1, b"more", 0)].concat();
    assert_eq!(error(&again), RecordError::AfterStdout);
}

#[test]
fn an_error_and_an_end_are_the_last_word() {
    let mut decoder = Decoder::new(1, LIMITS);
    assert!(decoder.decode(&record(kind::STDOUT, 2, b"x", 0)).is_err());
    assert!(decoder.is_over());
    assert_eq!(decoder.decode(&sample()), Ok(Step::Need));
}

#[test]
fn stderr_is_bounded_and_output_goes_on() {
    let notice = record(kind::STDERR, 1, &[b'n'; 700], 4);
    let bytes = [notice.clone(), notice.clone(), notice, record(kind::STDOUT, 1, b"out", 0)];
    for said in [whole(&bytes.concat()), decode(bytes.concat().chunks(1))] {
        let said = said.expect("records");
        assert_eq!(said.stderr.len(), LIMITS.stderr);
        assert_eq!(said.stdout, b"out");
    }
}

/// Reads what a server wrote, as an application does: type, id and content of every record.
fn written(mut bytes: &[u8]) -> Vec<(u8, u16, Vec<u8>)> {
    let mut records = Vec::new();
    while let Some(&[1, kind, id_high, id_low, high, low, padding, 0]) = bytes.first_chunk() {
        let length = usize::from(u16::from_be_bytes([high, low]));
        let id = u16::from_be_bytes([id_high, id_low]);
        records.push((kind, id, bytes[8..8 + length].to_vec()));
        bytes = &bytes[8 + length + usize::from(padding)..];
        assert_eq!((length + usize::from(padding)) % 8, 0);
    }
    assert!(bytes.is_empty());
    records
}

#[test]
fn a_request_is_written_as_the_specification_has_it() {
    let mut out = Vec::new();
    begin(3, true, &mut out);
    let mut params = Params::new();
    params.push(b"SHORT", b"value");
    params.push(&[b'N'; 128], b"");
    params.write(3, &mut out);
    stdin(3, b"", &mut out);
    stdin(3, b"body", &mut out);
    stdin_end(3, &mut out);
    let mut pairs = b"\x05\x05SHORTvalue\x80\0\0\x80\0".to_vec();
    pairs.extend_from_slice(&[b'N'; 128]);
    let expected = [
        (kind::BEGIN, 3, vec![0, 1, 1, 0, 0, 0, 0, 0]),
        (kind::PARAMS, 3, pairs),
        (kind::PARAMS, 3, Vec::new()),
        (kind::STDIN, 3, b"body".to_vec()),
        (kind::STDIN, 3, Vec::new()),
    ];
    assert_eq!(written(&out), expected);
    out.clear();
    begin(9, false, &mut out);
    abort(9, &mut out);
    let expected = [(kind::BEGIN, 9, vec![0, 1, 0, 0, 0, 0, 0, 0]), (kind::ABORT, 9, Vec::new())];
    assert_eq!(written(&out), expected);
}

#[test]
fn long_streams_take_several_records() {
    let (mut params, mut out) = (Params::new(), Vec::new());
    params.push(b"LONG", &vec![b'v'; 100_000]);
    params.write(1, &mut out);
    stdin(1, &vec![b'd'; 140_000], &mut out);
    let records = written(&out);
    let bytes = |of: u8| -> usize {
        records.iter().filter(|(kind, ..)| *kind == of).map(|(.., data)| data.len()).sum()
    };
    assert_eq!(bytes(kind::PARAMS), 100_000 + 4 + 1 + 4);
    assert_eq!(bytes(kind::STDIN), 140_000);
    assert_eq!(records.len(), 2 + 1 + 3);
}

fn head(output: &[u8]) -> Result<Option<Head<'_>>, HeadError> {
    parse_head(output, HEAD)
}

#[test]
fn heads() {
    let plain = head(b"Content-Type: text/html\n");
    assert!(matches!(plain, Ok(None)));
    let read = head(b"Content-type:text/html \r\nX-A: b\n\nbody").expect("valid").expect("whole");
    assert_eq!(read.status, 200);
    assert_eq!(read.fields, [("Content-type", &b"text/html"[..]), ("X-A", b"b")]);
    assert_eq!((read.used, read.local), (33, None));
    let read = head(b"Status: 404 Not Found\n\n").expect("valid").expect("whole");
    assert_eq!((read.status, read.reason), (404, &b"Not Found"[..]));
    let read = head(b"status: 201\r\n\r\n").expect("valid").expect("whole");
    assert_eq!((read.status, read.reason), (201, &b""[..]));
}

#[test]
fn redirects() {
    let of = |output: &'static [u8]| {
        let read = head(output).expect("valid").expect("whole");
        (read.status, read.local)
    };
    assert_eq!(of(b"Location: http://a.test/\n\n"), (302, None));
    assert_eq!(of(b"Location: //a.test/\n\n"), (302, None));
    assert_eq!(of(b"Location: /b?c=d\n\n"), (302, Some(&b"/b?c=d"[..])));
    assert_eq!(of(b"Status: 301\nLocation: /b\n\n"), (301, None));
}

#[test]
fn a_head_cut_anywhere_is_not_complete() {
    let output = b"Status: 404 Not Found\r\nContent-Type: text/html\r\n\r\n";
    for cut in 0..output.len() {
        assert_eq!(head(&output[..cut]), Ok(None), "{cut}");
    }
    assert!(matches!(head(output), Ok(Some(_))));
}

#[test]
fn what_is_no_head() {
    for output in [
        &b"<html>\n\n"[..],
        b"HTTP/1.1 200 OK\r\n\r\n",
        b": empty\n\n",
        b"A b: c\n\n",
        b"A: b\n folded\n\n",
        b"A: b\0c\n\n",
        b"A: b\rc\n\n",
    ] {
        assert_eq!(head(output), Err(HeadError::Field), "{output:?}");
    }
    for output in [
        &b"Status: 99\n\n"[..],
        b"Status: 100 Continue\n\n",
        b"Status: 2000\n\n",
        b"Status: OK\n\n",
        b"Status:\n\n",
        b"Status: 200\nStatus: 404\n\n",
    ] {
        assert_eq!(head(output), Err(HeadError::Status), "{output:?}");
    }
    assert_eq!(head(b"\nbody"), Err(HeadError::Empty));
    assert_eq!(head(b"A: b\nA: b\nA: b\nA: b\nA: b\n\n"), Err(HeadError::TooLarge));
    assert_eq!(head(&[b'a'; 200]), Err(HeadError::TooLarge));
    assert_eq!(
        head(&[b"A: ".as_slice(), &[b'b'; 300], b"\n\n"].concat()),
        Err(HeadError::TooLarge)
    );
}
