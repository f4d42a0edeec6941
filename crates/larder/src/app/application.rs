//! One application: its slots, reloads, ages.
//!
//! New processes get a listening socket of their own, at a name beside the first. When the first of
//! them answers there, the socket takes the place of the old one (rename), and connections come to
//! the new processes from then on; one after the other, an old one ends and a new one is started.
//! If it does not answer, everything stays as it was. A TCP port has one socket for old and new
//! processes: there the first new one counts when it has run for a moment.

use std::{
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use larder_server::{
    app::Apps,
    settings::{AppSettings, AppUse},
};
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::{
    Order,
    guard::Guard,
    output::Output,
    ready::ready,
    slot::{Common, Slot},
    socket::Listening,
};

/// Between two looks at connections that wait for old processes.
const LOOK: Duration = Duration::from_millis(10);

/// Between two looks at the number of requests.
const LOOK_AT_USE: Duration = Duration::from_millis(100);

/// Between two looks for the file of the socket.
const LOOK_FOR_FILE: Duration = Duration::from_secs(1);

/// The longest wait for these: each is taken within the time of a request or two.
const WAITING: Duration = Duration::from_secs(10);

/// Longer than any wait.
const FOREVER: Duration = Duration::from_secs(365 * 86_400);

/// An application and its processes.
pub(super) struct Application {
    settings: Arc<AppSettings>,
    listening: Listening,
    common: Rc<Common>,
    /// The oldest first.
    slots: Vec<Slot>,
    /// Slots that were told to stop.
    leaving: Vec<JoinHandle<()>>,
    /// Connections are refused: no process runs for longer than a moment.
    refusing: bool,
    /// Requests to it when a process was replaced last.
    counted: u64,
}

/// The next step of an application.
enum Next {
    Order(Option<Order>),
    /// The oldest process is to be replaced: of its age, or after so many requests.
    Aged,
    /// Slots began or ceased to loop.
    Changed,
    /// The file of the socket was removed.
    Unreachable,
}

impl Application {
    pub(super) fn new(
        settings: Arc<AppSettings>,
        listening: Listening,
        state: Arc<Apps>,
        guard: Rc<Guard>,
    ) -> Application {
        let common = Rc::new(Common {
            name: settings.name.clone(),
            output: Output::new(&settings.name, state.clone()),
            state,
            guard,
            looping: Default::default(),
            changed: Default::default(),
        });
        let (slots, leaving) = (Vec::new(), Vec::new());
        let application = Application {
            settings,
            listening,
            common,
            slots,
            leaving,
            refusing: false,
            counted: 0,
        };
        application.count_by(&application.settings.usage);
        application
    }

    /// The workers have new settings, whether its processes have them or not.
    fn count_by(&self, usage: &Arc<AppUse>) {
        self.common.state.note(&self.common.name, |state| state.count_by(usage));
    }

    fn requests(&self) -> u64 {
        self.common.state.requests(&self.common.name)
    }

    /// Runs it until it is stopped.
    pub(super) async fn run(mut self, mut orders: mpsc::Receiver<Order>) {
        let mut pending = None;
        self.bring_up(&mut orders, &mut pending).await;
        loop {
            let next = match pending.take() {
                Some(order) => Next::Order(order),
                None => self.next(&mut orders).await,
            };
            let settings = match next {
                Next::Order(Some(Order::Replace(settings))) => settings,
                Next::Order(Some(Order::Stop) | None) => break,
                Next::Changed => {
                    self.refuse();
                    continue;
                }
                Next::Unreachable => {
                    eprintln!("larder: app {}: its socket was removed", self.common.name);
                    self.settings.clone()
                }
                Next::Aged => {
                    self.counted = self.requests();
                    tokio::select! {
                        () = self.renew_oldest() => {}
                        order = orders.recv() => pending = Some(order),
                    }
                    continue;
                }
            };
            self.count_by(&settings.usage);
            // The next order interrupts this one: slots that began are old ones then.
            tokio::select! {
                () = self.replace(settings) => {}
                order = orders.recv() => pending = Some(order),
            }
        }
        for slot in std::mem::take(&mut self.slots) {
            self.leaving.push(slot.stop());
        }
        for task in self.leaving.drain(..) {
            let _ = task.await;
        }
    }

    async fn next(&mut self, orders: &mut mpsc::Receiver<Order>) -> Next {
        self.leaving.retain(|task| !task.is_finished());
        let oldest = self.slots.iter().map(|slot| slot.began).min();
        let due = oldest.zip(self.settings.max_age).map(|(began, age)| began + age);
        let aged = async {
            match due {
                Some(due) => sleep(due.saturating_duration_since(Instant::now())).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            order = orders.recv() => Next::Order(order),
            () = aged => Next::Aged,
            () = self.used_up() => Next::Aged,
            () = self.unreachable() => Next::Unreachable,
            () = self.common.changed.notified() => Next::Changed,
        }
    }

    /// Returns when the application has had its `max_requests` since a process was replaced.
    async fn used_up(&self) {
        let Some(limit) = self.settings.max_requests else { return std::future::pending().await };
        while self.requests().saturating_sub(self.counted) < limit {
            sleep(LOOK_AT_USE).await;
        }
    }

    /// Returns when the file of the socket is gone. While connections are refused it is elsewhere.
    async fn unreachable(&self) {
        loop {
            sleep(LOOK_FOR_FILE).await;
            if !self.refusing && self.listening.is_gone() {
                return;
            }
        }
    }

    /// Starts the first processes, until they answer.
    async fn bring_up(
        &mut self,
        orders: &mut mpsc::Receiver<Order>,
        pending: &mut Option<Option<Order>>,
    ) {
        self.common.state.note(&self.common.name, |state| state.wanted = self.settings.processes);
        loop {
            for _ in 0..self.settings.processes {
                self.slots.push(Slot::start(&self.common, &self.settings, &self.listening.socket));
            }
            let late = loop {
                let place = self.listening.address.clone();
                let settings = self.settings.clone();
                // Processes that end again and again have their own waits.
                let limit = if self.refusing { FOREVER } else { settings.start_timeout };
                tokio::select! {
                    answered = timeout(limit, ready(&settings, &place)) => break answered.is_err(),
                    order = orders.recv() => {
                        *pending = Some(order);
                        return;
                    }
                    // Its processes end: the time begins when they run.
                    () = self.common.changed.notified() => self.refuse(),
                }
            };
            if !late {
                return;
            }
            self.fail("does not answer");
            let slots = std::mem::take(&mut self.slots);
            let ends: Vec<_> = slots.into_iter().map(Slot::stop).collect();
            for end in ends {
                let _ = end.await;
            }
        }
    }

    fn fail(&self, reason: &str) {
        let (name, limit) = (&self.common.name, self.settings.start_timeout);
        eprintln!("larder: app {name}: {reason} within {} s", limit.as_secs());
        self.common.state.note(name, |state| state.failures += 1);
    }

    /// Refuses connections while all processes end again and again: who asks is told at once.
    fn refuse(&mut self) {
        let looping = self.common.looping.get();
        let refuse = looping > 0 && looping >= self.slots.len();
        if refuse != std::mem::replace(&mut self.refusing, refuse) {
            self.listening.refuse(refuse);
        }
    }

    /// Replaces all processes by ones with these settings.
    async fn replace(&mut self, settings: Arc<AppSettings>) {
        let name = self.common.name.clone();
        let next = match self.listening.next() {
            Ok(next) => next,
            Err(error) => {
                eprintln!("larder: app {name}: not reloaded: {error}");
                return;
            }
        };
        let used = next.as_ref().unwrap_or(&self.listening);
        let first = Slot::start(&self.common, &settings, &used.socket);
        let place = used.address.clone();
        let limit = settings.start_timeout;
        let answers = async {
            first.settle().await;
            tokio::select! {
                () = ready(&settings, &place) => first.is_good(),
                () = ended(&first) => false,
            }
        };
        if !timeout(limit, answers).await.unwrap_or(false) {
            eprintln!("larder: app {name}: new processes do not answer; the old ones stay");
            self.common.state.note(&name, |state| state.failures += 1);
            self.leaving.push(first.stop());
            return;
        }
        let mut before = None;
        if let Some(mut next) = next {
            if self.refusing {
                self.listening.refuse(false);
                self.refusing = false;
            }
            if let Err(error) = next.replace(&mut self.listening) {
                eprintln!("larder: app {name}: not reloaded: {error}");
                self.leaving.push(first.stop());
                return;
            }
            before = Some(std::mem::replace(&mut self.listening, next));
        }
        self.settings = settings;
        let wanted = self.settings.processes;
        self.common.state.note(&name, |state| state.wanted = wanted);
        let old = self.slots.len();
        self.slots.push(first);
        for number in 0..old.max(wanted) {
            if number < old {
                // The last one takes what waits at the old socket.
                if number + 1 == old
                    && let Some(before) = &before
                {
                    drained(before).await;
                }
                self.retire_oldest().await;
            }
            if number + 1 < wanted {
                let slot = Slot::start(&self.common, &self.settings, &self.listening.socket);
                self.slots.push(slot);
                self.last_settles().await;
            }
        }
        eprintln!("larder: app {name}: {wanted} new processes");
    }

    /// Starts a process, then ends the oldest.
    async fn renew_oldest(&mut self) {
        self.slots.push(Slot::start(&self.common, &self.settings, &self.listening.socket));
        if self.last_settles().await {
            return self.retire_oldest().await;
        }
        eprintln!("larder: app {}: a new process does not run; the old stays", self.common.name);
        self.leaving.extend(self.slots.pop().map(Slot::stop));
        // The next try is as far away as if it had been replaced.
        if let Some(oldest) = self.slots.first_mut() {
            oldest.began = Instant::now();
        }
    }

    /// Whether the newest process runs for a moment.
    async fn last_settles(&self) -> bool {
        match self.slots.last() {
            Some(slot) => slot.settle().await,
            None => false,
        }
    }

    async fn retire_oldest(&mut self) {
        if self.slots.is_empty() {
            return;
        }
        self.common.state.note(&self.common.name, |state| state.replaced += 1);
        self.leaving.push(self.slots.remove(0).stop());
        if let Some(task) = self.leaving.last_mut() {
            let _ = task.await;
        }
        self.leaving.pop();
    }
}

/// Returns when a process of the slot has ended.
async fn ended(slot: &Slot) {
    while slot.is_good() {
        sleep(LOOK).await;
    }
}

/// Returns when the connections that waited at a socket have been accepted.
async fn drained(before: &Listening) {
    let _ = timeout(WAITING, async {
        while before.has_waiting() {
            sleep(LOOK).await;
        }
    })
    .await;
}
