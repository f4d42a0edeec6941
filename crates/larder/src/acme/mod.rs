//! Certificates by ACME (RFC 8555): ordered, renewed and kept without the operator.
//!
//! | file | |
//! |---|---|
//! | `mod.rs` | the thread: which name is due, what becomes of its order |
//! | `order.rs` | one order with its directory |
//! | `schedule.rs` | when a name is due; no clock, no I/O |
//! | `store.rs` | the files of `state_dir` |
//! | `http.rs` | requests to the directory |
//!
//! The thread orders the certificate of one name after the other. A new one is written to
//! `state_dir`, then the main thread hands all of them to the workers. Nothing waits for the
//! thread: whatever fails, the certificates in use stay.

mod http;
mod order;
mod schedule;
mod store;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, SystemTime},
};

use instant_acme::Account;
use larder_server::{
    acme::Acme,
    settings::{AcmeSettings, Certificate, CertificateSource},
};
use tokio::{
    runtime::{Builder, Runtime},
    sync::{Notify, watch},
    time::timeout,
};

pub(crate) use self::store::Store;
use self::{
    order::{Failure, Ordered},
    schedule::{Plan, Renewal},
};

/// The longest wait without a look at the clock, which may jump.
const LOOK: Duration = Duration::from_secs(600);

/// The wait after a panic of the thread.
const RESTART: Duration = Duration::from_secs(3_600);

/// The certificates of the names, and reasons why one cannot be used. The names that have none,
/// neither here nor among `held`, share a self-signed one. A name whose file cannot be read keeps
/// its certificate of `in_use`.
pub(crate) fn ordered(
    settings: &AcmeSettings,
    held: &[Arc<Certificate>],
    in_use: &[Arc<Certificate>],
) -> (Vec<Arc<Certificate>>, Vec<String>) {
    let store = Store::new(settings);
    let (mut found, mut faults, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    for name in &settings.names {
        match store.certificate(name) {
            Ok(Some(certificate)) => {
                found.push(Arc::new(certificate));
                continue;
            }
            Ok(None) => {}
            Err(fault) => {
                faults.push(fault);
                let kept = in_use.iter().find(|certificate| {
                    certificate.source == CertificateSource::Acme
                        && certificate.rank(name).is_some()
                });
                if let Some(kept) = kept {
                    found.push(kept.clone());
                    continue;
                }
            }
        }
        if !held.iter().any(|certificate| certificate.rank(name).is_some()) {
            missing.push(name.clone());
        }
    }
    if !missing.is_empty() || (found.is_empty() && held.is_empty()) {
        let names = if missing.is_empty() { settings.names.clone() } else { missing };
        match Certificate::self_signed_for(names) {
            Ok(certificate) => found.push(Arc::new(certificate)),
            Err(error) => faults.push(error.to_string()),
        }
    }
    (found, faults)
}

/// The thread that orders. It ends with the program.
pub(crate) struct Orders {
    settings: watch::Sender<Option<Arc<AcmeSettings>>>,
}

impl Orders {
    /// Starts the thread. `renewed` is told of each new certificate.
    pub(crate) fn start(
        settings: Option<Arc<AcmeSettings>>,
        acme: Arc<Acme>,
        renewed: Arc<Notify>,
    ) -> std::io::Result<Orders> {
        let (settings, mut changes) = watch::channel(settings);
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("larder-acme".to_owned());
        thread.spawn(move || {
            keep_running(&runtime, &mut changes, async |changes| {
                run(changes, &acme, &renewed).await;
            })
        })?;
        Ok(Orders { settings })
    }

    /// Uses these settings from the next order on. Names whose order failed are tried again at
    /// once.
    pub(crate) fn reload(&self, settings: Option<Arc<AcmeSettings>>) {
        self.settings.send_replace(settings);
    }
}

/// The settings of the thread, as the main thread changes them.
type Changes = watch::Receiver<Option<Arc<AcmeSettings>>>;

/// Runs `work` until it returns. After a panic, whose message is printed, it begins anew: an hour
/// later, or at the next reload.
fn keep_running(runtime: &Runtime, changes: &mut Changes, work: impl AsyncFn(&mut Changes)) {
    loop {
        let round = AssertUnwindSafe(|| runtime.block_on(work(changes)));
        if catch_unwind(round).is_ok() {
            return;
        }
        eprintln!("larder: the thread of certificates failed; next try in an hour");
        let waited = async { timeout(RESTART, changes.changed()).await };
        if let Ok(Err(_)) = runtime.block_on(waited) {
            return;
        }
    }
}

/// Returns when the main thread is gone.
async fn run(changes: &mut Changes, acme: &Arc<Acme>, renewed: &Notify) -> Option<()> {
    loop {
        let settings = changes.borrow_and_update().clone();
        acme.retain(settings.as_ref().map_or(&[], |settings| &settings.names));
        let Some(settings) = settings else {
            changes.changed().await.ok()?;
            continue;
        };
        let mut round = Round::new(settings, acme, renewed);
        loop {
            let wait = round.step().await;
            if let Ok(changed) = timeout(wait, changes.changed()).await {
                changed.ok()?;
                break;
            }
        }
    }
}

/// The work under one configuration.
struct Round<'a> {
    settings: Arc<AcmeSettings>,
    store: Store,
    acme: &'a Arc<Acme>,
    renewed: &'a Notify,
    names: BTreeMap<String, Name>,
    account: Option<Account>,
    /// An account that the directory does not know was put aside, and no order succeeded since.
    forgot: bool,
    /// The kind of the failure of all names that was told last.
    told: Option<String>,
}

