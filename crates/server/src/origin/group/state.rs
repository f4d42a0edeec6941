//! The state of an origin's servers, shared by all workers: who answers, and how busy they are.
//!
//! A member is *in*, or *out* after failures in a row. When its pause is over, one request that
//! can be sent elsewhere is tried on it; an answer brings it back, with a share that grows to its
//! weight. A member that its health checks find unwell is out until a check succeeds. The last one
//! that is in is never taken out for failures; where all are out, all are tried.
//!
//! The numbers are written for requests to origins only, never for a page from memory.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicU32, AtomicU64, AtomicUsize,
            Ordering::{AcqRel, Acquire, Relaxed, Release},
        },
    },
};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{clock::instant, settings::OriginGroup};

/// The share of a member of weight 1.
pub(super) const SHARE: u64 = 256;
/// The least share of a member that comes back: a tenth of its weight.
const FIRST_SHARE: u64 = SHARE / 10;
/// Milliseconds between two lines that say that a member fails.
const TELL_AGAIN: u64 = 10_000;
/// Checks in a row that fail before a member is unwell: one may be lost on its way.
const FAILED_CHECKS: u32 = 2;
/// How often the pause of a member doubles: to 64 times `failure_pause`, and no longer than
/// [`LONGEST_PAUSE`].
const DOUBLINGS: u32 = 6;
/// The longest pause of a member, in milliseconds, unless the settings have a longer one.
const LONGEST_PAUSE: u64 = 60_000;

/// The origins of the settings, each with its state. Locked when settings are taken and when
/// figures are read, not for a request.
#[derive(Debug, Default)]
pub struct Groups(Mutex<Vec<Arc<GroupState>>>);

impl Groups {
    /// The state of an origin; equal settings share it. States that no worker uses are forgotten.
    pub(crate) fn of(&self, settings: &Arc<OriginGroup>) -> Arc<GroupState> {
        let mut groups = self.0.lock();
        if let Some(known) = groups.iter().find(|group| group.settings == *settings) {
            return known.clone();
        }
        groups.retain(|group| Arc::strong_count(group) > 1);
        groups.push(GroupState::new(settings.clone()));
        groups[groups.len() - 1].clone()
    }

    /// Calls `f` with the name of each member and its state.
    pub(crate) fn each(&self, f: &mut dyn FnMut(&str, &MemberState, &OriginGroup)) {
        for group in self.0.lock().iter() {
            for member in group.members().iter() {
                let name = group.settings.members[member.place].origin.name();
                f(&name, member, &group.settings);
            }
        }
    }
}

/// One origin, as all workers see it.
#[derive(Debug)]
pub(crate) struct GroupState {
    pub(crate) settings: Arc<OriginGroup>,
    started: Instant,
    members: Mutex<Arc<[Arc<MemberState>]>>,
    /// Counts the changes of `members`.
    version: AtomicU64,
    /// Taking out is done by one at a time, so that one always stays.
    taking_out: Mutex<()>,
}

/// One server. Each has a cache line of its own.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct MemberState {
    /// Its place in the settings.
    pub(super) place: usize,
    /// Its address; None: that of its name, looked up for each connection.
    pub(super) address: Option<SocketAddr>,
    /// See [`super::choose::Candidate`].
    pub(super) identity: u64,
    under_way: AtomicUsize,
    /// In a row.
    failures: AtomicU32,
    /// Milliseconds at which it may be tried again; 0: it is in.
    out_until: AtomicU64,
    /// Pauses in a row.
    pauses: AtomicU32,
    /// Milliseconds at which it came back; 0: it was never away.
    returned: AtomicU64,
    /// In a row.
    failed_checks: AtomicU32,
    /// Its health checks say so.
    unwell: AtomicBool,
    /// A line said that it fails.
    told: AtomicBool,
    /// Milliseconds at which that line was printed; 0: never.
    told_at: AtomicU64,
}

/// Whether a member may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It may.
    In,
    /// It may be tried once: its pause is over. The number is the end of the pause.
    Due(u64),
    /// It may not.
    Out,
}

impl GroupState {
    fn new(settings: Arc<OriginGroup>) -> Arc<GroupState> {
        let names = settings.members.iter().map(|member| member.origin.name()).enumerate();
        let members = names.map(|(place, name)| MemberState::new(place, None, &name)).collect();
        Arc::new(GroupState {
            settings,
            started: instant(),
            members: Mutex::new(members),
            version: AtomicU64::new(0),
            taking_out: Mutex::new(()),
        })
    }

