//! Evicted entries that are handed over.
#![allow(missing_docs, clippy::unwrap_used)]

use larder_store::*;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const NS: Namespace = Namespace(0);
const OTHER: Namespace = Namespace(1);
const ALSO: Namespace = Namespace(2);

fn store() -> &'static Store {
    let options = Options { budget: 16 << 20, ..Options::default() };
    Box::leak(Box::new(Store::open(options).unwrap()))
}

/// A small value, and now and then one of several segments.
fn value(n: u32) -> Vec<u8> {
    n.to_le_bytes().repeat(if n.is_multiple_of(300) { 200_000 } else { 1_000 })
}

fn set(store: &Store, ns: Namespace, n: u32) {
    let value = value(n);
    store.set(ns, &n.to_le_bytes(), Put { value: &[&value], ..Put::default() }, 1).unwrap();
}

#[test]
fn entries_asked_for_are_handed_over_whole() {
    let store = store();
    let tickets = Arc::new(AtomicU64::new(0));
    let taken = Arc::new(Mutex::new(HashSet::new()));
    let (tell, into, seen) = (tickets.clone(), taken.clone(), tickets.clone());
    let take = move |ns, entry: Entry<'static>, ticket| {
        assert!([NS, ALSO].contains(&ns));
        assert!(ticket <= seen.load(Ordering::SeqCst));
        let n = u32::from_le_bytes(entry.key().try_into().unwrap());
        assert_eq!(entry.chunks().collect::<Vec<_>>().concat(), value(n));
        into.lock().unwrap().insert(n);
    };
    let ticket = move || tell.fetch_add(1, Ordering::SeqCst) + 1;
    assert!(store.hand_over(&[NS, ALSO], Box::new(ticket), Box::new(take)));
    assert!(
        !store.hand_over(&[NS], Box::new(|| 0), Box::new(|_, _, _| ())),
        "there is one already"
    );
    for n in 0..30_000 {
        set(store, NS, n);
        set(store, OTHER, n);
        // Every third is asked for, and of these some are stale.
        if n % 3 == 0 {
            // A large value may have pushed it out already.
            let _ = store.get(NS, &n.to_le_bytes(), 1);
            let _ = store.get(OTHER, &n.to_le_bytes(), 1);
        }
        if n % 30 == 0 {
            store.mark_stale(NS, &n.to_le_bytes(), 1);
        }
    }
    let taken = taken.lock().unwrap();
    assert!(taken.len() > 2_000, "{}", taken.len());
    assert!(taken.iter().all(|n| n % 3 == 0 && n % 30 != 0));
    for n in &*taken {
        assert!(store.peek(NS, &n.to_le_bytes(), 1).is_none(), "{n} is still there");
    }
}

#[test]
fn a_receiver_that_keeps_everything_does_not_take_the_memory() {
    let store = store();
    let kept = Arc::new(Mutex::new(Vec::new()));
    let into = kept.clone();
    let take = move |_, entry, _| into.lock().unwrap().push(entry);
    assert!(store.hand_over(&[NS], Box::new(|| 0), Box::new(take)));
    for n in 1..60_000 {
        set(store, NS, n);
        let _ = store.get(NS, &n.to_le_bytes(), 1);
    }
    let totals = store.totals();
    assert!(totals.limbo * 8 <= totals.segments, "{totals:?}");
    let kept = kept.lock().unwrap();
    assert!(!kept.is_empty());
    for entry in &*kept {
        let n = u32::from_le_bytes(entry.key().try_into().unwrap());
        assert_eq!(entry.chunks().collect::<Vec<_>>().concat(), value(n));
    }
}
