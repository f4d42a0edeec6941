//! The text protocol.

use super::*;

#[test]
fn storage_commands_and_their_conditions() {
    let server = Server::new();
    assert_eq!(server.ask("set a 7 0 3\r\nabc\r\n"), "STORED\r\n");
    assert_eq!(server.ask("get a\r\n"), "VALUE a 7 3\r\nabc\r\nEND\r\n");
    // "add" means "store this data, but only if the server *doesn't* already hold data for this
    // key".
    assert_eq!(server.ask("add a 0 0 1\r\nx\r\nadd b 0 0 1\r\nx\r\n"), "NOT_STORED\r\nSTORED\r\n");
    // "replace" means "store this data, but only if the server *does* already hold data for this
    // key".
    assert_eq!(
        server.ask("replace c 0 0 1\r\nx\r\nreplace b 1 0 1\r\ny\r\n"),
        "NOT_STORED\r\nSTORED\r\n"
    );
    // They update existing data portions, and ignore new flag and exptime settings.
    assert_eq!(
        server.ask("append a 9 -1 2\r\nde\r\nprepend a 9 -1 2\r\n12\r\n"),
        "STORED\r\nSTORED\r\n"
    );
    assert_eq!(
        server.ask("append c 0 0 1\r\nx\r\nprepend c 0 0 1\r\nx\r\n"),
        "NOT_STORED\r\nNOT_STORED\r\n"
    );
    assert_eq!(
        server.ask("get a b c\r\n"),
        "VALUE a 7 7\r\n12abcde\r\nVALUE b 1 1\r\ny\r\nEND\r\n"
    );
}

fn version(server: &Server, key: &str) -> String {
    let answer = server.ask(&format!("gets {key}\r\n"));
    answer.lines().next().and_then(|line| line.rsplit(' ').next()).unwrap().to_owned()
}

#[test]
fn cas_stores_only_if_no_one_else_has_updated_since() {
    let server = Server::new();
    assert_eq!(server.ask("cas a 0 0 1 1\r\nx\r\n"), "NOT_FOUND\r\n");
    server.ask("set a 0 0 1\r\n1\r\n");
    let before = version(&server, "a");
    assert_eq!(server.ask(&format!("cas a 0 0 1 {before}\r\n2\r\n")), "STORED\r\n");
    assert_eq!(server.ask(&format!("cas a 0 0 1 {before}\r\n3\r\n")), "EXISTS\r\n");
    assert_eq!(server.ask("cas a 0 0 1 0\r\n3\r\n"), "EXISTS\r\n");
    assert_eq!(server.ask("get a\r\n"), "VALUE a 0 1\r\n2\r\nEND\r\n");
    let counters = &server.face.counters;
    assert_eq!(
        (counters.cas_hits.get(), counters.cas_misses.get(), counters.cas_badval.get()),
        (1, 1, 2)
    );
    assert_eq!(counters.cmd_set.get(), 5);
}

#[test]
fn without_versions_none_is_right() {
    let server = Server::with(MemcachedSettings { cas: false, ..settings() });
    assert_eq!(
        server.ask("set a 7 0 1\r\n1\r\ngets a\r\n"),
        "STORED\r\nVALUE a 7 1 0\r\n1\r\nEND\r\n"
    );
    assert_eq!(server.ask("cas a 0 0 1 0\r\n1\r\ncas a 0 0 1 5\r\n1\r\n"), "EXISTS\r\nEXISTS\r\n");
    assert_eq!(server.ask("cas b 0 0 1 0\r\n1\r\n"), "NOT_FOUND\r\n");
    assert_eq!(
        server.ask("ms a 2 c\r\nhi\r\nms a 2 C0 c\r\nhi\r\nmg a c\r\n"),
        "HD c0\r\nEX c0\r\nHD c0\r\n"
    );
    assert_eq!(server.ask("md a C5\r\nmd a C0\r\nmd a\r\n"), "EX\r\nHD\r\nNF\r\n");
}

