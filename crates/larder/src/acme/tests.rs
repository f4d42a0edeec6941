//! The thread and its certificates, without a directory.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
};

use larder_server::settings::ChallengeKind;

use super::*;

/// Settings for these names, with a new directory for their files.
fn settings(test: &str, names: &[&str]) -> AcmeSettings {
    let state_dir = std::env::temp_dir().join(format!("larder-{test}-{}", std::process::id()));
    AcmeSettings {
        email: None,
        directory: "https://ca.example/dir".to_owned(),
        challenge: ChallengeKind::Http01,
        state_dir,
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        roots: Arc::new([]),
        external_account: None,
    }
}

fn certificate(name: &str) -> Certificate {
    let mut certificate = Certificate::self_signed_for(vec![name.to_owned()]).unwrap();
    certificate.source = CertificateSource::Acme;
    certificate
}

fn file(settings: &AcmeSettings, name: &str) -> PathBuf {
    settings.state_dir.join("ca.example-dir").join(name)
}

#[test]
fn a_file_that_cannot_be_read_replaces_no_certificate_in_use() {
    let settings = settings("unreadable", &["a.example", "b.example"]);
    Store::new(&settings).prepare().unwrap();
    std::fs::write(file(&settings, "a.example.pem"), "damaged").unwrap();
    let in_use = [Arc::new(certificate("a.example"))];
    let (found, faults) = ordered(&settings, &[], &in_use);
    let [kept, made] = &found[..] else { panic!("{found:?}") };
    assert!(Arc::ptr_eq(kept, &in_use[0]));
    assert!(made.rank("b.example").is_some() && made.rank("a.example").is_none());
    assert!(faults.len() == 1 && faults[0].contains("a.example.pem"), "{faults:?}");
    // A name without a file was never ordered here: its certificate is of another directory.
    std::fs::remove_file(file(&settings, "a.example.pem")).unwrap();
    let (found, _) = ordered(&settings, &[], &in_use);
    assert!(found.iter().all(|one| one.source == CertificateSource::SelfSigned), "{found:?}");
    std::fs::remove_dir_all(&settings.state_dir).unwrap();
}

#[test]
fn a_certificate_that_cannot_be_written_waits_in_memory() {
    let settings = settings("unwritten", &["a.example"]);
    let (acme, renewed) = (Arc::new(Acme::default()), Notify::new());
    let mut round = Round::new(Arc::new(settings.clone()), &acme, &renewed);
    let (chain, key) = ("chain".to_owned(), "key".to_owned());
    round.keep("a.example", Ordered { chain, key, certificate: certificate("a.example") });
    let state = acme.state("a.example");
    assert_eq!((state.orders, state.failures), (0, 1), "its directory is not there");
    let held = round.names.get_mut("a.example").unwrap();
    assert!(held.plan.order_at() > seconds());
    let ordered = held.unsaved.take().unwrap();
    round.store.prepare().unwrap();
    round.keep("a.example", ordered);
    assert_eq!(acme.state("a.example").orders, 1);
    assert_eq!(std::fs::read(file(&settings, "a.example.pem")).unwrap(), b"chain\nkey");
    std::fs::remove_dir_all(&settings.state_dir).unwrap();
}

#[test]
fn a_second_account_may_be_forgotten_too() {
    let settings = settings("forgotten", &["a.example"]);
    let (acme, renewed) = (Arc::new(Acme::default()), Notify::new());
    let mut round = Round::new(Arc::new(settings.clone()), &acme, &renewed);
    round.store.prepare().unwrap();
    round.forgot = true;
    let (chain, key) = ("chain".to_owned(), "key".to_owned());
    round.keep("a.example", Ordered { chain, key, certificate: certificate("a.example") });
    assert!(!round.forgot);
    std::fs::remove_dir_all(&settings.state_dir).unwrap();
}

#[test]
fn a_panic_does_not_end_the_thread() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let (sender, mut changes) = watch::channel(None);
    let runs = AtomicU32::new(0);
    keep_running(&runtime, &mut changes, async |changes| {
        tokio::task::yield_now().await;
        changes.borrow_and_update();
        if runs.fetch_add(1, Ordering::Relaxed) == 0 {
            // A reload begins anew at once.
            sender.send_replace(None);
            panic!("an answer of the directory that nobody expected");
        }
    });
    assert_eq!(runs.into_inner(), 2);
}
