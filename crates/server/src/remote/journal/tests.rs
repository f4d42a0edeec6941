use super::*;

const NOW: Ms = 1_700_000_000_000;
const LASTING: Ms = 60_000;

fn entry(number: u64) -> Entry {
    Entry {
        at: NOW + number,
        soft: false,
        what: What::Tag(format!("site\0tag {number}").into_bytes()),
    }
}

fn journal(author: u64) -> Journal {
    Journal::new(author, 64 << 10, LASTING)
}

/// Begins purges and executes them.
fn order(journal: &Journal, count: u64) {
    for number in 0..count {
        let name = journal.begin(entry(number), true);
        journal.done(name);
    }
}

/// The log of a server after an exchange with both.
fn through(server: &mut Log, journal: &Journal) {
    let theirs = (*server != Log::default()).then(|| server.clone());
    if let Some(log) = journal.merge(theirs, NOW) {
        *server = Log::decode(&log).expect("a log");
    }
}

fn carry_out(journal: &Journal) -> Vec<Task> {
    let tasks = journal.tasks();
    for task in &tasks {
        match task {
            Task::Purge(name, _) => journal.done(*name),
            Task::Missed(author, cut) => journal.made_up(*author, cut.number),
        }
    }
    tasks
}

#[test]
fn entries_read_back() {
    let whats = [
        What::Keys(vec![b"one".to_vec(), Vec::new(), vec![0xff; 300]]),
        What::Prefix("example.org".to_owned(), 8080, b"/wiki/\xff".to_vec()),
        What::Tag(b"site\0red".to_vec()),
        What::Ban("url ~ \"^/x\" && age > 1h".to_owned()),
    ];
    let mut log = Log::default();
    for (what, number) in whats.into_iter().zip(1..) {
        let entry = Entry { at: NOW, soft: number % 2 == 0, what };
        let mut bytes = Vec::new();
        entry.encode(&mut bytes);
        assert_eq!(bytes.len(), entry.len());
        log.insert((7, number), entry);
    }
    log.cut.insert(9, Cut { number: 3, at: NOW });
    let bytes = log.encode();
    assert_eq!(Log::decode(&bytes), Some(log));
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 4;
        assert_eq!(Log::decode(&changed), None, "byte {at}");
        assert_eq!(Log::decode(&bytes[..at]), None, "cut to {at}");
    }
}

#[test]
fn each_carries_out_what_others_ordered_once_and_in_order() {
    let (one, two) = (journal(1), journal(2));
    let mut server = Log::default();
    order(&one, 3);
    through(&mut server, &one);
    through(&mut server, &two);
    let expected: Vec<Task> =
        (0..3).map(|number| Task::Purge((1, number + 1), entry(number))).collect();
    assert!(!two.knows().has(1, 1), "not before it was carried out");
    assert_eq!(carry_out(&two), expected);
    assert!(two.knows().has(1, 3) && !two.knows().has(1, 4));
    assert!(one.knows().has(1, 3));
    through(&mut server, &two);
    through(&mut server, &one);
    assert_eq!((carry_out(&one), carry_out(&two)), (Vec::new(), Vec::new()));
    assert_eq!(one.digest(), two.digest());
}

#[test]
fn what_is_executed_is_told_as_long_as_the_log_has_it() {
    let (one, two) = (journal(1), journal(2));
    let mut server = Log::default();
    order(&one, 3);
    through(&mut server, &one);
    through(&mut server, &two);
    assert!(two.executed().is_empty());
    carry_out(&two);
    assert_eq!((one.executed(), two.executed()), (vec![(1, 3)], vec![(1, 3)]));
}

