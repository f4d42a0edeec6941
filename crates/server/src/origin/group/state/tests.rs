//! Members that fail, come back, and change.

use std::time::Duration;

use super::*;
use crate::settings::{GroupMember, OriginSettings};

fn group(members: u16) -> Arc<GroupState> {
    let one = |port| {
        let origin = Arc::new(OriginSettings { port, ..OriginSettings::default() });
        GroupMember { origin, weight: 1, backup: false }
    };
    let single = OriginGroup::single(Arc::default());
    let members = (1..=members).map(one).collect();
    GroupState::new(Arc::new(OriginGroup { members, ..single }))
}

fn fail(group: &Arc<GroupState>, place: usize, times: usize) {
    for _ in 0..times {
        let members = group.members();
        group.begin(&members[place], false).expect("no limit").failed();
    }
}

fn phases(group: &GroupState) -> Vec<Phase> {
    group.members().iter().map(|member| member.phase(group.now())).collect()
}

#[tokio::test(start_paused = true)]
async fn failures_in_a_row_take_a_member_out_but_never_the_last_one() {
    let group = group(2);
    fail(&group, 0, 2);
    let members = group.members();
    group.begin(&members[0], false).expect("no limit").succeeded();
    fail(&group, 0, 2);
    assert_eq!(phases(&group), [Phase::In, Phase::In], "not in a row");
    fail(&group, 0, 1);
    assert_eq!(phases(&group), [Phase::Out, Phase::In]);
    fail(&group, 1, 9);
    assert_eq!(phases(&group), [Phase::Out, Phase::In], "the last one stays");
    assert!(!members[1].is_healthy(&group.settings));
}

#[tokio::test(start_paused = true)]
async fn one_request_is_tried_after_the_pause_which_doubles_while_it_fails() {
    let group = group(2);
    let members = group.members();
    fail(&group, 0, 3);
    for pause in [10, 20, 40, 60, 60] {
        tokio::time::advance(Duration::from_millis(pause * 1000 - 1)).await;
        assert_eq!(members[0].phase(group.now()), Phase::Out, "{pause}");
        tokio::time::advance(Duration::from_millis(1)).await;
        let Phase::Due(due) = members[0].phase(group.now()) else { panic!("{pause}") };
        let trial = group.try_again(&members[0], due).expect("it is due");
        assert!(group.try_again(&members[0], due).is_none(), "one at a time");
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert_eq!(members[0].phase(group.now()), Phase::Out, "while it is under way");
        trial.failed();
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_comes_back_begins_slowly() {
    let group = group(2);
    let members = group.members();
    fail(&group, 0, 3);
    group.begin(&members[0], false).expect("no limit").succeeded();
    assert_eq!(members[0].phase(group.now()), Phase::Out, "an answer from before");
    group.begin(&members[0], true).expect("no limit").succeeded();
    assert_eq!(members[0].phase(group.now()), Phase::In);
    assert_eq!(group.share(&members[0], group.now()), FIRST_SHARE);
    tokio::time::advance(Duration::from_secs(5)).await;
    assert_eq!(group.share(&members[0], group.now()), SHARE / 2);
    tokio::time::advance(Duration::from_secs(50)).await;
    assert_eq!(group.share(&members[0], group.now()), SHARE);
    assert_eq!(group.share(&members[1], group.now()), SHARE);
}

#[tokio::test(start_paused = true)]
async fn a_member_that_came_back_is_out_again_after_one_failure() {
    let group = group(2);
    let members = group.members();
    let begin = |trial| group.begin(&members[0], trial).expect("no limit");
    fail(&group, 0, 3);
    begin(true).succeeded();
    begin(false).failed();
    tokio::time::advance(Duration::from_secs(19)).await;
    assert_eq!(members[0].phase(group.now()), Phase::Out, "the pause has doubled");
    begin(true).succeeded();
    begin(false).succeeded();
    fail(&group, 0, 2);
    assert_eq!(members[0].phase(group.now()), Phase::In, "an answer ended the probation");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_decides_nothing_neither_helps_nor_harms() {
    let group = group(2);
    let members = group.members();
    fail(&group, 0, 2);
    group.begin(&members[0], false).expect("no limit").undecided().succeeded();
    assert_eq!(members[0].phase(group.now()), Phase::In);
    fail(&group, 0, 1);
    group.begin(&members[0], true).expect("no limit").undecided().succeeded();
    assert_eq!(members[0].phase(group.now()), Phase::Out);
}

#[tokio::test(start_paused = true)]
async fn requests_beyond_the_limit_do_not_begin() {
    let mut settings = OriginGroup::single(Arc::default());
    settings.max_requests = Some(1);
    let group = GroupState::new(Arc::new(settings));
    let members = group.members();
    let first = group.begin(&members[0], false);
    assert!(first.is_some() && group.begin(&members[0], false).is_none());
    assert_eq!(members[0].under_way(), 1, "the refused one is not counted");
    drop(first);
    assert_eq!(members[0].under_way(), 0);
    assert!(group.begin(&members[0], false).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_member_is_unwell_after_two_failed_checks_until_one_succeeds() {
    let group = group(1);
    let member = &group.members()[0];
    assert!(!group.unwell(member) && !group.well(member), "one is not enough");
    assert!(!group.unwell(member) && group.unwell(member), "two are");
    assert!(!group.unwell(member), "it is told once");
    assert_eq!(member.phase(group.now()), Phase::Out);
    assert!(group.well(member));
    assert_eq!(member.phase(group.now()), Phase::In);
    assert_eq!(group.share(member, group.now()), FIRST_SHARE);
}

#[tokio::test(start_paused = true)]
async fn addresses_of_a_name_become_members_and_those_that_stay_keep_their_state() {
    let group = group(3);
    let address = |last| SocketAddr::from(([10, 0, 0, last], 80));
    let places = || -> Vec<(usize, Option<SocketAddr>)> {
        group.members().iter().map(|member| (member.place, member.address)).collect()
    };
    group.take_addresses(1, &[address(1), address(2)]);
    let expected = [(0, None), (1, Some(address(1))), (1, Some(address(2))), (2, None)];
    assert_eq!((places(), group.version()), (expected.to_vec(), 1));
    let kept = group.members()[2].clone();
    group.take_addresses(1, &[address(1), address(2)]);
    group.take_addresses(1, &[]);
    assert_eq!(group.version(), 1, "nothing has changed");
    group.take_addresses(1, &[address(2), address(3)]);
    let expected = [(0, None), (1, Some(address(2))), (1, Some(address(3))), (2, None)];
    assert_eq!((places(), group.version()), (expected.to_vec(), 2));
    assert!(Arc::ptr_eq(&kept, &group.members()[1]));
}

#[test]
fn equal_settings_share_their_state_and_unused_ones_are_forgotten() {
    let groups = Groups::default();
    let (one, other) = (group(1).settings.clone(), group(2).settings.clone());
    let held = groups.of(&one);
    assert!(Arc::ptr_eq(&held, &groups.of(&Arc::new((*one).clone()))));
    drop(groups.of(&other));
    let mut names = 0;
    groups.of(&group(3).settings.clone());
    groups.each(&mut |_, _, _| names += 1);
    assert_eq!(names, 1, "the one in use");
}
