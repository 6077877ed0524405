//! `completions`: prints the completion script of a shell.

use std::io::{self, Write};

use clap::Command;
use clap_complete::{Shell, generate};

use crate::verdict::Verdict;

/// Print a script that completes the verbs and options of unspool in a shell
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Shell that runs the script
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  unspool completions bash > ~/.local/share/bash-completion/completions/unspool
  unspool completions zsh > ~/.zfunc/_unspool
  unspool completions fish > ~/.config/fish/completions/unspool.fish

bash and fish find the script at the next start. zsh needs ~/.zfunc in its fpath before compinit runs.";

pub(crate) fn run(args: &Args, command: &mut Command) -> anyhow::Result<Verdict> {
    let mut script = Vec::new();
    generate(args.shell, command, "unspool", &mut script);
    io::stdout().write_all(&script)?;
    Ok(Verdict::Clean)
}
