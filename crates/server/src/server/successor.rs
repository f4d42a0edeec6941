//! This process takes over from another one: its side. See `upgrade` for the steps.

use std::{
    io::{self, Read as _, Seek as _},
    time::Duration,
};

use larder_store::Store;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{
    Server,
    memory::GivenMemory,
    notes::Notes,
    upgrade::{PROTOCOL, file_of},
};
use crate::{
    net::{
        inherited::{Handed, Inherited},
        link::Link,
        passing::{Parcel, Passed},
    },
    settings::Settings,
    worker::Command,
};

/// Pause after a message that could not be received.
const UNREADABLE: Duration = Duration::from_millis(10);
/// Longest wait for the process before this one.
const PATIENCE: Duration = Duration::from_secs(60);

/// Says who this process is, and takes the sockets of the one before it. The second value is what
/// that one knows of the service manager. `settings`: for the path of the control socket.
///
/// # Errors
/// Why it cannot take over, for the operator.
pub fn succeed(link: Link, settings: &Settings) -> Result<(Inherited, Value), String> {
    let failed = |error: io::Error| format!("the process before this one: {error}");
    let hello = json!({
        "kind": "hello",
        "protocol": PROTOCOL,
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "control": settings.control,
    });
    link.send(&hello, &[]).map_err(failed)?;
    let mut handed: Vec<Handed> = Vec::new();
    loop {
        let (message, sockets) =
            link.receive(Some(PATIENCE)).map_err(failed)?.ok_or("it has ended")?;
        match message["kind"].as_str() {
            Some("socket") => {
                let name = message["name"].as_str().unwrap_or_default();
                match handed.last_mut().filter(|last| last.name == name) {
                    Some(last) => last.sockets.extend(sockets),
                    None => handed.push(Handed {
                        name: name.to_owned(),
                        foreign: message["foreign"].as_bool().unwrap_or(false),
                        sockets,
                    }),
                }
            }
            Some("all") => return Ok((Inherited::after(link, handed), message["manager"].clone())),
            _ => return Err("the process before this one speaks another language".to_owned()),
        }
    }
}

/// Gifts of the process before this one.
#[derive(Default)]
pub(super) struct Given {
    pub(super) memory: Option<GivenMemory>,
    pub(super) notes: Notes,
}

/// Everything is open: waits for the memory.
pub(super) fn ready(link: &Link) -> io::Result<Given> {
    link.send(&json!({"kind": "ready"}), &[])?;
    let next = || {
        let message = link.receive(Some(PATIENCE))?;
        message.ok_or_else(|| io::Error::other("the old process goes on"))
    };
    let (mut message, mut files) = next()?;
    if message["kind"].as_str() == Some("soon") {
        link.send(&json!({"kind": "listening"}), &[])?;
        (message, files) = next()?;
    }
    if message["kind"].as_str() != Some("memory") {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut notes = Notes::of_value(&message["notes"]);
    if files.len() != 2 {
        return Ok(Given { memory: None, notes });
    }
    let (mut file, memory) = (std::fs::File::from(files.remove(1)), files.remove(0));
    let mut image = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut image)?;
    if let Some(len) = message["image"].as_u64().and_then(|len| usize::try_from(len).ok()) {
        let text = image.split_off(len.min(image.len()));
        notes = Notes::of_value(&serde_json::from_slice(&text)?);
    }
    Ok(Given { memory: Some(GivenMemory { memory, image }), notes })
}

impl Server {
    /// This process serves: the one before it may leave. Its connections are taken in by a thread.
    pub(super) fn up(&mut self, link: Link) -> io::Result<()> {
        link.send(&json!({"kind": "up"}), &[])?;
        for (_, address) in &self.addresses {
            if let Some(path) = file_of(address) {
                let foreign = self.kept.iter().any(|kept| kept.foreign && kept.is_at(path));
                if !foreign {
                    self.inherited.own(path);
                }
            }
        }
        let (store, workers) = (self.store, self.commands.clone());
        let thread = std::thread::Builder::new().name("larder-before".to_owned());
        thread.spawn(move || take_in(&link, store, &workers))?;
        Ok(())
    }
}

/// Takes in what the process before this one passes, until it ends.
fn take_in(link: &Link, store: &'static Store, workers: &[mpsc::Sender<Command>]) {
    let mut next = 0;
    loop {
        let (message, mut sockets) = match link.receive(None) {
            Ok(Some(message)) => message,
            Ok(None) => break,
            // A message that cannot be read is no end: that process still uses its memory.
            Err(_) => {
                std::thread::sleep(UNREADABLE);
                continue;
            }
        };
        let command = match message["kind"].as_str() {
            Some("connection") => {
                let passed = sockets.pop().and_then(|socket| Passed::of(&message, socket));
                passed.map(Command::Adopt)
            }
            Some("keys") => list(&message["keys"]).map(|keys| Command::Purge(Parcel::Keys(keys))),
            Some("tags") => {
                let site = message["site"].as_str().unwrap_or_default().to_owned();
                list(&message["tags"]).map(|tags| Command::Purge(Parcel::Tags(site, tags)))
            }
            _ => None,
        };
        if let Some(command) = command {
            next = (next + 1) % workers.len().max(1);
            let _ = workers[next].blocking_send(command);
        }
    }
    store.predecessor_ended();
}

fn list(value: &Value) -> Option<Vec<Vec<u8>>> {
    serde_json::from_value(value.clone()).ok()
}