#[test]
fn logs_meet_in_any_order_and_agree() {
    let journals = [journal(1), journal(2), journal(3)];
    let mut servers = [Log::default(), Log::default()];
    for (journal, count) in journals.iter().zip([4, 2, 5]) {
        order(journal, count);
    }
    for (server, journal) in
        [(0, 2), (1, 1), (0, 0), (1, 0), (0, 1), (1, 2), (0, 2), (1, 1), (0, 0), (1, 0), (0, 1)]
    {
        through(&mut servers[server], &journals[journal]);
    }
    let digests: Vec<_> = journals.iter().map(Journal::digest).collect();
    assert!(digests.iter().all(|digest| *digest == digests[0] && digest.is_some()));
    assert_eq!(servers[0], servers[1]);
    assert_eq!(journals.map(|journal| carry_out(&journal).len()), [7, 9, 6]);
}

#[test]
fn what_is_under_way_or_given_up_is_not_known() {
    let one = journal(1);
    let first = one.begin(entry(0), false);
    let second = one.begin(entry(1), false);
    one.done(second);
    assert!(!one.knows().has(1, 1), "the first is under way");
    one.given_up(first);
    assert_eq!(carry_out(&one), [Task::Purge(first, entry(0))], "somebody has to");
    assert!(one.knows().has(1, 2));
    assert_eq!(one.untold(), [], "nobody was to be told");
}

#[test]
fn who_was_away_for_too_long_is_told_what_was_missed() {
    let one = Journal::new(1, 400, LASTING);
    let (two, three) = (Journal::new(2, 400, LASTING), Journal::new(3, 400, LASTING));
    let mut server = Log::default();
    order(&one, 2);
    through(&mut server, &one);
    through(&mut server, &two);
    assert_eq!(carry_out(&two).len(), 2);
    order(&one, 100);
    through(&mut server, &one);
    assert!(server.encode().len() < 1000, "it is bounded");
    for journal in [&two, &three] {
        through(&mut server, journal);
        let tasks = carry_out(journal);
        let Some(Task::Missed(1, cut)) = tasks.first() else { panic!("{tasks:?}") };
        assert_eq!(tasks.len() as u64, 1 + 102 - cut.number);
        assert!(journal.knows().has(1, 102));
        assert_eq!(carry_out(journal), []);
    }
}

#[test]
fn purges_of_too_long_ago_are_cut_off() {
    let one = journal(1);
    order(&one, 3);
    assert!(one.merge(None, NOW + 2 + LASTING).is_some());
    let log = one.merge(None, NOW + 2 + LASTING).and_then(|log| Log::decode(&log)).expect("a log");
    assert_eq!(log.entries.keys().copied().collect::<Vec<_>>(), [(1, 3)]);
    assert_eq!(log.cut.get(&1), Some(&Cut { number: 2, at: NOW + 1 }));
}

#[test]
fn a_peer_may_be_faster_than_the_fleet() {
    let (one, two) = (journal(1), journal(2));
    order(&one, 4);
    let told = one.untold();
    assert_eq!(told.len(), 4);
    two.hear(parcel(told.into_iter().filter(|((_, number), _)| *number > 2)), NOW);
    assert_eq!(carry_out(&two).len(), 2);
    assert!(!two.knows().has(1, 3), "what came before is missing");
    assert_eq!(carry_out(&two), [], "each once");
    let mut server = Log::default();
    through(&mut server, &one);
    through(&mut server, &two);
    assert_eq!(carry_out(&two).len(), 2);
    assert!(two.knows().has(1, 4));
}

#[test]
fn what_is_known_reads_back_and_is_bounded() {
    let knows = KnownPurges::new((1..200).map(|author| (author, author * 7)));
    let bytes = knows.encode();
    assert_eq!(bytes.len(), KNOWS_MOST);
    assert_eq!(KnownPurges::decode(&[&bytes[..], b"page"].concat()), Some((knows, KNOWS_MOST)));
    assert_eq!(KnownPurges::decode(&bytes[..KNOWS_MOST - 1]), None);
    assert_eq!(KnownPurges::decode(&[0xff; 3000]), None);
    assert_eq!(KnownPurges::decode(b"\0"), None);
}
