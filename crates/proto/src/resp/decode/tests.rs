use super::*;

const LIMITS: Limits =
    Limits { bulk: 512 << 20, command: 1 << 30, stranger: false, item: 512 << 20, room: 1 << 30 };

/// All commands in `input`, then the error, if there is one.
fn all(input: &[u8], limits: &Limits) -> Vec<String> {
    let (mut decoder, mut at, mut found) = (Decoder::default(), 0, Vec::new());
    loop {
        match decoder.step(&input[at..], limits) {
            Step::Command { args, used } => {
                let words: Vec<String> =
                    args.from(0).map(|arg| arg.escape_ascii().to_string()).collect();
                found.push(words.join(" "));
                at += used;
            }
            Step::Skip(used) => at += used,
            Step::More(_) => return found,
            Step::Refused(why) => {
                found.push(format!("{why:?}"));
                return found;
            }
            Step::Error(text) => {
                found.push(format!("-{}", text.escape_ascii()));
                return found;
            }
        }
    }
}

#[test]
fn commands_are_taken_out_of_arrays_and_lines() {
    for (input, commands) in [
        (&b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"[..], &["GET k"][..]),
        (b"*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPING\r\n", &["PING", "PING"]),
        (b"*0\r\n*-1\r\n\r\n \r\nPING\r\nPING\n", &["PING", "PING"]),
        (b"*2\r\n$3\r\nGET\r\n$12\r\nhello\r\nworld\r\n", &["GET hello\\r\\nworld"]),
        (b"*1\r\n$0\r\n\r\n", &[""]),
        // The two bytes after an argument are ignored.
        (b"*1\r\n$4\r\nPINGxx*1\r\n$4\r\nPING\r\n", &["PING", "PING"]),
        (b"set 'a\\'b' \"x\\x41\\n\\q\" c\r\n", &["set a\\'b xA\\nq c"]),
        (b"get \"\"\r\n", &["get "]),
    ] {
        assert_eq!(all(input, &LIMITS), commands, "{}", input.escape_ascii());
    }
}

#[test]
fn errors_are_worded_as_in_redis() {
    let digits = [b'1'; MAX_LINE + 1];
    for (input, error) in [
        (b"*x\r\n".to_vec(), "invalid multibulk length"),
        (b"*1048577\r\n".to_vec(), "invalid multibulk length"),
        (b"*+1\r\n".to_vec(), "invalid multibulk length"),
        (b"*1\r\n:3\r\n".to_vec(), "expected '$', got ':'"),
        (b"*1\r\n$x\r\n".to_vec(), "invalid bulk length"),
        (b"*1\r\n$-1\r\n".to_vec(), "invalid bulk length"),
        (b"*1\r\n$536870913\r\n".to_vec(), "invalid bulk length"),
        (b"set a \"b\r\n".to_vec(), "unbalanced quotes in request"),
        (b"set a \"b\"c\r\n".to_vec(), "unbalanced quotes in request"),
        ([b"*", &digits[..]].concat(), "too big mbulk count string"),
        ([b"*1\r\n$", &digits[..]].concat(), "too big bulk count string"),
        (vec![b'x'; MAX_LINE + 1], "too big inline request"),
    ] {
        let shown = error.replace('\'', "\\'");
        assert_eq!(all(&input, &LIMITS), [format!("-ERR Protocol error: {shown}")]);
    }
}

#[test]
fn strangers_may_send_little() {
    let stranger = Limits { stranger: true, ..LIMITS };
    for (input, error) in [
        (&b"*11\r\n"[..], "unauthenticated multibulk length"),
        (b"*1\r\n$16385\r\n", "unauthenticated bulk length"),
    ] {
        assert_eq!(all(input, &stranger), [format!("-ERR Protocol error: {error}")]);
        assert!(all(input, &LIMITS).is_empty(), "others may");
    }
    assert!(all(b"*10\r\n$16384\r\n", &stranger).is_empty(), "the limits are included");
}

#[test]
fn a_command_as_a_whole_is_limited() {
    let limits = Limits { command: 1000, ..LIMITS };
    assert_eq!(
        all(b"*2\r\n$3\r\nGET\r\n$990\r\n", &limits),
        ["-ERR Protocol error: invalid bulk length"]
    );
    assert!(all(b"*2\r\n$3\r\nGET\r\n$900\r\n", &limits).is_empty());
}

#[test]
fn a_large_argument_tells_where_it_ends() {
    let mut decoder = Decoder::default();
    let head = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000\r\n";
    let Step::More(end) = decoder.step(head, &LIMITS) else { panic!("it is not whole") };
    assert_eq!(end, head.len() + 100_002);
    let whole = [&head[..], &[b'v'; 100_000], b"\r\n"].concat();
    assert!(
        matches!(decoder.step(&whole, &LIMITS), Step::Command { used, .. } if used == whole.len())
    );
}

#[test]
fn what_was_looked_at_is_not_looked_at_again() {
    let mut decoder = Decoder::default();
    let mut input = b"*3\r\n$1\r\na\r\n".to_vec();
    assert!(matches!(decoder.step(&input, &LIMITS), Step::More(_)));
    // This would be an error now, if it had not been parsed already.
    input[4] = b'!';
    input.extend_from_slice(b"$1\r\nb\r\n$1\r\nc\r\n");
    let Step::Command { args, .. } = decoder.step(&input, &LIMITS) else { panic!("it is whole") };
    assert_eq!(args.from(0).collect::<Vec<_>>(), [b"a", b"b", b"c"]);
}

#[test]
fn what_there_is_no_room_for_is_refused_when_it_is_announced() {
    let limits = Limits { item: 2000, room: 5000, ..LIMITS };
    assert_eq!(all(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2001\r\n", &limits), ["Argument"]);
    assert!(all(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2000\r\n", &limits).is_empty());
    // No argument is too long, all of them are.
    let long = [&b"*1000\r\n$3\r\nDEL\r\n"[..], &b"$900\r\n"[..], &[b'k'; 900], b"\r\n"].concat();
    let mut input = long.clone();
    for _ in 0..3 {
        input.extend_from_slice(&long[long.len() - 908..]);
        assert!(all(&input, &limits).is_empty());
    }
    input.extend_from_slice(b"$2000\r\n");
    assert_eq!(all(&input, &limits), ["Command"]);
    let mut decoder = Decoder::default();
    assert!(matches!(decoder.step(&input, &limits), Step::Refused(TooMuch::Command)));
    let (at, rest) = decoder.give_up().expect("it has begun");
    assert_eq!((&input[at..], rest), (&b"$2000\r\n"[..], Rest::new(1000 - 5)));
    // The decoder is as new.
    assert!(matches!(decoder.step(b"*1\r\n$4\r\nPING\r\n", &limits), Step::Command { .. }));
}