#[test]
fn a_block_with_a_wrong_end_is_a_bad_chunk() {
    let server = Server::new();
    server.ask("set a 0 0 1\r\n1\r\n");
    let bad = "CLIENT_ERROR bad data chunk\r\n";
    assert_eq!(
        server.ask("set a 0 0 1\r\n123\r\nversion\r\n"),
        format!("{bad}ERROR\r\nVERSION 1.6.18\r\n")
    );
    assert_eq!(server.ask("set a 0 0 2\r\n1\r\nversion\r\n"), format!("{bad}ERROR\r\n"));
    assert_eq!(
        server.ask("set a 0 0 1 noreply\r\n123\r\nversion\r\n"),
        "ERROR\r\nVERSION 1.6.18\r\n"
    );
    assert_eq!(server.ask("get a\r\n"), "VALUE a 0 1\r\n1\r\nEND\r\n");
}

#[test]
fn deletion() {
    let server = Server::new();
    server.ask("set a 0 0 1\r\n1\r\nset b 0 0 1\r\n1\r\n");
    assert_eq!(server.ask("delete a\r\ndelete a\r\nget a\r\n"), "DELETED\r\nNOT_FOUND\r\nEND\r\n");
    assert_eq!(server.ask("delete b noreply\r\ndelete b 0\r\n"), "NOT_FOUND\r\n");
    let usage = "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n";
    assert_eq!(server.ask("delete b 1\r\n"), usage);
    let counters = &server.face.counters;
    assert_eq!((counters.delete_hits.get(), counters.delete_misses.get()), (2, 2));
}

#[test]
fn counting_keeps_the_length_of_the_text() {
    let server = Server::new();
    server.ask("set n 5 0 2\r\n10\r\n");
    assert_eq!(server.ask("decr n 1\r\nget n\r\n"), "9\r\nVALUE n 5 2\r\n9 \r\nEND\r\n");
    // Underflow in the "decr" command is caught; overflow in the "incr" command wraps around the 64
    // bit mark.
    assert_eq!(
        server.ask("decr n 100\r\nincr n 18446744073709551615\r\n"),
        "0\r\n18446744073709551615\r\n"
    );
    assert_eq!(
        server.ask("incr n 1\r\nget n\r\n"),
        format!("0\r\nVALUE n 5 20\r\n0{}\r\nEND\r\n", " ".repeat(19))
    );
    // The item must already exist.
    assert_eq!(server.ask("incr m 1\r\ndecr m 1\r\n"), "NOT_FOUND\r\nNOT_FOUND\r\n");
    assert_eq!(server.ask("incr n 1 noreply\r\nincr n 1\r\n"), "2\r\n");
    let counters = &server.face.counters;
    assert_eq!((counters.incr_hits.get(), counters.incr_misses.get()), (4, 1));
    assert_eq!((counters.decr_hits.get(), counters.decr_misses.get()), (2, 1));
}

#[test]
fn valid_numbers() {
    let server = Server::new();
    let bad = "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
    for (value, answer) in [
        ("abc", bad),
        ("", bad),
        ("-1", bad),
        ("18446744073709551616", bad),
        ("1x", bad),
        ("000000000000000000001", "2\r\n"),
        (" 1", "2\r\n"),
        ("+1", "2\r\n"),
        ("1 x", "2\r\n"),
        ("1\t", "2\r\n"),
        ("1\0\0", "2\r\n"),
    ] {
        server.ask(&format!("set n 0 0 {}\r\n{value}\r\n", value.len()));
        assert_eq!(server.ask("incr n 1\r\n"), answer, "{value:?}");
    }
}

