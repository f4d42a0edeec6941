//! Debian's package, the tarball and the container's root, made of the binary under test.

#![allow(clippy::unwrap_used)]

use larder_tests::Scratch;
use larder_tests::helper::source_root;
use larder_tests::larder::binary;
use std::path::Path;
use std::process::Command;

/// Runs a program to its end; gives what it printed.
#[track_caller]
fn done(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    said
}

/// A directory with the binary alone, as a release has it.
fn programs(scratch: &Scratch) -> std::path::PathBuf {
    let directory = scratch.path().join("bin");
    std::fs::create_dir(&directory).unwrap();
    std::os::unix::fs::symlink(binary(), directory.join("larder")).unwrap();
    directory
}

fn script(path: &str) -> Command {
    Command::new(source_root().join(path))
}

#[test]
fn the_first_hour_with_the_package_and_with_the_container() {
    let scratch = Scratch::new("package");
    let bin = programs(&scratch);
    let (out, image) = (scratch.path().join("out"), scratch.path().join("image"));
    done(script("scripts/deb.sh").arg(&bin).arg(&out));
    let deb = std::fs::read_dir(&out).unwrap().next().unwrap().unwrap().path();
    let about = done(Command::new("dpkg-deb").arg("--info").arg(&deb));
    assert!(about.contains("Package: larder") && about.contains("conffiles"), "{about}");
    if !rustix::process::geteuid().is_root() {
        return;
    }
    done(script("scripts/image.sh").arg(&bin).arg(&image));
    let said = done(script("tests/package/first-hour.sh").arg(deb).arg(image));
    assert!(said.contains("== done\n"), "{said}");
}

#[test]
fn the_tarball_has_programs_manual_completions_and_units() {
    let scratch = Scratch::new("dist");
    let bin = programs(&scratch);
    let out = scratch.path().join("out");
    let said = done(script("scripts/dist.sh").arg(&bin).arg(&out));
    let tarball = said.lines().last().unwrap().to_owned();
    let listed = done(Command::new("tar").arg("-tzf").arg(&tarball));
    for wanted in [
        "usr/bin/larder",
        "usr/share/man/man1/larder.1.gz",
        "usr/share/man/man1/larder-purge.1.gz",
        "usr/share/bash-completion/completions/larder",
        "usr/share/zsh/vendor-completions/_larder",
        "usr/share/fish/vendor_completions.d/larder.fish",
        "lib/systemd/system/larder.service",
        "usr/share/doc/larder/configuration.md",
    ] {
        let found = listed.lines().any(|line| line.ends_with(&format!("/{wanted}")));
        assert!(found, "{wanted} is missing:\n{listed}");
    }
    done(Command::new("tar").arg("-xzf").arg(&tarball).arg("-C").arg(&out));
    let root = Path::new(&tarball).with_extension("").with_extension("");
    let version = done(Command::new(root.join("usr/bin/larder")).arg("--version"));
    assert!(root.to_string_lossy().contains(version.trim().split(' ').next_back().unwrap()));
    let page = root.join("usr/share/man/man1/larder-serve.1.gz");
    let page = done(Command::new("gzip").arg("-dc").arg(page));
    // The same words as in `--help` and docs/configuration.md.
    assert!(page.contains("Memory for all data, including the index."), "{page}");
}
