use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn a_run_holds_what_was_put_into_it(
        items in prop::collection::vec(
            (prop::collection::vec(any::<u8>(), 0..200), -1e9..1e9f64),
            0..60,
        ),
        scored: bool,
        most in 1usize..700,
        fill in prop_oneof![Just(Fill::Even), Just(Fill::First), Just(Fill::Last)],
    ) {
        let shape = if scored { Shape::Scored } else { Shape::Bare };
        let mut run = Vec::new();
        for (bytes, score) in &items {
            push_item(&mut run, shape, bytes, *score);
        }
        let read: Vec<_> = Items::new(shape, &run).map(|item| item.unwrap()).collect();
        prop_assert_eq!(read.len(), items.len());
        for (item, (bytes, score)) in read.iter().zip(&items) {
            prop_assert_eq!(item.bytes, &bytes[..]);
            prop_assert_eq!(item.score, if scored { *score } else { 0.0 });
        }
        let parts = divide(shape, &run, most, fill).unwrap();
        prop_assert_eq!(parts.iter().map(|(_, count)| count).sum::<u64>(), items.len() as u64);
        let pieces = parts.iter().map(|(part, _)| &run[part.clone()]);
        let joined = pieces.collect::<Vec<_>>().concat();
        prop_assert_eq!(joined, run.clone());
        for (part, count) in &parts {
            prop_assert!(*count == 1 || part.len() <= most);
            prop_assert_eq!(Items::new(shape, &run[part.clone()]).count() as u64, *count);
        }
    }

    #[test]
    fn a_run_of_a_hash_holds_its_fields_and_their_times(
        fields in prop::collection::vec(
            (
                prop::collection::vec(any::<u8>(), 0..50),
                prop::collection::vec(any::<u8>(), 0..300),
                prop::option::of(0u64..1000),
            ),
            1..40,
        ),
    ) {
        let mut run = Vec::new();
        for (field, value, expires) in &fields {
            push_field(&mut run, field, value, *expires);
        }
        let read: Vec<_> = Items::new(Shape::Field, &run)
            .map(|item| item.unwrap())
            .map(|item| (item.bytes.to_vec(), item.value.to_vec(), item.expires))
            .collect();
        prop_assert_eq!(&read, &fields);
        let found = find(Shape::Field, &run, &fields[0].0).unwrap().unwrap();
        prop_assert_eq!(found.value, &fields[0].1[..]);
        let soonest = fields.iter().filter_map(|(.., at)| *at).min().unwrap_or(u64::MAX);
        let last = fields.iter().map(|(.., at)| at.unwrap_or(u64::MAX)).max().unwrap();
        let times = Times::of_run(&run).unwrap();
        prop_assert_eq!(times, Times { soonest, last });
        // A node knows the times below it, whatever its separators were before.
        let mut node = Vec::new();
        for (nth, (field, value, expires)) in fields.iter().enumerate() {
            let mut one = Vec::new();
            push_field(&mut one, field, value, *expires);
            let mut separator = (nth as u64 * 10).to_be_bytes().to_vec();
            Times { soonest: 1, last: 2 }.seal(&mut separator);
            Times::of_run(&one).unwrap().seal(&mut separator);
            push_child(&mut node, 1, nth as u64, &separator);
        }
        prop_assert_eq!(Times::of_node(&node).unwrap(), times);
        for nth in 0..fields.len() as u64 {
            for mark in [nth * 10, nth * 10 + 9] {
                prop_assert_eq!(Node(&node).with(&mark_key(mark)).unwrap().part, nth);
            }
        }
    }

    #[test]
    fn a_head_of_a_hash_is_read_back(
        count in 1u64..1 << 40,
        key: u64,
        soonest: u64,
        bytes in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let times = Some(KeyTimes { key, soonest });
        let main = Root { level: 2, bytes };
        let head = Head { count, id: 7, next: 9, bytes: 11, main, times, ..Head::default() };
        let written = head.write();
        prop_assert_eq!(Head::read(&written), Ok(head));
        prop_assert_eq!(key_times(&written), times);
        prop_assert_eq!(crate::resp::hash::is_due(&written, soonest), soonest != 0);
        for cut in 0..26 {
            prop_assert_eq!(Head::read(&written[..cut]), Err(Damaged));
        }
    }

    #[test]
    fn a_head_without_facts_names_its_parts(
        id in 1u64..,
        times in prop::option::of((any::<u64>(), any::<u64>())),
        bytes in prop::collection::vec(any::<u8>(), 0..30),
    ) {
        let times = times.map(|(key, soonest)| KeyTimes { key, soonest });
        let apart = Head { id, times, ..Head::default() }.apart();
        prop_assert_eq!(facts_apart(&apart), Some(id));
        prop_assert_eq!(key_times(&apart), times);
        prop_assert_eq!(Head::read(&apart), Err(Damaged));
        for cut in 0..apart.len() {
            prop_assert_eq!(facts_apart(&apart[..cut]), None);
        }
        let _ = facts_apart(&bytes);
    }

    /// Few different bytes, so that the middle of an item often looks like another.
    #[test]
    fn an_item_is_found_where_it_is(
        items in prop::collection::vec(prop::collection::vec(0u8..4, 0..6), 0..60),
        sought in prop::collection::vec(0u8..4, 0..6),
        long in 0usize..300,
        shape in prop_oneof![
            Just(Shape::Bare),
            Just(Shape::Scored),
            Just(Shape::Valued),
            Just(Shape::Field)
        ],
    ) {
        let mut run = Vec::new();
        let mut push = |bytes: &[u8]| match shape {
            Shape::Field => push_field(&mut run, bytes, &[2, 1, 1], Some(9)),
            Shape::Valued => push_valued(&mut run, bytes, &[2, 1, 1]),
            _ => push_item(&mut run, shape, bytes, 1.0),
        };
        items.iter().for_each(|bytes| push(bytes));
        push(&vec![7; long]);
        for sought in [sought, vec![7; long], vec![8; long]] {
            let wanted = Items::new(shape, &run).map(Result::unwrap).find(|i| i.bytes == sought);
            prop_assert_eq!(find(shape, &run, &sought), Ok(wanted));
        }
    }

    #[test]
    fn any_bytes_are_read_to_an_end(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        for shape in [Shape::Bare, Shape::Scored, Shape::Valued] {
            let _ = Items::new(shape, &bytes).count();
            let _ = find(shape, &bytes, &bytes[..bytes.len().min(3)]);
            let _ = divide(shape, &bytes, 64, Fill::First);
        }
        let _ = Node(&bytes).children().count();
        let (_, _) = (Node(&bytes).at(3), Node(&bytes).with(b"key"));
        if let Ok(head) = Head::read(&bytes) {
            prop_assert_eq!(Head::read(&head.write()), Ok(head.clone()));
        }
    }

    /// Numbers of all lengths: some are read by a shorter way.
    #[test]
    fn a_child_is_read_as_it_was_written(
        children in prop::collection::vec(
            (0u32..47, 0u32..64, any::<u64>(), prop::collection::vec(any::<u8>(), 0..300)),
            1..20,
        ),
    ) {
        let mut node = Vec::new();
        let number = |random: u64, bits: u32| (random & ((1 << bits) - 1)).max(1);
        for (count, part, random, separator) in &children {
            push_child(&mut node, number(*random, *count), number(*random, *part), separator);
        }
        let read: Result<Vec<_>, _> = Node(&node).children().collect();
        let read = read.unwrap();
        prop_assert_eq!(read.len(), children.len());
        let mut start = 0;
        for (found, (count, part, random, separator)) in read.iter().zip(&children) {
            prop_assert_eq!(found.count, number(*random, *count));
            prop_assert_eq!(found.part, number(*random, *part));
            prop_assert_eq!((found.separator, found.start), (&separator[..], start));
            start = found.end;
        }
        prop_assert_eq!(start, node.len());
    }

    #[test]
    fn a_node_finds_its_children(
        counts in prop::collection::vec(1u64..1000, 1..40),
        position in 0u64..30_000,
    ) {
        let mut node = Vec::new();
        for (at, count) in counts.iter().enumerate() {
            push_child(&mut node, *count, at as u64, &(at as u32 * 2).to_be_bytes());
        }
        let found = Node(&node).at(position).unwrap();
        let (mut before, mut nth) = (0, 0);
        while nth + 1 < counts.len() && position >= before + counts[nth] {
            before += counts[nth];
            nth += 1;
        }
        prop_assert_eq!((found.part, found.before), (nth as u64, before));
        let key = (position % 100) as u32;
        let found = Node(&node).with(&key.to_be_bytes()).unwrap();
        prop_assert_eq!(found.part, u64::from(key / 2).min(counts.len() as u64 - 1));
    }

    #[test]
    fn keys_of_ranks_are_ordered_as_scores_and_members(
        a in (any::<f64>(), prop::collection::vec(any::<u8>(), 0..5)),
        b in (any::<f64>(), prop::collection::vec(any::<u8>(), 0..5)),
    ) {
        prop_assume!(!a.0.is_nan() && !b.0.is_nan());
        let (left, right) = (rank_key(a.0, &a.1), rank_key(b.0, &b.1));
        prop_assert_eq!(left.cmp(&right), compare((a.0, &a.1), (b.0, &b.1)));
        if left < right {
            let between = separator(&left, &right);
            prop_assert!(left < between && between <= right);
        }
    }

    #[test]
    fn a_head_reads_as_it_was_written(
        count in 1u64..1_000_000,
        id: u64,
        next: u64,
        main in prop::collection::vec(any::<u8>(), 0..300),
        members in prop::option::of(prop::collection::vec(any::<u8>(), 0..300)),
        level in 0u8..4,
        extra in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let head = match level {
            0 => Head { count, main: Root { level, bytes: main }, ..Head::default() },
            _ => Head {
                count,
                id,
                next,
                bytes: 7,
                main: Root { level, bytes: main },
                members: members.map(|bytes| Root { level: 1, bytes }),
                extra,
                times: None,
            },
        };
        prop_assert_eq!(Head::read(&head.write()), Ok(head.clone()));
    }
}