#[test]
fn expiration_times() {
    let server = Server::new();
    let (second, month) = (1000, 60 * 60 * 24 * 30);
    // If a negative value is given the item is immediately expired.
    assert_eq!(server.ask("set a 0 -1 1\r\n1\r\nget a\r\n"), "STORED\r\nEND\r\n");
    // If the number is larger than 30 days, the server will consider it to be real Unix time value.
    let unix = NOW / 1000 + 100;
    server.ask(&format!(
        "set a 0 {unix} 1\r\n1\r\nset b 0 {month} 1\r\n1\r\nset c 0 {} 1\r\n1\r\n",
        month + 1
    ));
    let all = "VALUE a 0 1\r\n1\r\nVALUE b 0 1\r\n1\r\nEND\r\n";
    assert_eq!(server.ask("get a b c\r\n"), all);
    assert_eq!(server.at(NOW + 99 * second, "get a b\r\n"), all);
    assert_eq!(server.at(NOW + 100 * second, "get a b\r\n"), "VALUE b 0 1\r\n1\r\nEND\r\n");
    assert_eq!(server.at(NOW + month * second, "get a b\r\n"), "END\r\n");
}

#[test]
fn touch_replaces_the_existing_expiration_time() {
    let server = Server::new();
    assert_eq!(
        server.ask("touch a 10\r\nset a 0 10 1\r\n1\r\ntouch a 20\r\n"),
        "NOT_FOUND\r\nSTORED\r\nTOUCHED\r\n"
    );
    assert_eq!(server.at(NOW + 15_000, "get a\r\n"), "VALUE a 0 1\r\n1\r\nEND\r\n");
    assert_eq!(server.at(NOW + 20_000, "get a\r\n"), "END\r\n");
    // "gat" and "gats" fetch items and update the expiration time of existing items.
    server.ask("set b 3 10 1\r\n1\r\n");
    assert_eq!(server.ask("gat 20 b nothing\r\n"), "VALUE b 3 1\r\n1\r\nEND\r\n");
    let version = version(&server, "b");
    let gats = server.at(NOW + 15_000, "gats -1 b\r\n");
    assert_eq!(gats, format!("VALUE b 3 1 {version}\r\n1\r\nEND\r\n"));
    assert_eq!(server.at(NOW + 15_000, "get b\r\n"), "END\r\n");
    let counters = &server.face.counters;
    assert_eq!(
        (counters.cmd_touch.get(), counters.touch_hits.get(), counters.touch_misses.get()),
        (5, 3, 2)
    );
    // "gat" counts as a touch and not as a "get", as in memcached 1.6.18.
    assert_eq!(
        (counters.cmd_get.get(), counters.get_hits.get(), counters.get_misses.get()),
        (4, 2, 2)
    );
}

#[test]
fn flush_all_now_and_later() {
    let server = Server::new();
    server.ask("set a 0 0 1\r\n1\r\n");
    assert_eq!(server.ask("flush_all\r\nget a\r\n"), "OK\r\nEND\r\n");
    assert_eq!(
        server.ask("set a 0 0 1\r\n1\r\nget a\r\n"),
        "STORED\r\nVALUE a 0 1\r\n1\r\nEND\r\n"
    );
    // The delay option allows you to have them reset in e.g. 10 second intervals.
    assert_eq!(server.ask("flush_all 10\r\nget a\r\n"), "OK\r\nVALUE a 0 1\r\n1\r\nEND\r\n");
    assert_eq!(
        server.at(NOW + 9_999, "set b 0 0 1\r\n1\r\nget a\r\n"),
        "STORED\r\nVALUE a 0 1\r\n1\r\nEND\r\n"
    );
    assert_eq!(server.at(NOW + 10_000, "get a b\r\n"), "END\r\n");
    // Items stored afterwards stay.
    assert_eq!(server.at(NOW + 10_001, "set a 0 0 1\r\n1\r\n"), "STORED\r\n");
    assert_eq!(server.at(NOW + 20_000, "get a\r\n"), "VALUE a 0 1\r\n1\r\nEND\r\n");
    assert_eq!(server.ask("flush_all -1 noreply\r\nget a\r\n"), "END\r\n");
    let refusing = Server::with(MemcachedSettings { flush_all: false, ..settings() });
    let answer = "CLIENT_ERROR flush_all not allowed\r\n";
    assert_eq!(refusing.ask("flush_all\r\nflush_all noreply\r\n"), answer);
}

