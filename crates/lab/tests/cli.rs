//! The program `larder-lab` by itself. (That this package has an integration test makes
//! `cargo test --workspace` build the program, which the wire tests start through `larder`.)

use std::{fs, path::Path, process::Command};

#[test]
fn version_and_help_name_the_three_commands() {
    let run = |argument: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_larder-lab")).arg(argument).output();
        let output = output.expect("larder-lab runs");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let version = format!("larder-lab {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(run("--version"), (Some(0), version));
    let (code, help) = run("--help");
    assert_eq!(code, Some(0));
    for command in ["bench", "slow", "lab"] {
        assert!(help.contains(&format!("\n  {command} ")), "{help}");
    }
    assert_eq!(run("serve").0, Some(2));
}

#[test]
fn without_larder_a_comparison_says_what_to_install() {
    let own = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("alone-{}", std::process::id()));
    fs::create_dir_all(&own).expect("a directory");
    let program = own.join("larder-lab");
    fs::hard_link(env!("CARGO_BIN_EXE_larder-lab"), &program).expect("a link");
    for arguments in [&["bench", "compare"][..], &["bench", "peer", "larder"]] {
        let output = Command::new(&program).args(arguments).env("PATH", "").output();
        let output = output.expect("larder-lab runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(4), "{said}");
        assert!(said.contains("`cargo install --path crates/larder` brings it"), "{said}");
    }
    fs::remove_dir_all(&own).expect("a directory of this test");
}
