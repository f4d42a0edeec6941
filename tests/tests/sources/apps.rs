//! Applications that Larder runs: started, killed, reloaded, stopped.

#![allow(clippy::unwrap_used)]

use larder_tests::apps::{children, more, number, php, pid, printed, runs, shell, visitors};
use larder_tests::{Larder, Scratch, get, helper::free_port, wait_for, wait_until};
use rustix::process::{Signal, getuid, kill_process};
use std::fs;
use std::process::{Child, Command, Stdio};

/// An application over HTTP on the socket that is its descriptor 3, as systemd hands it over.
const PYTHON: &str = r#"
import os, socket, sys, time
assert os.environ["LISTEN_FDS"] == "1" and os.environ["LISTEN_PID"] == str(os.getpid())
listener = socket.socket(fileno=3)
assert os.fstat(0).st_ino == os.fstat(3).st_ino
print("python says hello")
print("\x1b[31m" + "x" * 5000, file=sys.stderr)
sys.stdout.flush()
while True:
    conn, _ = listener.accept()
    head = conn.recv(65536)
    body = b"pid=%d path=%s\n" % (os.getpid(), head.split()[1])
    conn.sendall(b"HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nConnection: close\r\n"
                 b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    conn.close()
"#;

#[test]
fn php_runs_behind_a_site_with_its_variables_and_ends_with_larder() {
    let (config, _site) = php("processes = 2\nenv = [\"COLOUR=red\", \"-HOME\"]");
    let mut larder = Larder::with_config(&config);
    let text = get(larder.addr(), "/").assert_status(200).text().to_owned();
    assert!(text.ends_with("env=red\n"), "{text}");
    assert_eq!(number(&text, "parent"), larder.pid());
    wait_until("two processes", || children(larder.pid(), "php-cgi").len() == 2);
    let processes = children(larder.pid(), "php-cgi");
    let directory = larder.dir().join(format!("larder-{}", larder.pid()));
    assert!(directory.join("php.sock").exists());
    larder.term();
    assert!(larder.wait_exit().success());
    assert!(!processes.into_iter().any(runs));
    assert!(!directory.exists(), "the sockets go with the server");
}

#[test]
fn killed_processes_are_started_again_and_no_visitor_notices() {
    let (config, _site) = php("");
    let larder = Larder::with_config(&config);
    let (pages, killed) = visitors(&larder, |pages| {
        let mut killed = Vec::new();
        for _ in 0..4 {
            more(pages, 20);
            // One process: while it is started again, there is none.
            let process = wait_for("the process", || {
                children(larder.pid(), "php-cgi").into_iter().find(|pid| !killed.contains(pid))
            });
            kill_process(pid(process), Signal::KILL).unwrap();
            killed.push(process);
        }
        more(pages, 20);
        killed
    });
    assert!(pages >= 100);
    for process in killed {
        let told = format!("larder: app php: process {process} ended: signal 9; ");
        wait_until("the end to be told", || larder.stderr().contains(&told));
        assert!(!runs(process));
    }
}

#[test]
fn a_reload_replaces_processes_and_no_visitor_notices() {
    let (config, _site) = php("processes = 2\nenv = \"COLOUR=red\"");
    let larder = Larder::with_config(&config);
    wait_until("two processes", || children(larder.pid(), "php-cgi").len() == 2);
    let before = children(larder.pid(), "php-cgi");
    visitors(&larder, |pages| {
        more(pages, 20);
        larder.rewrite_config(
            &config.replace("red", "blue").replace("processes = 2", "processes = 3"),
        );
        larder.hup();
        wait_until("the new processes", || larder.stderr().contains("app php: 3 new processes"));
        more(pages, 20);
    });
    assert!(get(larder.addr(), "/").text().ends_with("env=blue\n"));
    wait_until("the old ones to end", || !before.iter().copied().any(runs));
    wait_until("three processes", || children(larder.pid(), "php-cgi").len() == 3);
}

#[test]
fn new_processes_that_do_not_run_leave_the_old_ones() {
    let (config, _site) = php("env = \"COLOUR=red\"");
    let larder = Larder::with_config(&config);
    get(larder.addr(), "/").assert_status(200);
    let before = children(larder.pid(), "php-cgi");
    visitors(&larder, |pages| {
        larder.rewrite_config(&config.replace("php-cgi -d", "no-such-program -d"));
        larder.hup();
        let told = "app php: new processes do not answer; the old ones stay";
        wait_until("the failure", || larder.stderr().contains(told));
        more(pages, 20);
    });
    assert_eq!(children(larder.pid(), "php-cgi"), before);
    // Mistakes in the file change nothing.
    larder.rewrite_config(&config.replace("command", "comand"));
    larder.hup();
    wait_until("the mistake", || larder.stderr().contains("stays as it was"));
    assert_eq!(children(larder.pid(), "php-cgi"), before);
}

#[test]
fn an_application_may_leave_and_come_with_a_reload() {
    let (config, site) = php("");
    let without = format!("[[site]]\norigin = \"files:{}\"\n", site.path().display());
    let larder = Larder::with_config(&without);
    larder.rewrite_config(&config);
    larder.hup();
    wait_until("the application", || get(larder.addr(), "/?1").text().contains("pid="));
    let process = children(larder.pid(), "php-cgi")[0];
    larder.rewrite_config(&without);
    larder.hup();
    wait_until("its end", || !runs(process));
    wait_until("the second line", || {
        larder.stderr().matches("configuration reloaded").count() == 2
    });
}

#[test]
fn a_loop_of_deaths_is_slowed_down_told_and_refused_at_once() {
    let scratch = Scratch::new("loop");
    let good = scratch.file("good");
    let script = format!("test -e {} || exit 3; exec php-cgi", good.display());
    let larder = Larder::with_config(&shell("bad", &script, ""));
    wait_until("the loop", || larder.stderr().contains("its processes end again and again"));
    let starts = larder.stderr().matches("ended: exit code 3").count();
    assert!(starts >= 5, "{}", larder.stderr());
    // Nobody listens: the answer does not wait for the application.
    wait_until("a refusal", || get(larder.addr(), "/").status == 502);
    larder.usr1();
    wait_until("the figures", || larder.stderr().contains("larder: apps.bad.failing 1\n"));
    fs::write(&good, "").unwrap();
    wait_until("the recovery", || {
        larder.stderr().contains("app bad[") && { larder.stderr().contains("]: runs again") }
    });
    // PHP without a script says so: it answers.
    wait_until("an answer", || get(larder.addr(), "/").status == 404);
}

#[test]
fn an_application_over_http_gets_its_socket_as_systemd_hands_it_over() {
    over_http(&format!("listen = {}", free_port()));
}

#[test]
fn an_application_over_http_may_have_a_unix_socket() {
    over_http("");
}

fn over_http(listen: &str) {
    let scratch = Scratch::new("python");
    let script = scratch.write("app.py", PYTHON);
    let config = format!(
        "[[app]]\nname = \"py\"\nprotocol = \"http\"\n{listen}\nready = \"/up\"\ncommand = \
         [\"/usr/bin/python3\", \"-u\", \"{}\"]\n[[site]]\norigin = \"app:py\"\n",
        script.display()
    );
    let larder = Larder::with_config(&config);
    let (_, process) = visitors(&larder, |pages| {
        more(pages, 5);
        let process = children(larder.pid(), "app.py")[0];
        kill_process(pid(process), Signal::KILL).unwrap();
        more(pages, 20);
        larder.hup();
        wait_until("the new process", || larder.stderr().contains("app py: 1 new processes"));
        more(pages, 5);
        process
    });
    let text = get(larder.addr(), "/a?b").text().to_owned();
    assert!(text.ends_with("path=/a?b\n"), "{text}");
    // Lines go to the log with name and number, without what drives a terminal, in pieces.
    let printed = larder.stderr();
    assert!(printed.contains(&format!("larder: app py[{process}]: python says hello\n")));
    assert!(printed.contains(&format!("larder: app py[{process}]: [31mxxx")), "{printed}");
    assert!(printed.lines().all(|line| line.len() < 2200), "{printed}");
}

#[test]
fn a_flood_of_lines_is_cut() {
    let larder = Larder::with_config(&shell("loud", "seq 5000; exec sleep 1000", ""));
    wait_until("all lines to be read", || {
        larder.usr1();
        larder.stderr().contains("larder: apps.loud.lines_dropped 4")
    });
    let printed = larder.stderr();
    let lines = printed.lines().filter(|line| line.contains("app loud[")).count();
    // A busy machine may take more than one second for them.
    assert!((1..=900).contains(&lines), "{lines}");
}

#[test]
fn nothing_is_left_when_larder_is_killed() {
    // A process of its own accord, in the group of the application.
    let script = "sleep 1000 & echo grandchild=$!; exec sleep 2000";
    let mut larder = Larder::with_config(&shell("tree", script, ""));
    let grandchild = printed(&larder, "grandchild=");
    let child = wait_for("the child", || children(larder.pid(), "sleep 2000").pop());
    let guard = children(larder.pid(), "app-guard");
    assert!(runs(grandchild) && runs(child) && guard.len() == 1);
    kill_process(pid(larder.pid()), Signal::KILL).unwrap();
    larder.wait_exit();
    wait_until("all to end", || ![grandchild, child, guard[0]].into_iter().any(runs));
}

#[test]
fn a_process_that_ignores_its_signal_is_killed_with_its_group() {
    let script = "trap '' TERM; sleep 1000 & echo grandchild=$!; wait; sleep 1000";
    let mut larder = Larder::with_config(&shell("deaf", script, "stop_timeout = \"300ms\""));
    let grandchild = printed(&larder, "grandchild=");
    larder.term();
    assert!(larder.wait_exit().success());
    // It has its signal; the system ends it in its own time.
    wait_until("the grandchild to end", || !runs(grandchild));
}

#[test]
fn limits_users_and_directories_are_those_of_the_configuration() {
    let scratch = Scratch::new("facts");
    let root = getuid().is_root();
    let owner = if root { "user = \"nobody\"\ngroup = \"www-data\"\n" } else { "" };
    let lines = format!(
        "{owner}cwd = {:?}\nlimits = {{ nofile = 77, core = 0, memory = \"1GiB\" }}",
        scratch.path()
    );
    let script = "echo limit=$(ulimit -n) $(ulimit -v) $(pwd -P) $(id -un):$(id -gn).; \
                  exec sleep 1000";
    let larder = Larder::with_config(&shell("facts", script, &lines));
    let directory = fs::canonicalize(scratch.path()).unwrap();
    let owner = if root { "nobody:www-data." } else { "" };
    let expected = format!("limit=77 1048576 {} {owner}", directory.display());
    wait_until("the facts", || larder.stderr().contains(&expected));
}

#[test]
fn as_process_1_larder_waits_for_processes_that_lost_their_parents() {
    if !getuid().is_root() {
        return;
    }
    let scratch = Scratch::new("one");
    let script = "sh -c 'sleep 900 & true'; exec sleep 1000";
    let config = format!(
        "memory = \"64MiB\"\nthreads = 1\n{}[http]\nlisten = \"127.0.0.1:0\"\n",
        shell("tree", script, "")
    );
    let path = scratch.write("larder.toml", &config);
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc", "--kill-child", "--"]);
    command.arg(larder_tests::larder::binary()).args(["serve", "--config"]).arg(path);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // The directory of sockets has the number of the process in its name.
    command.env("TMPDIR", scratch.path());
    let container = Container(command.spawn().unwrap());
    let larder = wait_for("Larder", || children(container.0.id(), "larder").pop());
    // The shells that start it have its words in theirs.
    let is_sleep = |pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n")
    };
    let orphan =
        wait_for("the orphan", || children(larder, "sleep 900 ").into_iter().find(is_sleep));
    kill_process(pid(orphan), Signal::KILL).unwrap();
    // One that nobody has waited for would stay in the table.
    wait_until("its end", || !fs::exists(format!("/proc/{orphan}")).unwrap());
    assert_eq!(children(larder, "sleep 1000 ").len(), 1);
}

