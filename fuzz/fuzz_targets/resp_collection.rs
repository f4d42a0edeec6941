//! Runs, nodes and heads of collections: any bytes are read to an end, and the parts of a divided run
//! are the run.
#![no_main]

use larder_proto::resp::collection::{
    Fill, Head, Items, Node, Shape, Times, divide, facts_apart, key_times, parse_score,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    for shape in [Shape::Bare, Shape::Scored, Shape::Valued, Shape::Field] {
        let items: Result<Vec<_>, _> = Items::new(shape, input).collect();
        for fill in [Fill::Even, Fill::First, Fill::Last] {
            let Ok(parts) = divide(shape, input, 64, fill) else {
                assert!(items.is_err());
                continue;
            };
            let count: u64 = parts.iter().map(|(_, count)| count).sum();
            assert_eq!(count, items.as_ref().map_or(0, |items| items.len() as u64));
            let pieces: Vec<&[u8]> = parts.iter().map(|(part, _)| &input[part.clone()]).collect();
            assert_eq!(pieces.concat(), input);
        }
    }
    let children: Result<Vec<_>, _> = Node(input).children().collect();
    if let Ok(children) = children {
        for child in &children {
            assert_eq!(Node(input).at(child.before).map(|found| found.part), Ok(child.part));
        }
    }
    let _ = Node(input).with(b"key");
    let _ = (Times::of_run(input), Times::of_node(input), key_times(input));
    let (mut sealed, times) = (input.to_vec(), Times { soonest: 3, last: 5 });
    times.seal(&mut sealed);
    assert_eq!(Times::read(&sealed), times);
    if facts_apart(input).is_some() {
        assert!(Head::read(input).is_err());
    }
    if let Ok(head) = Head::read(input) {
        assert_eq!(facts_apart(&head.apart()), Some(head.id).filter(|id| *id != 0));
        assert_eq!(Head::read(&head.write()), Ok(head));
    }
    assert!(parse_score(input).is_none_or(|score| !score.is_nan()));
});
