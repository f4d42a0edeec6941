//! Queues with readers that take nothing, full file systems and slow devices: faults as they were
//! found.

// A test reports by panicking.
#![allow(clippy::unwrap_used)]

use larder_tests::queues::{Queues, set, value};
use larder_tests::scratch::{Scratch, Small};
use larder_tests::wait_until;

/// An item of so many bytes, of which the first are its number.
fn numbered(number: usize, bytes: usize) -> String {
    format!("{number:09}{}", "x".repeat(bytes - 9))
}

/// The whole items in answers to `get q`, by their numbers.
fn received(mut answers: &str) -> Vec<usize> {
    let mut numbers = Vec::new();
    while let Some((head, rest)) = answers.split_once("\r\n") {
        let Some(bytes) = head.strip_prefix("VALUE q 0 ") else { break };
        let Some(data) = rest.get(..bytes.parse().unwrap()) else { break };
        let Some(after) = rest[data.len()..].strip_prefix("\r\nEND\r\n") else { break };
        numbers.push(data[..9].parse().unwrap());
        answers = after;
    }
    numbers
}

/// Once the items that were composed for a client, and the last piece of a large one, were lost
/// with its connection.
#[test]
fn items_that_a_reader_does_not_take_come_back() {
    let directory = Scratch::new("queue-faults");
    let queues = Queues::start(&directory, "send_timeout = \"1s\"");
    let mut writer = queues.connect();
    // More than the system keeps for a connection: small ones, and some that are sent in pieces.
    let count = 240;
    for number in 0..count {
        let bytes = [300 << 10, 40 << 10, 100 << 10][number % 3];
        writer.expect(set("q", &numbered(number, bytes)), "STORED\r\n");
    }
    let mut reader = queues.connect();
    // It counts as connected once it is answered.
    reader.ask("version\r\n", "\r\n");
    reader.send("get q\r\n".repeat(count));
    wait_until("the reader to be disconnected", || writer.stat("curr_connections") == "1");
    let mut all = received(&String::from_utf8(reader.rest()).unwrap());
    let arrived = all.len();
    assert!(arrived > 0 && arrived < count, "{arrived}");
    loop {
        let answer = writer.ask("get q\r\n", "END\r\n");
        let [number] = received(&answer)[..] else { break };
        all.push(number);
    }
    assert_eq!(all, (0..count).collect::<Vec<_>>(), "{arrived} had arrived");
}

#[test]
fn pipelined_items_have_their_answers_in_order() {
    let directory = Scratch::new("queue-faults");
    let lines = "sync = \"always\"\nitem_size = \"64KiB\"\n\
                 [[queue.named]]\nname = \"two\"\nmax_items = 2";
    let queues = Queues::start(&directory, lines);
    let mut talk = queues.connect();
    let mut asked = String::new();
    let mut wanted = String::new();
    for round in 0..300 {
        asked += &set("q", &round.to_string());
        wanted += "STORED\r\n";
        if round % 7 == 0 {
            asked += &set("two", "x");
            wanted += if round < 14 { "STORED\r\n" } else { "NOT_STORED\r\n" };
        }
        if round % 50 == 1 {
            asked += &format!("set q 0 0 2 noreply\r\n{:02}\r\n", round % 100);
            asked += &set("q", &"x".repeat((64 << 10) + 1));
            wanted += "SERVER_ERROR object too large for queue\r\n";
            asked += "set q 0 0 1\r\nxx\r\nversion\r\n";
            wanted += "CLIENT_ERROR bad data chunk\r\nERROR\r\n";
            wanted += concat!("VERSION ", env!("CARGO_PKG_VERSION"), "\r\n");
            asked += "set /q 0 0 1\r\nx\r\n";
            wanted += "CLIENT_ERROR bad command line format\r\n";
        }
    }
    talk.expect(asked, &wanted);
    // All items of the queue, those without an answer too, in the order in which they were sent.
    let mut expected = Vec::new();
    for round in 0..300 {
        expected.push(round.to_string());
        if round % 50 == 1 {
            expected.push(format!("{:02}", round % 100));
        }
    }
    for item in expected {
        talk.expect("get q\r\n", &value("q", &item));
    }
    talk.expect("get q\r\n", "END\r\n");
}

#[test]
fn a_get_finds_the_item_behind_many_expired_ones() {
    let directory = Scratch::new("queue-faults");
    let queues = Queues::start(&directory, "");
    let mut talk = queues.connect();
    let expired = "set q 0 -1 1 noreply\r\nx\r\n".repeat(1000);
    let mut found = 0;
    // The background discards expired items, too: some rounds, of which one finds them all.
    for _ in 0..3 {
        for _ in 0..25 {
            talk.send(&expired);
        }
        talk.expect(set("q", "good"), "STORED\r\n");
        found += usize::from(talk.ask("get q\r\n", "END\r\n") == value("q", "good"));
    }
    assert_eq!(found, 3);
}

