use super::{
    super::{pack, purge},
    *,
};

type Model = Vec<(Vec<u8>, Vec<u8>)>;

fn packed(model: &Model) -> Option<Vec<u8>> {
    let pairs: Vec<_> = model.iter().map(|(field, value)| (&field[..], &value[..])).collect();
    pack(&pairs)
}

/// The fields after one change after the other.
fn change(model: &mut Model, changes: &[Change<'_>]) {
    for Change { field, value, .. } in changes {
        let at = model.iter().position(|(known, _)| known == field);
        match (at, value) {
            (Some(at), Value::Set(value)) => model[at].1 = value.to_vec(),
            (Some(at), Value::Remove) => drop(model.remove(at)),
            (None, Value::Set(value)) => model.push((field.to_vec(), value.to_vec())),
            _ => {}
        }
    }
}

#[test]
fn a_merged_hash_is_the_one_packed_anew() {
    // A plain generator: the same cases on every run.
    let mut seed = 7u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for size in [0, 1, 5, INDEX_FROM - 1, INDEX_FROM, INDEX_FROM + 1, 300] {
        for round in 0..60 {
            let mut model: Model = Vec::new();
            for n in 0..size {
                let value = vec![b'v'; random(200) as usize];
                change(
                    &mut model,
                    &[Change::set(format!("f{}", n * 7919 % 10_007).as_bytes(), &value)],
                );
            }
            let names: Vec<String> = (0..random(30) + 1)
                .map(|_| match random(3) {
                    0 if size > 0 => format!("f{}", random(size as u64) * 7919 % 10_007),
                    1 => format!("new{}", random(10)),
                    _ => format!("f{}", random(10_007)),
                })
                .collect();
            // Sets alone or removals alone, as commands have them: of both for one field the
            // last would count.
            let removes = round % 3 == 0;
            let changes: Vec<Change<'_>> = names
                .iter()
                .map(|name| match removes {
                    true => Change::remove(name.as_bytes()),
                    false => Change::set(name.as_bytes(), name.as_bytes()),
                })
                .collect();
            let old = packed(&model);
            let old = old.as_deref().map(|bytes| Hash::read(bytes).unwrap());
            let merged = merge(old.as_ref(), &changes, None).unwrap();
            let before = model.len();
            change(&mut model, &changes);
            assert_eq!(merged.count(), model.len());
            assert_eq!(before + merged.added() - merged.removed(), model.len());
            if let Some(anew) = packed(&model) {
                assert!(merged.parts().concat() == anew, "{size} fields, changed: {names:?}");
                assert_eq!(merged.size(), anew.len());
            }
        }
    }
}

#[test]
fn damage_is_told_or_stays_and_never_panics() {
    let model: Model =
        (0..100).map(|n| (format!("field{n}").into_bytes(), b"value".to_vec())).collect();
    let good = packed(&model).unwrap();
    for at in 0..good.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut bad = good.clone();
            bad[at] ^= flip;
            let Ok(hash) = Hash::read(&bad) else { continue };
            for field in [&b"field1"[..], b"field50", b"field99", b"other"] {
                let changes = [Change::set(field, b"x"), Change::remove(b"y")];
                let _ = merge(Some(&hash), &changes, None);
            }
        }
    }
}

type Fields = Vec<(Vec<u8>, Vec<u8>, Option<u64>)>;

/// A plain generator: the same cases on every run.
struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

fn apply(model: &mut Fields, change: &Change<'_>) {
    let at = model.iter().position(|(known, ..)| known == change.field);
    let time = |known| match change.expiry {
        Expiry::Keep => known,
        Expiry::Never => None,
        Expiry::At(time) => Some(time),
    };
    match (at, change.value) {
        (Some(at), Value::Set(value)) => {
            (model[at].1, model[at].2) = (value.to_vec(), time(model[at].2));
        }
        (Some(at), Value::Keep) => model[at].2 = time(model[at].2),
        (Some(at), Value::Remove) => drop(model.remove(at)),
        (None, Value::Set(value)) => {
            model.push((change.field.to_vec(), value.to_vec(), time(None)));
        }
        _ => {}
    }
}

