//! A service without a service manager: what systemd is told, the sockets it hands over, the unit
//! files, another user than root.

#![allow(clippy::unwrap_used)]

use larder_tests::helper::{free_port, source_root};
use larder_tests::larder::{binary, command_in, run};
use larder_tests::{Origin, Scratch, get, wait_until};
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A server that ends with the test.
struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Service {
    fn start(command: &mut Command, directory: &Path) -> Service {
        let command = command.current_dir(directory).env("RUNTIME_DIRECTORY", directory);
        Service(command.stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Reads what it prints up to a line with this text; gives all of it.
    fn printed(&mut self, text: &str) -> String {
        let mut said = String::new();
        let mut reader = BufReader::new(self.0.stderr.as_mut().unwrap());
        while !said.contains(text) {
            assert!(reader.read_line(&mut said).unwrap() > 0, "it ended:\n{said}");
        }
        said
    }
}

#[test]
fn the_service_manager_is_told_each_state() {
    let directory = Scratch::new("notify");
    let manager = UnixDatagram::bind(directory.file("notify")).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    // Signs of life come in between.
    let next = || loop {
        let mut bytes = [0; 256];
        let length = manager.recv(&mut bytes).unwrap();
        let said = String::from_utf8_lossy(&bytes[..length]).into_owned();
        if said != "WATCHDOG=1" {
            return said;
        }
    };
    let mut service = Service::start(
        Command::new(binary())
            .args(["serve", "--http", "127.0.0.1:0", "--origin", "http://127.0.0.1:1"])
            .env("NOTIFY_SOCKET", directory.file("notify"))
            .env("WATCHDOG_USEC", "2000000"),
        directory.path(),
    );
    assert_eq!(next(), "READY=1");
    let mut bytes = [0; 256];
    let length = manager.recv(&mut bytes).unwrap();
    assert_eq!(&bytes[..length], b"WATCHDOG=1");
    let (status, _, wrong) = command_in(directory.path(), &["reload"]);
    assert!(status.success(), "{wrong}");
    let said = next();
    let micros = said.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
    assert!(micros.parse::<u64>().unwrap() > 0);
    assert_eq!(next(), "READY=1");
    assert!(command_in(directory.path(), &["stop"]).0.success());
    assert_eq!(next(), "STOPPING=1");
    assert!(service.0.wait().unwrap().success());
}

#[test]
fn sockets_of_systemd_are_used_by_their_address_and_by_their_name() {
    let origin = Origin::serving(&["Cache-Control: max-age=600"], "page");
    for (name, configured) in [("other", true), ("http", false)] {
        let directory = Scratch::new("activate");
        let port = free_port();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let listen = if configured { address.to_string() } else { "127.0.0.1:1".to_owned() };
        let mut activate = Command::new("systemd-socket-activate");
        activate.arg("--listen").arg(address.to_string()).arg("--fdname").arg(name);
        activate.args(["--setenv", "RUNTIME_DIRECTORY"]);
        activate.arg(binary()).args(["serve", "--threads", "2", "--http", &listen]);
        let mut service =
            Service::start(activate.args(["--origin", &origin.url()]), directory.path());
        service.printed("Listening on");
        // The first connection starts it, and waits for it.
        assert_eq!(get(address, "/").text(), "page");
        let said = service.printed("control at");
        assert!(said.contains(&format!("listening on http://{address}")), "{said}");
        for _ in 0..20 {
            assert_eq!(get(address, "/").text(), "page");
        }
        // The socket is systemd's: it stays bound when Larder has ended.
        let reloaded = command_in(directory.path(), &["reload"]);
        assert!(reloaded.0.success(), "{reloaded:?}");
        assert!(TcpListener::bind(address).is_err());
    }
}

#[test]
fn a_socket_that_nothing_is_configured_for_is_named() {
    let directory = Scratch::new("unused");
    let port = free_port();
    let address = format!("127.0.0.1:{port}");
    let mut activate = Command::new("systemd-socket-activate");
    activate.args(["--listen", &address, "--setenv", "RUNTIME_DIRECTORY"]).arg(binary());
    activate.args(["serve", "--http", "127.0.0.1:0", "--origin", "http://127.0.0.1:1"]);
    let mut service = Service::start(&mut activate, directory.path());
    service.printed("Listening on");
    let _first = std::net::TcpStream::connect(&address).unwrap();
    let said = service.printed("control at");
    assert!(said.contains(&format!("nothing is configured for the socket {address}")), "{said}");
}

/// The lines of /proc/PID/task/*/status about users and groups, for every thread.
fn identities(pid: u32) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    tasks
        .map(|task| {
            let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
            let about = |line: &&str| {
                ["Uid:", "Gid:", "Groups:", "CapPrm:", "CapEff:"]
                    .iter()
                    .any(|name| line.starts_with(name))
            };
            let lines: Vec<_> = status.lines().filter(about).collect();
            lines.join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
        })
        .collect()
}

#[test]
fn root_becomes_another_user_with_all_threads() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let directory = Scratch::new("user");
    std::fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    let config = directory.write(
        "larder.toml",
        "user = \"nobody\"\nthreads = 2\nmemory = \"32MiB\"\ncontrol = \"run\"\n[http]\nlisten = \
         [\"127.0.0.1:0\"]\n[memcached]\nlisten = [\"127.0.0.1:0\"]\n[[site]]\norigin = \
         \"http://127.0.0.1:1\"\n",
    );
    let mut service = Service::start(
        Command::new(binary()).arg("serve").arg("--config").arg(config),
        directory.path(),
    );
    let said = service.printed("runs as user nobody");
    let socket = directory.path().join(format!("run/{}.sock", service.0.id()));
    assert!(said.contains(&format!("control at unix:{}", socket.display())), "{said}");
    let user = "Uid: 65534 65534 65534 65534 Gid: 65534 65534 65534 65534 Groups: 65534 CapPrm: \
                0000000000000000 CapEff: 0000000000000000";
    let threads = identities(service.0.id());
    assert!(threads.len() >= 4 && threads.iter().all(|thread| thread == user), "{threads:?}");
    // Root may still give orders.
    let (status, _, wrong) = run(&["stop", &format!("unix:{}", socket.display())]);
    assert!(status.success(), "{wrong}");
    assert!(service.0.wait().unwrap().success());
    assert!(!socket.exists());
}