/// A queue whose journal cannot be written refuses items, once; other queues do not, and its items
/// stay.
#[test]
fn a_full_journal_is_one_queues_trouble() {
    let directory = Scratch::new("queue-faults");
    let lines = "sync = \"always\"";
    // Files of 64 KiB at most: 128 blocks of 512 bytes. Memory that can be passed is a file.
    let limited = ("trap '' XFSZ; ulimit -f 128", "upgrade_memory = false");
    let queues = Queues::start_by(&directory, lines, limited);
    let mut talk = queues.connect();
    talk.expect(set("other", "before"), "STORED\r\n");
    let mut added = Vec::new();
    for number in 0..200 {
        let item = numbered(number, 1000);
        let answer = talk.ask(set("q", &item), "\r\n");
        if answer != "STORED\r\n" {
            assert!(answer.starts_with("SERVER_ERROR "), "{answer}");
            break;
        }
        added.push(number);
    }
    assert!(added.len() > 50 && added.len() < 70, "{}", added.len());
    // Once each set of another queue was answered by the error, and stored.
    for number in 0..30 {
        talk.expect(set("other", &number.to_string()), "STORED\r\n");
        let answer = talk.ask(set("q", "refused"), "\r\n");
        assert!(answer.starts_with("SERVER_ERROR "), "{answer}");
    }
    let told = queues.printed().matches("was not written").count();
    assert!((1..5).contains(&told), "{told} lines in some seconds at most:\n{}", queues.printed());
    talk.expect("get other\r\n", &value("other", "before"));
    // An item that is opened and comes back.
    let mut reader = queues.connect();
    assert_eq!(received(&reader.ask("get q/open\r\n", "END\r\n")), [0]);
    drop(reader);
    wait_until("the item to come back", || talk.stat("queue_q_open_transactions") == "0");
    queues.kill();
    let queues = Queues::start(&directory, lines);
    let mut talk = queues.connect();
    let left: Vec<_> =
        std::iter::from_fn(|| received(&talk.ask("get q\r\n", "END\r\n")).first().copied())
            .collect();
    // The one that was answered by the error may be there.
    assert_eq!(left[..added.len()], added);
    assert!(left.len() <= added.len() + 1, "{left:?}");
    for number in 0..30 {
        talk.expect("get other\r\n", &value("other", &number.to_string()));
    }
}

/// Once the whole program did not start, since each queue has a new file then.
#[test]
fn it_starts_on_a_full_file_system_and_gives_what_is_there() {
    let Some(small) = Small::new("1m") else { return };
    let start = || Queues::start_in(&small.file("queues"), "", (":", ""));
    let queues = start();
    let mut talk = queues.connect();
    for number in 0..20 {
        talk.expect(set("q", &numbered(number, 1000)), "STORED\r\n");
        talk.expect(set("other", &numbered(number, 1000)), "STORED\r\n");
    }
    small.fill("filler");
    let mut added = 20;
    while talk.ask(set("q", &numbered(added, 1000)), "\r\n") == "STORED\r\n" {
        added += 1;
    }
    queues.kill();
    for _ in 0..2 {
        let queues = start();
        let mut talk = queues.connect();
        assert_eq!(received(&talk.ask("get q\r\n", "END\r\n")), [0]);
        for queue in ["q", "other", "new"] {
            let answer = talk.ask(set(queue, "refused"), "\r\n");
            assert!(answer.starts_with("SERVER_ERROR "), "{answer}");
        }
        // That the item was taken is nowhere but in memory: it comes back.
        queues.kill();
    }
    let queues = start();
    let mut talk = queues.connect();
    assert_eq!(received(&talk.ask("get q\r\n", "END\r\n")), [0]);
    std::fs::remove_file(small.file("filler")).unwrap();
    for queue in ["q", "other", "new"] {
        talk.expect(set(queue, &numbered(added, 1000)), "STORED\r\n");
    }
    queues.kill();
    let queues = start();
    let mut talk = queues.connect();
    let left: Vec<_> =
        std::iter::from_fn(|| received(&talk.ask("get q\r\n", "END\r\n")).first().copied())
            .collect();
    assert_eq!(left, (1..=added).collect::<Vec<_>>());
    talk.expect("get new\r\n", &value("new", &numbered(added, 1000)));
}

#[test]
fn missing_files_of_a_journal_are_told() {
    let directory = Scratch::new("queue-faults");
    let queues = Queues::start(&directory, "segment = \"64KiB\"");
    let mut talk = queues.connect();
    for number in 0..300 {
        talk.expect(set("q", &numbered(number, 1000)), "STORED\r\n");
    }
    queues.kill();
    let missing = directory.file("queues/q/0000000000000002.log");
    std::fs::rename(&missing, directory.file("elsewhere")).unwrap();
    let queues = Queues::start(&directory, "segment = \"64KiB\"");
    let mut talk = queues.connect();
    let told = queues.printed();
    let line = format!("are missing, and their items lost: 1 from {} on", missing.display());
    assert_eq!(told.matches(&line).count(), 1, "{told}");
    let items: usize = talk.stat("queue_q_items").parse().unwrap();
    let left: Vec<_> =
        std::iter::from_fn(|| received(&talk.ask("get q\r\n", "END\r\n")).first().copied())
            .collect();
    assert_eq!(left.len(), items);
    assert!(left.is_sorted() && left[0] == 0 && left[left.len() - 1] == 299, "{left:?}");
    assert!(items > 200 && items < 300, "{items}");
}