/// Compares a record with the fields it should have, in their order, by every way to read it.
fn check(record: &[u8], model: &Fields, key: Option<u64>) {
    let hash = Hash::read(record).unwrap();
    assert_eq!(hash.len(), model.len());
    let mut fields = hash.iter();
    for (field, value, time) in model {
        let at = fields.place().0;
        assert_eq!(fields.next(), Some(Ok((&field[..], &value[..]))));
        assert_eq!(hash.expiry_at(at), *time);
        assert_eq!(hash.get_expiring(field), Ok(Some((&value[..], *time))));
    }
    assert_eq!(fields.next(), None);
    let times = || model.iter().filter_map(|(_, _, time)| *time);
    assert_eq!((hash.expiring(), hash.soonest()), (times().count(), times().min()));
    let known = super::super::key_expiry(record);
    assert_eq!(known, (times().count() > 0).then_some(key));
    if times().count() == 0 {
        let pairs: Vec<_> = model.iter().map(|(f, v, _)| (&f[..], &v[..])).collect();
        assert!(pack(&pairs).unwrap() == record, "nothing is left of expiries");
    }
    for now in [0, 50, 100] {
        assert_eq!(super::super::is_due(record, now), times().any(|time| time <= now));
    }
}

#[test]
fn expiries_follow_their_fields() {
    let mut random = Random(11);
    for size in [1, 3, INDEX_FROM - 1, INDEX_FROM, INDEX_FROM + 1, 200] {
        for round in 0..60 {
            let (mut model, mut record): (Fields, Vec<u8>) = Default::default();
            let key = (round % 2 == 0).then_some(77);
            for step in 0..8 {
                let names: Vec<String> =
                    (0..size).map(|_| format!("f{}", random.below(2 * size as u64))).collect();
                let mut changes: Vec<Change<'_>> = Vec::new();
                for name in &names {
                    let name = name.as_bytes();
                    let expiry = [Expiry::Keep, Expiry::Never, Expiry::At(1 + random.below(100))]
                        [random.below(3) as usize];
                    // Each field once: commands have no two kinds of changes of one field.
                    if changes.iter().any(|change| change.field == name) {
                        continue;
                    }
                    changes.push(match random.below(if step == 0 { 1 } else { 4 }) {
                        0 => Change { expiry, ..Change::set(name, &name[..name.len() / 2]) },
                        1 => Change::remove(name),
                        _ => Change::expire(name, expiry),
                    });
                }
                let old = (!record.is_empty()).then(|| Hash::read(&record).unwrap());
                let merged = merge(old.as_ref(), &changes, key).unwrap();
                changes.iter().for_each(|change| apply(&mut model, change));
                assert_eq!(merged.count(), model.len());
                let last = model.iter().map(|(_, _, time)| *time).min().flatten();
                assert_eq!(merged.last_expiry().is_some(), last.is_some());
                record = if model.is_empty() { Vec::new() } else { merged.parts().concat() };
                if record.is_empty() {
                    break;
                }
                check(&record, &model, key);
                let (now, hash) = (random.below(110), Hash::read(&record).unwrap());
                let purged = purge(&hash, now, key).unwrap();
                let live = |field: &&(Vec<u8>, Vec<u8>, Option<u64>)| {
                    field.2.is_none_or(|time| time > now)
                };
                let left: Fields = model.iter().filter(live).cloned().collect();
                assert_eq!(
                    (purged.count(), purged.removed()),
                    (left.len(), model.len() - left.len())
                );
                if !left.is_empty() {
                    check(&purged.parts().concat(), &left, key);
                }
                for (field, value, time) in &model {
                    let lives = time.is_none_or(|time| time > now);
                    assert_eq!(hash.get_live(field, now), Ok(lives.then_some(&value[..])));
                }
            }
        }
    }
}

#[test]
fn damage_of_expiries_is_told_or_stays_and_never_panics() {
    let names: Vec<String> = (0..100).map(|n| format!("field{n}")).collect();
    for count in [3, 100] {
        let changes: Vec<Change<'_>> = names[..count]
            .iter()
            .map(|name| Change { expiry: Expiry::At(5), ..Change::set(name.as_bytes(), b"value") })
            .collect();
        let good = merge(None, &changes, None).unwrap().parts().concat();
        for at in 0..good.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut bad = good.clone();
                bad[at] ^= flip;
                let Ok(hash) = Hash::read(&bad) else { continue };
                let _ = (hash.get_expiring(b"field1"), hash.get_live(b"field50", 5));
                let _ = merge(Some(&hash), &[Change::expire(b"field1", Expiry::Never)], None);
                let _ = merge(Some(&hash), &[Change::set(b"y", b"z")], None);
                let _ = purge(&hash, 6, None).map(|purged| purged.size());
            }
        }
        for cut in 0..good.len() {
            assert_eq!(Hash::read(&good[..cut]).and_then(|hash| hash.pairs()), Err(Damaged));
        }
    }
}