    /// Changes when [`GroupState::members`] does.
    pub(super) fn version(&self) -> u64 {
        self.version.load(Acquire)
    }

    /// These are the addresses of a name now; none: it has the addresses that it had. Those known
    /// before keep their state.
    pub(super) fn take_addresses(&self, place: usize, addresses: &[SocketAddr]) {
        let mut members = self.members.lock();
        let before = || members.iter().filter(|member| member.place == place);
        let same = before().map(|member| member.address).eq(addresses.iter().copied().map(Some));
        if addresses.is_empty() || same {
            return;
        }
        let name = self.settings.members[place].origin.name();
        let of_name = addresses.iter().map(|address| {
            let known = before().find(|member| member.address == Some(*address)).cloned();
            known.unwrap_or_else(|| MemberState::new(place, Some(*address), &name))
        });
        let others = |order: fn(&usize, &usize) -> bool| {
            members.iter().filter(move |member| order(&member.place, &place)).cloned()
        };
        let all = others(usize::lt).chain(of_name).chain(others(usize::gt)).collect();
        *members = all;
        self.version.fetch_add(1, Release);
    }

    /// A check of a member succeeded. Returns whether it was unwell.
    pub(super) fn well(&self, member: &MemberState) -> bool {
        member.failed_checks.store(0, Relaxed);
        let was = member.unwell.load(Relaxed);
        if was {
            member.returned.store(self.now(), Relaxed);
            member.unwell.store(false, Release);
        }
        was
    }

    /// A check of a member failed. Returns whether it is unwell from now on.
    pub(super) fn unwell(&self, member: &MemberState) -> bool {
        let failed = member.failed_checks.fetch_add(1, Relaxed).saturating_add(1);
        failed >= FAILED_CHECKS && !member.unwell.swap(true, Release)
    }

    /// Its members at the moment.
    pub(super) fn members(&self) -> Arc<[Arc<MemberState>]> {
        self.members.lock().clone()
    }

    /// Milliseconds since a moment before all requests; never 0.
    pub(super) fn now(&self) -> u64 {
        (instant() - self.started).as_millis() as u64 + 1
    }

    /// A request to this member begins; None: as many as allowed are under way.
    pub(super) fn begin(
        self: &Arc<Self>,
        member: &Arc<MemberState>,
        trial: bool,
    ) -> Option<Ticket> {
        let before = member.under_way.fetch_add(1, Relaxed);
        let ticket = Ticket { group: self.clone(), member: member.clone(), trial };
        let full = self.settings.max_requests.is_some_and(|most| before >= most);
        (!full).then_some(ticket)
    }

    fn succeeded(&self, member: &MemberState, trial: bool) {
        // Read first: the line is not written for each answer.
        if member.failures.load(Relaxed) != 0 {
            member.failures.store(0, Relaxed);
            if member.told.swap(false, Relaxed) {
                eprintln!("larder: {}: the origin answers again", self.name_of(member));
            }
        }
        if trial && member.out_until.load(Acquire) != 0 {
            // On probation: the next failure takes it out again, the next answer ends that.
            member.bring_back(self.now(), self.settings.max_failures - 1);
        }
    }

    fn failed(&self, member: &MemberState, trial: bool) {
        let failures = member.failures.fetch_add(1, Relaxed).saturating_add(1);
        if failures >= self.settings.max_failures {
            self.tell(member, failures);
        }
        let out = member.out_until.load(Acquire) != 0;
        if out && trial {
            member.pauses.fetch_add(1, Relaxed);
            member.out_until.store(self.now() + self.pause(member), Release);
        } else if !out && failures >= self.settings.max_failures {
            self.take_out(member);
        }
    }

    /// Prints that a member fails, once until it answers again, and not more often than
    /// [`TELL_AGAIN`].
    fn tell(&self, member: &MemberState, failures: u32) {
        if member.told.load(Relaxed) {
            return;
        }
        let (now, last) = (self.now(), member.told_at.load(Relaxed));
        let due = last == 0 || now.saturating_sub(last) >= TELL_AGAIN;
        let mine = || member.told_at.compare_exchange(last, now, Relaxed, Relaxed).is_ok();
        if due && mine() {
            member.told.store(true, Relaxed);
            let name = self.name_of(member);
            eprintln!("larder: {name}: the origin fails, {failures} requests in a row");
        }
    }

    fn name_of(&self, member: &MemberState) -> String {
        self.settings.members[member.place].origin.name()
    }