/// One name.
struct Name {
    plan: Plan,
    certificate: Option<Certificate>,
    /// A newer one that could not be written.
    unsaved: Option<Ordered>,
    /// The kind of its failure that was told last.
    told: Option<String>,
}

impl<'a> Round<'a> {
    fn new(settings: Arc<AcmeSettings>, acme: &'a Arc<Acme>, renewed: &'a Notify) -> Self {
        let store = Store::new(&settings);
        let mut names = BTreeMap::new();
        for name in &settings.names {
            // A damaged file was told when the configuration was read.
            let certificate = store.certificate(name).ok().flatten();
            let plan = match &certificate {
                Some(certificate) => Plan::of(&renewal(certificate), seconds()),
                None => Plan::at_once(),
            };
            acme.note(name, |state| {
                state.renew_at = certificate.is_some().then_some(plan.renew_at)
            });
            names.insert(name.clone(), Name { plan, certificate, unsaved: None, told: None });
        }
        Round { settings, store, acme, renewed, names, account: None, forgot: false, told: None }
    }

    /// Does what is due first. Returns the time until something is due.
    async fn step(&mut self) -> Duration {
        let now = seconds();
        self.names.values_mut().for_each(|held| held.plan.shorten(now));
        let first = self.names.iter().min_by_key(|(_, name)| name.plan.next());
        let Some((name, next)) = first.map(|(name, held)| (name.clone(), held.plan.next())) else {
            return LOOK;
        };
        if next > now {
            return Duration::from_secs(next.abs_diff(now)).min(LOOK);
        }
        // An account is read anew for each batch: a directory may move its resources.
        let account = match self.account.take() {
            Some(account) => account,
            None => match self.open().await {
                Ok(account) => account,
                Err(failure) => {
                    self.fail_all(&failure, now);
                    return Duration::ZERO;
                }
            },
        };
        let known = self.look(&account, &name).await;
        let more = self.names.values().any(|held| held.plan.next() <= now);
        self.account = (known && more).then_some(account);
        Duration::ZERO
    }

    /// Opens the account. The directories are made first: what cannot be kept is not ordered.
    async fn open(&mut self) -> Result<Account, Failure> {
        self.store.prepare().map_err(Failure::Files)?;
        let account = order::account(&self.settings, &self.store).await?;
        self.told = None;
        Ok(account)
    }

    /// Asks when to renew, and orders if it is due. False: the account is not to be used again.
    async fn look(&mut self, account: &Account, name: &str) -> bool {
        let Some(held) = self.names.get_mut(name) else { return true };
        let now = seconds();
        if let Some(certificate) = &held.certificate
            && held.plan.look_at <= now
        {
            let advice = order::advice(account, certificate).await;
            held.plan.advise(&renewal(certificate), advice.as_ref(), seconds());
            self.acme.note(name, |state| state.renew_at = Some(held.plan.renew_at));
            self.store.save_renewal(name, held.plan.renew_at);
        }
        if held.plan.order_at() > seconds() {
            return true;
        }
        let (settings, replaced) = (&self.settings, held.certificate.as_ref());
        let ordered = match held.unsaved.take() {
            Some(ordered) => Ok(ordered),
            None => order::order(account, settings, name, replaced, self.acme).await,
        };
        match ordered {
            Ok(ordered) => self.keep(name, ordered),
            Err(failure) if failure.is_of_account() && !self.forgot => {
                self.forgot = true;
                self.store.forget_account();
                return false;
            }
            Err(failure) => self.fail(name, &failure),
        }
        true
    }