#[test]
fn only_root_becomes_another_user() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let directory = Scratch::new("norights");
    std::fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777))
        .unwrap();
    // The binary may be where another user cannot go.
    let program = directory.file("larder");
    std::fs::copy(binary(), &program).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program);
    command.args(["serve", "--user", "daemon", "--http", "127.0.0.1:0", "--origin"]);
    let output = command.arg("http://127.0.0.1:1").current_dir(directory.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("only root can become user daemon"), "{said}");
}

#[test]
fn users_and_groups_that_are_wrong_are_named() {
    for (text, wanted) in [
        ("user = \"no-such-user\"\n", "there is no user \"no-such-user\""),
        ("group = \"daemon\"\n", "it goes with `user`"),
        ("user = \"4242\"\n", "write its `group` too"),
        (
            "user = \"nobody\"\n[[app]]\nname = \"a\"\ncommand = \"/bin/true\"\nuser = \"daemon\"\n",
            "gives up the rights of root",
        ),
    ] {
        let directory = Scratch::new("users");
        let text = format!("{text}[[site]]\norigin = \"http://127.0.0.1:1\"\n");
        let config = directory.write("larder.toml", &text);
        let (status, out, said) = run(&["check", &config.to_string_lossy()]);
        assert_eq!(status.code(), Some(2), "{out}{said}");
        assert!(said.contains(wanted) || out.contains(wanted), "{out}{said}");
    }
}

/// systemd's own word on the unit files, with a program in the place that they name.
#[test]
fn the_units_are_sound_and_safe() {
    let root = Scratch::new("units");
    let units = root.path().join("etc/systemd/system");
    std::fs::create_dir_all(&units).unwrap();
    let from = source_root().join("contrib/systemd");
    for (unit, program) in [("larder.service", true), ("larder.socket", false)] {
        let text = std::fs::read_to_string(from.join(unit)).unwrap();
        let text = if program { text.replace("/usr/bin/larder", "/bin/true") } else { text };
        std::fs::write(units.join(unit), text).unwrap();
    }
    let mut verify = Command::new("systemd-analyze");
    verify
        .args(["verify", "--man=no"])
        .args(["larder.service", "larder.socket"].map(|u| units.join(u)));
    let output = verify.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let about_ours: Vec<_> = said.lines().filter(|line| line.contains("larder")).collect();
    assert!(output.status.success() && about_ours.is_empty(), "{said}");

    let mut security = Command::new("systemd-analyze");
    security.args(["security", "--offline=yes", "--threshold=25", "--no-pager"]);
    let output = security.arg(units.join("larder.service")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

/// The variables of the service manager are for Larder, not for the programs it starts.
#[test]
fn programs_do_not_get_the_manager_s_variables() {
    let directory = Scratch::new("variables");
    let manager = UnixDatagram::bind(directory.file("notify")).unwrap();
    let out = directory.file("out");
    let config = directory.write(
        "larder.toml",
        &format!(
            "memory = \"32MiB\"\n[http]\nlisten = [\"127.0.0.1:0\"]\n[[app]]\nname = \"a\"\ncommand = \
             [\"/bin/sh\", \"-c\", \"env > {0}.part; mv {0}.part {0}; sleep 60\"]\n[[site]]\norigin = \
             \"app:a\"\n",
            out.display()
        ),
    );
    let _service = Service::start(
        Command::new(binary())
            .args(["serve", "--config"])
            .arg(config)
            .env("NOTIFY_SOCKET", directory.file("notify")),
        directory.path(),
    );
    wait_until("the program to say what it was given", || out.exists());
    let mut said = String::new();
    std::fs::File::open(&out).unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("PATH=") && !said.contains("NOTIFY_SOCKET"), "{said}");
    drop(manager);
}