#[test]
fn commands_that_end_the_connection() {
    let server = Server::new();
    for input in ["quit\r\nversion\r\n", "GET / HTTP/1.1\r\nversion\r\n", &"x".repeat(2049)] {
        let output = server.exchange([input.as_bytes()], NOW);
        assert_eq!(output, Output { answers: Vec::new(), closed: true }, "{input:?}");
    }
    let output = server.exchange([&b"shutdown\r\n"[..]], NOW);
    assert_eq!(
        output,
        Output { answers: b"ERROR: shutdown not enabled\r\n".to_vec(), closed: false }
    );
}

#[test]
fn a_key_too_long_spoils_a_retrieval() {
    let server = Server::new();
    server.ask("set a 0 0 1\r\n1\r\n");
    let bad = "CLIENT_ERROR bad command line format\r\n";
    let long = "x".repeat(251);
    assert_eq!(
        server.ask(&format!("get a {long}\r\nversion\r\n")),
        format!("{bad}VERSION 1.6.18\r\n")
    );
    // In a line executed as it arrives, the keys before the error are answered.
    let line = format!("get {} {long} a\r\nversion\r\n", "k ".repeat(2000));
    let output = server.exchange(line.as_bytes().chunks(2100), NOW);
    assert_eq!(String::from_utf8(output.answers).unwrap(), format!("{bad}VERSION 1.6.18\r\n"));
}

#[test]
fn thousands_of_keys_are_answered_as_they_arrive() {
    let server = Server::new();
    let value = "v".repeat(100);
    let mut expected = String::new();
    let mut line = String::from("gets");
    for key in 0..3000 {
        let key = format!("key:{key}");
        server.ask(&format!("set {key} 1 0 100 noreply\r\n{value}\r\n"));
        line += &format!(" {key}");
        expected += &format!("VALUE {key} 1 100 {}\r\n{value}\r\n", version(&server, &key));
    }
    line += "\r\nversion\r\n";
    expected += "END\r\nVERSION 1.6.18\r\n";
    for size in [usize::MAX, 4096, 2500, 777] {
        let output = server.exchange(line.as_bytes().chunks(size.min(line.len())), NOW);
        assert!(output.answers == expected.as_bytes(), "in pieces of {size}");
    }
}

#[test]
fn answers_wait_for_the_client_to_read() {
    let server = Server::new();
    server.ask(&format!("set a 0 0 1000\r\n{}\r\n", "v".repeat(1000)));
    let line = format!("get{}\r\n", " a".repeat(1000));
    let mut session = server.session();
    let mut out = Out::default();
    assert_eq!(session.turn(line.as_bytes(), NOW, &mut out), Turn::Used(0));
    let Turn::Flush(used) = session.turn(line.as_bytes(), NOW, &mut out) else {
        panic!("no flush")
    };
    assert!(used < line.len() && out.pending() < crate::object::HIGH_WATER + 2000);
}

#[test]
fn pipelined_commands_are_the_same_however_they_are_split() {
    let input = b"set a 1 0 3\r\nabc\r\nget a\r\n\r\nappend a 0 0 2\r\nde\r\nget a nothing\r\ntouch a 0\r\n\
        set n 0 0 1\r\n9\r\nincr n 1\r\nset a 0 0 1\r\n123\r\nms m 2 T0 k\r\nhi\r\nmg m s v\r\nms m 2 Tx\r\nhi\r\n\
        mn\r\nset l 0 0 4 noreply\r\n\r\n\r\n\r\nget l\r\ndelete a\nget a\nfoo\r\n";
    let expected = "STORED\r\nVALUE a 1 3\r\nabc\r\nEND\r\nERROR\r\nSTORED\r\nVALUE a 1 \
                    5\r\nabcde\r\nEND\r\nTOUCHED\r\nSTORED\r\n10\r\nCLIENT_ERROR bad data \
                    chunk\r\nERROR\r\nHD km\r\nVA 2 s2\r\nhi\r\nCLIENT_ERROR bad token in command \
                    line format\r\nMN\r\nVALUE l 0 \
                    4\r\n\r\n\r\n\r\nEND\r\nDELETED\r\nEND\r\nERROR\r\n";
    is_the_same_however_split(input, expected);
}

