//! Memory lent out: the budget holds, what is lent is free memory of the system, and it comes back.

use larder_store::{If, Namespace, Options, Put, PutError, Store};

const NS: Namespace = Namespace(1);

fn store(evict: bool) -> Store {
    Store::open(Options { budget: 32 << 20, max_value: 1 << 20, evict, ..Options::default() })
        .expect("a store")
}

/// Stores values of 100 kB until none fits, or as many as would fill it three times.
fn fill(store: &Store) -> u64 {
    let value = vec![7; 100_000];
    for number in 0u64..1000 {
        let put = Put { value: &[&value], ..Put::default() };
        if store.put(NS, &number.to_be_bytes(), put, If::Always, 1).is_err() {
            break;
        }
    }
    store.live(NS)
}

#[test]
fn what_is_lent_is_evicted_and_comes_back() {
    let store = store(true);
    let before = fill(&store);
    let mut loan = store.loan();
    loan.resize(12 << 20, 1).expect("half can be lent");
    assert!((12 << 20..13 << 20).contains(&loan.bytes()), "{}", loan.bytes());
    let meanwhile = fill(&store);
    assert!(meanwhile < before * 3 / 4, "{meanwhile} of {before}");
    loan.resize(1 << 20, 1).expect("less");
    assert_eq!(loan.bytes(), 1 << 20);
    drop(loan);
    assert!(fill(&store) + 3 >= before);
}

#[test]
fn what_is_not_there_is_not_lent() {
    for evict in [true, false] {
        let store = store(evict);
        let mut loan = store.loan();
        loan.resize(1 << 20, 1).expect("a little");
        fill(&store);
        let free = |store: &Store| store.totals().free;
        let before = free(&store);
        assert_eq!(loan.resize(64 << 20, 1), Err(PutError::Full));
        assert_eq!(loan.bytes(), 1 << 20, "what was lent stays lent");
        assert!(free(&store) >= before);
        if !evict {
            assert_eq!(store.live(NS), fill(&store), "nothing is evicted for it");
        }
    }
}

#[test]
fn a_smaller_budget_evicts_and_a_larger_one_is_used() {
    let store = store(true);
    let before = fill(&store);
    store.set_budget(16 << 20, 1).expect("half");
    let totals = store.totals();
    assert!((16 << 20..17 << 20).contains(&totals.budget), "{}", totals.budget);
    let held = (totals.segments - totals.free) * totals.segment;
    assert!(held <= 16 << 20, "{held}");
    let meanwhile = fill(&store);
    assert!(meanwhile < before * 6 / 10, "{meanwhile} of {before}");
    store.set_budget(u64::MAX, 1).expect("as at the start");
    assert_eq!(store.totals().budget, 32 << 20);
    assert!(fill(&store) + 3 >= before);
    // Never below what the store itself needs.
    store.set_budget(0, 1).expect("the least");
    assert!(fill(&store) > 0);
}

#[test]
fn a_budget_that_cannot_be_had_changes_nothing() {
    let store = store(false);
    let before = fill(&store);
    assert_eq!(store.set_budget(16 << 20, 1), Err(PutError::Full));
    assert_eq!((store.totals().budget, store.live(NS)), (32 << 20, before));
}
