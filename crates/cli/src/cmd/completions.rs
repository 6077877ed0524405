//! `completions`: prints the completion script of a shell.

use std::io::{self, Write};

use clap::Command;
use clap_complete::{Shell, generate};

use crate::verdict::Verdict;

/// Print a script that completes the commands and options of unspool in a shell
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

pub(crate) fn run(args: &Args, command: &Command) -> anyhow::Result<Verdict> {
    let mut script = Vec::new();
    generate(args.shell, &mut without_hidden(command), "unspool", &mut script);
    io::stdout().write_all(&script)?;
    Ok(Verdict::Clean)
}

/// The command line without the commands that help does not list: scripts would offer them.
fn without_hidden(command: &Command) -> Command {
    let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned();
    let arguments = command.get_arguments().cloned();
    Command::new("unspool").version(env!("UNSPOOL_VERSION")).args(arguments).subcommands(shown)
}