/// Killed when dropped, with all that runs in it.
struct Container(Child);

impl Drop for Container {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn old_processes_are_replaced_by_age() {
    // Of its own accord PHP ends after 500 requests.
    let (config, _site) = php("max_age = \"1s\"\nenv = [\"PHP_FCGI_MAX_REQUESTS=1000000\"]");
    let larder = Larder::with_config(&config);
    let first = number(get(larder.addr(), "/").text(), "pid");
    visitors(&larder, |_| wait_until("the first to leave", || !runs(first)));
    assert!(!larder.stderr().contains("ended:"), "{}", larder.stderr());
}

#[test]
fn mistakes_of_the_configuration_are_told() {
    let scratch = Scratch::new("check");
    let true_app = "[[app]]\nname = \"x\"\ncommand = \"true\"\n";
    for (text, message) in [
        ("", "there is no [[app]] \"x\""),
        ("[[app]]\nname = \"y\"\ncommand = \"true\"\n", "there is no [[app]] \"x\""),
        ("[[app]]\nname = \"x\"\n", "command"),
        ("[[app]]\nname = \"x\"\ncommand = []\n", "expected a program"),
        (&format!("{true_app}{true_app}"), "two applications of the name"),
        ("[[app]]\nname = \"x\"\ncommand = \"true\"\nuser = \"no-such-user\"\n", "no user"),
        ("[[app]]\nname = \"x\"\ncommand = \"true\"\nlisten = \"x\"\n", "expected \"auto\""),
    ] {
        let path = scratch.write("larder.toml", &format!("{text}[[site]]\norigin = \"app:x\"\n"));
        let (status, _, printed) = larder_tests::larder::run(&["check", path.to_str().unwrap()]);
        assert_eq!(status.code(), Some(2), "{text}");
        assert!(printed.contains(message), "{text}{printed}");
    }
}