    fn take_out(&self, member: &MemberState) {
        let _one_at_a_time = self.taking_out.lock();
        let others = self.members();
        let others = others.iter().filter(|other| !std::ptr::eq(&***other, member));
        if others.into_iter().any(|other| other.is_in()) {
            member.out_until.store(self.now() + self.pause(member), Release);
        }
    }

    /// Milliseconds for which a member gets no requests.
    fn pause(&self, member: &MemberState) -> u64 {
        let first = self.settings.failure_pause.as_millis() as u64;
        let doublings = member.pauses.load(Relaxed).min(DOUBLINGS);
        (first << doublings).min(LONGEST_PAUSE.max(first)).max(1)
    }

    /// Whether a request may be tried on a member that is due: one at a time.
    pub(super) fn try_again(&self, member: &MemberState, due: u64) -> bool {
        let next = self.now() + self.pause(member);
        member.out_until.compare_exchange(due, next, AcqRel, Relaxed).is_ok()
    }

    /// The share of a member among the others: less than its weight when it has just come back.
    pub(super) fn share(&self, member: &MemberState, now: u64) -> u64 {
        let weight = u64::from(self.settings.members[member.place].weight);
        let returned = member.returned.load(Relaxed);
        if returned == 0 {
            return weight * SHARE;
        }
        let all = self.settings.slow_start.as_millis() as u64;
        let grown = (now.saturating_sub(returned) * SHARE).checked_div(all).unwrap_or(SHARE);
        (weight * grown.clamp(FIRST_SHARE, SHARE)).max(1)
    }
}

impl MemberState {
    fn new(place: usize, address: Option<SocketAddr>, name: &str) -> Arc<MemberState> {
        let name = match address {
            Some(address) => format!("{name} {address}"),
            None => name.to_owned(),
        };
        Arc::new(MemberState {
            place,
            address,
            identity: rapidhash::v3::rapidhash_v3(name.as_bytes()),
            under_way: AtomicUsize::new(0),
            failures: AtomicU32::new(0),
            out_until: AtomicU64::new(0),
            pauses: AtomicU32::new(0),
            returned: AtomicU64::new(0),
            failed_checks: AtomicU32::new(0),
            unwell: AtomicBool::new(false),
            told: AtomicBool::new(false),
            told_at: AtomicU64::new(0),
        })
    }

    /// Requests under way, over all workers.
    pub(crate) fn under_way(&self) -> u64 {
        self.under_way.load(Relaxed) as u64
    }

    /// It gets requests, and has not failed as often as a member may.
    pub(crate) fn is_healthy(&self, settings: &OriginGroup) -> bool {
        self.is_in() && self.failures.load(Relaxed) < settings.max_failures
    }

    fn is_in(&self) -> bool {
        self.out_until.load(Acquire) == 0 && !self.unwell.load(Relaxed)
    }

    pub(super) fn phase(&self, now: u64) -> Phase {
        match self.out_until.load(Acquire) {
            _ if self.unwell.load(Relaxed) => Phase::Out,
            0 => Phase::In,
            until if until <= now => Phase::Due(until),
            _ => Phase::Out,
        }
    }

    fn bring_back(&self, now: u64, failures: u32) {
        self.returned.store(now, Relaxed);
        self.pauses.store(0, Relaxed);
        self.failures.store(failures, Relaxed);
        self.out_until.store(0, Release);
    }
}

/// A request under way at a member: until its answer is complete, or given up.
#[derive(Debug)]
pub(crate) struct Ticket {
    group: Arc<GroupState>,
    member: Arc<MemberState>,
    /// The member is out, and is tried.
    trial: bool,
}

impl Ticket {
    /// The member has answered.
    pub(crate) fn succeeded(self) {
        self.group.succeeded(&self.member, self.trial);
    }

    /// The member has failed.
    pub(crate) fn failed(self) {
        self.group.failed(&self.member, self.trial);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.member.under_way.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
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
            assert!(group.try_again(&members[0], due));
            assert!(!group.try_again(&members[0], due), "one at a time");
            group.begin(&members[0], true).expect("no limit").failed();
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
        assert_eq!(members[0].phase(group.now()), Phase::Out);
        begin(true).succeeded();
        begin(false).succeeded();
        fail(&group, 0, 2);
        assert_eq!(members[0].phase(group.now()), Phase::In, "an answer ended the probation");
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
        assert_eq!(names, 4, "the one in use and the newest");
    }
}