#[test]
fn statistics_and_dumps_come_through() {
    let server = Server::new();
    server.ask("set a 0 0 1\r\n1\r\n");
    assert!(server.ask("stats\r\n").contains("STAT cmd_set 1\r\n"));
    let dump = server.ask("lru_crawler metadump all\r\nversion\r\n");
    assert!(
        dump.starts_with("key=a exp=-1") && dump.ends_with("END\r\nVERSION 1.6.18\r\n"),
        "{dump:?}"
    );
    assert_eq!(server.ask("watch fetchers\r\nget a\r\nversion\r\n"), "OK\r\n");
}

#[test]
fn a_key_looked_at_before_its_command_is_the_commands_wherever_it_is_cut() {
    let server = Server::new();
    for (key, value) in [("a", "1"), ("ab", "2"), ("a\rb", "3"), ("YQ==", "4")] {
        assert_eq!(server.ask(&format!("set {key} 0 0 1\r\n{value}\r\n")), "STORED\r\n");
    }
    for (command, answer) in [
        ("get a\r\n", "VALUE a 0 1\r\n1\r\nEND\r\n"),
        ("get ab\n", "VALUE ab 0 1\r\n2\r\nEND\r\n"),
        ("get a\rb\r\n", "VALUE a\rb 0 1\r\n3\r\nEND\r\n"),
        ("get  a \r\n", "VALUE a 0 1\r\n1\r\nEND\r\n"),
        (" get a\r\n", "VALUE a 0 1\r\n1\r\nEND\r\n"),
        ("get a\nget ab\r\n", "VALUE a 0 1\r\n1\r\nEND\r\nVALUE ab 0 1\r\n2\r\nEND\r\n"),
        ("get c ab\r\n", "VALUE ab 0 1\r\n2\r\nEND\r\n"),
        ("mg a v\r\nmg ab v\r\n", "VA 1\r\n1\r\nVA 1\r\n2\r\n"),
        ("mg YQ== b v\r\n", "VA 1\r\n1\r\n"),
        ("mg YQ== v\r\n", "VA 1\r\n4\r\n"),
        (
            "set c 0 0 1\r\n5\r\nget a\r\ndelete c\r\n",
            "STORED\r\nVALUE a 0 1\r\n1\r\nEND\r\nDELETED\r\n",
        ),
    ] {
        // Before the first byte the protocol is unknown, so nothing is looked up ahead.
        let whole = format!("VERSION 1.6.18\r\n{answer}");
        for at in 0..=2 * command.len() {
            server.rounds.set(at > command.len());
            let (first, rest) = command.as_bytes().split_at(at % (command.len() + 1));
            let output = server.exchange([b"version\r\n", first, rest], NOW);
            assert_eq!(
                String::from_utf8(output.answers).unwrap(),
                whole,
                "{command:?} cut at {at}"
            );
        }
    }
}

#[test]
fn hints_of_one_batch_are_dropped_in_the_next() {
    let server = Server::new();
    for rounds in [true, false] {
        server.rounds.set(rounds);
        let parts = [
            &b"set kkkkkkkkkkkkkk 0 0 1\r\n9\r\n"[..],
            // A store looks its key up differently from a get, and `mn` sends before the next
            // look-ahead.
            b"get x\r\nset a 0 0 1\r\n1\r\nmn\r\n",
            // The same distance from the end as the start of the store of `a`.
            b"version\r\nget kkkkkkkkkkkkkk\r\n",
        ];
        let output = server.exchange(parts, NOW);
        assert_eq!(
            String::from_utf8(output.answers).unwrap(),
            "STORED\r\nEND\r\nSTORED\r\nMN\r\nVERSION 1.6.18\r\nVALUE kkkkkkkkkkkkkk 0 \
             1\r\n9\r\nEND\r\n"
        );
    }
}
