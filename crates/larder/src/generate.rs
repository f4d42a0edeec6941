//! `larder generate`, a hidden command: man pages and completions, from the same definition as
//! `--help`.

use std::{fs, io, path::Path, process::ExitCode};

use clap::CommandFactory;
use clap_complete::Shell;

use crate::{cli::Cli, exit};

/// Writes `man/*.1`, and the completions of each shell.
pub(crate) fn run(directory: &Path) -> ExitCode {
    match write(directory) {
        Ok(()) => exit::DONE,
        Err(error) => {
            eprintln!("larder generate: {}: {error}", directory.display());
            ExitCode::from(exit::NOTHING)
        }
    }
}

fn write(directory: &Path) -> io::Result<()> {
    let man = directory.join("man");
    fs::create_dir_all(&man)?;
    clap_mangen::generate_to(Cli::command(), &man)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut Cli::command(), "larder", directory)?;
    }
    Ok(())
}
