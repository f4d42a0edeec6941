//! Any page has a plan within its bytes, which reads back the same; any bytes may stand for a plan,
//! a condition or a place.
#![no_main]

use larder_proto::esi::{Expression, Node, Plan, parse, resolve};
use libfuzzer_sys::fuzz_target;

fn within(nodes: &[Node], length: usize) {
    for node in nodes {
        match node {
            Node::Text(from, to) => assert!(from <= to && *to as usize <= length),
            Node::Vars(_) | Node::Include(_) => {}
            Node::Try(attempt, except) => {
                within(attempt, length);
                within(except, length);
            }
            Node::Choose(branches) => branches.iter().for_each(|(_, nodes)| within(nodes, length)),
            Node::Inline(_, nodes) => within(nodes, length),
        }
    }
}

fuzz_target!(|page: &[u8]| {
    if let Some(plan) = parse(page) {
        within(&plan.nodes, page.len());
        assert_eq!(Plan::decode(&plan.encode(), page.len() as u64), Ok(plan));
    }
    if let Ok(plan) = Plan::decode(page, 100) {
        within(&plan.nodes, 100);
    }
    let _ = Expression::parse(page);
    if let Some(target) = resolve(page, "/a/b?c") {
        assert!(target.path_and_query.starts_with('/'));
        assert!(target.path_and_query.bytes().all(|byte| byte.is_ascii_graphic()));
    }
});
