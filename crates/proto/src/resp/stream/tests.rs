use proptest::prelude::*;

use super::*;

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

fn pairs(fields: &Fields) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
    fields.iter().map(|(name, value)| (&name[..], &value[..]))
}

proptest! {
    #[test]
    fn a_run_holds_what_was_put_into_it(
        entries in prop::collection::vec(
            (0u64..5000, 0u64..3, prop::collection::vec(("[ab]?", "[a-z]{0,9}"), 1..4)),
            0..40,
        ),
        start in 0u64..u64::MAX / 2,
    ) {
        let (mut run, mut put) = (Vec::new(), Vec::new());
        let mut id = StreamId { ms: start, seq: 7 };
        for (ms, seq, fields) in entries {
            id = StreamId { ms: id.ms + ms, seq: if ms > 0 { seq } else { id.seq + 1 + seq } };
            let fields: Fields =
                fields.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
            push_entry(&mut run, id, pairs(&fields)).unwrap();
            put.push((id, fields));
        }
        let read = Run::read(&run).unwrap().entries().map(|entry| {
            let entry = entry.unwrap();
            let fields: Fields =
                entry.pairs.map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
            assert_eq!(fields.len() as u64, entry.count);
            (entry.id, fields)
        });
        prop_assert_eq!(read.collect::<Vec<_>>(), put);
    }

    #[test]
    fn any_bytes_are_read_to_an_end(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(run) = Run::read(&bytes) {
            for entry in run.entries().flatten() {
                prop_assert_eq!(entry.pairs.count() as u64, entry.count);
            }
        }
        let (_, _, _) = (State::read(&bytes), Group::read(&bytes), Consumer::read(&bytes));
        let _ = (Pending::read(&bytes), StreamId::parse_given(&bytes, 0), key::id(&bytes));
    }

    #[test]
    fn records_are_read_as_written(a: u64, b: u64, c: u32, d in 0u64..u64::MAX, name: Vec<u8>) {
        let id = StreamId { ms: a, seq: b };
        let state = State { last: id, max_deleted: id, added: d, groups: a, numbers: b };
        prop_assert_eq!(State::read(&state.write()), Ok(state));
        for read in [None, Some(d)] {
            let group = Group { number: c, last: id, read, pending: a, consumers: b };
            prop_assert_eq!(Group::read(&group.write()), Ok(group));
        }
        let consumer = Consumer { number: c, seen: a, pending: b, name };
        prop_assert_eq!(Consumer::read(&consumer.write()), Ok(consumer));
        let pending = Pending { consumer: c, time: a, count: b };
        prop_assert_eq!(Pending::read(&pending.write()), Ok(pending));
        prop_assert_eq!(key::id(&key::owned(c, c, id)), Some(id));
    }

    #[test]
    fn keys_of_ids_have_their_order(a: (u64, u64), b: (u64, u64)) {
        let (a, b) = (StreamId { ms: a.0, seq: a.1 }, StreamId { ms: b.0, seq: b.1 });
        prop_assert_eq!(a.cmp(&b), a.to_key().cmp(&b.to_key()));
        prop_assert_eq!(a.next().and_then(StreamId::before).unwrap_or(a), a);
    }
}

#[test]
fn ids_are_read_as_redis_reads_them() {
    let id = |ms, seq| Some(StreamId { ms, seq });
    for (text, read) in [
        ("5", id(5, 9)),
        ("5-1", id(5, 1)),
        ("18446744073709551615-18446744073709551615", Some(StreamId::MAX)),
        ("18446744073709551616-0", None),
        ("5-*", None),
        ("*", None),
        ("5-", None),
        ("-5", None),
        ("", None),
        ("1-2-3", None),
        ("a-1", None),
    ] {
        assert_eq!(StreamId::parse(text.as_bytes(), 9), read, "{text}");
    }
    assert_eq!(StreamId::parse_given(b"7-*", 0), Some((StreamId { ms: 7, seq: 0 }, false)));
    assert_eq!(StreamId::parse_bound(b"-", 0), Some(StreamId::MIN));
    assert_eq!(StreamId::parse_bound(b"+", 0), Some(StreamId::MAX));
    assert_eq!(StreamId { ms: 12, seq: 3 }.text(), b"12-3");
}
