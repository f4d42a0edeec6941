use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn both_forms_tell_the_same(
        elements in prop::collection::vec("[a-z]{1,6}", 0..600),
    ) {
        let (mut sparse, mut dense) = (HyperLogLog::default(), HyperLogLog::default());
        dense.to_dense().unwrap();
        for element in &elements {
            let element = element.as_bytes();
            prop_assert_eq!(sparse.add(element).unwrap(), dense.add(element).unwrap());
        }
        prop_assert_eq!(sparse.count().unwrap(), dense.count().unwrap());
        sparse.to_dense().unwrap();
        prop_assert_eq!(sparse.bytes(), dense.bytes());
        prop_assert_eq!(HyperLogLog::read(dense.bytes()), Some(dense.clone()));
    }

    #[test]
    fn any_bytes_are_read_to_an_end(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        register in 0..REGISTERS,
        value in 1u8..=51,
    ) {
        let mut whole = b"HYLL\x01".to_vec();
        whole.resize(16, 0);
        whole.extend_from_slice(&bytes);
        if let Some(mut own) = HyperLogLog::read(&whole) {
            let _ = own.set(register, value);
            let _ = own.count();
        }
        let _ = HyperLogLog::read(&bytes);
    }
}

#[test]
fn counts_are_near() {
    let mut own = HyperLogLog::default();
    for number in 0..100_000u32 {
        own.add(&number.to_le_bytes()).unwrap();
    }
    let count = own.count().unwrap();
    assert!((97_000..103_000).contains(&count), "{count}");
    assert_eq!(own.known_count(), Some(count));
    own.forget_count();
    assert_eq!(own.known_count(), None);
    assert!(own.is_dense());
}