#[test]
fn infinities_and_zeros_have_their_place() {
    let keys: Vec<_> = [f64::NEG_INFINITY, -1.5, -0.0, 1e-300, f64::INFINITY]
        .map(|score| rank_key(score, b""))
        .into();
    assert!(keys.is_sorted_by(|left, right| left < right));
    assert_eq!(rank_key(0.0, b"a"), rank_key(-0.0, b"a"));
}

#[test]
fn scores_are_read_as_redis_reads_them() {
    for (text, score) in [
        ("1", Some(1.0)),
        ("-1.5e3", Some(-1500.0)),
        (".5", Some(0.5)),
        ("5.", Some(5.0)),
        ("+inf", Some(f64::INFINITY)),
        ("-Infinity", Some(f64::NEG_INFINITY)),
        ("0x1F", Some(31.0)),
        ("0x.8p1", Some(1.0)),
        ("nan", None),
        ("", None),
        (" 1", None),
        ("1 ", None),
        ("--1", None),
        ("1e400", None),
        ("1e-400", None),
        ("0e-400", Some(0.0)),
        ("1a", None),
    ] {
        assert_eq!(parse_score(text.as_bytes()), score, "{text}");
    }
    assert_eq!(parse_bound(b""), Some(0.0));
    assert_eq!(parse_bound(b"1e400"), Some(f64::INFINITY));
    assert!(rank_above(1.0) > rank_key(1.0, &[0xff; 40]) && rank_above(1.0) < rank_key(1.1, b""));
}

#[test]
fn no_collection_is_taken_for_a_hash() {
    for kind in [Kind::List, Kind::Set, Kind::SortedSet, Kind::Stream, Kind::Hash] {
        assert!(!crate::resp::hash::is_hash(kind.flags()), "{kind:?}");
    }
    for flags in [crate::resp::hash::EXPIRING, crate::resp::hash::FADING] {
        assert_eq!((Kind::of(flags), crate::resp::hash::is_hash(flags)), (None, true));
    }
    for flags in [HASH_EXPIRING, HASH_FADING] {
        assert_eq!((Kind::of(flags), crate::resp::hash::is_hash(flags)), (Some(Kind::Hash), false));
    }
}
