//! `man`: writes the manual pages, one for the program and one for each verb. Hidden, since packages call it.
//!
//! The pages have the text of `--help`. Examples keep their lines; the text after them is filled.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::diagnostic;
use crate::verdict::Verdict;

/// Write the manual pages of unspool and its verbs
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder for the pages, such as /usr/share/man/man1; it is created if needed
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub(crate) fn run(args: &Args, command: Command) -> anyhow::Result<Verdict> {
    let directory = args.directory.display();
    fs::create_dir_all(&args.directory).with_context(|| format!("cannot create {directory}"))?;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned();
    let pages: Vec<Command> = verbs.chain([command.clone()]).collect();
    for page in &pages {
        let name = page.get_display_name().unwrap_or_else(|| page.get_name());
        let path = args.directory.join(format!("{name}.1"));
        fs::write(&path, render(page)?).with_context(|| format!("cannot write {}", path.display()))?;
    }
    diagnostic::note(format_args!("{directory}: {} manual pages", pages.len()));
    Ok(Verdict::Clean)
}

fn render(command: &Command) -> anyhow::Result<Vec<u8>> {
    let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let (mut page, man) = (Vec::new(), Man::new(command.clone()));
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.get_subcommands().any(|verb| !verb.is_hide_set()) {
        man.render_subcommands_section(&mut page)?;
    }
    after_help(&text).to_writer(&mut page)?;
    Ok(page)
}

/// Sections of the text after the options: examples, then notes.
fn after_help(text: &str) -> Roff {
    let mut roff = Roff::default();
    let mut is_filled = true;
    let mut heading = Some("NOTES");
    for line in text.lines() {
        let is_example = line.starts_with(' ');
        if is_example == is_filled {
            roff.control(if is_example { "nf" } else { "fi" }, []);
            is_filled = !is_example;
        }
        match line {
            "Examples:" => {
                roff.control("SH", ["EXAMPLES"]);
                continue;
            }
            "" => {
                roff.control("PP", []);
                continue;
            }
            _ if !is_example => {
                if let Some(heading) = heading.take() {
                    roff.control("SH", [heading]);
                }
            }
            _ => {}
        }
        roff.text([roman(line)]);
    }
    if !is_filled {
        roff.control("fi", []);
    }
    roff
}