    /// Keeps a certificate, and has it used. One that cannot be written is kept in memory for the
    /// next try: directories limit how often they issue one.
    fn keep(&mut self, name: &str, ordered: Ordered) {
        self.forgot = false;
        if let Err(reason) = self.store.save(name, &ordered) {
            if let Some(held) = self.names.get_mut(name) {
                held.unsaved = Some(ordered);
            }
            return self.fail(name, &Failure::Files(reason));
        }
        let renewal = renewal(&ordered.certificate);
        let now = seconds();
        let plan = Plan::fresh(&renewal, now);
        let (days, renew_at) = ((renewal.not_after - now) / 86_400, plan.renew_at);
        let soon = renew_at <= now;
        let before = self.names.remove(name).filter(|_| soon);
        let plan = before.as_ref().map_or(plan, |held| plan.after(&held.plan));
        let told = before.and_then(|held| held.told);
        let certificate = Some(ordered.certificate);
        self.names.insert(name.to_owned(), Name { plan, certificate, unsaved: None, told });
        self.acme.note(name, |state| {
            state.orders += 1;
            (state.renew_at, state.reason) = (Some(renew_at), None);
        });
        self.store.save_renewal(name, renew_at);
        eprintln!("larder: new certificate for {name}, for {days} days");
        self.renewed.notify_one();
        if soon {
            self.fail(name, &Failure::AlreadyDue);
        }
    }

    /// The directory or the account cannot be used: all names that are due wait.
    fn fail_all(&mut self, failure: &Failure, now: i64) {
        let due: Vec<String> = self
            .names
            .iter()
            .filter(|(_, held)| held.plan.next() <= now)
            .map(|(name, _)| name.clone())
            .collect();
        let waits: Vec<i64> = due.iter().filter_map(|name| self.delay(name, failure)).collect();
        let Some(wait) = waits.into_iter().min() else { return };
        if self.told.as_deref() != Some(failure.kind()) {
            self.told = Some(failure.kind().to_owned());
            eprintln!("larder: no certificates: {failure}; next try {}", after(wait));
        }
    }

    /// An order failed: the name waits.
    fn fail(&mut self, name: &str, failure: &Failure) {
        let Some(wait) = self.delay(name, failure) else { return };
        let Some(held) = self.names.get_mut(name) else { return };
        if held.told.as_deref() != Some(failure.kind()) {
            held.told = Some(failure.kind().to_owned());
            eprintln!("larder: no certificate for {name}: {failure}; next try {}", after(wait));
        }
    }

    /// Counts a failure and puts the next try off. Returns by how many seconds; None: no order was
    /// due, and this is no failure.
    fn delay(&mut self, name: &str, failure: &Failure) -> Option<i64> {
        let held = self.names.get_mut(name)?;
        let now = seconds();
        if held.plan.renew_at > now {
            held.plan.look_later(now);
            return None;
        }
        held.plan.failed(name, failure.is_limit(), now);
        self.acme.note(name, |state| {
            state.failures += 1;
            state.reason = Some(failure.to_string());
        });
        self.store.save_failure(name, &failure.to_string());
        Some(held.plan.order_at() - now)
    }
}

/// The facts of a certificate from which its renewal follows.
fn renewal(certificate: &Certificate) -> Renewal {
    let own = certificate.key.cert.first();
    let seed = own.map_or(0, |own| {
        own.iter().rev().take(8).fold(0, |seed, byte| seed << 8 | u64::from(*byte))
    });
    Renewal { not_before: certificate.not_before, not_after: certificate.not_after, seed }
}

fn seconds() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// "in 2 minutes".
fn after(seconds: i64) -> String {
    match seconds {
        ..120 => format!("in {} seconds", seconds.max(0)),
        120..7_200 => format!("in {} minutes", seconds / 60),
        _ => format!("in {} hours", seconds / 3_600),
    }
}
