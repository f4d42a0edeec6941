use super::*;
use crate::resp::{Reply, Version};

#[test]
fn every_command_is_found_whatever_its_case() {
    let mut count = 0;
    for command in all() {
        count += 1;
        assert_eq!(find(command.name.as_bytes()).map(|c| c.id), Some(command.id));
        assert_eq!(find(command.name.to_uppercase().as_bytes()).map(|c| c.id), Some(command.id));
        for sub in command.subcommands {
            assert_eq!(
                docs::named(sub.name.as_bytes()).map(|c| c.id),
                Some(sub.id),
                "{}",
                sub.name
            );
        }
        assert!(
            absent::absent(command.name.as_bytes()).is_none(),
            "{} is there and absent",
            command.name
        );
    }
    assert!(count * 2 < SLOTS, "the table of names is too full");
    for unknown in ["", "g", "gett", "ge", "no such command at all"] {
        assert!(find(unknown.as_bytes()).is_none(), "{unknown}");
    }
}

#[test]
fn keys_are_where_redis_says() {
    let places =
        |name: &str, count| find(name.as_bytes()).unwrap().key_places(count).collect::<Vec<_>>();
    assert_eq!(places("get", 2), [1]);
    assert_eq!(places("del", 4), [1, 2, 3]);
    assert_eq!(places("mset", 5), [1, 3]);
    assert_eq!(places("rename", 3), [1, 2]);
    assert_eq!(places("bitop", 5), [2, 3, 4]);
    assert_eq!(places("ping", 2), [0; 0]);
}

#[test]
fn arguments_are_counted() {
    let takes = |name: &str, count| find(name.as_bytes()).unwrap().takes(count);
    assert!(takes("get", 2) && !takes("get", 1) && !takes("get", 3));
    assert!(takes("set", 3) && takes("set", 9) && !takes("set", 2));
}

#[test]
fn every_command_has_its_words() {
    for command in all().flat_map(|c| std::iter::once(c).chain(c.subcommands)) {
        let mut out = Vec::new();
        docs::write(&mut Reply::new(&mut out, Version::V2), command);
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("summary") && text.contains("group"), "{}", command.name);
    }
}
